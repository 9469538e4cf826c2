// What of a data directory cannot be read without ending the process that does. Whoever was ended so, a start or a tool, has this
// find out, by processes that may end (files-reader.ts), what it was; from then on it is damage like any other
// (wal/unreadable.ts), and the rest can be read. A reader may also be aborted for want of memory, or by a person: what has ended one
// is read once more, and is believed unless the second reads it.

import { hasLog, hasViews } from '../../wal/lmdb.ts';
import { nameOf } from '../../wal/types.ts';
import type { ReadUpTo, Unreadable, UnreadablePlace } from '../../wal/unreadable.ts';
import { placesIn } from '../data-directory/identity.ts';
import { runReader, type Reading } from './reader-process.ts';
import { Unread } from './unread.ts';

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

/** `msMax`: for the log, and beside it for the views; null: however long it takes. `onReading` is called for each batch. */
export async function proveFiles(
  directory: string,
  msMax: number | null,
  onReading: (upTo: ReadUpTo) => void = () => {},
): Promise<FilesProof> {
  const late = msMax === null ? new AbortController().signal : AbortSignal.timeout(msMax);
  const names = placesIn(directory);
  const [log, views] = await Promise.all([
    hasLog(directory) ? proveLog(directory, names.map(nameOf), late, onReading) : null,
    hasViews(directory) ? proveViews(directory, late) : null,
  ]);
  return {
    unreadable: {
      names,
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

/** Again and again, each time from the partition that ended the reader; from behind it when it ended the one before, too. */
async function proveLog(
  directory: string,
  names: readonly string[],
  late: AbortSignal,
  onReading: (upTo: ReadUpTo) => void,
): Promise<LogProof> {
  const places: UnreadablePlace[] = [];
  const unread = new Unread(names);
  let suspected: UnreadablePlace | null = null;
  let openings = 0;
  for (;;) {
    const before = names.length - unread.names.length;
    const onSaid = (at: Place, nth: number): void =>
      onReading({ ...at, nth: before + nth, of: names.length });
    const { ending, isDamaged, last } = await readLog(directory, unread.names, late, onSaid);
    if (ending === null) return { places, problem: null, unread: null };
    if (!isDamaged) {
      if (suspected !== null) places.push(suspected);
      return { places, problem: null, unread: ending };
    }
    if (last === null) {
      openings += 1;
      if (openings > 1) return { places, problem: ending, unread: null };
      continue;
    }
    suspected = { ...last, ending };
    if (unread.endedBy(nameOf(last))) {
      places.push(suspected);
      suspected = null;
    }
  }
}

async function readLog(
  directory: string,
  names: readonly string[],
  late: AbortSignal,
  onPlace: (place: Place, nth: number) => void,
): Promise<Reading & { readonly last: Place | null }> {
  let last: Place | null = null;
  let nth = 0;
  const onSaid = (place: Place): void => {
    last = place;
    if (place.batch === 0) nth += 1;
    onPlace(place, nth);
  };
  const reading = await runReader(READER, [directory, 'log', ...names], { onSaid, signal: late });
  return { ...reading, last };
}

async function proveViews(directory: string, late: AbortSignal): Promise<Reading> {
  const read = (): Promise<Reading> => runReader(READER, [directory, 'views'], { onSaid() {}, signal: late });
  const first = await read();
  if (!first.isDamaged) return first;
  const second = await read();
  return second.ending === null ? second : first;
}
