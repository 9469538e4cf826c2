// The feed: committed records of a partition, in log order, from any sequence on. In one process it is the log itself
// with the newest batches in memory; in the cluster the partition's JetStream stream.
//
// Invariants: a record is delivered only after it is durable; in sequence order without gaps; at least once (a
// subscriber that stores its cursor with its own decisions makes that exactly once).

import type { GroupName } from './bus.ts';

export interface FeedBatch<Record> {
  /** Sequence of the first record. */
  readonly firstSequence: number;
  /** Decoded records; shared, never to be changed by the reader. */
  readonly records: readonly Record[];
}

/** The next batch waits until what it returns has resolved: that is the back-pressure. Throws: the process ends (assertion). */
export type FeedHandler<Record> = (batch: FeedBatch<Record>) => void | Promise<void>;

export interface Subscription {
  /** Stops deliveries; resolves when the handler in progress, if any, has finished. */
  close(): Promise<void>;
}

export interface Feed {
  /** Delivers every record after sequence `after` (0: from the start). */
  subscribe<Record>(
    group: GroupName,
    partition: number,
    after: number,
    handler: FeedHandler<Record>,
  ): Subscription;
}
