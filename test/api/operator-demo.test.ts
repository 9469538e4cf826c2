// The demo account: made once, whatever interrupts the making, and found again at every start.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { demoCurl, ensureDemo } from '../../src/operator/demo.ts';
import type { Demo } from '../../src/operator/demo.ts';
import type { OperatorContext } from '../../src/operator/context.ts';
import { mtnRoute } from './mtn-route.ts';
import { startOperator, TOKEN } from './operator-harness.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const dir = temporaryDirectory(t);
const path = join(dir, 'demo.json');
const urls = {
  baseUrl: 'http://127.0.0.1:1',
  operatorUrl: 'http://127.0.0.1:2',
  simulatorUrl: 'http://127.0.0.1:3',
};
const operator = await startOperator(dir);
t.teardown(() => operator.stop());

async function accountIds(): Promise<string[]> {
  const { body } = await operator.call('GET', '/accounts');
  return body.data.map((account: { id: string }) => account.id);
}

let first: Demo;
t.test('an account that may do everything, with an app and two owners', async (t) => {
  first = await ensureDemo(operator.context, dir, urls);
  t.strictSame(Object.keys(first), [
    'account_id',
    'app_id',
    'secret_key',
    'publishable_key',
    'signing_secret',
    'base_url',
    'operator_url',
    'operator_token',
    'simulator_url',
  ]);
  t.match(first, { base_url: urls.baseUrl, operator_token: TOKEN, signing_secret: /^whsec_/ });
  t.strictSame(JSON.parse(readFileSync(path, 'utf8')), first);
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.notOk(existsSync(`${path}.new`));
  const { body } = await operator.call('GET', `/accounts/${first.account_id}`);
  t.hasStrict(body, {
    country: 'UG',
    live: true,
    payouts_enabled: true,
    withdrawals_enabled: true,
    users: [{ role: 'OWNER' }, { role: 'OWNER' }],
    apps: [{ id: first.app_id, publishable_key: first.publishable_key }],
  });
});

t.test('the next start finds it, and writes where the service listens now', async (t) => {
  const moved = { ...urls, baseUrl: 'http://127.0.0.1:9', simulatorUrl: null };
  const again = await ensureDemo(operator.context, dir, moved);
  t.strictSame(again, { ...first, base_url: moved.baseUrl, simulator_url: null });
  t.strictSame(JSON.parse(readFileSync(path, 'utf8')), again);
  t.strictSame(await accountIds(), [first.account_id]);
});

t.test('a crash before demo.json leaves no second account', async (t) => {
  const plan = {
    accountId: first.account_id,
    publishableKey: first.publishable_key,
    secretKey: first.secret_key,
    signingSecret: first.signing_secret,
  };
  rmSync(path);
  writeFileSync(`${path}.new`, JSON.stringify(plan));
  t.strictSame(await ensureDemo(operator.context, dir, urls), first);
  t.strictSame(await accountIds(), [first.account_id]);
});

t.test('a demo.json of another data directory, or a removed app, is made anew', async (t) => {
  await operator.call('DELETE', `/accounts/${first.account_id}/apps/${first.app_id}`);
  const second = await ensureDemo(operator.context, dir, urls);
  t.not(second.account_id, first.account_id);
  t.not(second.secret_key, first.secret_key);
  writeFileSync(path, '{"account_id": "acc_');
  const third = await ensureDemo(operator.context, dir, urls);
  t.not(third.account_id, second.account_id);
});

t.test('so is one that is not whole: no start fails over it', async (t) => {
  const { secret_key: _, ...keyless } = JSON.parse(readFileSync(path, 'utf8')) as Demo;
  for (const content of [{}, [], 5, null, keyless]) {
    for (const file of [path, `${path}.new`]) writeFileSync(file, JSON.stringify(content));
    const { account_id: id, secret_key: key } = await ensureDemo(operator.context, dir, urls);
    t.equal((await accountIds())[0], id, JSON.stringify(content));
    t.match(key, /^sk_live_/);
  }
});

