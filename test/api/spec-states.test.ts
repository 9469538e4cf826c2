// Part 3 of the specification: what becomes of charges, deposits, payouts and withdrawals, and of the money with them.
// How a number behaves is in its last two digits.

import t, { type Test } from 'tap';
import { bodyOf, type Currency, COUNTRY_OF, type Merchant, numberOf, openMerchant } from './merchants.ts';
import { startService } from './start.ts';

const service = await startService({ WALLET_COOLING_OFF_SECONDS: '1', PROVIDER_ANSWER_WAIT_MS: '7500' });
/** Charge money is available at once, and nobody answers in time. Wallets cool off for a day. */
const hasty = await startService({ CHARGE_RELEASE_SECONDS: '1', CHARGE_EXPIRY_SECONDS: '3' });
t.teardown(() => Promise.all([service.stop(), hasty.stop()]));

const path = (id: string): string => {
  const kinds = { chg: 'charges', dep: 'deposits', pyt: 'payouts', wdl: 'withdrawals' };
  return `/v1/${kinds[id.slice(0, 3) as keyof typeof kinds]}/${id}`;
};

async function history(merchant: Merchant, id: string): Promise<string[]> {
  const { body } = await merchant.get(`/v1/transactions/${id}`);
  return body.events.map(({ status, source }: any) => `${status} ${source}`);
}

async function ledgerOf(merchant: Merchant, id: string): Promise<string[]> {
  const { body } = await merchant.get(`/v1/transactions/${id}`);
  return body.ledger.map(({ account, side, amount, reason }: any) =>
    [reason, account, side, amount].join(' '),
  );
}

// These take their time: they run while the others do.
const slow = await openMerchant(service);
const slowAnswer = slow.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '69') }));
const clawed = await openMerchant(service);
const clawedBack = await clawed.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '70') }));
const spender = await openMerchant(hasty);
const spent = spend(spender);

// Each test has merchants of its own, and mostly waits.
t.jobs = 4;

t.test('a charge: prompted, approved, pending for a day', async (t) => {
  const merchant = await openMerchant(service);
  const { status, body } = await merchant.post('/v1/charges', bodyOf());
  t.equal(status, 201);
  t.equal(body.status, 'AWAITING_CUSTOMER');
  const charge = await merchant.finished(path(body.id));
  t.hasStrict(charge, { status: 'SUCCESSFUL', fee: '250', net: '9750', failure_code: null });
  t.strictSame(await history(merchant, body.id), [
    'INITIATED API',
    'PENDING_PROVIDER API',
    'AWAITING_CUSTOMER API',
    'SUCCESSFUL PROVIDER_CALLBACK',
  ]);
  t.strictSame(await merchant.balance(), { currency: 'UGX', available: '0', pending: '9750' });
  const { body: refused } = await merchant.post('/v1/payouts', bodyOf({ amount: '500' }));
  t.equal(refused.error.code, 'insufficient_balance', 'pending money cannot be spent');
});

t.test('a charge in progress moves no money', async (t) => {
  const merchant = await openMerchant(service);
  const { body } = await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '65') }));
  t.equal(body.status, 'AWAITING_CUSTOMER');
  t.strictSame(await ledgerOf(merchant, body.id), []);
  t.strictSame(await merchant.balance(), { currency: 'UGX', available: '0', pending: '0' });
});

