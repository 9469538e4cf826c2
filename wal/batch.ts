// The binary form of a batch: encoded and checked here and nowhere else. README.md has the layout byte by byte.
//
// A batch says itself to which group and partition it belongs, so that one in the wrong place is found even when it is
// the first of its chain. Every byte is covered by the CRC (rot) and by the hash (tampering, removal, reordering).
// A released version is never changed: a new one is added beside it, and test/golden keeps a log of each.
import { crc32c } from '@node-rs/crc32';
import { isAscii } from 'node:buffer';
import { hash as digest } from 'node:crypto';
import { WAL_LIMITS } from './limits.ts';
import type { Batch, PartitionName, Tip } from './types.ts';

const magic = 0x4c_57_46_44; // "DFWL", read as a little-endian number
const version = 1;
export const headerBytes = 64;
const crcBytes = 4;
const hashBytes = 32;
const trailerBytes = crcBytes + hashBytes;
const newline = 0x0a;

/** Bytes that a batch has beside its payload. */
const batchOverheadBytes = headerBytes + trailerBytes;

export const emptyHash: Buffer = Buffer.alloc(hashBytes);

export const emptyTip: Tip = { batch: 0, sequence: 0, epoch: 0, timeMs: 0, hash: emptyHash };

/** Of a log. */
export interface BatchPlace extends PartitionName {
  readonly batch: number;
}

/** `batch` 0: not known. */
export interface LogPlace extends BatchPlace {
  /** The first at fault; 0: not known. */
  readonly sequence: number;
}

function shownPlace({ group, partition, batch, sequence }: LogPlace): string {
  const batchShown = batch === 0 ? '' : ` batch ${batch}`;
  const sequenceShown = sequence === 0 ? '' : ` (sequence ${sequence})`;
  return `${group}/${partition}${batchShown}${sequenceShown}`;
}

/** What is wrong with a stored batch, and where. */
export class LogCorruption extends Error implements LogPlace {
  readonly group: string;
  readonly partition: number;
  readonly batch: number;
  readonly sequence: number;
  readonly problem: string;

  constructor(at: LogPlace, problem: string) {
    super(`log corrupt: ${shownPlace(at)}: ${problem}`);
    this.name = 'LogCorruption';
    this.group = at.group;
    this.partition = at.partition;
    this.batch = at.batch;
    this.sequence = at.sequence;
    this.problem = problem;
  }
}

/** What was read last is not in the log any more: its end was cut off and written anew meanwhile, as a node of a cluster does
 *  with what its stream never got. It says nothing of what is there now. To whoever reads a partition that nobody else may
 *  change it is damage all the same. */
export class LogRewritten extends LogCorruption {
  constructor(at: LogPlace) {
    super(
      at,
      'what was before it has changed since it was read: the log was written anew meanwhile, try again',
    );
    this.name = 'LogRewritten';
  }
}

export interface BatchToEncode extends Omit<Batch, 'hash' | 'bytes'> {
  /** UTF-8 bytes of the records, without their newlines. */
  readonly recordsBytes: number;
  readonly previousHash: Buffer;
}

/** Encodes in one buffer, with one CRC and one hash. Records were checked when they were appended. */
export function encodeBatch(from: BatchToEncode): Batch {
  const { group, partition, batch, epoch, firstSequence, records, timeMs, previousHash } = from;
  const payloadBytes = from.recordsBytes + records.length;
  const covered = headerBytes + payloadBytes;
  // The previous hash stands before the batch, so that the hash is one call over adjoining bytes.
  const whole = Buffer.allocUnsafe(hashBytes + covered + trailerBytes);
  previousHash.copy(whole, 0);
  const bytes = whole.subarray(hashBytes);

  bytes.writeUInt32LE(magic, 0);
  bytes[4] = version;
  bytes[5] = 0;
  bytes.writeUInt16LE(partition, 6);
  bytes.fill(0, 8, 24);
  bytes.write(group, 8, 'latin1');
  writeUInt64(bytes, epoch, 24);
  writeUInt64(bytes, batch, 32);
  writeUInt64(bytes, firstSequence, 40);
  writeUInt64(bytes, timeMs, 48);
  bytes.writeUInt32LE(records.length, 56);
  bytes.writeUInt32LE(payloadBytes, 60);
  writePayload(bytes, records, payloadBytes);
  bytes.writeUInt32LE(crc32c(bytes.subarray(0, covered)), covered);
  const hash = digest('sha256', whole.subarray(0, hashBytes + covered), 'buffer');
  hash.copy(bytes, covered + crcBytes);

  return { group, partition, batch, epoch, firstSequence, records, timeMs, hash, bytes };
}

