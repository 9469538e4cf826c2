// The checkpointer: a follower of the log that keeps the views. It reads durable batches, applies the same `evolve` as
// the writer, and writes the rows that changed together with the position they reach, in one transaction. It runs in a
// thread of its own (src/storage/checkpoint-thread.ts), so that callers never wait for it; at start it is also the whole
// of recovery: follow the log to its end, then serve from the views.
//
// Invariants: views never get ahead of the durable log; a partition's rows and position change in one transaction; views are
// a function of the log alone and may be dropped at any time.

import type { GroupName } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { type Batch, keyAfter, LAST_KEY, type Row, type ViewPosition, type Views } from '../../wal/types.ts';
import type { Group, PartitionLogic } from './group.ts';
import { DaysMade, isOver, type Retention, type StoredRow } from './retention.ts';

export interface CheckpointStore {
  position(group: string, partition: number): ViewPosition | null;
  reader(group: string, partition: number): Views;
  drop(group: string, partition: number): Promise<void>;
  /** Resolves when durable. Has taken the rows when it returns. */
  commit(group: string, partition: number, position: ViewPosition, rows: Row[]): Promise<void>;
}

/** Lets others have the cores now and then. */
export interface Pace {
  /** Work begins. */
  begin(): void;
  /** Work may stand still here. */
  rest(): void;
}

const WITHOUT_RESTS: Pace = { begin: () => {}, rest: () => {} };

export interface LogReader {
  /** Batches with records above `after`, checked. */
  read(group: string, partition: number, after: ViewPosition): Iterable<Batch>;
}

const EMPTY: ViewPosition = { sequence: 0, batch: 0, hash: Buffer.alloc(32) };

type AnyGroup = Group<never, never, unknown>;

/** False also where there are no views yet. */
export function isOfFormat(views: Views, group: { readonly viewsFormat: number }): boolean {
  return views.get('format', '') === String(group.viewsFormat);
}

interface Follower {
  readonly group: AnyGroup;
  readonly partition: number;
  readonly logic: PartitionLogic<never, never, unknown>;
  position: ViewPosition;
}

/** Some rows of a table. */
interface Portion {
  readonly rows: readonly StoredRow[];
  /** Where the next one starts; null: this was the last. */
  readonly next: string | null;
}

export class Checkpointer {
  readonly #groups: Map<string, AnyGroup>;
  readonly #log: LogReader;
  readonly #store: CheckpointStore;
  readonly #pace: Pace;
  /** Also those that are yet to be opened: they are let go of in the same way. */
  readonly #followers = new Map<string, Promise<Follower>>();
  /** Whose rows are looked through; null: nobody's, or that is to end. */
  #swept: string | null = null;

  constructor(
    groups: readonly AnyGroup[],
    log: LogReader,
    store: CheckpointStore,
    pace: Pace = WITHOUT_RESTS,
  ) {
    this.#groups = new Map(groups.map((group) => [group.name, group]));
    this.#log = log;
    this.#store = store;
    this.#pace = pace;
  }

  /** Brings the views of one partition up to `upTo`, a durable batch's last sequence. `onReached` is called after every
   *  commit with the sequence reached, then `mustWait`: true leaves the rest for another time. Resolves with false when a rest
   *  was left. When it rejects the partition is followed no more. */
  async advance(
    group: GroupName,
    partition: number,
    upTo: number,
    onReached: (sequence: number) => void,
    mustWait: () => boolean = () => false,
  ): Promise<boolean> {
    const key = `${group}/${partition}`;
    const opening = this.#followers.get(key) ?? this.#open(group, partition);
    this.#followers.set(key, opening);
    const isReleased = (): boolean => this.#followers.get(key) !== opening;
    try {
      const follower = await opening;
      while (follower.position.sequence < upTo && !isReleased()) {
        this.#pace.begin();
        const position = this.#apply(follower, upTo);
        const committed = this.#commit(follower, position);
        this.#pace.rest();
        await committed;
        follower.position = position;
        onReached(position.sequence);
        if (mustWait()) break;
      }
      return follower.position.sequence >= upTo || isReleased();
    } catch (error) {
      if (!isReleased()) this.release(group, partition);
      throw error;
    }
  }

