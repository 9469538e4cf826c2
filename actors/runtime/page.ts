// A page of a list, as far as one answer can carry it.

import { LIMITS } from '../../src/limits.ts';

/** What one answer carries over the bus. */
export class PageText {
  readonly rows: string[] = [];
  #characters = 0;

  /** False: it has no room for that row. It has for one, however long. */
  add(row: string): boolean {
    this.#characters += row.length + 1;
    if (this.rows.length > 0 && this.#characters > LIMITS.listPageCharactersMax) return false;
    this.rows.push(row);
    return true;
  }
}

/** The first of `rows` that one answer carries, at least one. No more is made text than needed to tell. */
export function firstThatFit<Row>(rows: readonly Row[], render: (row: Row) => string): string[] {
  const page = new PageText();
  for (const row of rows) if (!page.add(render(row))) break;
  return page.rows;
}

/** For operators. */
export function renderList(rows: readonly string[], nextCursor: string | null): string {
  return `{"object":"list","data":[${rows.join(',')}],"has_more":${nextCursor !== null},"next_cursor":${JSON.stringify(nextCursor)}}`;
}
