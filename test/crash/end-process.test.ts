// A process that ends although a thread of it never will.

import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { hangDisk, traced } from '../tracer.ts';
import { environmentOf } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

t.test('it ends at once and with its status, after the listeners of exit', async (t) => {
  const directory = temporaryDirectory(t);
  const program = fileURLToPath(new URL('endless-batch.ts', import.meta.url));
  const { status, signal, stderr } = spawnSync(process.execPath, [program, directory], {
    encoding: 'utf8',
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  t.strictSame({ status, signal, stderr }, { status: 3, signal: null, stderr: '' });
  t.equal(readFileSync(join(directory, 'status'), 'utf8'), '3');
});

t.test('nobody stays connected to a process that the disk does not let go', traced, async (t) => {
  const program = fileURLToPath(new URL('hung-sync.ts', import.meta.url));
  const child = spawn(process.execPath, [program, temporaryDirectory(t)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const port = Number(await new Promise((resolve) => child.stdout.setEncoding('utf8').once('data', resolve)));
  const connected = connect(port, '127.0.0.1');
  await new Promise((resolve) => connected.once('connect', resolve));
  const closed = new Promise((resolve) => connected.resume().once('close', resolve));

  const goOn = await hangDisk(child.pid!);
  t.teardown(goOn);
  child.stdin.write('go');
  await closed;
  t.equal(child.exitCode, null, 'it is still there');
  const again = connect(port, '127.0.0.1');
  const error = await new Promise((resolve) => again.once('error', resolve).once('connect', resolve));
  t.match(error, { code: 'ECONNREFUSED' });
  goOn();
  t.equal(await ended, 3);
});

t.test('an uncaught error is logged, and ends the service', async (t) => {
  const dataDir = temporaryDirectory(t);
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
