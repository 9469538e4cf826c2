// When each followed transaction is looked at next: a timing wheel (Varghese and Lauck, 1987) with a slot for each
// millisecond of the next sixteen seconds, and in each slot a list. Putting in, moving and taking out touch a transaction
// and its neighbours, however many are followed; a heap would touch one for each of its levels, and each is a cache miss.
// Transactions are numbers here (id-index.ts), and lists are columns of numbers: no garbage collection walks over them.
//
// Invariants: a transaction is in one slot or in none; no slot before `#at` has any. What is due later than the wheel
// reaches stands in its last slot and is put in again from there.

import { assert } from '../../src/domain/assert.ts';
import { NONE } from './id-index.ts';

/** A power of two, beyond the first enquiry. */
const SLOTS = 16_384;
const ROWS_AT_FIRST = 64;

export class TimingWheel {
  /** Milliseconds since 1970. */
  readonly #madeAt: number;
  /** The first in each slot. */
  readonly #slots = new Int32Array(SLOTS).fill(NONE);
  /** The time that is looked at; like every time in here in milliseconds since `#madeAt`. */
  #at = 0;
  // By number: when it is due, its slot, its neighbours there.
  #due = new Float64Array(ROWS_AT_FIRST);
  #slot = new Int32Array(ROWS_AT_FIRST).fill(NONE);
  #before = new Int32Array(ROWS_AT_FIRST).fill(NONE);
  #after = new Int32Array(ROWS_AT_FIRST).fill(NONE);

  /** All times are milliseconds since 1970. */
  constructor(now: number) {
    this.#madeAt = Math.floor(now);
  }

  /** Puts it in, or moves it. */
  set(number: number, dueAt: number): void {
    this.#put(number, this.#timeOf(dueAt));
  }

  /** Puts it in, or moves it forward, never back. */
  setBy(number: number, dueAt: number): void {
    const due = this.#timeOf(dueAt);
    if (!this.#isIn(number) || due < this.#due[number]!) this.#put(number, due);
  }

  remove(number: number): void {
    if (!this.#isIn(number)) return;
    const slot = this.#slot[number]!;
    const before = this.#before[number]!;
    const after = this.#after[number]!;
    if (before === NONE) this.#slots[slot] = after;
    else this.#after[before] = after;
    if (after !== NONE) this.#before[after] = before;
    this.#slot[number] = NONE;
  }

  /** Removes and returns one that is due, or NONE; `now` never falls. The earliest first, unless nobody asked for as long
   *  as the wheel reaches. */
  takeDue(now: number): number {
    const time = Math.floor(now) - this.#madeAt;
    // After a long stop every slot is looked at, each once.
    this.#at = Math.max(this.#at, time - SLOTS);
    for (;;) {
      const first = this.#slots[this.#at & (SLOTS - 1)]!;
      if (first === NONE) {
        if (this.#at >= time) return NONE;
        this.#at++;
      } else if (this.#due[first]! <= time) {
        this.remove(first);
        return first;
      } else {
        this.#put(first, this.#due[first]!);
      }
    }
  }

  #isIn(number: number): boolean {
    return number !== NONE && number < this.#slot.length && this.#slot[number] !== NONE;
  }

  #timeOf(dueAt: number): number {
    return Math.ceil(dueAt - this.#madeAt);
  }

  #put(number: number, due: number): void {
    assert(number >= 0, 'what is put into the wheel has a number');
    this.remove(number);
    if (number >= this.#slot.length) this.#grow(number);
    const slot = Math.min(Math.max(due, this.#at), this.#at + SLOTS - 1) & (SLOTS - 1);
    const after = this.#slots[slot]!;
    if (after !== NONE) this.#before[after] = number;
    this.#slots[slot] = number;
    this.#due[number] = due;
    this.#slot[number] = slot;
    this.#before[number] = NONE;
    this.#after[number] = after;
  }

  #grow(number: number): void {
    const length = Math.max(number + 1, 2 * this.#slot.length);
    const due = new Float64Array(length);
    due.set(this.#due);
    this.#due = due;
    this.#slot = lengthened(this.#slot, length);
    this.#before = lengthened(this.#before, length);
    this.#after = lengthened(this.#after, length);
  }
}

function lengthened(column: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  const longer = new Int32Array(length).fill(NONE, column.length);
  longer.set(column);
  return longer;
}
