// A process that reads LMDB files which may be damaged: LMDB trusts its pages, and what it finds in them can end the process
// that reads, without a word. It says what it is about to read before it does, a line of JSON each; whoever started it knows by
// the last one what it died of.

import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { LIMITS } from '../limits.ts';

/** Exit status of a reader of what LMDB says cannot be read. */
export const UNREADABLE = 3;
/** What reading a damaged file can end in. */
const DEATHS: readonly (NodeJS.Signals | null)[] = ['SIGBUS', 'SIGSEGV', 'SIGABRT', 'SIGILL', 'SIGTRAP'];

export function isDeath(signal: NodeJS.Signals | null): boolean {
  return DEATHS.includes(signal);
}

const PIPE_FULL_MS = 1;

/** What Node needs to run. Not MASTER_KEY and the like: where the system keeps what was in the memory of a process that dies, it keeps
 *  the environment, too, and a reader is there to die. */
function environment(): NodeJS.ProcessEnv {
  const { PATH, NODE_OPTIONS, LD_LIBRARY_PATH } = process.env;
  return { PATH, NODE_OPTIONS, LD_LIBRARY_PATH };
}

/** In a reader, before it opens a file of LMDB's: ends it when whoever started it is gone. Of a service that was killed the next one may
 *  begin meanwhile, or the directory be removed. */
export function sayReady(): void {
  write('\n');
}

/** In a reader: at once, for it may not live to say it later; whoever started it reads it in its own time. */
export function say(said: object): void {
  write(`${JSON.stringify(said)}\n`);
}

function write(text: string): void {
  let left = Buffer.from(text);
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(1, left));
    } catch (error) {
      if (Object(error).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PIPE_FULL_MS);
    }
  }
}

export interface ReaderOptions<Said> {
  readonly onSaid: (said: Said) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

export interface Reading {
  /** How it ended, and its last words; null: it read all. */
  readonly ending: string | null;
  /** It ended of what it read. */
  readonly isDamaged: boolean;
}

/** Rejects when it cannot be started. */
export function runReader<Said>(
  program: URL,
  args: readonly string[],
  { onSaid, signal: ends }: ReaderOptions<Said>,
): Promise<Reading> {
  return new Promise((resolve, reject) => {
    const reader = spawn(process.execPath, [fileURLToPath(program), ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: environment(),
    });
    reader.once('error', reject);
    // No open file is left for it: it has no pipes, and nothing but its error is told.
    if (reader.pid === undefined) return;
    let words = '';
    reader.stderr.setEncoding('utf8').on('data', (text: string) => {
      words = (words + text).slice(-LIMITS.lastWordsMax);
    });
    createInterface({ input: reader.stdout }).on('line', (line) => {
      if (line !== '') onSaid(JSON.parse(line) as Said);
    });
    const kill = (): void => void reader.kill('SIGKILL');
    if (ends.aborted) kill();
    ends.addEventListener('abort', kill);
    reader.once('close', (status, signal) => {
      ends.removeEventListener('abort', kill);
      const ending = status === 0 ? null : (signal ?? `exit status ${status} ${words}`.trim());
      resolve({ ending, isDamaged: status === UNREADABLE || isDeath(signal) });
    });
  });
}
