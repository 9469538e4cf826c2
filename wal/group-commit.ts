// One flush for all partitions of the process: what was appended while the last one ran goes with the next.
//
// Invariants: one flush in flight at a time; at most one batch of a partition on its way; `onDurable` only after LMDB has
// synced the batch and its replica has it, in order; after the first failure never again.
// See README.md for the timeline.
import type { PartitionLog, SealBounds } from './partition-log.ts';
import type { Batch } from './types.ts';
import { WAL_LIMITS } from './limits.ts';
import { asError } from './thrown.ts';

export interface FlushReport {
  readonly batches: number;
  readonly records: number;
  readonly bytes: number;
  readonly durationMs: number;
}

export interface GroupCommitOptions extends SealBounds {
  /** Writes the batches in one transaction; resolves when they are on disk. */
  write(batches: readonly Batch[]): Promise<void>;
  /** Wall clock, milliseconds since 1970. */
  now(): number;
  /** Called once. The process must stop: what is in memory may be ahead of the disk for ever. */
  onFailure(error: Error): void;
  onFlush?(report: FlushReport): void;
}

/** A sealed batch on its way to its homes. */
interface Passage {
  readonly partition: PartitionLog;
  readonly batch: Batch;
  written: boolean;
  replicated: boolean;
  /** Why the replica refused it; null: it did not. */
  refusal: Error | null;
}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  #queue: PartitionLog[] = [];
  /** On the disk and with their replicas; finished together. */
  #confirmed: Passage[] = [];
  #open = new Set<PartitionLog>();
  #scheduled = false;
  /** When the flush in flight began, of `performance.now()`; 0: none is. */
  #flushingSinceMs = 0;
  #failure: Error | null = null;
  /** Records taken and neither durable nor dropped. */
  #outstanding = 0;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
  }

  get failure(): Error | null {
    return this.#failure;
  }

  get outstanding(): number {
    return this.#outstanding;
  }

  /** For how long the disk has worked on the flush in flight, ms; 0: none is. */
  get flushingMs(): number {
    return this.#flushingSinceMs === 0 ? 0 : performance.now() - this.#flushingSinceMs;
  }

  add(partition: PartitionLog): void {
    if (this.#failure !== null) throw this.#failure;
    this.#open.add(partition);
    this.#enqueue(partition);
    this.#schedule();
  }

  remove(partition: PartitionLog): void {
    this.#outstanding -= partition.stop();
    this.#open.delete(partition);
  }

  /** `partition` has taken a record. */
  onAppend(partition: PartitionLog): void {
    this.#outstanding += 1;
    if (this.#outstanding > WAL_LIMITS.recordsOutstandingMax) {
      throw new Error(`${this.#outstanding} records wait for the disk: the caller's own bound has failed`);
    }
    this.#enqueue(partition);
    // Busy: the flush in flight takes it along when it ends. Idle: all commands of this turn go together.
    if (this.#flushingSinceMs === 0) this.#schedule();
  }

  /** Resolves when all that was taken is durable, or never will be. */
  async drained(): Promise<void> {
    await Promise.all([...this.#open].map((partition) => partition.drained()));
  }

  stop(): void {
    for (const partition of this.#open) this.remove(partition);
  }

  #enqueue(partition: PartitionLog): void {
    if (partition.queued || !partition.ready) return;
    partition.queued = true;
    this.#queue.push(partition);
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#failure !== null || this.#flushingSinceMs !== 0 || this.#queue.length === 0) return;
    const timeMs = this.#options.now();
    const passages: Passage[] = [];
    for (const partition of this.#queue) {
      partition.queued = false;
      if (!partition.ready) continue;
      const batch = partition.seal(timeMs, this.#options);
      passages.push({
        partition,
        batch,
        written: false,
        replicated: partition.options.replica === null,
        refusal: null,
      });
    }
    this.#queue = [];
    if (passages.length === 0) return;
    this.#flushingSinceMs = performance.now();
    // Side by side: the disk and the quorum are waited for once, not one after the other.
    void this.#write(passages);
    for (const passage of passages) if (!passage.replicated) void this.#replicate(passage);
  }

  async #write(passages: readonly Passage[]): Promise<void> {
    try {
      await this.#options.write(passages.map(({ batch }) => batch));
    } catch (error) {
      this.#fail(error);
      return;
    }
    if (this.#failure !== null) return;
    const durationMs = performance.now() - this.#flushingSinceMs;
    this.#flushingSinceMs = 0;
    for (const passage of passages) passage.written = true;
    this.#finish(passages.filter(({ replicated }) => replicated));
    for (const passage of passages) {
      if (passage.refusal !== null) this.#failPartition(passage, passage.refusal);
    }
    this.#report(passages, durationMs);
  }

  async #replicate(passage: Passage): Promise<void> {
    const { partition, batch } = passage;
    try {
      await partition.options.replica?.publish(batch);
    } catch (error) {
      // Whoever cuts the batch off must find it on the disk, not on its way there.
      passage.refusal = asError(error);
      if (passage.written) this.#failPartition(passage, passage.refusal);
      return;
    }
    passage.replicated = true;
    if (passage.written) this.#finishSoon(passage);
  }

  /** Confirmations come in bunches: those read in one go make one flush of what waited for them. */
  #finishSoon(passage: Passage): void {
    if (this.#confirmed.push(passage) > 1) return;
    queueMicrotask(() => {
      const confirmed = this.#confirmed;
      this.#confirmed = [];
      if (this.#failure === null) this.#finish(confirmed);
    });
  }

  /** These batches are durable everywhere. */
  #finish(passages: readonly Passage[]): void {
    for (const { partition } of passages) partition.release();
    for (const { partition, batch } of passages) if (this.#open.has(partition)) partition.settle(batch);
    for (const { partition } of passages) this.#enqueue(partition);
    // The disk works on the next batch while the callers of this one are answered.
    this.#flush();
    for (const { partition, batch } of passages) {
      this.#outstanding -= batch.records.length;
      if (this.#open.has(partition)) partition.acknowledge(batch);
    }
  }

  #failPartition({ partition, batch }: Passage, error: Error): void {
    const { options } = partition;
    if (options.onFailure === undefined) {
      this.#fail(error);
    } else if (this.#open.has(partition) && this.#failure === null) {
      this.#outstanding -= batch.records.length;
      this.remove(partition);
      options.onFailure(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#failure !== null) return;
    this.#failure = asError(error);
    this.stop();
    this.#options.onFailure(this.#failure);
  }

  #report(passages: readonly Passage[], durationMs: number): void {
    if (this.#options.onFlush === undefined) return;
    let records = 0;
    let bytes = 0;
    for (const { batch } of passages) {
      records += batch.records.length;
      bytes += batch.bytes.length;
    }
    this.#options.onFlush({ batches: passages.length, records, bytes, durationMs });
  }
}
