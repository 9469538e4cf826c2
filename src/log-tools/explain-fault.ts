// What a damaged batch still tells: which bit of which record turned over, and which transactions it concerns.
//
// CRC32C finds a single turned bit by itself: each position changes the sum in its own way.

import { decodeTransaction } from '../../actors/accounts/transaction-row.ts';
import type { WebhookRecord } from '../../actors/webhooks/record.ts';
import type { AccountRecord } from '../domain/account-event.ts';
import { isTransactionId } from '../domain/id.ts';
import { type Data, groupOf, groups } from './data.ts';
import { decodeBatch, headerBytes, LogCorruption, type UnprovenBatch, unprovenIn } from '../../wal/batch.ts';
import { type Fault, OF_ANOTHER_LOG } from '../../wal/tools/verify.ts';
import { type Batch, nameOf, type PartitionName } from '../../wal/types.ts';

/** Of a log that is damaged, and of views that are not the log's. */
export const NEXT_OF_DAMAGE = 'Next: day 4 of deploy/README.md.';

export interface Explanation {
  /** For a person. */
  readonly explanation: string;
  /** The records at fault, as far as it can be told; both null when it cannot. */
  readonly firstSequence: number | null;
  readonly lastSequence: number | null;
  readonly transactions: readonly string[];
}

const newline = 0x0a;

/** Records that are not there any more. */
interface Lost extends PartitionName {
  readonly firstSequence: number;
  /** Null: to where the log has ended. */
  readonly lastSequence: number | null;
}

/** Of each fault, in their order. Of batches that are lost with those before them it is said once what all of these had. */
export function explainFaults(data: Data, faults: readonly Fault[]): Explanation[] {
  const looked: Looked = new Map();
  const found = faults.map((fault) => explain(data, fault, looked));
  const lost = new Set(found.flatMap((each) => ('explanation' in each ? [] : [each])));
  const changed = lastChangedIn(data, [...lost]);
  return found.map((each) => {
    if ('explanation' in each) return each;
    return lost.delete(each)
      ? explanationOf(each, changed.get(each) ?? [])
      : { ...nothingKnown, ...rangeOf(each) };
  });
}

function explain(data: Data, fault: Fault, looked: Looked): Explanation | Lost {
  const { group, batch, problem } = fault;
  if (batch === 0 || problem === OF_ANOTHER_LOG) return nothingKnown;
  if (!groups.some(({ name }) => name === group)) return nothingKnown;
  const stored = storedOf(data, fault, batch);
  const said = stored === undefined ? null : unprovenIn(stored);
  if (stored === undefined || said === null) return missing(data, fault, looked);
  const { syndrome } = said;
  if (syndrome === 0) return outOfPlace(group, said);
  if (isOfStoredCrc(syndrome)) {
    return {
      ...nothingKnown,
      explanation: 'one bit of its stored CRC turned over; its records are as they were',
    };
  }
  const position = turnedBit(syndrome, said.coveredBytes * 8);
  return position === null ? manyBits(group, said) : oneBit(group, stored, position);
}

/** One bit of the sum that is stored, and none of what it is of, has turned over. */
function isOfStoredCrc(syndrome: number): boolean {
  return Number.isInteger(Math.log2(syndrome));
}

/** undefined: it is not there, or its page of the file cannot be read. */
function storedOf({ log }: Data, { group, partition }: Fault, batch: number): Buffer | undefined {
  try {
    return log.bytesOf(group, partition, batch);
  } catch (error) {
    if (error instanceof LogCorruption) return undefined;
    throw error;
  }
}

const nothingKnown: Explanation = {
  explanation: '',
  firstSequence: null,
  lastSequence: null,
  transactions: [],
};

