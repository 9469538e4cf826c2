// What a data directory says of itself: its format, the newest format of its records, and what never changes after it was made: its
// number of partitions, the master key, whether its money is real, and whether others may have gone on from its log.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LogCorruption } from '../../wal/batch.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import { nameOf, type PartitionName } from '../../wal/types.ts';
import { type GroupName, partitionOf, type PartitionPlace } from '../bus/bus.ts';
import { decodeRecord, RecordUnreadable } from '../domain/event-codec.ts';
import { RECORD_FORMATS } from '../domain/record-format.ts';
import { LIMITS } from '../limits.ts';
import { writeWholeFile } from './whole-file.ts';

export const IDENTITY_FILE = 'daftari.json';
export const FORMAT = 1;

export interface DataIdentity {
  readonly format: number;
  readonly partitions: number;
  /** Fingerprint of the key that its secrets are sealed with. Null: made before it was noted, or not begun. */
  readonly masterKey: string | null;
  /** The newest format that its log may have records of. 0: made before it was noted, or not begun. */
  readonly records: number;
  /** What has moved in it. Null: made before it was noted, or not begun. */
  readonly money: Money | null;
  /** A node of a cluster has written it: the others go on from what it had. */
  readonly cluster: boolean;
}

const FIELDS: Readonly<Record<keyof DataIdentity, true>> = {
  format: true,
  partitions: true,
  masterKey: true,
  records: true,
  money: true,
  cluster: true,
};

export const MONEY = ['real', 'simulated'] as const;
export type Money = (typeof MONEY)[number];

/** What can be wrong with a data directory, for the person who starts the service. */
export class DataDirectoryError extends Error {
  override readonly name = 'DataDirectoryError';
}

/** Of another version: nobody here knows what its records mean. */
export class OtherFormatError extends DataDirectoryError {}

/** Null: it says nothing. Throws DataDirectoryError when it cannot be understood, OtherFormatError when it is of another version. */
export function readIdentity(directory: string): DataIdentity | null {
  const found = fieldsIn(directory);
  if (found === null) return null;
  const { format, partitions, masterKey = null, records = 0, money: noted = null, cluster = false } = found;
  if (Number.isInteger(format) && format !== FORMAT) {
    throw new OtherFormatError(
      `${directory} has format ${String(format)}; this version reads format ${FORMAT}`,
    );
  }
  if (Number.isInteger(records) && (records as number) > RECORD_FORMATS.newest) {
    throw new OtherFormatError(
      `${directory} has records of format ${String(records)}; this version reads them up to format ` +
        `${RECORD_FORMATS.newest}: start the version that wrote them, or a newer one`,
    );
  }
  const money = MONEY.find((each) => each === noted) ?? null;
  const isWhole = format === FORMAT && isPartitionCount(partitions) && Number.isInteger(records);
  const areNotes = (masterKey === null || typeof masterKey === 'string') && typeof cluster === 'boolean';
  if (isWhole && areNotes && money === noted && !isMisnamed(found)) {
    return {
      format,
      partitions,
      masterKey,
      records: records as number,
      money,
      cluster,
    };
  }
  throw new DataDirectoryError(
    `${join(directory, IDENTITY_FILE)} is damaged: put the one back that was kept with the backup.`,
  );
}

/** As PARTITIONS may be: others would be looked for as long as memory lasts. */
function isPartitionCount(partitions: unknown): partitions is number {
  return (
    Number.isInteger(partitions) &&
    (partitions as number) >= 1 &&
    (partitions as number) <= LIMITS.partitionsMax
  );
}

/** A later version may say more than this one knows, and an earlier one said less; who says something else instead has lost a name. */
function isMisnamed(found: Record<string, unknown>): boolean {
  const saysMore = Object.keys(found).some((name) => !Object.hasOwn(FIELDS, name));
  return saysMore && !Object.keys(FIELDS).every((name) => Object.hasOwn(found, name));
}

/** What is wrong where a directory says this beside a log that was begun with another number of partitions: an account would be looked
 *  for, and begun anew, where it is not. Null: nothing. */
export function partitionsProblem(
  directory: string,
  { partitions }: DataIdentity,
  log: LogReader,
): string | null {
  const stray = strayIn(log, partitions);
  if (stray === null) return null;
  return (
    `${join(directory, IDENTITY_FILE)} says "partitions": ${partitions}, and the log has ${stray}: put the one back that ` +
    'was kept with the backup of this log'
  );
}

