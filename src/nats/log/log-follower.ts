// Brings a partition's log on this machine to the end of its stream, and keeps it there: for take-over, and for the node
// that is next in line. The only writer of the local log while nobody has the partition open here.
//
// Invariants:
//   - The stream decides. What it lacks may have been acknowledged all the same, with REPLICATION=async, or if its servers' disks have
//     forgotten what they had taken: a node that takes the partition before anybody else has written gives it to the stream
//     (`SendOn`). Where another has written, it is cut off; until then whoever only follows waits.
//   - More than a replaced writer can have left (streamAsyncOutstandingMax) is never cut off without a person.
//   - A stream that has never had anything decides nothing: it may have been made in the place of one that was lost.
//   - What changes the local log, or says where it ends, happens in turn: a cut takes nothing with it that the stream accepted
//     meanwhile.

import type { StreamState } from 'nats';
import type { WriteAheadLog } from '../../../wal/log.ts';
import { tipAt } from '../../../wal/batch.ts';
import type { Batch, Tip } from '../../../wal/types.ts';
import { NotSoon } from '../../bus/ownership.ts';
import { LIMITS } from '../../limits.ts';
import { batchIn, LogChain } from './log-chain.ts';
import {
  batchAt,
  firstBatchIn,
  isLedAt,
  sequenceOf,
  standsAt,
  type StreamPartition,
} from './stream-places.ts';
import { StreamReader } from '../stream-reader.ts';
import type { StreamMessage } from '../stream-reader.ts';
import { lastSequenceOf, messageAt } from '../streams.ts';
import { logStream } from '../subjects.ts';

/** The local log and the stream do not belong together, or the stream no longer holds what is missing here, nor a snapshot that can be
 *  read. So nothing proves that all that was acknowledged is here: others have the partition that can, or a person has to see to it. */
export class LogDiverged extends NotSoon {
  constructor(what: string) {
    super(what);
    this.name = 'LogDiverged';
  }
}

/** The stream's leader has lost what it must have had. Another of its servers may have it. */
export class StreamLacks extends LogDiverged {
  /** All that it has is in the log of this machine, which goes on: whoever has less must not write there. */
  readonly isAhead: boolean;

  constructor(what: string, isAhead = false) {
    super(what);
    this.isAhead = isAhead;
  }
}

/** Has the stream take these batches, which go on where it ends at that offset; rejects when it does not. */
export type SendOn = (batches: readonly Batch[], offset: number) => Promise<void>;

export interface LogFollowerOptions extends StreamPartition {
  readonly log: WriteAheadLog;
  /** The batch that the stream begins with; absent or 0: unknown, or there is none. */
  readonly firstBatch?: number;
  /** Batches that a writer may have on their way to the stream. Absent: 1. */
  readonly outstandingMax?: number;
  /** Something of this log was in a stream. Absent: as far as the log tells. */
  readonly hasBegun?: boolean;
  /** What is after that batch is cut off when it has resolved. Absent: nobody else knows of it. */
  readonly beforeCut?: (batch: number) => Promise<void>;
}

/** Of three servers one may have a wrong copy, and be drawn again. */
const READINGS_MAX = 8;

type Handled = Pick<StreamMessage, 'sequence' | 'data' | 'pending'>;

export interface EndOfLog {
  readonly tip: Tip;
  /** Stream sequence minus batch number, for what is written next. */
  readonly offset: number;
}

export class LogFollower {
  readonly #options: LogFollowerOptions;
  readonly #name: string;
  #chain: LogChain;
  readonly #reader: StreamReader;
  /** Stream sequence that is read first. */
  #from: number;
  /** Where the local log ends, what stands in the buffer not counted. */
  #tip: Tip;
  #buffer: Buffer[] = [];
  #bufferBytes = 0;
  /** The last that has taken its turn, or waits for it. Rejected: nothing more is changed. */
  #turn: Promise<unknown> = Promise.resolve();
  /** That have not ended yet. */
  #turns = 0;
  /** Stream sequence handled last. */
  #handled: number;
  /** Stream sequence at which the end of the chain was read; null: nothing of the log has been. */
  #endPlace: number | null = null;
  /** That the leader had another end than was read. */
  #readings = 0;
  #error: Error | null = null;
  #waiting: (() => void)[] = [];

