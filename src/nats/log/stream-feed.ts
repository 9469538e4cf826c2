// The feed over JetStream: committed records of a partition, read from its stream.
//
// Invariants: leftovers of replaced writers are dropped (log-chain.ts); a gap is an error, never skipped, and so is a stream that goes
// on from elsewhere than what was read; the next message waits for the handler.

import { emptyTip, tipAt } from '../../../wal/batch.ts';
import type { Batch, Tip } from '../../../wal/types.ts';
import type { GroupName } from '../../bus/bus.ts';
import type { Feed, FeedHandler, Subscription } from '../../bus/feed.ts';
import { LIMITS } from '../../limits.ts';
import type { NatsLink } from '../connection.ts';
import { batchIn, LogChain } from './log-chain.ts';
import { pause } from '../../pause.ts';
import { Refusals } from '../refusals.ts';
import { batchAt, lastWhere } from './stream-places.ts';
import { StreamReader } from '../stream-reader.ts';
import type { StreamMessage } from '../stream-reader.ts';
import { NothingThere } from '../streams.ts';
import { logStream } from '../subjects.ts';

export interface StreamFeedOptions {
  readonly link: NatsLink;
  readonly decode: (group: GroupName, line: string) => unknown;
  /** A handler threw, or the stream has a gap: the process must stop. */
  readonly onError: (error: Error) => void;
}

type Handler = FeedHandler<never>;

export class StreamFeed implements Feed {
  readonly #options: StreamFeedOptions;

  constructor(options: StreamFeedOptions) {
    this.#options = options;
  }

  subscribe<Record>(
    group: GroupName,
    partition: number,
    after: number,
    handler: FeedHandler<Record>,
  ): Subscription {
    return new StreamSubscription(this.#options, group, partition, after, handler as Handler);
  }
}

class StreamSubscription implements Subscription {
  readonly #options: StreamFeedOptions;
  readonly #group: GroupName;
  readonly #partition: number;
  readonly #handler: Handler;
  /** Sequence of the last record handed over. */
  #cursor: number;
  #chain: LogChain | null = null;
  /** Stream sequence at which the end of the chain was read. */
  #endPlace = 0;
  /** Up to this stream sequence the place in the chain is still being found. */
  #warmUpEnd = 0;
  /** Of the stream, the last that was read. */
  #reached = 0;
  /** Messages after the end of the chain were removed before they were read. */
  #isCut = false;
  /** Batches since then that should follow it by their numbers, and do not. */
  #strangers = 0;
  #reader: StreamReader | null = null;
  #closed = false;

  constructor(
    options: StreamFeedOptions,
    group: GroupName,
    partition: number,
    after: number,
    handler: Handler,
  ) {
    this.#options = options;
    this.#group = group;
    this.#partition = partition;
    this.#cursor = after;
    this.#handler = handler;
    void this.#start();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#reader?.close();
  }

  async #start(): Promise<void> {
    const { link, onError } = this.#options;
    const found = await this.#find();
    if (this.#closed) return;
    const from = Math.max(1, found - LIMITS.streamWarmUpMessages);
    this.#warmUpEnd = found;
    this.#reached = from - 1;
    if (from === 1) this.#chain = new LogChain(emptyTip);
    this.#reader = new StreamReader({
      link,
      stream: logStream(this.#group, this.#partition),
      from,
      heartbeatMs: LIMITS.streamFollowHeartbeatMs,
      onMessage: (message) => this.#onMessage(message),
      onError,
    });
  }

