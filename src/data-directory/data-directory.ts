// The data directory: one process at a time, a partition count that never changes after it was made, and room to write.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { hasLog } from '../../wal/lmdb.ts';
import { makeWithParents } from '../../wal/make-with-parents.ts';
import { holdDirectory, type HeldDirectory } from '../../wal/directory-socket.ts';
import { unfinishedProblem } from '../../wal/unfinished.ts';
import type { Config, RailsSetting } from '../config.ts';
import type { Log } from '../observability/log.ts';
import { MASTER_KEY_FILE, type Secrets } from '../secrets.ts';
import {
  DataDirectoryError,
  type DataIdentity,
  FORMAT,
  IDENTITY_FILE,
  type Money,
  readIdentity,
  writeIdentity,
} from './identity.ts';
import { DiskSpace, type DiskSpaceOptions } from './disk-space.ts';

export interface DataDirectory {
  readonly path: string;
  /** As it was when it was opened, or made. */
  readonly identity: DataIdentity;
  readonly space: DiskSpace;
  /** Lets another process use it. */
  readonly release: () => Promise<void>;
}

/** Makes it if it is absent. Throws DataDirectoryError if it is in use, was made with another number of partitions, lacks a file that was
 *  made with it, or has a log whose restore or import did not end; or if it would have to be made on a disk that is short. */
export async function openDataDirectory(
  { dataDir: path, partitions, masterKey, diskReserveBytes: reserveBytes }: Config,
  { onChange, onError }: Pick<DiskSpaceOptions, 'onChange' | 'onError'>,
): Promise<DataDirectory> {
  makeDirectory(path);
  const lock = await takeLock(path);
  const space = new DiskSpace({ directory: path, reserveBytes, onChange, onError });
  const release = (): Promise<void> => {
    space.stop();
    return lock.release();
  };
  try {
    const unfinished = unfinishedProblem(path);
    if (unfinished !== null) throw new DataDirectoryError(unfinished);
    const identity = openIdentity(path, partitions, space);
    if (masterKey === null) requireBesideLog(path, MASTER_KEY_FILE);
    return { path, identity, space, release };
  } catch (error) {
    await release();
    throw error;
  }
}

/** An empty directory is served like any other, and all that callers ask for is not there. */
export function tellIfEmpty({ path }: DataDirectory, log: Log): void {
  if (hasLog(path)) return;
  log.info({}, `a log is begun in ${path}, where none was: if one should be, its volume is not mounted`);
}

/** The same where nobody else has what is lost here: one that says of itself that its log may have records has had one. Releases the
 *  directory before it throws DataDirectoryError. */
export async function checkLog(directory: DataDirectory, log: Log): Promise<void> {
  const { path, identity } = directory;
  if (identity.records === 0 || hasLog(path)) return tellIfEmpty(directory, log);
  return refuse(
    directory,
    `${path} has had a log, as ${IDENTITY_FILE} says, and none is there: restore it from a backup into an empty directory, and put ` +
      `the kept files beside it after that. To begin with nothing, remove ${join(path, IDENTITY_FILE)}.`,
  );
}

async function refuse({ release }: DataDirectory, problem: string): Promise<never> {
  await release();
  throw new DataDirectoryError(problem);
}

function makeDirectory(path: string): void {
  try {
    makeWithParents(path);
  } catch (error) {
    throw new DataDirectoryError(`${path} cannot be a data directory: ${(error as Error).message}`);
  }
}

function openIdentity(path: string, partitions: number, { shortage }: DiskSpace): DataIdentity {
  const identity = readIdentity(path);
  if (identity === null) {
    requireBesideLog(path, IDENTITY_FILE);
    if (shortage !== null) throw new DataDirectoryError(`${shortage}, or choose another disk with DATA_DIR.`);
    const made = { format: FORMAT, partitions, masterKey: null, records: 0, money: null, cluster: false };
    writeIdentity(path, made);
    return made;
  }
  if (identity.partitions !== partitions) {
    throw new DataDirectoryError(
      `${path} was made with PARTITIONS=${identity.partitions} and cannot be opened with ${partitions}: ` +
        `an account's partition never changes. Set PARTITIONS=${identity.partitions}.`,
    );
  }
  return identity;
}

/** Whether nothing in the directory, which may not be there, can be sealed with another key: it says that this one is its own, or
 *  has no log. Throws DataDirectoryError where it says that another is: no webhook could be signed. */
