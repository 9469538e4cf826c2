// Part 5 of the specification and what guards a create before its body counts: keys, live mode, what an account may do,
// the cash-out rate; and, as one table, in which order these are checked.

import t, { type Test } from 'tap';
import { bodyOf, type Merchant, numberOf, openMerchant } from './merchants.ts';
import { type Answer, type CallOptions, startService } from './start.ts';

// One partition: other accounts are in the same memory.
const service = await startService({ PARTITIONS: '1', WALLET_COOLING_OFF_SECONDS: '1' });
t.teardown(() => service.stop());

const UNKNOWN = '01KAJ3W8Q07M4R2N9X5T6V1B00';
const READS = [
  '/v1/charges',
  `/v1/charges/chg_${UNKNOWN}`,
  `/v1/charges/chg_${UNKNOWN}/timeline`,
  '/v1/payouts',
  `/v1/payouts/pyt_${UNKNOWN}`,
  `/v1/withdrawals/wdl_${UNKNOWN}`,
  `/v1/deposits/dep_${UNKNOWN}`,
  '/v1/transactions',
  `/v1/transactions/chg_${UNKNOWN}`,
  '/v1/balances',
  '/v1/payout_destinations',
];
const CREATES = ['/v1/charges', '/v1/payouts', '/v1/withdrawals', '/v1/deposits'];

function refusedWith(t: Test, answer: Answer, status: number, code: string): void {
  t.hasStrict({ status: answer.status, code: answer.body.error?.code }, { status, code }, answer.text);
}

/** With these options instead of a merchant's key. */
async function everywhere(options: CallOptions, check: (answer: Answer) => void): Promise<void> {
  for (const path of READS) check(await service.merchant('GET', path, options));
  for (const path of CREATES) check(await service.merchant('POST', path, { body: bodyOf(), ...options }));
}

// --- Keys ------------------------------------------------------------------------------------------------------------

t.test('without a bearer key: authentication_required, with a challenge', async (t) => {
  await everywhere({ key: null }, (answer) => {
    refusedWith(t, answer, 401, 'authentication_required');
    t.equal(answer.headers.get('www-authenticate'), 'Bearer');
  });
  for (const authorization of ['', 'Bearer', 'Bearer ', 'Basic c2s6', service.demo.secret_key]) {
    const answer = await service.merchant('GET', '/v1/balances', { key: null, headers: { authorization } });
    refusedWith(t, answer, 401, 'authentication_required');
  }
});

t.test('a key that nobody has: invalid_api_key', async (t) => {
  const { secret_key: key } = service.demo;
  const lastChanged = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');
  const ofNobody = `sk_live_${UNKNOWN}${key.slice(34)}`;
  const stranger = await openMerchant(service);
  const swapped = key.slice(0, 34) + stranger.key.slice(34);
  for (const wrong of [
    lastChanged,
    ofNobody,
    swapped,
    `${key}0`,
    'sk_live_',
    'sk_test_abc',
    'whsec_abc',
    'x',
  ]) {
    await everywhere({ key: wrong }, (answer) => refusedWith(t, answer, 401, 'invalid_api_key'));
  }
});

t.test('a publishable key reads and creates nothing', async (t) => {
  const merchant = await openMerchant(service);
  await everywhere({ key: merchant.publishableKey }, (answer) => {
    refusedWith(t, answer, 403, 'secret_key_required');
  });
});

t.test('a removed app’s key stops at once; another app’s goes on', async (t) => {
  const merchant = await openMerchant(service);
  const { body: app } = await merchant.operator('/apps', { name: 'Second', domain: 'second.test' });
  t.match(app, { secret_key: /^sk_live_/, publishable_key: /^pk_live_/, signing_secret: /^whsec_/ });
  const { body: charge } = await merchant.post('/v1/charges', bodyOf());
  const path = `/operator/v1/accounts/${merchant.accountId}/apps/${merchant.appId}`;
  t.equal((await service.operator('DELETE', path)).status, 200);
  await everywhere({ key: merchant.key }, (answer) => refusedWith(t, answer, 401, 'invalid_api_key'));
  const read = await service.merchant('GET', `/v1/charges/${charge.id}`, { key: app.secret_key });
  t.equal(read.status, 200, 'both apps see the account’s objects');
});

t.test(
  'an account that is not live: any key returns live_mode_not_enabled, and none can be created',
  async (t) => {
    const merchant = await openMerchant(service);
    await merchant.change({ live: false });
    for (const key of [merchant.key, merchant.publishableKey]) {
      await everywhere({ key }, (answer) => refusedWith(t, answer, 403, 'live_mode_not_enabled'));
    }
    const { status, body } = await merchant.operator('/apps', { name: 'Another', domain: 'another.test' });
    t.strictSame([status, body.error.code], [403, 'live_mode_not_enabled']);
    await merchant.change({ live: true });
    t.equal((await merchant.get('/v1/balances')).status, 200);
  },
);