t.test('a charge that the network settles at once, refuses outright, or sees declined', async (t) => {
  const merchant = await openMerchant(service);
  const rows: [string, string, string, string | null][] = [
    // last digits, status in the answer, in the end, failure_code
    ['68', 'SUCCESSFUL', 'SUCCESSFUL', null],
    ['57', 'FAILED', 'FAILED', 'provider_rejected'],
    ['51', 'AWAITING_CUSTOMER', 'FAILED', 'customer_declined'],
    ['76', 'AWAITING_CUSTOMER', 'FAILED', 'customer_unreachable'],
    ['64', 'AWAITING_CUSTOMER', 'FAILED', 'insufficient_funds'],
    ['55', 'AWAITING_CUSTOMER', 'FAILED', 'wallet_not_found'],
    ['75', 'AWAITING_CUSTOMER', 'FAILED', 'wallet_inactive'],
    ['52', 'AWAITING_CUSTOMER', 'FAILED', 'expired'],
    ['62', 'AWAITING_CUSTOMER', 'FAILED', 'provider_unavailable'],
    ['50', 'AWAITING_CUSTOMER', 'FAILED', 'unknown'],
  ];
  let pending = 0;
  for (const [digits, first, last, code] of rows) {
    const { status, body } = await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', digits) }));
    t.equal(status, 201, digits);
    t.equal(body.status, first, digits);
    const charge = await merchant.finished(path(body.id));
    t.hasStrict(charge, { status: last, failure_code: code }, digits);
    if (last === 'SUCCESSFUL') pending += Number(charge.net);
    else t.hasStrict(charge, { fee: '0', net: '10000' }, 'no fee for what failed');
    t.equal((await ledgerOf(merchant, body.id)).length, last === 'SUCCESSFUL' ? 3 : 0, digits);
  }
  t.equal((await merchant.balance()).pending, String(pending));
});

t.test('a deposit: available at once and in full, or not at all', async (t) => {
  const merchant = await openMerchant(service);
  const { body } = await merchant.post('/v1/deposits', bodyOf());
  t.equal(body.status, 'AWAITING_CUSTOMER');
  t.equal((await merchant.finished(path(body.id))).status, 'SUCCESSFUL');
  t.strictSame(await merchant.balance(), { currency: 'UGX', available: '10000', pending: '0' });
  t.strictSame(await ledgerOf(merchant, body.id), [
    'DEPOSIT_SETTLED PROVIDER_FLOAT DEBIT 10000',
    'DEPOSIT_SETTLED MERCHANT_AVAILABLE CREDIT 10000',
  ]);
  for (const [digits, code] of [
    ['51', 'customer_declined'],
    ['57', 'provider_rejected'],
  ]) {
    const failed = await merchant.post('/v1/deposits', bodyOf({ msisdn: numberOf('UGX', digits) }));
    t.equal(failed.status, 201);
    t.hasStrict(await merchant.finished(path(failed.body.id)), { status: 'FAILED', failure_code: code });
  }
  t.equal((await merchant.balance()).available, '10000');
});

t.test('a payout: held with its fee, paid out or returned in full', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('10500');
  const { body } = await merchant.post('/v1/payouts', bodyOf());
  t.hasStrict(body, { status: 'PENDING_PROVIDER', fee: '0', total_debited: '10000' });
  t.equal((await merchant.balance()).available, '0', 'exactly amount and fee was there');
  const payout = await merchant.finished(path(body.id));
  t.hasStrict(payout, { status: 'SUCCESSFUL', fee: '500', total_debited: '10500' });
  t.strictSame(await history(merchant, body.id), [
    'INITIATED API',
    'PENDING_PROVIDER API',
    'SUCCESSFUL PROVIDER_CALLBACK',
  ]);

  await merchant.fund('10500');
  const rows: [string, string][] = [
    ['57', 'wallet_not_found'],
    ['64', 'wallet_limit_exceeded'],
    ['75', 'wallet_inactive'],
    ['55', 'provider_rejected'],
    ['58', 'provider_rejected'],
  ];
  for (const [digits, code] of rows) {
    const { status, body: created } = await merchant.post(
      '/v1/payouts',
      bodyOf({ msisdn: numberOf('UGX', digits) }),
    );
    t.equal(status, 201);
    const failed = await merchant.finished(path(created.id));
    t.hasStrict(failed, { status: 'FAILED', failure_code: code, fee: '0', total_debited: '10000' }, digits);
    t.equal((await merchant.balance()).available, '10500', 'the hold is back, fee included');
  }
});

