// stdout, where log lines go: its reader may be slow, stuck or gone, its disk full. The lines of one turn of the event loop are
// written together.
//
// Invariants: nobody waits for the reader, but for LIMITS.logExitMs when the process exits; what is wrong with it is the lines'
// fate alone. What cannot be written is tried again; beyond a bound lines are dropped, and counted.

import { fstatSync, write, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '../limits.ts';

const STDOUT = 1;
const EXIT_LOOK_MS = 10;

/** `full`: the reader is behind. `failed`: it is gone, or there is no room. */
type Flushed = 'done' | 'full' | 'failed';

export class LogOutput {
  readonly #isPipe = isPipe();
  #lines: string[] = [];
  /** Characters of them. */
  #linesSize = 0;
  /** Of lines before those: what was tried and not written. */
  #rest: Buffer | null = null;
  /** Bytes that a thread is writing. */
  #inFlight = 0;
  /** Somebody will go on writing. */
  #isBusy = false;
  #dropped = 0;

  constructor() {
    process.on('exit', () => this.#exit());
  }

  write(line: string): void {
    const waiting = this.#linesSize + (this.#rest?.length ?? 0) + this.#inFlight;
    if (waiting + line.length > LIMITS.logBufferBytesMax) {
      this.#dropped++;
      return;
    }
    this.#lines.push(line);
    this.#linesSize += line.length;
    if (this.#isBusy) return;
    this.#isBusy = true;
    setImmediate(this.#goOn);
  }

  /** Writes what can be written without waiting; pino asks for it after a fatal line. */
  flushSync(): void {
    this.#flush();
  }

  /** Before an exit: resolves when no thread writes, LIMITS.logExitMs later at the latest. What the exit writes then comes last. */
  async settled(): Promise<void> {
    const lastAt = performance.now() + LIMITS.logExitMs;
    while (this.#inFlight > 0 && performance.now() < lastAt) await delay(EXIT_LOOK_MS);
  }

  readonly #goOn = (): void => {
    if (this.#isPipe) this.#afterwards(this.#flush() === 'done');
    else this.#writeInThread();
  };

  /** A file's disk may be slow. */
  #writeInThread(): void {
    const bytes = this.#take();
    if (bytes === null) {
      this.#afterwards(true);
      return;
    }
    this.#inFlight = bytes.length;
    write(STDOUT, bytes, (error, written) => {
      this.#inFlight = 0;
      this.#putBack(bytes.subarray(error === null ? written : 0));
      if (error === null) this.#goOn();
      else this.#afterwards(false);
    });
  }

  #afterwards(isDone: boolean): void {
    if (!isDone) {
      setTimeout(this.#goOn, LIMITS.logRetryMs).unref();
      return;
    }
    this.#isBusy = false;
    if (this.#dropped === 0) return;
    const time = new Date().toISOString();
    const line = { level: 'warn', time, dropped: this.#dropped, message: 'log lines were dropped' };
    this.#dropped = 0;
    this.write(`${JSON.stringify(line)}\n`);
  }

  #flush(): Flushed {
    for (let bytes = this.#take(); bytes !== null; bytes = this.#take()) {
      let written = 0;
      try {
        written = writeSync(STDOUT, bytes);
      } catch (error) {
        return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 'full' : 'failed';
      } finally {
        this.#putBack(bytes.subarray(written));
      }
    }
    return 'done';
  }

  /** What is to be written next; null: nothing. */
  #take(): Buffer | null {
    const rest = this.#rest;
    this.#rest = null;
    if (rest !== null || this.#lines.length === 0) return rest;
    const bytes = Buffer.from(this.#lines.join(''));
    this.#lines = [];
    this.#linesSize = 0;
    return bytes;
  }

  #putBack(bytes: Buffer): void {
    if (bytes.length > 0) this.#rest = this.#rest === null ? bytes : Buffer.concat([bytes, this.#rest]);
  }

  #exit(): void {
    const lastAt = performance.now() + LIMITS.logExitMs;
    const nobody = new Int32Array(new SharedArrayBuffer(4));
    while (this.#flush() === 'full' && performance.now() < lastAt) Atomics.wait(nobody, 0, 0, EXIT_LOOK_MS);
  }
}

/** True: writing never waits. */
function isPipe(): boolean {
  const stat = fstatSync(STDOUT);
  if (!stat.isFIFO() && !stat.isSocket()) return false;
  // Node makes it so when it is first asked for its stream. A thread that waited for a pipe would be waited for at exit.
  void process.stdout;
  return true;
}
