// What is put back wrongly beside a log, or is missing there: the start says so, takes nothing away, and makes nothing anew
// that would be another one.

import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { partitionOf } from '../../src/bus/bus.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { createSecrets } from '../../src/secrets.ts';
import { commitDurably, type LogKey, openLogDatabase } from '../../wal/lmdb.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { walTools } from '../../wal/tools/all.ts';
import { whileStopped } from '../../wal/tools/stopped.ts';
import type { Row } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { bodyOf, openMerchant } from './merchants.ts';
import { mtnRoute } from './mtn-route.ts';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const ONE = { PARTITIONS: '1' };
const OTHER_KEY = { ...ONE, MASTER_KEY: 'ab'.repeat(32) };
const PLACES = ['accounts', 'webhooks', 'platform'] as const;

/** Of a service that a merchant has done something with, and that has stopped: each test has a copy. */
const STOPPED = join(temporaryDirectory(t), 'data');
{
  const service = await startService(ONE, STOPPED);
  const merchant = await openMerchant(service);
  const { id } = (await merchant.post('/v1/charges', bodyOf())).body;
  await merchant.finished(`/v1/charges/${id}`);
  await service.stop();
}

function used(t: Test): string {
  const dataDir = join(temporaryDirectory(t), 'data');
  cpSync(STOPPED, dataDir, { recursive: true });
  return dataDir;
}

async function putRow(dataDir: string, group: (typeof PLACES)[number], row: Row): Promise<void> {
  const views = ViewStore.open({ directory: dataDir });
  await views.commit(group, 0, views.position(group, 0)!, [row]);
  await views.close();
}

/** What /readyz says of a service on it. */
async function readiness(
  dataDir: string,
  environment: Record<string, string> = ONE,
): Promise<readonly [number, string]> {
  const service = await startService({ ...environment, LOG_LEVEL: 'silent' }, dataDir);
  const { status, text } = await service.operator('GET', '/readyz');
  await service.stop();
  return [status, text];
}

t.test('what was made with a data directory is not made a second time beside its log', async (t) => {
  const dataDir = used(t);
  for (const file of ['daftari.json', 'master.key']) {
    const path = join(dataDir, file);
    const kept = readFileSync(path);
    rmSync(path);
    await t.rejects(startService(ONE, dataDir), new RegExp(`${file} is missing beside a log`));
    t.notOk(existsSync(path));
    writeFileSync(path, kept);
  }
  const identity = join(dataDir, 'daftari.json');
  const kept = readFileSync(identity);
  for (const damaged of ['', '{"format":1', 'null', '[]', '{"format":1,"partitions":"1"}']) {
    writeFileSync(identity, damaged);
    await t.rejects(startService(ONE, dataDir), /daftari.json is damaged: put the one back/);
    const { status, out } = await runTool(logTools, 'verify', '--data', dataDir);
    t.match([status, out], [1, /NOT SOUND: .*daftari.json is damaged: put the one back/]);
  }
  writeFileSync(identity, kept);
  t.equal((await readiness(dataDir))[0], 200);
});

t.test(
  'what a simulator has paid in no provider pays out, nor does a simulator say that real money moved',
  async (t) => {
    const dataDir = used(t);
    const rails = join(dataDir, '..', 'rails.json');
    const routes = [mtnRoute('http://127.0.0.1:1', { env: 'PATH' })];
    writeFileSync(rails, JSON.stringify({ routes }));
    const real = { ...ONE, RAILS: rails };
    const kept = readFileSync(join(dataDir, 'daftari.json'), 'utf8');
    await t.rejects(startService(real, dataDir), {
      name: 'DataDirectoryError',
      message: /money is simulated there/,
    });
    t.equal(readFileSync(join(dataDir, 'daftari.json'), 'utf8'), kept);

    // As one made before it was noted.
    writeFileSync(join(dataDir, 'daftari.json'), kept.replace(/,\s*"money": "simulated"/, ''));
    t.equal((await readiness(dataDir, real))[0], 200);
    for (const RAILS of ['simulator', 'loopback']) {
      const message = `RAILS=${RAILS}, as it is unless it is set, moves none: set RAILS`;
      await t.rejects(startService({ ...ONE, RAILS }, dataDir), { message: new RegExp(message) });
    }
    t.equal((await readiness(dataDir, real))[0], 200);
  },
);