t.test('payout wallets are listed with a key, never added or approved', async (t) => {
  const merchant = await openMerchant(service);
  const { body: wallet } = await merchant.operator('/wallets', {
    label: 'Till',
    msisdn: numberOf('UGX'),
    by: merchant.owner,
  });
  t.equal((await merchant.get('/v1/payout_destinations')).status, 200);
  t.equal((await merchant.post('/v1/payout_destinations', {})).status, 405);
  t.equal((await merchant.post(`/v1/payout_destinations/${wallet.id}/approve`, {})).status, 404);
  const onOperators = `${service.demo.operator_url}/operator/v1/accounts/${merchant.accountId}`;
  const { status } = await fetch(onOperators, { headers: { authorization: `Bearer ${merchant.key}` } });
  t.equal(status, 401, 'nor does a merchant’s key open the operators’ side');
});

// --- What an account may do ------------------------------------------------------------------------------------------

t.test('payouts and withdrawals are each switched on for the account', async (t) => {
  const merchant = await openMerchant(service, { payouts_enabled: false, withdrawals_enabled: false });
  await merchant.fund('100000');
  const withdrawal = {
    amount: '1000',
    currency: 'UGX',
    reference: 'w',
    destination: await merchant.wallet(),
  };
  refusedWith(t, await merchant.post('/v1/payouts', bodyOf()), 403, 'payouts_not_enabled_live');
  refusedWith(t, await merchant.post('/v1/withdrawals', withdrawal), 403, 'withdrawals_not_enabled_live');
  t.equal((await merchant.post('/v1/charges', bodyOf())).status, 201, 'charges are');
  t.equal((await merchant.post('/v1/deposits', bodyOf())).status, 201, 'deposits are');
  await merchant.change({ payouts_enabled: true });
  t.equal((await merchant.post('/v1/payouts', bodyOf())).status, 201);
  refusedWith(t, await merchant.post('/v1/withdrawals', withdrawal), 403, 'withdrawals_not_enabled_live');
  await merchant.change({ withdrawals_enabled: true });
  t.equal((await merchant.post('/v1/withdrawals', withdrawal)).status, 201);
});

// --- The rate --------------------------------------------------------------------------------------------------------

t.test('60 cash-outs a minute, payouts and withdrawals together; replays do not count', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('10000000');
  const destination = await merchant.wallet();
  const withdrawal = { amount: '1000', currency: 'UGX', destination, reference: 'w' };
  const payout = bodyOf({ amount: '1000' });
  const idempotencyKey = 'repeated-payout';
  const first = await merchant.post('/v1/payouts', payout, { idempotencyKey });
  for (let i = 1; i < 30; i++) t.equal((await merchant.post('/v1/payouts', payout)).status, 201);
  for (let i = 0; i < 25; i++) t.equal((await merchant.post('/v1/withdrawals', withdrawal)).status, 201);
  const replay = async (): Promise<void> => {
    const again = await merchant.post('/v1/payouts', payout, { idempotencyKey });
    t.strictSame([again.status, again.text], [201, first.text]);
  };
  for (let i = 0; i < 10; i++) await replay();
  for (let i = 0; i < 5; i++) {
    const refused = await merchant.post('/v1/payouts', bodyOf({ amount: '1' }));
    refusedWith(t, refused, 400, 'amount_below_minimum');
  }
  for (const [path, body] of [
    ['/v1/payouts', payout],
    ['/v1/withdrawals', withdrawal],
  ] as const) {
    const refused = await merchant.post(path, body);
    refusedWith(t, refused, 429, 'rate_limit_exceeded');
    const retryAfter = Number(refused.headers.get('retry-after'));
    t.ok(Number.isInteger(retryAfter) && retryAfter >= 1 && retryAfter <= 60, `Retry-After: ${retryAfter}`);
  }
  await replay();
  t.equal((await merchant.post('/v1/charges', bodyOf())).status, 201, 'charges have no such limit');
  t.equal((await merchant.post('/v1/deposits', bodyOf())).status, 201, 'nor deposits');
  const other = await openMerchant(service);
  await other.fund('20000');
  t.equal((await other.post('/v1/payouts', payout)).status, 201, 'each account has its own');
  await merchant.change({ cash_out_per_minute: 100 });
  t.equal((await merchant.post('/v1/payouts', payout)).status, 201, 'the operator can raise it');
});

// --- The order of checks ---------------------------------------------------------------------------------------------

