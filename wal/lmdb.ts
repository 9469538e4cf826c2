// The one file that knows lmdb-js: opens its environments, with the options that durability needs, and turns its
// failures into errors. See README.md, "What lmdb-js promises", for what was read in its source.
//
// `overlappingSync` must stay false: a commit is then visible and resolved only after fdatasync and the synchronous
// write of the meta page, and its failure rejects. With it, a failed sync leaves `flushed` pending for ever.
import { open } from 'lmdb';
import type { RootDatabase } from 'lmdb';
import { accessSync, constants, existsSync, rmSync, statfsSync, statSync, truncateSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type GatedFile, throughGate } from './commit-gate.ts';
import { WAL_LIMITS } from './limits.ts';
import { makeWithParents } from './make-with-parents.ts';
import { assertMetaPages, isOfViews, UnusableFile } from './meta-pages.ts';
import { unfinishedProblem, type Unfinished } from './unfinished.ts';
import { within } from './within.ts';
import { messageOf } from './thrown.ts';

/** [group, partition, batch]: ordered by group, then partition, then batch. */
export type LogKey = [string, number, number];

export type LogDatabase = RootDatabase<Buffer, LogKey>;
export type ViewsDatabase = RootDatabase<string, string>;

export interface OpenOptions {
  readonly directory: string;
  readonly readOnly?: boolean;
}

export interface OpenViewsOptions extends OpenOptions {
  /** Nobody opens them again: what is committed is not waited for until the disk has it. */
  readonly temporary?: boolean;
}

export interface OpenLogOptions extends OpenOptions {
  /** Address space to reserve at first; it grows by itself. */
  readonly mapBytes?: number;
  /** For a tool that opens what it has not finished itself. A restore that writes begins with none. */
  readonly unfinished?: Unfinished | null;
}

export function openLogDatabase({
  directory,
  readOnly = false,
  mapBytes = WAL_LIMITS.logMapBytes,
  unfinished = null,
}: OpenLogOptions): LogDatabase {
  const problem = unfinishedProblem(directory, unfinished);
  if (problem !== null) throw new Error(problem);
  // LMDB would make the directory, and say that it cannot open its main database file.
  if (readOnly && isMissing(logFile(directory))) throw new Error(`${directory} holds no log`);
  if (unfinished === 'restore' && !readOnly) {
    for (const file of filesIn(join(directory, 'log'))) rmSync(file, { force: true });
  }
  for (const file of filesIn(join(directory, 'log'))) assertFile(file);
  if (hasLog(directory)) assertMetaPages(logFile(directory));
  const database = open<Buffer, LogKey>({
    path: pathFor(directory, 'log', readOnly),
    encoding: 'binary',
    mapSize: mapBytes,
    ...commonOptions(readOnly),
  });
  assertWhole(database, logFile(directory));
  assertKeys(database, logFile(directory), {}, isLogKey);
  return database;
}

/** Of a damaged page, a key may be anything. */
export function isLogKey(key: unknown): key is LogKey {
  const [group, partition, batch] = Array.isArray(key) ? (key as unknown[]) : [];
  return typeof group === 'string' && Number.isInteger(partition) && Number.isInteger(batch);
}

/** Another file of LMDB's, put in its place: nothing would be found in it, or something that is none of it, for ever. */
function assertKeys<K extends LogKey | string, V>(
  database: RootDatabase<V, K>,
  file: string,
  all: { readonly start?: K },
  isKey: (key: unknown) => boolean,
): void {
  const keys = database.getKeys({ ...all, limit: 1 })[Symbol.iterator]();
  try {
    const { done, value } = keys.next();
    if (done === true || isKey(value)) return;
  } catch (error) {
    // Whoever looks for something there is told.
    if (isPageFault(error)) return;
    throw error;
  } finally {
    keys.return?.();
  }
  void database.close();
  throw new UnusableFile(file, "is another of LMDB's files than belongs there");
}

/** Reading a mapped page behind the end of the file would kill the process without a word. */
function assertWhole(database: LogDatabase, file: string): void {
  const transaction = database.useReadTransaction();
  const wanted = bytesOfPages(database);
  transaction.done();
  const { size } = statSync(file);
  if (size >= wanted) return;
  void database.close();
  throw new UnusableFile(file, `was cut off: ${size} bytes, where its pages need ${wanted}`);
}

function bytesOfPages(database: LogDatabase): number {
  const { lastPageNumber, pageSize } = database.getStats() as { lastPageNumber: number; pageSize: number };
  return (lastPageNumber + 1) * pageSize;
}

/** Before removals: they may leave the last pages free and never written, and the file shorter than its pages. The room
 *  is a hole in the file and takes no disk. In a transaction, since a commit that made the file longer between the two
 *  calls would be cut off again. */