t.test('half of a log, of a restore that did not end, is not served', async (t) => {
  const dataDir = used(t);
  const [backup, half] = [join(dataDir, '..', 'backup'), join(dataDir, '..', 'half')];
  const run = (...args: string[]) => runTool(walTools, ...args);
  t.equal((await run('backup', '--data', dataDir, '--to', backup)).status, 0);
  const last = readdirSync(backup).find((name) => name.startsWith('webhooks-0'))!;
  const bytes = readFileSync(join(backup, last));
  writeFileSync(join(backup, last), bytes.subarray(0, -1));
  t.equal((await run('restore', '--from', backup, '--to', half)).status, 1);
  for (const file of ['daftari.json', 'master.key']) cpSync(join(dataDir, file), join(half, file));
  await t.rejects(startService(ONE, half), /did not come to its end: run it again/);
});

/** Puts what one log has of a group into another. */
async function copyGroup(group: string, from: string, to: string): Promise<void> {
  const copy = mkdtempSync(join(from, '..', 'copy-'));
  for (const args of [
    ['export', '--data', from, '--group', group, '--to', copy],
    ['import', '--data', to, '--from', copy],
  ]) {
    const { status, out, err } = await runTool(walTools, ...args);
    if (status !== 0) throw new Error(out + err);
  }
}

t.test('a partition that is not in a log with records is begun on purpose alone', async (t) => {
  const dataDir = used(t);
  const at = (name: string): string => join(dataDir, '..', name);
  const [part, empty, begun] = [at('part'), at('empty'), at('begun')];
  await readiness(empty, { ...ONE, DEMO: 'false' });
  for (const [from, to] of [
    [dataDir, part],
    [empty, begun],
  ] as const) {
    await copyGroup('accounts', from, to);
    for (const file of ['daftari.json', 'master.key']) cpSync(join(from, file), join(to, file));
  }
  t.equal((await readiness(begun))[0], 200, 'a first start that was killed as it opened them goes on');

  const [status, text] = await readiness(part);
  t.equal(status, 503);
  t.match(text, /platform.0 .*nothing of it is in the log.* webhooks.0 .*nothing of it is in the log/);
  await copyGroup('platform', dataDir, part);
  t.notMatch((await readiness(part))[1], /platform/, 'nothing had been begun there: it can be put back');
  await copyGroup('webhooks', empty, part);
  t.equal((await readiness(part))[0], 200);
});

t.test('what says another number of partitions than the log was begun with is not its own', async (t) => {
  const directory = temporaryDirectory(t);
  const dataDir = join(directory, 'data');
  const two = await startService({ PARTITIONS: '2' }, dataDir);
  await two.stop();
  const file = join(dataDir, 'daftari.json');
  const kept = readFileSync(file, 'utf8');
  const run = (...args: string[]) => runTool(logTools, ...args, '--data', dataDir);
  const { account_id } = two.demo;
  const own = partitionOf(account_id, 2);
  // With more, an account is told by where it is.
  const more = [3, 4, 5, 6, 7, 8, 9].find((partitions) => partitionOf(account_id, partitions) !== own)!;
  for (const [partitions, has] of [
    [1, 'accounts.1'],
    [more, `${account_id} in accounts.${own}`],
  ] as const) {
    writeFileSync(file, JSON.stringify({ ...(JSON.parse(kept) as object), partitions }));
    const other = new RegExp(
      `daftari\\.json says "partitions": ${partitions}, .* log has ${has}: put the one back`,
    );
    await t.rejects(startService({ PARTITIONS: `${partitions}` }, dataDir), other);
    t.match(await run('verify'), { status: 1, out: other });
    t.match(await run('inspect', '--account', account_id), { status: 1, err: other });
  }
  writeFileSync(file, kept);
  t.equal((await readiness(dataDir, { PARTITIONS: '2' }))[0], 200, 'nothing was written');
  t.equal((await run('verify')).status, 0);

  // A bit that turned over in a key names a partition that nobody has: that is damage, and no other directory's.
  const moved = 1 - own;
  const database = openLogDatabase({ directory: dataDir });
  const bytes = Buffer.from(database.getBinary(['accounts', moved, 1])!);
  await commitDurably(database, [
    { key: ['accounts', moved, 1], value: null },
    { key: ['accounts', 5, 1], value: bytes },
  ]);
  await database.close();
  const [status, text] = await readiness(dataDir, { PARTITIONS: '2' });
  t.match([status, text], [503, new RegExp(`accounts.${moved}`)]);
  t.notMatch(text, new RegExp(`(?:accounts|webhooks).${1 - moved}`), 'the others are served');
});

