// Entry of the scrub thread: reads every batch of the log, checks its bytes, its hash chain and its sequence, and tells of
// each partition that is damaged. Runs at start and once a day, slowly, so that it disturbs nobody.

import { parentPort, workerData } from 'node:worker_threads';
import { LogReader } from '../../wal/log-reader.ts';
import { damageOf } from './damage.ts';

export interface ScrubThreadData {
  readonly directory: string;
}

/** Checked between two rests. */
const STRETCH_BYTES = 4 * 1024 * 1024;
/** As long as a stretch takes or so: half of a core at most. */
const REST_MS = 20;

const { directory } = workerData as ScrubThreadData;
const port = parentPort!;
const log = LogReader.openReader({ directory });

for (const { group, partition } of log.partitionNames()) {
  try {
    await scrub(group, partition);
  } catch (error) {
    const damage = damageOf(error);
    if (damage === null) throw error;
    port.postMessage(damage);
  }
}
await log.close();

async function scrub(group: string, partition: number): Promise<void> {
  let checked = 0;
  for (const { bytes } of log.read(group, partition, { afterBatch: log.startOf(group, partition).batch })) {
    checked += bytes.length;
    if (checked < STRETCH_BYTES) continue;
    checked = 0;
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
  }
}
