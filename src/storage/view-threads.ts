// How many threads make the views of long logs: of a start whose views are gone or far behind, and of a replay.

import { availableParallelism } from 'node:os';
import { LIMITS } from '../limits.ts';

/** Of one partition. */
export interface ToApply {
  readonly records: number;
}

export function recordsOf(partitions: readonly ToApply[]): number {
  return partitions.reduce((sum, { records }) => sum + records, 0);
}

/** How many threads are worth their start, and fit the machine; one at least. A partition is one thread's. */
export function threadsFor(partitions: readonly ToApply[]): number {
  return Math.max(
    1,
    Math.min(
      availableParallelism(),
      partitions.length,
      LIMITS.viewThreadsMax,
      Math.floor(recordsOf(partitions) / LIMITS.viewThreadRecordsMin),
      Math.floor(process.availableMemory() / LIMITS.viewThreadBytes),
    ),
  );
}
