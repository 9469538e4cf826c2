// Gives a log that begins after a snapshot the batches before it, from the stream, which has them all: for a machine that
// must make its views anew, because they are gone or a new version has another form of them.
//
// Invariant: nothing of the local log is replaced. What comes before it counts only when the chain meets where it begins.

import { emptyTip } from '../../../wal/batch.ts';
import type { WriteAheadLog } from '../../../wal/log.ts';
import { LIMITS } from '../../limits.ts';
import { LogDiverged } from './log-follower.ts';
import { batchesAfter } from './stream-batches.ts';
import type { StreamPartition } from './stream-places.ts';

/** Resolves when the log begins with batch 1. Nobody else may write it meanwhile. Rejects with LogDiverged where the stream has it not. */
export async function readHistory(place: StreamPartition, log: WriteAheadLog): Promise<void> {
  const { group, partition } = place;
  // The batch after which the local log begins: the last one wanted.
  const end = log.startOf(group, partition).batch;
  let written = emptyTip;
  let reached = 0;
  let buffer: Buffer[] = [];
  let bufferBytes = 0;
  for await (const { batch, bytes } of batchesAfter(place, emptyTip)) {
    reached = batch;
    buffer.push(bytes);
    bufferBytes += bytes.length;
    const isFull = buffer.length >= LIMITS.streamReadMessages || bufferBytes >= LIMITS.streamReadBytesMax;
    if (reached < end && !isFull) continue;
    written = await log.prepend(group, partition, written, buffer);
    if (reached === end) return;
    buffer = [];
    bufferBytes = 0;
  }
  throw new LogDiverged(`the stream of ${group}/${partition} has no batch ${reached + 1}`);
}
