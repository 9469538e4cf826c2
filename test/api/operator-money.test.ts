// What operators decide, as a merchant feels it: dashboard deposits, approvals, keys, switches; and the demo account of the whole
// running service.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { demoCurl } from '../../src/operator/demo.ts';
import { until } from '../until.ts';
import { startService } from './start.ts';
import type { Answer, Running } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const FINAL = ['SUCCESSFUL', 'FAILED'];
const DAY_MS = 86_400_000;
const WALLET = { currency: 'UGX', msisdn: '+256772000001' };

let service: Running;
let account: string;
t.before(async () => {
  // What is deposited is counted on the same day.
  await until(() => Date.now() % DAY_MS < DAY_MS - 30_000);
  service = await startService({ WALLET_COOLING_OFF_SECONDS: '0.05', WEBHOOK_PORTS: '8443' });
  account = `/operator/v1/accounts/${service.demo.account_id}`;
});
t.teardown(() => service.stop());

async function userWith(role: string): Promise<string> {
  const email = `${role.toLowerCase()}@demo.test`;
  const { body } = await service.operator('POST', `${account}/users`, { email, role });
  return body.id as string;
}

async function finished(path: string): Promise<Answer> {
  return service.until(
    () => service.merchant('GET', path),
    ({ body }) => FINAL.includes(body.status),
  );
}

t.test('finance deposits from the dashboard, a member may not', async (t) => {
  const deposit = { ...WALLET, amount: '900000', reference: 'float-1' };
  const refused = await service.operator('POST', `${account}/deposits`, {
    ...deposit,
    by: await userWith('MEMBER'),
  });
  t.hasStrict(refused, { status: 403, body: { error: { code: 'not_permitted', param: 'by' } } });
  const made = await service.operator('POST', `${account}/deposits`, {
    ...deposit,
    by: await userWith('FINANCE'),
  });
  t.hasStrict(made, { status: 201, body: { object: 'deposit', amount: '900000' } });
  t.match(made.body.id, /^dep_/);
  t.hasStrict((await finished(`/v1/deposits/${made.body.id}`)).body, { status: 'SUCCESSFUL' });
  t.hasStrict((await service.merchant('GET', '/v1/balances')).body.data, [
    { currency: 'UGX', available: '900000' },
  ]);
  const detail = await service.merchant('GET', `/v1/transactions/${made.body.id}`);
  t.hasStrict(detail.body.events[0], { source: 'DASHBOARD' });
});

for (const [ending, status] of [
  ['68', 'SUCCESSFUL'],
  ['58', 'FAILED'],
] as const) {
  t.test(
    `a deposit from the dashboard that is ${status} at once has nothing to do with the API`,
    async (t) => {
      const by = await userWith('FINANCE');
      const body = { ...WALLET, msisdn: `+2567720000${ending}`, amount: '1000', reference: 'at-once', by };
      const made = await service.operator('POST', `${account}/deposits`, body);
      t.hasStrict(made, { status: 201, body: { status } });
      const { events } = (await service.merchant('GET', `/v1/transactions/${made.body.id}`)).body;
      t.strictSame(
        events.map(({ source }: { source: string }) => source),
        events.map(() => 'DASHBOARD'),
      );
    },
  );
}

t.test('a deposit from the dashboard is refused as a merchant’s is', async (t) => {
  const by = await userWith('FINANCE');
  const limit = (row: object | null): Promise<Answer> =>
    service.operator('PATCH', account, { limits: { DEPOSIT: { UGX: row } } });
  const refused = async (change: object, code: string, param: string): Promise<void> => {
    const deposit = { ...WALLET, amount: '5000', reference: 'refused', by, ...change };
    const answer = await service.operator('POST', `${account}/deposits`, deposit);
    t.hasStrict(answer, { status: 400, body: { error: { code, param } } }, code);
  };
  await refused({ msisdn: '1' }, 'invalid_msisdn', 'msisdn');
  await refused({ currency: 'KES' }, 'currency_mismatch', 'currency');
  await refused({ msisdn: '+254711000001', currency: 'KES' }, 'network_required', 'network');
  await refused({ amount: '499' }, 'amount_below_minimum', 'amount');
  await limit({ maximum: '4999' });
  await refused({}, 'amount_above_maximum', 'amount');
  await limit({ daily: '5000' });
  await refused({}, 'daily_limit_exceeded', 'amount');
  await limit({ monthly: '5000' });
  await refused({}, 'monthly_limit_exceeded', 'amount');
  await limit(null);
});

