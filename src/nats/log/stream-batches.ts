// The batches of a partition's stream one after the other, from a place in the chain to where the stream ends now: for
// whoever reads much of it once. What is followed as it grows has readers of its own (log-follower.ts, stream-feed.ts).

import type { Batch, Tip } from '../../../wal/types.ts';
import { LIMITS } from '../../limits.ts';
import { batchIn, LogChain } from './log-chain.ts';
import { LogDiverged } from './log-follower.ts';
import { firstBatchIn, isLedAt, type StreamPartition } from './stream-places.ts';
import { StreamReader } from '../stream-reader.ts';
import type { StreamMessage } from '../stream-reader.ts';
import { lastSequenceOf } from '../streams.ts';
import { logStream } from '../subjects.ts';

/** Those that follow `after`, each checked to continue the chain; leftovers are dropped. Throws when the stream begins
 *  later, or does not continue it; at its end, when the last is not the stream's: one server may have what no other has. Whoever
 *  reads no further proves the last itself. */
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
    throw new LogDiverged(
      `the stream of ${group}/${partition} begins with batch ${first}: what is before was trimmed, and must be put back ` +
        'from the archive (npm run wal -- import)',
    );
  }
  const last = await lastSequenceOf(link.manager, stream, state);
  const chain = new LogChain(after);
  /** Stream sequence at which the end of the chain was read. */
  let endPlace = 0;
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
  // What is wanted may be removed meanwhile, or forgotten by the servers' disks: nothing comes then, and the reader waits for what will
  // be written.
  const look = setInterval(() => void endIfRemoved(), LIMITS.streamFollowHeartbeatMs);
  const endIfRemoved = async (): Promise<void> => {
    try {
      const { state: now } = await link.manager.streams.info(stream);
      const isEmptied = now.first_seq > last;
      if (!isEmptied && now.last_seq >= last) return;
      const what = isEmptied ? 'was emptied' : 'has lost its end';
      messages.fail(new Error(`the stream of ${group}/${partition} ${what} while it was read`));
    } catch {
      // While NATS is away the reader waits, too.
    }
  };
  try {
    for (let reached = after.batch; reached < last;) {
      const { data, sequence } = await messages.take();
      reached = sequence;
      const batch = batchIn(data);
      if (chain.take(batch)) {
        endPlace = sequence;
        yield batch;
      } else if (chain.leftovers > LIMITS.streamWarmUpMessages) {
        throw new LogDiverged(
          `the stream of ${group}/${partition} does not continue batch ${chain.tip.batch}`,
        );
      }
    }
    if (endPlace > 0 && !(await isLedAt(place, endPlace, chain.tip))) throw readWrong(place, chain.tip);
  } finally {
    clearInterval(look);
    messages.fail(new Error('nobody reads any more'));
    await reader.close();
  }
}

/** Of a batch that was read, and that the stream's leader does not have. */
export function readWrong({ group, partition }: StreamPartition, { batch }: Tip): Error {
  return new Error(
    `the stream of ${group}/${partition} has another batch ${batch} on its leader than where it was read: try again, and see ` +
      '"One server has a wrong copy" in deploy/nats/README.md',
  );
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
