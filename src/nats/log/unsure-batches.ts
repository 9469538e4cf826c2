// Batches that a reader has of a writer which another has replaced, and of which nothing has followed yet. The last ones may stand on
// one server only: nats-server 2.9 that led a stream, was frozen meanwhile and is no leader any more can have stored what it was sent
// for that stream in that time, in the place of what all others have.
//
// A batch is in the log if one of a later epoch follows it, or so many of its own epoch as a writer has on its way to the stream at most:
// it sends no more before it is told that the stream has the first.

import type { Batch, Tip } from '../../../wal/types.ts';
import { LIMITS } from '../../limits.ts';

export interface UnsureBatch {
  readonly batch: Batch;
  /** Of the chain, before it; null: the reader began with it. */
  readonly before: Tip | null;
  /** Stream sequence of that. */
  readonly beforePlace: number;
  /** Of the stream. */
  readonly sequence: number;
}

export class UnsureBatches {
  #batches: UnsureBatch[] = [];

  get isAny(): boolean {
    return this.#batches.length > 0;
  }

  /** There must be one, as for `last`. */
  get first(): UnsureBatch {
    return this.#batches[0]!;
  }

  get last(): UnsureBatch {
    return this.#batches.at(-1)!;
  }

  /** `unsure` follows those that are here. Returns what is in the log by that. */
  add(unsure: UnsureBatch): Batch[] {
    this.#batches.push(unsure);
    const { epoch } = unsure.batch;
    const isLater = (each: UnsureBatch): boolean => each.batch.epoch < epoch;
    const sure = Math.max(
      this.#batches.findLastIndex(isLater) + 1,
      this.#batches.length - LIMITS.streamAsyncOutstandingMax,
    );
    return this.#batches.splice(0, sure).map(({ batch }) => batch);
  }

  /** None is left. */
  takeAll(): Batch[] {
    const batches = this.#batches.map(({ batch }) => batch);
    this.#batches = [];
    return batches;
  }
}
