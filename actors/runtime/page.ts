// A page of a list, as far as one answer can carry it.

import { LIMITS } from '../../src/limits.ts';

/** The first of `rows`, as text, that one answer carries over the bus, at least one. */
export function firstThatFit(rows: readonly string[]): string[] {
  const fitting: string[] = [];
  let characters = 0;
  for (const row of rows) {
    characters += row.length + 1;
    if (fitting.length > 0 && characters > LIMITS.listPageCharactersMax) break;
    fitting.push(row);
  }
  return fitting;
}

/** For operators. */
export function renderList(rows: readonly string[], nextCursor: string | null): string {
  return `{"object":"list","data":[${rows.join(',')}],"has_more":${nextCursor !== null},"next_cursor":${JSON.stringify(nextCursor)}}`;
}
