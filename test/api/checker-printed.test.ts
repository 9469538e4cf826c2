// What the checker's exit status says where what it prints comes to nobody.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { WriteAheadLog } from '../../wal/log.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

t.test('whoever reads no further, or a full disk, makes nothing of what was found', async (t) => {
  const directory = temporaryDirectory(t);
  const write = async (name: string, record: string): Promise<string> => {
    const at = join(directory, name);
    const onFailure = (error: Error): void => void t.fail(error.message);
    const log = WriteAheadLog.open({ directory: at, now: Date.now, onFailure });
    const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
    partition.append(record);
    await partition.drained();
    await log.close();
    return at;
  };
  const [one, other] = [await write('one', '{}'), await write('other', '[]')];
  const check = async (stdout: number | 'closed', ...directories: string[]): Promise<[number, string]> => {
    const args = ['deploy/checker.ts', ...directories.flatMap((at) => ['--data-dir', at])];
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', stdout === 'closed' ? 'pipe' : stdout, 'pipe'],
    });
    child.stdout?.destroy();
    const [said, [status]] = await Promise.all([text(child.stderr!), once(child, 'close')]);
    return [status as number, said];
  };
  t.strictSame(await check('closed', one), [0, '']);
  t.strictSame(await check('closed', one, other), [1, '']);
  if (!existsSync('/dev/full')) return;
  const full = openSync('/dev/full', 'w');
  const told =
    'What it found could not be written to standard output: ENOSPC: no space left on device, write\n';
  t.strictSame(await check(full, one), [2, told], 'sound, and nobody was told so');
  t.strictSame(await check(full, one, other), [1, told]);
  closeSync(full);
});
