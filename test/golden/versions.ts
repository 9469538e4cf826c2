// The golden logs, each put into a data directory of its own, and the views that the log of a data directory gives.

import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Rebuild } from '../../src/log-tools/rebuild.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { importTool } from '../../wal/tools/export.ts';
import type { PartitionName } from '../../wal/types.ts';
import { quiet } from '../unit/wal/run-tool.ts';

export const VERSION = /^v\d+$/;

/** The oldest first. */
export const VERSIONS = readdirSync(import.meta.dirname)
  .filter((name) => VERSION.test(name))
  .sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));

/** Resolves with the directory, which whoever asked removes. */
export async function imported(version: string): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'daftari-golden-'));
  await importTool().run({
    directory,
    values: { from: join(import.meta.dirname, version, 'log') },
    progress: quiet,
  });
  return directory;
}

/** `read` is called with the views that the log gives, and with its partitions. `ends`: the last sequence to apply, by
 *  "group/partition"; to the end when not named. Rejects when it cannot be replayed. */
export async function withRebuilt(
  directory: string,
  ends: Readonly<Record<string, number>>,
  read: (views: Rebuild['views'], names: readonly PartitionName[]) => void,
): Promise<void> {
  const log = LogReader.openReader({ directory });
  const rebuild = Rebuild.inScratch(log, null, quiet);
  try {
    const names = log.partitionNames();
    for (const { group, partition } of names) {
      const end = ends[`${group}/${partition}`] ?? log.tip(group, partition).sequence;
      const fault = await rebuild.advance({ group, partition }, end);
      if (fault !== null) throw new Error(`${group}/${partition} ${fault.sequence}: ${fault.problem}`);
    }
    rebuild.views.refresh();
    read(rebuild.views, names);
  } finally {
    await rebuild.close();
    await log.close();
  }
}
