// One process writes a log: two would each continue the chain from the same tip, and one of them would be lost. So with a
// directory of segments. A file in the directory names the writer; a writer that was killed leaves it behind, and the next
// one sees that it is dead.
//
// Whoever would take it looks and writes under a claim, which only one can make: of two that both find the writer dead, the
// slower would otherwise remove what the faster has just written. A claim is held for an instant. It is a symbolic link that
// leads nowhere and says whose it is: made in one step, it never stands there without saying so.
import { closeSync, openSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeWithParents } from './make-with-parents.ts';
import { aliveIn, ownMark, readOrNull } from './process-mark.ts';
import { namingNow } from './thrown.ts';

/** In the directory that is written. */
export const lockFile = 'writer.lock';
/** Beside it. */
export const claimFile = `${lockFile}.claim`;

export class WriterLock {
  /** The one before was killed: it did not give the lock back. */
  readonly afterKilled: boolean;
  readonly #path: string;

  private constructor(path: string, afterKilled: boolean) {
    this.#path = path;
    this.afterKilled = afterKilled;
  }

  /** Throws when another live process, or this one, holds it. */
  static take(directory: string): WriterLock {
    const path = join(directory, lockFile);
    makeWithParents(directory);
    const mine = ownMark();
    const claim = join(directory, claimFile);
    makeClaim(claim, mine, directory);
    try {
      const text = readOrNull(path);
      const holder = text === null ? null : aliveIn(text);
      if (holder !== null) throw new Error(`${directory} is being written by process ${holder}`);
      writeLock(path, mine, text !== null);
      return new WriterLock(path, text !== null);
    } finally {
      rmSync(claim, { force: true });
    }
  }

  release(): void {
    rmSync(this.#path, { force: true });
  }

  /** Of one that has not come as far as whoever was killed before it: the next one finds it as this one did. An empty one is nobody's, and
   *  takes no room. */
  giveUp(): void {
    if (this.afterKilled) writeFileSync(this.#path, '');
    else this.release();
  }
}

function writeLock(path: string, mine: string, wasThere: boolean): void {
  try {
    namingNow(path, () => writeFileSync(path, mine, { mode: 0o600 }));
  } catch (error) {
    // A full disk: an empty one would look like that of a process that was killed.
    if (!wasThere) rmSync(path, { force: true });
    throw error;
  }
}

/** Throws while another process has it. One that was killed in that instant leaves it behind, and is seen to be dead. */
function makeClaim(path: string, mine: string, directory: string): void {
  while (!isMade(path, mine)) {
    const text = claimOrNull(path);
    if (text === null) continue;
    // Made as a file, and not written yet: nobody can tell whose it is.
    const holder = text === '' ? `that has just begun (if none has, remove ${path})` : aliveIn(text);
    if (holder !== null) throw new Error(`${directory} is being written by process ${holder}`);
    rmSync(path, { force: true });
  }
}

/** False: there is one. */
function isMade(path: string, mine: string): boolean {
  try {
    makeLink(path, mine);
    return true;
  } catch (error) {
    if (Object(error).code === 'EEXIST') return false;
    throw error;
  }
}

function makeLink(path: string, mine: string): void {
  try {
    symlinkSync(mine, path);
  } catch (error) {
    // A file system that has none, as a memory stick's.
    if (!['EPERM', 'ENOTSUP', 'ENOSYS'].includes(Object(error).code)) throw error;
    makeFile(path, mine);
  }
}

function makeFile(path: string, mine: string): void {
  const file = openSync(path, 'wx', 0o600);
  try {
    namingNow(path, () => writeFileSync(file, mine));
  } catch (error) {
    // A full disk: an empty one would be nobody's.
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

function claimOrNull(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (Object(error).code === 'EINVAL') return readOrNull(path);
    if (Object(error).code === 'ENOENT') return null;
    throw error;
  }
}
