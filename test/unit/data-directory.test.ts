// One process at a time has a data directory, however many start at once over what a killed one left.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readConfig } from '../../src/config.ts';
import { openDataDirectory } from '../../src/data-directory/data-directory.ts';
import { DataDirectoryError, readIdentity } from '../../src/data-directory/identity.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SPACE = { onChange() {}, onError() {} };

function open(directory: string) {
  return openDataDirectory(readConfig({ DATA_DIR: directory, DISK_RESERVE_MB: '0' }), SPACE);
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