t.test('one unit short of amount and fee is too little, and nothing is created', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('10499');
  const destination = await merchant.wallet();
  const withdrawal = { amount: '10000', currency: 'UGX', destination, reference: 'w' };
  for (const [to, body] of [
    ['/v1/payouts', bodyOf()],
    ['/v1/withdrawals', withdrawal],
  ] as const) {
    const refused = await merchant.post(to, body);
    t.equal(refused.status, 400);
    t.equal(refused.body.error.code, 'insufficient_balance');
  }
  t.equal((await merchant.get('/v1/transactions')).body.data.length, 1, 'the deposit alone');
  t.equal((await merchant.balance()).available, '10499');
  const other = { ...bodyOf(), currency: 'KES', msisdn: numberOf('KES'), amount: '1000' };
  const { body } = await merchant.post('/v1/payouts', other);
  t.equal(body.error.code, 'insufficient_balance', 'another currency has a balance of its own');
});

// --- Withdrawals -----------------------------------------------------------------------------------------------------

/** Specification, part 3; in minor units. */
const THRESHOLDS = { UGX: 5_000_000, KES: 17_000_000, GHS: 2_000_000 } as const;

for (const [currency, threshold] of Object.entries(THRESHOLDS) as [Currency, number][]) {
  t.test(`approval of a withdrawal, strictly above ${threshold} ${currency}`, async (t) => {
    const merchant = await openMerchant(service, { country: COUNTRY_OF[currency] });
    await merchant.fund(String(threshold * 3), currency);
    const destination = await merchant.wallet(COUNTRY_OF[currency]);
    const withdraw = async (amount: number): Promise<any> => {
      const body = { amount: String(amount), currency, destination, reference: 'sweep' };
      const answer = await merchant.post('/v1/withdrawals', body);
      t.equal(answer.status, 201, answer.text);
      return answer.body;
    };
    const at = await withdraw(threshold);
    t.hasStrict(at, { status: 'PENDING_PROVIDER', approval_status: 'NOT_REQUIRED' });
    t.equal((await merchant.finished(path(at.id))).status, 'SUCCESSFUL');

    const before = Number((await merchant.balance(currency)).available);
    const above = await withdraw(threshold + 1);
    t.hasStrict(above, { status: 'INITIATED', approval_status: 'PENDING' });
    const held = before - Number((await merchant.balance(currency)).available);
    t.equal(held, Number(above.total_debited), 'held at once');
    t.strictSame(await history(merchant, above.id), ['INITIATED API'], 'not sent');

    const rejected = await merchant.operator(`/withdrawals/${above.id}/reject`, { by: merchant.owner });
    t.equal(rejected.status, 200);
    t.hasStrict(await merchant.finished(path(above.id)), {
      status: 'FAILED',
      failure_code: 'approval_rejected',
      approval_status: 'REJECTED',
    });
    t.equal(Number((await merchant.balance(currency)).available), before, 'released in full');

    const again = await withdraw(threshold + 1);
    const approved = await merchant.operator(`/withdrawals/${again.id}/approve`, { by: merchant.owner });
    t.equal(approved.status, 200);
    t.hasStrict(await merchant.finished(path(again.id)), {
      status: 'SUCCESSFUL',
      approval_status: 'APPROVED',
      failure_code: null,
    });
    t.match(await history(merchant, again.id), [
      'INITIATED API',
      'PENDING_PROVIDER DASHBOARD',
      /^SUCCESSFUL PROVIDER_/,
    ]);
  });
}

t.test('the threshold is the account’s own where it has one', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('100000');
  const destination = await merchant.wallet();
  await merchant.change({ approval_thresholds: { UGX: '20000' } });
  const rows: [string, string][] = [
    ['20000', 'NOT_REQUIRED'],
    ['20001', 'PENDING'],
  ];
  for (const [amount, approval] of rows) {
    const body = { amount, currency: 'UGX', destination, reference: 'sweep' };
    t.equal((await merchant.post('/v1/withdrawals', body)).body.approval_status, approval, amount);
  }
});