export async function makeRoom(database: LogDatabase, directory: string, msMax?: number): Promise<void> {
  const file = logFile(directory);
  const make = () =>
    database.transaction(() => {
      const wanted = bytesOfPages(database) + WAL_LIMITS.removalRoomBytes;
      if (statSync(file).size < wanted) truncateSync(file, wanted);
    });
  const made = throughGate('log', make);
  await ended(database, made, msMax);
}

/** Somebody has written a log there. */
export function hasLog(directory: string): boolean {
  return isThere(logFile(directory));
}

export function hasViews(directory: string): boolean {
  return isThere(viewsFile(directory));
}

/** Throws where it cannot be told: what may not be looked at is not absent. */
function isThere(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) !== undefined;
}

/** Or has no byte yet, of which nothing can be read. */
function isMissing(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

function logFile(directory: string): string {
  return join(directory, 'log', 'data.mdb');
}

function viewsFile(directory: string): string {
  return join(directory, 'views', 'data.mdb');
}

export function openViewsDatabase({
  directory,
  readOnly = false,
  temporary = false,
}: OpenViewsOptions): ViewsDatabase {
  if (readOnly && isMissing(viewsFile(directory))) throw new Error(`${directory} holds no views`);
  for (const file of filesIn(join(directory, 'views'))) assertFile(file);
  if (hasViews(directory)) assertMetaPages(viewsFile(directory));
  const database = open<string, string>({
    path: pathFor(directory, 'views', readOnly),
    encoding: 'string',
    keyEncoder: utf8Keys,
    mapSize: WAL_LIMITS.viewsMapBytes,
    noSync: temporary,
    ...commonOptions(readOnly),
  });
  assertKeys(database, viewsFile(directory), { start: '\0' }, (key) =>
    /^[a-z][a-z0-9_-]*\/\d/.test(String(key)),
  );
  return database;
}

/** Plain UTF-8: in the order of its bytes, and written by native code, which long keys need. */
const utf8Keys = {
  writeKey: (key: string, target: Buffer, start: number): number => start + target.write(key, start),
  readKey: (source: Buffer, start: number, end: number): string => source.toString('utf8', start, end),
};

function commonOptions(readOnly: boolean) {
  return {
    readOnly,
    overlappingSync: false,
    // Every write is one `batch`. With turn batching, a failed commit also rejects a promise nobody can handle.
    eventTurnBatching: false,
    // See `written`.
    txnStartThreshold: 1,
    // Not before a batch is whole: the thread that writes would follow it while it is made, and be woken for each of its rows.
    batchStartThreshold: Infinity,
    maxReaders: WAL_LIMITS.readersMax,
    maxDbs: 1,
  } as const;
}

function pathFor(directory: string, name: string, readOnly: boolean): string {
  const path = join(directory, name);
  if (readOnly) {
    if (!mayLock(path)) return path;
  } else {
    // Money: nobody else on the machine reads it.
    makeWithParents(path);
    assertWritable(path);
  }
  assertRoom(path);
  return path;
}

/** Where its disk is mounted read-only: whoever writes it elsewhere does not know of who reads it here. */
export function isLogUnlocked(directory: string): boolean {
  return !mayLock(join(directory, 'log'));
}

/** Who reads takes part in LMDB's lock, or beside a writer is given pages that are written anew meanwhile, and finds a sound log
 *  with half its partitions. False: the disk is read-only, and LMDB reads without. */
function mayLock(path: string): boolean {
  const lock = join(path, 'lock.mdb');
  try {
    accessSync(isThere(lock) ? lock : path, constants.R_OK | constants.W_OK);
    return true;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EROFS') return false;
    const why = 'whoever may not write it cannot read beside a service; be the user of the service';
    throw new Error(`${lock} is needed to read what lies beside it (${code}): ${why}`, { cause: error });
  }
}

/** lmdb-js ends the process, by SIGSEGV, where it is anything else. */
function assertFile(file: string): void {
  const isFile = statSync(file, { throwIfNoEntry: false })?.isFile() ?? true;
  if (!isFile) throw new UnusableFile(file, 'is no file');
}

/** One that another user has made, root's tools on a stopped service: where lmdb-js may not write its lock file, it ends the process
 *  by SIGSEGV. */
function assertWritable(path: string): void {
  for (const file of filesIn(path)) {
    if (isThere(file)) accessSync(file, constants.R_OK | constants.W_OK);
  }
}

/** That LMDB makes. */
function filesIn(path: string): string[] {
  return ['data.mdb', 'lock.mdb'].map((file) => join(path, file));
}

/** For the files that LMDB makes: it maps them before they have a block of the disk, and without one for them the process
 *  is ended by SIGBUS, or by SIGSEGV in lmdb-js. */
function assertRoom(path: string): void {
  if (filesIn(path).every((file) => !isMissing(file))) return;
  const { bavail, bsize } = statfsSync(path);
  if (bavail * bsize >= WAL_LIMITS.newFilesBytes) return;
  const message = `ENOSPC: no space left on the disk of ${path} for a new LMDB file`;
  throw Object.assign(new Error(message), { code: 'ENOSPC', path });
}

/** LMDB writes no page anew that somebody may still read; who was killed as it read leaves its place behind, and the file would
 *  grow with every commit until that is looked for: by lmdb-js every ten minutes. */
export function forgetKilledReaders(database: Pick<RootDatabase, 'readerCheck'>): void {
  database.readerCheck();
}

export interface Write<K, V> {
  readonly key: K;
  /** null removes the key. */
  readonly value: V | null;
}

/** Writes all in one transaction; resolves when they are on disk, rejects with the reason when they are not, or when it is
 *  not known after `msMax`. The keys are known to be good: an error halfway would leave the first half to be committed. None of
 *  these functions waits with `writes` in its hands: lmdb-js has their bytes, and many live until the disk has them. */
export function commitDurably<K extends LogKey | string, V extends Buffer | string>(
  database: RootDatabase<V, K>,
  writes: readonly Write<K, V>[],
  msMax?: number,
): Promise<void> {
  const commit = (): Promise<void> => flushed(database, written(database, writes));
  return ended(database, throughGate(gatedFileOf(database), commit), msMax);
}

function gatedFileOf(database: object): GatedFile {
  return isOfViews(fileOf(database)) ? 'views' : 'log';
}

function written<K extends LogKey | string, V extends Buffer | string>(
  database: RootDatabase<V, K>,
  writes: readonly Write<K, V>[],
): Promise<unknown> {
  const put = (): void => {
    for (const { key, value } of writes) {
      void (value === null ? database.remove(key) : database.put(key, value));
    }
  };
  // Not async, see above; what is thrown rejects all the same.
  return new Promise((resolve) => {
    // By itself lmdb-js begins when the turn has ended. A second operation exceeds `txnStartThreshold`, and the disk begins now.
    resolve(Promise.all([database.batch(put), database.batch(nothing)]));
  });
}

function nothing(): void {}

async function flushed(database: Pick<RootDatabase, 'flushed'>, committed: Promise<unknown>): Promise<void> {
  await committed;
  // The same moment with overlappingSync off; it keeps the promise if a later lmdb-js changes what a commit means.
  await database.flushed;
}

async function ended(
  database: object,
  done: Promise<void>,
  msMax: number = WAL_LIMITS.commitMsMax,
): Promise<void> {
  try {
    // lmdb-js says nothing when it cannot even begin its transaction.
    await within(msMax, done, `the commit has not ended in ${msMax} ms`);
  } catch (error) {
    const reason = await reasonOf(error);
    const file = fileOf(database);
    throw new Error(`LMDB did not commit to ${file}: ${reason}${roomAfter(reason, file)}`, { cause: error });
  }
}

/** LMDB says EIO also of a write of which the disk took a part, and that is what one does that is filling up. */
function roomAfter(reason: string, file: string): string {
  if (!reason.startsWith('Input/output error')) return '';
  // Files that only their process needs may have lost their names, and their directory.
  let path = dirname(file);
  while (!existsSync(path)) path = dirname(path);
  const { bavail, bsize } = statfsSync(path);
  return ` (its disk has ${Math.floor((bavail * bsize) / 1024 / 1024)} MiB free)`;
}

/** A search backwards that met one of the others goes on in the transaction that has failed with it. */
const badTransaction = -30_782;
/** LMDB's MDB_PAGE_NOTFOUND, MDB_CORRUPTED and MDB_CURSOR_FULL: what it finds is not what its file says should be there. */
const pageFaults = [-30_797, -30_796, -30_787, badTransaction];

/** What LMDB has found, and does not know to be damaged. */
export class PageFault extends Error {
  /** MDB_CORRUPTED. */
  readonly code = -30_796;
}

/** What was read lies in a damaged page of the file, or behind one. Nothing more is read in the transaction that met it. */
export function isPageFault(error: unknown): error is Error {
  return error instanceof Error && pageFaults.includes((error as { code?: unknown }).code as number);
}

/** In LMDB's words, where they say something. */
export function pageFaultText({ message, code }: Error & { code?: unknown }): string {
  return code === badTransaction ? 'MDB_CORRUPTED' : withoutPast(message);
}

/** Behind an error LMDB says what it has met before it, in this process. When a file is opened once more, to be read, that is this, and
 *  nothing is wrong. */
function withoutPast(reason: string): string {
  return reason.replace(/: Attempting to setup locks after open$/, '');
}

export function fileOf(database: object): string {
  return join((database as { env: { path: string } }).env.path, 'data.mdb');
}

/** lmdb-js rejects first, and tells why in a promise beside it: when its thread has ended, which a busy machine may let wait. */
async function reasonOf(error: unknown): Promise<string> {
  const told: unknown = Object(error).commitError ?? error;
  const reason = Promise.resolve(told).catch(messageOf);
  const said = await within(WAL_LIMITS.commitReasonMsMax, reason, messageOf(error)).catch(messageOf);
  return withoutPast(messageOf(said));
}
