// Part 4 of the specification, Idempotency-Key: a create may be sent any number of times, at once or over years of
// restarts, and there is one object and one answer, byte for byte.

import t, { type Test } from 'tap';
import { type ServiceProcess, startProcess } from '../crash/service-process.ts';
import { bodyOf, numberOf, openMerchant } from './merchants.ts';
import { assertMatchesOpenApi } from './openapi-check.ts';
import { type Answer, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

// One partition: other accounts are in the same memory.
const service = await startService({
  PARTITIONS: '1',
  CASH_OUT_PER_MINUTE: '1000',
  WALLET_COOLING_OFF_SECONDS: '1',
});
t.teardown(() => service.stop());

const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true';

function isReplayOf(t: Test, again: Answer, first: Answer, what = 'replay'): void {
  t.strictSame([again.status, again.text], [201, first.text], what);
  t.ok(isReplay(again), 'it says so');
  t.not(again.headers.get('request-id'), first.headers.get('request-id'), 'it is a request of its own');
}

t.test('50 duplicates at once: one object, one answer, one that is no replay', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('1000000');
  const destination = await merchant.wallet();
  const bodies: [string, object][] = [
    ['/v1/charges', bodyOf()],
    ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '68') })],
    ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '71') })],
    ['/v1/deposits', bodyOf()],
    ['/v1/payouts', bodyOf()],
    ['/v1/withdrawals', { amount: '1000', currency: 'UGX', destination, reference: 'w' }],
  ];
  for (const [i, [path, body]] of bodies.entries()) {
    const before = (await merchant.get('/v1/transactions?limit=100')).body.data.length;
    const options = { idempotencyKey: `at-once-${i}` };
    const answers = await Promise.all(Array.from({ length: 50 }, () => merchant.post(path, body, options)));
    t.equal(new Set(answers.map(({ text }) => text)).size, 1, `${path}: byte-identical`);
    t.ok(answers.every(({ status }) => status === 201));
    t.equal(answers.filter((answer) => !isReplay(answer)).length, 1, 'exactly one made it');
    t.equal((await merchant.get('/v1/transactions?limit=100')).body.data.length, before + 1);
  }
});

t.test('duplicates of a payout hold and send its money once', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('21000');
  const options = { idempotencyKey: 'pay-them-once' };
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => merchant.post('/v1/payouts', bodyOf(), options)),
  );
  const { id } = answers[0]!.body;
  await merchant.finished(`/v1/payouts/${id}`);
  t.equal((await merchant.balance()).available, '10500');
});

t.test('a replay shows the answer as it was, although the object has moved on', async (t) => {
  const merchant = await openMerchant(service);
  for (const [path, status] of [
    ['/v1/charges', 'AWAITING_CUSTOMER'],
    ['/v1/deposits', 'AWAITING_CUSTOMER'],
    ['/v1/payouts', 'PENDING_PROVIDER'],
  ] as const) {
    const options = { idempotencyKey: `moved-on-${path}` };
    const first = await merchant.post(path, bodyOf({ amount: '1000' }), options);
    if (path === '/v1/payouts') t.equal(first.body.error?.code, 'insufficient_balance');
    if (first.status !== 201) await merchant.fund('10000');
    const made =
      first.status === 201 ? first : await merchant.post(path, bodyOf({ amount: '1000' }), options);
    t.equal(made.body.status, status);
    t.notOk(isReplay(made), 'an error is not stored: the same key may still succeed');
    t.equal((await merchant.finished(`${path}/${made.body.id}`)).status, 'SUCCESSFUL');
    isReplayOf(t, await merchant.post(path, bodyOf({ amount: '1000' }), options), made);
  }
});

t.test('refused outright is an answer like any other: its replay is the same FAILED charge', async (t) => {
  const merchant = await openMerchant(service);
  const options = { idempotencyKey: 'refused-outright' };
  const body = bodyOf({ msisdn: numberOf('UGX', '57') });
  const first = await merchant.post('/v1/charges', body, options);
  t.equal(first.body.status, 'FAILED');
  isReplayOf(t, await merchant.post('/v1/charges', body, options), first);
  t.equal((await merchant.get('/v1/charges')).body.data.length, 1);
});

