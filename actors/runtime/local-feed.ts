// The feed of one process: what a partition has just made durable goes to its subscribers from memory; a subscriber
// that starts late or falls behind reads the log by cursor until it has caught up.
//
// Invariants: each subscriber sees every record once per subscription, in sequence order; memory per subscriber is
// bounded by LIMITS.feedTailBatchesMax batches and one of the log, since beyond it the log is read instead. All that catch
// up share one bound on what a turn of the event loop hands out, in records and in characters, and take turns. Where the log cannot be read a
// subscription ends: what comes behind is not delivered without what is missing.

import type { GroupName } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, FeedHandler, Subscription } from '../../src/bus/feed.ts';
import { LIMITS } from '../../src/limits.ts';

/** A batch as it lies in the log: its records are decoded when their turn comes. */
export interface LoggedBatch {
  /** Sequence of the first line. */
  readonly firstSequence: number;
  /** At least one. */
  readonly lines: readonly string[];
  readonly decode: (line: string) => unknown;
}

/** What is durable above `after`, batch by batch; ends where there is no more for now. `damaged`: the rest cannot be read,
 *  and whoever reads the log has said so where it matters. */
export type ReadLog = (
  group: GroupName,
  partition: number,
  after: number,
) => Iterator<LoggedBatch | 'damaged', void>;

type Handler = FeedHandler<unknown>;

/** What a turn of the event loop may still hand out. */
interface Room {
  records: number;
  characters: number;
}

/** Who reads the log next: one after the other, and so much in a turn of the event loop. */
class LogTurns {
  readonly #waiting: LocalSubscription[] = [];
  #planned = false;

  /** `takeTurn` is called later, not from within. */
  ask(subscription: LocalSubscription): void {
    this.#waiting.push(subscription);
    if (this.#planned) return;
    this.#planned = true;
    setImmediate(() => this.#run());
  }

  #run(): void {
    const room = { records: LIMITS.feedRecordsPerTurnMax, characters: LIMITS.feedCharactersPerTurnMax };
    while (room.records > 0 && room.characters > 0) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      next.takeTurn(room);
    }
    this.#planned = this.#waiting.length > 0;
    if (this.#planned) setImmediate(() => this.#run());
  }
}

class LocalSubscription implements Subscription {
  /** Sequence of the last record handed to the handler. */
  #cursor: number;
  readonly #handler: Handler;
  readonly #readAfter: (after: number) => ReturnType<ReadLog>;
  readonly #turns: LogTurns;
  readonly #remove: () => void;
  #tail: FeedBatch<unknown>[] = [];
  /** The tail does not connect to the cursor: read the log. */
  #behind = true;
  /** Reads on where the last batch ended; null: not begun. */
  #reader: ReturnType<ReadLog> | null = null;
  /** The batch of the log that the cursor is in; null: the next one is to be read. */
  #reading: LoggedBatch | null = null;
  /** The handler is at work, or a turn was asked for. */
  #running = false;
  #closed = false;
  #closing: Promise<void> | null = null;
  #idle: (() => void) | null = null;

  constructor(
    after: number,
    handler: Handler,
    readAfter: (after: number) => ReturnType<ReadLog>,
    turns: LogTurns,
    remove: () => void,
  ) {
    this.#cursor = after;
    this.#handler = handler;
    this.#readAfter = readAfter;
    this.#turns = turns;
    this.#remove = remove;
  }

