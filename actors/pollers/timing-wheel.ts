// When each followed transaction is looked at next: a timing wheel (Varghese and Lauck, 1987) with a slot for each
// millisecond of the next sixteen seconds, and in each slot a list through the transactions themselves. Putting in, moving
// and taking out touch a transaction and its neighbours, however many are followed; a heap of them would touch one for each
// of its levels, and each is a cache miss.
//
// Invariants: a transaction is in one slot or in none; no slot before `#at` has any. What is due later than the wheel
// reaches stands in its last slot and is put in again from there.

import type { Watched } from './watched.ts';

/** A power of two, beyond the first enquiry. */
const SLOTS = 16_384;

export class TimingWheel {
  /** Milliseconds since 1970; the times in here are since then, so that they are small integers and no objects. */
  readonly #madeAt: number;
  readonly #slots: (Watched | null)[] = Array.from({ length: SLOTS }, () => null);
  /** The time that is looked at. */
  #at = 0;

  /** All times are milliseconds since 1970. */
  constructor(now: number) {
    this.#madeAt = Math.floor(now);
  }

  /** Puts it in, or moves it. */
  set(watched: Watched, dueAt: number): void {
    this.#put(watched, this.#timeOf(dueAt));
  }

  /** Puts it in, or moves it forward, never back. */
  setBy(watched: Watched, dueAt: number): void {
    const due = this.#timeOf(dueAt);
    if (watched.slot === -1 || due < watched.due) this.#put(watched, due);
  }

  remove(watched: Watched): void {
    const { slot, before, after } = watched;
    if (slot === -1) return;
    if (before === null) this.#slots[slot] = after;
    else before.after = after;
    if (after !== null) after.before = before;
    watched.slot = -1;
    watched.before = null;
    watched.after = null;
  }

  /** Removes and returns one that is due; `now` never falls. The earliest first, unless nobody asked for as long as the
   *  wheel reaches. */
  takeDue(now: number): Watched | undefined {
    const time = Math.floor(now) - this.#madeAt;
    // After a long stop every slot is looked at, each once.
    this.#at = Math.max(this.#at, time - SLOTS);
    for (;;) {
      const first = this.#slots[this.#at & (SLOTS - 1)]!;
      if (first === null) {
        if (this.#at >= time) return undefined;
        this.#at++;
      } else if (first.due <= time) {
        this.remove(first);
        return first;
      } else {
        this.#put(first, first.due);
      }
    }
  }

  #timeOf(dueAt: number): number {
    return Math.ceil(dueAt - this.#madeAt);
  }

  #put(watched: Watched, due: number): void {
    this.remove(watched);
    const slot = Math.min(Math.max(due, this.#at), this.#at + SLOTS - 1) & (SLOTS - 1);
    const after = this.#slots[slot]!;
    if (after !== null) after.before = watched;
    this.#slots[slot] = watched;
    watched.due = due;
    watched.slot = slot;
    watched.after = after;
  }
}
