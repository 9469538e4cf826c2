// What the checkpoints tell a tool that copies the log: of what is lost from its end, the log itself says nothing.
import type { LogReader } from '../log-reader.ts';
import { ViewsUnreadable, withViews } from './partitions.ts';
import { checkpointFault, type Fault } from './verify.ts';
import { nameOf, type PartitionName } from '../types.ts';

/** What checkpoints tell of the log. */
export interface Checkpoints {
  /** The partitions that have lost their end, or are another log's, by name. */
  readonly faults: ReadonlyMap<string, Fault>;
  readonly names: readonly PartitionName[];
  /** Why they tell nothing; null: they do, or there are none. */
  readonly problem: string | null;
}

export async function lookAtCheckpoints(reader: LogReader, directory: string): Promise<Checkpoints> {
  try {
    return await withViews(directory, async (views) => {
      const faults = new Map<string, Fault>();
      const names = views?.partitionNames() ?? [];
      for (const name of names) {
        const fault = checkpointFault(reader, views, name);
        if (fault !== null) faults.set(nameOf(name), fault);
      }
      return { faults, names, problem: null };
    });
  } catch (error) {
    // They are no loss, and what there is of the log is copied all the same.
    if (error instanceof ViewsUnreadable) return { faults: new Map(), names: [], problem: error.message };
    throw error;
  }
}

/** For people. */
export function unlookedLines({ problem }: Checkpoints): string[] {
  return problem === null ? [] : [`Whether the end of the log is lost was not looked at: ${problem}`];
}
