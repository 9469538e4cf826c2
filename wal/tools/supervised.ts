// A tool in a process of its own, watched by one that reads nothing: what LMDB finds in a damaged file can end the process that
// reads it without a word. Then it is found out what that was, said, and the tool runs once more without it.
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { messageOf } from '../thrown.ts';
import type { ReadUpTo, Unreadable } from '../unreadable.ts';
import { lineIntervalMs } from './progress.ts';
import { dataDirectoryOf } from './tool.ts';

/** Exit status of a tool's process, to be told in its place: LMDB says of the log that it cannot be searched. */
export const LOG_UNSEARCHABLE = 3;

/** To a tool's process, first of all. */
export interface ToTool {
  readonly directory: string;
  readonly unreadable: Unreadable | null;
}

/** A directory that it has for as long as it works. */
export interface FromTool {
  readonly temporary: string;
}

export interface Supervision {
  /** Runs a tool, as a process with a channel for a ToTool. */
  readonly program: string;
  readonly args: readonly string[];
  readonly stopSignals: readonly NodeJS.Signals[];
  /** What a tool leaves that such a signal has ended, by its name. */
  readonly left: Readonly<Record<string, string>>;
  /** Tools that look at no data directory: what has ended one is not in it. */
  readonly elsewhere: ReadonlySet<string>;
  /** Ends this process as one that the signal has ended. */
  readonly endBy: (signal: NodeJS.Signals) => void;
  /** Whether a process is ended so by what it reads. */
  isDeath(signal: NodeJS.Signals | null): boolean;
  /** Finds out what of a data directory cannot be read; calls `onReading` for each batch. */
  prove(
    directory: string,
    onReading: (upTo: ReadUpTo) => void,
  ): Promise<{ readonly unreadable: Unreadable; readonly log: string | null }>;
}

/** Its width has changed; whom Ctrl-Z has stopped goes on. */
const FROM_TERMINAL: readonly NodeJS.Signals[] = ['SIGWINCH', 'SIGCONT'];

interface Ending {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Resolves with the exit status. */
export async function supervised(supervision: Supervision): Promise<number> {
  const { args } = supervision;
  const directory = directoryIn(args);
  const first = await runOnce(supervision, { directory, unreadable: null });
  const hasFailed = ({ status, signal }: Ending): boolean =>
    supervision.isDeath(signal) || status === LOG_UNSEARCHABLE;
  if (!hasFailed(first)) return statusOf(supervision, first);
  const tool = args[0] ?? '';
  if (supervision.elsewhere.has(tool)) {
    say(
      `${tool}: ${endingText(first)}: is there too little memory, or is something wrong with the disk that it writes to? ` +
        (supervision.left[tool] ?? ''),
    );
    return 1;
  }
  say(`${tool}: ${endingText(first)}: looking for what in ${directory} cannot be read`);
  const { unreadable, log } = await supervision.prove(directory, sayingNowAndThen(tool));
  if (log !== null) {
    say(`${tool}: the log in ${directory} cannot be opened (${log}): restore it from a backup`);
    return 1;
  }
  const isNothingFound = unreadable.places.length === 0 && unreadable.views === null;
  if (isNothingFound && first.signal !== null) {
    say(
      `${tool}: all of it can be read. Is there too little memory, or are other files damaged that it was given?`,
    );
    return 1;
  }
  // Each partition was looked for by its name: what it says of those may be that they are sound.
  if (isNothingFound) {
    say(
      `${tool}: pages that lead to partitions are damaged: what follows is of those that are found all the same, and others ` +
        'may be lost. Restore it from a backup',
    );
  }
  for (const { group, partition, batch, ending } of unreadable.places) {
    const from = batch === 0 ? '' : `, from batch ${batch} on`;
    say(`${tool}: the log of ${group}/${partition} cannot be read${from} (${ending})`);
  }
  if (unreadable.views !== null) say(`${tool}: the views cannot be read (${unreadable.views})`);
  const second = await runOnce(supervision, { directory, unreadable });
  // Also where the tool met none of it this time.
  if (!hasFailed(second)) return Math.max(1, statusOf(supervision, second));
  say(`${tool}: ${endingText(second)}: ${directory} cannot be read, restore it from a backup`);
  return 1;
}

/** By the time: a partition's batches are read in no time, and so many partitions, each of which may end two processes, are not. */
function sayingNowAndThen(tool: string): (upTo: ReadUpTo) => void {
  let saidAt = performance.now();
  return ({ group, partition, batch, nth, of }) => {
    const now = performance.now();
    if (now - saidAt < lineIntervalMs) return;
    saidAt = now;
    say(`${tool}: reading ${group}/${partition} (${nth} of ${of} partitions), batch ${batch}`);
  };
}

function directoryIn(args: readonly string[]): string {
  const { values } = parseArgs({ args: [...args], options: { data: { type: 'string' } }, strict: false });
  return dataDirectoryOf(values['data'], process.env);
}

function endingText({ signal }: Ending): string {
  return signal === null ? 'the log cannot be searched' : `it was ended by ${signal}`;
}

function statusOf(supervision: Supervision, { status, signal }: Ending): number {
  if (signal !== null) {
    sayLeft(supervision, signal);
    supervision.endBy(signal);
  }
  return status ?? 128 + constants.signals[signal!];
}

function sayLeft({ args, stopSignals, left }: Supervision, signal: NodeJS.Signals): void {
  const [tool = '', ...options] = args;
  const words = left[tool];
  if (words === undefined || !stopSignals.includes(signal) || options.includes('--help')) return;
  // Behind the progress, which ends no line.
  say(`${process.stderr.isTTY ? '\n' : ''}${tool}: interrupted by ${signal}: ${words}`);
}

function runOnce({ program, args, stopSignals }: Supervision, message: ToTool): Promise<Ending> {
  return new Promise((resolve, reject) => {
    // Its end of the channel tells it when this process is killed.
    const stdio = ['inherit', 'inherit', 'inherit', 'ipc'] as const;
    // A session of its own, whose priority is its own (priority.ts): what a terminal asks of us is passed on.
    const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
      stdio: [...stdio],
      detached: true,
    });
    child.once('error', reject);
    // No open file is left for it: it has no channel, and nothing but its error is told.
    if (child.pid === undefined) return;
    const passOn = (signal: NodeJS.Signals): void => void child.kill(signal);
    const temporaries: string[] = [];
    child.on('message', ({ temporary }: FromTool) => void temporaries.push(temporary));
    const pause = (): void => {
      child.kill('SIGSTOP');
      process.kill(process.pid, 'SIGSTOP');
    };
    const passedOn = [...stopSignals, ...FROM_TERMINAL];
    for (const each of passedOn) process.on(each, passOn);
    process.on('SIGTSTP', pause);
    child.once('exit', (status, signal) => {
      for (const each of passedOn) process.off(each, passOn);
      process.off('SIGTSTP', pause);
      if (signal !== null) temporaries.forEach(removeOrName);
      resolve({ status, signal });
    });
    child.send(message, (error) => {
      // It has ended already, and that is told.
      if (error !== null && child.connected) reject(error);
    });
  });
}

/** The disk that ended a tool may keep this, too. */
function removeOrName(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch (error) {
    say(`${path} is left, and may be removed: ${messageOf(error)}`);
  }
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
