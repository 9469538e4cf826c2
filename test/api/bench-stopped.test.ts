// The bench, stopped before its end: nothing that it started runs on, nothing that it wrote stays, and its status says so.

import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { childrenOf } from '../../deploy/stop-signal.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const READY_MS = 60_000;
const END_MS = 30_000;

// Short titles: they are part of the data directory's name, which has a longest one.
t.test('by SIGTERM', async (t) => {
  const bench = await startBench(t, 'charges', ['src/main.ts', 'bare.ts', 'driver.ts']);
  bench.kill('SIGTERM');
  t.equal(await bench.exited, 128 + 15);
  t.match(bench.said(), /^stopping …\nInterrupted by SIGTERM/m);
  t.notMatch(bench.said(), /could not be measured/);
  t.strictSame(bench.left(), []);
});

t.test('by Ctrl-C', async (t) => {
  const bench = await startBench(t, 'charges', ['src/main.ts']);
  // While it starts a service. The terminal signals all, and npm passes it on.
  bench.killAll('SIGINT');
  bench.kill('SIGINT');
  t.equal(await bench.exited, 128 + 2);
  t.match(bench.said(), /^Interrupted by SIGINT/m);
  t.notMatch(bench.said(), /could not be measured/);
  t.strictSame(bench.left(), []);
});

t.test('by Ctrl-C that another hears first', async (t) => {
  const bench = await startBench(t, 'bare', ['bare.ts', 'driver.ts']);
  process.kill(bench.pidOf('bare.ts'), 'SIGINT');
  t.equal(await bench.exited, 128 + 2);
  t.match(bench.said(), /^Interrupted by SIGINT/m);
  t.strictSame(bench.left(), []);
});

t.test('while a history is written', async (t) => {
  const bench = await startBench(t, 'recovery', ['history/main.ts'], ['--recovery-transactions', '1000000']);
  bench.kill('SIGHUP');
  t.equal(await bench.exited, 128 + 1);
  t.strictSame(bench.left(), []);
});

t.test('unheard', async (t) => {
  const bench = await startBench(t, 'charges', ['src/main.ts'], [], false);
  bench.kill('SIGHUP');
  t.equal(await bench.exited, 128 + 1);
  t.strictSame(bench.left(), []);
});

t.test('by a second signal, when one of its own does not end', async (t) => {
  const bench = await startBench(t, 'bare', ['bare.ts', 'driver.ts']);
  process.kill(bench.pidOf('bare.ts'), 'SIGSTOP');
  let status: number | null | undefined;
  void bench.exited.then((known) => (status = known));
  await waitFor('it ends', END_MS, () => {
    bench.kill('SIGTERM');
    return status !== undefined;
  });
  t.equal(status, 128 + 15);
  await waitFor('the others have ended', END_MS, () => bench.running().length === 0);
});

t.test('by SIGKILL', async (t) => {
  const bench = await startBench(t, 'bare', ['bare.ts', 'driver.ts']);
  bench.kill('SIGKILL');
  t.equal(await bench.exited, null);
  await waitFor('what it started has ended', END_MS, () => bench.running().length === 0);
});

/** Under a load that lasts, with a child of each of these programs. Where it is not `heard`, nobody reads what it says, as when its
 *  terminal has been closed. */
async function startBench(
  t: Test,
  scenario: string,
  programs: readonly string[],
  more: readonly string[] = [],
  heard = true,
) {
  const directory = temporaryDirectory(t);
  const args = ['bench/cli.ts', scenario, '--form', 'smoke', '--seconds', '60', ...more];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, TMPDIR: directory },
    stdio: ['ignore', 'ignore', 'pipe'],
    // A group of its own, as a terminal's command has.
    detached: true,
  });
  const pid = child.pid!;
  let said = '';
  if (!heard) child.stderr.destroy();
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const started = new Set<number>();
  const running = (): number[] => Array.from(started).filter((each) => commandOf(each) !== '');
  t.teardown(() => {
    for (const each of [pid, ...running()]) if (commandOf(each) !== '') process.kill(each, 'SIGKILL');
  });
  const pidOf = (program: string): number =>
    childrenOf(pid).find((each) => commandOf(each).includes(program)) ?? 0;
  await waitFor(`it has started ${programs.join(', ')}`, READY_MS, () => {
    if (child.exitCode !== null) throw new Error(`it has ended: ${said}`);
    for (const each of childrenOf(pid)) started.add(each);
    return programs.every((program) => pidOf(program) > 0);
  });
  return {
    exited,
    pidOf,
    running,
    said: () => said,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    killAll: (signal: NodeJS.Signals) => process.kill(-pid, signal),
    /** Processes and files. */
    left: () => [...running().map(commandOf), ...readdirSync(directory)],
  };
}

/** Empty: there is no such process, or it has ended and nobody has asked for its status. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
