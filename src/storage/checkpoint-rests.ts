// Rests of the checkpoint thread: whoever answers callers and finds all cores taken waits until a slice of somebody else's is over,
// some milliseconds. So that thread works for a fraction of a millisecond at a time, and stands still for some times that.
//
// Invariant: what is asked for in one round may wait for rests for as long as the round may take of the time to the next one. In
// a round that is not done by then nothing rests: rests cost no throughput where there is no time for them.

import type { Pace } from '../../actors/runtime/checkpointer.ts';
import { LIMITS } from '../limits.ts';

export interface RestsOptions {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Stands still for so many milliseconds. */
  readonly stand: (ms: number) => void;
}

const cell = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

const THREAD: RestsOptions = {
  now: () => performance.now(),
  stand: (ms) => void Atomics.wait(cell, 0, 0, ms),
};

export class CheckpointRests implements Pace {
  readonly #options: RestsOptions;
  #workedSince = 0;
  /** No rests from here on. */
  #until = 0;

  constructor(options: RestsOptions = THREAD) {
    this.#options = options;
  }

  /** The first of a round of checkpoints is asked for. */
  beginRound(): void {
    this.#until = this.#options.now() + LIMITS.checkpointRoundMs;
  }

  /** Somebody waits for the rest of this round. */
  hurry(): void {
    this.#until = 0;
  }

  begin(): void {
    this.#workedSince = this.#options.now();
  }

  rest(): void {
    const { now, stand } = this.#options;
    const at = now();
    const workedMs = at - this.#workedSince;
    if (workedMs < LIMITS.checkpointStretchMs) return;
    if (at < this.#until) stand(Math.min(workedMs * LIMITS.checkpointRests, this.#until - at));
    this.#workedSince = now();
  }
}
