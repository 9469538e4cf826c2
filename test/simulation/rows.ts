// Views in memory: rows as the store keeps them, by table, read in the order of their keys.

import type { RangeOptions, Row, Views } from '../../wal/types.ts';

export class Rows implements Views {
  readonly #tables = new Map<string, Map<string, string>>();
  /** Ranges begun and not ended: each holds a read transaction of the store. */
  held = 0;

  put(rows: readonly Row[]): void {
    for (const { table, key, value } of rows) {
      const found = this.#tables.get(table) ?? new Map<string, string>();
      this.#tables.set(table, found);
      if (value === null) found.delete(key);
      else found.set(key, value);
    }
  }

  /** In the order of the store: by table, then by key. */
  all(): Row[] {
    const rows = [...this.#tables].flatMap(([table, found]) =>
      Array.from(found, ([key, value]): Row => ({ table, key, value })),
    );
    return rows.sort((a, b) => (`${a.table}/${a.key}` < `${b.table}/${b.key}` ? -1 : 1));
  }

  get(table: string, key: string): string | undefined {
    return this.#tables.get(table)?.get(key);
  }

  *range(table: string, { start, end, reverse = false, limit = Infinity }: RangeOptions) {
    const inRange = [...(this.#tables.get(table) ?? [])].filter(([key]) => key >= start && key < end);
    inRange.sort(([a], [b]) => (a < b === reverse ? 1 : -1));
    this.held++;
    try {
      for (const [key, value] of inRange.slice(0, limit)) yield { key, value };
    } finally {
      this.held--;
    }
  }
}
