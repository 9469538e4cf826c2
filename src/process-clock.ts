// The time of this process: the machine's wall clock without its steps. Everything that waits for a time goes by it.
//
//   wall clock ahead (set forward, or the machine slept)  ─▶ at most LIMITS.clockPaceMax times as fast, until it is there
//   wall clock behind (set back)                          ─▶ LIMITS.clockPaceMin times as fast, until it is there
//   otherwise                                             ─▶ the wall clock
//
// Invariants: it never goes backwards and never stands still; between two readings it moves by LIMITS.clockStepMsMax at most,
// so that a timer whose row is not yet in the views is not passed over (actors/accounts/timers.ts). Only a start takes
// the wall clock at its word. Not for what others compare with their own clocks: signatures, deadlines of messages.

import { assert } from './domain/assert.ts';
import { LIMITS } from './limits.ts';

export interface ClockSources {
  /** Milliseconds since 1970; may jump either way. */
  readonly wall: () => number;
  /** Milliseconds since anything; never goes backwards. */
  readonly monotonic: () => number;
}

const MACHINE: ClockSources = { wall: () => Date.now(), monotonic: () => performance.now() };

/** Reads whole milliseconds since 1970. */
export function createProcessClock({ wall, monotonic }: ClockSources = MACHINE): () => number {
  let time = wall();
  let readAt = monotonic();
  return () => {
    const monotonicNow = monotonic();
    const elapsedMs = monotonicNow - readAt;
    assert(elapsedMs >= 0, 'the monotonic clock does not go backwards');
    readAt = monotonicNow;
    const least = time + Math.min(elapsedMs * LIMITS.clockPaceMin, LIMITS.clockStepMsMax);
    const most = time + Math.min(elapsedMs * LIMITS.clockPaceMax, LIMITS.clockStepMsMax);
    time = Math.min(Math.max(wall(), least), most);
    return Math.floor(time);
  };
}
