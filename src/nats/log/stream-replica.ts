// The replica of a partition's log: its JetStream stream. A batch is durable there when JetStream has acknowledged it
// at exactly the place its number says.
//
// Invariants:
//   - A batch is published only on top of the batch before it (expected last sequence), and counts only at the sequence
//     that follows. Any other sequence means another writer: nothing is acknowledged, the writer steps down. This holds
//     even where the server lets two publishes at one expectation through (nats-server before 2.11, replicated).
//     A message that is no batch, or a place that nats-server has left empty, is no sign of another writer: the batch goes after it.
//   - Without an answer nothing is assumed: the same message id is sent again, until streamPublishMs.
//
// Place: a batch's stream sequence is its number + offset. The offset is the number of leftovers of replaced writers, and of
// messages that are no batches, that stand in the stream before it; it is 0 until there has been one (log-follower.ts finds it).

import type { JetStreamManager } from 'nats';
import { isBatch } from '../../../wal/batch.ts';
import type { Batch, Replica } from '../../../wal/types.ts';
import type { GroupName } from '../../bus/bus.ts';
import { LIMITS } from '../../limits.ts';
import { pause } from '../../pause.ts';
import type { StreamPublisher } from '../stream-publisher.ts';
import { messageAt, NothingThere } from '../streams.ts';
import { logStream, logSubject } from '../subjects.ts';
import { asError } from '../../../wal/thrown.ts';

/** Another writer has written to the stream: this one has been replaced. */
export class Fenced extends Error {
  constructor(what: string) {
    super(`another writer exists: ${what}`);
    this.name = 'Fenced';
  }
}

/** JetStream could not be reached for streamPublishMs; whether the batch is stored is not known. */
export class ReplicaUnavailable extends Error {
  constructor(what: string) {
    super(`the replica cannot be reached: ${what}`);
    this.name = 'ReplicaUnavailable';
  }
}

export interface WaitingBatch {
  /** Monotonic milliseconds. */
  readonly since: number;
  /** What was said last; null: nothing yet. */
  readonly why: string | null;
}

/** What a partition's writer needs of its stream beyond publishing. */
export interface LogReplica extends Replica {
  /** A batch that the stream has not taken yet; null: none waits. */
  readonly waiting: WaitingBatch | null;
  /** Stream sequence of the batch that the stream took last; 0: it has taken none. */
  readonly reached: number;
  /** Resolves when all that was published stands in the stream; rejects when it never will. */
  settled(): Promise<void>;
}

export interface StreamReplicaOptions {
  readonly publisher: StreamPublisher;
  readonly manager: JetStreamManager;
  readonly group: GroupName;
  readonly partition: number;
  /** Stream sequence minus batch number, at first. */
  readonly offset: number;
  /** True while this process may still try; asked before each repetition. */
  readonly mayWrite: () => boolean;
  /** False: the server may remember these batches from what the stream was before. Absent: each is recognised when it is sent
   *  again. */
  readonly isRemembered?: boolean;
}

export class StreamReplica implements LogReplica {
  readonly #options: StreamReplicaOptions;
  #offset: number;
  #waiting: WaitingBatch | null = null;
  #reached = 0;

  constructor(options: StreamReplicaOptions) {
    this.#options = options;
    this.#offset = options.offset;
  }

  get waiting(): WaitingBatch | null {
    return this.#waiting;
  }

  get reached(): number {
    return this.#reached;
  }

  async publish(batch: Batch): Promise<void> {
    this.#waiting = { since: performance.now(), why: null };
    try {
      await this.#publish(batch);
      this.#reached = batch.batch + this.#offset;
    } finally {
      this.#waiting = null;
    }
  }