/** Faults from the one that is told first to the one told last; each row has its own fault and all that follow. */
const ORDER: [string, number][] = [
  ['invalid_api_key', 401],
  ['live_mode_not_enabled', 403],
  ['idempotency_key_invalid', 400],
  ['idempotency_key_reused', 422],
  ['rate_limit_exceeded', 429],
  ['payouts_not_enabled_live', 403],
  ['validation_failed', 400],
  ['amount_above_maximum', 400],
  ['insufficient_balance', 400],
];

t.test('of several faults the earliest in the order of checks is told', async (t) => {
  const merchant = await openMerchant(service);
  const has = (code: string, from: number): boolean => ORDER.findIndex(([known]) => known === code) >= from;
  await merchant.fund('501');
  await merchant.change({ cash_out_per_minute: 1 });
  const usedKey = 'a-key-used-before';
  t.equal((await merchant.post('/v1/charges', bodyOf(), { idempotencyKey: usedKey })).status, 201);
  t.equal((await merchant.post('/v1/payouts', bodyOf())).status, 400, 'takes the one cash-out of the minute');

  for (const [from, [code, status]] of ORDER.entries()) {
    await merchant.change({
      live: !has('live_mode_not_enabled', from),
      payouts_enabled: !has('payouts_not_enabled_live', from),
      cash_out_per_minute: has('rate_limit_exceeded', from) ? 1 : 1_000,
    });
    const body = {
      ...bodyOf({ amount: has('amount_above_maximum', from) ? '10000001' : '1000' }),
      ...(has('validation_failed', from) ? { reference: 'not a reference' } : {}),
    };
    let idempotencyKey = `fresh-key-${from}`;
    if (has('idempotency_key_reused', from)) idempotencyKey = usedKey;
    if (has('idempotency_key_invalid', from)) idempotencyKey = 'short';
    const key = has('invalid_api_key', from) ? `${merchant.key}x` : merchant.key;
    refusedWith(t, await merchant.post('/v1/payouts', body, { key, idempotencyKey }), status, code);
  }
  t.equal((await merchant.get('/v1/payouts')).body.data.length, 0, 'and nothing was created');
  t.equal((await merchant.balance()).available, '501');
});

t.test('within the field rules: amount and form, number, currency, network; then limits', async (t) => {
  const merchant: Merchant = await openMerchant(service);
  const rows: [object, string][] = [
    [{ msisdn: 'x', currency: 'KES', amount: '01', network: 'NONE' }, 'validation_failed'],
    [{ msisdn: 'x', currency: 'KES', amount: '1' }, 'invalid_msisdn'],
    [{ msisdn: '+254711000001', currency: 'UGX', amount: '1' }, 'currency_mismatch'],
    [{ msisdn: '+254711000001', currency: 'KES', amount: '1' }, 'network_required'],
    [{ msisdn: '+254733000001', currency: 'KES', amount: '1' }, 'amount_below_minimum'],
    [{ msisdn: '+254733000001', currency: 'KES', amount: '1000' }, 'insufficient_balance'],
  ];
  for (const [fields, code] of rows) {
    refusedWith(t, await merchant.post('/v1/payouts', bodyOf({ ...fields })), 400, code);
  }
});

t.test('for a read: key, live mode, then the query and the id', async (t) => {
  const merchant = await openMerchant(service);
  const path = '/v1/charges?limit=0&colour=red';
  refusedWith(t, await service.merchant('GET', path, { key: `${merchant.key}x` }), 401, 'invalid_api_key');
  await merchant.change({ live: false });
  refusedWith(t, await merchant.get(path), 403, 'live_mode_not_enabled');
  await merchant.change({ live: true });
  t.equal((await merchant.get(path)).status, 400);
});

// --- Every reply -----------------------------------------------------------------------------------------------------

t.test('every error has one shape, and the id of its request; no two requests share one', async (t) => {
  const merchant = await openMerchant(service);
  const seen = new Set<string>();
  const answers = [
    await merchant.get('/v1/balances'),
    await merchant.get('/v1/charges?limit=0'),
    await merchant.get('/v1/nothing'),
    await merchant.get(`/v1/charges/chg_${UNKNOWN}`),
    await merchant.post('/v1/charges', {}),
    await merchant.post('/v1/charges', '{'),
    await merchant.post('/v1/payouts', bodyOf()),
  ];
  for (const { status, body, headers } of answers) {
    const requestId = headers.get('request-id')!;
    seen.add(requestId);
    t.equal(headers.get('content-type'), 'application/json');
    if (status < 400) continue;
    t.strictSame(Object.keys(body), ['error']);
    t.strictSame(Object.keys(body.error), ['code', 'message', 'param', 'request_id']);
    t.equal(body.error.request_id, requestId);
    t.type(body.error.message, 'string');
  }
  t.equal(seen.size, answers.length);
});
