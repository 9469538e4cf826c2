// What one process keeps on disk, and the partitions it writes: the log, the views, the checkpoint thread. Opening a
// partition is recovery: the checkpoint thread follows its log to the end, then the partition serves from the views.

import { Partition, type PartitionObserver } from '../../actors/runtime/partition.ts';
import { isOfFormat } from '../../actors/runtime/checkpointer.ts';
import { LocalFeed, type LoggedBatch } from '../../actors/runtime/local-feed.ts';
import type { FlushReport } from '../../wal/group-commit.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import type { Replica, Tip } from '../../wal/types.ts';
import { LogCorruption } from '../../wal/batch.ts';
import { ViewStore } from '../../wal/views.ts';
import type { GroupName, Message, OnReply } from '../bus/bus.ts';
import { assert } from '../domain/assert.ts';
import { RECORD_FORMATS } from '../domain/record-format.ts';
import { LIMITS } from '../limits.ts';
import type { Lag } from './catch-up.ts';
import { Checkpoints } from './checkpoints.ts';
import { InTurns } from './in-turns.ts';
import { groupNamed, type GroupPolicies, groupsWithLog, type HostedGroup } from './groups.ts';
import { lacksHistory } from './history.ts';
import type { Jobs } from '../jobs.ts';

export type HostedPartition = Partition<never, never, unknown>;

export interface HostedLog {
  readonly group: GroupName;
  readonly number: number;
  readonly log: PartitionLog;
  readonly partition: HostedPartition;
}

/** Nothing may be acknowledged any more: the process must end. `part`: of the service, where the error alone would not say which. */
export type OnFailure = (error: Error, part?: 'the log' | 'writing checkpoints') => void;

export interface StorageOptions {
  readonly directory: string;
  readonly policies: GroupPolicies;
  readonly observer: PartitionObserver;
  readonly clock: () => number;
  /** By which callers set deadlines; absent: `clock`. */
  readonly deadlineClock?: () => number;
  /** Newest format of records that may be written now. Absent: this version's; nobody else reads this log. */
  readonly writeFormat?: () => number;
  /** The log or the checkpoints have failed: nothing may be acknowledged any more, and the process must stop. */
  readonly onFailure: OnFailure;
  readonly onFlush: (report: FlushReport) => void;
  /** True while the disk has no room for more. Absent: never. */
  readonly isDiskShort?: () => boolean;
  /** A partition that is served turns out to be damaged: it must not be served any longer. */
  readonly onDamage: (group: GroupName, partition: number, error: Error) => void;
}

export interface OpenPartitionOptions {
  readonly epoch: number;
  readonly replica: Replica | null;
  /** The replica refused this partition: another writer exists. Null: that stops the process. */
  readonly onFenced: ((error: Error) => void) | null;
}

interface Hosted {
  readonly group: HostedGroup;
  readonly number: number;
  readonly log: PartitionLog;
  readonly partition: HostedPartition;
  /** Sequence last asked of the checkpoint thread. */
  requested: number;
}

export class Storage {
  readonly log: WriteAheadLog;
  readonly views: ViewStore;
  readonly feed: LocalFeed;
  readonly #options: StorageOptions;
  readonly #groups: readonly HostedGroup[];
  readonly #checkpoints: Checkpoints;
  readonly #hosted = new Map<string, Hosted>();
  /** As of the last tick: the views are too far behind the log, or that is behind what was decided. */
  #isBehind = false;
  /** Ticks during the flush in flight. Ticks, not time: while this process itself is stopped the disk is not at fault. */
  #ticksInFlush = 0;
  readonly #ticking = new InTurns<Hosted>(({ partition }) => partition.tick());

  constructor(options: StorageOptions) {
    this.#options = options;
    this.#groups = groupsWithLog(options.policies);
    this.log = WriteAheadLog.open({
      directory: options.directory,
      now: options.clock,
      batchRecordsMax: LIMITS.batchRecordsMax,
      batchBytesMax: LIMITS.batchBytesMax,
      onFailure: (error) => options.onFailure(error, 'the log'),
      onFlush: options.onFlush,
    });
    this.views = ViewStore.open({ directory: options.directory });
    this.feed = new LocalFeed((group, partition, after) => this.#readLog(group, partition, after));
    this.#checkpoints = new Checkpoints(options.directory, options.policies, (error) =>
      options.onFailure(error, 'writing checkpoints'),
    );
  }

