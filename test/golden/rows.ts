// The views that a golden log gives, as a sum for each table of each group: two processes of different versions, and `replay --verify`
// after an upgrade, take rows of one `viewsFormat` for the same bytes.

import { createHash, type Hash } from 'node:crypto';
import { groupOf } from '../../src/log-tools/data.ts';
import { withRebuilt } from './versions.ts';

/** By group. */
export type Rows = Record<
  string,
  { readonly viewsFormat: number; readonly sha256: Readonly<Record<string, string>> }
>;

/** Rejects when the log cannot be replayed. */
export async function rowsOf(directory: string): Promise<Rows> {
  const sums: Record<string, Record<string, Hash>> = {};
  await withRebuilt(directory, {}, (views, names) => {
    for (const { group, partition } of names) {
      const tables = (sums[group] ??= {});
      for (const { table, key, value } of views.rows(group, partition)) {
        (tables[table] ??= createHash('sha256')).update(`${partition} ${key}\0${value}\n`);
      }
    }
  });
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