t.test('errors are not stored: the same key succeeds once the cause is gone', async (t) => {
  const merchant = await openMerchant(service, { payouts_enabled: false });
  const options = { idempotencyKey: 'until-it-works' };
  const create = async (more: object = {}): Promise<string> => {
    const { status, body } = await merchant.post('/v1/payouts', bodyOf({ ...more }), options);
    return status === 201 ? '201' : body.error.code;
  };
  t.equal(await create(), 'payouts_not_enabled_live');
  await merchant.change({ payouts_enabled: true });
  t.equal(await create({ reference: '' }), 'validation_failed');
  t.equal(await create({ msisdn: 'x' }), 'invalid_msisdn');
  t.equal(await create({ amount: '1' }), 'amount_below_minimum');
  t.equal(await create(), 'insufficient_balance');
  await merchant.fund('10500');
  t.equal(await create(), '201');
  t.equal(await create({ msisdn: 'x' }), 'idempotency_key_reused', 'from then on it is taken');
});

t.test('a key used with another body or endpoint: 422', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('100000');
  const options = { idempotencyKey: 'one-key-for-all' };
  const first = await merchant.post('/v1/charges', bodyOf(), options);
  const others: [string, unknown][] = [
    ['/v1/charges', bodyOf({ amount: '10001' })],
    ['/v1/charges', bodyOf({ description: 'x' })],
    ['/v1/charges', {}],
    ['/v1/charges', '{'],
    ['/v1/deposits', bodyOf()],
    ['/v1/payouts', bodyOf()],
    ['/v1/withdrawals', bodyOf()],
  ];
  for (const [path, body] of others) {
    const { status, body: refused } = await merchant.post(path, body, options);
    t.strictSame([status, refused.error.code], [422, 'idempotency_key_reused'], path);
  }
  isReplayOf(t, await merchant.post('/v1/charges', bodyOf(), options), first);
});

t.test('two bodies under one key at once: one of them is created, the other refused', async (t) => {
  const merchant = await openMerchant(service);
  const options = { idempotencyKey: 'two-at-once' };
  const bodies = [bodyOf({ reference: 'one' }), bodyOf({ reference: 'other' })];
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => merchant.post('/v1/charges', bodies[i % 2], options)),
  );
  const created = answers.filter(({ status }) => status === 201);
  t.equal(created.length, 10);
  t.equal(new Set(created.map(({ text }) => text)).size, 1);
  const others = answers.filter(({ status }) => status !== 201);
  t.ok(others.every(({ status, body }) => status === 422 && body.error.code === 'idempotency_key_reused'));
  t.equal((await merchant.get('/v1/charges')).body.data.length, 1);
});

t.test('keys belong to the account: another may use the same, another app of it may not', async (t) => {
  const merchant = await openMerchant(service);
  const stranger = await openMerchant(service);
  const options = { idempotencyKey: 'the-same-for-both' };
  const mine = await merchant.post('/v1/charges', bodyOf(), options);
  const theirs = await stranger.post('/v1/charges', bodyOf(), options);
  t.notOk(isReplay(theirs));
  t.not(mine.body.id, theirs.body.id);
  const { body: app } = await merchant.operator('/apps', { name: 'Second', domain: 'second.test' });
  isReplayOf(t, await merchant.post('/v1/charges', bodyOf(), { ...options, key: app.secret_key }), mine);
});

