// The marks of a log that a tool is making: before all of it is there, nobody may take it for the whole. A tool that was killed
// leaves its marks behind; whoever opens the log then is told instead of served half of it.
//
// `unfinished`: a restore's, whose next run begins anew there. `unfinished-import-accounts-6`: an import's, one for each partition
// that it appends to, whose next run goes on; an import of other partitions ends none of these.
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { makeWithParents } from './make-with-parents.ts';
import { syncDirectory } from './sync-directory.ts';
import { namingNow } from './thrown.ts';

/** Who may open what it has left itself. */
export type Unfinished = 'restore' | 'import';

const markOf = (directory: string): string => join(directory, 'log', 'unfinished');
const ofImport = 'unfinished-import-';

/** On the disk under its name: what is written next may be there after a power cut. */
export async function markUnfinished(directory: string): Promise<void> {
  makeWithParents(join(directory, 'log'));
  const mark = markOf(directory);
  namingNow(mark, () => writeFileSync(mark, '', { mode: 0o600, flush: true }));
  await syncDirectory(join(directory, 'log'));
}

export async function markFinished(directory: string): Promise<void> {
  rmSync(markOf(directory));
  await syncNames(directory);
}

export async function markImport(directory: string, names: readonly string[]): Promise<void> {
  const log = join(directory, 'log');
  makeWithParents(log);
  for (const name of names) writeFileSync(join(log, ofImport + name), '', { mode: 0o600 });
  await syncNames(directory);
}

export async function markImported(directory: string, names: readonly string[]): Promise<void> {
  for (const name of names) rmSync(join(directory, 'log', ofImport + name), { force: true });
  await syncNames(directory);
}

/** A power cut takes no name of what was written, nor brings a mark back to a log that is served by then. */
async function syncNames(directory: string): Promise<void> {
  for (const path of [join(directory, 'log'), directory, dirname(resolve(directory))]) {
    await syncDirectory(path);
  }
}

/** Of a restore that was killed, also before it had made its mark: there is no log, and nobody else's file. */
export function isUnfinished(directory: string, files: readonly string[]): boolean {
  if (existsSync(markOf(directory))) return true;
  return files.length === 1 && files[0] === 'log' && readdirSync(join(directory, 'log')).length === 0;
}

/** What to do about it, for a person; null: the log is what it should be, or is the asker's to go on with. */
export function unfinishedProblem(directory: string, asker: Unfinished | null = null): string | null {
  if (asker !== 'restore' && existsSync(markOf(directory))) {
    return `the restore into ${directory} did not come to its end: run it again, and it begins anew there`;
  }
  const imported = asker === 'import' ? [] : importedIn(join(directory, 'log'));
  if (imported.length === 0) return null;
  return (
    `the import of ${imported.join(', ')} into ${directory} did not come to its end: run it again. Where it cannot, ` +
    `remove ${join(directory, 'log', ofImport)}*, and what it had appended is served as it is`
  );
}

function importedIn(log: string): string[] {
  const files = existsSync(log) ? readdirSync(log) : [];
  return files.filter((file) => file.startsWith(ofImport)).map((file) => file.slice(ofImport.length));
}
