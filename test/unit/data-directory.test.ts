// One process at a time has a data directory, however many start at once over what a killed one left.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { statfs } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { mock } from 'node:test';
import t from 'tap';
import { openDemoMerchant } from '../../deploy/demo-merchant.ts';
import { readConfig, type RailsSetting } from '../../src/config.ts';
import { checkMoney, noteCluster, openDataDirectory } from '../../src/data-directory/data-directory.ts';
import { DiskSpace } from '../../src/data-directory/disk-space.ts';
import { DataDirectoryError, placesNoted, readIdentity } from '../../src/data-directory/identity.ts';
import { LIMITS } from '../../src/limits.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SPACE = { onChange() {}, onError() {} };

function open(directory: string, settings: Record<string, string> = {}) {
  return openDataDirectory(readConfig({ DATA_DIR: directory, DISK_RESERVE_MB: '0', ...settings }), SPACE);
}

/** A lock whose process was killed. */
function leaveLock(directory: string): void {
  const killed = `require('node:net').createServer().listen('lock', () => process.kill(process.pid, 'SIGKILL'))`;
  spawnSync(process.execPath, ['-e', killed], { cwd: directory });
}

t.test('of starts that find the lock of a killed process at once, one gets it', async (t) => {
  for (const starts of [1, 2, 5]) {
    const directory = temporaryDirectory(t);
    leaveLock(directory);
    t.strictSame(readdirSync(directory), ['lock']);
    const all = await Promise.allSettled(Array.from({ length: starts }, () => open(directory)));
    const opened = all.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const refused = all.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    t.equal(opened.length, 1);
    t.ok(refused.every((error) => error instanceof DataDirectoryError && error.message.includes('in use')));
    await t.rejects(open(directory), { message: /in use by another process/ }, 'nor does a later one');
    t.strictSame(readdirSync(directory), ['daftari.json', 'lock'], 'nothing else is left');
    await opened[0]!.release();
    await (await open(directory)).release();
  }
});

t.test('a directory of a later version is refused, whatever else it says of itself', async (t) => {
  const directory = t.testdir({ 'daftari.json': '{"format":2}' });
  const message = `${directory} has format 2; this version reads format 1`;
  await t.rejects(open(directory), { name: 'DataDirectoryError', message });
});

t.test('a bit that turned over in a name of daftari.json does not make what it says unsaid', async (t) => {
  const directory = temporaryDirectory(t);
  await (await open(directory)).release();
  const file = join(directory, 'daftari.json');
  const said = { ...readIdentity(directory)!, masterKey: 'of another', money: 'real', cluster: true };
  const whole = Buffer.from(JSON.stringify(said));
  const names = Object.keys(said);
  t.strictSame(names, ['format', 'partitions', 'masterKey', 'records', 'money', 'cluster']);
  const taken: string[] = [];
  for (const name of names) {
    const begins = whole.indexOf(`"${name}"`) + 1;
    for (let bit = 0; bit < name.length * 8; bit += 1) {
      const turned = Buffer.from(whole);
      turned[begins + (bit >> 3)]! ^= 1 << (bit & 7);
      writeFileSync(file, turned);
      try {
        readIdentity(directory);
        taken.push(turned.toString());
      } catch (error) {
        t.match(error, { name: 'DataDirectoryError', message: /daftari.json is damaged: put the one back/ });
      }
    }
  }
  t.strictSame(taken, []);
  // A later version may say more, and an earlier one said less.
  const { cluster, ...less } = said;
  for (const fields of [{ ...said, more: 1 }, less]) {
    writeFileSync(file, JSON.stringify(fields));
    t.hasStrict(readIdentity(directory), less);
  }
});

t.test('what a later version says besides stays when something is noted', async (t) => {
  const directory = temporaryDirectory(t);
  await (await open(directory)).release();
  const file = join(directory, 'daftari.json');
  const said = { ...readIdentity(directory)!, more: { of: 'a later version' } };
  writeFileSync(file, JSON.stringify(said));
  const opened = await open(directory);
  checkMoney(opened, { type: 'simulator' } as RailsSetting);
  noteCluster(opened);
  await opened.release();
  t.strictSame(JSON.parse(readFileSync(file, 'utf8')), { ...said, money: 'simulated', cluster: true });
});

t.test('a number of partitions that nobody can have is damage', async (t) => {
  const directory = temporaryDirectory(t);
  await (await open(directory)).release();
  const said = readIdentity(directory)!;
  for (const partitions of [0, -1, 1.5, LIMITS.partitionsMax + 1, 1e15]) {
    writeFileSync(join(directory, 'daftari.json'), JSON.stringify({ ...said, partitions }));
    t.throws(() => readIdentity(directory), { message: /daftari\.json is damaged/ }, String(partitions));
    t.equal(placesNoted(directory), null);
  }
});

t.test('a directory is of as many partitions as it was made with, for ever', async (t) => {
  const directory = temporaryDirectory(t);
  await (await open(directory, { PARTITIONS: '4' })).release();
  const said = readFileSync(join(directory, 'daftari.json'));
  for (const other of ['3', '5', '16']) {
    await t.rejects(open(directory, { PARTITIONS: other }), {
      name: 'DataDirectoryError',
      message:
        `${directory} was made with PARTITIONS=4 and cannot be opened with ${other}: ` +
        "an account's partition never changes. Set PARTITIONS=4.",
    });
  }
  t.strictSame(readFileSync(join(directory, 'daftari.json')), said);
  await (await open(directory, { PARTITIONS: '4' })).release();
});

