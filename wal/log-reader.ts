// Reads the log, checking what it reads. Works in the process that writes, in its worker threads, and in any other
// process on a live directory: LMDB readers neither wait for the writer nor hold it up.
//
// A batch is got by its number, one short read transaction each: a reader that takes hours keeps no old pages alive. So the
// log may be cut off and written anew between two batches, by a node of a cluster that takes a partition over. It is whole
// in every transaction of the writer's: only what is wrong with a batch and the one before it in one read transaction is damage.
import {
  assertPlace,
  type BatchPlace,
  checkFollows,
  decodeBatch,
  emptyTip,
  firstSequenceIn,
  isPlace,
  LogCorruption,
  LogRewritten,
  tipAt,
} from './batch.ts';
import { openBeside } from './directory-socket.ts';
import { WAL_LIMITS } from './limits.ts';
import { fileOf, isLogKey, isPageFault, openLogDatabase, PageFault, pageFaultText } from './lmdb.ts';
import type { LogDatabase, LogKey, OpenLogOptions } from './lmdb.ts';
import { storedTip, tipFrom } from './types.ts';
import type { Batch, PartitionName, StoredTip, Tip, ViewPosition } from './types.ts';
import { unreadableIn, type Unreadable, type UnreadablePlace } from './unreadable.ts';

/** Where to begin: after a batch, or with the batch that holds a sequence. */
export type ReadFrom = { readonly afterBatch: number } | { readonly fromSequence: number };

export interface PartitionRange {
  readonly group: string;
  readonly partition: number;
  /** What the oldest batch follows: empty, or the last trimmed batch. */
  readonly start: Tip;
  readonly tip: Tip;
}

/** What is asked for was trimmed, or is not there yet. */
export class NotInLog extends Error {}

/** Which partitions there are cannot be told; each may be whole. */
export class LogUnsearchable extends Error {}

export class LogReader {
  protected readonly database: LogDatabase;
  /** What would end the process is not read. */
  readonly #unreadable: Unreadable | null;

  /** Only for subclasses; use `openReader`. */
  constructor(database: LogDatabase, directory: string) {
    this.database = database;
    this.#unreadable = unreadableIn(directory);
  }

  /** `openReader`, in another process than the one that writes the directory, if any does. */
  static openBeside(options: Pick<OpenLogOptions, 'directory'>): Promise<LogReader> {
    return openBeside(options.directory, 'log', () => LogReader.openReader(options));
  }

  /** Read-only; the directory must hold a log, which no other process writes. */
  static openReader(options: Pick<OpenLogOptions, 'directory' | 'unfinished'>): LogReader {
    return new LogReader(openLogDatabase({ ...options, readOnly: true }), options.directory);
  }

  /** Where the partition ends. The last batch is checked, and that it follows the one before. */
  tip(group: string, partition: number): Tip {
    const number = this.lastBatchNumber(group, partition);
    const start = this.startOf(group, partition);
    if (number <= start.batch) return start;
    const previous = this.tipAt(group, partition, number - 1);
    const last = this.batch(group, partition, number);
    checkFollows(last, previous);
    return tipAt(last);
  }

  /** Where it ended when that batch was its last, be it the one that the log begins after. Its own bytes are checked, its chain not. */
  tipAt(group: string, partition: number, number: number): Tip {
    const start = this.startOf(group, partition);
    return number === start.batch ? start : tipAt(this.batch(group, partition, number));
  }

  /** What the first batch that is kept follows. Empty unless the log was trimmed. */
  startOf(group: string, partition: number): Tip {
    assertPlace(group, partition);
    const bytes = this.#stored(group, partition, 0);
    if (bytes === undefined) return emptyTip;
    const start = decodeStart(bytes, group, partition);
    const problem = this.#problemOf(start, group, partition);
    if (problem === null) return start;
    const at = { group, partition, batch: 0, sequence: 0 };
    throw new LogCorruption(at, `the start of the trimmed log says ${problem}`);
  }

  /** The batches from a place on, oldest first, to the end that the log has when it is reached. Each is checked: its own
   *  bytes, its sequence, and its place in the hash chain. Throws LogCorruption; LogRewritten when the log is not any more
   *  the one that was read so far. */
  *read(group: string, partition: number, from: ReadFrom): Generator<Batch, void, undefined> {
    let previous = this.#tipBefore(group, partition, from);
    for (;;) {
      const batch = this.#nextTwice(group, partition, previous);
      if (batch === undefined) return;
      previous = tipAt(batch);
      yield batch;
    }
  }

