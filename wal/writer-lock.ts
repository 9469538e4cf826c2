// One process writes a log: two would each continue the chain from the same tip, and one of them would be lost. So with a
// directory of segments. A file in the directory names the writer; a writer that was killed leaves it behind, and the next
// one sees that it is dead.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export class WriterLock {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Throws when another live process, or this one, holds it. */
  static take(directory: string): WriterLock {
    const path = join(directory, 'writer.lock');
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const mine = `${process.pid} ${startOf(process.pid) ?? ''}`;
    const holder = holderOf(path);
    if (holder !== null) {
      throw new Error(`${directory} is being written by process ${holder}`);
    }
    rmSync(path, { force: true });
    // Exclusive: of two that start at the same time, one fails here.
    writeFileSync(path, mine, { flag: 'wx', mode: 0o600 });
    return new WriterLock(path);
  }

  release(): void {
    rmSync(this.#path, { force: true });
  }
}

/** The live process that holds it; null: none does. */
function holderOf(path: string): string | null {
  const text = readOrNull(path);
  if (text === null) return null;
  const [pid = '', start = ''] = text.split(' ');
  const now = startOf(Number(pid));
  // Another process may have got the number since: then it started at another time.
  return now !== null && (start === '' || now === start) ? pid : null;
}

/** When a live process started, in the system's ticks; '' where the system does not say; null: there is none. */
function startOf(pid: number): string | null {
  if (process.platform !== 'linux') return isAlive(pid) ? '' : null;
  const stat = readOrNull(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // proc(5): after the name in parentheses come the state, field 3, and the start time, field 22.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? '');
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return Object(error).code === 'EPERM';
  }
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(Object(error).code)) return null;
    throw error;
  }
}