function writePayload(bytes: Buffer, records: readonly string[], payloadBytes: number): void {
  if (records.length === 0) return;
  const payload = `${records.join('\n')}\n`;
  // As many bytes as characters: ASCII, which is copied, not encoded.
  const written =
    payload.length === payloadBytes
      ? bytes.write(payload, headerBytes, payloadBytes, 'latin1')
      : bytes.write(payload, headerBytes, payloadBytes, 'utf8');
  if (written !== payloadBytes) throw new Error(`payload has ${written} bytes, not ${payloadBytes}`);
}

/** Checks everything that a batch says of itself: that it is the one of its `place`, lengths, CRC, count. Throws LogCorruption. `bytes` is kept by
 *  the result: it must not be reused. */
export function decodeBatch(bytes: Buffer, place: BatchPlace): Batch {
  let sequence = 0;
  const check = (holds: boolean, problem: string): void => {
    if (!holds) throw new LogCorruption({ ...place, sequence }, problem);
  };
  check(bytes.length >= batchOverheadBytes, `${bytes.length} bytes are too few for a batch`);
  const covered = bytes.length - trailerBytes;
  // Damage is told as damage: what the header says is believed only after the CRC.
  const crc = bytes.readUInt32LE(covered);
  check(bytes.readUInt32LE(0) === magic, 'it does not start as a batch does');
  check(crc32c(bytes.subarray(0, covered)) === crc, 'CRC32C differs: its bytes have changed');
  sequence = readUInt64(bytes, 40);
  check(bytes[4] === version, `format version ${bytes[4]} is not known`);
  check(bytes[5] === 0, `flags ${bytes[5]} are not known`);
  check(groupIn(bytes) === place.group, `it belongs to group ${groupIn(bytes)}`);
  check(bytes.readUInt16LE(6) === place.partition, `it belongs to partition ${bytes.readUInt16LE(6)}`);
  const batch = readUInt64(bytes, 32);
  check(batch === place.batch, `it says it is batch ${batch}`);
  check(
    bytes.readUInt32LE(60) === covered - headerBytes,
    'the payload has another length than the header says',
  );
  const records = recordsIn(bytes, covered);
  check(records !== null, 'the payload does not end with a newline');
  const count = bytes.readUInt32LE(56);
  check(records?.length === count, `${records?.length} records where the header says ${count}`);

  return {
    group: place.group,
    partition: place.partition,
    batch,
    epoch: readUInt64(bytes, 24),
    firstSequence: sequence,
    records: records ?? [],
    timeMs: readUInt64(bytes, 48),
    hash: bytes.subarray(covered + crcBytes),
    bytes,
  };
}

/** False: it never was a batch. A damaged one begins as one does, unless it is damaged there. */
export function isBatch(bytes: Buffer): boolean {
  return bytes.length >= batchOverheadBytes && bytes.readUInt32LE(0) === magic;
}

/** The batch with its place taken from its own header: for batches that come from a file or a replica. */
export function decodeForeignBatch(bytes: Buffer): Batch {
  if (bytes.length < batchOverheadBytes) {
    throw new LogCorruption({ group: '?', partition: 0, batch: 0, sequence: 0 }, 'too few bytes for a batch');
  }
  return decodeBatch(bytes, {
    group: groupIn(bytes),
    partition: bytes.readUInt16LE(6),
    batch: readUInt64(bytes, 32),
  });
}

/** What it says of itself, of which nothing is proven. -1: there are too few bytes for a batch. */
export function firstSequenceIn(bytes: Buffer): number {
  return bytes.length < batchOverheadBytes ? -1 : readUInt64(bytes, 40);
}