function oneBit(group: string, stored: Buffer, position: number): Explanation {
  const byte = Math.floor(position / 8);
  const mended = turnedBack(stored, position);
  const where = `one bit turned over: bit ${position % 8} of byte ${byte}`;
  if (byte < headerBytes) {
    return { ...nothingKnown, explanation: `${where}, in its header; its records are as they were` };
  }
  let index = 0;
  for (let at = headerBytes; at < byte; at += 1) if (mended[at] === newline) index += 1;
  const { firstSequence, records } = unprovenIn(mended)!;
  const sequence = firstSequence + index;
  const explanation = `${where}, in the record of sequence ${sequence}; all others in the batch are as they were`;
  return {
    explanation,
    firstSequence: sequence,
    lastSequence: sequence,
    transactions: transactionsIn(group, records.slice(index, index + 1)),
  };
}

function turnedBack(stored: Buffer, position: number): Buffer {
  const byte = Math.floor(position / 8);
  const mended = Buffer.from(stored);
  mended.writeUInt8(mended.readUInt8(byte) ^ (1 << (position % 8)), byte);
  return mended;
}

/** The header itself may be wrong: its first sequence is not believed. */
function manyBits(group: string, { records }: UnprovenBatch): Explanation {
  const explanation = 'more than one bit changed; these transactions can still be read in it';
  return { ...nothingKnown, explanation, transactions: transactionsIn(group, records) };
}

function outOfPlace(group: string, { batch, firstSequence, records }: UnprovenBatch): Explanation {
  const whole = `the bytes are whole: they say they are batch ${batch}`;
  if (records.length === 0) return { ...nothingKnown, explanation: `${whole}, without a record` };
  return {
    explanation: `${whole} from sequence ${firstSequence}`,
    firstSequence,
    lastSequence: firstSequence + records.length - 1,
    transactions: transactionsIn(group, records),
  };
}

/** The same where it is lost with one before it. */
function missing(data: Data, fault: Fault, looked: Looked): Explanation | Lost {
  const before = looked.get(nameOf(fault));
  if (before !== undefined && fault.batch >= before.from && fault.batch < before.upTo) return before.lost;
  const next = firstWhole(data, fault);
  const lost = lostBefore(data, fault, next);
  looked.set(nameOf(fault), { from: fault.batch, upTo: next?.batch ?? Infinity, lost });
  return lost;
}

function lostBefore(data: Data, fault: Fault, next: Batch | null): Explanation | Lost {
  const { group, partition, batch } = fault;
  const before = wholeAt(data, fault, batch - 1);
  // Behind one that is damaged, the fault has the earliest that it may be.
  const firstSequence = before === null ? fault.sequence : before.firstSequence + before.records.length;
  const lastSequence = next === null ? null : next.firstSequence - 1;
  if (lastSequence !== null && lastSequence < firstSequence) {
    return { ...nothingKnown, explanation: 'lost: no record, it had opened an epoch' };
  }
  return { group, partition, firstSequence, lastSequence };
}

/** The checkpoint knows what was last changed by a record that is lost. Its rows, which may be many, are read once for all that is lost
 *  of a partition. */
function lastChangedIn({ views }: Data, lost: readonly Lost[]): ReadonlyMap<Lost, readonly string[]> {
  const changed = new Map<Lost, string[]>(lost.map((each) => [each, []]));
  const ofAccounts = lost.filter(({ group }) => group === 'accounts');
  for (const [partition, each] of Map.groupBy(ofAccounts, (one) => one.partition)) {
    for (const { table, value } of views?.rows('accounts', partition) ?? []) {
      if (table !== 'transaction' || value === null) continue;
      const transaction = readable(decodeTransaction, value);
      if (transaction === null) continue;
      const { id, sequence } = transaction;
      for (const one of each) {
        if (sequence < one.firstSequence || sequence > (one.lastSequence ?? Infinity)) continue;
        changed.get(one)?.push(id);
      }
    }
  }
  return changed;
}