  /** For how long the disk has worked on the flush in flight while this process ran, ms; 0: none is, or it has just begun. */
  get flushingMs(): number {
    return Math.min(this.#ticksInFlush * LIMITS.timerTickMs, this.log.flushingMs);
  }

  /** What is wrong with the disk: a flush does not end; null: nothing is. */
  get stall(): string | null {
    const { flushingMs } = this;
    if (flushingMs < LIMITS.diskStallMs) return null;
    return `the disk of ${this.#options.directory} has not answered for ${Math.floor(flushingMs / 1_000)} s`;
  }

  partition(group: GroupName, number: number): HostedPartition | undefined {
    return this.#hosted.get(`${group}/${number}`)?.partition;
  }

  hosted(): HostedLog[] {
    return [...this.#hosted.values()].map(({ group, number, log, partition }) => ({
      group: group.name,
      number,
      log,
      partition,
    }));
  }

  /** Recovers a partition and makes this process its writer. Throws when its log is damaged, or is older than its views. */
  async openPartition(
    name: GroupName,
    number: number,
    options: OpenPartitionOptions,
  ): Promise<HostedPartition> {
    await this.#checkpoints.started;
    const group = groupNamed(this.#groups, name);
    const tip = this.log.tip(name, number);
    const stray = this.#strayViews(name, number, tip);
    if (stray !== null) throw stray;
    await this.#follow(group, number, tip.sequence, true);
    const logic = group.open(number, this.views.reader(name, number), {
      sequence: tip.sequence,
      writesRows: false,
    });
    // All that may be damaged is read before the log has a writer: it would write for a partition that is not there.
    const lastRecordAt = Math.max(tip.timeMs, this.#lastRecordAt(group, number));
    const log = this.log.openPartition(name, number, {
      epoch: options.epoch,
      replica: options.replica,
      now: () => partition.now(),
      onCommitted: (batch) => partition.committed(batch.firstSequence, batch.records.length),
      onDurable: () => partition.answer(),
      ...(options.onFenced === null ? {} : { onFailure: options.onFenced }),
    });
    const partition: HostedPartition = new Partition({
      group,
      logic,
      log,
      clock: this.#options.clock,
      deadlineClock: this.#options.deadlineClock ?? this.#options.clock,
      lastRecordAt,
      observer: this.#options.observer,
      writeFormat: this.#options.writeFormat ?? (() => RECORD_FORMATS.newest),
      isPaused: () => this.#isBehind || (this.#options.isDiskShort?.() ?? false),
      publish: (firstSequence, records) => this.feed.publish(name, number, { firstSequence, records }),
    });
    this.#hosted.set(`${name}/${number}`, { group, number, log, partition, requested: tip.sequence });
    this.#checkpoints.follow(name, number, {
      reached: (sequence) => {
        this.views.refresh();
        partition.checkpointed(sequence);
      },
      damaged: (error) => {
        partition.abandon();
        this.#options.onDamage(name, number, error);
      },
    });
    return partition;
  }

  /** What the views know of the log must be in it: otherwise an older log was put back, or its end was cut off. Null: it is. */
  #strayViews(name: GroupName, number: number, tip: Tip): LogCorruption | null {
    this.views.refresh();
    const position = this.views.position(name, number);
    if (position === null) return null;
    const start = this.log.startOf(name, number);
    const place = { group: name, partition: number, batch: position.batch, sequence: position.sequence };
    if (position.batch > tip.batch) {
      return new LogCorruption(place, `the log ends with batch ${tip.batch}: it is older than its views`);
    }
    if (position.batch < start.batch) {
      return new LogCorruption(
        place,
        `the log begins after batch ${start.batch}: it was trimmed beyond its views`,
      );
    }
    const { hash, sequence } = this.log.tipAt(name, number, position.batch);
    if (!hash.equals(position.hash)) {
      return new LogCorruption(place, 'its hash is not the one that the views were made from');
    }
    // A sequence that is too high would have them pass over records.
    if (sequence === position.sequence) return null;
    return new LogCorruption(
      place,
      `it ends with sequence ${sequence}: the views are damaged, move them away`,
    );
  }

  /** What follows `batch` is about to be cut off. Views of it are removed first: a tool that reads beside this process would take an end
   *  of the log for lost. Resolves with whether there were any. Only while nobody has the partition open here. */
  async dropViewsAfter(name: GroupName, number: number, batch: number): Promise<boolean> {
    await this.#checkpoints.release(name, number);
    this.views.refresh();
    const position = this.views.position(name, number);
    if (position === null || position.batch <= batch) return false;
    await this.views.drop(name, number);
    return true;
  }

  /** The local log was brought in line with its stream: views of batches that it no longer has are removed, to be made anew.
   *  Resolves with whether there were any. Only while nobody has the partition open here. */
  async dropStrayViews(name: GroupName, number: number): Promise<boolean> {
    await this.#checkpoints.release(name, number);
    if (this.#strayViews(name, number, this.log.tip(name, number)) === null) return false;
    await this.views.drop(name, number);
    return true;
  }

  /** Removes what this machine has of a partition. Only while nobody has it open here, and when it cannot be continued. */
  async clear(name: GroupName, number: number): Promise<void> {
    await this.#checkpoints.release(name, number);
    // Views without a log are made anew; a log is not.
    await this.views.drop(name, number);
    await this.log.clear(name, number);
    this.log.refresh();
  }

  /** Time of the last record; 0: there is none. Batches made before 2026-11-23 have the time of the process's clock, and after the
   *  machine's clock was set back a record in one may be later than that. */
  #lastRecordAt(group: HostedGroup, number: number): number {
    const start = this.log.startOf(group.name, number).batch;
    for (let batch = this.log.lastBatchNumber(group.name, number); batch > start; batch--) {
      const line = this.log.batch(group.name, number, batch).records.at(-1);
      if (line !== undefined) return (group.decode(line) as { readonly at: number }).at;
    }
    return 0;
  }

  /** Finishes and flushes what was accepted, then lets another process write the partition. */
  async closePartition(name: GroupName, number: number): Promise<void> {
    const key = `${name}/${number}`;
    const hosted = this.#hosted.get(key);
    if (hosted === undefined) return;
    await hosted.partition.drain();
    // Lost while it drained: what was its own has been let go, and another may have its place.
    if (this.#hosted.get(key) !== hosted) return;
    await this.log.closePartition(hosted.log);
    void this.#checkpoints.release(name, number);
    this.#hosted.delete(key);
  }

  /** Another process writes the partition now: its callers are told nothing, and what was not durable is dropped. */
  async losePartition(name: GroupName, number: number): Promise<void> {
    const key = `${name}/${number}`;
    const hosted = this.#hosted.get(key);
    if (hosted === undefined) return;
    hosted.partition.abandon();
    this.#hosted.delete(key);
    void this.#checkpoints.release(name, number);
    await this.log.closePartition(hosted.log);
  }

  /** How much the views lack, of each partition of a group whose views can be brought to the end of its log; none may be open. What is
   *  wrong with a log is said when it is opened. */
  lags(name: GroupName, partitions: number): Lag[] {
    return Array.from({ length: partitions }, (_, number) => number).flatMap((number) => {
      try {
        const lag = this.#lagOf(groupNamed(this.#groups, name), number);
        return lag === null ? [] : [lag];
      } catch (error) {
        if (error instanceof LogCorruption) return [];
        throw error;
      }
    });
  }

  #lagOf(group: HostedGroup, number: number): Lag | null {
    // Mostly so: then no batch need be read for it.
    const isCurrent =
      this.views.position(group.name, number)?.batch === this.log.lastBatchNumber(group.name, number);
    if (isCurrent && isOfFormat(this.views.reader(group.name, number), group)) return null;
    const tip = this.log.tip(group.name, number);
    if (this.#strayViews(group.name, number, tip) !== null) return null;
    if (lacksHistory(this.log, this.views, group, number)) return null;
    const records = tip.sequence - this.#viewsReach(group, number);
    return records === 0 ? null : { group: group.name, partition: number, upTo: tip.sequence, records };
  }

  /** The views cannot be made from the log of this machine. */
  lacksHistory(name: GroupName, number: number): boolean {
    return lacksHistory(this.log, this.views, groupNamed(this.#groups, name), number);
  }

  /** Brings the views of a partition that nobody has open here to the end of its local log. `toServe`: it is about to be opened. */
  async catchUpViews(name: GroupName, number: number, toServe = false): Promise<void> {
    const { sequence } = this.log.tip(name, number);
    await this.#follow(groupNamed(this.#groups, name), number, sequence, toServe);
  }

  async #follow(group: HostedGroup, number: number, sequence: number, toServe: boolean): Promise<void> {
    this.views.refresh();
    if (sequence > this.#viewsReach(group, number)) {
      await this.#checkpoints.advance(group.name, number, sequence, toServe);
    } else if (sequence === 0 && this.views.hasStrayRows(group.name, number)) {
      // Of a log without records nothing is applied, and whoever opens it would read them.
      await this.views.drop(group.name, number);
    }
    this.views.refresh();
  }

  /** Sequence up to which the views need not be made. */
  #viewsReach(group: HostedGroup, number: number): number {
    if (!isOfFormat(this.views.reader(group.name, number), group)) return 0;
    return this.views.position(group.name, number)?.sequence ?? 0;
  }

  inbox(name: GroupName, number: number): (message: Message, onReply: OnReply) => void {
    const partition = this.partition(name, number);
    assert(partition !== undefined, `${name}/${number} is open`);
    return (message, onReply) => partition.send(message as never, onReply);
  }

  /** Has the jobs do what it needs done while it is open. */
  schedule(jobs: Jobs): void {
    jobs.every(LIMITS.timerTickMs, () => this.tick());
    jobs.every(LIMITS.checkpointEveryMs, () => this.checkpoint());
    jobs.every(LIMITS.readersLookMs, () => this.#forgetKilledReaders());
    jobs.everyDay(() => this.sweep());
  }

  /** Due timers of every partition, and a look at the disk. */
  tick(): void {
    const isNew = this.log.flushingMs < LIMITS.timerTickMs;
    this.#ticksInFlush = isNew ? 0 : this.#ticksInFlush + 1;
    let lag = 0;
    for (const { partition } of this.#hosted.values()) lag += partition.checkpointLag;
    // Each mailbox may have room while all together have too much for the log.
    const isLogBehind = this.log.outstanding >= LIMITS.logWritesOutstandingMax;
    this.#isBehind = isLogBehind || lag >= LIMITS.checkpointLagMax;
    this.#ticking.begin(this.#hosted.values());
  }

  /** Asks for a checkpoint of every partition that has moved on. */
  checkpoint(): void {
    for (const hosted of this.#hosted.values()) {
      const { durable } = hosted.log;
      if (durable <= hosted.requested) continue;
      hosted.requested = durable;
      this.#checkpoints.request(hosted.group.name, hosted.number, durable);
    }
  }

  #forgetKilledReaders(): void {
    this.log.forgetKilledReaders();
    this.views.forgetKilledReaders();
  }

  /** Lets go of rows whose time is over, in the background; resolves when they are gone, or the storage is closed. */
  async sweep(): Promise<void> {
    for (const { group, number } of this.#hosted.values()) {
      if (!(await this.#checkpoints.sweep(group.name, number, this.#options.clock()))) return;
    }
    this.views.refresh();
  }

  /** After a failure: callers are told nothing. */
  abandon(): void {
    for (const { partition } of this.#hosted.values()) partition.abandon();
  }

  /** Everything accepted is flushed; the views reach the end of the log, so that the next start is short. */
  async close(): Promise<void> {
    const hosted = [...this.#hosted.values()];
    await Promise.all(hosted.map(({ partition }) => partition.drain()));
    await this.log.close();
    const behind = hosted.filter(({ group, number, log }) => {
      return log.durable > (this.views.position(group.name, number)?.sequence ?? 0);
    });
    await Promise.all(behind.map((each) => this.#finishViews(each)));
    await this.#checkpoints.close();
    await this.views.close();
  }

  /** Of a damaged log they end before it. Its follower has been told; the others are to be finished all the same. */
  async #finishViews({ group, number, log }: Hosted): Promise<void> {
    try {
      await this.#checkpoints.advance(group.name, number, log.durable, false);
    } catch (error) {
      if (!(error instanceof LogCorruption)) throw error;
    }
  }

  *#readLog(
    name: GroupName,
    number: number,
    after: number,
  ): Generator<LoggedBatch | 'damaged', void, undefined> {
    const hosted = this.#hosted.get(`${name}/${number}`);
    if (hosted === undefined) return;
    try {
      yield* this.#readDurable(hosted, after);
    } catch (error) {
      if (!(error instanceof LogCorruption)) throw error;
      hosted.partition.abandon();
      this.#options.onDamage(name, number, error);
      yield 'damaged';
    }
  }

  *#readDurable(hosted: Hosted, after: number): Generator<LoggedBatch, void, undefined> {
    const { group, number, log } = hosted;
    const place = `${group.name}/${number}`;
    const batches = this.log.read(group.name, number, { fromSequence: after + 1 });
    let reached = after;
    // What follows may be of another owner's log when the partition was lost meanwhile.
    while (log.durable > reached && this.#hosted.get(place) === hosted) {
      this.log.refresh();
      const { value: batch } = batches.next();
      if (batch === undefined) {
        throw new Error(`the log of ${place} ends before its durable end ${log.durable}`);
      }
      const { firstSequence, records } = batch;
      const last = firstSequence + records.length - 1;
      if (last <= reached) continue;
      assert(last <= log.durable, 'a batch is durable as a whole');
      const lines = records.slice(reached + 1 - firstSequence);
      yield { firstSequence: reached + 1, lines, decode: (line) => group.decode(line) };
      reached = last;
    }
  }
}
