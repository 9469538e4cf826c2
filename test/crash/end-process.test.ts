// A process that ends although a thread of it never will.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

t.test('it ends at once and with its status, after the listeners of exit', async (t) => {
  const directory = t.testdir();
  const program = fileURLToPath(new URL('endless-batch.ts', import.meta.url));
  const { status, signal, stderr } = spawnSync(process.execPath, [program, directory], {
    encoding: 'utf8',
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  t.strictSame({ status, signal, stderr }, { status: 3, signal: null, stderr: '' });
  t.equal(readFileSync(join(directory, 'status'), 'utf8'), '3');
});
