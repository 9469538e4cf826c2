// Timers that end by a clock that is driven from outside, in place of the machine's: whatever tries again later does so at a
// time of the test, in the same order each time. What is due at once is left to the machine, and so is what only watches over
// the disk.

const AT_ONCE_MS = 2;
const WATCH_MS = 30_000;

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

export class DrivenTimers {
  readonly #now: () => number;
  /** In the order they were set. */
  #timers: Timer[] = [];

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Returns how the machine's come back. Intervals never end: who has one is driven by hand. */
  install(): () => void {
    const { setTimeout: set, setInterval: repeat } = globalThis;
    const driven = (run: () => void, ms = 0): unknown =>
      ms < AT_ONCE_MS || ms >= WATCH_MS ? set(run, ms) : this.set(ms, run);
    globalThis.setTimeout = driven as never;
    globalThis.setInterval = (() => set(() => {}, 0)) as never;
    return () => {
      globalThis.setTimeout = set;
      globalThis.setInterval = repeat;
    };
  }

  set(ms: number, run: () => void): void {
    this.#timers.push({ at: this.#now() + ms, run });
  }

  /** When the next one ends; Infinity: none is set. */
  get nextAt(): number {
    return Math.min(...this.#timers.map(({ at }) => at));
  }

  run(): void {
    const now = this.#now();
    const due = this.#timers.filter(({ at }) => at <= now).sort((a, b) => a.at - b.at);
    this.#timers = this.#timers.filter(({ at }) => at > now);
    for (const { run } of due) run();
  }

  /** The process has ended. */
  clear(): void {
    this.#timers = [];
  }
}