t.test('views that a trimmed log cannot make anew are not dropped', async (t) => {
  const dataDir = used(t);
  const archive = join(dataDir, '..', 'archive');
  const run = (...args: string[]) => runTool(walTools, ...args);
  t.equal((await run('archive', '--data', dataDir, '--to', archive, '--before', '2999-01-01')).status, 0);
  t.equal((await run('trim', '--data', dataDir, '--archive', archive, '--yes')).status, 0);
  t.equal((await readiness(dataDir))[0], 200);

  await putRow(dataDir, 'accounts', { table: 'format', key: '', value: '1' });
  const [status, text] = await readiness(dataDir);
  t.equal(status, 503);
  t.match(text, /accounts.0 .*was trimmed, and its views are gone or of another version/);
  const views = ViewStore.open({ directory: dataDir });
  t.ok(views.position('accounts', 0)!.sequence > 0);
  t.ok([...views.rows('accounts', 0)].length > 5, 'what only they know is there');
  await views.close();

  const putBack = await run('import', '--data', dataDir, '--from', archive);
  t.match(putBack, { status: 0, out: /sound: [1-9]\d* batches imported/ });
  t.equal((await readiness(dataDir))[0], 200, 'with what was trimmed put back they are made anew');
  t.equal((await run('import', '--data', dataDir, '--from', archive)).status, 0);
});

t.test(
  'webhooks that a backup has more of than of their accounts are restored as they can be served',
  async (t) => {
    const dataDir = used(t);
    const [backup, restored] = [join(dataDir, '..', 'backup'), join(dataDir, '..', 'restored')];
    const run = (...args: string[]) => runTool([...walTools, ...logTools], ...args);
    t.equal((await run('export', '--data', dataDir, '--to', backup, '--to-sequence', '2')).status, 0);
    const database = openLogDatabase({ directory: dataDir });
    const last = [...database.getKeys({ start: ['accounts', 0, 1], end: ['accounts', 1, 0] })].at(-1)!;
    await database.put(last, Buffer.from(database.getBinary(last)!).fill(0, 70, 80));
    await database.close();
    // It goes on with what is sound, and knows nothing of who reads what.
    const archived = await run('archive', '--data', dataDir, '--to', backup, '--before', '2999-01-01');
    t.match(archived, { status: 1, out: /webhooks.0: sequences \d+ to[^]*accounts.0: nothing was added/ });
    t.match(await run('restore', '--from', backup, '--to', restored), {
      status: 0,
      out: /^webhooks.0 is cut off after sequence \d+: what follows had read accounts.0 up to \d+, which is restored up to \d\n/,
    });
    for (const file of ['daftari.json', 'master.key', 'operator.token']) {
      cpSync(join(dataDir, file), join(restored, file));
    }
    t.match(await readiness(restored), [200]);
  },
);

t.test('webhooks that have read more of a log than there is are not served', async (t) => {
  const dataDir = used(t);
  await putRow(dataDir, 'webhooks', { table: 'cursor', key: 'upstream', value: '4000' });
  const [status, text] = await readiness(dataDir);
  t.equal(status, 503);
  t.match(text, /it has read its accounts up to 4000, and their log ends at \d+/);
});

async function accountsOf(service: Running): Promise<{ id: string; apps: { id: string }[] }[]> {
  const { data } = (await service.operator('GET', '/operator/v1/accounts')).body;
  const accounts = (data as { id: string }[]).map(async ({ id }) => {
    return { id, apps: (await service.operator('GET', `/operator/v1/accounts/${id}/apps`)).body.data };
  });
  return Promise.all(accounts);
}

/** Of its last batch a bit turns over. Returns what puts the batch back. */
async function damageEnd(dataDir: string, group: (typeof PLACES)[number]): Promise<() => Promise<void>> {
  const put = async (key: LogKey, value: Buffer): Promise<void> => {
    const database = openLogDatabase({ directory: dataDir });
    await commitDurably(database, [{ key, value }]);
    await database.close();
  };
  const log = LogReader.openReader({ directory: dataDir });
  const last = log.lastBatchNumber(group, 0);
  const whole = Buffer.from(log.bytesOf(group, 0, last)!);
  await log.close();
  const turned = Buffer.from(whole);
  turned[60]! ^= 1;
  await put([group, 0, last], turned);
  return () => put([group, 0, last], whole);
}

/** What the directory says of its key. */
function sayKey(dataDir: string) {
  const file = join(dataDir, 'daftari.json');
  const read = () => JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const say = (masterKey: string | undefined): void =>
    writeFileSync(file, JSON.stringify({ ...read(), masterKey }));
  return Object.assign(say, { said: () => read()['masterKey'] });
}

