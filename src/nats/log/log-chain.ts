// Which messages of a stream are the log. A replaced writer can leave batches in the stream that were never
// acknowledged; every reader must drop the same ones. Nor are batches all that can stand there: NATS puts its answers under
// whatever subject was asked for them, whoever asks.
//
// Rule: a message is part of the log if it follows the last one that is: its batch number is the next, its epoch is no
// older, and its hash continues the chain. Everything else is a leftover. The stream has one order, so all readers agree.

import { checkFollows, decodeForeignBatch, isBatch, LogCorruption, tipAt } from '../../../wal/batch.ts';
import type { Batch, Tip } from '../../../wal/types.ts';

/** Null: a message that is no batch. Throws LogCorruption at a damaged one. */
export function batchIn(bytes: Buffer): Batch | null {
  return isBatch(bytes) ? decodeForeignBatch(bytes) : null;
}

export class LogChain {
  /** What is numbered up to this stood before the chain began. */
  readonly #base: number;
  #tip: Tip;
  #leftovers = 0;
  #others = 0;

  constructor(tip: Tip) {
    this.#base = tip.batch;
    this.#tip = tip;
  }

  get tip(): Tip {
    return this.#tip;
  }

  /** Since the last batch that is part of the log. */
  get leftovers(): number {
    return this.#leftovers;
  }

  /** Messages that are no batches, since then. */
  get others(): number {
    return this.#others;
  }

  /** False: it is a leftover, stands before where the chain began, or is no batch. */
  take(batch: Batch | null): batch is Batch {
    if (batch === null) {
      this.#others++;
      return false;
    }
    if (!this.isNext(batch)) {
      if (batch.batch > this.#base) this.#leftovers++;
      return false;
    }
    this.#tip = tipAt(batch);
    this.#leftovers = 0;
    this.#others = 0;
    return true;
  }

  /** It continues the log. */
  isNext(batch: Batch): boolean {
    if (batch.batch !== this.#tip.batch + 1 || batch.epoch < this.#tip.epoch) return false;
    try {
      checkFollows(batch, this.#tip);
      return true;
    } catch (error) {
      if (error instanceof LogCorruption) return false;
      throw error;
    }
  }
}
