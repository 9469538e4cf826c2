// The feed over JetStream: committed records of a partition, read from its stream.
//
// Invariants:
//   - Leftovers of replaced writers are dropped (log-chain.ts).
//   - A gap is an error, never skipped, and so is a stream that goes on from elsewhere than what was read.
//   - The next message waits for the handler.
//   - What a replaced writer sent last is handed over when it is sure to be in the log (unsure-batches.ts): one server may have what no
//     other has, and money would follow from it.

import type { StreamState } from 'nats';
import { emptyTip, tipAt } from '../../../wal/batch.ts';
import type { Batch, Tip } from '../../../wal/types.ts';
import type { GroupName } from '../../bus/bus.ts';
import type { Feed, FeedHandler, Subscription } from '../../bus/feed.ts';
import { LIMITS } from '../../limits.ts';
import type { NatsLink } from '../connection.ts';
import { batchIn, LogChain } from './log-chain.ts';
import { pause } from '../../pause.ts';
import { Refusals } from '../refusals.ts';
import { LedNothing, lastWhere, standsAt, stillStandsAt, type StreamPartition } from './stream-places.ts';
import { StreamReader } from '../stream-reader.ts';
import type { StreamMessage } from '../stream-reader.ts';
import { logStream } from '../subjects.ts';
import { UnsureBatches, type UnsureBatch } from './unsure-batches.ts';

