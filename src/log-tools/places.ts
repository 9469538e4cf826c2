// Finding places in a partition's log by time. The times of records never fall within a partition, so a place is found by
// bisection: a handful of batches are read, however long the log is.

import { LogCorruption, tipAt } from '../../wal/batch.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import { groupOf, type Timed } from './data.ts';
import type { PartitionName } from '../../wal/types.ts';

export interface LogEnd {
  /** Of one whose last batches are damaged, their first: whoever reads as far as that is told of them. */
  readonly sequence: number;
  /** False: its last batches are damaged, and how many records they had is not known. */
  readonly isKnown: boolean;
}

/** Where the log ends. */
export function endOf(log: LogReader, { group, partition }: PartitionName): LogEnd {
  const last = log.lastBatchNumber(group, partition);
  const start = log.startOf(group, partition);
  for (let batch = last; batch > start.batch; batch -= 1) {
    try {
      const { sequence } = tipAt(log.batch(group, partition, batch));
      // The next has a record at least, but for one that opens an epoch.
      return batch === last ? { sequence, isKnown: true } : { sequence: sequence + 1, isKnown: false };
    } catch (error) {
      if (!(error instanceof LogCorruption)) throw error;
    }
  }
  // Where none of them is whole, it is not empty for that.
  return last > start.batch
    ? { sequence: start.sequence + 1, isKnown: false }
    : { sequence: start.sequence, isKnown: true };
}

/** The last sequence whose record is not later than `atMs`; what the log starts after when there is none. Where a damaged batch may have
 *  records of that time, its first: whoever reads as far as that is told of it. */
export function lastSequenceAt(log: LogReader, name: PartitionName, atMs: number): number {
  const { group, partition } = name;
  const start = log.startOf(group, partition);
  const number = firstBatchAfter(log, name, atMs);
  const isKnown = isReadable(log, name, number);
  if (number - 1 === start.batch) return isKnown ? start.sequence : start.sequence + 1;
  // It has a record, and begins in time.
  const { records, firstSequence } = log.batch(group, partition, number - 1);
  const inTime = records.findLastIndex((line) => timeOf(group, line) <= atMs);
  const isLast = inTime === records.length - 1;
  return firstSequence + inTime + (isLast && !isKnown ? 1 : 0);
}

/** False: between there and the next record a batch is damaged. */
function isReadable(log: LogReader, { group, partition }: PartitionName, batch: number): boolean {
  try {
    firstLineFrom(log, group, partition, batch, log.lastBatchNumber(group, partition) + 1);
    return true;
  } catch (error) {
    if (error instanceof LogCorruption) return false;
    throw error;
  }
}

/** A batch to read from so as to miss no record at or after `atMs`; one more than the last when there is none. */
export function batchToReadFrom(log: LogReader, name: PartitionName, atMs: number): number {
  const { group, partition } = name;
  const first = log.startOf(group, partition).batch + 1;
  return Math.max(first, firstBatchAfter(log, name, atMs - 1) - 1);
}

/** The first batch whose first record is later than `atMs`, or not known: it is damaged. */
function firstBatchAfter(log: LogReader, { group, partition }: PartitionName, atMs: number): number {
  let low = log.startOf(group, partition).batch + 1;
  let high = log.lastBatchNumber(group, partition) + 1;
  const end = high;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (firstTimeFrom(log, group, partition, middle, end) > atMs) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Time of the first record at or after a batch. Infinity where that is damaged: what is before it is looked at, and whoever comes to it
 *  is told. */
function firstTimeFrom(log: LogReader, group: string, partition: number, batch: number, end: number): number {
  try {
    const line = firstLineFrom(log, group, partition, batch, end);
    return line === undefined ? Infinity : timeOf(group, line);
  } catch (error) {
    if (error instanceof LogCorruption) return Infinity;
    throw error;
  }
}

/** The first record at or after a batch: some batches only open an epoch. */
function firstLineFrom(
  log: LogReader,
  group: string,
  partition: number,
  batch: number,
  end: number,
): string | undefined {
  for (let number = batch; number < end; number += 1) {
    const [line] = log.batch(group, partition, number).records;
    if (line !== undefined) return line;
  }
  return undefined;
}

function timeOf(group: string, line: string): number {
  return (groupOf(group).decode(line) as Timed).at;
}
