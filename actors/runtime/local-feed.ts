// The feed of one process: what a partition has just made durable goes to its subscribers from memory; a subscriber
// that starts late or falls behind reads the log by cursor until it has caught up.
//
// Invariants: each subscriber sees every record once per subscription, in sequence order; memory per subscriber is
// bounded by LIMITS.feedTailBatchesMax batches, since beyond it the log is read instead. Where the log cannot be read a
// subscription ends: what comes behind is not delivered without what is missing.

import type { GroupName } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, Subscription } from '../../src/bus/feed.ts';
import { LIMITS } from '../../src/limits.ts';

/** Decoded records of the log with sequences above `after`, at least one batch when there is one, durable only.
 *  `damaged`: they cannot be read, and whoever reads the log has said so where it matters. */
export type ReadLog = (
  group: GroupName,
  partition: number,
  after: number,
) => FeedBatch<unknown> | 'damaged' | null;

type Handler = (batch: FeedBatch<unknown>) => void | Promise<void>;

class LocalSubscription implements Subscription {
  /** Sequence of the last record handed to the handler. */
  #cursor: number;
  readonly #handler: Handler;
  readonly #readNext: (after: number) => ReturnType<ReadLog>;
  readonly #remove: () => void;
  #tail: FeedBatch<unknown>[] = [];
  /** The tail does not connect to the cursor: read the log. */
  #behind = true;
  #running = false;
  #closed = false;
  #idle: (() => void) | null = null;

  constructor(
    after: number,
    handler: Handler,
    readNext: (after: number) => ReturnType<ReadLog>,
    remove: () => void,
  ) {
    this.#cursor = after;
    this.#handler = handler;
    this.#readNext = readNext;
    this.#remove = remove;
  }

  offer(batch: FeedBatch<unknown>): void {
    if (this.#behind || this.#tail.length >= LIMITS.feedTailBatchesMax) {
      this.#behind = true;
      this.#tail = [];
    } else {
      this.#tail.push(batch);
    }
    this.wake();
  }

  /** Runs synchronously while the handler answers synchronously: no promise on the usual path. */
  wake(): void {
    if (this.#running) return;
    this.#running = true;
    for (;;) {
      const batch = this.#closed ? null : this.#next();
      if (batch === null) break;
      const first = this.#cursor + 1 - batch.firstSequence;
      this.#cursor = batch.firstSequence + batch.records.length - 1;
      const done = this.#handler(
        first === 0
          ? batch
          : { firstSequence: batch.firstSequence + first, records: batch.records.slice(first) },
      );
      if (done !== undefined) {
        void done.then(() => {
          this.#running = false;
          this.wake();
        });
        return;
      }
    }
    this.#running = false;
    this.#idle?.();
  }

  #next(): FeedBatch<unknown> | null {
    if (this.#behind) {
      const batch = this.#readNext(this.#cursor);
      if (batch === 'damaged') {
        this.#closed = true;
        return null;
      }
      if (batch !== null) return batch;
      this.#behind = false;
    }
    for (;;) {
      const batch = this.#tail.shift();
      if (batch === undefined) return null;
      if (batch.firstSequence + batch.records.length - 1 > this.#cursor) return batch;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#remove();
    if (this.#running) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    }
  }
}

export class LocalFeed implements Feed {
  readonly #readLog: ReadLog;
  readonly #subscriptions = new Map<string, Set<LocalSubscription>>();

  constructor(readLog: ReadLog) {
    this.#readLog = readLog;
  }

  publish(group: GroupName, partition: number, batch: FeedBatch<unknown>): void {
    const subscriptions = this.#subscriptions.get(`${group}/${partition}`);
    if (subscriptions === undefined) return;
    for (const subscription of subscriptions) subscription.offer(batch);
  }

  subscribe<Record>(
    group: GroupName,
    partition: number,
    after: number,
    handler: (batch: FeedBatch<Record>) => void | Promise<void>,
  ): Subscription {
    const key = `${group}/${partition}`;
    const subscriptions = this.#subscriptions.get(key) ?? new Set();
    this.#subscriptions.set(key, subscriptions);
    const subscription = new LocalSubscription(
      after,
      handler as Handler,
      (cursor) => this.#readLog(group, partition, cursor),
      () => subscriptions.delete(subscription),
    );
    subscriptions.add(subscription);
    // Not from within subscribe: the caller has yet to store the subscription.
    setImmediate(() => subscription.wake());
    return subscription;
  }
}