t.test('a payout wallet receives money only while it is ACTIVE', async (t) => {
  const statusOf = async (merchant: Merchant): Promise<string> =>
    (await merchant.get('/v1/payout_destinations')).body.data[0].status;
  const withdraw = async (merchant: Merchant, destination: string): Promise<string> => {
    const body = { amount: '1000', currency: 'UGX', destination, reference: 'w' };
    const answer = await merchant.post('/v1/withdrawals', body);
    return answer.status === 201 ? 'created' : `${answer.status} ${answer.body.error.code}`;
  };
  // It cools off for longer than any machine stands still.
  const early = await openMerchant(hasty);
  await early.fund('100000');
  const wallet = { label: 'Till', msisdn: numberOf('UGX'), by: early.owner };
  const { body: added } = await early.operator('/wallets', wallet);
  t.equal(await statusOf(early), 'PENDING_APPROVAL');
  t.equal(await withdraw(early, added.id), '400 destination_not_active');
  await early.operator(`/wallets/${added.id}/approve`, { by: early.owner });
  t.equal(await statusOf(early), 'COOLING_OFF');
  t.equal(await withdraw(early, added.id), '400 destination_not_active');

  const merchant = await openMerchant(service);
  await merchant.fund('100000');
  const active = await merchant.wallet();
  t.equal(await withdraw(merchant, active), 'created');
  await merchant.operator(`/wallets/${active}/revoke`, { by: merchant.owner });
  t.equal(await statusOf(merchant), 'REVOKED');
  t.equal(await withdraw(merchant, active), '400 destination_not_active');
  const foreign = await (await openMerchant(service)).wallet();
  t.equal(await withdraw(merchant, foreign), '404 destination_not_found', 'another account’s wallet');
});

t.test('a withdrawal that fails is returned', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('10500');
  const destination = await merchant.wallet('UG', '57');
  const body = { amount: '10000', currency: 'UGX', destination, reference: 'w' };
  const created = await merchant.post('/v1/withdrawals', body);
  const failed = await merchant.finished(path(created.body.id));
  t.hasStrict(failed, { status: 'FAILED', failure_code: 'wallet_not_found', fee: '500' });
  t.equal((await merchant.balance()).available, '10500');
  t.strictSame(await ledgerOf(merchant, created.body.id), [
    'WITHDRAWAL_HELD MERCHANT_AVAILABLE DEBIT 10500',
    'WITHDRAWAL_HELD SETTLEMENT_CLEARING CREDIT 10500',
    'WITHDRAWAL_RETURNED SETTLEMENT_CLEARING DEBIT 10500',
    'WITHDRAWAL_RETURNED MERCHANT_AVAILABLE CREDIT 10500',
  ]);
  const paid = await merchant.post('/v1/withdrawals', { ...body, destination: await merchant.wallet() });
  await merchant.finished(path(paid.body.id));
  t.strictSame((await ledgerOf(merchant, paid.body.id)).slice(2), [
    'WITHDRAWAL_SETTLED SETTLEMENT_CLEARING DEBIT 10500',
    'WITHDRAWAL_SETTLED PROVIDER_FLOAT CREDIT 10000',
    'WITHDRAWAL_SETTLED FEES_REVENUE CREDIT 500',
  ]);
});

// --- What takes its time ---------------------------------------------------------------------------------------------

t.test('a charge or deposit that nobody answers expires', async (t) => {
  const merchant = await openMerchant(hasty);
  for (const kind of ['charges', 'deposits']) {
    const { body } = await merchant.post(`/v1/${kind}`, bodyOf({ msisdn: numberOf('UGX', '65') }));
    t.equal(body.status, 'AWAITING_CUSTOMER');
    const expired = await merchant.finished(path(body.id));
    t.hasStrict(expired, { status: 'FAILED', failure_code: 'expired' });
  }
});

t.test('an approval that comes late, but before expiry, succeeds', async (t) => {
  const patient = await startService({ CHARGE_EXPIRY_SECONDS: '20', SIMULATOR_APPROVE_AFTER_MS: '2000' });
  t.teardown(() => patient.stop());
  const merchant = await openMerchant(patient);
  const { body } = await merchant.post('/v1/charges', bodyOf());
  t.equal(body.status, 'AWAITING_CUSTOMER');
  t.equal((await merchant.finished(path(body.id))).status, 'SUCCESSFUL');
});

