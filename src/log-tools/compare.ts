// Two sets of views of one partition, row by row: what the log gives, and what the checkpoint has. A difference is told
// with both sides, field by field.

import { createHash } from 'node:crypto';
import { decodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { LIMITS } from '../limits.ts';
import { maskMsisdn } from '../domain/msisdn.ts';
import type { Row } from '../../wal/types.ts';

export interface Difference {
  readonly table: string;
  readonly key: string;
  /** Only what differs: the field's path, and its value on either side; undefined where that side has none. */
  readonly fields: readonly FieldDifference[];
}

interface FieldDifference {
  /** "" for the whole row. */
  readonly path: string;
  readonly log: unknown;
  readonly checkpoint: unknown;
}

export interface TableComparison {
  readonly table: string;
  readonly rows: number;
  /** SHA-256 over the rows in order. */
  readonly logHash: string;
  readonly checkpointHash: string;
}

export interface Comparison {
  readonly tables: readonly TableComparison[];
  /** All of them, also those not told. */
  readonly differenceCount: number;
  readonly differences: readonly Difference[];
}

/** Both come in the order of their keys. `isNeedless`: of a row that only one of them has, and need not. */
export function compareRows(
  log: Iterable<Row>,
  checkpoint: Iterable<Row>,
  isNeedless: (row: Row, of: 'log' | 'checkpoint') => boolean,
): Comparison {
  const ours = log[Symbol.iterator]();
  const theirs = checkpoint[Symbol.iterator]();
  const tables = new Map<string, TableSums>();
  const differences: Difference[] = [];
  let differenceCount = 0;
  let a = ours.next();
  let b = theirs.next();
  while (a.done !== true || b.done !== true) {
    const [left, right] = lower(a.done === true ? null : a.value, b.done === true ? null : b.value);
    const { table, key } = (left ?? right)!;
    const isAlone = left === null || right === null;
    if (!isAlone || !isNeedless((left ?? right)!, left === null ? 'checkpoint' : 'log')) {
      sumsOf(tables, table).add(left, right);
      if (left?.value !== right?.value) {
        differenceCount += 1;
        if (differences.length < LIMITS.logToolDifferencesShownMax) {
          differences.push({ table, key, fields: fieldsThatDiffer(left, right) });
        }
      }
    }
    if (left !== null) a = ours.next();
    if (right !== null) b = theirs.next();
  }
  return {
    tables: Array.from(tables, ([table, sums]) => ({ table, ...sums.result() })),
    differenceCount,
    differences,
  };
}

class TableSums {
  #rows = 0;
  readonly #log = createHash('sha256');
  readonly #checkpoint = createHash('sha256');

  add(log: Row | null, checkpoint: Row | null): void {
    this.#rows += 1;
    if (log !== null) this.#log.update(lineOf(log));
    if (checkpoint !== null) this.#checkpoint.update(lineOf(checkpoint));
  }

  result(): Omit<TableComparison, 'table'> {
    return {
      rows: this.#rows,
      logHash: this.#log.digest('hex'),
      checkpointHash: this.#checkpoint.digest('hex'),
    };
  }
}

function lineOf({ key, value }: Row): string {
  return `${key}\0${value}\n`;
}

function sumsOf(tables: Map<string, TableSums>, table: string): TableSums {
  const existing = tables.get(table);
  if (existing !== undefined) return existing;
  const sums = new TableSums();
  tables.set(table, sums);
  return sums;
}

/** Which of the two comes next; both when they are of one key. */
function lower(log: Row | null, checkpoint: Row | null): [Row | null, Row | null] {
  if (log === null || checkpoint === null) return [log, checkpoint];
  const order = compareKeys(log, checkpoint);
  return [order <= 0 ? log : null, order >= 0 ? checkpoint : null];
}

/** In the order of LMDB: by bytes of UTF-8. */
function compareKeys(a: Row, b: Row): number {
  if (a.table === b.table && a.key === b.key) return 0;
  return Buffer.compare(Buffer.from(`${a.table}/${a.key}`), Buffer.from(`${b.table}/${b.key}`));
}

function fieldsThatDiffer(log: Row | null, checkpoint: Row | null): FieldDifference[] {
  const found: FieldDifference[] = [];
  differ('', parsed(log), parsed(checkpoint), found);
  if (found.length > 0) return found;
  // It is written in another way, and says the same.
  return [{ path: '', log: shown('', log?.value), checkpoint: shown('', checkpoint?.value) }];
}

/** By name where the row is of a transaction; other rows are JSON, or short text of their own kind. One that cannot be read
 *  is shown as it is: a damaged row is what this is for. */
function parsed(row: Row | null): unknown {
  if (row === null || row.value === null) return undefined;
  try {
    return row.table === 'transaction' ? decodeTransaction(row.value) : (JSON.parse(row.value) as unknown);
  } catch (error) {
    if (error instanceof Error) return row.value;
    throw error;
  }
}

function differ(path: string, log: unknown, checkpoint: unknown, found: FieldDifference[]): void {
  if (isObject(log) && isObject(checkpoint)) {
    for (const name of new Set([...Object.keys(log), ...Object.keys(checkpoint)])) {
      differ(path === '' ? name : `${path}.${name}`, log[name], checkpoint[name], found);
    }
    return;
  }
  if (log === checkpoint) return;
  const isNamed = path !== '' && log !== undefined && checkpoint !== undefined;
  found.push({ path, log: shown(path, log, isNamed), checkpoint: shown(path, checkpoint, isNamed) });
}

/** In a row that cannot be read nothing says what is a number; times are longer, or of another millennium. */
const LIKE_MSISDN = /(?<!\d)(?:\d{9,12}|2\d{12,13})(?!\d)/g;

/** Full phone numbers are not shown. `isNamed`: both sides have a field of that name, so what it is can be told by it. */
function shown(path: string, value: unknown, isNamed = false): unknown {
  if (isObject(value)) {
    // A row that one side has alone is of the names that it has.
    const areNamed = isNamed || path === '';
    const entries = Object.entries(value).map(([name, inner]) => [name, shown(name, inner, areNamed)]);
    return Array.isArray(value) ? entries.map(([, inner]) => inner) : Object.fromEntries(entries);
  }
  if (typeof value !== 'string') return value;
  if (path.endsWith('msisdn')) return maskMsisdn(value);
  return isNamed ? value : value.replaceAll(LIKE_MSISDN, maskMsisdn);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
