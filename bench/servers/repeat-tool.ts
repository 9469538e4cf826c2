// A log tool beside a live service, as an operator runs it (`npm run wal -- <tool>`); again and again, so that it is at work for
// as long as a load lasts.

import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { constants, getPriority } from 'node:os';
import { join } from 'node:path';
import { waitFor } from '../../deploy/wait-for.ts';
import { childrenOf } from '../../deploy/stop-signal.ts';
import { spawnChild } from './child.ts';

export interface RepeatedToolOptions {
  /** Whose tool it is: the folder of a checkout. */
  readonly checkout: string;
  /** Of its n-th run, from 0; where it writes something, to another place each time. */
  readonly argsOf: (n: number) => readonly string[];
  /** Kills it when it is aborted. */
  readonly signal: AbortSignal | undefined;
}

export interface RepeatedTool {
  /** Resolves when it has begun to read the log, or has ended. Rejects when it has not for too long. */
  reading(): Promise<void>;
  /** Runs that came to their end. */
  runs(): number;
  /** How it ended, and what it said, where that was not with status 0; it was not run again. Null: it always was. */
  failure(): string | null;
  /** Resolves when it has ended. */
  stop(): Promise<void>;
}

const READING_MS = 600_000;

export function repeatTool({ checkout, argsOf, signal }: RepeatedToolOptions): RepeatedTool {
  let runs = 0;
  let failure: string | null = null;
  let isStopping = false;
  let child: ChildProcess | null = null;
  const runOnce = async (): Promise<void> => {
    const args = [join(checkout, 'wal/cli.ts'), ...argsOf(runs)];
    // In a session of its own, as an operator's shell is, and a service that systemd has started.
    const options: SpawnOptions = { stdio: ['ignore', 'ignore', 'pipe'], detached: true };
    child = spawnChild(process.execPath, args, options, signal);
    let said = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text));
    const [status, by] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (status === 0) runs++;
    else if (!isStopping) failure = `ended with ${status ?? by}: ${said}`;
  };
  const all = (async () => {
    while (failure === null && !isStopping) await runOnce();
  })().catch((error: unknown) => {
    failure = String(error);
  });
  const isReading = (): boolean =>
    runs > 0 || failure !== null || childrenOf(child?.pid ?? 0).some(isAtLowPriority);
  return {
    reading: () => waitFor('a log tool has opened the log', READING_MS, isReading),
    runs: () => runs,
    failure: () => failure,
    async stop() {
      isStopping = true;
      child?.kill('SIGTERM');
      await all;
    },
  };
}

/** As a tool is from when it has opened the log. */
function isAtLowPriority(pid: number): boolean {
  try {
    return getPriority(pid) === constants.priority.PRIORITY_LOW;
  } catch {
    // It has ended meanwhile.
    return false;
  }
}