  async #publish(batch: Batch): Promise<void> {
    const { group, partition, publisher, isRemembered = true } = this.#options;
    const until = performance.now() + LIMITS.streamPublishMs;
    for (;;) {
      const place = batch.batch + this.#offset;
      const expected = { lastSequence: place - 1, messageId: isRemembered ? this.#idOf(batch) : undefined };
      const result = await publisher.publish(logSubject(group, partition), batch.bytes, expected);
      if (result.type === 'stored') {
        if (result.sequence === place) return;
        throw new Fenced(
          `${group}/${partition} batch ${batch.batch} came to stand at ${result.sequence}, not ${place}`,
        );
      }
      if (this.#waiting !== null) this.#waiting = { ...this.#waiting, why: result.description };
      if (result.type === 'full') await pause(LIMITS.streamAckMs);
      if (result.type === 'conflict') {
        // Our own earlier attempt may be what stands there.
        const stands = await this.#standsAt(place, batch);
        if (stands === 'this') return;
        if (stands === 'other') {
          throw new Fenced(`${group}/${partition} batch ${batch.batch}: ${result.description}`);
        }
        if (stands === 'no batch') this.#offset++;
      }
      if (result.type === 'unanswered') await pause(LIMITS.busRetryMs);
      if (performance.now() > until || !this.#options.mayWrite()) {
        throw new ReplicaUnavailable(`${group}/${partition} batch ${batch.batch}: ${result.description}`);
      }
    }
  }

  /** Of these bytes: were two writers ever given one epoch, by leases that began anew, neither's batch may be taken for the other's
   *  that was sent again. At each place its own: a server may remember what it refused at another. */
  #idOf({ epoch, batch, hash }: Batch): string {
    const moved = this.#offset - this.#options.offset;
    const id = `${epoch}-${batch}-${hash.toString('hex', 0, 8)}`;
    return moved === 0 ? id : `${id}-${moved}`;
  }

  /** `publish` has waited for it. */
  async settled(): Promise<void> {}

  /** Null: nobody could say. */
  async #standsAt(place: number, batch: Batch): Promise<'this' | 'other' | 'no batch' | null> {
    const { group, partition, manager } = this.#options;
    try {
      const data = await messageAt(manager, logStream(group, partition), place);
      if (data === null) return 'no batch';
      if (data.equals(batch.bytes)) return 'this';
      return isBatch(data) ? 'other' : 'no batch';
    } catch (error) {
      return error instanceof NothingThere ? 'other' : null;
    }
  }
}

/** REPLICATION=async: a batch counts as durable when LMDB has it; the stream follows, at most streamAsyncOutstandingMax
 *  batches behind. A process that dies takes those acknowledged batches with it when another has its partition before it
 *  is back: that is the trade. One that leaves waits until they have settled. */
export class AsyncStreamReplica implements LogReplica {
  readonly #replica: StreamReplica;
  readonly #onFailure: (error: Error) => void;
  readonly #waiting: (() => void)[] = [];
  #queue: Promise<void> = Promise.resolve();
  #outstanding = 0;
  #failure: Error | null = null;

  constructor(replica: StreamReplica, onFailure: (error: Error) => void) {
    this.#replica = replica;
    this.#onFailure = onFailure;
  }

  get waiting(): WaitingBatch | null {
    return this.#replica.waiting;
  }

  get reached(): number {
    return this.#replica.reached;
  }

  async publish(batch: Batch): Promise<void> {
    this.#assertSound();
    this.#outstanding++;
    // In order: each on top of the one before.
    this.#queue = this.#queue.then(() => this.#publishOne(batch));
    if (this.#outstanding < LIMITS.streamAsyncOutstandingMax) return;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
    });
    this.#assertSound();
  }

  async settled(): Promise<void> {
    await this.#queue;
    this.#assertSound();
  }

  #assertSound(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  async #publishOne(batch: Batch): Promise<void> {
    try {
      if (this.#failure === null) await this.#replica.publish(batch);
    } catch (error) {
      this.#failure = asError(error);
      this.#onFailure(this.#failure);
    }
    this.#outstanding--;
    this.#waiting.shift()?.();
  }
}
