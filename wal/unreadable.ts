// What of a data directory's LMDB files cannot be read without ending the process that reads it. LMDB trusts its pages: at one that
// is damaged it aborts, or reads where there is nothing, and no error can be caught. So what has ended a process is found out by
// one that may end (src/damage/files-proof.ts), and noted here; whoever opens the files afterwards is told of it as of any
// other damage, and reads the rest.
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import type { BatchPlace } from './batch.ts';
import type { PartitionName } from './types.ts';

/** From its batch on; 0: not even where the partition begins can be read. */
export interface UnreadablePlace extends BatchPlace {
  /** How the process ended that read it: "SIGBUS", say. */
  readonly ending: string;
}

export interface Unreadable {
  /** Every partition that there may be: looking for them may end a process, too. */
  readonly names: readonly PartitionName[];
  readonly places: readonly UnreadablePlace[];
  /** What became of whoever read the views; null: they can be read. */
  readonly views: string | null;
}

/** How far whoever finds it out has come: to a batch of the `nth` partition of so many; 0: to where that one begins. */
export interface ReadUpTo extends BatchPlace {
  readonly nth: number;
  readonly of: number;
}

/** For this process, and the threads that it starts from now on. */
export function noteUnreadable(directory: string, found: Unreadable): void {
  setEnvironmentData(keyOf(directory), { ...found });
}

export function unreadableIn(directory: string): Unreadable | null {
  return (getEnvironmentData(keyOf(directory)) as Unreadable | undefined) ?? null;
}

function keyOf(directory: string): string {
  return `unreadable ${directory}`;
}
