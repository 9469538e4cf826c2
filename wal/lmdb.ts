// The one file that knows lmdb-js: opens its environments, with the options that durability needs, and turns its
// failures into errors. See README.md, "What lmdb-js promises", for what was read in its source.
//
// `overlappingSync` must stay false: a commit is then visible and resolved only after fdatasync and the synchronous
// write of the meta page, and its failure rejects. With it, a failed sync leaves `flushed` pending for ever.
import { open } from 'lmdb';
import type { RootDatabase } from 'lmdb';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { WAL_LIMITS } from './limits.ts';

/** [group, partition, batch]: ordered by group, then partition, then batch. */
export type LogKey = [string, number, number];

export type LogDatabase = RootDatabase<Buffer, LogKey>;
export type ViewsDatabase = RootDatabase<string, string>;

export interface OpenOptions {
  readonly directory: string;
  readonly readOnly?: boolean;
  /** Address space to reserve at first; it grows by itself. */
  readonly mapBytes?: number;
}

export function openLogDatabase({ directory, readOnly = false, mapBytes }: OpenOptions): LogDatabase {
  return open<Buffer, LogKey>({
    path: pathFor(directory, 'log', readOnly),
    encoding: 'binary',
    mapSize: mapBytes ?? WAL_LIMITS.logMapBytes,
    ...commonOptions(readOnly),
  });
}

export function openViewsDatabase({ directory, readOnly = false, mapBytes }: OpenOptions): ViewsDatabase {
  return open<string, string>({
    path: pathFor(directory, 'views', readOnly),
    encoding: 'string',
    mapSize: mapBytes ?? WAL_LIMITS.viewsMapBytes,
    ...commonOptions(readOnly),
  });
}

function commonOptions(readOnly: boolean) {
  return {
    readOnly,
    overlappingSync: false,
    // Every write is one `batch`. With turn batching, a failed commit also rejects a promise nobody can handle.
    eventTurnBatching: false,
    maxReaders: WAL_LIMITS.readersMax,
    maxDbs: 1,
  } as const;
}

function pathFor(directory: string, name: string, readOnly: boolean): string {
  const path = join(directory, name);
  // Money: nobody else on the machine reads it.
  if (!readOnly) mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}

/** Runs `write` in one transaction; resolves when it is on disk, rejects with the reason when it is not.
 *  The database must not be written in another way. */
export async function commitDurably(database: LogDatabase | ViewsDatabase, write: () => void): Promise<void> {
  try {
    await database.batch(write);
    // The same moment with overlappingSync off; it keeps the promise if a later lmdb-js changes what a commit means.
    await database.flushed;
  } catch (error) {
    throw await reasonOf(error);
  }
}

/** lmdb-js rejects first, and tells why in a promise beside it a moment later. */
async function reasonOf(error: unknown): Promise<Error> {
  const commitError: unknown = Object(error).commitError;
  const unknown = new Promise<unknown>((resolve) => setImmediate(resolve, error));
  const reason = await Promise.race([Promise.resolve(commitError).catch((cause: unknown) => cause), unknown]);
  const message = reason instanceof Error ? reason.message : String(reason);
  return new Error(`LMDB did not commit: ${message}`, { cause: error });
}
