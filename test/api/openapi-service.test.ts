// What the whole service answers is what its OpenAPI document says: every route, in every state that the loopback rail
// brings about, with the refusals that accounts decide.

import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import type { ErrorCode } from '../../src/domain/error-code.ts';
import { assertMatchesOpenApi, openApi } from './openapi-check.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { startService, type Answer, type CallOptions } from './start.ts';

const service = await startService({ WALLET_COOLING_OFF_SECONDS: '1' });
t.teardown(() => service.stop());

const answered = new Set<string>();

async function call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const answer = await service.merchant(method, path, options);
  assertMatchesOpenApi(method, path, answer.status, answer.body);
  const template = path.split('?')[0]!.replace(/\/(?:chg|pyt|wdl|dep|ref)_\w+/, '/{id}');
  answered.add(`${method} ${template} ${answer.status}`);
  return answer;
}

const create = (kind: string, msisdn: string, more: object = {}): Promise<Answer> =>
  call('POST', `/v1/${kind}`, {
    body: { amount: '50000', currency: 'UGX', msisdn, reference: `${kind}-1`, ...more },
  });

async function final(kind: string, id: string): Promise<string> {
  const { body } = await service.until(
    () => call('GET', `/v1/${kind}/${id}`),
    (answer) => ['SUCCESSFUL', 'FAILED', 'REVERSED'].includes(answer.body.status),
  );
  return body.status;
}

/** Ends in: approves, the customer declines, settles in the answer, wallet inactive, and silence. */
const NUMBERS = ['+256772000001', '+256772000051', '+256772000068', '+256772000075', '+256772000065'];

t.test('the document is served by the service', async (t) => {
  t.strictSame((await call('GET', '/openapi.json', { key: null })).body, openApi);
});

t.test('collections', async (t) => {
  for (const kind of ['charges', 'deposits']) {
    for (const msisdn of NUMBERS) {
      const metadata = { a: 'x', b: 1.5, c: true, d: null };
      const { status, body } = await create(kind, msisdn, { description: 'Tea', metadata });
      t.equal(status, 201);
      t.strictSame(body.metadata, metadata);
      if (msisdn !== NUMBERS.at(-1)) t.match(await final(kind, body.id), /SUCCESSFUL|FAILED/);
    }
  }
  const { body } = await call('GET', '/v1/charges?limit=2&country=UG&network=MTN&created_after=2026-01-01');
  t.equal(body.data.length, 2);
  t.equal(body.has_more, true);
  const rest = await call('GET', `/v1/charges?starting_after=${body.next_cursor}`);
  t.hasStrict(rest.body, { has_more: false, next_cursor: null });
  t.equal(rest.body.data.length, NUMBERS.length - 2);
  for (const { id } of [...body.data, ...rest.body.data]) {
    await call('GET', `/v1/charges/${id}/timeline`);
    await call('GET', `/v1/transactions/${id}`);
  }
});

t.test('cash-outs', async (t) => {
  for (const msisdn of NUMBERS) {
    const { status, body } = await create('payouts', msisdn, { amount: '1000', narration: 'Pay' });
    t.equal(status, 201);
    if (msisdn !== NUMBERS.at(-1)) await final('payouts', body.id);
    await call('GET', `/v1/transactions/${body.id}`);
  }
  await call('GET', '/v1/payouts?reference=payouts-1&status=SUCCESSFUL');
  await call('GET', '/v1/balances');
  await call('GET', '/v1/payout_destinations');
  for (const type of ['CHARGE', 'PAYOUT', 'DEPOSIT', 'WITHDRAWAL', 'REFUND']) {
    await call('GET', `/v1/transactions?type=${type}&currency=UGX&approval_status=NOT_REQUIRED`);
  }
});

t.test('withdrawals, to a wallet before and after it is active', async (t) => {
  const path = `/operator/v1/accounts/${service.demo.account_id}`;
  const userOf = async (email: string): Promise<string> =>
    (await service.operator('POST', `${path}/users`, { email, role: 'OWNER' })).body.id;
  const owner = await userOf('one@shop.example');
  const otherOwner = await userOf('two@shop.example');
  const wallet = await service.operator('POST', `${path}/wallets`, {
    label: 'Till',
    msisdn: '+256772000001',
    by: owner,
  });
  const { body } = await call('GET', '/v1/payout_destinations');
  t.hasStrict(body.data, [{ id: wallet.body.id, status: 'PENDING_APPROVAL' }]);
  const withdrawal = { amount: '1000', currency: 'UGX', reference: 'w-1' };
  const refused = async (destination: string): Promise<ErrorCode> =>
    (await call('POST', '/v1/withdrawals', { body: { ...withdrawal, destination } })).body.error.code;
  t.equal(await refused(wallet.body.id), 'destination_not_active');
  t.equal(await refused('wal_01KAJ3W8Q07M4R2N9X5T6V1B00'), 'destination_not_found');
  t.equal(await refused('x'), 'destination_not_found');

  await service.operator('POST', `${path}/wallets/${wallet.body.id}/approve`, { by: otherOwner });
  await service.until(
    () => call('GET', '/v1/payout_destinations'),
    (answer) => answer.body.data[0].status === 'ACTIVE',
  );
  const created = await call('POST', '/v1/withdrawals', {
    body: { ...withdrawal, destination: wallet.body.id },
  });
  t.equal(created.status, 201, created.text);
  t.equal(await final('withdrawals', created.body.id), 'SUCCESSFUL');
});

