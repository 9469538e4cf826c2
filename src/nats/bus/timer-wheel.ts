// Due times for many short-lived things without a timer each: one interval looks at one slot at a time. Nothing is taken out: the
// callback does not find an id whose thing is gone, and knows by its time an entry that another one has replaced.

import { LIMITS } from '../../limits.ts';

export class TimerWheel {
  readonly #tickMs: number;
  readonly #onDue: (id: number, at: number) => void;
  /** [id, at, id, at, …] */
  readonly #slots: number[][];
  readonly #timer: NodeJS.Timeout;
  /** Slots up to this tick have been looked at. */
  #tick: number;

  constructor(tickMs: number, onDue: (id: number, at: number) => void) {
    this.#tickMs = tickMs;
    this.#onDue = onDue;
    this.#slots = Array.from({ length: LIMITS.busWheelSlots }, () => []);
    this.#tick = Math.floor(performance.now() / tickMs);
    this.#timer = setInterval(() => this.#advance(), tickMs);
    this.#timer.unref();
  }

  /** `at`: monotonic milliseconds. What is further ahead than the wheel reaches is due early, and the callback adds it again; so it is
   *  after the process stood still, and the wheel with it. */
  add(id: number, at: number): void {
    const due = Math.ceil(at / this.#tickMs);
    const tick = Math.min(Math.max(due, this.#tick + 1), this.#tick + this.#slots.length - 1);
    this.#slots[tick % this.#slots.length]?.push(id, at);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #advance(): void {
    const now = Math.floor(performance.now() / this.#tickMs);
    // After a long stop every slot is due at once, each once.
    if (now - this.#tick > this.#slots.length) this.#tick = now - this.#slots.length;
    while (this.#tick < now) {
      this.#tick++;
      const index = this.#tick % this.#slots.length;
      const entries = this.#slots[index] ?? [];
      if (entries.length === 0) continue;
      this.#slots[index] = [];
      for (let i = 0; i < entries.length; i += 2) this.#onDue(entries[i]!, entries[i + 1]!);
    }
  }
}
