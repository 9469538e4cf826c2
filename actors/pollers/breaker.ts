// The circuit breaker of one rail: while most calls fail it lets none through, then tries one at a time.
//
//   closed ──(half of at least 20 recent calls failed)──► open ──(a while)──► half open ──(3 good answers)──► closed
//                                                          ▲                      │
//                                                          └──────(one failure)───┘  for twice as long
//
// A failure is a call without a usable answer. That a customer has no money is a good answer. Calls from before it opened
// say nothing any more: of a rail that hung and is well again they time out one after the other.

import { jittered, type Random } from './schedule.ts';

const WINDOW_MS = 10_000;
const CALLS_NEEDED = 20;
const FAILED_SHARE = 0.5;
/** From here on a rail that still works counts as degraded. */
const DEGRADED_SHARE = 0.1;
const DEGRADED_FAILURES = 3;
const OPEN_FIRST_MS = 2_000;
const OPEN_LONGEST_MS = 60_000;
const GOOD_ANSWERS_NEEDED = 3;

export class Breaker {
  state: 'closed' | 'open' | 'half_open' = 'closed';
  reopensAt = 0;
  readonly #random: Random;
  /** Calls and failures in this window and in the one before. */
  #windowFrom = 0;
  #calls = 0;
  #failures = 0;
  #callsBefore = 0;
  #failuresBefore = 0;
  #openMs = OPEN_FIRST_MS;
  #goodAnswers = 0;
  #probing = false;
  /** How often it has opened. */
  #openings = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** True: a call may start now. */
  allows(now: number): boolean {
    if (this.state === 'closed') return true;
    if (this.state === 'open') {
      if (now < this.reopensAt) return false;
      this.state = 'half_open';
      this.#goodAnswers = 0;
    }
    return !this.#probing;
  }

  /** A call starts. What this returns is given back with its answer. */
  started(): number {
    if (this.state === 'half_open') this.#probing = true;
    return this.#openings;
  }

  succeeded(now: number, started: number): void {
    if (started !== this.#openings) return;
    this.#count(now, 0);
    if (this.state !== 'half_open') return;
    this.#probing = false;
    if (++this.#goodAnswers < GOOD_ANSWERS_NEEDED) return;
    this.state = 'closed';
    this.#openMs = OPEN_FIRST_MS;
    this.#clear(now);
  }

  failed(now: number, started: number): void {
    if (started !== this.#openings) return;
    this.#count(now, 1);
    if (this.state === 'half_open') {
      this.#openMs = Math.min(OPEN_LONGEST_MS, this.#openMs * 2);
      this.#open(now);
    } else if (this.state === 'closed' && this.#isFailing()) {
      this.#open(now);
    }
  }

  isDegraded(now: number): boolean {
    this.#roll(now);
    if (this.state !== 'closed') return true;
    const failures = this.#failures + this.#failuresBefore;
    return failures >= DEGRADED_FAILURES && failures >= DEGRADED_SHARE * (this.#calls + this.#callsBefore);
  }

  #isFailing(): boolean {
    const calls = this.#calls + this.#callsBefore;
    return calls >= CALLS_NEEDED && this.#failures + this.#failuresBefore >= FAILED_SHARE * calls;
  }

  #open(now: number): void {
    this.state = 'open';
    this.#openings++;
    this.#probing = false;
    this.reopensAt = now + jittered(this.#openMs, this.#random);
  }

  #count(now: number, failures: number): void {
    this.#roll(now);
    this.#calls++;
    this.#failures += failures;
  }

  #roll(now: number): void {
    const elapsedMs = now - this.#windowFrom;
    if (elapsedMs < WINDOW_MS) return;
    const stale = elapsedMs >= 2 * WINDOW_MS;
    this.#callsBefore = stale ? 0 : this.#calls;
    this.#failuresBefore = stale ? 0 : this.#failures;
    this.#calls = 0;
    this.#failures = 0;
    this.#windowFrom = now;
  }

  #clear(now: number): void {
    this.#callsBefore = 0;
    this.#failuresBefore = 0;
    this.#calls = 0;
    this.#failures = 0;
    this.#windowFrom = now;
  }
}