t.test('on a disk that is short none is made, and one that is there is opened', async (t) => {
  const [made, none] = [temporaryDirectory(t), temporaryDirectory(t)];
  await (await open(made)).release();
  const short = { DISK_RESERVE_MB: '1000000000' };
  await (await open(made, short)).release();
  await t.rejects(open(none, short), {
    name: 'DataDirectoryError',
    message: /less than the reserve of 1000000000 MiB .*: make room, or choose another disk with DATA_DIR\.$/,
  });
  t.notOk(existsSync(join(none, 'daftari.json')));
  await (await open(none)).release();
});

t.test('a disk is short below the reserve, and nearly full below half of it', (t) => {
  const directory = temporaryDirectory(t);
  const { bavail, bsize } = statfsSync(directory);
  // Others write there meanwhile: far from both bounds.
  for (const [ofReserve, isShort, isNearlyFull] of [
    [Infinity, false, false],
    [3, false, false],
    [0.75, true, false],
    [0.25, true, true],
  ] as const) {
    const said: (string | null)[] = [];
    const reserveBytes = (bavail * bsize) / ofReserve;
    const onChange = (shortage: string | null): number => said.push(shortage);
    const space = new DiskSpace({ ...SPACE, directory, reserveBytes, onChange });
    space.stop();
    t.strictSame([space.isShort, space.isNearlyFull], [isShort, isNearlyFull], `${ofReserve} of it are free`);
    t.strictSame(said, isShort ? [space.shortage] : [], 'and a start says so');
    t.equal(space.shortage !== null, isShort);
  }
  t.end();
});

t.test('what becomes of the space of a disk is said once, and so is that it cannot be told', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const directory = join(temporaryDirectory(t), 'disk');
  const putOn = (disk: string): void => {
    rmSync(directory, { force: true });
    symlinkSync(disk, directory);
  };
  putOn(temporaryDirectory(t));
  const said: string[] = [];
  const space = new DiskSpace({
    directory,
    reserveBytes: 1,
    onChange: (shortage) => said.push(shortage === null ? 'roomy' : 'short'),
    onError: ({ message }) => said.push(message.slice(0, 6)),
  });
  t.teardown(() => space.stop());
  const look = async (): Promise<void> => {
    mock.timers.tick(LIMITS.diskLookMs);
    // As what it asks for itself, and after that.
    await statfs(directory).catch(() => {});
  };
  const lookUntilSaid = async (count: number): Promise<void> => {
    while (said.length < count) await look();
    for (let n = 0; n < 5; n++) await look();
  };
  // No bytes are free on it.
  const fullDisk = '/proc';
  rmSync(directory);
  await lookUntilSaid(1);
  putOn(fullDisk);
  await lookUntilSaid(2);
  rmSync(directory);
  await lookUntilSaid(3);
  t.ok(space.isShort, 'as it was seen last');
  putOn(temporaryDirectory(t));
  await lookUntilSaid(4);
  t.strictSame(said, ['ENOENT', 'short', 'ENOENT', 'roomy']);
});

t.test('where it cannot be told whether it is in use, its user is told why', async (t) => {
  const directory = temporaryDirectory(t);
  chmodSync(directory, 0o555);
  // Root writes everywhere.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    await t.rejects(open(directory), {
      name: 'DataDirectoryError',
      message:
        /^cannot tell whether \S+ is in use: .*EACCES\. The service's user must be able to write there\.$/,
    });
  } finally {
    if (isRoot) process.seteuid?.(0);
    chmodSync(directory, 0o700);
  }
});

t.test('what cannot be a directory is said to be none', async (t) => {
  const directory = t.testdir({ file: '' });
  for (const path of [join(directory, 'file'), join(directory, 'file/below'), '/proc/daftari/data']) {
    await t.rejects(open(path), {
      name: 'DataDirectoryError',
      message: /cannot be a data directory/,
    });
  }
});

t.test("a disk that does not take the demo account's file of a cluster leaves it as it was", (t) => {
  const directory = temporaryDirectory(t);
  const file = join(directory, 'demo.json');
  const kept = JSON.stringify({ account_id: 'acc_1', secret_key: 'sk_live_1' });
  writeFileSync(file, kept);
  const merchant = join(import.meta.dirname, '../../deploy/demo-merchant.ts');
  const script = `import { openDemoMerchant } from '${merchant}';
    await openDemoMerchant('${directory}', {}).catch(({ message }) => process.stdout.write(message));`;
  // No file may grow: not one byte of it is taken.
  const limited = `trap '' XFSZ; ulimit -f 0; exec "$@"`;
  const node = [process.execPath, '--input-type=module', '-e', script];
  const { stdout } = spawnSync('sh', ['-c', limited, 'sh', ...node], { encoding: 'utf8' });
  t.match(stdout, /^EFBIG: file too large, write '.*demo\.json\.new'$/);
  t.equal(readFileSync(file, 'utf8'), kept);
  t.end();
});

t.test('nor is a node of it waited for that says nothing', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  t.teardown(() => {
    silent.closeAllConnections();
    silent.close();
  });
  await once(silent, 'listening');
  const operator_url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const addresses = { base_url: operator_url, operator_url, operator_token: 'token', simulator_url: '' };
  await t.rejects(openDemoMerchant(temporaryDirectory(t), addresses, 50), { name: 'TimeoutError' });
});
