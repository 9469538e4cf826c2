// A program of the bench or of the product as a child process: started, known to be ready by a line it prints, stopped; or
// killed, when the bench is asked to stop: what it holds is thrown away then.

import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { createInterface } from 'node:readline';
import { STOP_SIGNALS } from '../../src/end-process.ts';

export interface Child {
  readonly pid: number;
  /** The line by which it said that it is ready. */
  readonly readyLine: string;
  /** Milliseconds from its start to that line. */
  readonly readyMs: number;
  /** How it ended and what it said last; null while it runs. */
  lastWords(): string | null;
  /** Resolves when it has ended; a second call waits for the same end. */
  end(signal?: NodeJS.Signals): Promise<void>;
}

export interface ChildOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly isReady: (line: string) => boolean;
  readonly readyMs: number;
  /** As whom it runs; absent: as us. */
  readonly uid?: number;
  readonly gid?: number;
  /** Kills it when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

const LINES_KEPT = 200;
const LAST_LINES = 10;
const END_MS = 60_000;

/** Rejects with what it printed when it ends, or says nothing for `readyMs`, before it is ready; by then it has ended. */
export async function startChild(options: ChildOptions): Promise<Child> {
  const startedAt = performance.now();
  const spawnOptions: SpawnOptions = {
    cwd: options.cwd,
    env: { ...options.env },
    // Its input closes when this process ends (parent.ts).
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.uid === undefined ? {} : { uid: options.uid }),
    ...(options.gid === undefined ? {} : { gid: options.gid }),
  };
  const child = spawnChild(options.command, options.args, spawnOptions, options.signal);
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const printed: string[] = [];
  const readyLine = await untilReady(child, options, printed).catch(async (error: unknown) => {
    if (child.kill('SIGKILL')) await exited;
    throw error;
  });
  return {
    pid: child.pid!,
    readyLine,
    readyMs: performance.now() - startedAt,
    lastWords() {
      const how = child.exitCode ?? child.signalCode;
      return how === null ? null : `ended with ${how}:\n${printed.slice(-LAST_LINES).join('\n')}`;
    },
    async end(signal = 'SIGTERM') {
      child.kill(signal);
      const giveUp = setTimeout(() => child.kill('SIGKILL'), END_MS);
      await exited;
      clearTimeout(giveUp);
    },
  };
}

/** `printed`: gets its lines, also those after it was ready; the last of them stay. */
function untilReady(
  child: ChildProcess,
  { isReady, readyMs, command }: ChildOptions,
  printed: string[],
): Promise<string> {
  return new Promise((resolve, reject) => {
    let settled = false;
    const fail = (why: string): void => {
      if (settled) return;
      settled = true;
      clearTimeout(giveUp);
      reject(new Error(`${command} ${why}:\n${printed.join('\n')}`));
    };
    const giveUp = setTimeout(() => fail(`was not ready after ${readyMs} ms`), readyMs);
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on('line', (line) => {
        printed.push(line);
        if (printed.length > LINES_KEPT) printed.shift();
        if (settled || !isReady(line)) return;
        settled = true;
        clearTimeout(giveUp);
        resolve(line);
      });
    }
    child.once('error', (error) => fail(error.message));
    child.once('exit', () => fail('ended before it was ready'));
  });
}

/** Killed when `signal` is aborted. In the bench's own session: the kernel may share out the cores between sessions first, and
 *  then between threads (sched_autogroup). */
export function spawnChild(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
  signal: AbortSignal | undefined,
): ChildProcess {
  const child = spawn(command, args, options);
  const kill = (): void => void child.kill('SIGKILL');
  signal?.addEventListener('abort', kill);
  // Ctrl-C at a terminal asks all of us. Whom it ended before we have heard it passes it on.
  child.once('exit', (_, by) => {
    const asked = STOP_SIGNALS.find((each) => each === by);
    if (asked !== undefined && !child.killed) process.emit(asked, asked);
  });
  // A signal lives longer than what waits for it.
  child.once('close', () => signal?.removeEventListener('abort', kill));
  return child;
}

interface Failed {
  readonly type: 'failed';
  readonly message: string;
}

/** Runs a program of the bench that tells in lines of JSON what it does, and what it dies of. `hear` returns what came of it, null for
 *  any line before. Rejects when it ends without that; `name` says which it was. `signal`: kills it when it is aborted. */
export function runProgram<Line extends { readonly type: string }, Result>(
  name: string,
  args: readonly string[],
  signal: AbortSignal | undefined,
  hear: (line: Exclude<Line, Failed>, pid: number) => Result | null,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const child = spawnChild(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] }, signal);
    let result: Result | null = null;
    let failure = '';
    createInterface({ input: child.stdout! }).on('line', (text) => {
      const line = JSON.parse(text) as Failed | Exclude<Line, Failed>;
      if (line.type === 'failed') failure = `: ${(line as Failed).message}`;
      else result ??= hear(line as Exclude<Line, Failed>, child.pid!);
    });
    child.once('error', reject);
    child.once('close', (status, by) => {
      if (result === null) reject(new Error(`${name} ended with ${status ?? by}${failure}`));
      else resolve(result);
    });
  });
}