t.test('a charge taken back before release leaves the pending balance', async (t) => {
  const { id } = clawedBack.body;
  await waitFor(t, clawed, id, 'REVERSED');
  t.strictSame(await ledgerOf(clawed, id), [
    'CHARGE_SETTLED PROVIDER_FLOAT DEBIT 10000',
    'CHARGE_SETTLED MERCHANT_PENDING CREDIT 9750',
    'CHARGE_SETTLED FEES_REVENUE CREDIT 250',
    'CHARGE_REVERSED MERCHANT_PENDING DEBIT 9750',
    'CHARGE_REVERSED FEES_REVENUE DEBIT 250',
    'CHARGE_REVERSED PROVIDER_FLOAT CREDIT 10000',
  ]);
  t.strictSame(await clawed.balance(), { currency: 'UGX', available: '0', pending: '0' });
});

/** Pays out what a charge brought, before it is taken back. That is seconds after it is available: where the machine stood still
 *  for as long, of another charge. */
async function spend(merchant: Merchant): Promise<{ readonly charge: string; readonly payout: string }> {
  for (let charges = 1; ; charges++) {
    const { body: charge } = await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '70') }));
    await hasty.until(
      () => ledgerOf(merchant, charge.id),
      (ledger) => ledger.some((entry) => /^CHARGE_RE(?:LEASED|VERSED) /.test(entry)),
    );
    const { body: payout } = await merchant.post('/v1/payouts', bodyOf({ amount: '9000' }));
    if (payout.error === undefined) return { charge: charge.id, payout: payout.id };
    if (charges === 5) throw new Error(payout.error.message);
  }
}

t.test(
  'a charge taken back after release leaves the available balance, which may go below zero',
  async (t) => {
    const { charge: id, payout } = await spent;
    t.hasStrict(await spender.finished(path(payout)), { status: 'SUCCESSFUL', total_debited: '9500' });
    await waitFor(t, spender, id, 'REVERSED');
    t.hasStrict((await ledgerOf(spender, id)).slice(5), [
      'CHARGE_REVERSED MERCHANT_AVAILABLE DEBIT 9750',
      'CHARGE_REVERSED FEES_REVENUE DEBIT 250',
      'CHARGE_REVERSED PROVIDER_FLOAT CREDIT 10000',
    ]);
    t.strictSame(await spender.balance(), { currency: 'UGX', available: '-9500', pending: '0' });
    const { body } = await spender.post('/v1/payouts', bodyOf({ amount: '500' }));
    t.equal(body.error.code, 'insufficient_balance');
    await spender.fund('20000');
    t.equal((await spender.balance()).available, '10500', 'what comes in pays it back first');
  },
);

t.test('a network that is slow to answer: PENDING_PROVIDER, and the service keeps checking', async (t) => {
  const answer = await slowAnswer;
  t.equal(answer.status, 201);
  t.equal(answer.body.status, 'PENDING_PROVIDER');
  const { body } = await service.until(
    () => slow.get(path(answer.body.id)),
    ({ body: charge }) => charge.status !== 'PENDING_PROVIDER' && charge.status !== 'AWAITING_CUSTOMER',
  );
  t.equal(body.status, 'SUCCESSFUL');
});

t.test('in the end every account balances', { buffered: false }, async (t) => {
  for (const [running, merchant] of [
    [service, slow],
    [service, clawed],
    [hasty, spender],
  ] as const) {
    const { body } = await running.operator(
      'GET',
      `/operator/v1/accounts/${merchant.accountId}/trial_balance`,
    );
    t.equal(body.balanced, true);
  }
});

async function waitFor(t: Test, merchant: Merchant, id: string, status: string): Promise<void> {
  const { body } = await service.until(
    () => merchant.get(path(id)),
    ({ body: object }) => object.status === status,
  );
  t.equal(body.status, status);
}
