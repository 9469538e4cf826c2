// The mark of a log that a restore is writing: before all of it is there and proven, nobody may take it for the whole. A
// restore that was killed leaves the mark behind; whoever opens the log then is told instead of served half of it.
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { namingNow } from './thrown.ts';

const markOf = (directory: string): string => join(directory, 'log', 'unfinished');

export function markUnfinished(directory: string): void {
  mkdirSync(join(directory, 'log'), { recursive: true, mode: 0o700 });
  const mark = markOf(directory);
  namingNow(mark, () => writeFileSync(mark, '', { mode: 0o600, flush: true }));
}

export function markFinished(directory: string): void {
  rmSync(markOf(directory));
}

/** What to do about it, for a person; null: the log is what it should be. */
export function unfinishedProblem(directory: string): string | null {
  if (!existsSync(markOf(directory))) return null;
  return `the restore into ${directory} did not come to its end: remove the directory and restore again`;
}