t.test('of a first try whose key or account was switched off since, the next key tells', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('21000');
  const options = { idempotencyKey: 'answer-was-lost' };
  const first = await merchant.post('/v1/payouts', bodyOf(), options);
  await merchant.change({ live: false });
  t.equal((await merchant.post('/v1/payouts', bodyOf(), options)).status, 403, 'looked at before the key');
  await merchant.change({ live: true });
  isReplayOf(t, await merchant.post('/v1/payouts', bodyOf(), options), first);

  const apps = `/operator/v1/accounts/${merchant.accountId}/apps`;
  await service.operator('DELETE', `${apps}/${merchant.appId}`);
  t.equal((await merchant.post('/v1/payouts', bodyOf(), options)).status, 401);
  const { body: app } = await service.operator('POST', apps, { name: 'Shop', domain: 'shop.test' });
  const key = app.secret_key as string;
  isReplayOf(t, await service.merchant('POST', '/v1/payouts', { body: bodyOf(), key, ...options }), first);
  const { body: balances } = await service.merchant('GET', '/v1/balances', { key });
  t.equal(balances.data[0].available, '10500', 'its money was held once');
});

t.test('8 to 255 characters, case and all', async (t) => {
  const merchant = await openMerchant(service);
  const rows: [string, number, string | null][] = [
    ['1234567', 400, 'idempotency_key_invalid'],
    ['x'.repeat(256), 400, 'idempotency_key_invalid'],
    ['12345678', 201, null],
    ['x'.repeat(255), 201, null],
    ['abcdefgh', 201, null],
    ['ABCDEFGH', 201, null],
    ['with spaces and "quotes", {too}', 201, null],
  ];
  for (const [idempotencyKey, status, code] of rows) {
    const answer = await merchant.post('/v1/charges', bodyOf(), { idempotencyKey });
    t.strictSame([answer.status, answer.body.error?.code ?? null], [status, code], idempotencyKey);
    t.notOk(isReplay(answer));
  }
  for (const path of ['/v1/charges', '/v1/deposits', '/v1/payouts', '/v1/withdrawals']) {
    const none = await merchant.post(path, bodyOf(), { idempotencyKey: '' });
    t.strictSame([none.status, none.body.error.code], [400, 'idempotency_key_required'], path);
  }
});

// --- Over restarts ---------------------------------------------------------------------------------------------------

/** Creates whose first answers are of every kind, and the status in each. */
const CREATES: [string, Record<string, unknown>, string][] = [
  // Nobody waits for what its network answers.
  [
    '/v1/charges',
    bodyOf({ msisdn: numberOf('UGX', '71'), metadata: { a: 1, 'b"': '🧋' } }),
    'PENDING_PROVIDER',
  ],
  ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '68'), description: 'Tea\n"for two"' }), 'SUCCESSFUL'],
  ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '57') }), 'FAILED'],
  ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '65') }), 'AWAITING_CUSTOMER'],
  ['/v1/deposits', bodyOf({ amount: '50000', msisdn: numberOf('UGX', '68') }), 'SUCCESSFUL'],
  ['/v1/payouts', bodyOf({ narration: 'Pay' }), 'PENDING_PROVIDER'],
];
const ENVIRONMENT = { SIMULATOR_APPROVE_AFTER_MS: '2000', WALLET_COOLING_OFF_SECONDS: '1' };
/** For the first of the creates. */
const HASTY = { ...ENVIRONMENT, PROVIDER_ANSWER_WAIT_MS: '0' };
/** For the others: whose networks answer at once, however long the machine stands still. */
const PATIENT = { ...ENVIRONMENT, PROVIDER_ANSWER_WAIT_MS: '7500' };

type Call = (method: string, path: string, body?: object, idempotencyKey?: string) => Promise<Answer>;

/** The creates from `from` to `to`, which is not among them. */
async function create(t: Test, call: Call, from: number, to: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const [i, [path, body, status]] of CREATES.entries()) {
    if (i < from || i >= to) continue;
    const answer = await call('POST', path, body, `over-restarts-${i}`);
    t.strictSame([answer.status, answer.body.status], [201, status], `${path} ${answer.text}`);
    answers.push(answer);
  }
  return answers;
}

async function replayAll(t: Test, call: Call, first: readonly Answer[], when: string): Promise<void> {
  for (const [i, [path, body]] of CREATES.entries()) {
    isReplayOf(t, await call('POST', path, body, `over-restarts-${i}`), first[i]!, `${path}, ${when}`);
    const other = await call('POST', path, { ...body, reference: 'other' }, `over-restarts-${i}`);
    t.equal(other.body.error.code, 'idempotency_key_reused');
  }
  const { body } = await call('GET', '/v1/transactions');
  t.equal(body.data.length, CREATES.length, 'and there are no more objects than there were');
}

