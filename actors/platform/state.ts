// State of the platform's one partition: rows as they will stand in the views, the ones not yet checkpointed in memory.
//
// Invariants: memory holds exactly the rows touched since the last eviction, so it grows with what is in flight, never
// with the history; a row in memory hides the one in the views. Nothing but `evolve` puts.

import { LAST_KEY, type Row, type Views } from '../../wal/types.ts';
import type { AuditOutcome, RegisteredAccount } from '../../src/domain/platform-message.ts';
import { newestFirst } from '../runtime/newest-first.ts';

export interface AccountRow extends RegisteredAccount {
  readonly createdAt: number;
  readonly openedAt: number | null;
}

export interface AuditRow {
  readonly id: string;
  readonly at: number;
  readonly operator: string;
  readonly action: string;
  readonly target: string;
  readonly body: string | null;
  readonly outcome: AuditOutcome | null;
  readonly status: number | null;
  readonly code: string | null;
  /** Absent: nothing was made, or the row is from before 2026-11-27; replayed, it has the bytes that it had. */
  readonly objectId?: string;
  readonly endedAt: number | null;
}

interface KeyRow {
  readonly accountId: string;
  readonly requestHash: string;
}

/** Tables and what they hold. `unopened` is the index of accounts that are not opened yet, `keys` that of accounts which were made with an
 *  idempotency key. */
interface Tables {
  readonly accounts: AccountRow;
  readonly keys: KeyRow;
  readonly unopened: true;
  readonly audit: AuditRow;
}
export type TableName = keyof Tables;

interface KeptRow {
  readonly key: string;
  /** Null: deleted. */
  readonly value: unknown;
}

interface Touched extends KeptRow {
  readonly table: TableName;
  /** Log sequence of the record that put it. */
  readonly sequence: number;
}

export class PlatformState {
  readonly #views: Views;
  readonly #writesRows: boolean;
  readonly #touched: Record<TableName, Map<string, Touched>> = {
    accounts: new Map(),
    keys: new Map(),
    unopened: new Map(),
    audit: new Map(),
  };
  /** Rows since the last `takeRows`. */
  #dirty = new Map<string, Touched>();

  /** `writesRows`: as of OpenOptions. */
  constructor(views: Views, writesRows: boolean) {
    this.#views = views;
    this.#writesRows = writesRows;
  }

  get<Name extends TableName>(table: Name, key: string): Tables[Name] | null {
    const touched = this.#touched[table].get(key);
    if (touched !== undefined) return touched.value as Tables[Name] | null;
    const text = this.#views.get(table, key);
    return text === undefined ? null : (JSON.parse(text) as Tables[Name]);
  }

  put<Name extends TableName>(table: Name, key: string, value: Tables[Name] | null, sequence: number): void {
    const touched: Touched = { table, key, value, sequence };
    this.#touched[table].set(key, touched);
    if (this.#writesRows) this.#dirty.set(`${table} ${key}`, touched);
  }

  /** Rows with keys below `before` (null: all), from the highest down; each is read when it is asked for. */
  *newest<Name extends TableName>(table: Name, before: string | null): Generator<Tables[Name], void> {
    const end = before ?? LAST_KEY;
    const inMemory = [...this.#touched[table].values()]
      .filter(({ key }) => key < end)
      .sort((a, b) => (a.key < b.key ? 1 : -1));
    const rows = newestFirst<KeptRow>([inMemory, this.#checkpointed(table, end)], ({ key }) => key);
    for (const { value } of rows) if (value !== null) yield value as Tables[Name];
  }

  *#checkpointed(table: TableName, end: string): Generator<KeptRow, void> {
    for (const { key, value } of this.#views.range(table, { start: '', end, reverse: true })) {
      if (!this.#touched[table].has(key)) yield { key, value: JSON.parse(value) };
    }
  }

  /** Keys from the lowest up, at most `limit`. */
  oldestKeys(table: TableName, limit: number): string[] {
    const touched = this.#touched[table];
    const keys = Array.from(touched.values()).flatMap(({ key, value }) => (value === null ? [] : [key]));
    for (const { key } of this.#views.range(table, { start: '', end: LAST_KEY })) {
      if (keys.length >= limit + touched.size) break;
      if (!touched.has(key)) keys.push(key);
    }
    return keys.sort().slice(0, limit);
  }

  takeRows(): Row[] {
    const rows = Array.from(this.#dirty.values(), ({ table, key, value }) => ({
      table,
      key,
      value: value === null ? null : JSON.stringify(value),
    }));
    this.#dirty = new Map();
    return rows;
  }

  evict(sequence: number): void {
    for (const rows of Object.values(this.#touched)) {
      for (const [key, touched] of rows) if (touched.sequence <= sequence) rows.delete(key);
    }
  }
}
