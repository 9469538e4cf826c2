// The writing end of one partition: records in, sequences out, batches sealed in order.
//
// Invariants: sequences are dense; a batch is sealed only when the one before it is durable everywhere it must be; after
// a failure nothing is sealed, nothing is acknowledged, and `append` throws.
import { encodeBatch, tipAt } from './batch.ts';
import type { Batch, Replica, Tip } from './types.ts';

export interface PartitionLogOptions {
  /** Of this writer. Above the tip's: an epoch-opening batch is written first. */
  readonly epoch: number;
  /** null: LMDB is the only home of the batches. */
  readonly replica: Replica | null;
  /** The time that its records have, milliseconds since 1970: where it is ahead of the log's clock, so are its batches, for the
   *  tip may be all that is left of a log. Absent: it never is. */
  now?(): number;
  /** Called for each batch, in order, when it is durable and before the next flush begins: what it appends goes with
   *  that flush. Nobody outside may be told of anything here. */
  onCommitted?(batch: Batch): void;
  /** Called for each batch, in order, when it is durable; an epoch-opening batch has no records. */
  onDurable(batch: Batch): void;
  /** The replica refused: this partition alone has stopped. Without it the whole log stops. */
  onFailure?(error: Error): void;
}

export interface SealBounds {
  readonly batchRecordsMax: number;
  readonly batchBytesMax: number;
}

export class PartitionLog {
  readonly group: string;
  readonly partition: number;
  readonly options: PartitionLogOptions;
  readonly #onAppend: (partition: PartitionLog) => void;
  #tip: Tip;
  #durable: number;
  #records: string[] = [];
  #recordsBytes: number[] = [];
  #bytes = 0;
  #opensEpoch: boolean;
  #closed = false;
  #stopped = false;
  /** A batch is sealed and not yet durable. */
  #busy = false;
  #drained: (() => void)[] = [];
  /** Owned by the group commit: it waits for its turn to be sealed. */
  queued = false;

  constructor(
    place: { readonly group: string; readonly partition: number; readonly tip: Tip },
    options: PartitionLogOptions,
    onAppend: (partition: PartitionLog) => void,
  ) {
    this.group = place.group;
    this.partition = place.partition;
    this.options = options;
    this.#tip = place.tip;
    this.#durable = place.tip.sequence;
    this.#onAppend = onAppend;
    this.#opensEpoch = options.epoch > place.tip.epoch;
  }

  /** Takes a record and returns its sequence. It is durable only when `onDurable` has been called with it. */
  append(record: string): number {
    if (this.#closed) throw new Error(`${this.group}/${this.partition}: the log is closed`);
    if (record.includes('\n')) throw new Error('a record holds no newline');
    if (!record.isWellFormed()) throw new Error('a record holds no lone surrogate: UTF-8 cannot carry it');
    const bytes = Buffer.byteLength(record);
    this.#records.push(record);
    this.#recordsBytes.push(bytes);
    this.#bytes += bytes;
    this.#onAppend(this);
    return this.appended;
  }

  /** Sequence of the last record taken. */
  get appended(): number {
    return this.#tip.sequence + this.#records.length;
  }

  /** Sequence of the last record that is durable. */
  get durable(): number {
    return this.#durable;
  }

  /** Closed by its owner or by a failure: takes no more records. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Closed, and of what was taken nothing is written any more. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** The last batch sealed. */
  get tip(): Tip {
    return this.#tip;
  }

  /** There is something to seal, and nothing before it still on its way. */
  get ready(): boolean {
    return !this.#busy && (this.#records.length > 0 || this.#opensEpoch);
  }

  /** Resolves when everything taken so far is durable, or when it never will be. */
  async drained(): Promise<void> {
    if (!this.#busy && this.#records.length === 0 && !this.#opensEpoch) return;
    await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  // Below: called by the group commit alone.

  seal(timeMs: number, bounds: SealBounds): Batch {
    const count = this.#opensEpoch ? 0 : this.#countToSeal(bounds);
    const whole = count === this.#records.length;
    const records = whole ? this.#records : this.#records.splice(0, count);
    const sizes = whole ? this.#recordsBytes : this.#recordsBytes.splice(0, count);
    if (whole) {
      this.#records = [];
      this.#recordsBytes = [];
    }
    const recordsBytes = whole ? this.#bytes : sizes.reduce((sum, size) => sum + size, 0);
    this.#bytes -= recordsBytes;
    const batch = encodeBatch({
      group: this.group,
      partition: this.partition,
      batch: this.#tip.batch + 1,
      epoch: this.options.epoch,
      firstSequence: this.#tip.sequence + 1,
      records,
      recordsBytes,
      timeMs: Math.max(timeMs, this.options.now?.() ?? 0),
      previousHash: this.#tip.hash,
    });
    this.#tip = tipAt(batch);
    this.#opensEpoch = false;
    this.#busy = true;
    return batch;
  }

  /** The sealed batch is durable: the next one may be sealed. */
  release(): void {
    this.#busy = false;
  }

  /** After `release`, before the next flush is on its way. */
  settle(batch: Batch): void {
    this.#durable = batch.firstSequence + batch.records.length - 1;
    this.options.onCommitted?.(batch);
  }

  /** After `settle`, when the next flush is on its way. */
  acknowledge(batch: Batch): void {
    this.options.onDurable(batch);
    if (!this.#busy && this.#records.length === 0) this.#resolveDrained();
  }

  /** Takes no more; what was taken is dropped unless it has been sealed. Returns how many records were dropped. */
  stop(): number {
    const dropped = this.#records.length;
    this.#closed = true;
    this.#stopped = true;
    this.#records = [];
    this.#recordsBytes = [];
    this.#bytes = 0;
    this.#opensEpoch = false;
    // Nothing of it is waited for any more, now or later.
    this.#busy = false;
    this.#resolveDrained();
    return dropped;
  }

  /** Takes no more, but what was taken is still written. */
  shut(): void {
    this.#closed = true;
  }

  #countToSeal({ batchRecordsMax, batchBytesMax }: SealBounds): number {
    const count = Math.min(this.#records.length, batchRecordsMax);
    if (count === this.#records.length && this.#bytes + count <= batchBytesMax) return count;
    let bytes = 0;
    for (let index = 0; index < count; index += 1) {
      bytes += (this.#recordsBytes[index] ?? 0) + 1;
      // A record larger than the bound goes alone.
      if (bytes > batchBytesMax && index > 0) return index;
    }
    return count;
  }

  #resolveDrained(): void {
    const drained = this.#drained;
    this.#drained = [];
    for (const resolve of drained) resolve();
  }
}
