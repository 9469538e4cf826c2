// Finds batches in a partition's stream, by their sequence, by their number or by what holds of them: a handful of messages are read,
// however long the stream is. What must be proven of the place that is found, its caller proves.

import type { StreamState } from 'nats';
import type { Batch, Tip } from '../../../wal/types.ts';
import type { PartitionPlace } from '../../bus/bus.ts';
import { LIMITS } from '../../limits.ts';
import type { NatsLink } from '../connection.ts';
import { batchIn } from './log-chain.ts';
import { hasStream, messageAt, NothingThere, NothingYet } from '../streams.ts';
import { logStream } from '../subjects.ts';

export interface StreamPartition extends PartitionPlace {
  readonly link: NatsLink;
}

/** The batch that stands at a sequence of the stream; it may be a leftover. Null: the message there is none, or the place was left
 *  empty. Rejects when the stream does not reach it, or begins later. */
export async function batchAt(place: StreamPartition, sequence: number): Promise<Batch | null> {
  const { link, group, partition } = place;
  const data = await messageAt(link.manager, logStream(group, partition), sequence);
  return data === null ? null : batchIn(data);
}

/** The stream's leader has nothing there, although it has several replicas, of which none leaves a place empty: it has lost what stood there,
 *  and cannot say what that was. */
export class LedNothing extends Error {}

/** The stream's leader has the batch of this hash at that sequence. Rejects when nobody can say. */
export async function standsAt(
  place: StreamPartition,
  sequence: number,
  tip: Pick<Tip, 'hash'>,
): Promise<boolean> {
  try {
    return await stillStandsAt(place, sequence, tip);
  } catch (error) {
    if (error instanceof NothingYet) return false;
    throw error;
  }
}

/** The same for whoever would give the stream what its leader has lost. */
export async function isLedAt(...what: Parameters<typeof standsAt>): Promise<boolean> {
  try {
    return await standsAt(...what);
  } catch (error) {
    if (error instanceof LedNothing) return false;
    throw error;
  }
}

/** The same of what the stream is known to have reached. Rejects with NothingYet where its leader has a short copy: that one cannot say what
 *  stands there. */
export async function stillStandsAt(
  place: StreamPartition,
  sequence: number,
  { hash }: Pick<Tip, 'hash'>,
): Promise<boolean> {
  const { link, group, partition } = place;
  const stream = logStream(group, partition);
  try {
    const data = await messageAt(link.manager, stream, sequence);
    if (data !== null) return batchIn(data)?.hash.equals(hash) === true;
    const { config } = await link.manager.streams.info(stream);
    if (config.num_replicas > 1) throw new LedNothing(`the leader of ${stream} has nothing at ${sequence}`);
    return false;
  } catch (error) {
    if (error instanceof NothingThere && !(error instanceof NothingYet)) return false;
    throw error;
  }
}

/** Stream sequence of the last batch for which `holds`, by binary search: it must hold up to some batch of the log, and for none after
 *  it. If it holds for none, the first message's. Beside a leftover it may be a sequence nearby. */
export async function lastWhere(
  place: StreamPartition,
  { first_seq: first, last_seq: last }: { readonly first_seq: number; readonly last_seq: number },
  holds: (batch: Batch) => boolean,
): Promise<number> {
  let found = Math.max(1, first);
  let low = found;
  let high = last;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const stands = await batchUpTo(place, middle, low);
    if (stands !== null && !holds(stands.batch)) {
      high = stands.sequence - 1;
    } else {
      low = middle;
      found = stands?.sequence ?? found;
    }
  }
  return found;
}

/** The batch that stands there, or last before, and after `after`; null: there is none. */
async function batchUpTo(
  place: StreamPartition,
  last: number,
  after: number,
): Promise<{ readonly batch: Batch; readonly sequence: number } | null> {
  for (let sequence = last; sequence > after; sequence--) {
    const batch = await batchAt(place, sequence);
    if (batch !== null) return { batch, sequence };
  }
  return null;
}

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

/** Number of the batch that a stream begins with; it may be a leftover's. 0: it is empty. */
export async function firstBatchOf(place: StreamPartition): Promise<number> {
  const { link, group, partition } = place;
  const { state } = await link.manager.streams.info(logStream(group, partition));
  return firstBatchIn(place, state);
}

/** The same of a stream whose state is known. */
export async function firstBatchIn(
  place: StreamPartition,
  { messages, first_seq: first, last_seq: last }: StreamState,
): Promise<number> {
  if (messages === 0) return 0;
  // A batch stands at its number or later: a stream that was never trimmed need not be asked, at each take-over.
  if (first === 1) return 1;
  for (let sequence = first; sequence <= last; sequence++) {
    const found = await batchAt(place, sequence);
    if (found !== null) return found.batch;
  }
  return 0;
}

/** What of the stream is missing for a reader that has read up to the record `cursor`, as far as the stream's outermost messages tell
 *  (some may be leftovers, or no batches); null: nothing, or the stream is empty or not there, which tells nothing. */
export async function misses(place: StreamPartition, cursor: number): Promise<'beginning' | 'end' | null> {
  const { link, group, partition } = place;
  const stream = logStream(group, partition);
  if (!(await hasStream(link.manager, stream))) return null;
  const { state } = await link.manager.streams.info(stream);
  const { first_seq: first, last_seq: last, messages } = state;
  if (messages === 0) return null;
  // Of the batches from there on; nothing is told where there are none.
  const isAny = async (from: number, step: 1 | -1, holds: (batch: Batch) => boolean): Promise<boolean> => {
    let count = 0;
    for (let at = from; at >= first && at <= last && count <= LIMITS.streamWarmUpMessages; at += step) {
      const batch = await batchAt(place, at);
      if (batch === null) continue;
      if (holds(batch)) return true;
      count++;
    }
    return count === 0;
  };
  const reachesEnd = await isAny(
    last,
    -1,
    ({ firstSequence, records }) => firstSequence + records.length > cursor,
  );
  if (!reachesEnd) return 'end';
  return (await isAny(first, 1, ({ firstSequence }) => firstSequence <= cursor + 1)) ? null : 'beginning';
}