  /** Makes what others committed meanwhile visible, and throws LogRewritten when what was read up to `reached` is not in the log
   *  any more: then what was found wrong behind it says nothing. What is found wrong again, before this turn of the event loop
   *  ends, is damage. */
  lookAgain(group: string, partition: number, reached: ViewPosition): void {
    this.refresh();
    if (this.#holdsWhole(group, partition, reached)) return;
    throw new LogRewritten({ group, partition, batch: reached.batch + 1, sequence: reached.sequence + 1 });
  }

  /** Everything the log holds. */
  partitions(): PartitionRange[] {
    const found: PartitionRange[] = [];
    for (const { group, partition } of this.partitionNames()) {
      found.push({
        group,
        partition,
        start: this.startOf(group, partition),
        tip: this.tip(group, partition),
      });
    }
    return found;
  }

  /** Names only: reads no batch, so that damage in one partition does not hide the others. */
  partitionNames(): PartitionName[] {
    if (this.#unreadable !== null) return this.#unreadable.names.filter((name) => this.#isThere(name));
    const found: PartitionName[] = [];
    let start: [string, number, number] | undefined;
    for (;;) {
      const keys = start === undefined ? { limit: 1 } : { start, limit: 1 };
      const key = this.#firstKey(keys, null);
      if (key === undefined) return found;
      const [group, partition] = key;
      // A search that is led astray by a damaged page may lead back, for ever.
      if (!isLogKey(key) || !isPlace(group, partition) || (start !== undefined && isBefore(key, start))) {
        throw this.#pageFault(new PageFault('its keys are no partitions, or out of order'), null);
      }
      found.push({ group, partition });
      start = [group, partition + 1, 0];
    }
  }

  /** The oldest that is there; 0: the partition has no batch. For a log whose start cannot be read: `startOf` says it else. */
  firstBatchNumber(group: string, partition: number): number {
    assertPlace(group, partition);
    const unreadable = this.#unreadableOf(group, partition);
    if (unreadable !== undefined) {
      return unreadable.batch === 0 ? 1 : this.startOf(group, partition).batch + 1;
    }
    const end: [string, number, number] = [group, partition, Number.MAX_SAFE_INTEGER];
    const key = this.#firstKey({ start: [group, partition, 1], end, limit: 1 }, { group, partition });
    return key === undefined ? 0 : key[2];
  }

  /** 0: the partition has no batch. Of one that cannot be read to its end: the first that cannot be. */
  lastBatchNumber(group: string, partition: number): number {
    assertPlace(group, partition);
    const unreadable = this.#unreadableOf(group, partition);
    if (unreadable !== undefined) return Math.max(1, unreadable.batch);
    const start: LogKey = [group, partition, Number.MAX_SAFE_INTEGER];
    const range = { start, end: [group, partition, 0] as LogKey, reverse: true, limit: 1 };
    const key = this.#firstKey(range, { group, partition });
    return key === undefined ? 0 : key[2];
  }

  /** One batch, its own bytes checked, its chain not. Throws LogCorruption when it is missing or damaged. */
  batch(group: string, partition: number, number: number): Batch {
    const place = { group, partition, batch: number };
    const bytes = this.bytesOf(group, partition, number);
    if (bytes === undefined) throw new LogCorruption({ ...place, sequence: 0 }, 'the batch is missing');
    return decodeBatch(bytes, place);
  }

  /** Whether a checkpoint was made from this very log. False: the log ends before it (an older file was put in place of a
   *  newer one, or its end is lost) or it has another history. */
  holds(group: string, partition: number, position: ViewPosition): boolean {
    const start = this.startOf(group, partition);
    // Trimmed away: nothing left to compare.
    if (position.batch < start.batch) return false;
    if (position.batch > start.batch && position.batch > this.lastBatchNumber(group, partition)) return false;
    const { sequence, hash } = this.tipAt(group, partition, position.batch);
    return hash.equals(position.hash) && sequence === position.sequence;
  }

  /** As stored, unchecked. Throws LogCorruption when its page of the file cannot be read. */
  bytesOf(group: string, partition: number, number: number): Buffer | undefined {
    const bytes = this.#stored(group, partition, number);
    if (bytes === undefined || Buffer.isBuffer(bytes)) return bytes;
    return Buffer.from(Object(bytes));
  }

  /** Where each portion of the batches below `batch` ends that a trim removes in one transaction. Throws LogCorruption where one of
   *  these ends, which the log would begin after, cannot be read, or `batch` itself does not follow the last. */
  portionsBefore(group: string, partition: number, batch: number): Tip[] {
    const kept = this.batch(group, partition, batch);
    const last = batch - 1;
    checkFollows(kept, this.tipAt(group, partition, last));
    const ends: Tip[] = [];
    for (let { batch: end } = this.startOf(group, partition); end < last;) {
      end = Math.min(last, end + WAL_LIMITS.batchesPerTrim);
      ends.push(this.tipAt(group, partition, end));
    }
    return ends;
  }

  /** Makes what others committed meanwhile visible within this turn of the event loop. */
  refresh(): void {
    this.database.resetReadTxn();
  }

  async close(): Promise<void> {
    await this.database.close();
  }

  /** Where a start does not fit the first batch that is there; null: nowhere. Of numbers that have rotted, the log would end before what
   *  follows, or seem to begin later than it does. */
  #problemOf(start: Tip, group: string, partition: number): string | null {
    const number = start.batch + 1;
    try {
      if (this.#unreadableOf(group, partition) !== undefined) return null;
      const bytes = this.bytesOf(group, partition, number);
      if (bytes !== undefined) {
        if (firstSequenceIn(bytes) === start.sequence + 1) return null;
        const { firstSequence } = decodeBatch(bytes, { group, partition, batch: number });
        return `batch ${start.batch} ends with sequence ${start.sequence}, and what follows begins with ${firstSequence}`;
      }
      const first = this.firstBatchNumber(group, partition);
      if (first === 0) return null;
      checkFollows(this.batch(group, partition, first), { ...start, batch: first - 1 });
      return `batch ${start.batch}, and is that of batch ${first - 1}`;
    } catch (error) {
      // What else is wrong there is told to whoever reads it.
      if (error instanceof LogCorruption) return null;
      throw error;
    }
  }

  #unreadableOf(group: string, partition: number): UnreadablePlace | undefined {
    return this.#unreadable?.places.find((each) => each.group === group && each.partition === partition);
  }

  /** Asks for single keys alone: a search runs on into the next page. */
  #isThere({ group, partition }: PartitionName): boolean {
    try {
      return [0, 1].some((number) => this.#stored(group, partition, number) !== undefined);
    } catch (error) {
      if (error instanceof LogCorruption) return true;
      throw error;
    }
  }

  #stored(group: string, partition: number, number: number): Buffer | undefined {
    const unreadable = this.#unreadableOf(group, partition);
    if (unreadable !== undefined && number >= unreadable.batch) {
      const problem = `a process that reads it is ended (${unreadable.ending}): pages of ${fileOf(this.database)} are damaged`;
      throw new LogCorruption({ group, partition, batch: number, sequence: 0 }, problem);
    }
    try {
      return this.database.getBinary([group, partition, number]);
    } catch (error) {
      throw this.#pageFault(error, { group, partition, batch: number });
    }
  }

