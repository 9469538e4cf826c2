// Views: rows by which a partition's state is found without replaying its log. One LMDB environment per process,
// `<directory>/views`, written by checkpoints and read by the partition's owner.
//
// A view holds nothing that the log does not: it may be dropped at any time and is then rebuilt. Rows and the position
// they reach are committed in one transaction, so they never disagree.
import { commitDurably, fileOf, forgetKilledReaders, openViewsDatabase, PageFault } from './lmdb.ts';
import type { OpenViewsOptions, ViewsDatabase } from './lmdb.ts';
import { assertPlace, isPlace } from './batch.ts';
import { openBeside } from './directory-socket.ts';
import { WAL_LIMITS } from './limits.ts';
import { nameOf } from './types.ts';
import type { PartitionName, RangeOptions, Row, ViewPosition, Views } from './types.ts';

// Keys are `group/partition/table/key` in UTF-8; a group's and a table's name hold no slash. The position of a partition
// is under `group/partition` alone, and sorts before its rows.
const rowsEnd = '0'; // the character after the slash
/** As `positionText` writes it. */
const positionShape = /^\{"sequence":(\d{1,16}),"batch":(\d{1,16}),"hash":"([0-9a-f]{64})"\}$/;

export class ViewStore {
  readonly #database: ViewsDatabase;
  /** Of whoever still reads rows. Ended after their file was closed, they would end the process (SIGSEGV). */
  readonly #searches = new Set<Iterator<{ readonly key: string; readonly value: string }>>();
  #isClosed = false;

  private constructor(database: ViewsDatabase) {
    this.#database = database;
  }

  /** Read-only, in another process than the one that writes the directory, if any does. */
  static openBeside(directory: string): Promise<ViewStore> {
    return openBeside(directory, 'views', () => ViewStore.open({ directory, readOnly: true }));
  }

  static open(options: OpenViewsOptions): ViewStore {
    return new ViewStore(openViewsDatabase(options));
  }

