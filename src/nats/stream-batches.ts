// The batches of a partition's stream one after the other, from a place in the chain to where the stream ends now: for
// whoever reads much of it once. What is followed as it grows has readers of its own (log-follower.ts, stream-feed.ts).

import type { StreamState } from 'nats';
import type { Batch, Tip } from '../../wal/types.ts';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from './connection.ts';
import { batchIn, LogChain } from './log-chain.ts';
import { StreamReader } from './stream-reader.ts';
import type { StreamMessage } from './stream-reader.ts';
import { hasStream, lastSequenceOf, messageAt } from './streams.ts';
import { logStream } from './subjects.ts';
import type { PartitionPlace } from '../bus/bus.ts';

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

/** Those that follow `after`, each checked to continue the chain; leftovers are dropped. Throws when the stream begins
 *  later, or does not continue it. */
export async function* batchesAfter(
  place: StreamPartition,
  after: Tip,
): AsyncGenerator<Batch, void, undefined> {
  const { link, group, partition } = place;
  const stream = logStream(group, partition);
  const { state } = await link.manager.streams.info(stream);
  if (state.messages === 0) return;
  const first = await firstBatchIn(place, state);
  if (first > after.batch + 1) {
    throw new Error(
      `the stream of ${group}/${partition} begins with batch ${first}: what is before was trimmed, and must be put back ` +
        'from the archive (npm run wal -- import)',
    );
  }
  const last = await lastSequenceOf(link.manager, stream, state);
  const chain = new LogChain(after);
  const messages = new Handed<StreamMessage>();
  const reader = new StreamReader({
    link,
    stream,
    // The offset is never negative: the batch after `after` stands here or later.
    from: after.batch + 1,
    heartbeatMs: LIMITS.streamFollowHeartbeatMs,
    onMessage: (message) => messages.give(message),
    onError: (error) => messages.fail(error),
  });
  // What is wanted may be removed meanwhile: nothing comes then, and the reader waits for what will be written.
  const look = setInterval(() => void endIfRemoved(), LIMITS.streamFollowHeartbeatMs);
  const endIfRemoved = async (): Promise<void> => {
    try {
      const { state: now } = await link.manager.streams.info(stream);
      if (now.first_seq > last) {
        messages.fail(new Error(`the stream of ${group}/${partition} was emptied while it was read`));
      }
    } catch {
      // While NATS is away the reader waits, too.
    }
  };
  try {
    for (let reached = after.batch; reached < last;) {
      const { data, sequence } = await messages.take();
      reached = sequence;
      const batch = batchIn(data);
      if (chain.take(batch)) yield batch;
      else if (chain.leftovers > LIMITS.streamWarmUpMessages) {
        throw new Error(`the stream of ${group}/${partition} does not continue batch ${chain.tip.batch}`);
      }
    }
  } finally {
    clearInterval(look);
    messages.fail(new Error('nobody reads any more'));
    await reader.close();
  }
}

/** One at a time from hand to hand: whoever gives waits until it was taken. */
class Handed<Item> {
  #given: { readonly item: Item; readonly taken: () => void } | null = null;
  #wanted: { readonly resolve: (item: Item) => void; readonly reject: (error: Error) => void } | null = null;
  #failure: Error | null = null;

  give(item: Item): Promise<void> | void {
    if (this.#failure !== null) throw this.#failure;
    const wanted = this.#wanted;
    this.#wanted = null;
    if (wanted !== null) return wanted.resolve(item);
    return new Promise((taken) => {
      this.#given = { item, taken };
    });
  }

  take(): Promise<Item> | Item {
    const given = this.#given;
    this.#given = null;
    if (given !== null) {
      given.taken();
      return given.item;
    }
    if (this.#failure !== null) throw this.#failure;
    return new Promise((resolve, reject) => {
      this.#wanted = { resolve, reject };
    });
  }

  fail(error: Error): void {
    this.#failure ??= error;
    this.#given?.taken();
    this.#given = null;
    this.#wanted?.reject(this.#failure);
    this.#wanted = null;
  }
}
