// The log's vocabulary: what callers hand in and get back. Bytes in, bytes out: the log knows groups, partitions,
// records as lines of text, batches, epochs and hashes, and nothing of what they mean.

/** Which partition of which group. */
export interface PartitionName {
  readonly group: string;
  readonly partition: number;
}

/** As people read it, and as keys: "accounts/3". */
export function nameOf({ group, partition }: PartitionName): string {
  return `${group}/${partition}`;
}

/** Of a name that `nameOf` gave. */
export function placeOf(name: string): PartitionName {
  const [group = '', partition] = name.split('/');
  return { group, partition: Number(partition) };
}

/** One group commit of one partition, as stored. See README.md for the layout byte by byte. */
export interface Batch extends PartitionName {
  /** 1, 2, 3 … within the partition. */
  readonly batch: number;
  /** Epoch of the writer. */
  readonly epoch: number;
  /** Sequence of the first record (the first record of a partition is 1). */
  readonly firstSequence: number;
  readonly records: readonly string[];
  /** When it was sealed, or the time of its records, if later; milliseconds since 1970. */
  readonly timeMs: number;
  /** SHA-256 of the previous batch's hash and this batch's bytes. */
  readonly hash: Buffer;
  /** The whole encoded batch. */
  readonly bytes: Buffer;
}

/** Where a partition's log ends. */
export interface Tip {
  /** 0: empty. */
  readonly batch: number;
  /** Sequence of the last record; 0: empty. */
  readonly sequence: number;
  readonly epoch: number;
  readonly timeMs: number;
  /** 32 zero bytes when empty. */
  readonly hash: Buffer;
}

/** In JSON: manifests, segments, snapshots and the start of a trimmed log have it. */
export type StoredTip = Omit<Tip, 'hash'> & { readonly hash: string };

export function storedTip({ batch, sequence, epoch, timeMs, hash }: Tip): StoredTip {
  return { batch, sequence, epoch, timeMs, hash: hash.toString('hex') };
}

export function tipFrom({ batch, sequence, epoch, timeMs, hash }: StoredTip): Tip {
  return { batch, sequence, epoch, timeMs, hash: Buffer.from(hash, 'hex') };
}

/** A second durable home for batches (JetStream). Resolves when the batch is durable there, right behind the one before it; rejects
 *  when another writer exists or the replica cannot be reached: the writer then steps down. */
export interface Replica {
  publish(batch: Batch): Promise<void>;
}

/** A view row: `value` null deletes it. Keys are strings without NUL, at most 1,900 bytes, compared by UTF-8 bytes. */
export interface Row {
  readonly table: string;
  readonly key: string;
  readonly value: string | null;
}

/** Above every key: the end of a range of a whole table. */
export const LAST_KEY = '\u{10ffff}';

/** The lowest key above `key`: where a range goes on behind it. */
export function keyAfter(key: string): string {
  return `${key}\x01`;
}

export interface RangeOptions {
  /** First key included. */
  readonly start: string;
  /** First key excluded. */
  readonly end: string;
  /** From the highest key below `end` down to `start`. */
  readonly reverse?: boolean;
  readonly limit?: number;
}

/** Point reads and ordered ranges over the rows of one partition's checkpoint. Synchronous, microseconds. */
export interface Views {
  get(table: string, key: string): string | undefined;
  range(table: string, options: RangeOptions): Iterable<{ key: string; value: string }>;
}

/** The log position that a partition's views reach; everything up to `sequence` is in them. */
export interface ViewPosition {
  readonly sequence: number;
  readonly batch: number;
  /** Hash of that batch. */
  readonly hash: Buffer;
}
