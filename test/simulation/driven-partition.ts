// A partition as the service runs it (runtime, log, views, checkpointer) on a clock and a disk that are driven from outside: what
// is appended is durable when `flush` says so, and what is lost, or crashes, loses the rest.

import { strict as assert } from 'node:assert';
import { Checkpointer } from '../../actors/runtime/checkpointer.ts';
import type { Group, PartitionLogic } from '../../actors/runtime/group.ts';
import type { LoggedBatch } from '../../actors/runtime/local-feed.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import { ViewStore } from '../../wal/views.ts';

interface Message {
  readonly type: string;
  readonly deadline: number;
}

/** What the partitions of one process have in common. */
export class Disk {
  readonly wal: WriteAheadLog;
  readonly views: ViewStore;

  constructor(directory: string, now: () => number) {
    this.wal = WriteAheadLog.open({ directory, now, onFailure: assert.ifError });
    this.views = ViewStore.open({ directory });
  }

  async close(): Promise<void> {
    await this.wal.close();
    await this.views.close();
  }
}

export interface DrivenOptions<Command extends Message, Query extends Message, Record> {
  readonly group: Group<Command, Query, Record>;
  readonly now: () => number;
  readonly isPaused: () => boolean;
  /** Before anybody is answered. */
  readonly onAppended: (record: Record) => void;
  readonly onDurable: (records: readonly Record[]) => void;
  readonly publish: (firstSequence: number, records: readonly Record[]) => void;
}

export class DrivenPartition<
  Command extends Message,
  Query extends Message,
  Record extends { readonly at: number },
  Logic extends PartitionLogic<Command, Query, Record>,
> {
  partition!: Partition<Command, Query, Record>;
  isOpen = false;
  readonly #options: DrivenOptions<Command, Query, Record>;
  readonly #log = { appended: 0, durable: 0, append: (line: string) => this.#append(line) };
  #tail: string[] = [];
  #disk!: Disk;
  #file!: PartitionLog;
  #checkpointer!: Checkpointer;
  #epoch = 0;
  #lastAt = 0;

  constructor(options: DrivenOptions<Command, Query, Record>) {
    this.#options = options;
  }

  get logic(): Logic {
    return this.partition.logic as Logic;
  }

  get durable(): number {
    return this.#log.durable;
  }

  get undurable(): number {
    return this.#tail.length;
  }

  /** Sequence that the views reach. */
  get checkpointed(): number {
    return this.#disk.views.position(this.#options.group.name, 0)?.sequence ?? 0;
  }

  async open(disk: Disk, watch: (logic: Logic) => void): Promise<void> {
    const { group, now, isPaused, publish } = this.#options;
    this.#disk = disk;
    const { sequence } = disk.wal.tip(group.name, 0);
    assert.equal(sequence, this.#log.durable, 'all that was durable is there, and nothing else');
    const read = (name: string, number: number, { batch }: { batch: number }) =>
      disk.wal.read(name, number, { afterBatch: batch });
    this.#checkpointer = new Checkpointer([group as never], { read }, disk.views);
    this.#log.appended = sequence;
    await this.#advance(sequence, () => {});
    const logic = group.open(0, disk.views.reader(group.name, 0), { sequence, writesRows: false });
    watch(logic as Logic);
    this.partition = new Partition({
      group,
      logic,
      log: this.#log,
      clock: now,
      deadlineClock: now,
      lastRecordAt: this.#lastAt,
      observer: { decided: () => {} },
      writeFormat: () => 1,
      isPaused,
      publish,
    });
    this.#file = disk.wal.openPartition(group.name, 0, {
      epoch: ++this.#epoch,
      replica: null,
      now: () => this.partition.now(),
      onDurable: () => {},
    });
    this.isOpen = true;
  }

  #append(line: string): number {
    this.#options.onAppended(this.#options.group.decode(line));
    this.#tail.push(line);
    return ++this.#log.appended;
  }

  /** The oldest `count` of what is not durable now is. */
  async flush(count = this.#tail.length): Promise<void> {
    if (count === 0) return;
    const lines = this.#tail.splice(0, count);
    for (const line of lines) this.#file.append(line);
    await this.#file.drained();
    const records = lines.map((line) => this.#options.group.decode(line));
    this.#options.onDurable(records);
    this.#lastAt = records.at(-1)!.at;
    const first = this.#log.durable + 1;
    this.#log.durable += count;
    this.partition.committed(first, count);
    this.partition.answer();
  }

  /** Hands it to nobody else: what was not durable is gone, and its callers are told nothing. Returns how much that is. */
  lose(): number {
    const lost = this.#tail.length;
    this.#tail = [];
    this.isOpen = false;
    this.partition.abandon();
    return lost;
  }

  /** Finishes and takes nothing more. */
  async drain(): Promise<void> {
    this.isOpen = false;
    const drained = this.partition.drain();
    while (this.#tail.length > 0) await this.flush();
    await drained;
  }

  /** After `lose` or `drain`, where the process goes on. */
  async close(): Promise<void> {
    await this.#disk.wal.closePartition(this.#file);
    this.#checkpointer.release(this.#options.group.name, 0);
  }

  /** `part` of what the views lag behind. */
  async checkpoint(part: number): Promise<void> {
    const reached = this.checkpointed;
    const upTo = reached + Math.ceil((this.#log.durable - reached) * part);
    await this.#advance(upTo, (sequence) => this.partition.checkpointed(sequence));
  }

  async #advance(upTo: number, onReached: (sequence: number) => void): Promise<void> {
    await this.#checkpointer.advance(this.#options.group.name, 0, upTo, (sequence) => {
      this.#disk.views.refresh();
      onReached(sequence);
    });
  }

  /** What is durable above `after`, as it lies in the log. */
  *read(after: number): Generator<LoggedBatch, void, undefined> {
    const { group } = this.#options;
    const decode = (line: string): Record => group.decode(line);
    this.#disk.wal.refresh();
    for (const { firstSequence, records } of this.#disk.wal.read(group.name, 0, {
      fromSequence: after + 1,
    })) {
      if (firstSequence + records.length - 1 > this.#log.durable) return;
      const lines = records.slice(Math.max(0, after + 1 - firstSequence));
      if (lines.length === 0) continue;
      yield { firstSequence: firstSequence + records.length - lines.length, lines, decode };
    }
  }

  /** Removes the batches that end at `sequence` or before. */
  async trim(sequence: number): Promise<void> {
    const { name } = this.#options.group;
    const { wal } = this.#disk;
    wal.refresh();
    let before = 0;
    for (const { batch, firstSequence, records } of wal.read(name, 0, {
      afterBatch: wal.startOf(name, 0).batch,
    })) {
      if (firstSequence + records.length - 1 > sequence) break;
      before = batch;
    }
    before = Math.min(before, this.#disk.views.position(name, 0)?.batch ?? 0);
    if (before > 0) await wal.trimBefore(name, 0, before);
  }
}