/** What a batch says of itself, of which nothing is proven: it may be damaged. Null: there are too few bytes for one. */
export function unprovenIn(bytes: Buffer): UnprovenBatch | null {
  if (bytes.length < batchOverheadBytes) return null;
  const covered = bytes.length - trailerBytes;
  return {
    batch: readUInt64(bytes, 32),
    firstSequence: readUInt64(bytes, 40),
    records: bytes.toString('utf8', headerBytes, covered).split('\n').slice(0, -1),
    coveredBytes: covered,
    syndrome: (crc32c(bytes.subarray(0, covered)) ^ bytes.readUInt32LE(covered)) >>> 0,
  };
}

export interface UnprovenBatch {
  readonly batch: number;
  readonly firstSequence: number;
  readonly records: readonly string[];
  /** Of those that the CRC covers. */
  readonly coveredBytes: number;
  /** The CRC that the bytes have, xor the one that is stored with them. 0: nothing has changed. */
  readonly syndrome: number;
}

/** Checks that `batch` follows `previous` in its chain: number, sequence, epoch and hash. Throws LogCorruption. */
export function checkFollows(batch: Batch, previous: Tip): void {
  const check = (holds: boolean, problem: string): void => {
    if (!holds) throw corruptionIn(batch, problem);
  };
  check(batch.batch === previous.batch + 1, `batch ${previous.batch + 1} is missing`);
  check(
    batch.firstSequence === previous.sequence + 1,
    `it starts at sequence ${batch.firstSequence}, not ${previous.sequence + 1}`,
  );
  check(batch.epoch >= previous.epoch, `epoch ${batch.epoch} after epoch ${previous.epoch}`);
  check(hashAfter(previous.hash, batch.bytes).equals(batch.hash), 'the hash chain breaks here');
}

function hashAfter(previousHash: Buffer, bytes: Buffer): Buffer {
  const chained = Buffer.allocUnsafe(hashBytes + bytes.length - trailerBytes);
  previousHash.copy(chained, 0);
  bytes.copy(chained, hashBytes, 0, bytes.length - trailerBytes);
  return digest('sha256', chained, 'buffer');
}

function corruptionIn(batch: Batch, problem: string): LogCorruption {
  const { group, partition, firstSequence: sequence } = batch;
  return new LogCorruption({ group, partition, batch: batch.batch, sequence }, problem);
}

/** Where the log ends when `batch` is its last. */
export function tipAt(batch: Batch): Tip {
  return {
    batch: batch.batch,
    sequence: batch.firstSequence + batch.records.length - 1,
    epoch: batch.epoch,
    timeMs: batch.timeMs,
    hash: batch.hash,
  };
}

export function assertPlace(group: string, partition: number): void {
  if (!isGroup(group)) throw new Error(`not the name of a group: ${JSON.stringify(group)}`);
  if (!isPartition(partition)) throw new Error(`not a partition: ${partition}`);
}

/** False of what a damaged page may say. */
export function isPlace(group: string, partition: number): boolean {
  return isGroup(group) && isPartition(partition);
}

function isGroup(name: string): boolean {
  return /^[a-z][a-z0-9_-]*$/.test(name) && name.length <= WAL_LIMITS.groupCharactersMax;
}

function isPartition(number: number): boolean {
  return Number.isInteger(number) && number >= 0 && number < WAL_LIMITS.partitionsMax;
}

function groupIn(bytes: Buffer): string {
  return bytes.toString('latin1', 8, 24).replace(/\0+$/, '');
}

/** null: the payload does not end with a newline. */
function recordsIn(bytes: Buffer, end: number): string[] | null {
  if (end === headerBytes) return [];
  if (bytes[end - 1] !== newline) return null;
  const payload = isAscii(bytes.subarray(headerBytes, end))
    ? bytes.toString('latin1', headerBytes, end - 1)
    : bytes.toString('utf8', headerBytes, end - 1);
  return payload.split('\n');
}

const twoTo32 = 2 ** 32;

function writeUInt64(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32LE(value % twoTo32, at);
  bytes.writeUInt32LE(Math.floor(value / twoTo32), at + 4);
}

function readUInt64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * twoTo32;
}
