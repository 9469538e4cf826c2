// What of a data directory cannot be read without ending the process that does. Whoever was ended so, a start or a tool, has this
// find out, by processes that may end (files-reader.ts), what it was; from then on it is damage like any other
// (wal/unreadable.ts), and the rest can be read.

import { hasLog, hasViews } from '../../wal/lmdb.ts';
import { nameOf } from '../../wal/types.ts';
import type { Unreadable, UnreadablePlace } from '../../wal/unreadable.ts';
import { placesIn } from '../data-directory/identity.ts';
import { runReader, type Reading } from './reader-process.ts';

const READER = new URL('files-reader.ts', import.meta.url);

/** Of the reader: a batch that it is about to read; 0: where its partition begins. */
export type Place = Omit<UnreadablePlace, 'ending'>;

export interface FilesProof {
  readonly unreadable: Unreadable;
  /** Why the log cannot even be opened; null: it can. */
  readonly log: string | null;
  /** What was not read to its end, and why: there was no time, or its reader could not do its work. */
  readonly unread: readonly string[];
}

/** `msMax`: for the log, and beside it for the views; null: however long it takes. */
export async function proveFiles(directory: string, msMax: number | null): Promise<FilesProof> {
  const late = msMax === null ? new AbortController().signal : AbortSignal.timeout(msMax);
  const [log, views] = await Promise.all([
    hasLog(directory) ? proveLog(directory, late) : null,
    hasViews(directory) ? runReader(READER, [directory, 'views'], { onSaid() {}, signal: late }) : null,
  ]);
  return {
    unreadable: {
      names: placesIn(directory),
      places: log?.places ?? [],
      views: views?.isDamaged === true ? views.ending : null,
    },
    log: log?.problem ?? null,
    unread: [
      ...(log === null || log.unread === null ? [] : [`log: ${log.unread}`]),
      ...(views === null || views.ending === null || views.isDamaged ? [] : [`views: ${views.ending}`]),
    ],
  };
}

interface LogProof {
  readonly places: readonly UnreadablePlace[];
  readonly problem: string | null;
  readonly unread: string | null;
}

/** Again and again, each time from behind the partition that ended the reader. */
async function proveLog(directory: string, late: AbortSignal): Promise<LogProof> {
  const places: UnreadablePlace[] = [];
  for (;;) {
    const { ending, isDamaged, last } = await readLog(directory, places.at(-1) ?? null, late);
    if (ending === null) return { places, problem: null, unread: null };
    if (!isDamaged) return { places, problem: null, unread: ending };
    if (last === null) return { places, problem: ending, unread: null };
    places.push({ ...last, ending });
  }
}

/** `after`: the partition to go on after; null: from the beginning. */
async function readLog(
  directory: string,
  after: Place | null,
  late: AbortSignal,
): Promise<Reading & { readonly last: Place | null }> {
  let last: Place | null = null;
  const goesOn = after === null ? [] : [nameOf(after)];
  const onSaid = (place: Place): void => {
    last = place;
  };
  const reading = await runReader(READER, [directory, 'log', ...goesOn], { onSaid, signal: late });
  return { ...reading, last };
}
