// Which messages of a stream are the log. A replaced writer can leave batches in the stream that were never
// acknowledged; every reader must drop the same ones.
//
// Rule: a message is part of the log if it follows the last one that is: its batch number is the next, its epoch is no
// older, and its hash continues the chain. Everything else is a leftover. The stream has one order, so all readers agree.

import { checkFollows, LogCorruption, tipAt } from '../../wal/batch.ts';
import type { Batch, Tip } from '../../wal/types.ts';

export class LogChain {
  #tip: Tip;

  constructor(tip: Tip) {
    this.#tip = tip;
  }

  get tip(): Tip {
    return this.#tip;
  }

  /** False: it is a leftover, or stands before where the chain began. */
  take(batch: Batch): boolean {
    if (batch.batch !== this.#tip.batch + 1 || batch.epoch < this.#tip.epoch) return false;
    try {
      checkFollows(batch, this.#tip);
    } catch (error) {
      if (error instanceof LogCorruption) return false;
      throw error;
    }
    this.#tip = tipAt(batch);
    return true;
  }
}
