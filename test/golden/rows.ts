// The views that a golden log gives, as a sum for each table of each group: two processes of different versions, and `replay --verify`
// after an upgrade, take rows of one `viewsFormat` for the same bytes.

import { createHash, type Hash } from 'node:crypto';
import { Rebuild } from '../../src/log-tools/rebuild.ts';
import { groupOf } from '../../src/log-tools/data.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { Progress } from '../../wal/tools/progress.ts';

/** By group. */
export type Rows = Record<
  string,
  { readonly viewsFormat: number; readonly sha256: Readonly<Record<string, string>> }
>;

/** Rejects when the log cannot be replayed. */
export async function rowsOf(directory: string): Promise<Rows> {
  const log = LogReader.openReader({ directory });
  const quiet = new Progress({ write: () => {}, shown: false, overwrites: false });
  const rebuild = new Rebuild(log, null, quiet);
  const sums: Record<string, Record<string, Hash>> = {};
  try {
    for (const { group, partition } of log.partitionNames()) {
      const fault = await rebuild.advance({ group, partition }, log.tip(group, partition).sequence);
      if (fault !== null) throw new Error(`${group}/${partition} ${fault.sequence}: ${fault.problem}`);
    }
    rebuild.views.refresh();
    for (const { group, partition } of log.partitionNames()) {
      const tables = (sums[group] ??= {});
      for (const { table, key, value } of rebuild.views.rows(group, partition)) {
        (tables[table] ??= createHash('sha256')).update(`${partition} ${key}\0${value}\n`);
      }
    }
  } finally {
    await rebuild.close();
    await log.close();
  }
  return Object.fromEntries(
    Object.entries(sums).map(([group, tables]) => [
      group,
      {
        viewsFormat: groupOf(group).viewsFormat,
        sha256: Object.fromEntries(Object.entries(tables).map(([table, sum]) => [table, sum.digest('hex')])),
      },
    ]),
  );
}