t.test('refusals of the account', async (t) => {
  const rows: [string, string, object, ErrorCode][] = [
    ['charges', '+15551234567', {}, 'invalid_msisdn'],
    ['charges', 'nonsense', {}, 'invalid_msisdn'],
    ['charges', '+254711000001', { currency: 'KES' }, 'network_required'],
    ['charges', '+256772000001', { currency: 'KES' }, 'currency_mismatch'],
    ['charges', '+256772000001', { amount: '499' }, 'amount_below_minimum'],
    ['charges', '+256772000001', { amount: '0' }, 'amount_below_minimum'],
    ['deposits', '+256772000001', { amount: '9007199254740991' }, 'amount_above_maximum'],
    ['payouts', '+256772000001', { amount: '1000000' }, 'insufficient_balance'],
  ];
  for (const [kind, msisdn, more, code] of rows) {
    const { body } = await create(kind, msisdn, more);
    t.equal(body.error?.code, code, `${kind} ${msisdn} ${JSON.stringify(more)}: ${JSON.stringify(body)}`);
  }
  const idempotencyKey = 'same-key-1';
  const body = { amount: '50000', currency: 'UGX', msisdn: '+256772000065', reference: 'r' };
  const first = await call('POST', '/v1/charges', { body, idempotencyKey });
  const again = await call('POST', '/v1/charges', { body, idempotencyKey });
  t.equal(again.text, first.text);
  t.equal(again.headers.get('idempotent-replayed'), 'true');
  const other = await call('POST', '/v1/charges', { body: { ...body, reference: 's' }, idempotencyKey });
  t.hasStrict(other, { status: 422, body: { error: { code: 'idempotency_key_reused' } } });

  const unknown = '01KAJ3W8Q07M4R2N9X5T6V1B00';
  for (const [kind, prefix] of [
    ['charges', 'chg'],
    ['payouts', 'pyt'],
    ['withdrawals', 'wdl'],
    ['deposits', 'dep'],
    ['transactions', 'ref'],
  ]) {
    t.equal((await call('GET', `/v1/${kind}/${prefix}_${unknown}`)).status, 404);
  }
  t.equal((await call('GET', '/v1/balances', { key: null })).status, 401);
  t.equal((await call('GET', '/v1/balances', { key: service.demo.publishable_key })).status, 403);
  const forged = `${service.demo.secret_key.slice(0, -1)}${service.demo.secret_key.endsWith('0') ? '1' : '0'}`;
  t.hasStrict(await call('GET', '/v1/balances', { key: forged }), {
    status: 401,
    body: { error: { code: 'invalid_api_key' } },
  });
  const stranger = `sk_live_${unknown}${forged.slice(34)}`;
  t.hasStrict(await call('GET', '/v1/balances', { key: stranger }), {
    status: 401,
    body: { error: { code: 'invalid_api_key' } },
  });
});

