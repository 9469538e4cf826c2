// What becomes of the lines on stdout is no matter of payments: a reader that is stuck or gone, or a full disk under them, holds
// up neither the service nor its end.

import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import type { Demo } from '../../src/operator/demo.ts';
import { environmentOf } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const MORE_THAN_A_PIPE_HOLDS = 1_000;
const WAIT_MS = 60_000;

interface Started {
  readonly child: ChildProcess;
  readonly demo: Demo;
  readonly ended: Promise<number | null>;
}

/** A warning of Node's when it is asked for. */
const WARNING = 'data:text/javascript,process.on("SIGUSR2",()=>process.emitWarning("as asked"))';

/** `stdout`: "pipe", or a file's descriptor. Nobody reads stderr. */
async function start(t: Test, stdout: 'pipe' | number, arrange: (child: ChildProcess) => void) {
  const dataDir = temporaryDirectory(t);
  const child = spawn(process.execPath, ['--import', WARNING, 'src/main.ts'], {
    env: environmentOf(dataDir, { PARTITIONS: '2', LOG_LEVEL: 'debug' }),
    stdio: ['ignore', stdout, 'pipe'],
  });
  child.stderr!.destroy();
  t.teardown(() => child.kill('SIGKILL'));
  const ended = new Promise<number | null>((resolve) => child.once('exit', (status) => resolve(status)));
  arrange(child);
  const demoFile = join(dataDir, 'demo.json');
  await waitFor('it has written its demo', WAIT_MS, () => {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}`);
    return existsSync(demoFile);
  });
  const demo = JSON.parse(readFileSync(demoFile, 'utf8')) as Demo;
  await waitFor('it is ready', WAIT_MS, async () => (await fetch(`${demo.operator_url}/readyz`)).ok);
  return { child, demo, ended } satisfies Started;
}

/** Each leaves a line. */
async function request({ demo }: Started, times: number): Promise<void> {
  for (let n = 0; n < times; n++) {
    const answer = await fetch(`${demo.base_url}/v1/balances`);
    await answer.arrayBuffer();
    if (answer.status !== 401) throw new Error(`answered ${answer.status}`);
  }
}

// [stdout, what is done with it, requests, signal that ends it]
const cases: readonly [string, 'pipe' | number, (child: ChildProcess) => void, number, NodeJS.Signals][] = [
  ['a reader that has gone', 'pipe', ({ stdout }) => stdout!.destroy(), 5, 'SIGTERM'],
  ['a reader that is stuck', 'pipe', ({ stdout }) => stdout!.pause(), MORE_THAN_A_PIPE_HOLDS, 'SIGTERM'],
  ['a file on a full disk', openSync('/dev/full', 'w'), () => {}, 5, 'SIGTERM'],
  ['a terminal that is closed', 'pipe', ({ stdout }) => stdout!.destroy(), 5, 'SIGHUP'],
];

t.test('the service serves, and its end is graceful', async (t) => {
  const lives = cases.map(async ([name, stdout, arrange, requests, signal]) => {
    const started = await start(t, stdout, arrange);
    started.child.kill('SIGUSR2');
    await request(started, requests);
    started.child.kill(signal);
    return [name, await started.ended];
  });
  t.strictSame(
    await Promise.all(lives),
    cases.map(([name]) => [name, 0]),
  );
});

const LINES = 40;
/** Before the last line of each 300,000 characters: more than a pipe holds, and all of them more than may wait. */
const WRITER = `
import { createLog } from './src/observability/log.ts';
const log = createLog({ level: 'info', node: 'n1' });
for (let n = 0; n < ${LINES}; n++) log.info({ n, text: 'x'.repeat(300_000) }, 'long');
process.stderr.write('written');
`;

t.test('a reader that comes back gets whole lines, and is told how many were dropped', async (t) => {
  const child = spawn(process.execPath, [
    '--input-type=module',
    '-e',
    `${WRITER}setInterval(() => {}, 1_000);`,
  ]);
  t.teardown(() => child.kill('SIGKILL'));
  child.stdout.pause();
  await new Promise((resolve) => child.stderr.once('data', resolve));
  let text = '';
  child.stdout
    .setEncoding('utf8')
    .on('data', (more: string) => (text += more))
    .resume();
  await waitFor('it says what was dropped', WAIT_MS, () => text.endsWith('}\n') && text.includes('dropped'));
  const lines = text.trim().split('\n');
  const told = lines.map((line) => JSON.parse(line) as { n?: number; dropped?: number });
  const whole = told.flatMap(({ n }) => (n === undefined ? [] : [n]));
  t.strictSame(
    whole,
    Array.from({ length: whole.length }, (_, n) => n),
    'in their order',
  );
  t.equal(told.at(-1)?.dropped, LINES - whole.length);
});

t.test('a process that exits leaves its last lines with a reader that reads', async (t) => {
  const writer = WRITER.replace(String(LINES), '20');
  const child = spawn(process.execPath, ['--input-type=module', '-e', `${writer}process.exit(0);`]);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
  await new Promise((resolve) => child.once('close', resolve));
  t.equal(
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object).length,
    20,
  );
});

/** Whose only thread for files has something else to do first, for as long as it takes to have the next line. */
const BUSY_DISK = `
import { pbkdf2 } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { createLog } from './src/observability/log.ts';
import { LogOutput } from './src/observability/log-output.ts';
const stream = new LogOutput();
const log = createLog({ level: 'info', node: 'n1', stream });
let isBusy = true;
pbkdf2('', '', 500_000, 64, 'sha512', () => (isBusy = false));
log.info({}, 'stopping');
await setImmediate();
await setImmediate();
log.info({ isBusy }, 'stopped');
await stream.settled();
process.exit(0);
`;

t.test('a process that exits says last what it says last, in a file on a slow disk too', async (t) => {
  const file = join(temporaryDirectory(t), 'log');
  const child = spawn(process.execPath, ['--input-type=module', '-e', BUSY_DISK], {
    env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
    stdio: ['ignore', openSync(file, 'a'), 'inherit'],
  });
  t.equal(await new Promise((resolve) => child.once('exit', resolve)), 0);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  t.match(
    lines.map((line) => JSON.parse(line) as object),
    [{ message: 'stopping' }, { message: 'stopped', isBusy: true }],
  );
});
