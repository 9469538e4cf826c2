// The replica of a partition's log: its JetStream stream. A batch is durable there when JetStream has acknowledged it
// at exactly the place its number says.
//
// Invariants:
//   - A batch is published only on top of the batch before it (expected last sequence), and counts only at the sequence
//     that follows. Any other sequence means another writer: nothing is acknowledged, the writer steps down. This holds
//     even where the server lets two publishes at one expectation through (nats-server before 2.11, replicated).
//   - Without an answer nothing is assumed: the same message id is sent again, until streamPublishMs.
//
// Place: a batch's stream sequence is its number + offset. The offset is the number of leftovers of replaced writers that
// stand in the stream before it; it is 0 until there has been one (log-catch-up.ts finds it).

import type { JetStreamManager } from 'nats';
import type { Batch, Replica } from '../../wal/types.ts';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
import type { StreamPublisher } from './stream-publisher.ts';
import { logStream, logSubject } from './subjects.ts';
import { asError } from '../../wal/thrown.ts';

/** Another writer has written to the stream: this one has been replaced. */
export class Fenced extends Error {
  constructor(what: string) {
    super(`another writer exists: ${what}`);
    this.name = 'Fenced';
  }
}

/** JetStream could not be reached for streamPublishMs; whether the batch is stored is not known. */
class ReplicaUnavailable extends Error {
  constructor(what: string) {
    super(`the replica cannot be reached: ${what}`);
    this.name = 'ReplicaUnavailable';
  }
}

/** What a partition's writer needs of its stream beyond publishing. */
export interface LogReplica extends Replica {
  /** Resolves when all that was published stands in the stream; rejects when it never will. */
  settled(): Promise<void>;
}

export interface StreamReplicaOptions {
  readonly publisher: StreamPublisher;
  readonly manager: JetStreamManager;
  readonly group: GroupName;
  readonly partition: number;
  /** Stream sequence minus batch number. */
  readonly offset: number;
  /** True while this process may still try; asked before each repetition. */
  readonly mayWrite: () => boolean;
  /** False: the server may remember these batches from what the stream was before. Absent: each is recognised when it is sent
   *  again. */
  readonly isRemembered?: boolean;
}

export class StreamReplica implements LogReplica {
  readonly #options: StreamReplicaOptions;

  constructor(options: StreamReplicaOptions) {
    this.#options = options;
  }

  async publish(batch: Batch): Promise<void> {
    const { group, partition, offset, publisher, isRemembered = true } = this.#options;
    const place = batch.batch + offset;
    const messageId = isRemembered ? `${batch.epoch}-${batch.batch}` : undefined;
    const expected = { lastSequence: place - 1, messageId };
    const until = performance.now() + LIMITS.streamPublishMs;
    for (;;) {
      const result = await publisher.publish(logSubject(group, partition), batch.bytes, expected);
      if (result.type === 'stored') {
        if (result.sequence === place) return;
        throw new Fenced(
          `${group}/${partition} batch ${batch.batch} came to stand at ${result.sequence}, not ${place}`,
        );
      }
      if (result.type === 'conflict') {
        // Our own earlier attempt may be what stands there.
        const stands = await this.#standsAt(place, batch);
        if (stands === true) return;
        if (stands === false) {
          throw new Fenced(`${group}/${partition} batch ${batch.batch}: ${result.description}`);
        }
      }
      if (performance.now() > until || !this.#options.mayWrite()) {
        throw new ReplicaUnavailable(`${group}/${partition} batch ${batch.batch}: ${result.description}`);
      }
      if (result.type === 'unanswered') await pause(LIMITS.busRetryMs);
    }
  }

  /** `publish` has waited for it. */
  async settled(): Promise<void> {}

  /** Null: nobody could say. */
  async #standsAt(place: number, batch: Batch): Promise<boolean | null> {
    const { group, partition, manager } = this.#options;
    try {
      const stored = await manager.streams.getMessage(logStream(group, partition), { seq: place });
      return Buffer.compare(stored.data, batch.bytes) === 0;
    } catch (error) {
      return /no message found/i.test(String(error)) ? false : null;
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

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
