// The mark of a log that a restore is writing: before all of it is there and proven, nobody may take it for the whole. A
// restore that was killed leaves the mark behind; whoever opens the log then is told instead of served half of it, and the next
// restore begins anew there.
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { makeWithParents } from './make-with-parents.ts';
import { syncDirectory } from './sync-directory.ts';
import { namingNow } from './thrown.ts';

const markOf = (directory: string): string => join(directory, 'log', 'unfinished');

export function markUnfinished(directory: string): void {
  makeWithParents(join(directory, 'log'));
  const mark = markOf(directory);
  namingNow(mark, () => writeFileSync(mark, '', { mode: 0o600, flush: true }));
}

export async function markFinished(directory: string): Promise<void> {
  rmSync(markOf(directory));
  // A power cut takes neither a name of what was restored, nor brings the mark back to a log that is served by then.
  for (const path of [join(directory, 'log'), directory, dirname(resolve(directory))]) {
    await syncDirectory(path);
  }
}

/** Of a restore that was killed, also before it had made its mark: there is no log, and nobody else's file. */
export function isUnfinished(directory: string, files: readonly string[]): boolean {
  if (existsSync(markOf(directory))) return true;
  return files.length === 1 && files[0] === 'log' && readdirSync(join(directory, 'log')).length === 0;
}

/** What to do about it, for a person; null: the log is what it should be. */
export function unfinishedProblem(directory: string): string | null {
  if (!existsSync(markOf(directory))) return null;
  return `the restore into ${directory} did not come to its end: run it again, and it begins anew there`;
}
