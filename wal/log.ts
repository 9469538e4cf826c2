// The write-ahead log of one process: all partitions of all groups in one LMDB environment, one group commit.
//
// Owns the directory `<directory>/log`. One process writes it at a time (writer-lock.ts); any number read it.
// What a record means is not known here.
import { join } from 'node:path';
import { assertPlace, checkFollows, decodeBatch, LogCorruption, tipAt } from './batch.ts';
import { GroupCommit } from './group-commit.ts';
import type { FlushReport } from './group-commit.ts';
import { WAL_LIMITS } from './limits.ts';
import { commitDurably, forgetKilledReaders, makeRoom, openLogDatabase } from './lmdb.ts';
import type { LogDatabase, LogKey, Write } from './lmdb.ts';
import { encodeStart, LogReader } from './log-reader.ts';
import { PartitionLog } from './partition-log.ts';
import type { PartitionLogOptions } from './partition-log.ts';
import { syncDirectoryNow } from './sync-directory.ts';
import type { Batch, Tip } from './types.ts';
import type { Unfinished } from './unfinished.ts';
import { WriterLock } from './writer-lock.ts';

export interface LogOptions {
  readonly directory: string;
  /** Called once, when a flush has failed: nothing is acknowledged any more, and the process must stop. */
  onFailure(error: Error): void;
  /** Wall clock, milliseconds since 1970. */
  now(): number;
  readonly batchRecordsMax?: number;
  readonly batchBytesMax?: number;
  /** A flush that takes longer has failed. */
  readonly commitMsMax?: number;
  onFlush?(report: FlushReport): void;
  /** Address space to reserve at first; it grows by itself. */
  readonly mapBytes?: number;
  /** See OpenLogOptions. */
  readonly unfinished?: Unfinished;
}

export class WriteAheadLog extends LogReader {
  readonly #commit: GroupCommit;
  readonly #open = new Map<string, PartitionLog>();
  /** Partitions that nobody has open, while their end is changed. */
  readonly #changing = new Set<string>();
  #closing: Promise<void> | null = null;

  readonly #directory: string;
  readonly #lock: WriterLock;
  readonly #commitMsMax: number | undefined;

