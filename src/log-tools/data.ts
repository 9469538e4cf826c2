// A data directory as the log tools see it: its log and its checkpoint, read-only, and the groups that know what a record
// means. Opens beside a live service and disturbs nothing. What a tool says is of one history of the log: where a take-over cut
// off its end and wrote it anew meanwhile, the tool begins anew.

import { isOfFormat } from '../../actors/runtime/checkpointer.ts';
import { partitionOf } from '../bus/bus.ts';
import { DEFAULT_POLICY } from '../domain/default-policy.ts';
import { isId } from '../domain/id.ts';
import {
  DataDirectoryError,
  OtherFormatError,
  partitionsProblem,
  readIdentity,
} from '../data-directory/identity.ts';
import { groupNamed, groupsWithLog, type HostedGroup } from '../storage/groups.ts';
import { LogRewritten } from '../../wal/batch.ts';
import { type LogReader, LogUnsearchable, untilUnchanged } from '../../wal/log-reader.ts';
import { withReader, withViews } from '../../wal/tools/partitions.ts';
import { UsageError } from '../../wal/tools/tool.ts';
import type { ViewPosition } from '../../wal/types.ts';
import type { ViewStore } from '../../wal/views.ts';

/** Applying records asks no policy: any will do. */
export const groups: readonly HostedGroup[] = groupsWithLog({
  accounts: DEFAULT_POLICY,
  webhooks: { retryMs: [], retentionMs: Infinity },
});

export interface Data {
  readonly log: LogReader;
  /** Null: the directory has no checkpoint; a restored one has none before its first start. */
  readonly views: ViewStore | null;
  /** Partitions of accounts, and of webhooks. Throws DataDirectoryError when the directory does not say how many it has. */
  readonly partitionCount: () => number;
  /** What is wrong with what the directory says of itself: nothing starts in it, and what its log says is no less proven. */
  readonly identityProblem: string | null;
}

/** `readsViews` false: as if there were none. Rejects with OtherFormatError where nobody here knows what records mean. */
export async function withData<T>(
  directory: string,
  use: (data: Data) => Promise<T>,
  readsViews = true,
): Promise<T> {
  return withReader(directory, async (log) => {
    const identityProblem = problemOfIdentity(directory, log);
    const read = (views: ViewStore | null): Promise<T> =>
      untilUnchanged(async () => {
        log.refresh();
        views?.refresh();
        return use({ log, views, partitionCount: () => partitionCount(directory, log), identityProblem });
      });
    return withViews(directory, read, readsViews);
  });
}

function problemOfIdentity(directory: string, log: LogReader): string | null {
  try {
    const identity = readIdentity(directory);
    return identity === null ? null : partitionsProblem(directory, identity, log);
  } catch (error) {
    if (error instanceof DataDirectoryError && !(error instanceof OtherFormatError)) return error.message;
    // Whoever looks for partitions is told.
    if (error instanceof LogUnsearchable) return null;
    throw error;
  }
}

/** As the service has noted it; in a directory that holds a log and nothing else, from the log: a service opens an epoch
 *  in every partition it has. */
function partitionCount(directory: string, log: LogReader): number {
  const identity = readIdentity(directory);
  if (identity !== null) {
    const problem = partitionsProblem(directory, identity, log);
    if (problem !== null) throw new DataDirectoryError(problem);
    return identity.partitions;
  }
  const numbers = log.partitionNames().filter(({ group }) => group === 'accounts');
  return Math.max(0, ...numbers.map(({ partition }) => partition)) + 1;
}

/** Looks at the log as of a moment after that of the checkpoint. False: another log made it. Throws LogRewritten when the
 *  checkpoint itself stands no more, and so says nothing of the log. */
export function holdsCheckpoint(
  log: LogReader,
  views: ViewStore,
  group: string,
  partition: number,
  position: ViewPosition,
): boolean {
  log.refresh();
  if (log.holds(group, partition, position)) return true;
  views.refresh();
  if (views.position(group, partition)?.hash.equals(position.hash) === true) return false;
  const { batch, sequence } = position;
  throw new LogRewritten({ group, partition, batch, sequence });
}

/** Why the rows that views have of a partition are not its state; null: they are, or there are none. With what else is read of them
 *  in the same turn of the event loop it is of one moment, once they are refreshed. */
export function uncountedViews(views: ViewStore, group: string, partition: number): string | null {
  if (views.position(group, partition) === null) {
    if (!views.hasStrayRows(group, partition)) return null;
    return 'its checkpoint is being made, or that was cut short and the next start makes it anew';
  }
  if (isOfFormat(views.reader(group, partition), groupOf(group))) return null;
  return "its checkpoint is another version's, whose rows this one does not read";
}

/** Of anything else a replay finds nothing either, when it has come to its end. */
export function assertAccountId(id: string): void {
  if (!isId('account', id)) throw new UsageError(`${id} is not the id of an account`);
}

export function partitionOfAccount(data: Data, accountId: string): number {
  return partitionOf(accountId, data.partitionCount());
}

export function groupOf(name: string): HostedGroup {
  return groupNamed(groups, name);
}

/** Every record of every group has its time. */
export interface Timed {
  /** Milliseconds since 1970, never less than in the record before. */
  readonly at: number;
}