  reader(group: string, partition: number): Views {
    return new PartitionViews(this.#database, placeOf(group, partition));
  }

  /** Every row of the partition, of one moment however long the caller takes: for snapshots. Throws when the views are closed before
   *  the last. */
  *rows(group: string, partition: number): Generator<Row, void, undefined> {
    const prefix = `${placeOf(group, partition)}/`;
    const range = { start: prefix, end: `${placeOf(group, partition)}${rowsEnd}` };
    this.#assertOpen();
    const search = this.#database.getRange(range)[Symbol.iterator]();
    this.#searches.add(search);
    try {
      for (let next = search.next(); next.done !== true; next = search.next()) {
        const { key, value } = next.value;
        const slash = key.indexOf('/', prefix.length);
        yield { table: key.slice(prefix.length, slash), key: key.slice(slash + 1), value };
        this.#assertOpen();
      }
    } finally {
      if (this.#searches.delete(search)) search.return?.();
    }
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new Error('the views were closed while their rows were read');
  }

  /** Rows without a position: of a removal, or a restore, that was cut short. */
  hasStrayRows(group: string, partition: number): boolean {
    if (this.position(group, partition) !== null) return false;
    const place = placeOf(group, partition);
    const keys = this.#database.getKeys({ start: `${place}/`, end: `${place}${rowsEnd}`, limit: 1 });
    return [...keys].length > 0;
  }

  /** Reads every row of every partition, and the positions; returns how many. A damaged file may end the process. */
  readAll(): number {
    let rows = 0;
    // Keys begin with the name of a group.
    for (const { key } of this.#database.getRange({ start: 'a', end: '~' })) rows += Number(key.length > 0);
    return rows;
  }

  /** The partitions that have a position. */
  partitionNames(): PartitionName[] {
    const found: PartitionName[] = [];
    let start = 'a';
    for (;;) {
      const [key] = this.#database.getKeys({ start, end: '~', limit: 1 });
      if (key === undefined) return found;
      const [group = '', number = ''] = key.split('/', 2);
      const partition = Number(number);
      // A search that is led astray by a damaged page may lead back, for ever.
      if (key < start || !isPlace(group, partition)) {
        throw new PageFault(`keys of ${fileOf(this.#database)} are no partitions, or out of order`);
      }
      if (this.position(group, partition) !== null) found.push({ group, partition });
      start = `${group}/${number}${rowsEnd}`;
    }
  }

  /** null: nothing was checkpointed; rebuild from the log. Throws PageFault when what is there is none. */
  position(group: string, partition: number): ViewPosition | null {
    const place = placeOf(group, partition);
    const value = this.#database.get(place);
    if (value === undefined) return null;
    const [, sequence, batch, hash = ''] = positionShape.exec(value) ?? [];
    if (sequence === undefined) {
      throw new PageFault(`${fileOf(this.#database)} does not say how far the views of ${place} reach`);
    }
    return { sequence: Number(sequence), batch: Number(batch), hash: Buffer.from(hash, 'hex') };
  }

  /** Writes the rows and the position they reach in one transaction; resolves when it is on disk. Refers to none of them
   *  meanwhile, but for their bytes. Position null: more rows are to come, and until then these are no views. */
  commit(
    group: string,
    partition: number,
    position: ViewPosition | null,
    rows: readonly Row[],
  ): Promise<void> {
    // Not async: that would wait with the rows in its hands.
    return new Promise((resolve) => {
      const place = placeOf(group, partition);
      const writes = rows.map(({ table, key, value }) => ({ key: rowKey(place, table, key), value }));
      if (position !== null) writes.push({ key: place, value: positionText(position) });
      resolve(commitDurably(this.#database, writes));
    });
  }

  /** Removes everything of the partition; its position first, so that a crash leaves a view that is rebuilt. */
  async drop(group: string, partition: number): Promise<void> {
    const place = placeOf(group, partition);
    await commitDurably(this.#database, [{ key: place, value: null }]);
    const range = { start: `${place}/`, end: `${place}${rowsEnd}`, limit: WAL_LIMITS.rowsPerDrop };
    for (;;) {
      const keys = [...this.#database.getKeys(range)];
      if (keys.length === 0) return;
      await commitDurably(
        this.#database,
        keys.map((key) => ({ key, value: null })),
      );
    }
  }

  /** Makes rows that another thread or process has committed visible within this turn of the event loop. */
  refresh(): void {
    this.#database.resetReadTxn();
  }

  /** To be called often by who writes them: see lmdb.ts. */
  forgetKilledReaders(): void {
    forgetKilledReaders(this.#database);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const search of this.#searches) search.return?.();
    this.#searches.clear();
    await this.#database.close();
  }
}

class PartitionViews implements Views {
  readonly #database: ViewsDatabase;
  readonly #place: string;

  constructor(database: ViewsDatabase, place: string) {
    this.#database = database;
    this.#place = place;
  }

  get(table: string, key: string): string | undefined {
    return this.#database.get(`${this.#place}/${table}/${key}`);
  }

  *range(table: string, options: RangeOptions): Generator<{ key: string; value: string }, void, undefined> {
    const prefix = `${this.#place}/${table}/`;
    const { reverse = false, limit } = options;
    const start = prefix + options.start;
    const end = prefix + options.end;
    const bounds = reverse
      ? { start: end, exclusiveStart: true, end: start, inclusiveEnd: true, reverse }
      : { start, end };
    const entries = this.#database.getRange(limit === undefined ? bounds : { ...bounds, limit });
    for (const { key, value } of entries) yield { key: key.slice(prefix.length), value };
  }
}

/** See `positionShape`. */
function positionText({ sequence, batch, hash }: ViewPosition): string {
  return JSON.stringify({ sequence, batch, hash: hash.toString('hex') });
}

function placeOf(group: string, partition: number): string {
  assertPlace(group, partition);
  return nameOf({ group, partition });
}

function rowKey(place: string, table: string, key: string): string {
  if (table.includes('/') || key.includes('\0')) throw new Error(`not a view key: ${table}/${key}`);
  const full = `${place}/${table}/${key}`;
  // Three bytes a character at most: only a long key is measured.
  if (full.length * 3 > WAL_LIMITS.viewKeyBytesMax && Buffer.byteLength(full) > WAL_LIMITS.viewKeyBytesMax) {
    throw new Error(`a view key of ${Buffer.byteLength(full)} bytes is too long: ${full.slice(0, 80)}…`);
  }
  return full;
}