/** A merchant's day by a generated client, in strict TypeScript, without a cast. */
const DAY = `
import * as daftari from './client.ts';
import type { ErrorReply, ListChargesQuery, Status } from './client.ts';

type Event = daftari.ChargeFailedEvent | daftari.DepositSuccessfulEvent | daftari.WithdrawalSuccessfulEvent;

const key = () => ({ 'Idempotency-Key': crypto.randomUUID() });
const wallet = { currency: 'UGX', msisdn: '+256772000001', reference: 'day-1' } as const;
const isFinal = (status: Status) => status === 'SUCCESSFUL' || status === 'FAILED' || status === 'REVERSED';

function have<T>(result: daftari.Result<T, ErrorReply>): T {
  if (result.error !== undefined) throw new Error(result.error.error.code);
  return result.data;
}
async function settled(read: () => Promise<Status>): Promise<Status> {
  for (;;) {
    const status = await read();
    if (isFinal(status)) return status;
  }
}
async function countCharges(query: ListChargesQuery): Promise<number> {
  const { data, next_cursor } = have(await daftari.listCharges({ query }));
  return data.length + (next_cursor === null ? 0 : await countCharges({ ...query, starting_after: next_cursor }));
}
/** What to do about a refusal. */
function mendOf({ error }: ErrorReply): string {
  switch (error.code) {
    case 'insufficient_balance':
      return 'deposit';
    case 'rate_limit_exceeded':
    case 'service_unavailable':
      return 'wait';
    default:
      return error.param ?? error.code;
  }
}
export function heard(body: string): string | null {
  const event: Event = JSON.parse(body);
  switch (event.type) {
    case 'charge.failed':
      return event.data.object.failure_code;
    case 'deposit.successful':
      return event.data.object.description;
    case 'withdrawal.successful':
      return event.data.object.destination;
  }
}
export async function day(serverUrl: string, bearer: string): Promise<unknown[]> {
  daftari.configure({ serverUrl, auth: { bearer } });
  const metadata = { cart: 7, gift: null, vip: true, note: 'x' };
  const charge = have(await daftari.createCharge({ body: { ...wallet, amount: '5000', metadata }, headers: key() }));
  const path = { id: charge.id };
  const paid = await settled(async () => have(await daftari.getCharge({ path })).status);
  const timeline = have(await daftari.getChargeTimeline({ path }));
  const twice = { body: { ...wallet, amount: '20000', description: null }, headers: key() };
  const deposit = have(await daftari.createDeposit(twice));
  const { response } = await daftari.createDeposit(twice);
  await settled(async () => have(await daftari.getDeposit({ path: { id: deposit.id } })).status);
  const [balance] = have(await daftari.getBalances()).data;
  const refused = await daftari.createPayout({ body: { ...wallet, amount: '4000000' }, headers: key() });
  const payout = have(await daftari.createPayout({ body: { ...wallet, amount: '1000' }, headers: key() }));
  await settled(async () => have(await daftari.getPayout({ path: { id: payout.id } })).status);
  const active = have(await daftari.listPayoutDestinations()).data.find(({ status }) => status === 'ACTIVE');
  const { currency, reference } = wallet;
  const destination = active?.id ?? 'none';
  const withdrawal = have(
    await daftari.createWithdrawal({ body: { amount: '1000', currency, reference, destination }, headers: key() }),
  );
  const from = { created_after: '2026-01-01', created_before: new Date(Date.now() + 60_000).toISOString() };
  const query = { ...from, reference, limit: 1, status: 'SUCCESSFUL', country: 'UG', network: 'MTN' } as const;
  const { data } = have(await daftari.listTransactions({ query: { type: 'WITHDRAWAL', currency, limit: 1 } }));
  return [
    paid,
    timeline.ledger.some((entry) => entry.account === 'MERCHANT_PENDING' && entry.side === 'CREDIT'),
    response.headers.get('Idempotent-Replayed'),
    balance?.currency,
    refused.error && mendOf(refused.error),
    await countCharges(query),
    data[0]?.id === withdrawal.id,
  ];
}
`;

const ROOT = join(import.meta.dirname, '../..');

/** What it prints, whether it fails or not. */
async function toolSays(name: string, words: string): Promise<string> {
  const command = [join(ROOT, 'node_modules/.bin', name), ...words.split(' ')];
  const env = {
    ...process.env,
    REDOCLY_TELEMETRY: 'off',
    REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
    CI: 'true',
  };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, command, { cwd: ROOT, env }).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  return stdout + stderr;
}

t.test('a generated client spends a merchant’s day, in strict TypeScript and without a cast', async (t) => {
  const dir = temporaryDirectory(t);
  writeFileSync(join(dir, 'openapi.json'), JSON.stringify(openApi));
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}');
  writeFileSync(join(dir, 'day.ts'), DAY);
  const form = '--error-mode result --args-style grouped --import-ext ts';
  const files = `${dir}/openapi.json --output ${dir}/client.ts`;
  const made = await toolSays('redocly', `generate-client ${files} ${form}`);
  t.match(made, /1 file/);
  t.notMatch(made, /generate-client:/, 'nothing is given another name or left out');
  const strict = '--strict --noUncheckedIndexedAccess --noEmit --target es2022 --module nodenext';
  const said = await toolSays('tsc', `${strict} --allowImportingTsExtensions --ignoreConfig ${dir}/day.ts`);
  t.equal(said, '', 'it compiles');

  const { day, heard } = (await import(join(dir, 'day.ts'))) as {
    readonly day: (url: string, key: string) => Promise<unknown[]>;
    readonly heard: (body: string) => string | null;
  };
  const { base_url: url, secret_key: key } = service.demo;
  t.strictSame(await day(url, key), ['SUCCESSFUL', true, 'true', 'UGX', 'deposit', 1, true]);
  const event =
    openApi.webhooks['charge.failed']!.post.requestBody.content['application/json']!.examples!['event']!;
  const { data } = event.value as { data: { object: { failure_code: string } } };
  t.equal(heard(JSON.stringify(event.value)), data.object.failure_code);
});

t.test('every route has answered', async (t) => {
  const routes = Object.entries(openApi.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const silent = routes.filter((route) => ![...answered].some((seen) => seen.startsWith(`${route} 2`)));
  t.strictSame(silent, []);
});
