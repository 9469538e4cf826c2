// When what waits is looked at next: for its next submit or enquiry, but never later than it has to be given up.
//
// Invariants: what waits is in the wheel; beyond its bound a partition lets go of it instead, if a scan finds all of it again.

import type { Keeper, PursuitOptions } from './keeper.ts';
import { endsAt, enquiryGapMs, jittered, notBeforeAskedMs, retryGapMs } from './schedule.ts';
import type { TimingWheel } from './timing-wheel.ts';
import type { Watched } from './watched.ts';

/** A first submit that cannot be made yet is tried again after the same wait as so many failed ones. */
const UNSENT_TRIES = 3;

export class Waiting {
  readonly #options: PursuitOptions;
  readonly #keeper: Keeper;
  readonly #wheel: TimingWheel;

  constructor(options: PursuitOptions, keeper: Keeper, wheel: TimingWheel) {
    this.#options = options;
    this.#keeper = keeper;
    this.#wheel = wheel;
  }

  /** Until its next enquiry or submit. `retryAfterMs`: its provider asks for that. */
  rest(watched: Watched, retryAfterMs?: number): void {
    this.restFor(watched, notBeforeAskedMs(this.#gapMs(watched), retryAfterMs, this.#options.random));
  }

  /** As `rest`, but for a callback that came while it was enquired about not as long. */
  restUnlessHinted(watched: Watched, retryAfterMs?: number): void {
    this.rest(watched, retryAfterMs);
    if (watched.hinted && watched.state === 'waiting') this.answerHint(watched, retryAfterMs);
  }

  /** Beyond its bound a partition lets go of what rests or finds no place in its rail's queue, for a scan to find it again. */
  restFor(watched: Watched, gapMs: number): void {
    if (this.#mayLetGo(watched)) return this.#keeper.letGo(watched);
    const { lastUntil } = watched;
    const dueAt = this.#options.now() + gapMs;
    this.until(watched, lastUntil === 0 ? dueAt : Math.min(lastUntil, dueAt));
  }

  until(watched: Watched, dueAt: number): void {
    watched.state = 'waiting';
    const end = watched.lastUntil === 0 && !watched.isLate ? endsAt(this.#options.timings, watched) : null;
    this.#wheel.set(watched.number, end === null ? dueAt : Math.min(dueAt, end));
  }

  /** It waits: for a callback that came while it was enquired about, not as long as otherwise. */
  answerHint(watched: Watched, retryAfterMs?: number): void {
    const { random, timings } = this.#options;
    const gapMs = notBeforeAskedMs(timings.hintGapMs, retryAfterMs, random);
    this.#wheel.setBy(watched.number, watched.enquiredAt + gapMs);
  }

  /** It is queued: however long it waits for its rail. */
  endInTime(watched: Watched): void {
    const end = watched.lastUntil === 0 ? endsAt(this.#options.timings, watched) : watched.lastUntil;
    if (end !== null) this.#wheel.set(watched.number, end);
  }

  /** Not if its account has yet to take its acceptance, of which a scan would not know. */
  #mayLetGo({ isLate, lastUntil, acceptanceUntold, port }: Watched): boolean {
    return !isLate && lastUntil === 0 && !acceptanceUntold && this.#keeper.isFull(port);
  }

  #gapMs({ next, unsent, submits, enquiries, lastUntil, port }: Watched): number {
    const { random, timings } = this.#options;
    if (next === 'submit') return retryGapMs(timings, unsent ? UNSENT_TRIES : submits, random);
    if (lastUntil !== 0) return jittered(timings.enquiryGapMs, random);
    if (enquiries === 0) return jittered(timings.firstEnquiryMs, random);
    return enquiryGapMs(timings, enquiries - 1, port.lane.isBusy, random);
  }
}
