// Whether all of NATS's storage was lost, as far as the logs of a machine can tell: nothing else is left to ask.

import type { JetStreamManager } from 'nats';
import type { LogReader } from '../../../wal/log-reader.ts';
import { hasStream } from '../streams.ts';
import { logStream } from '../subjects.ts';

/** This machine has logs that were in streams, and not one of these streams has ever had anything. Of a log its stream need not have had
 *  the one batch that opens its first epoch. */
export async function areStreamsLost(manager: JetStreamManager, log: LogReader): Promise<boolean> {
  let isAnyLost = false;
  for (const { group, partition } of log.partitionNames()) {
    const stream = logStream(group as never, partition);
    // Where the log begins with a snapshot, or after a trim, it says so under batch 0: what is before stood in the stream.
    const hasBefore = log.bytesOf(group, partition, 0) !== undefined;
    const hasHad = hasBefore || log.lastBatchNumber(group, partition) > 1;
    if (!hasHad) continue;
    if ((await hasStream(manager, stream)) && (await manager.streams.info(stream)).state.last_seq > 0) {
      return false;
    }
    isAnyLost = true;
  }
  return isAnyLost;
}
