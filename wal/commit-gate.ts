// Lets no commit of this process, in whichever of its threads, be under way while another process opens a file of LMDB's.
//
// LMDB loses what is committed in that moment. Who opens a file reads the number of its newest transaction, and a little later
// writes it where the writer looks for it: the next commit then goes on from that one, over what came between, acknowledged or
// not (ITS#9496 of OpenLDAP, mended in 2021; not in the LMDB that lmdb-js 3.5.6 has). So who opens asks first, by the socket
// of the directory (directory-socket.ts).
//
// Invariant: a commit that has begun found nobody opening after it was counted, and who opens finds none counted.
import { setTimeout as delay } from 'node:timers/promises';
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';

/** The directory of an LMDB file, in the data directory. */
export type GatedFile = 'log' | 'views';

/** The threads of a process are given it as they begin. */
const name = 'daftari: commits and openings';
const places = {
  log: { openings: 0, commits: 1, waiting: 2 },
  views: { openings: 3, commits: 4, waiting: 5 },
} as const;
const lookMs = 1;

const shared = (getEnvironmentData(name) as SharedArrayBuffer | undefined) ?? new SharedArrayBuffer(24);
setEnvironmentData(name, shared);
const counts = new Int32Array(shared);

export function isGatedFile(text: string): text is GatedFile {
  return Object.hasOwn(places, text);
}

/** Runs `commit`, to `file`: in this turn, unless somebody opens that. Not async: that would wait with what it writes in its hands. */
export function throughGate<T>(file: GatedFile, commit: () => Promise<T>): Promise<T> {
  return isLetThrough(file) ? counted(file, commit) : later(file, commit);
}

async function later<T>(file: GatedFile, commit: () => Promise<T>): Promise<T> {
  const { waiting } = places[file];
  Atomics.add(counts, waiting, 1);
  while (!isLetThrough(file)) await delay(lookMs);
  Atomics.sub(counts, waiting, 1);
  return counted(file, commit);
}

function isLetThrough(file: GatedFile): boolean {
  const { openings, commits } = places[file];
  Atomics.add(counts, commits, 1);
  if (Atomics.load(counts, openings) === 0) return true;
  Atomics.sub(counts, commits, 1);
  return false;
}

function counted<T>(file: GatedFile, commit: () => Promise<T>): Promise<T> {
  return commit().finally(() => Atomics.sub(counts, places[file].commits, 1));
}

/** Resolves when no commit to `file` is under way, or whoever would open it `isGone`. None begins until `openGate`. */
export async function closeGate(file: GatedFile, isGone = (): boolean => false): Promise<void> {
  const { openings, commits, waiting } = places[file];
  // What waits goes first: those who open one after the other would keep it waiting until it had failed.
  while (Atomics.load(counts, waiting) > 0 && !isGone()) await delay(lookMs);
  Atomics.add(counts, openings, 1);
  while (Atomics.load(counts, commits) > 0 && !isGone()) await delay(lookMs);
}

/** Once for each `closeGate` that has resolved. */
export function openGate(file: GatedFile): void {
  Atomics.sub(counts, places[file].openings, 1);
}