export function isMasterKeyKnown(
  path: string,
  { fingerprint }: Secrets,
  identity: DataIdentity | null = readIdentity(path),
): boolean {
  const noted = identity?.masterKey ?? null;
  if (noted !== null && noted !== fingerprint) throw anotherMasterKey(path, fingerprint);
  return noted !== null || !hasLog(path);
}

/** The same of the directory that is to be used, and is begun with this key where it has no log; released before it throws. */
export async function checkMasterKey(directory: DataDirectory, secrets: Secrets): Promise<boolean> {
  try {
    const isKnown = isMasterKeyKnown(directory.path, secrets, directory.identity);
    if (isKnown) noteMasterKey(directory, secrets);
    return isKnown;
  } catch (error) {
    await directory.release();
    throw error;
  }
}

/** From now on it is started with this key alone. */
export function noteMasterKey(directory: DataDirectory, { fingerprint }: Secrets): void {
  if (directory.identity.masterKey !== fingerprint) note(directory, { masterKey: fingerprint });
}

/** What a simulator has paid in a provider would pay out; what it says that it has paid out nobody is sent. So where the one has moved
 *  money the other moves none: throws DataDirectoryError. */
export function checkMoney(directory: Noted, { type }: RailsSetting): void {
  const { path, identity } = directory;
  const money: Money = type === 'file' ? 'real' : 'simulated';
  if (identity.money === null) return note(directory, { money });
  if (identity.money === money) return;
  const file = join(path, IDENTITY_FILE);
  throw new DataDirectoryError(
    money === 'real'
      ? `${file} says that money is simulated there, and RAILS would pay it out: choose an empty directory with DATA_DIR. If it was ` +
          'real all the time, say "money": "real" there.'
      : `${file} says that money is real there, and RAILS=${type}, as it is unless it is set, moves none: set RAILS to the file of routes.`,
  );
}

/** From now on it is not started alone. */
export function noteCluster(directory: Noted): void {
  if (!directory.identity.cluster) note(directory, { cluster: true });
}

/** Beside a cluster that goes on from the same log, one process alone would pay what that pays too. Releases the directory before it
 *  throws DataDirectoryError. */
export async function checkAlone(directory: DataDirectory): Promise<void> {
  const { path, identity } = directory;
  if (!identity.cluster) return;
  return refuse(
    directory,
    `${path} is of a node of a cluster, as ${IDENTITY_FILE} says, and NATS_URL, which names its NATS, is not set: one process alone ` +
      'would pay what the cluster pays too. Set NATS_URL. If that cluster has ended for good, and no node of it had a later log, say ' +
      `"cluster": false in ${join(path, IDENTITY_FILE)}.`,
  );
}

/** As `writeFormat`, and noted before the first record of a newer format is made: a version that does not read it is refused from then
 *  on. Where the views have all records it would come upon none, and take what they say for what it knows. */
export function notingFormat(directory: DataDirectory, writeFormat: () => number): () => number {
  let { records } = directory.identity;
  return () => {
    const format = writeFormat();
    if (format > records) {
      note(directory, { records: format });
      records = format;
    }
    return format;
  };
}

type Noted = Pick<DataDirectory, 'path' | 'identity'>;

function note({ path, identity }: Noted, noted: Partial<DataIdentity>): void {
  writeIdentity(path, { ...(readIdentity(path) ?? identity), ...noted });
}

export function anotherMasterKey(path: string, fingerprint: string): DataDirectoryError {
  return new DataDirectoryError(
    `MASTER_KEY, or ${join(path, MASTER_KEY_FILE)}, is not the key that the secrets in ${path} are sealed with: put the one ` +
      `back that was kept with the backup. If it is lost for ever, say "masterKey": "${fingerprint}" in ${IDENTITY_FILE}, and ` +
      'connect each app anew.',
  );
}

/** What is made with the directory is not made a second time beside a log: it would be another one. */
function requireBesideLog(path: string, file: string): void {
  if (existsSync(join(path, file)) || !hasLog(path)) return;
  throw new DataDirectoryError(
    `${join(path, file)} is missing beside a log: put the one back that was kept with the backup.`,
  );
}

async function takeLock(path: string): Promise<HeldDirectory> {
  const held = await holdDirectory(path).catch((error: unknown) => {
    throw new DataDirectoryError(
      `cannot tell whether ${path} is in use: ${(error as Error).message}. The service's user must be able to write there.`,
    );
  });
  if (held !== null) return held;
  throw new DataDirectoryError(
    `${path} is in use by another process. Stop it, or choose another directory with DATA_DIR.`,
  );
}
