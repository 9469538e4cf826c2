// How far a long tool is: share, rate and time left, on standard error, never in the way of the result.

export interface ProgressOptions {
  write(text: string): void;
  readonly shown: boolean;
  /** A terminal: one line is written over. Otherwise a line now and then. */
  readonly overwrites: boolean;
  /** How wide the terminal is now; 0 or absent: it does not say. A line that wraps could not be written over. */
  readonly columns?: () => number;
}

const terminalIntervalMs = 200;
const batchesUnit = 'batches';
/** Of lines that are not written over. */
export const lineIntervalMs = 5_000;

export class Progress {
  readonly #options: ProgressOptions;
  #what = '';
  #unit = '';
  #total = 0;
  #done = 0;
  #bytes = 0;
  #startedMs = 0;
  #shownMs = 0;
  #onScreen = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  /** A new piece of work of `total` batches, or of what else `unit` says, which is few, slow, and has no bytes. */
  start(what: string, total: number, unit = batchesUnit): void {
    this.#what = what;
    this.#unit = unit;
    this.#total = total;
    this.#done = 0;
    this.#bytes = 0;
    this.#startedMs = performance.now();
    this.#shownMs = this.#options.overwrites ? -Infinity : this.#startedMs;
  }

  add(batches: number, bytes: number): void {
    this.#done += batches;
    this.#bytes += bytes;
    if (!this.#options.shown) return;
    const now = performance.now();
    const intervalMs = this.#options.overwrites ? terminalIntervalMs : lineIntervalMs;
    if (now - this.#shownMs < intervalMs) return;
    this.#shownMs = now;
    this.#show(now);
  }

  clear(): void {
    if (this.#onScreen) this.#options.write('\r\x1b[K');
    this.#onScreen = false;
  }

  #show(now: number): void {
    const seconds = (now - this.#startedMs) / 1000;
    const rate = this.#done / seconds;
    // A live log may have grown since it was counted.
    const total = Math.max(this.#total, this.#done);
    const left = rate > 0 ? Math.ceil((total - this.#done) / rate) : 0;
    const line = [
      `${this.#what} ${Math.floor((100 * this.#done) / Math.max(1, total))}%`,
      `${this.#done} of ${total} ${this.#unit}`,
      ...(this.#unit === batchesUnit
        ? [`${Math.round(rate)}/s, ${(this.#bytes / seconds / 1e6).toFixed(1)} MB/s`]
        : []),
      `${durationText(left)} left`,
    ].join(' | ');
    this.#options.write(this.#options.overwrites ? `\r${this.#fitting(line)}\x1b[K` : `${line}\n`);
    this.#onScreen = this.#options.overwrites;
  }

  #fitting(line: string): string {
    const columns = this.#options.columns?.() ?? 0;
    return columns === 0 ? line : line.slice(0, columns - 1);
  }
}

function durationText(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
