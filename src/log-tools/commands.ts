// The log tools that know the domain. wal/cli.ts puts them after its own: one of the same name takes the other's place.

import type { WebhookRecord } from '../../actors/webhooks/record.ts';
import { isOfFormat } from '../../actors/runtime/checkpointer.ts';
import { groupOf, groups, withData } from './data.ts';
import { placeProblem, recordsNoted } from '../data-directory/identity.ts';
import { AssertionFailure } from '../domain/assert.ts';
import { RECORD_FORMATS } from '../domain/record-format.ts';
import { inspect } from './inspect.ts';
import { replay } from './replay.ts';
import { verify } from './verify.ts';
import { LogCorruption } from '../../wal/batch.ts';
import { archiveTool, type NeededFrom, trimTool } from '../../wal/tools/archive.ts';
import { backupTool } from '../../wal/tools/backup.ts';
import { exportTool, importTool } from '../../wal/tools/export.ts';
import { type Reading, restoreTool } from '../../wal/tools/restore.ts';
import type { Tool } from '../../wal/tools/tool.ts';
import type { PartitionName } from '../../wal/types.ts';
import type { ViewStore } from '../../wal/views.ts';

/** Webhooks read the accounts' log by a cursor, which they keep in their own: what is behind it may go. Pollers keep
 *  none: they start from the accounts in flight. On a node of a cluster that has no webhooks, those elsewhere read the
 *  stream. */
function neededByWebhooks(directory: string): Promise<NeededFrom> {
  return withData(directory, async ({ log, views, partitionCount }) => {
    const cursorOf = (partition: number): number | null => {
      const name = { group: 'webhooks', partition };
      const position = views?.position('webhooks', partition) ?? null;
      if (position === null && log.lastBatchNumber('webhooks', partition) === 0) return null;
      // Views of another log, or of another version, are made again from this log's beginning, and what they say was read may not have been.
      if (views === null || position === null || !goesOnFrom(views, name)) return 0;
      if (!log.holds('webhooks', partition, position)) return 0;
      return Number(views.reader('webhooks', partition).get('cursor', 'upstream') ?? 0);
    };
    // Of a log that is damaged it cannot be told: all is kept for it.
    const cursors = Array.from({ length: partitionCount() }, (_, partition) =>
      unlessDamaged(() => cursorOf(partition), 0),
    );
    const needed = cursors.map((cursor) => (cursor === null ? null : cursor + 1));
    return ({ group, partition }) => (group === 'accounts' ? (needed[partition] ?? null) : null);
  });
}

/** Views of another version's form are made again; of a group that is not known here nobody makes any. */
function goesOnFrom(views: ViewStore, { group: name, partition }: PartitionName): boolean {
  const group = groups.find((each) => each.name === name);
  return group === undefined || isOfFormat(views.reader(name, partition), group);
}

function unlessDamaged<T>(tell: () => T, otherwise: T): T {
  try {
    return tell();
  } catch (error) {
    if (error instanceof LogCorruption) return otherwise;
    throw error;
  }
}

/** Webhooks that have read more of their accounts' log than there is are not served: they would pass over what is written there next. */
const webhooksReading: Reading = {
  group: 'webhooks',
  of: 'accounts',
  readTo(line) {
    const record = knownOrNull(line);
    return record?.type === 'EventsTaken' ? record.upstreamSequence : null;
  },
};

/** Null of one that this version does not know: what is restored is what the backup has, and the next start finds it. */
function knownOrNull(line: string): WebhookRecord | null {
  try {
    return groupOf('webhooks').decode(line) as WebhookRecord;
  } catch (error) {
    if (error instanceof AssertionFailure || error instanceof SyntaxError) return null;
    throw error;
  }
}

export const logTools: readonly Tool[] = [
  inspect,
  verify,
  replay,
  exportTool(recordsNoted),
  importTool(RECORD_FORMATS.newest, placeProblem),
  archiveTool(recordsNoted),
  trimTool(neededByWebhooks, goesOnFrom),
  backupTool(recordsNoted),
  restoreTool(webhooksReading, RECORD_FORMATS.newest),
];