  /** `name`: whose keys they are; null: anybody's. */
  #firstKey(range: Parameters<LogDatabase['getKeys']>[0], name: PartitionName | null): LogKey | undefined {
    try {
      return first(this.database.getKeys(range));
    } catch (error) {
      throw this.#pageFault(error, name === null ? null : { ...name, batch: 0 });
    }
  }

  /** What to throw instead: LMDB's own words say neither which file it is nor what lies there. */
  #pageFault(error: unknown, at: BatchPlace | null): unknown {
    if (!isPageFault(error)) return error;
    this.refresh();
    const problem = `it lies in a damaged page of ${fileOf(this.database)} (${pageFaultText(error)})`;
    if (at !== null) return new LogCorruption({ ...at, sequence: 0 }, problem);
    return new LogUnsearchable(`where the partitions of the log begin cannot be read: ${problem}`, {
      cause: error,
    });
  }

  #nextTwice(group: string, partition: number, previous: Tip): Batch | undefined {
    try {
      return this.#next(group, partition, previous);
    } catch (error) {
      if (!(error instanceof LogCorruption)) throw error;
      this.lookAgain(group, partition, previous);
      return this.#next(group, partition, previous);
    }
  }

  /** undefined: the log ends before it. */
  #next(group: string, partition: number, previous: Tip): Batch | undefined {
    const number = previous.batch + 1;
    const bytes = this.bytesOf(group, partition, number);
    if (bytes === undefined) {
      const last = this.lastBatchNumber(group, partition);
      const at = { group, partition, batch: number, sequence: previous.sequence + 1 };
      if (last > previous.batch) throw new LogCorruption(at, 'the batch is missing');
      if (last < previous.batch) this.lookAgain(group, partition, previous);
      return undefined;
    }
    const batch = decodeBatch(bytes, { group, partition, batch: number });
    checkFollows(batch, previous);
    return batch;
  }

  #holdsWhole(group: string, partition: number, { batch, hash }: ViewPosition): boolean {
    try {
      const bytes = batch === 0 ? undefined : this.bytesOf(group, partition, batch);
      if (bytes !== undefined) return decodeBatch(bytes, { group, partition, batch }).hash.equals(hash);
      const start = this.startOf(group, partition);
      return start.batch === batch && start.hash.equals(hash);
    } catch (error) {
      // It was whole when it was read: whoever reads it again is told.
      if (error instanceof LogCorruption) return false;
      throw error;
    }
  }

  #tipBefore(group: string, partition: number, from: ReadFrom): Tip {
    const start = this.startOf(group, partition);
    const after =
      'afterBatch' in from
        ? from.afterBatch
        : this.#batchHolding(group, partition, from.fromSequence, start) - 1;
    if (after < start.batch) {
      throw new NotInLog(
        `${group}/${partition}: batches up to ${start.batch} (sequence ${start.sequence}) were trimmed`,
      );
    }
    return this.tipAt(group, partition, after);
  }

  /** The batch that holds `sequence`; one past the last when none does yet. */
  #batchHolding(group: string, partition: number, sequence: number, start: Tip): number {
    if (sequence <= start.sequence) {
      if (start.batch === 0) return 1;
      throw new NotInLog(
        `${group}/${partition}: sequence ${sequence} was trimmed (kept from ${start.sequence + 1})`,
      );
    }
    const last = this.lastBatchNumber(group, partition);
    let low = start.batch + 1;
    let high = last + 1;
    // Batch numbers are dense and their last sequences never fall: the first batch that ends at or after `sequence`.
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.#endsBefore(group, partition, middle, sequence)) low = middle + 1;
      else high = middle;
    }
    if (low === last + 1 && last > start.batch) {
      const tip = tipAt(this.batch(group, partition, last));
      if (sequence > tip.sequence + 1) {
        throw new NotInLog(`${group}/${partition}: ends at sequence ${tip.sequence}, before ${sequence}`);
      }
    }
    return low;
  }

  /** False of a damaged one: what lies before it is read, and whoever comes to it is told. */
  #endsBefore(group: string, partition: number, batch: number, sequence: number): boolean {
    try {
      return tipAt(this.batch(group, partition, batch)).sequence < sequence;
    } catch (error) {
      if (error instanceof LogCorruption) return false;
      throw error;
    }
  }
}

