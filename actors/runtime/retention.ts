// Which rows may go though the log would bring them back: those whose time is over by the clock, and by the days that the rows
// themselves tell of. The clock alone is not believed. A start takes it at its word, and with one that is weeks ahead all
// idempotency keys would be forgotten at once: whoever sends a payout again would be paid out again.

import { dayOf, startOfDay } from '../../src/domain/time.ts';
import type { Views } from '../../wal/types.ts';

/** Rows of a table that go after a time. */
export interface Retention {
  readonly table: string;
  /** Milliseconds, whole days: so old by the clock is a row that goes, and on so many days later ones were made. */
  readonly keptMs: number;
  /** Milliseconds since 1970. */
  readonly madeAt: (row: StoredRow) => number;
  /** Kept for longer. `views`: those that the row is of. */
  readonly isNeeded: (row: StoredRow, views: Views) => boolean;
}

export interface StoredRow {
  readonly key: string;
  readonly value: string;
}

/** `before`: what was made then or later is kept; milliseconds since 1970. */
export function isOver(
  { madeAt, isNeeded }: Retention,
  row: StoredRow,
  before: number,
  views: Views,
): boolean {
  return madeAt(row) < before && !isNeeded(row, views);
}

/** The days on which the rows of a table were made, found row by row. */
export class DaysMade {
  readonly #days = new Set<number>();
  /** By the clock all made before it is over. */
  readonly #overByClock: number;
  readonly #daysKept: number;
  /** Days that are wholly within the time that rows are kept. */
  #recent = 0;

  /** `now`: milliseconds since 1970. */
  constructor({ keptMs }: Retention, now: number) {
    this.#overByClock = now - keptMs;
    this.#daysKept = dayOf(keptMs);
  }

  /** `madeAt`: milliseconds since 1970. */
  add(madeAt: number): void {
    const day = dayOf(madeAt);
    if (this.#days.has(day)) return;
    this.#days.add(day);
    if (startOfDay(day) >= this.#overByClock) this.#recent++;
  }

  /** More days would change nothing: the clock is proved. */
  get areEnough(): boolean {
    return this.#recent >= this.#daysKept;
  }

  /** What was made then or later is kept; milliseconds since 1970, -Infinity: all is. */
  get keptFrom(): number {
    if (this.areEnough) return this.#overByClock;
    const latest = [...this.#days].sort((one, other) => other - one)[this.#daysKept - 1];
    return latest === undefined ? -Infinity : Math.min(this.#overByClock, startOfDay(latest));
  }
}