async function untilSuccessful(call: Call, id: string): Promise<void> {
  await service.until(
    () => call('GET', `/v1/charges/${id}`),
    ({ body }) => body.status === 'SUCCESSFUL',
  );
}

// Each has a service of its own, and mostly waits.
t.jobs = 3;

t.test('a restart: the cash-outs of the minute before it still count', async (t) => {
  const dataDir = temporaryDirectory(t);
  const limited = { ...ENVIRONMENT, CASH_OUT_PER_MINUTE: '4' };
  let running = await startService(limited, dataDir);
  const merchant = await openMerchant(running);
  await merchant.fund('100000');
  const destination = await merchant.wallet();
  const { key } = merchant;
  const payout = () => running.merchant('POST', '/v1/payouts', { key, body: bodyOf({ amount: '1000' }) });
  const body = { amount: '1000', currency: 'UGX', destination, reference: 'w' };
  const withdrawal = () => running.merchant('POST', '/v1/withdrawals', { key, body });
  t.equal((await payout()).status, 201);
  t.equal((await withdrawal()).status, 201);
  t.equal((await payout()).status, 201);
  await running.stop();

  running = await startService(limited, dataDir);
  t.teardown(() => running.stop());
  t.equal((await withdrawal()).status, 201);
  for (const refused of [await payout(), await withdrawal()]) {
    t.hasStrict([refused.status, refused.body], [429, { error: { code: 'rate_limit_exceeded' } }]);
    const seconds = Number(refused.headers.get('retry-after'));
    t.ok(seconds >= 1 && seconds <= 60, `${seconds} s`);
  }
});

t.test('a restart: every replay is the first answer, byte for byte', async (t) => {
  const dataDir = temporaryDirectory(t);
  const callOf =
    (running: Awaited<ReturnType<typeof startService>>): Call =>
    (method, path, body, idempotencyKey) =>
      running.merchant(method, path, { body, ...(idempotencyKey === undefined ? {} : { idempotencyKey }) });
  let running = await startService(PATIENT, dataDir);
  const others = await create(t, callOf(running), 1, CREATES.length);
  await running.stop();
  running = await startService(HASTY, dataDir);
  const first = [...(await create(t, callOf(running), 0, 1)), ...others];
  await running.stop();
  for (const when of ['after a restart', 'after another']) {
    running = await startService(ENVIRONMENT, dataDir);
    await untilSuccessful(callOf(running), first[0]!.body.id);
    await replayAll(t, callOf(running), first, when);
    await running.stop();
  }
});

t.test('kill -9: the same, for what was in flight and for what has succeeded since', async (t) => {
  const dataDir = temporaryDirectory(t);
  let process = await startProcess(dataDir, PATIENT);
  t.teardown(async () => {
    await process.end('SIGKILL');
  });
  const others = await create(t, callTo(process), 1, CREATES.length);
  await process.end('SIGKILL');
  process = await startProcess(dataDir, HASTY);
  const first = [...(await create(t, callTo(process), 0, 1)), ...others];
  await process.end('SIGKILL');

  process = await startProcess(dataDir, ENVIRONMENT);
  await replayAll(t, callTo(process), first, 'killed at once');
  await untilSuccessful(callTo(process), first[0]!.body.id);
  await replayAll(t, callTo(process), first, 'once it succeeded');
  await process.end('SIGKILL');

  process = await startProcess(dataDir, ENVIRONMENT);
  await replayAll(t, callTo(process), first, 'killed after it succeeded');
});

function callTo({ demo }: ServiceProcess): Call {
  return async (method, path, body, idempotencyKey) => {
    const response = await fetch(demo.base_url + path, {
      method,
      headers: {
        authorization: `Bearer ${demo.secret_key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const answer = { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
    assertMatchesOpenApi(method, path, answer.status, answer.body);
    return answer;
  };
}