export interface StreamFeedOptions {
  readonly link: NatsLink;
  readonly decode: (group: GroupName, line: string) => unknown;
  /** The epoch under which the partition is written, as far as this process knows; 0: it knows none. */
  readonly epochOf: (group: GroupName, partition: number) => number;
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
  readonly #unsure = new UnsureBatches();
  /** Stream sequence at which the end of the chain was read. */
  #endPlace = 0;
  /** Up to this stream sequence the place in the chain is still being found; 0: it was. */
  #warmUpEnd = 0;
  /** Of the stream, the last that was read. */
  #reached = 0;
  /** Messages after the end of the chain were removed before they were read. */
  #isCut = false;
  /** Batches since then that do not follow it, and stand nowhere before it. */
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
    const { link } = this.#options;
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
      onResumed: () => void this.#lookAtEnd(),
      onMessage: (message) => this.#onMessage(message),
      onError: (error) => this.#fail(error),
    });
  }

  #fail(error: Error): void {
    if (this.#closed) return;
    void this.close();
    this.#options.onError(error);
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
    const state = await this.#state();
    // The last message whose first record is not after the one wanted.
    return lastWhere(this.#place, state, ({ firstSequence }) => firstSequence <= this.#cursor + 1);
  }

  #onMessage(message: StreamMessage): void | Promise<void> {
    const strangers = this.#strangers;
    const before = this.#chain?.tip ?? null;
    const beforePlace = this.#endPlace;
    const batch = this.#take(message);
    if (batch === null) {
      if (this.#unsure.isAny) return this.#settle();
      return this.#strangers > strangers ? this.#assertEndStands() : undefined;
    }
    // Of leftovers at which it was begun more might be handed over than was read, and what the log has in their place be passed over.
    const isCertain = message.sequence >= this.#warmUpEnd - LIMITS.streamAsyncOutstandingMax;
    if (!isCertain) return;
    if (batch.epoch >= this.#options.epochOf(this.#group, this.#partition)) {
      return this.#unsure.isAny
        ? this.#handOverAll([...this.#unsure.takeAll(), batch])
        : this.#handOver(batch);
    }
    const sure = this.#unsure.add({ batch, before, beforePlace, sequence: message.sequence });
    if (message.pending === 0) return this.#handOverAll(sure).then(() => this.#settle());
    return this.#handOverAll(sure);
  }

  #handOver(batch: Batch): void | Promise<void> {
    const last = batch.firstSequence + batch.records.length - 1;
    if (last <= this.#cursor) return;
    const skip = this.#cursor + 1 - batch.firstSequence;
    if (skip < 0) throw this.#gapBefore(batch);
    this.#cursor = last;
    const lines = skip === 0 ? batch.records : batch.records.slice(skip);
    const records = lines.map((line) => this.#options.decode(this.#group, line)) as never[];
    return this.#handler({ firstSequence: batch.firstSequence + skip, records });
  }

  async #handOverAll(batches: readonly Batch[]): Promise<void> {
    for (const batch of batches) {
      if (this.#closed) return;
      await this.#handOver(batch);
    }
  }

  /** Asks the stream's leader about what is unsure. */
  async #settle(): Promise<void> {
    const { first, last } = this.#unsure;
    const stands = await this.#isLed(last);
    if (stands === null) return;
    const batches = this.#unsure.takeAll();
    if (stands) return this.#handOverAll(batches);
    this.#chain = first.before === null ? null : new LogChain(first.before);
    this.#endPlace = first.beforePlace;
    if (first.before === null) this.#warmUpEnd = last.sequence;
    this.#reached = first.sequence - 1;
    this.#reader?.elsewhere(first.sequence, `has another batch at ${last.sequence} on its leader`);
  }

  /** The stream's leader has it there. Null: it has lost what stood there, so that only what follows tells, or this subscription was closed
   *  before anybody could say. */
  async #isLed({ batch, sequence }: UnsureBatch): Promise<boolean | null> {
    while (!this.#closed) {
      try {
        return await standsAt(this.#place, sequence, batch);
      } catch (error) {
        if (error instanceof LedNothing) return null;
        await pause(LIMITS.natsReconnectMs);
      }
    }
    return null;
  }

  #take(message: StreamMessage): Batch | null {
    const isWarm = message.sequence > this.#warmUpEnd;
    if (message.sequence >= this.#warmUpEnd) this.#warmUpEnd = 0;
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
    if (this.#chain !== null && isWarm) {
      const { tip } = this.#chain;
      if (this.#isCut && batch.batch > tip.batch + 1) throw this.#gapBefore(batch);
      // Fewer may be a replaced writer's.
      if (wasNotRead(batch, tip) && ++this.#strangers > LIMITS.streamWarmUpMessages) {
        throw this.#goesOnElsewhere();
      }
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
    const { tip } = this.#chain!;
    if (tip.batch === 0) return;
    let stands: boolean;
    try {
      stands = await standsAt(this.#place, this.#endPlace, tip);
    } catch {
      // While nobody can say it is asked for again with the next.
      return;
    }
    if (!stands && !this.#closed) throw this.#goesOnElsewhere();
  }

  /** It is read on after its servers died, say: they may have forgotten what was read, and another have written since. What was written
   *  in its place below where it is read on nobody would hand to this reader. */
  async #lookAtEnd(): Promise<void> {
    while (!this.#closed) {
      try {
        return await this.#readOnAtEnd();
      } catch {
        // Nobody can say.
        await pause(LIMITS.natsReconnectMs);
      }
    }
  }

  /** Rejects when nobody can say. */
  async #readOnAtEnd(): Promise<void> {
    // A leader that was just elected may not have read its own journal yet.
    if ((await this.#seen()).isShort) await pause(LIMITS.takeOverRetryMs);
    const { isShort, state, chain, tip, place } = await this.#seen();
    // What is unsure is asked for by itself.
    if (this.#closed || this.#unsure.isAny) return;
    // One server alone had what was read, or it was before where the log is.
    if (this.#chain !== chain) return this.#readOnAtEnd();
    if (isShort) return this.#readFrom(Math.max(1, state.last_seq));
    if (tip.batch === 0 || place < state.first_seq || place > state.last_seq) return;
    // Asked of another leader than how far it goes, perhaps.
    if (await stillStandsAt(this.#place, place, tip)) return;
    if (this.#chain !== chain) return this.#readOnAtEnd();
    this.#fail(this.#goesOnElsewhere());
  }

  /** What was read before it was asked how far the stream goes: more may come meanwhile. */
  async #seen(): Promise<Seen> {
    const [reached, chain, place] = [this.#reached, this.#chain, this.#endPlace];
    const { tip } = chain ?? { tip: emptyTip };
    const state = await this.#state();
    return { isShort: state.last_seq < reached, state, chain, tip, place };
  }

  /** What of it was read is passed over. */
  #readFrom(sequence: number): void {
    this.#reached = sequence - 1;
    this.#reader?.again(sequence);
  }

  async #state(): Promise<StreamState> {
    const { state } = await this.#options.link.manager.streams.info(logStream(this.#group, this.#partition));
    return state;
  }

  get #place(): StreamPartition {
    return { link: this.#options.link, group: this.#group, partition: this.#partition };
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

interface Seen {
  readonly isShort: boolean;
  readonly state: StreamState;
  readonly chain: LogChain | null;
  /** Of the chain, then. */
  readonly tip: Tip;
  /** Where that stands. */
  readonly place: number;
}

/** A replaced writer's batches, however they are numbered, stand after one of a later epoch. */
function isLater({ epoch, batch }: Batch, tip: Tip): boolean {
  return epoch > tip.epoch || (epoch === tip.epoch && batch > tip.batch);
}

/** It stands neither at the end of what was read nor, as far as its epoch tells, before it. What does comes again where a stream was put
 *  back, or is given back what it had forgotten. */
function wasNotRead({ epoch, batch, hash }: Batch, tip: Tip): boolean {
  return batch > tip.batch || epoch > tip.epoch || (batch === tip.batch && !hash.equals(tip.hash));
}