  /** While the disk works nothing is held on to of what is written: until the views have it nobody reads of it, since the next
   *  records of the partition are applied afterwards. A garbage collection would copy all of it. */
  #commit({ group, partition, logic }: Follower, position: ViewPosition): Promise<void> {
    const durable = this.#store.commit(group.name, partition, position, logic.takeRows());
    logic.evict(position.sequence);
    return durable;
  }

  /** Removes the rows whose time is over, or those of them that it finds until it is ended or the partition let go of. One at a
   *  time. `rest`: waited for between two portions, so that a long table holds up nobody; the partition may be advanced then. */
  async sweep(name: GroupName, partition: number, now: number, rest: () => Promise<void>): Promise<void> {
    const retentions = this.#groups.get(name)?.retention ?? [];
    const key = `${name}/${partition}`;
    this.#swept = key;
    for (const retention of retentions) {
      const { table, madeAt } = retention;
      const days = new DaysMade(retention, now);
      for (let start: string | null = ''; start !== null && !days.areEnough;) {
        const { rows, next }: Portion = this.#portion(name, partition, table, start);
        for (const row of rows) days.add(madeAt(row));
        start = next;
        await rest();
        if (this.#swept !== key) return;
      }
      if (days.keptFrom === -Infinity) continue;
      for (let start: string | null = ''; start !== null;) {
        start = await this.#sweepPortion(name, partition, retention, days.keptFrom, start);
        await rest();
        if (this.#swept !== key) return;
      }
    }
  }

  /** Where the next portion starts; null: this was the last. */
  async #sweepPortion(
    name: GroupName,
    partition: number,
    retention: Retention,
    before: number,
    start: string,
  ): Promise<string | null> {
    const position = this.#store.position(name, partition);
    if (position === null) return null;
    const views = this.#store.reader(name, partition);
    const { table } = retention;
    const { rows, next } = this.#portion(name, partition, table, start);
    const over = rows.filter((row) => isOver(retention, row, before, views));
    const removals = over.map(({ key }) => ({ table, key, value: null }));
    if (removals.length > 0) await this.#store.commit(name, partition, position, removals);
    return next;
  }

  #portion(name: GroupName, partition: number, table: string, start: string): Portion {
    const limit = LIMITS.retentionRowsPerCommitMax;
    const rows = [...this.#store.reader(name, partition).range(table, { start, end: LAST_KEY, limit })];
    return { rows, next: rows.length < limit ? null : keyAfter(rows.at(-1)!.key) };
  }

  /** False: a sweep that rests has only to end. */
  get isSweeping(): boolean {
    return this.#swept !== null;
  }

  /** After the portion at work. */
  endSweep(): void {
    this.#swept = null;
  }

  /** Its views are being kept, from where they were when it was begun. */
  follows(group: GroupName, partition: number): boolean {
    return this.#followers.has(`${group}/${partition}`);
  }

  /** Forgets a partition that another node writes now: nothing is written for it after the commit in progress. */
  release(group: GroupName, partition: number): void {
    const key = `${group}/${partition}`;
    this.#followers.delete(key);
    if (this.#swept === key) this.endSweep();
  }

  async #open(name: GroupName, partition: number): Promise<Follower> {
    const group = this.#groups.get(name);
    if (group === undefined) throw new Error(`no group "${name}" to checkpoint`);
    const views = this.#store.reader(name, partition);
    // Rows without a position are left of views whose removal was cut short, perhaps of batches that the log has no more.
    const isWhole = this.#store.position(name, partition) !== null && isOfFormat(views, group);
    if (!isWhole) await this.#rebuild(name, partition, group);
    const position = this.#store.position(name, partition) ?? EMPTY;
    const logic = group.open(partition, views, { sequence: position.sequence, writesRows: true });
    return { group, partition, logic, position };
  }

  /** Empty views of today's format. */
  async #rebuild(name: string, partition: number, group: AnyGroup): Promise<void> {
    await this.#store.drop(name, partition);
    const row = { table: 'format', key: '', value: String(group.viewsFormat) };
    await this.#store.commit(name, partition, EMPTY, [row]);
  }

  #apply(follower: Follower, upTo: number): ViewPosition {
    const { group, partition, logic, position } = follower;
    let { sequence } = position;
    let bytes = 0;
    let last: Batch | null = null;
    for (const batch of this.#log.read(group.name, partition, position)) {
      for (let i = Math.max(0, sequence + 1 - batch.firstSequence); i < batch.records.length; i++) {
        sequence = batch.firstSequence + i;
        logic.evolve(group.decode(batch.records[i]!), sequence);
      }
      this.#pace.rest();
      last = batch;
      bytes += batch.bytes.length;
      if (sequence >= upTo || bytes >= LIMITS.checkpointBytesPerCommitMax) break;
      if (sequence - position.sequence >= LIMITS.checkpointRecordsPerCommitMax) break;
    }
    if (last === null || sequence === position.sequence) {
      throw new Error(
        `the log of ${group.name}/${partition} ends at ${sequence}, before its durable end ${upTo}`,
      );
    }
    return { sequence, batch: last.batch, hash: last.hash };
  }
}