t.test(
  'with another master key nothing is started, until a person says that the first is lost',
  async (t) => {
    const dataDir = used(t);
    const key = join(dataDir, 'master.key');
    const kept = readFileSync(key);
    await t.rejects(startService(OTHER_KEY, dataDir), /MASTER_KEY.* is not the key .* sealed with/);
    writeFileSync(key, `${'cd'.repeat(32)}\n`);
    await t.rejects(startService(ONE, dataDir), /master\.key, is not the key .* put the one back/);
    writeFileSync(key, kept);
    t.equal((await readiness(dataDir))[0], 200, 'with its own it serves');

    const say = sayKey(dataDir);
    say(undefined);
    // Nor where the directory does not say its key: what is sealed in it does.
    const refused = await startService(OTHER_KEY, dataDir).then(
      () => 'it started',
      (error: Error) => error.message,
    );
    const [, fingerprint] = /lost for ever, say "masterKey": "([0-9a-f]{16})"/.exec(refused) ?? [];
    t.type(fingerprint, 'string', refused);
    t.equal(say.said(), undefined);
    say(fingerprint);
    const service = await startService(OTHER_KEY, dataDir);
    t.teardown(() => service.stop());
    const { account_id, app_id } = service.demo;
    const path = `/operator/v1/accounts/${account_id}/apps/${app_id}/reveal_signing_secret`;
    const answer = await service.operator('POST', path);
    t.match(
      [answer.status, answer.body],
      [409, { error: { code: 'conflict', message: /another MASTER_KEY/ } }],
      'what the first sealed is not shown, and nothing falls over',
    );
  },
);

t.test(
  'a data directory of before its key was noted says which one is its own, when that is proven',
  async (t) => {
    const dataDir = used(t);
    const say = sayKey(dataDir);
    const own = say.said();
    say(undefined);
    // What is damaged may be sealed with another: nothing that can be read says so.
    const mend = await damageEnd(dataDir, 'webhooks');
    t.match(await readiness(dataDir, OTHER_KEY), [503, /webhooks.0/]);
    t.equal(say.said(), undefined);
    await mend();
    t.equal((await readiness(dataDir))[0], 200);
    t.equal(say.said(), own, 'by what is sealed in it');

    say(undefined);
    const service = await startService(ONE, dataDir);
    for (const { id, apps } of await accountsOf(service)) {
      for (const app of apps) await service.operator('DELETE', `/operator/v1/accounts/${id}/apps/${app.id}`);
    }
    await service.stop();
    say(undefined);
    t.equal((await readiness(dataDir, OTHER_KEY))[0], 200, 'nothing is signed with what removed apps had');
    t.not(say.said(), own);
    await t.rejects(startService(ONE, dataDir), /master\.key, is not the key/);
  },
);

t.test('where apps were connected under two keys, either goes on, says so, and none is noted', async (t) => {
  const dataDir = used(t);
  const say = sayKey(dataDir);
  say(undefined);
  await readiness(dataDir);
  const own = say.said();
  t.type(own, 'string');
  say(createSecrets(Buffer.from(OTHER_KEY.MASTER_KEY, 'hex')).fingerprint);
  const service = await startService(OTHER_KEY, dataDir);
  await openMerchant(service);
  await service.stop();
  for (const environment of [{}, OTHER_KEY]) {
    say(undefined);
    const lines: string[] = [];
    const again = await startService({ ...ONE, ...environment, LOG_LEVEL: 'warn' }, dataDir, (line) =>
      lines.push(line),
    );
    await again.stop();
    t.equal(lines.filter((line) => line.includes('sealed with two master keys')).length, 1);
    t.equal(say.said(), undefined);
  }
});

t.test(
  'a start on an empty directory, as where its volume is not mounted, is told from any other',
  async (t) => {
    const dataDir = temporaryDirectory(t);
    const lines: string[] = [];
    for (const begun of [1, 0]) {
      const service = await startService({ ...ONE, LOG_LEVEL: 'info' }, dataDir, (line) => lines.push(line));
      await service.stop();
      t.equal(lines.splice(0).filter((line) => line.includes('a log is begun')).length, begun);
    }
  },
);

