// State rebuilt from the log alone: the same followers, the same `evolve` and the same rows as the service's checkpoint
// thread, into views of its own in a temporary directory. What it says owes nothing to the checkpoint it is compared with.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpointer, type CheckpointStore } from '../../actors/runtime/checkpointer.ts';
import type { GroupName } from '../bus/bus.ts';
import { groups } from './data.ts';
import { LogCorruption, LogRewritten, tipAt } from '../../wal/batch.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import { breathe } from '../../wal/tools/priority.ts';
import type { Progress } from '../../wal/tools/progress.ts';
import { type Fault, faultFrom } from '../../wal/tools/verify.ts';
import type { Batch, PartitionName, ViewPosition } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';

export const SCRATCH_PREFIX = 'daftari-replay-';

export class Rebuild {
  readonly views: ViewStore;
  readonly #log: LogReader;
  readonly #progress: Pick<Progress, 'add'>;
  readonly #checkpointer: Checkpointer;
  /** Where the partition that is being rebuilt ends. */
  #upTo = 0;
  /** The batch being applied, and how many of its records were decoded. */
  #applying: { readonly batch: Batch; decoded: number } | null = null;
  #records = 0;
  #bytes = 0;

  constructor(log: LogReader, views: ViewStore, progress: Pick<Progress, 'add'>) {
    this.#log = log;
    this.#progress = progress;
    this.views = views;
    const watched = groups.map((group) => ({
      ...group,
      decode: (line: string) => {
        if (this.#applying !== null) this.#applying.decoded += 1;
        this.#records += 1;
        return group.decode(line);
      },
    }));
    const read = (group: string, partition: number, after: ViewPosition): Iterable<Batch> =>
      this.#read(group, partition, after);
    this.#checkpointer = new Checkpointer(watched, { read }, unhurried(this.views));
  }

  /** `scratch`: where its views may grow to the size of the real ones; null: the system's temporary directory. */
  static inScratch(log: LogReader, scratch: string | null, progress: Pick<Progress, 'add'>): Rebuild {
    const directory = mkdtempSync(join(scratch ?? tmpdir(), SCRATCH_PREFIX));
    try {
      return new Rebuild(log, ViewStore.open({ directory, temporary: true }), progress);
    } finally {
      // Open files need no name. However this process ends, by Ctrl-C or worse, nothing of them is left behind.
      rmSync(directory, { recursive: true });
    }
  }

  /** Records applied so far. */
  get records(): number {
    return this.#records;
  }

  /** Of the batches read so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Brings the partition to `upTo`, which its log holds. Null when it is there; otherwise why it cannot be rebuilt any further
   *  than to the record before. Rejects with LogRewritten when the log is not any more the one that was applied so far. */
  async advance({ group, partition }: PartitionName, upTo: number): Promise<Fault | null> {
    if (upTo === 0) return null;
    try {
      await this.#follow({ group, partition }, upTo);
      return null;
    } catch (error) {
      const fault = this.#faultFrom(error, { group, partition });
      const [applying, records, bytes] = [this.#applying, this.#records, this.#bytes];
      if (applying === null) return fault;
      const last = error instanceof LogCorruption ? tipAt(applying.batch).sequence : fault.sequence - 1;
      // Only now and then is what was applied committed.
      await this.#follow({ group, partition }, last);
      [this.#records, this.#bytes] = [records, bytes];
      return fault;
    }
  }

  async #follow({ group, partition }: PartitionName, upTo: number): Promise<void> {
    this.#upTo = upTo;
    this.#applying = null;
    await this.#checkpointer.advance(group as GroupName, partition, upTo, () => this.views.refresh());
  }

  async close(): Promise<void> {
    await this.views.close();
  }

  /** By sequence: it may have stopped in the middle of a batch. */
  *#read(group: string, partition: number, position: ViewPosition): Generator<Batch, void, undefined> {
    const { sequence: after } = position;
    let reached: ViewPosition = position;
    this.#log.lookAgain(group, partition, position);
    for (const batch of this.#log.read(group, partition, { fromSequence: after + 1 })) {
      if (batch.firstSequence > this.#upTo) return;
      reached = tipAt(batch);
      this.#applying = { batch, decoded: Math.max(0, after + 1 - batch.firstSequence) };
      this.#progress.add(1, batch.bytes.length);
      this.#bytes += batch.bytes.length;
      yield { ...batch, records: batch.records.slice(0, this.#upTo + 1 - batch.firstSequence) };
    }
    if (reached.sequence >= this.#upTo) return;
    // It held more when this was asked for.
    throw new LogRewritten({ group, partition, batch: reached.batch + 1, sequence: reached.sequence + 1 });
  }

  /** An error of the disk is thrown on: it says nothing about the log. */
  #faultFrom(error: unknown, name: PartitionName): Fault {
    if (error instanceof LogRewritten) throw error;
    if (error instanceof LogCorruption) return faultFrom(error);
    const applying = this.#applying;
    const known =
      error instanceof Error && (error.name === 'AssertionFailure' || error.name === 'RecordUnreadable');
    if (!known || applying === null) throw error;
    const sequence = applying.batch.firstSequence + Math.max(0, applying.decoded - 1);
    return { ...name, batch: applying.batch.batch, sequence, problem: error.message };
  }
}

/** Views of which one commit follows another when services have had what they want of the cores. */
function unhurried(views: ViewStore): CheckpointStore {
  return {
    position: (group, partition) => views.position(group, partition),
    reader: (group, partition) => views.reader(group, partition),
    drop: (group, partition) => views.drop(group, partition),
    commit: (...written) => views.commit(...written).then(breathe),
  };
}
