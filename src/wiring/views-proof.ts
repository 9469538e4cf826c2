// A start that a damaged views file cannot end twice. Views are made from the log and may be made again, but LMDB trusts its
// file: reading what was cut off or overwritten can end the process without a word, and the next start would read it again.
//
// So each start leaves a mark until it has come through. One that finds the mark of the start before reads all views first,
// in a process of its own; when that one does not live, they are set aside, kept for whoever wants to know, and made anew.
// It has a minute: whoever waits for the service does not wait for more.

import { spawn } from 'node:child_process';
import { existsSync, renameSync, rm, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasViews } from '../../wal/lmdb.ts';
import { LIMITS } from '../limits.ts';
import type { Log } from '../observability/log.ts';

const MARK_FILE = 'starting';
/** Of the reader. */
export const UNREADABLE = 3;
/** What reading a damaged file can end in. */
const DEATHS: readonly (NodeJS.Signals | null)[] = ['SIGBUS', 'SIGSEGV', 'SIGABRT', 'SIGILL', 'SIGTRAP'];
const READER = fileURLToPath(new URL('views-reader.ts', import.meta.url));

export interface ViewsProof {
  /** The process ends as it should. */
  end(): void;
}

/** Before anybody opens the views of `directory`, whose lock is held. */
export async function proveViews(directory: string, log: Log): Promise<ViewsProof> {
  const mark = join(directory, MARK_FILE);
  const views = join(directory, 'views');
  if (existsSync(mark) && hasViews(directory)) {
    log.warn({}, 'the last start did not come through: the views are read once before they are used');
    const failure = await failureOfReading(directory);
    if (failure?.isDamaged === false) {
      log.warn(
        { ending: failure.ending },
        'the views were not read to their end; they are used all the same',
      );
    }
    if (failure?.isDamaged === true) {
      const problem = failure.ending;
      const setAside = `${views}.damaged-${new Date().toISOString().replaceAll(':', '-')}`;
      renameSync(views, setAside);
      log.error(
        { problem, set_aside: setAside },
        'the views cannot be read and were set aside; they are made anew from the log',
      );
    }
  }
  try {
    writeFileSync(mark, '');
  } catch (error) {
    log.warn({ err: error }, 'no mark of this start could be left beside the views');
  }
  const forget = (): void => {
    clearTimeout(passed);
    process.off('exit', onExit);
  };
  const end = (): void => {
    forget();
    rmSync(mark, { force: true });
  };
  // Told to stop while it starts.
  const onExit = (status: number): void => {
    if (status === 0) end();
  };
  process.on('exit', onExit);
  const passed = setTimeout(() => {
    forget();
    // Not waited for: the disk may hang, and the service may not.
    rm(mark, { force: true }, (error) => {
      if (error !== null) log.warn({ err: error }, 'the mark of this start could not be removed');
    });
  }, LIMITS.startProvenMs);
  passed.unref();
  return { end };
}

export interface ReadingFailure {
  /** False: there was no time for all rows, or the reader could not do its work for another reason. */
  readonly isDamaged: boolean;
  readonly ending: string;
}

/** Reads all views in a process of its own. Null: every row was read. */
export function failureOfReading(directory: string): Promise<ReadingFailure | null> {
  return new Promise((resolve, reject) => {
    const reader = spawn(process.execPath, [READER, directory], { stdio: ['ignore', 'ignore', 'pipe'] });
    let words = '';
    reader.stderr.setEncoding('utf8').on('data', (text: string) => {
      words = (words + text).slice(-LIMITS.lastWordsMax);
    });
    const late = setTimeout(() => reader.kill('SIGKILL'), LIMITS.viewsReadMs);
    reader.once('error', reject);
    reader.once('close', (status, signal) => {
      clearTimeout(late);
      const ending = `${signal ?? `exit status ${status}`} ${words}`.trim();
      const isDamaged = status === UNREADABLE || DEATHS.includes(signal);
      resolve(status === 0 ? null : { isDamaged, ending });
    });
  });
}