  /** Stream sequence at or before the batch that holds the record after the cursor. */
  async #find(): Promise<number> {
    if (this.#cursor === 0) return 1;
    const refusals = new Refusals(this.#options.link, logStream(this.#group, this.#partition));
    while (!this.#closed) {
      try {
        return await this.#search();
      } catch (error) {
        // The feed has no deadline of its own.
        refusals.note(error);
        await pause(LIMITS.natsReconnectMs);
      }
    }
    return 1;
  }

  async #search(): Promise<number> {
    const { link } = this.#options;
    const place = { link, group: this.#group, partition: this.#partition };
    const { state } = await link.manager.streams.info(logStream(this.#group, this.#partition));
    // The last message whose first record is not after the one wanted.
    return lastWhere(place, state, ({ firstSequence }) => firstSequence <= this.#cursor + 1);
  }

  #onMessage(message: StreamMessage): void | Promise<void> {
    const strangers = this.#strangers;
    const batch = this.#take(message);
    if (batch === null) return this.#strangers > strangers ? this.#assertEndStands() : undefined;
    const last = batch.firstSequence + batch.records.length - 1;
    // Of leftovers at which it was begun more might be handed over than was read, and what the log has in their place be passed over.
    const isCertain = message.sequence >= this.#warmUpEnd - LIMITS.streamAsyncOutstandingMax;
    if (last <= this.#cursor || !isCertain) return;
    const skip = this.#cursor + 1 - batch.firstSequence;
    if (skip < 0) throw this.#gapBefore(batch);
    this.#cursor = last;
    const lines = skip === 0 ? batch.records : batch.records.slice(skip);
    const records = lines.map((line) => this.#options.decode(this.#group, line)) as never[];
    return this.#handler({ firstSequence: batch.firstSequence + skip, records });
  }

  #take(message: StreamMessage): Batch | null {
    this.#isCut ||= message.sequence > this.#reached + 1;
    this.#reached = message.sequence;
    const batch = batchIn(message.data);
    if (batch === null) return null;
    if (this.#chain?.take(batch) === true) {
      this.#isCut = false;
      this.#strangers = 0;
      this.#endPlace = message.sequence;
      return batch;
    }
    if (this.#chain !== null && message.sequence > this.#warmUpEnd) {
      const { batch: end } = this.#chain.tip;
      if (this.#isCut && batch.batch > end + 1) throw this.#gapBefore(batch);
      // Fewer may be a replaced writer's. Those from before the end come again where a stream was put back.
      if (batch.batch > end && ++this.#strangers > LIMITS.streamWarmUpMessages) throw this.#goesOnElsewhere();
      return null;
    }
    // Begun in the middle, perhaps on a leftover: a batch of a later writer, or further on, shows where the log is.
    if (this.#chain !== null && !isLater(batch, this.#chain.tip)) return null;
    this.#chain = new LogChain(tipAt(batch));
    this.#endPlace = message.sequence;
    return batch;
  }

  /** A replaced writer leaves what does not follow, and what was read last stands where it was. If it does not, an older log was put
   *  back, or NATS has forgotten what was read, and another has written in its place: of that nothing would be handed over. */
  async #assertEndStands(): Promise<void> {
    const place = { link: this.#options.link, group: this.#group, partition: this.#partition };
    const { batch, hash } = this.#chain!.tip;
    if (batch === 0) return;
    try {
      const stands = await batchAt(place, this.#endPlace);
      if (stands?.hash.equals(hash) === true) return;
    } catch (error) {
      // While nobody can say it is asked for again with the next.
      if (!(error instanceof NothingThere)) return;
    }
    if (!this.#closed) throw this.#goesOnElsewhere();
  }

  #goesOnElsewhere(): Error {
    const { batch } = this.#chain!.tip;
    return new Error(
      `${this.#group}/${this.#partition}: the stream does not continue batch ${batch}, which was read last`,
    );
  }

  #gapBefore({ firstSequence }: Batch): Error {
    const place = `${this.#group}/${this.#partition}`;
    return new Error(`${place}: the stream goes on at sequence ${firstSequence}, not ${this.#cursor + 1}`);
  }
}

/** A replaced writer's batches, however they are numbered, stand after one of a later epoch. */
function isLater({ epoch, batch }: Batch, tip: Tip): boolean {
  return epoch > tip.epoch || (epoch === tip.epoch && batch > tip.batch);
}
