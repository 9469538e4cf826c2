// A page of a list, as far as one answer can carry it.

import { LIMITS } from '../../src/limits.ts';

/** The first of `rows` that one answer carries over the bus, at least one. `charactersOf`: of a row as text. */
export function firstThatFit<Row>(rows: readonly Row[], charactersOf: (row: Row) => number): Row[] {
  const fitting: Row[] = [];
  let characters = 0;
  for (const row of rows) {
    characters += charactersOf(row) + 1;
    if (fitting.length > 0 && characters > LIMITS.listPageCharactersMax) break;
    fitting.push(row);
  }
  return fitting;
}
