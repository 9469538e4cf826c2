// Entry of a scrub thread: reads every batch of the log, or of some partitions, checks its bytes, its hash chain and its
// sequence, and tells of each partition that is damaged. Of the whole log at start and once a day, slowly, so that it disturbs
// nobody. A log that a take-over cuts off and writes anew meanwhile is read again, and is not called damaged.

import { parentPort, workerData } from 'node:worker_threads';
import { LogRewritten } from '../../wal/batch.ts';
import { LogReader, untilUnchanged } from '../../wal/log-reader.ts';
import { damageOf } from './damage.ts';

export interface ScrubbedPartition {
  readonly group: string;
  readonly partition: number;
}

export interface ScrubThreadData {
  readonly directory: string;
  /** Null: all. */
  readonly partitions: readonly ScrubbedPartition[] | null;
  /** Shared. Not 0: end as soon as may be. */
  readonly stopping: Int32Array;
}

/** Checked between two rests. */
const STRETCH_BYTES = 4 * 1024 * 1024;
/** As long as a stretch takes or so: half of a core at most. */
const REST_MS = 20;

const { directory, partitions, stopping } = workerData as ScrubThreadData;
const port = parentPort!;
const log = LogReader.openReader({ directory });
const restless: LogRewritten[] = [];

for (const name of partitions ?? log.partitionNames()) {
  if (isStopping()) break;
  try {
    await untilUnchanged(() => scrub(name));
  } catch (error) {
    const damage = damageOf(error);
    if (damage === null) throw error;
    if (error instanceof LogRewritten) restless.push(error);
    else port.postMessage(damage);
  }
}
await log.close();
// After the others: nothing is known of these.
if (restless.length > 0) throw new AggregateError(restless, 'partitions that could not be checked');

function isStopping(): boolean {
  return Atomics.load(stopping, 0) !== 0;
}

async function scrub({ group, partition }: ScrubbedPartition): Promise<void> {
  let checked = 0;
  log.refresh();
  for (const { bytes } of log.read(group, partition, { afterBatch: log.startOf(group, partition).batch })) {
    if (isStopping()) return;
    checked += bytes.length;
    if (checked < STRETCH_BYTES) continue;
    checked = 0;
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
  }
}
