// Removes the beginning of a partition's stream. What may go is decided by whoever asks; here it is found, and proved to be
// what was asked for.

import type { Tip } from '../../wal/types.ts';
import { LIMITS } from '../limits.ts';
import { batchAt, lastWhere } from './stream-batches.ts';
import type { StreamPartition } from './stream-batches.ts';
import { logStream } from './subjects.ts';

/** Stream sequence at which the batch of this number and hash stands; null: nowhere. */
export async function sequenceOf(
  place: StreamPartition,
  { batch, hash }: Pick<Tip, 'batch' | 'hash'>,
): Promise<number | null> {
  const { link, group, partition } = place;
  const { state } = await link.manager.streams.info(logStream(group, partition));
  if (state.messages === 0) return null;
  const near = await lastWhere(place, state, (found) => found.batch <= batch);
  // Leftovers have numbers of batches nearby: the search may have been led astray by one.
  for (let distance = 0; distance <= LIMITS.streamWarmUpMessages; distance++) {
    for (const sequence of distance === 0 ? [near] : [near - distance, near + distance]) {
      if (sequence < state.first_seq || sequence > state.last_seq) continue;
      const found = await batchAt(place, sequence);
      if (found?.batch === batch && found.hash.equals(hash)) return sequence;
    }
  }
  return null;
}

/** Removes every message up to and with that sequence. For good. */
export async function removeUpTo(
  { link, group, partition }: StreamPartition,
  sequence: number,
): Promise<void> {
  await link.manager.streams.purge(logStream(group, partition), { seq: sequence + 1 });
}