function explanationOf(lost: Lost, transactions: readonly string[]): Explanation {
  const { firstSequence, lastSequence } = lost;
  const known = transactions.length === 0 ? '' : '; by the checkpoint, these were last changed in it';
  const upTo = lastSequence === null ? ' on' : ` to ${lastSequence}`;
  const explanation = `lost: sequences ${firstSequence}${upTo}${known}`;
  return { explanation, ...rangeOf(lost), transactions };
}

function rangeOf({ firstSequence, lastSequence }: Lost): Pick<Explanation, 'firstSequence' | 'lastSequence'> {
  return { firstSequence, lastSequence };
}

/** Of each partition, the batches that were looked at last, none of which is whole, and what is lost with them. Where all behind is
 *  damaged, that is read once for all faults of the partition. */
type Looked = Map<
  string,
  { readonly from: number; readonly upTo: number; readonly lost: Explanation | Lost }
>;

/** The first behind it that is whole; null: none is, or where the log ends cannot be read. */
function firstWhole(data: Data, fault: Fault): Batch | null {
  const last = lastBatchOf(data, fault);
  for (let number = fault.batch + 1; number <= last; number += 1) {
    const said = wholeAt(data, fault, number);
    if (said !== null) return said;
  }
  return null;
}

/** The batch of that number as it was written; null: it is not there, or more of it than one bit has changed. */
function wholeAt(data: Data, fault: Fault, batch: number): Batch | null {
  const { group, partition } = fault;
  const stored = batch === 0 ? undefined : storedOf(data, fault, batch);
  const said = stored === undefined ? null : unprovenIn(stored);
  if (stored === undefined || said === null) return null;
  try {
    return decodeBatch(mendedOf(stored, said), { group, partition, batch });
  } catch (error) {
    if (error instanceof LogCorruption) return null;
    throw error;
  }
}

/** With the one bit that has turned over turned back; as it is where there is no such bit. */
function mendedOf(stored: Buffer, { syndrome, coveredBytes }: UnprovenBatch): Buffer {
  if (syndrome === 0) return stored;
  const ofCrc = isOfStoredCrc(syndrome) ? coveredBytes * 8 + Math.log2(syndrome) : null;
  const position = ofCrc ?? turnedBit(syndrome, coveredBytes * 8);
  return position === null ? stored : turnedBack(stored, position);
}

function lastBatchOf({ log }: Data, { group, partition }: Fault): number {
  try {
    return log.lastBatchNumber(group, partition);
  } catch (error) {
    if (error instanceof LogCorruption) return 0;
    throw error;
  }
}

/** Of the lines that can still be read. */
function transactionsIn(group: string, lines: readonly string[]): string[] {
  return [...new Set(lines.flatMap((line) => readable((text) => idsIn(group, text), line) ?? []))];
}

function idsIn(group: string, line: string): string[] {
  const record: unknown = groupOf(group).decode(line);
  return group === 'accounts' ? idsOf(record as AccountRecord) : heardIn(record as WebhookRecord);
}

function readable<T>(decode: (text: string) => T, text: string): T | null {
  try {
    return decode(text);
  } catch (error) {
    // It is damaged: that is why it is looked at.
    if (error instanceof Error) return null;
    throw error;
  }
}

function idsOf({ events }: AccountRecord): string[] {
  return events.flatMap((event) => ('id' in event && isTransactionId(event.id) ? [event.id] : []));
}

function heardIn(record: WebhookRecord): string[] {
  return record.type === 'EventsTaken' ? record.events.map(({ transactionId }) => transactionId) : [];
}

/** Of CRC32C: Castagnoli's, bits reversed. */
const polynomial = 0x82_f6_3b_78;

/** The bit whose turning changes the sum by `syndrome`, counted from the first byte's lowest; null: no single one. */
function turnedBit(syndrome: number, bits: number): number | null {
  let effect = 1;
  for (let fromEnd = 1; fromEnd <= bits; fromEnd += 1) {
    effect = (effect >>> 1) ^ ((effect & 1) === 1 ? polynomial : 0);
    if (effect >>> 0 === syndrome) return bits - fromEnd;
  }
  return null;
}
