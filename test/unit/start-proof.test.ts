// How long the mark of a start stays: the start after one that was ended by what it read looks at that first.

import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { proveStart } from '../../src/damage/start-proof.ts';
import { DataDirectoryError } from '../../src/data-directory/identity.ts';
import { LIMITS } from '../../src/limits.ts';
import { createLog } from '../../src/observability/log.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const HOUR_MS = 3_600_000;
const WAIT_MS = 60_000;
const ASKED = 100;
const log = createLog({ level: 'fatal', node: 'n1' });

t.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
t.afterEach(() => mock.timers.reset());

t.test('the mark stays for as long as the views are made, and a while longer', async (t) => {
  const directory = temporaryDirectory(t);
  const mark = join(directory, 'starting');
  const proof = await proveStart(directory, log);
  mock.timers.tick(HOUR_MS);
  // It would be removed by a thread: what is asked of them afterwards is answered after that.
  for (let n = 0; n < ASKED; n++) await stat(directory);
  t.ok(existsSync(mark), 'a start that is at work has not come through');
  proof.cameThrough();
  mock.timers.tick(LIMITS.startProvenMs - 1);
  t.ok(existsSync(mark), 'callers have yet to ask for something');
  mock.timers.tick(1);
  mock.timers.reset();
  await waitFor('the mark is gone', WAIT_MS, () => !existsSync(mark));
});

t.test('a process that ends as it should takes it away at once', async (t) => {
  const directory = temporaryDirectory(t);
  const proof = await proveStart(directory, log);
  proof.cameThrough();
  proof.end();
  t.notOk(existsSync(join(directory, 'starting')));
});

for (const [status, isLeft] of [
  [0, false],
  [1, true],
] as const) {
  t.test(`a start that ends with status ${status} ${isLeft ? 'leaves it' : 'takes it away'}`, async (t) => {
    const directory = temporaryDirectory(t);
    const code = `
      const { proveStart } = await import('./src/damage/start-proof.ts');
      await proveStart(${JSON.stringify(directory)}, {});
      process.exit(${status});`;
    const ended = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' });
    t.equal(ended.status, status, ended.stderr);
    t.equal(existsSync(join(directory, 'starting')), isLeft, 'where it failed the next one looks first');
  });
}

t.test(
  'of a start that ends by an error the next one looks first, but where it was only refused',
  async (t) => {
    const named = (code: unknown): Error => Object.assign(new Error('ended'), { code });
    const left = async (directory: string, error: Error): Promise<boolean> => {
      (await proveStart(directory, log)).endBy(error);
      return existsSync(join(directory, 'starting'));
    };
    for (const [error, isLeft] of [
      [new DataDirectoryError('of another'), false],
      [named('EACCES'), false],
      [named('ENOSPC'), false],
      [named('EIO'), true],
      [named(-30_796), true],
      [new Error('a record of nobody'), true],
    ] as const) {
      t.equal(await left(temporaryDirectory(t), error), isLeft, String(Object(error).code ?? error.message));
    }
    const directory = temporaryDirectory(t);
    const data = WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => t.fail(error) });
    await data.close();
    writeFileSync(join(directory, 'starting'), '');
    t.ok(await left(directory, named('EACCES')), 'what ended the one before may not have been found');
  },
);
