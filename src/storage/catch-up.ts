// Brings the views of many partitions to the end of their logs before any of them is served: for a start whose views are gone or far
// behind. It has one thread for each core, since nothing else runs yet. The checkpoint thread does the rest, as in any start.

import { LogCorruption } from '../../wal/batch.ts';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
import { Checkpoints } from './checkpoints.ts';
import type { GroupPolicies } from './groups.ts';
import type { ToApply } from './view-threads.ts';

/** A partition whose views lack so many records of its log. */
export interface Lag extends ToApply {
  readonly group: GroupName;
  readonly partition: number;
  /** Sequence that its log ends with. */
  readonly upTo: number;
}

export interface CatchUpOptions {
  readonly directory: string;
  readonly policies: GroupPolicies;
  readonly lags: readonly Lag[];
  readonly threads: number;
  /** Records that the views no longer lack; after every commit. */
  readonly onProgress: (records: number) => void;
}

/** Resolves when every view is there, but for those of damaged logs: whoever opens these partitions is told. Rejects when the
 *  views cannot be written. Nobody may have the partitions open, or be following them. */
export async function catchUp({
  directory,
  policies,
  lags,
  threads,
  onProgress,
}: CatchUpOptions): Promise<void> {
  // The longest first, so that the threads end together.
  const left = lags.toSorted((one, other) => other.records - one.records);
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const hands = Array.from({ length: threads }, () => new Checkpoints(directory, policies, reject));
  try {
    // A thread applies one partition while the commit of another is on its way to the disk.
    const lines = hands.flatMap((hand) => Array<Checkpoints>(LIMITS.checkpointsAtOnce).fill(hand));
    const working = lines.map(async (hand) => {
      for (let lag = left.shift(); lag !== undefined; lag = left.shift()) {
        await followToEnd(hand, lag, onProgress);
      }
    });
    await Promise.race([Promise.all(working), failed]);
  } finally {
    await Promise.all(hands.map((hand) => hand.close()));
  }
}

async function followToEnd(
  hand: Checkpoints,
  { group, partition, upTo, records }: Lag,
  onProgress: (records: number) => void,
): Promise<void> {
  let reached = upTo - records;
  hand.follow(group, partition, {
    reached(sequence) {
      onProgress(sequence - reached);
      reached = sequence;
    },
    damaged() {},
  });
  try {
    await hand.advance(group, partition, upTo, true);
  } catch (error) {
    if (!(error instanceof LogCorruption)) throw error;
  }
}