t.test('beside what was kept of a directory no log is begun anew where its restore has failed', async (t) => {
  const dataDir = used(t);
  const [to, unmounted] = [join(dataDir, '..', 'to'), join(dataDir, '..', 'unmounted')];
  t.match(await runTool(walTools, 'restore', '--from', unmounted, '--to', to), {
    status: 2,
    err: /no backup/,
  });
  mkdirSync(to);
  for (const file of ['daftari.json', 'master.key']) cpSync(join(dataDir, file), join(to, file));
  await t.rejects(
    startService(ONE, to),
    /has had a log, .* none is there: restore it .* remove .*daftari\.json/,
  );
  t.strictSame(readdirSync(to).toSorted(), ['daftari.json', 'master.key']);
  rmSync(join(to, 'daftari.json'));
  t.equal((await readiness(to))[0], 200);
});

/** Processes of their own: in this one they would share the service's LMDB. */
function walOn(dataDir: string) {
  return (...args: string[]) => {
    const command = ['wal/cli.ts', ...args, '--data', dataDir, '--full-speed'];
    return new Promise((resolve) => {
      execFile(process.execPath, command, (error, stdout, stderr) => {
        resolve({ status: error === null ? 0 : error.code, stdout, stderr });
      });
    });
  };
}

/** As a service's lock looks in another container: a number that is nobody's, or of a process that has begun at another time. */
function forgetWriter(dataDir: string): string {
  const lock = join(dataDir, 'log', 'writer.lock');
  writeFileSync(lock, '1 1');
  return lock;
}

t.test(
  'a log is not written beside the service of another container, whose process is not seen',
  async (t) => {
    const dataDir = used(t);
    const archive = join(dataDir, '..', 'archive');
    const wal = walOn(dataDir);
    t.hasStrict(await wal('archive', '--to', archive, '--before', '2999-01-01'), { status: 0 });
    const service = await startService(ONE, dataDir);
    const lock = forgetWriter(dataDir);
    const inUse = { status: 1, stdout: '', stderr: /is in use by a service: stop it first\n$/ };
    t.match(await wal('import', '--from', archive), inUse);
    t.match(await wal('trim', '--archive', archive, '--yes'), inUse);
    t.equal(readFileSync(lock, 'utf8'), '1 1');
    t.hasStrict(await wal('trim', '--archive', archive), { status: 0 }, 'only looking');
    await service.stop();
    t.hasStrict(await wal('import', '--from', archive), { status: 0 });
  },
);

t.test('however long its path is', async (t) => {
  const dataDir = used(t);
  const archive = join(dataDir, '..', 'archive');
  // As a volume is seen on the machine of its container.
  const volume = join(dataDir, '..', 'v'.repeat(120));
  renameSync(dataDir, volume);
  const wal = walOn(volume);
  t.hasStrict(await wal('archive', '--to', archive, '--before', '2999-01-01'), { status: 0 });
  const service = await startService(ONE, volume);
  forgetWriter(volume);
  t.match(await wal('import', '--from', archive), { status: 1, stderr: /is in use by a service/ });
  await service.stop();
  t.hasStrict(await wal('import', '--from', archive), { status: 0 });
});

t.test('nor does a service start beside a tool of another container that writes the log', async (t) => {
  const dataDir = used(t);
  await whileStopped(dataDir, async () => {
    await t.rejects(startService(ONE, dataDir), /is in use by another process/);
  });
  await (await startService(ONE, dataDir)).stop();
});

t.test('a directory of a later version is not started, and no tool says what its records mean', async (t) => {
  const dataDir = used(t);
  const file = join(dataDir, 'daftari.json');
  const kept = JSON.parse(readFileSync(file, 'utf8')) as object;
  const { newest } = RECORD_FORMATS;
  t.hasStrict(kept, { records: newest }, 'what it may have records of is noted');
  const to = join(dataDir, '../copy');
  const run = (...[name = '', ...args]: string[]) =>
    runTool([...walTools, ...logTools], name, '--data', dataDir, ...args);
  const refusedAs = async (later: object, err: RegExp, ...asked: string[][]): Promise<void> => {
    writeFileSync(file, JSON.stringify({ ...kept, ...later }));
    await t.rejects(startService(ONE, dataDir), err);
    for (const each of asked) t.match(await run(...each), { status: 1, out: '', err }, each[0]!);
  };
  const records = new RegExp(`has records of format ${newest + 1}; .* up to format ${newest}: `);
  await refusedAs({ records: newest + 1 }, records, ['verify']);
  const trim = ['trim', '--archive', to, '--yes'];
  t.match(await run('backup', '--to', to), { status: 0 }, 'its batches are known');
  await refusedAs({ format: 2 }, /has format 2; this version reads format 1/, ['verify'], ['replay'], trim);
});
