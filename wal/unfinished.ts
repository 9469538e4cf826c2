// The marks of a log that a tool is making: before all of it is there, nobody may take it for the whole. A tool that was killed
// leaves its marks behind; whoever opens the log then is told instead of served half of it.
//
// `unfinished`: a restore's, whose next run begins anew there. `unfinished-import-accounts-6`: an import's, one for each partition
// that it appends to, whose next run goes on; an import of other partitions, or of less of them, ends none of these.
import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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
  const mark = markOf(directory);
  rmSync(mark);
  try {
    await syncNames(directory);
  } catch (error) {
    // It failed, and begins anew there as after any other failure.
    namingNow(mark, () => writeFileSync(mark, '', { mode: 0o600 }));
    throw error;
  }
}

/** `ends`: of each partition, the last batch that is to come. What an import before was to bring stays said. Where it rejects it has left
 *  no mark of its own: nothing has been appended. */
export async function markImport(directory: string, ends: ReadonlyMap<string, number>): Promise<void> {
  const log = join(directory, 'log');
  makeWithParents(log);
  const made: string[] = [];
  try {
    for (const [name, batch] of ends) {
      const mark = join(log, ofImport + name);
      if (!existsSync(mark)) made.push(mark);
      namingNow(mark, () => appendFileSync(mark, `${batch}\n`, { mode: 0o600, flush: true }));
    }
    await syncNames(directory);
  } catch (error) {
    for (const mark of made) rmSync(mark, { force: true });
    throw error;
  }
}

/** `ends`: the last batch that is there. Resolves with those of which an import that was killed was to bring more: their marks stay. */
export async function markImported(
  directory: string,
  ends: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const short = new Map<string, number>();
  for (const [name, batch] of ends) {
    const mark = join(directory, 'log', ofImport + name);
    const asked = askedIn(mark);
    if (asked > batch) short.set(name, asked);
    else rmSync(mark, { force: true });
  }
  await syncNames(directory);
  return short;
}

/** 0: it is not there, or does not say: versions before 2026-11-29 left it empty, as does a kill before anything is appended. */
function askedIn(mark: string): number {
  const lines = existsSync(mark) ? readFileSync(mark, 'utf8').split('\n').slice(0, -1) : [];
  return Math.max(0, ...lines.map(Number));
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
