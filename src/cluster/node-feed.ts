// The feed of a node of the cluster: a partition that this process writes from its own log, any other from its stream.
//
// Both have the same records under the same sequences, so a subscription changes over at its cursor. An own log that begins
// late, after a snapshot or a trim, may lack what a subscription comes for: that is read from the stream first.
//
// Invariants: each record is handed over once, in order; one source at a time is listened to; what is read from the own
// log is in the stream too (`own` is null where the stream may lag: REPLICATION=async).

import { LogCorruption } from '../../wal/batch.ts';
import type { GroupName } from '../bus/bus.ts';
import type { Feed, FeedHandler, Subscription } from '../bus/feed.ts';

type Handler = FeedHandler<never>;

export interface OwnLog {
  readonly feed: Feed;
  /** Sequence of the last record that the log does not have any more; 0: it has all. Throws LogCorruption. */
  beginsAfter(group: GroupName, partition: number): number;
}

export interface NodeFeedOptions {
  readonly stream: Feed;
  /** Of the partitions that this process writes; null: they are read from their streams too. */
  readonly own: OwnLog | null;
}

export class NodeFeed implements Feed {
  readonly #options: NodeFeedOptions;
  /** "accounts/3" that this process writes now. */
  readonly #written = new Set<string>();
  readonly #subscriptions = new Map<string, Set<NodeSubscription>>();

  constructor(options: NodeFeedOptions) {
    this.#options = options;
  }

  /** From now on this process writes the partition. */
  written(group: GroupName, partition: number): void {
    this.#written.add(`${group}/${partition}`);
    this.#changeOver(group, partition);
  }

  /** Another process may write it from now on. */
  left(group: GroupName, partition: number): void {
    this.#written.delete(`${group}/${partition}`);
    this.#changeOver(group, partition);
  }

  /** What follows `after` is read from this process's own log. */
  isOwn(group: GroupName, partition: number, after: number): boolean {
    return this.#sourceOf(group, partition, after) !== this.#options.stream;
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
    const subscription = new NodeSubscription(after, handler as Handler, {
      wanted: (cursor) => this.#sourceOf(group, partition, cursor),
      listen: (source, cursor, handle) => source.subscribe(group, partition, cursor, handle),
      remove: () => subscriptions.delete(subscription),
    });
    subscriptions.add(subscription);
    return subscription;
  }

  #sourceOf(group: GroupName, partition: number, cursor: number): Feed {
    const { own, stream } = this.#options;
    if (own === null || !this.#written.has(`${group}/${partition}`)) return stream;
    return beginsBy(own, group, partition, cursor) ? own.feed : stream;
  }

  #changeOver(group: GroupName, partition: number): void {
    for (const each of this.#subscriptions.get(`${group}/${partition}`) ?? []) each.changeOver();
  }
}

/** False also where that cannot be read: the stream has it all, and the next checkpoint says that the log is damaged. Thrown in the
 *  midst of a delivery, it would end the process, and all that others are served by it. */
function beginsBy(own: OwnLog, group: GroupName, partition: number, cursor: number): boolean {
  try {
    return own.beginsAfter(group, partition) <= cursor;
  } catch (error) {
    if (error instanceof LogCorruption) return false;
    throw error;
  }
}

interface Place {
  /** Where what follows the cursor is to be read. */
  wanted(cursor: number): Feed;
  listen(source: Feed, after: number, handler: Handler): Subscription;
  remove(): void;
}

class NodeSubscription implements Subscription {
  readonly #place: Place;
  readonly #handler: Handler;
  /** Sequence of the last record handed over. */
  #cursor: number;
  #source: Feed;
  #listening: Subscription;
  #changing: Promise<void> | null = null;
  #closed = false;

  constructor(after: number, handler: Handler, place: Place) {
    this.#place = place;
    this.#handler = handler;
    this.#cursor = after;
    this.#source = place.wanted(after);
    this.#listening = this.#listen();
  }

  changeOver(): void {
    if (this.#changing !== null || this.#source === this.#place.wanted(this.#cursor)) return;
    this.#changing = this.#change();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#place.remove();
    await this.#changing;
    await this.#listening.close();
  }

  async #change(): Promise<void> {
    while (!this.#closed && this.#source !== this.#place.wanted(this.#cursor)) {
      // A handler at work finishes first.
      await this.#listening.close();
      if (this.#closed) return;
      this.#source = this.#place.wanted(this.#cursor);
      this.#listening = this.#listen();
    }
    // In one step with the look at what is wanted: what is asked for from now on is another change.
    this.#changing = null;
  }

  #listen(): Subscription {
    return this.#place.listen(this.#source, this.#cursor, (batch) => {
      this.#cursor = batch.firstSequence + batch.records.length - 1;
      // The own log may have what comes next.
      this.changeOver();
      return this.#handler(batch);
    });
  }
}
