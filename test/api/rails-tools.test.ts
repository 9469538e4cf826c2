// `npm run rails`, as an operator runs it: check against a provider that works and one that does not; reconcile a
// statement of the provider with the log of a service that runs; seal a secret.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { encodeRecord } from '../../src/domain/event-codec.ts';
import { makeId } from '../../src/domain/id.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { walTools } from '../../wal/tools/all.ts';
import { ViewStore } from '../../wal/views.ts';
import { opened, START } from '../unit/domain/scenario.ts';
import { runTool, type ToolRun } from '../unit/wal/run-tool.ts';
import { startExternal } from './rails-external.ts';
import { startService } from './start.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { overwritePages } from '../damaged-pages.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const directory = temporaryDirectory(t);
const external = await startExternal(directory);
t.teardown(() => external.simulator.close());

interface Ran {
  readonly status: number | null;
  readonly out: string;
  readonly err: string;
}

function rails(args: readonly string[], input = '', environment: Record<string, string> = {}): Promise<Ran> {
  const child = spawn(process.execPath, ['src/rails/cli.ts', ...args], {
    env: { ...ENVIRONMENT, ...environment },
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (text: Buffer) => {
    out += text.toString();
  });
  child.stderr.on('data', (text: Buffer) => {
    err += text.toString();
  });
  child.stdin.end(input);
  return new Promise((resolve) => {
    child.on('close', (status) => resolve({ status, out, err }));
  });
}

t.test('check: a table of what works, and what does not', async (t) => {
  const good = await rails(['check', external.railsFile, '--msisdn', '256772000001', '--progress']);
  t.equal(good.status, 0, good.err);
  t.match(good.out, /mtn_ug +collection token +ok +granted/);
  t.match(good.out, /mtn_ug +collection balance +ok +10000000000 UGX/);
  t.match(good.out, /mtn_ug +disbursement wallet holder +ok +active/);
  t.match(good.out, /airtel_gh +balance +ok/);
  t.match(good.out, /airtel_ug +wallet holder +ok +registered/);
  t.match(good.out, /mtn_gh +wallet holder +ok +skipped: the number is not of GH \(233\)/);
  t.match(good.out, /airtel_ke +wallet holder +ok +skipped: the number is not of KE \(254\)/);
  t.notMatch(good.out, /_(gh|ke) .*wallet holder +ok +(active|registered)/);
  t.match(good.out, /Every route works/);

  const unknown = await rails([
    'check',
    external.railsFile,
    '--msisdn',
    '256772000055',
    '--route',
    'airtel_ug',
  ]);
  t.equal(unknown.status, 1);
  t.match(unknown.out, /airtel_ug +wallet holder +FAILED +DP02200000002/);

  await external.control('POST', '/simulator/answers', {
    provider: 'mtn',
    on: 'token',
    status: 401,
    times: 99,
  });
  const bad = await rails(['check', external.railsFile, '--json']);
  await external.control('DELETE', '/simulator/forced');
  t.equal(bad.status, 1);
  const { checks } = JSON.parse(bad.out) as { checks: { route: string; ok: boolean; detail: string }[] };
  t.match(
    checks.find(({ route }) => route === 'mtn_ke'),
    { ok: false, detail: /401/ },
  );
  t.hasStrict(
    checks.find(({ route }) => route === 'airtel_ke'),
    { ok: true },
  );
});

t.test('check: what a route has no credentials for is told', async (t) => {
  const path = join(directory, 'one-way.json');
  const { routes } = JSON.parse(readFileSync(external.railsFile, 'utf8')) as { routes: object[] };
  const changed = routes.map((route) => {
    const { id } = route as { id: string };
    return { ...route, [id === 'mtn_gh' ? 'collection' : 'disbursement']: undefined };
  });
  writeFileSync(path, JSON.stringify({ routes: changed }));
  const { status, out } = await rails(['check', path]);
  t.equal(status, 0, 'it may be meant so');
  t.match(out, /mtn_gh +charges +ok +refused: the route has no collection/);
  t.match(out, /mtn_ug +payouts +ok +refused: the route has no disbursement/);
  t.match(out, /airtel_ke +payouts +ok +refused: the route has no disbursement/);
  const whole = await rails(['check', external.railsFile]);
  t.notMatch(whole.out, /refused:/);
});

t.test('check: a wrong file says where it is wrong', async (t) => {
  const path = join(directory, 'wrong.json');
  writeFileSync(path, readFileSync(external.railsFile, 'utf8').replace('"UG"', '"UGANDA"'));
  const { status, err } = await rails(['check', path]);
  t.equal(status, 1);
  t.match(err, /wrong\.json:5: routes\[0\]\.country: takes "UG" or "KE" or "GH"/);
  t.equal((await rails(['check'])).status, 2, 'wrongly asked');
  t.equal((await rails(['chek', path])).status, 2);
});

t.test("reconcile: the provider's statement against the running service's log", async (t) => {
  const data = join(directory, 'data');
  const service = await startService({ RAILS: external.railsFile, CASH_OUT_PER_MINUTE: '1000' }, data);
  let isRunning = true;
  const stop = async (): Promise<void> => {
    if (isRunning) await service.stop();
    isRunning = false;
  };
  t.teardown(stop);
  await external.callBackTo(service.demo.base_url);
  const reaches = (path: string, status: string) =>
    service.until(
      () => service.merchant('GET', path),
      ({ body }) => body.status === status,
    );
  const create = async (what: string, msisdn: string, amount: string, status: string): Promise<string> => {
    const body = { amount, currency: 'UGX', msisdn, reference: 'r' };
    const { body: made } = await service.merchant('POST', `/v1/${what}`, { body });
    const path = `/v1/${what}/${String(made.id)}`;
    await reaches(path, status);
    return path;
  };
  await create('deposits', '256772000001', '1000000', 'SUCCESSFUL');
  for (let i = 2; i < 6; i++) {
    await create('charges', `25677200000${i}`, `${i}000`, 'SUCCESSFUL');
    await create('payouts', `25677200000${i}`, `${i}500`, 'SUCCESSFUL');
  }
  // Not by the number that does it itself: clawed back before anybody asked, it is no success.
  const reversed = await create('charges', '256772000007', '7000', 'SUCCESSFUL');
  const payment = (await external.payments()).find(({ msisdn }) => msisdn === '256772000007');
  await external.control('POST', `/simulator/transactions/${payment?.number}/reverse`);
  await reaches(reversed, 'REVERSED');
  await create('charges', '256772000064', '7000', 'FAILED');
  await create('charges', '256702000001', '7000', 'SUCCESSFUL');

  const statement = await (await fetch(`${external.simulator.url}/statement.csv?rail=mtn_ug`)).text();
  const path = join(directory, 'statement.csv');
  const run = (...more: string[]): Promise<Ran> =>
    rails(['reconcile', '--route', 'mtn_ug', '--statement', path, '--data', data, ...more]);

  writeFileSync(path, statement);
  const same = await run('--progress');
  t.equal(same.status, 0, same.out + same.err);
  t.match(same.out, /11 agree, 0 do not\.\n$/);

  const typo = await rails(['reconcile', '--route', 'mtn_ugg', '--statement', path, '--data', data]);
  t.equal(typo.status, 1);
  t.match(typo.out, /no transaction of the route mtn_ugg; it has of airtel_ug, mtn_ug\. Is --route right\?/);
  // What was paid and taken back moved nothing.
  t.match(typo.out, /mtn_ugg, .*: 0 agree, 9 do not\.\nNext: npm run wal -- inspect --transaction <id>/);
  t.notMatch(same.out, /Is --route right/);

  const lines = statement.trim().split('\n');
  const extra = lines[3]!.replace(/CHG|PYT/, 'WDL');
  writeFileSync(
    path,
    [lines[0], ...lines.slice(2), extra].join('\n').replace(',2000,UGX', ',2001,UGX').replaceAll(',', ';'),
  );
  const [first] = lines.slice(1).map((line) => line.split(',')[0]!);
  const differs = await run('--from', first!, '--json');
  t.equal(differs.status, 1);
  const { matched, findings } = JSON.parse(differs.out) as { matched: number; findings: { kind: string }[] };
  t.strictSame(findings.map(({ kind }) => kind).toSorted(), ['different', 'extra', 'missing']);
  t.equal(matched, 9);
  t.match((await run('--from', first!)).out, /different +chg_.+2000 UGX +2001 UGX +line \d+/);

  const others = Array.from(
    { length: 200_000 },
    (_, i) => `${first},collect,${String(i).padStart(55, 'X')},${i},,1,UGX`,
  );
  writeFileSync(path, [lines[0], ...others].join('\n'));
  const many = await rails(['reconcile', '--route', 'mtn_ug', '--statement', path, '--data', data], '', {
    NODE_OPTIONS: '--max-old-space-size=220',
  });
  t.match(many, { status: 1, err: '' }, 'in little memory');
  t.match(many.out, /: 0 agree, \d{6} do not/, 'however many do not');

  const unicodeText = Buffer.from(`\uFEFF${statement.replaceAll(',', '\t')}`, 'utf16le');
  for (const bytes of [unicodeText, Buffer.from(unicodeText).swap16()]) {
    writeFileSync(path, bytes);
    t.match(await run(), { status: 0, out: /11 agree/ }, "as Excel's Unicode Text");
  }

  writeFileSync(path, statement.replace('reference', 'External ID').replace('time', 'Date'));
  t.match((await run()).err, /no column "reference"/);
  t.equal((await run('--columns', 'reference=External ID,time=date')).status, 0);

  const columns = /,(-?\d+),UGX$/gm;
  const twoOf = statement.replace('amount,currency', 'Debit,Credit,currency').replace(columns, ',$1,-,UGX');
  writeFileSync(path, twoOf.replace(/^(.*,collect,.*),(\d+),-,UGX$/gm, '$1,0.00,$2,UGX'));
  t.match(await run('--columns', 'amount=Debit,amount=Credit'), { status: 0, out: /11 agree, 0 do not/ });
  for (const twice of ['time=time,time=time', 'amount=Debit,amount=Credit,amount=amount']) {
    const said = new RegExp(`--columns: ${twice.slice(0, twice.indexOf('='))} is named too often`);
    t.match(await run('--columns', twice), { status: 2, err: said });
  }

  writeFileSync(path, statement.replaceAll(/(T\d\d:\d\d:[\d.]+)Z/g, '$1'));
  t.equal((await run()).status, 0, 'times without a zone are UTC');
  t.match((await run('--timezone', '+03:00')).out, /: 0 agree, \d+ do not/);
  const july = await run('--timezone', '+03:00', '--from', '2026-07-01', '--to', '2026-08-01');
  t.match(july.out, /2026-06-30T21:00:00.000Z to 2026-07-31T21:00:00.000Z/, 'days begin where they do in it');
  for (const to of ['2026-07-01', '2026-06-30']) {
    const none = {
      status: 2,
      err: /2026-07-01T00:00:00.000Z to .* is no period: --from is to be before --to/,
    };
    t.match(await run('--from', '2026-07-01', '--to', to), none);
  }
  t.match(await run('--timezone', 'EAT'), { status: 2, err: /--timezone takes an offset such as \+03:00/ });
  const folder = await rails(['reconcile', '--route', 'mtn_ug', '--statement', directory, '--data', data]);
  t.match(folder, { status: 1, err: `${directory} cannot be read: EISDIR` }, 'a directory');

  await stop();
  writeFileSync(path, statement);
  const archive = join(directory, 'archive');
  const wal = (name: string, ...more: string[]): Promise<ToolRun> =>
    runTool([...walTools, ...logTools], name, '--data', data, ...more);
  t.hasStrict(await wal('archive', '--to', archive, '--before', '2999-01-01'), { status: 0 });
  t.match(await wal('trim', '--archive', archive, '--yes'), { status: 0, out: /Removed/ });
  const log = LogReader.openReader({ directory: data });
  const starts = log.partitionNames().map(({ group, partition }) => ({
    group,
    partition,
    start: log.startOf(group, partition),
  }));
  await log.close();
  const trimmed = starts.find(({ group, start }) => group === 'accounts' && start.sequence > 20);
  t.ok(trimmed, 'most of what the merchant did is gone from the log');
  const after = await run();
  t.equal(after.status, 0, after.out + after.err);
  t.match(after.out, /11 agree, 0 do not/);

  const views = ViewStore.open({ directory: data });
  await views.drop('accounts', trimmed!.partition);
  await views.close();
  const unknown = await run();
  t.equal(unknown.status, 1);
  t.match(unknown.err, /was trimmed up to sequence \d+, and no checkpoint .*: restore its archive/);
});

t.test('reconcile: what would end the process that reads the log is told as damage', async (t) => {
  const data = join(directory, 'damaged');
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory: data, now: Date.now, onFailure, batchRecordsMax: 1 });
  const partition = log.openPartition('accounts', 2, { epoch: 1, replica: null, onDurable() {} });
  const idOf = (n: number): string => makeId('account', `01M7XZDPYD000C65AR95C6${1000 + n}`);
  const named = { ...opened, name: 'x'.repeat(400) };
  for (let n = 0; n < 100; n++) {
    partition.append(encodeRecord({ accountId: idOf(n), at: START, events: [named] }));
  }
  await log.close();
  const statement = join(directory, 'none.csv');
  writeFileSync(statement, 'reference,amount,currency,time,type\n');
  const period = ['--from', '2026-01-01', '--to', '2026-12-31'];
  const reconcile = () =>
    rails(['reconcile', '--route', 'mtn_ug', '--statement', statement, '--data', data, ...period]);
  overwritePages(data, idOf(50));
  const ended = /^reconcile: log corrupt: accounts\/2 batch \d+: a process that reads it is ended \(SIG/m;
  t.match(await reconcile(), { status: 1, err: ended });
  overwritePages(data, null);
  t.match(await reconcile(), {
    status: 1,
    err: /^reconcile: the log in .* cannot be opened \(SIG.*: restore it/m,
  });
});

t.test('seal: what is sealed opens in a file of routes', async (t) => {
  const environment = { MASTER_KEY: 'ab'.repeat(32) };
  const first = readFileSync(join(directory, 'secrets', '1'), 'utf8');
  const sealed = await rails(['seal'], first, environment);
  t.equal(sealed.status, 0, sealed.err);
  t.notMatch(sealed.out, first.trim());

  const path = join(directory, 'sealed.json');
  const text = readFileSync(external.railsFile, 'utf8');
  writeFileSync(path, text.replace(/\{\s*"file": "secrets\/1"\s*\}/, sealed.out.trim()));
  t.equal((await rails(['check', path, '--route', 'mtn_ug'], '', environment)).status, 0);
  const other = { MASTER_KEY: 'cd'.repeat(32) };
  t.match(
    (await rails(['check', path], '', other)).err,
    /sealed\.json:\d+: .*subscription_key: cannot be opened/,
  );
  const none = ['--data', join(directory, 'nowhere')];
  t.match((await rails(['check', path, ...none])).err, /there is no MASTER_KEY, nor a master\.key/);
  t.equal((await rails(['seal', ...none], 'a secret')).status, 2, 'no master key');
  t.match(await rails(['seal'], ' \r\n', environment), {
    status: 2,
    err: /nothing came from standard input/,
  });
});

t.test('seal, and check: the key is the one that a service made in its data directory, too', async (t) => {
  const made = t.testdir({ 'master.key': `${'ef'.repeat(32)}\n` });
  const secret = readFileSync(join(directory, 'secrets', '1'), 'utf8');
  const sealed = await rails(['seal', '--data', made], secret);
  t.equal(sealed.status, 0, sealed.err);

  const path = join(directory, 'sealed-by-made.json');
  const text = readFileSync(external.railsFile, 'utf8');
  writeFileSync(path, text.replace(/\{\s*"file": "secrets\/1"\s*\}/, sealed.out.trim()));
  const args = ['check', path, '--route', 'mtn_ug', '--data', made];
  const checked = await rails(args);
  t.equal(checked.status, 0, checked.err);
  const given = await rails(args, '', { MASTER_KEY: 'ab'.repeat(32) });
  t.match(given.err, /cannot be opened/, 'MASTER_KEY goes before it, as in the service');
});