t.test('a deposit that an operator sends again under its key is made once', async (t) => {
  const by = await userWith('ADMIN');
  const deposit = { ...WALLET, amount: '4000', reference: 'float-2', by, idempotency_key: 'float-2/2026-11' };
  const send = (over: object = {}): Promise<Answer> =>
    service.operator('POST', `${account}/deposits`, { ...deposit, ...over });
  const [first, atOnce] = await Promise.all([send(), send()]);
  t.equal(first!.status, 201);
  t.strictSame(atOnce!.body, first!.body);
  await finished(`/v1/deposits/${first!.body.id}`);
  t.strictSame((await send()).body, first!.body, 'the answer of then, also when it is final');
  t.hasStrict(await send({ amount: '4001' }), {
    status: 422,
    body: { error: { code: 'idempotency_key_reused' } },
  });
  for (const idempotency_key of ['short', 'ключ-ключ', 'x'.repeat(256)]) {
    t.hasStrict(await send({ idempotency_key }), {
      status: 400,
      body: { error: { param: 'idempotency_key' } },
    });
  }
  const { body } = await service.merchant('GET', '/v1/transactions?limit=100');
  t.equal(body.data.filter(({ reference }: any) => reference === 'float-2').length, 1);
});

t.test('a withdrawal above the threshold waits for a person, who approves or rejects it', async (t) => {
  const [first, second] = (await service.operator('GET', `${account}/users`)).body.data;
  const wallet = { label: 'Till', msisdn: '+256772000002', by: first.id };
  const { body: added } = await service.operator('POST', `${account}/wallets`, wallet);
  await service.operator('POST', `${account}/wallets/${added.id}/approve`, { by: second.id });
  await service.until(
    () => service.merchant('GET', '/v1/payout_destinations'),
    ({ body }) => body.data[0].status === 'ACTIVE',
  );
  await service.operator('PATCH', account, { approval_thresholds: { UGX: '1000' } });

  for (const [verb, status, code] of [
    ['approve', 'SUCCESSFUL', null],
    ['reject', 'FAILED', 'approval_rejected'],
  ] as const) {
    const request = { amount: '2000', currency: 'UGX', destination: added.id, reference: `out-${verb}` };
    const { body: created } = await service.merchant('POST', '/v1/withdrawals', { body: request });
    t.hasStrict(created, { status: 'INITIATED', approval_status: 'PENDING' });
    const decided = await service.operator('POST', `${account}/withdrawals/${created.id}/${verb}`, {
      by: first.id,
    });
    t.hasStrict(decided, { status: 200, body: { id: created.id } });
    t.hasStrict((await finished(`/v1/withdrawals/${created.id}`)).body, { status, failure_code: code });
    const again = await service.operator('POST', `${account}/withdrawals/${created.id}/${verb}`, {
      by: first.id,
    });
    t.hasStrict(again, { status: 409, body: { error: { code: 'conflict' } } });
  }
  const request = { amount: '2000', currency: 'UGX', destination: added.id, reference: 'out-off' };
  const { body: waiting } = await service.merchant('POST', '/v1/withdrawals', { body: request });
  const approve = (): Promise<Answer> =>
    service.operator('POST', `${account}/withdrawals/${waiting.id}/approve`, { by: first.id });
  for (const [setting, code] of [
    ['withdrawals_enabled', 'withdrawals_not_enabled_live'],
    ['live', 'live_mode_not_enabled'],
  ] as const) {
    await service.operator('PATCH', account, { [setting]: false });
    t.hasStrict(await approve(), { status: 403, body: { error: { code } } });
    await service.operator('PATCH', account, { [setting]: true });
  }
  await service.operator('POST', `${account}/wallets/${added.id}/revoke`, { by: first.id });
  t.hasStrict(await approve(), { status: 400, body: { error: { code: 'destination_not_active' } } });
  t.hasStrict((await service.operator('GET', `${account}/trial_balance`)).body, {
    balanced: true,
    data: [{ sum: '0' }],
  });
});

