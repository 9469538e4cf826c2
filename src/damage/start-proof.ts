// Keeps damaged files from ending one start after another: reading what was cut off or overwritten can end the process without a word,
// and the next start would read it again.
//
// So each start leaves a mark until it has come through. A start that finds the mark of the one before has the log and the views read
// first (files-proof.ts). What cannot be read of the log is refused, like any other damage, and the rest is served. Damaged views are
// set aside, kept for whoever wants to know, and made anew from the log. The reading has a minute: nobody should wait longer for the
// service.

import { existsSync, renameSync, rm, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasLog, hasViews } from '../../wal/lmdb.ts';
import { noteUnreadable } from '../../wal/unreadable.ts';
import { LIMITS } from '../limits.ts';
import type { Log } from '../observability/log.ts';
import { DataDirectoryError } from '../data-directory/identity.ts';
import { proveFiles } from './files-proof.ts';

const MARK_FILE = 'starting';
/** By which the system refuses a file to whoever may not have it, or has no room for it. */
const REFUSALS = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT'];

export interface StartProof {
  /** The service is there, however long that took: the views, and the log where they were made from it, have been read. */
  cameThrough(): void;
  /** The process ends as it should. */
  end(): void;
  /** The start ends with this error. One that is no fault of what the files hold is told, mended and tried again, perhaps many times: the
   *  next start need not read them first. */
  endBy(error: unknown): void;
}

/** Before anybody opens the log or the views of `directory`, whose lock is held. Throws DataDirectoryError when the log cannot be
 *  opened. */
export async function proveStart(directory: string, log: Log): Promise<StartProof> {
  const mark = join(directory, MARK_FILE);
  const isSuspected = existsSync(mark) && (hasLog(directory) || hasViews(directory));
  const staysDamaged = isSuspected && (await readFirst(directory, log));
  try {
    writeFileSync(mark, '');
  } catch (error) {
    log.warn({ err: error }, 'no mark of this start could be left beside the views');
  }
  let passed: NodeJS.Timeout | undefined;
  const forget = (): void => {
    clearTimeout(passed);
    process.off('exit', onExit);
  };
  const end = (): void => {
    forget();
    // What the log has that ends a process would end the next start.
    if (!staysDamaged) rmSync(mark, { force: true });
  };
  // Told to stop while it starts.
  const onExit = (status: number): void => {
    if (status === 0) end();
  };
  process.on('exit', onExit);
  const removeMark = (): void => {
    forget();
    if (staysDamaged) return;
    // Not waited for: the disk may hang, and the service may not.
    rm(mark, { force: true }, (error) => {
      if (error !== null) log.warn({ err: error }, 'the mark of this start could not be removed');
    });
  };
  const cameThrough = (): void => {
    passed = setTimeout(removeMark, LIMITS.startProvenMs).unref();
  };
  const endBy = (error: unknown): void => {
    // Of LMDB's own errors the codes are numbers. What one before it may have ended was perhaps not read to its end.
    const { code } = Object(error) as { readonly code?: unknown };
    const isRefused = !isSuspected && REFUSALS.includes(String(code));
    if (error instanceof DataDirectoryError || isRefused) end();
  };
  return { cameThrough, end, endBy };
}

/** Resolves with whether some of the log cannot be read. */
async function readFirst(directory: string, log: Log): Promise<boolean> {
  log.warn(
    {},
    'the last start did not come through: the log and the views are read once before they are used',
  );
  const { unreadable, log: problem, unread } = await proveFiles(directory, LIMITS.filesReadMs);
  if (problem !== null) {
    throw new DataDirectoryError(
      `the log in ${directory} cannot be opened: a process that does is ended (${problem}). Restore it from a backup.`,
    );
  }
  if (unread.length > 0) {
    log.warn({ unread }, 'not all was read to its end; it is used all the same');
  }
  if (unreadable.views !== null) setAside(join(directory, 'views'), unreadable.views, log);
  if (unreadable.places.length === 0) return false;
  noteUnreadable(directory, { ...unreadable, views: null });
  return true;
}

function setAside(views: string, problem: string, log: Log): void {
  const aside = `${views}.damaged-${new Date().toISOString().replaceAll(':', '-')}`;
  renameSync(views, aside);
  log.error(
    { problem, set_aside: aside },
    'the views cannot be read and were set aside; they are made anew from the log',
  );
}
