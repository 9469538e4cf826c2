// Reads every batch of some partitions, checks its bytes, its hash chain and its sequence, and tells of each partition that is
// damaged: node scrub-process.ts <data directory> <partition> …. Of the whole log at start and once a day, slowly, so that it
// disturbs nobody. A log that a take-over cuts off and writes anew meanwhile is read again, and is not called damaged. A process
// of its own, since a damaged page may end the one that reads it: what that was is what it said last (scrub.ts).

import { constants, setPriority } from 'node:os';
import { STOP_SIGNALS } from '../end-process.ts';
import { LogRewritten } from '../../wal/batch.ts';
import { LogReader, untilUnchanged } from '../../wal/log-reader.ts';
import { placeOf } from '../../wal/types.ts';
import { damageOf } from './damage.ts';
import { say, sayReady } from './reader-process.ts';
import { pause } from '../pause.ts';

/** Checked between two rests. */
const STRETCH_BYTES = 4 * 1024 * 1024;
/** As long as a stretch takes or so: half of a core at most. */
const REST_MS = 20;

// A Ctrl-C, or systemd, asks every process to stop; whoever started this ends it in its turn.
for (const each of STOP_SIGNALS) process.on(each, () => {});
const [directory = '', ...names] = process.argv.slice(2);
sayReady();
const log = await LogReader.openBeside({ directory });
// Not before: commits wait for whoever opens.
setPriority(constants.priority.PRIORITY_LOW);
const restless: LogRewritten[] = [];

for (const name of names) {
  const { group, partition } = placeOf(name);
  try {
    await untilUnchanged(() => scrub(group, partition));
  } catch (error) {
    const damage = damageOf(error);
    if (damage === null) throw error;
    if (error instanceof LogRewritten) restless.push(error);
    else say({ type: 'damage', ...damage });
  }
}
await log.close();
// After the others: nothing is known of these.
if (restless.length > 0) throw new AggregateError(restless, 'partitions that could not be checked');

async function scrub(group: string, partition: number): Promise<void> {
  // Not each batch: whoever serves hears it.
  const about = (batch: number, sequence: number): void =>
    say({ type: 'place', group, partition, batch, sequence });
  about(0, 0);
  let checked = 0;
  log.refresh();
  const { batch: afterBatch } = log.startOf(group, partition);
  for (const { bytes, batch, firstSequence, records } of log.read(group, partition, { afterBatch })) {
    checked += bytes.length;
    if (checked < STRETCH_BYTES) continue;
    checked = 0;
    about(batch + 1, firstSequence + records.length);
    await pause(REST_MS);
  }
}
