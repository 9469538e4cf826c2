// A process that ends although a thread of it never will.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { environmentOf } from './service-process.ts';

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

t.test('an uncaught error is logged, and ends the service', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'daftari-end-'));
  t.teardown(() => rmSync(dataDir, { recursive: true }));
  const defect = 'data:text/javascript,process.on("SIGUSR2", () => { throw new Error("a defect"); })';
  const child = spawn(process.execPath, ['--import', defect, 'src/main.ts'], {
    env: environmentOf(dataDir, {}),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    if (text.includes('"message":"ready"')) child.kill('SIGUSR2');
  });
  t.equal(await new Promise((resolve) => child.once('close', resolve)), 1);
  t.match(said, /^\{"level":"fatal",.*"message":"a defect".*"message":"an uncaught error; stopping"\}$/m);
});