  constructor(options: LogFollowerOptions) {
    const { link, log, group, partition } = options;
    this.#options = options;
    this.#name = `${group}/${partition}`;
    log.refresh();
    this.#tip = log.tip(group, partition);
    const base = this.#base();
    this.#chain = new LogChain(base);
    this.#handled = base.batch;
    this.#from = base.batch + 1;
    this.#reader = new StreamReader({
      link,
      stream: logStream(group, partition),
      from: this.#from,
      heartbeatMs: LIMITS.streamFollowHeartbeatMs,
      onMessage: (message) => this.#onMessage(message),
      onError: (error) => this.#fail(error),
    });
  }

  /** Where reading begins. The offset is never negative: the batch after it stands at its number, or later by as many leftovers as there
   *  have been. */
  #base(): Tip {
    const { log, group, partition, firstBatch = 0 } = this.#options;
    const start = log.startOf(group, partition).batch;
    // Some way back: the newest local batches may be ones that the stream never accepted. If the stream begins later than that, its first
    // batch proves by its hash that the local log has all that is before it.
    const back = Math.max(start, this.#tip.batch - LIMITS.streamWarmUpMessages);
    return log.tipAt(group, partition, Math.min(this.#tip.batch, Math.max(back, firstBatch - 1)));
  }

  get tip(): Tip {
    return this.#tip;
  }

  /** Nothing of the local log may ever have been in a stream. Whatever the replication, the batch that opens the first epoch is there before
   *  there is another. */
  get #mayBeNew(): boolean {
    const { log, group, partition, hasBegun = false } = this.#options;
    if (log.startOf(group, partition).batch > 0) return false;
    return this.#tip.batch === 0 || (this.#tip.batch === 1 && !hasBegun);
  }

  /** Why it has stopped; null: it goes on. */
  get failure(): Error | null {
    return this.#error;
  }

  /** Reads to where the stream ends now. The local log is then exactly the stream's. `sendOn`: of who takes the partition; whoever does
   *  not is refused where the stream ends before the log. */
  async reachEnd(sendOn?: SendOn): Promise<EndOfLog> {
    for (;;) {
      const state = await this.#readOn();
      const end = await this.#inTurn(() => this.#endAt(state, sendOn));
      if (end !== null) return end;
    }
  }

  /** To where the stream ends now. */
  async #readOn(): Promise<StreamState> {
    const { manager } = this.#options.link;
    const { group, partition } = this.#options;
    const stream = logStream(group, partition);
    const { config, state } = await manager.streams.info(stream);
    this.#assertNotNew(state);
    this.#assertNotPurged(state);
    await this.#assertNotShort(state);
    // Whatever has been read meanwhile: what follows a gap is taken for leftovers.
    if (state.messages > 0 && state.first_seq > this.#from) await this.#assertContinued(state);
    // With several replicas no place is left empty: where the leader has nothing at the end, it has lost that, and others may have it.
    let last = config.num_replicas > 1 ? state.last_seq : await lastSequenceOf(manager, stream, state);
    let readings = 0;
    while (this.#handled < last) {
      if (this.#error !== null) throw this.#error;
      const before = this.#handled;
      await this.#advancedOrSilent();
      if (this.#handled > before) continue;
      const { state: now } = await manager.streams.info(stream);
      // Purged since: what is waited for never comes.
      this.#assertNotPurged(now);
      // Nor does what the servers' disks have forgotten since, until another has written in its place.
      if (now.last_seq < last) return this.#readOn();
      // Nor what the server that is read at may never have.
      if (!this.#reader.isAtEnd) continue;
      if (++readings > LIMITS.streamHoleReadingsMax) last = await lastSequenceOf(manager, stream, now);
      else this.#reader.elsewhere(before + 1, `has ${before + 1} to ${last} on its leader`);
    }
    return state;
  }

  /** All that was handled, and no more, is in the local log then. Null: that was not the end, or the stream has been given what it lacked. */
  async #endAt(state: StreamState, sendOn?: SendOn): Promise<EndOfLog | null> {
    await this.#flush();
    if (this.#error !== null) throw this.#error;
    const end = this.#chain.tip;
    // What was read NATS may have forgotten since, and another have written in its place, which is not read then; or only the server that
    // is read at has it there. What was purged since cannot be looked at.
    if (this.#endPlace !== null && state.first_seq <= this.#endPlace) {
      if (!(await isLedAt(this.#options, this.#endPlace, end))) {
        await this.#readAgain(this.#endPlace, state.last_seq < this.#endPlace);
        return null;
      }
    } else if (!(await this.#isProved(end, state))) {
      throw this.#diverged();
    }
    const offset = Math.max(this.#handled, state.last_seq) - end.batch;
    if (this.#tip.batch > end.batch) {
      if (end.batch > 0) {
        await this.#giveBack(end, offset, sendOn);
        return null;
      }
      // Never to a stream that has had nothing: one may have been made in the place of one that was lost.
      if (!this.#mayBeNew) {
        throw new StreamLacks(
          this.#lossText(`the stream has no batch, and this machine has ${this.#tip.batch}`),
        );
      }
      await this.#truncate(end);
    }
    return { tip: end, offset };
  }

  /** The stream has the log's end, although it was not read there. */
  async #isProved(end: Tip, state: StreamState): Promise<boolean> {
    // A few leftovers may be what follows a trim, or the log of another tip. Then a writer that went on from here would acknowledge what
    // every reader drops.
    const { leftovers, others } = this.#chain;
    // And what is no batch may be all that is left of a stream that was purged.
    const isDoubtful = leftovers > 0 || (others > 0 && this.#tip.batch > 0) || this.#isUncompared(state);
    return !isDoubtful || (await sequenceOf(this.#options, end)) !== null;
  }

  /** Where the log begins with a snapshot, and the stream goes no further, nothing of the two has met. */
  #isUncompared({ messages }: StreamState): boolean {
    const { log, group, partition } = this.#options;
    const { batch } = this.#chain.tip;
    return messages > 0 && batch > 0 && batch === log.startOf(group, partition).batch;
  }

  /** What the stream lacks. Whoever does not take the partition waits until it is there, and says no more than that: a node that cannot prove
   *  its log is passed over for others, which have none of these batches and would write in their place. */
  async #giveBack(end: Tip, offset: number, sendOn: SendOn | undefined): Promise<void> {
    const { log, group, partition } = this.#options;
    const { outstandingMax = 1 } = this.#options;
    const count = this.#tip.batch - end.batch;
    if (count > LIMITS.streamForgottenMax + outstandingMax) {
      const what = `${count} batches of this machine are not in the stream, and at most`;
      const most = `${LIMITS.streamForgottenMax} forgotten and ${outstandingMax} on the way are given back`;
      throw new StreamLacks(this.#lossText(`${what} ${most}`), true);
    }
    if (sendOn === undefined) {
      throw new NotSoon(
        `${this.#name}: the stream ends with batch ${end.batch}, and this machine has ${count} after it: whoever takes the partition ` +
          'gives them back, or writes others in their place',
      );
    }
    const batches = Array.from({ length: count }, (_, i) => log.batch(group, partition, end.batch + 1 + i));
    await sendOn(batches, offset);
  }

  /** A log that has more than a writer can have had on its way, or that follows a trim or a snapshot, was in a stream. If the stream has
   *  never had anything, that one is gone, and what stands here may be all that is left of it. */
  #assertNotNew({ last_seq: last }: StreamState): void {
    if (last > 0 || this.#mayBeNew) return;
    const { log, group, partition } = this.#options;
    const start = log.startOf(group, partition).batch;
    throw new StreamLacks(
      `${this.#name}: the stream has never had anything, and the log of this machine has batches ${start + 1} to ` +
        `${this.#tip.batch}: the stream was lost, and it is not served here. See "The streams are lost" in deploy/nats/README.md`,
    );
  }

  /** No batch stands before its number. So a stream that ends before reading begins has lost what this machine has read there. */
  async #assertNotShort({ messages, last_seq: last }: StreamState): Promise<void> {
    if (last >= this.#from - 1) return;
    const what = `the stream ends at ${last}, and this machine has batches up to ${this.#tip.batch}`;
    const end = messages === 0 ? null : await batchAt(this.#options, last);
    const { log, group, partition } = this.#options;
    throw new StreamLacks(this.#lossText(what), end !== null && log.holds(group, partition, tipAt(end)));
  }

  /** No trim removes everything: an empty stream that had messages was purged, and nothing tells any more whether all of them are here. A
   *  stream of one replica that never had room for its first batch looks the same. */
  #assertNotPurged({ messages, last_seq: last }: StreamState): void {
    if (messages > 0 || this.#handled >= last) return;
    const mayBeFirst = this.#mayBeNew ? ' (or never had room for its first batch)' : '';
    throw new LogDiverged(
      `${this.#name}: the stream was purged empty after ${last} messages${mayBeFirst}, and nothing proves that the log of this machine, ` +
        `which ends with batch ${this.#tip.batch}, has all of them: it is not served here. See "A stream was purged" in deploy/nats/README.md`,
    );
  }

  /** What comes first in the stream: after a trim it may be later than what this machine needs next. */
  async #assertContinued(state: StreamState): Promise<void> {
    const batch = await firstBatchIn(this.#options, state);
    if (batch <= this.#chain.tip.batch + 1) return;
    if (batch <= this.#tip.batch + 1) throw this.#diverged();
    throw new LogDiverged(
      `${this.#name}: the stream begins with batch ${batch}, and the log of this machine ends with ${this.#tip.batch}: what ` +
        'is between was trimmed, and must be put back from the archive (npm run wal -- import)',
    );
  }

  /** Whoever waits for the end is told that it will not come. Nothing is changed any more when it has resolved. */
  async close(): Promise<void> {
    await this.#reader.close();
    this.#fail(this.#error ?? new Error(`${this.#name} is followed no more`));
    // Whoever waits for it hears what it ended in.
    await this.#turn.catch(() => {});
  }

  #onMessage(message: StreamMessage): void | Promise<void> {
    if (this.#turns > 0) return this.#inTurn(async () => this.#handle(message)?.());
    const rest = this.#handle(message);
    if (rest !== null) return this.#inTurn(rest);
  }

  /** Returns what of it takes time. */
  #handle(message: Handled): (() => Promise<void>) | null {
    const batch = batchIn(message.data);
    if (batch !== null && this.#isAnother(batch)) return () => this.#replaceFrom(message, batch);
    if (this.#chain.take(batch)) {
      this.#endPlace = message.sequence;
      if (batch.batch > this.#tip.batch) {
        this.#buffer.push(batch.bytes);
        this.#bufferBytes += batch.bytes.length;
      }
    } else if (this.#chain.leftovers > LIMITS.streamWarmUpMessages) {
      return () => this.#lookAtEnd();
    }
    const isFull =
      this.#buffer.length >= LIMITS.streamReadMessages || this.#bufferBytes >= LIMITS.streamReadBytesMax;
    const advanced = (): void => this.#advanced(message.sequence);
    if (isFull || message.pending === 0) return () => this.#flush().then(advanced);
    advanced();
    return null;
  }

  /** The local log has another one in its place. */
  #isAnother(batch: Batch): boolean {
    if (batch.batch > this.#tip.batch || !this.#chain.isNext(batch)) return false;
    const { log, group, partition } = this.#options;
    return !log.batch(group, partition, batch.batch).hash.equals(batch.hash);
  }

  /** One after the other. Rejects as `act` does, and so does all that comes after it. */
  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    this.#turns += 1;
    const turn = this.#turn.then(act).finally(() => {
      this.#turns -= 1;
    });
    this.#turn = turn;
    return turn;
  }

  #diverged(): LogDiverged {
    return new LogDiverged(`${this.#name}: the stream does not continue the log of this machine`);
  }

  /** Resolves when a message was handled, or none was for a while. */
  #advancedOrSilent(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LIMITS.streamFollowHeartbeatMs * 2);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #advanced(sequence: number): void {
    this.#handled = sequence;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** The stream has another batch at this place: it was never ours to keep. Unless only the server that is read at has it there. */
  async #replaceFrom({ sequence }: Handled, batch: Batch): Promise<void> {
    const { log, group, partition } = this.#options;
    // Rejects where the leader has lost what stood there: neither may be given to the stream then.
    if (!(await standsAt(this.#options, sequence, batch))) {
      this.#advanced(sequence - 1);
      // So many more may be wrong there, which would be taken for leftovers.
      await this.#readLed(sequence + LIMITS.streamAsyncOutstandingMax, false);
      this.#reader.elsewhere(this.#handled + 1, `has another batch at ${sequence} on its leader`);
      return;
    }
    this.#chain.take(batch);
    this.#endPlace = sequence;
    await this.#truncate(log.tipAt(group, partition, batch.batch - 1));
    this.#buffer.push(batch.bytes);
    this.#bufferBytes += batch.bytes.length;
    await this.#flush();
    this.#advanced(sequence);
  }

  /** It is not continued by more than a replaced writer can have left. */
  async #lookAtEnd(): Promise<void> {
    await this.#flush();
    const place = this.#endPlace;
    if (place === null || (await isLedAt(this.#options, place, this.#chain.tip))) throw this.#diverged();
    await this.#readAgain(place);
  }

  /** From some way back: what the leader has at that place is not what was read there. It may have forgotten it. */
  async #readAgain(place: number, isForgotten = false): Promise<void> {
    if (++this.#readings > READINGS_MAX) throw this.#diverged();
    const base = this.#base();
    this.#chain = new LogChain(base);
    this.#endPlace = null;
    this.#handled = base.batch;
    this.#from = base.batch + 1;
    if (isForgotten) return this.#reader.again(this.#from);
    await this.#readLed(place, true);
    this.#reader.elsewhere(this.#handled + 1, `has another batch at ${place} on its leader`);
  }

  /** From the stream's leader itself, up to that place. The next server may have the same wrong copy, or be the same one. */
  async #readLed(place: number, wasRead: boolean): Promise<void> {
    const { link, group, partition } = this.#options;
    const stream = logStream(group, partition);
    while (this.#handled < place) {
      const sequence = this.#handled + 1;
      let data: Buffer | null;
      try {
        data = await messageAt(link.manager, stream, sequence);
      } catch {
        // It begins later, has forgotten it meanwhile, or nobody can say: the reader finds out.
        return;
      }
      // What it has lost of what was read is in the local log, and is given back. Anything else is read at another server.
      if (data === null && !wasRead) return;
      if (data === null) this.#advanced(sequence);
      else await this.#handle({ sequence, data, pending: 0 })?.();
    }
  }

  async #truncate(to: Tip): Promise<void> {
    const { log, group, partition } = this.#options;
    const count = this.#tip.batch - to.batch;
    if (count > LIMITS.streamAsyncOutstandingMax) {
      const what = `${count} batches of this machine are not in the stream, and a writer leaves at most`;
      throw new LogDiverged(this.#lossText(`${what} ${LIMITS.streamAsyncOutstandingMax}`));
    }
    await this.#options.beforeCut?.(to.batch);
    await log.truncateAfter(group, partition, to.batch);
    this.#tip = to;
  }

  #lossText(what: string): string {
    const { group, partition } = this.#options;
    return (
      `${this.#name}: ${what}: it is not served here. If no server of NATS has them, the stream is removed ` +
      `(nats stream rm ${logStream(group, partition)}) and put back: see "The streams are lost" in deploy/nats/README.md`
    );
  }

  async #flush(): Promise<void> {
    if (this.#buffer.length === 0) return;
    const { log, group, partition } = this.#options;
    const buffer = this.#buffer;
    this.#buffer = [];
    this.#bufferBytes = 0;
    this.#tip = await log.appendForeign(group, partition, buffer);
  }

  #fail(error: Error): void {
    this.#error = error;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