t.test('a start that is cut off, or cannot know, makes no second account', async (t) => {
  const known = await accountIds();
  const without = (type: string): OperatorContext['bus'] => ({
    partitions: (group) => operator.bus.partitions(group),
    send(group, partition, message, onReply) {
      if (message.type === type) onReply({ type: 'unavailable' });
      else operator.bus.send(group, partition, message, onReply);
    },
  });
  const asks = { ...operator.context, bus: without('GetAccount') };
  await t.rejects(ensureDemo(asks, dir, urls), /could not be found: unavailable/);
  t.strictSame(await accountIds(), known, 'it may be there');
  rmSync(path);
  const connects = { ...operator.context, bus: without('ConnectApp') };
  await t.rejects(ensureDemo(connects, dir, urls), /could not be given an app: unavailable/);
  const [begun] = await accountIds();
  t.notOk(known.includes(begun!));
  t.equal((await ensureDemo(operator.context, dir, urls)).account_id, begun);
  t.strictSame(await accountIds(), [begun, ...known]);
});

t.test('a demo that cannot be made keeps nothing else from being served', async (t) => {
  const dataDir = temporaryDirectory(t);
  await (await startService({ DEMO: 'false' }, dataDir)).stop();
  const lines: string[] = [];
  // A disk that is short: changes are refused, reads are not.
  const short = { DISK_RESERVE_MB: '1000000000', LOG_LEVEL: 'warn' };
  const service = await startService(short, dataDir, (line) => lines.push(line));
  const { status, body } = await service.operator('GET', '/operator/v1/accounts');
  await service.stop();
  t.match({ status, body }, { status: 200, body: { data: [] } });
  t.notOk(service.demo);
  t.match(
    lines.map((line) => JSON.parse(line)),
    [{ level: 'error' }, { level: 'warn', err: { message: /could not be opened: unavailable/ } }],
  );
  const roomy = await startService({}, dataDir);
  const balances = await roomy.merchant('GET', '/v1/balances');
  await roomy.stop();
  t.equal(balances.status, 200, 'the next start makes it');
});

t.test('the printed command is one that a shell reads as meant', async (t) => {
  const shown = demoCurl(first).replace(/^curl/, "printf '%s\\n'");
  const words = execFileSync('/bin/sh', ['-c', shown], { encoding: 'utf8' }).trim().split('\n');
  t.match(words, [
    '-sS',
    'http://127.0.0.1:1/v1/charges',
    '-H',
    `Authorization: Bearer ${first.secret_key}`,
    '-H',
    /^Idempotency-Key: demo-\d+$/,
    '-H',
    'Content-Type: application/json',
    '-d',
    /^\{"amount":"5000",.*\}$/,
  ]);
});

t.test('where money is real the keys are in the file alone, not on stdout', async (t) => {
  const directory = temporaryDirectory(t);
  const rails = join(directory, 'rails.json');
  const route = mtnRoute('http://127.0.0.1:1', { env: 'SECRET' });
  writeFileSync(rails, JSON.stringify({ routes: [route] }));
  const data = join(directory, 'data');
  const service = spawn(process.execPath, ['src/main.ts'], {
    env: {
      ...ENVIRONMENT,
      DATA_DIR: data,
      PORT: '0',
      OPERATOR_PORT: '0',
      PARTITIONS: '1',
      RAILS: rails,
      SECRET: 'x',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => service.kill('SIGKILL'));
  let said = '';
  for await (const text of service.stdout.setEncoding('utf8')) {
    said += String(text);
    if (/demo account|Create a charge/.test(said)) service.kill('SIGTERM');
  }
  if (service.exitCode === null) await once(service, 'exit');
  const { secret_key: key } = JSON.parse(readFileSync(join(data, 'demo.json'), 'utf8')) as Demo;
  t.notOk(said.includes(key), 'what it says is kept by whoever keeps logs');
  t.match(said, `its keys are in ${join(data, 'demo.json')}`);
});