  offer(batch: FeedBatch<unknown>): void {
    if (this.#tail.length >= LIMITS.feedTailBatchesMax) this.#fallBehind();
    if (!this.#behind) this.#tail.push(batch);
    this.wake();
  }

  #fallBehind(): void {
    this.#behind = true;
    this.#tail = [];
  }

  wake(): void {
    if (this.#running) return;
    this.#running = true;
    this.#goOn();
  }

  /** Runs synchronously while the handler answers synchronously: no promise on the usual path. */
  #goOn(): void {
    while (!this.#closed) {
      if (this.#behind) {
        this.#turns.ask(this);
        return;
      }
      const batch = this.#tail.shift();
      if (batch === undefined) break;
      if (lastOf(batch) <= this.#cursor) continue;
      if (batch.firstSequence !== this.#cursor + 1) {
        this.#fallBehind();
        continue;
      }
      const done = this.#handOut(batch);
      if (done !== undefined) {
        void done.then(() => this.#goOn());
        return;
      }
    }
    this.#running = false;
    this.#idle?.();
  }

  /** Hands out what of the log there is `room` for, which is taken off it. */
  takeTurn(room: Room): void {
    const portion = this.#closed ? null : this.#nextPortion(room);
    const done = portion === null ? undefined : this.#handOut(portion);
    if (done === undefined) this.#goOn();
    else void done.then(() => this.#goOn());
  }

  #nextPortion(room: Room): FeedBatch<unknown> | null {
    this.#reading ??= this.#nextBatch();
    if (this.#reading === null) return null;
    const { firstSequence, lines, decode } = this.#reading;
    const from = this.#cursor + 1 - firstSequence;
    const portion = firstThatFit(lines, from, room);
    if (from + portion.length === lines.length) this.#reading = null;
    return { firstSequence: firstSequence + from, records: portion.map((line) => decode(line)) };
  }

  /** Null: caught up, and from here on the tail connects; or the log is damaged. */
  #nextBatch(): LoggedBatch | null {
    this.#reader ??= this.#readAfter(this.#cursor);
    const { value } = this.#reader.next();
    if (typeof value === 'object') return value;
    this.#reader = null;
    this.#behind = false;
    if (value === 'damaged') this.#closed = true;
    return null;
  }

  #handOut(batch: FeedBatch<unknown>): void | Promise<void> {
    this.#cursor = lastOf(batch);
    return this.#handler(batch);
  }

  /** Also of one that is closing: a process that stops may lose the partition meanwhile. */
  async close(): Promise<void> {
    this.#closing ??= this.#shut();
    await this.#closing;
  }

  async #shut(): Promise<void> {
    this.#closed = true;
    this.#remove();
    if (this.#running) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    }
  }
}

/** From the one at `from` on: as many as there is room for, the last may take more. */
function firstThatFit(lines: readonly string[], from: number, room: Room): readonly string[] {
  let end = from;
  while (end < lines.length && room.records > 0 && room.characters > 0) {
    room.records--;
    room.characters -= lines[end++]!.length;
  }
  return lines.slice(from, end);
}

function lastOf({ firstSequence, records }: FeedBatch<unknown>): number {
  return firstSequence + records.length - 1;
}

export class LocalFeed implements Feed {
  readonly #readLog: ReadLog;
  readonly #turns = new LogTurns();
  readonly #subscriptions = new Map<string, Set<LocalSubscription>>();

  constructor(readLog: ReadLog) {
    this.#readLog = readLog;
  }

  publish(group: GroupName, partition: number, batch: FeedBatch<unknown>): void {
    const subscriptions = this.#subscriptions.get(`${group}/${partition}`);
    if (subscriptions === undefined) return;
    for (const subscription of subscriptions) subscription.offer(batch);
  }

  subscribe<Record>(
    group: GroupName,
    partition: number,
    after: number,
    handler: FeedHandler<Record>,
  ): Subscription {
    const key = `${group}/${partition}`;
    const subscriptions = this.#subscriptions.get(key) ?? new Set();
    this.#subscriptions.set(key, subscriptions);
    const subscription = new LocalSubscription(
      after,
      handler as Handler,
      (cursor) => this.#readLog(group, partition, cursor),
      this.#turns,
      () => subscriptions.delete(subscription),
    );
    subscriptions.add(subscription);
    // It begins in the log, in a turn of its own: the caller has yet to store the subscription.
    subscription.wake();
    return subscription;
  }
}