/** What `read` resolves with, of a partition that is read again from the beginning when its log was written anew meanwhile. */
export async function untilUnchanged<T>(read: () => Promise<T>): Promise<T> {
  for (let again = 0; again < WAL_LIMITS.rereadsMax; again += 1) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof LogRewritten)) throw error;
    }
  }
  return read();
}

/** Not by `for`, which leaves a search that has failed open: lmdb-js would then read on in the transaction that failed with it,
 *  and find nothing of any partition any more. */
function first<T>(items: Iterable<T>): T | undefined {
  const search = items[Symbol.iterator]();
  try {
    const { value, done } = search.next();
    return done === true ? undefined : value;
  } finally {
    search.return?.();
  }
}

/** Of another partition, which sorts before that of `start`. */
function isBefore([group, partition]: LogKey, start: LogKey): boolean {
  return group < start[0] || (group === start[0] && partition < start[1]);
}

/** The start of a trimmed log, under batch number 0. Its own proof is the hash of the batch that follows. */
export function encodeStart(start: Tip): Buffer {
  return Buffer.from(JSON.stringify(storedTip(start)));
}

function decodeStart(bytes: Uint8Array, group: string, partition: number): Tip {
  try {
    const { hash, ...numbers } = tipFrom(JSON.parse(Buffer.from(bytes).toString()) as StoredTip);
    const areNumbers = Object.values(numbers).every((number) => Number.isSafeInteger(number) && number >= 0);
    if (!areNumbers || hash.length !== 32) throw new Error('a field is wrong');
    return { ...numbers, hash };
  } catch (error) {
    const at = { group, partition, batch: 0, sequence: 0 };
    throw new LogCorruption(at, `the start of the trimmed log is unreadable: ${String(error)}`);
  }
}
