// The circuit breaker of one rail: while most calls fail it lets none through, then tries one at a time.
//
//   closed ──(half of at least 20 recent calls failed)──► open ──(a while)──► half open ──(3 good answers)──► closed
//                                                          ▲                      │
//                                                          └──────(one failure)───┘  for twice as long
//
// A failure is a call without a usable answer. That a customer has no money is a good answer. Calls from before it opened
// say nothing any more: of a rail that hung and is well again they time out one after the other.
//
// A repeat is a call about a transaction whose last call failed as well. When it fails, too, that says little about the rail: a few
// numbers that a provider stumbles over are tried for as long as it takes. So repeats open it only if no call succeeds, and it takes
// some in a row to end a probing.
//
// A provider's Retry-After is taken as asked of the whole rail only if it answers a call that is made alone: said to another, it may be
// about one number, or about enquiries.

import { jittered, type Random } from './schedule.ts';

const WINDOW_MS = 10_000;
const CALLS_NEEDED = 20;
const FAILED_SHARE = 0.5;
/** From here on a rail that still works counts as degraded. */
const DEGRADED_SHARE = 0.1;
const DEGRADED_FAILURES = 3;
/** A rail that is seldom called is degraded if no call succeeded for the first of these, and one failed within the second, which is longer
 *  than the wait between two enquiries about a transaction, and than a call takes to time out. */
const SELDOM_FAILING_MS = 300_000;
const SELDOM_CALLED_MS = 120_000;
const OPEN_FIRST_MS = 2_000;
const OPEN_LONGEST_MS = 60_000;
const GOOD_ANSWERS_NEEDED = 3;
/** So many failed repeats in a row end a probing, too: when a rail is down, most of what waits has failed before. */
const REPEATS_MAX = 3;

export class Breaker {
  state: 'closed' | 'open' | 'half_open' = 'closed';
  reopensAt = 0;
  readonly #random: Random;
  /** Of all calls: how well the rail does. */
  readonly #all = new RecentCalls();
  /** Of those that are no failed repeats: whether it is down. */
  readonly #telling = new RecentCalls();
  /** Transactions with a call that failed since one succeeded, and when the first and the last call of those failed. */
  #failing = 0;
  #failingSince = 0;
  #failedAt = 0;
  #openMs = OPEN_FIRST_MS;
  #goodAnswers = 0;
  #repeats = 0;
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
      this.#repeats = 0;
    }
    return !this.#probing;
  }

  /** A call starts. What this returns is given back with its answer. */
  started(): number {
    if (this.state === 'half_open') this.#probing = true;
    return this.#openings;
  }

  /** It was not made after all, which says nothing of the rail. */
  withheld(started: number): void {
    if (started === this.#openings) this.#probing = false;
  }

  succeeded(now: number, started: number): void {
    if (started !== this.#openings) return;
    this.#all.count(now, 0);
    this.#telling.count(now, 0);
    this.#failing = 0;
    if (this.state !== 'half_open') return;
    this.#probing = false;
    this.#repeats = 0;
    if (++this.#goodAnswers < GOOD_ANSWERS_NEEDED) return;
    this.state = 'closed';
    this.#openMs = OPEN_FIRST_MS;
    this.#all.clear(now);
    this.#telling.clear(now);
  }

  /** `isRepeat`: the last call about the same transaction failed as well. `retryAfterMs`: its provider asks for that. */
  failed(now: number, started: number, isRepeat: boolean, retryAfterMs = 0): void {
    if (started !== this.#openings) return;
    this.#all.count(now, 1);
    this.#failedAt = now;
    if (!isRepeat) {
      this.#telling.count(now, 1);
      if (this.#failing++ === 0) this.#failingSince = now;
    }
    if (this.state === 'half_open') {
      this.#probing = false;
      if (isRepeat && ++this.#repeats < REPEATS_MAX) return;
      this.#openMs = Math.min(OPEN_LONGEST_MS, this.#openMs * 2);
      this.#open(now, retryAfterMs);
    } else if (this.state === 'closed' && this.#isFailing()) {
      this.#open(now);
    }
  }

  isDegraded(now: number): boolean {
    this.#all.roll(now);
    // Where nothing is in flight nobody tries it, and nobody knows.
    if (this.state !== 'closed') return this.#probing || now - this.#heldBackUntil < SELDOM_CALLED_MS;
    if (this.#isFailingForLong(now)) return true;
    const { calls, failures } = this.#all;
    return failures >= DEGRADED_FAILURES && failures >= DEGRADED_SHARE * calls;
  }

  get #heldBackUntil(): number {
    return Math.max(this.reopensAt, this.#failedAt);
  }

  /** Called so seldom that few calls are recent ones. */
  #isFailingForLong(now: number): boolean {
    if (this.#failing < DEGRADED_FAILURES) return false;
    return now - this.#failingSince >= SELDOM_FAILING_MS && now - this.#failedAt < SELDOM_CALLED_MS;
  }

  #isFailing(): boolean {
    const all = this.#all;
    if (all.calls >= CALLS_NEEDED && all.failures === all.calls) return true;
    const { calls, failures } = this.#telling;
    return calls >= CALLS_NEEDED && failures >= FAILED_SHARE * calls;
  }

  #open(now: number, retryAfterMs = 0): void {
    this.state = 'open';
    this.#openings++;
    this.reopensAt = now + jittered(Math.max(this.#openMs, retryAfterMs), this.#random);
  }
}

/** Calls in this window and in the one before. */
class RecentCalls {
  #from = 0;
  #calls = 0;
  #failures = 0;
  #callsBefore = 0;
  #failuresBefore = 0;

  get calls(): number {
    return this.#calls + this.#callsBefore;
  }

  get failures(): number {
    return this.#failures + this.#failuresBefore;
  }

  count(now: number, failures: number): void {
    this.roll(now);
    this.#calls++;
    this.#failures += failures;
  }

  roll(now: number): void {
    const elapsedMs = now - this.#from;
    if (elapsedMs < WINDOW_MS) return;
    const stale = elapsedMs >= 2 * WINDOW_MS;
    this.#callsBefore = stale ? 0 : this.#calls;
    this.#failuresBefore = stale ? 0 : this.#failures;
    this.#calls = 0;
    this.#failures = 0;
    this.#from = now;
  }

  clear(now: number): void {
    this.#callsBefore = 0;
    this.#failuresBefore = 0;
    this.#calls = 0;
    this.#failures = 0;
    this.#from = now;
  }
}