/** What a directory, as it says itself, has no place for of what is to be brought there; null: nothing. With it nothing there would be
 *  served. */
export function placeProblem(directory: string, names: readonly PartitionName[]): string | null {
  const partitions = partitionsNoted(directory);
  const beyond = partitions === null ? undefined : names.find((name) => isBeyond(name, partitions));
  if (beyond === undefined) return null;
  return (
    `${nameOf(beyond)} has no place in ${directory}, whose ${IDENTITY_FILE} says "partitions": ${partitions}: no service would start ` +
    'there any more. Is what it comes from of another installation?'
  );
}

function isBeyond({ group, partition }: PartitionName, partitions: number): boolean {
  return group !== 'platform' && partition >= partitions;
}

/** What no log has that was begun with so many partitions; null: there is nothing like it. */
function strayIn(log: LogReader, partitions: number): string | null {
  const names = log.partitionNames();
  const beyond = names.find((name) => isBeyond(name, partitions) && isOwn(log, name));
  if (beyond !== undefined) return nameOf(beyond);
  // With more than there were, none is beyond: those that lack are told as lost, and most accounts are looked for in others.
  for (const name of names.filter(({ group }) => group === 'accounts')) {
    const accountId = firstAccountIn(log, name);
    if (accountId === null || partitionOf(accountId, partitions) === name.partition) continue;
    return `${accountId} in ${nameOf(name)}`;
  }
  return null;
}

/** Null: it has none, or none that can be read, which is told elsewhere. */
function firstAccountIn(log: LogReader, { group, partition }: PartitionName): string | null {
  try {
    const { batch: afterBatch } = log.startOf(group, partition);
    for (const { records } of log.read(group, partition, { afterBatch })) {
      const [record] = records;
      if (record !== undefined) return decodeRecord(record).accountId;
    }
    return null;
  } catch (error) {
    if (error instanceof LogCorruption || error instanceof RecordUnreadable) return null;
    throw error;
  }
}

/** A bit that turned over in a key names a partition that nobody has; its batch says whose it is. */
function isOwn(log: LogReader, { group, partition }: PartitionName): boolean {
  try {
    return log.batch(group, partition, log.firstBatchNumber(group, partition)).partition === partition;
  } catch (error) {
    if (error instanceof LogCorruption) return false;
    throw error;
  }
}

/** Every partition that may have a log in it: as many as any directory has, where it does not say how many it has, or not so
 *  that it can be understood. */
export function placesIn(directory: string): PartitionPlace[] {
  return placesNoted(directory) ?? placesOf(LIMITS.partitionsMax);
}

/** Null: it does not say how many it has, or not so that it can be understood. */
export function placesNoted(directory: string): PartitionPlace[] | null {
  const partitions = partitionsNoted(directory);
  return partitions === null ? null : placesOf(partitions);
}

/** Every partition that has a log where there are so many. */
export function placesOf(partitions: number): PartitionPlace[] {
  const ofGroup = (group: GroupName, count: number): PartitionPlace[] =>
    Array.from({ length: count }, (_, partition) => ({ group, partition }));
  return [...ofGroup('accounts', partitions), ...ofGroup('platform', 1), ...ofGroup('webhooks', partitions)];
}

function partitionsNoted(directory: string): number | null {
  try {
    return readIdentity(directory)?.partitions ?? null;
  } catch (error) {
    if (error instanceof DataDirectoryError) return null;
    throw error;
  }
}

/** The newest format that its log may have records of, also one that this version does not read; null: it does not say. */
export function recordsNoted(directory: string): number | null {
  const records = fieldsIn(directory)?.['records'];
  return Number.isInteger(records) ? (records as number) : null;
}

/** What a later version says besides stays: it may be what keeps that from spoiling the data when it is started again. */
export function writeIdentity(directory: string, identity: DataIdentity): void {
  const said = { ...fieldsIn(directory), ...identity };
  writeWholeFile(join(directory, IDENTITY_FILE), `${JSON.stringify(said, null, 2)}\n`);
}

/** Of what is no JSON none; null: the file is not there. */
function fieldsIn(directory: string): Record<string, unknown> | null {
  const file = join(directory, IDENTITY_FILE);
  if (!existsSync(file)) return null;
  const text = readFileSync(file, 'utf8');
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return {};
  }
}