  private constructor(database: LogDatabase, lock: WriterLock, options: LogOptions) {
    super(database, options.directory);
    this.#directory = options.directory;
    this.#lock = lock;
    this.#commitMsMax = options.commitMsMax;
    this.#commit = new GroupCommit({
      batchRecordsMax: options.batchRecordsMax ?? WAL_LIMITS.batchRecordsMax,
      batchBytesMax: options.batchBytesMax ?? WAL_LIMITS.batchBytesMax,
      write: (batches) => this.#write(batches),
      now: () => options.now(),
      onFailure: (error) => options.onFailure(error),
      onFlush: (report) => options.onFlush?.(report),
    });
  }

  /** Refused while another process writes the directory. */
  static open(options: LogOptions): WriteAheadLog {
    const path = join(options.directory, 'log');
    const lock = WriterLock.take(path);
    try {
      const database = openLogDatabase(options);
      // It may have just been made, and what is acknowledged is found by its name. Tools that make one see to that at their end.
      const named = options.unfinished === undefined ? [path, options.directory] : [];
      for (const each of named) syncDirectoryNow(each);
      return new WriteAheadLog(database, lock, options);
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** The one writer of a partition. An epoch above the tip's is opened with an empty batch of its own, which is on its
   *  way when this returns; a lower one is refused. Throws LogCorruption when the log's end is damaged. */
  openPartition(group: string, partition: number, options: PartitionLogOptions): PartitionLog {
    const key = `${group}/${partition}`;
    if (this.#closing !== null) throw new Error('the log is closed');
    if (this.#open.has(key)) throw new Error(`${key} is open already`);
    if (this.#changing.has(key)) throw new Error(`${key} is being changed`);
    const tip = this.tip(group, partition);
    if (options.epoch < tip.epoch) {
      throw new Error(`${key}: epoch ${options.epoch} is over: the log has epoch ${tip.epoch}`);
    }
    const log = new PartitionLog({ group, partition, tip }, options, (from) => this.#commit.onAppend(from));
    this.#commit.add(log);
    this.#open.set(key, log);
    return log;
  }

  /** Takes no more records for the partition; resolves when those taken are durable, or never will be. */
  async closePartition(log: PartitionLog): Promise<void> {
    log.shut();
    await log.drained();
    this.#commit.remove(log);
    const key = `${log.group}/${log.partition}`;
    if (this.#open.get(key) === log) this.#open.delete(key);
  }

  /** Records taken and not yet durable, all partitions. */
  get outstanding(): number {
    return this.#commit.outstanding;
  }

  /** For how long the disk has worked on the flush in flight, ms; 0: none is. */
  get flushingMs(): number {
    return this.#commit.flushingMs;
  }

  /** null, or why the log has stopped. */
  get failure(): Error | null {
    return this.#commit.failure;
  }

  /** Appends batches that another writer encoded (a replica's, a backup's), each checked to follow the one before.
   *  All or none; resolves with the new tip when they are durable. Throws LogCorruption. */
  async appendForeign(group: string, partition: number, batches: readonly Buffer[]): Promise<Tip> {
    return this.#alone(group, partition, async () => {
      const { checked, tip } = checkChain(group, partition, this.tip(group, partition), batches);
      await this.#write(checked);
      return tip;
    });
  }

  /** An empty partition whose first batch will follow `start`: for logs that come from a trimmed one or a snapshot. */
  async startAt(group: string, partition: number, start: Tip): Promise<void> {
    await this.#alone(group, partition, async () => {
      if (this.lastBatchNumber(group, partition) > 0) throw new Error(`${group}/${partition} is not empty`);
      await this.#commitDurably([startWrite(group, partition, start)]);
    });
  }

  /** Writes batches from before the partition's start, each checked to follow the one before; the first follows `after`.
   *  They count from the moment that the last one is the start's own: then the log begins with batch 1. Resolves with the
   *  tip reached. Throws LogCorruption. */
  async prepend(group: string, partition: number, after: Tip, batches: readonly Buffer[]): Promise<Tip> {
    this.#assertNotOpen(group, partition);
    const start = this.startOf(group, partition);
    const { checked, tip } = checkChain(group, partition, after, batches);
    const meets = tip.batch === start.batch;
    if (tip.batch > start.batch || (meets && !tip.hash.equals(start.hash))) {
      throw new Error(`${group}/${partition}: these batches do not end where its log begins`);
    }
    const writes = checked.map(batchWrite);
    if (meets) writes.push({ key: [group, partition, 0], value: null });
    await this.#commitDurably(writes);
    return tip;
  }

  /** Removes the batches below `batch`, which must exist. The hash of the last one removed is kept: the rest of the chain
   *  is still proven. Nothing is removed where `portionsBefore` throws. The writer may go on meanwhile. */
  async trimBefore(group: string, partition: number, batch: number): Promise<void> {
    const portions = this.portionsBefore(group, partition, batch);
    let first = this.startOf(group, partition).batch + 1;
    if (portions.length > 0) await this.#makeRoom();
    for (const end of portions) {
      const removed = removals(group, partition, first, end.batch);
      await this.#commitDurably([...removed, startWrite(group, partition, end)]);
      first = end.batch + 1;
    }
  }

  /** Removes the batches above `batch`: what this node wrote and its replica does not have. */
  async truncateAfter(group: string, partition: number, batch: number): Promise<void> {
    await this.#alone(group, partition, async () => {
      const last = this.lastBatchNumber(group, partition);
      const start = this.startOf(group, partition);
      if (batch < start.batch) throw new Error(`${group}/${partition}: batch ${batch} was trimmed`);
      if (last > batch) await this.#makeRoom();
      await this.#commitDurably(removals(group, partition, batch + 1, last));
    });
  }

  /** Removes all batches of the partition, the oldest first, and where it began: what a crash leaves is a log that begins later. What
   *  has rotted goes like the rest. */
  async clear(group: string, partition: number): Promise<void> {
    await this.removePrepended(group, partition);
    const last = this.lastBatchNumber(group, partition);
    const start = this.startOf(group, partition).batch;
    if (last > start) await this.#makeRoom();
    for (let first = start + 1; first <= last;) {
      const end = Math.min(last, first + WAL_LIMITS.batchesPerTrim - 1);
      const begins = this.#lastWhole(group, partition, first, end);
      const removed = removals(group, partition, first, begins?.batch ?? end);
      await this.#commitDurably(
        begins === null ? removed : [...removed, startWrite(group, partition, begins)],
      );
      first = (begins?.batch ?? end) + 1;
    }
    if (last > start || start > 0) await this.#commitDurably([{ key: [group, partition, 0], value: null }]);
  }

  /** Where the log ended with the last of these batches that can be read; null: none can be. */
  #lastWhole(group: string, partition: number, first: number, last: number): Tip | null {
    for (let batch = last; batch >= first; batch--) {
      try {
        return this.tipAt(group, partition, batch);
      } catch (error) {
        if (!(error instanceof LogCorruption)) throw error;
      }
    }
    return null;
  }

  /** Removes what whoever put batches before the partition's start has left that did not come to its end: it never counted. */
  async removePrepended(group: string, partition: number): Promise<void> {
    this.#assertNotOpen(group, partition);
    const start = this.startOf(group, partition).batch;
    let first = this.firstBatchNumber(group, partition);
    if (first > 0 && first <= start) await this.#makeRoom();
    while (first > 0 && first <= start) {
      const last = Math.min(start, first + WAL_LIMITS.batchesPerTrim - 1);
      await this.#commitDurably(removals(group, partition, first, last));
      first = this.firstBatchNumber(group, partition);
    }
  }

  /** To be called often: see lmdb.ts. */
  forgetKilledReaders(): void {
    forgetKilledReaders(this.database);
  }

  /** Flushes what was taken, then closes. */
  override async close(): Promise<void> {
    this.#closing ??= this.#shut();
    await this.#closing;
  }

  async #shut(): Promise<void> {
    for (const log of this.#open.values()) log.shut();
    await this.#commit.drained();
    this.#commit.stop();
    await super.close();
    this.#lock.release();
  }

  async #write(batches: readonly Batch[]): Promise<void> {
    await this.#commitDurably(batches.map(batchWrite));
  }

  async #commitDurably(writes: readonly LogWrite[]): Promise<void> {
    await commitDurably(this.database, writes, this.#commitMsMax);
  }

  async #makeRoom(): Promise<void> {
    await makeRoom(this.database, this.#directory, this.#commitMsMax);
  }

  /** What is written behind a tip while that is cut off would stand behind a gap. Rejects, and does nothing, while another is at it. */
  async #alone<T>(group: string, partition: number, act: () => Promise<T>): Promise<T> {
    this.#assertNotOpen(group, partition);
    const key = `${group}/${partition}`;
    if (this.#changing.has(key)) throw new Error(`${key} is being changed`);
    this.#changing.add(key);
    try {
      return await act();
    } finally {
      this.#changing.delete(key);
    }
  }

  #assertNotOpen(group: string, partition: number): void {
    assertPlace(group, partition);
    const log = this.#open.get(`${group}/${partition}`);
    if (log !== undefined && !log.stopped) throw new Error(`${group}/${partition} is open for writing`);
  }
}

/** Batches that another writer encoded, each checked to follow the one before, the first `after`; and the tip they reach.
 *  Throws LogCorruption. */
function checkChain(
  group: string,
  partition: number,
  after: Tip,
  batches: readonly Buffer[],
): { readonly checked: readonly Batch[]; readonly tip: Tip } {
  let tip = after;
  const checked = batches.map((bytes) => {
    const batch = decodeBatch(bytes, { group, partition, batch: tip.batch + 1 });
    checkFollows(batch, tip);
    tip = tipAt(batch);
    return batch;
  });
  return { checked, tip };
}

type LogWrite = Write<LogKey, Buffer>;

function batchWrite({ group, partition, batch, bytes }: Batch): LogWrite {
  return { key: [group, partition, batch], value: bytes };
}

function startWrite(group: string, partition: number, start: Tip): LogWrite {
  return { key: [group, partition, 0], value: encodeStart(start) };
}

function removals(group: string, partition: number, first: number, last: number): LogWrite[] {
  const count = Math.max(0, last - first + 1);
  return Array.from({ length: count }, (_, index) => ({
    key: [group, partition, first + index],
    value: null,
  }));
}