t.test('a payout of which its provider says nothing final is settled by a person', async (t) => {
  const before = (await service.merchant('GET', '/v1/balances')).body.data;
  const silent = { ...WALLET, msisdn: '+256772000065', amount: '3000', reference: 'out-silent' };
  const { body: sent } = await service.merchant('POST', '/v1/payouts', { body: silent });
  t.hasStrict(sent, { status: 'PENDING_PROVIDER' });
  const settle = (over: object): Promise<Answer> => {
    const said = { outcome: 'FAILED', statement: 'Mail of MTN Uganda, 23 November: never sent.', ...over };
    return service.operator('POST', `${account}/transactions/${sent.id}/settle`, said);
  };
  for (const [over, param] of [
    [{ outcome: 'PENDING' }, 'outcome'],
    [{ statement: ' ' }, 'statement'],
    [{ failure_code: 'expired' }, 'failure_code'],
    // Whoever sends it means the other outcome, or another payout.
    [{ outcome: 'SUCCESSFUL', failure_code: 'wallet_inactive' }, 'failure_code'],
    [{ provider_transaction_id: '4711' }, 'provider_transaction_id'],
  ] as const) {
    t.hasStrict(await settle(over), { status: 400, body: { error: { code: 'validation_failed', param } } });
  }
  const settled = await settle({ failure_code: 'wallet_inactive' });
  t.hasStrict(settled, { status: 200, body: { id: sent.id, object: 'payout', status: 'FAILED' } });
  t.hasStrict(await settle({ outcome: 'SUCCESSFUL' }), {
    status: 409,
    body: { error: { code: 'conflict' } },
  });
  const seen = await service.merchant('GET', `/v1/payouts/${sent.id}`);
  t.hasStrict(seen.body, { status: 'FAILED', failure_code: 'wallet_inactive' });
  t.strictSame((await service.merchant('GET', '/v1/balances')).body.data, before);
  const detail = await service.merchant('GET', `/v1/transactions/${sent.id}`);
  t.hasStrict(detail.body.events.at(-1), { status: 'FAILED', source: 'DASHBOARD' });
  const { body: audit } = await service.operator('GET', '/operator/v1/audit?limit=3');
  t.match(JSON.stringify(audit.data), /Mail of MTN Uganda/);
  const none = await service.operator('POST', `${account}/transactions/nothing/settle`, {
    outcome: 'FAILED',
    statement: 'No.',
  });
  t.hasStrict(none, { status: 404, body: { error: { code: 'transaction_not_found' } } });
});

t.test('a removed app is locked out at once, and so is an account that is not live', async (t) => {
  const app = { name: 'Second', domain: 'second.test' };
  const { body: second } = await service.operator('POST', `${account}/apps`, app);
  const balances = () => service.merchant('GET', '/v1/balances', { key: second.secret_key });
  t.equal((await balances()).status, 200);
  await service.operator('PATCH', account, { live: false });
  t.hasStrict(await balances(), { status: 403, body: { error: { code: 'live_mode_not_enabled' } } });
  await service.operator('PATCH', account, { live: true });
  t.equal((await balances()).status, 200);
  await service.operator('DELETE', `${account}/apps/${second.id}`);
  t.hasStrict(await balances(), { status: 401, body: { error: { code: 'invalid_api_key' } } });
});

t.test('a webhook URL may use the ports of WEBHOOK_PORTS, and no others', async (t) => {
  const save = (webhook_url: string): Promise<Answer> =>
    service.operator('POST', `${account}/apps`, { name: 'Odd', domain: 'odd.test', webhook_url });
  const saved = await save('https://hooks.example.com:8443/');
  t.equal(saved.status, 201);
  await service.operator('DELETE', `${account}/apps/${saved.body.id}`);
  t.match(await save('https://hooks.example.com:8444/'), {
    status: 400,
    body: { error: { code: 'validation_failed', param: 'webhook_url', message: /port 8444/ } },
  });
});

t.test('the printed command creates a charge when pasted', async (t) => {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', demoCurl(service.demo)]);
  t.match(JSON.parse(stdout), { id: /^chg_/, object: 'charge', amount: '5000', reference: 'order-1' });
});

t.test('a restart finds the demo account, and counts what was in flight', async (t) => {
  const dataDir = temporaryDirectory(t);
  const before = await startService({}, dataDir);
  const deposit = { ...WALLET, amount: '100000', reference: 'float' };
  const { body: funded } = await before.merchant('POST', '/v1/deposits', { body: deposit });
  await before.until(
    () => before.merchant('GET', `/v1/deposits/${funded.id}`),
    ({ body }) => body.status === 'SUCCESSFUL',
  );
  const silent = { currency: 'UGX', msisdn: '+256772000065', amount: '5000', reference: 'silence' };
  t.equal((await before.merchant('POST', '/v1/payouts', { body: silent })).status, 201);
  const shown = async (running: Running): Promise<string[]> => {
    const response = await fetch(`${running.demo.operator_url}/metrics`);
    return (await response.text())
      .split('\n')
      .filter((line) => /^daftari_(?:open_holds|transactions_open)/.test(line));
  };
  t.ok((await shown(before)).includes('daftari_open_holds_amount{currency="UGX"} 5500'));
  await before.stop();

  const after = await startService({}, dataDir);
  const same = ({ base_url: _, operator_url: __, ...rest }: Running['demo']) => rest;
  t.strictSame(same(after.demo), same(before.demo));
  t.strictSame(JSON.parse(readFileSync(join(dataDir, 'demo.json'), 'utf8')), after.demo);
  const lines = await shown(after);
  t.ok(lines.includes('daftari_open_holds{currency="UGX"} 1'), lines.join(' '));
  t.ok(lines.includes('daftari_open_holds_amount{currency="UGX"} 5500'));
  t.ok(lines.includes('daftari_transactions_open{status="PENDING_PROVIDER"} 1'));
  await after.stop();
});
