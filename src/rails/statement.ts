// A provider's statement against our ledger: what PROVIDER_FLOAT moved in a period, line by line, and what is missing,
// extra or different. Pure: text and records in, findings out.
//
// Invariants: a movement is known by its reference and by whether it is a reversal; each matches at most one line. Clocks
// and midnights differ, so what lies just outside the period (the slack) may match but is never reported.

import type { AccountRecord } from '../domain/account-event.ts';
import type { Currency } from '../domain/country.ts';
import { fromMajorUnits, toMajorUnits } from '../domain/money.ts';
import type { Money } from '../domain/money.ts';
import type { Transaction } from '../domain/transaction.ts';
import { LIMITS } from '../limits.ts';
import { parseReference } from './reference.ts';
import { type CsvRow, readCsv } from './statement-csv.ts';

export interface Movement {
  readonly transactionId: string;
  readonly reversal: boolean;
  /** Minor units; more than zero. */
  readonly amount: number;
  readonly currency: Currency;
  /** Milliseconds since 1970. */
  readonly at: number;
}

export interface StatementLine {
  /** Of the file, from 1. */
  readonly line: number;
  readonly reference: string;
  readonly transactionId: string | null;
  readonly reversal: boolean;
  /** As written, without the commas of thousands. */
  readonly amountText: string;
  readonly currency: string | null;
  /** Null: the statement has no times. */
  readonly at: number | null;
  /** It happened before that: `at` may be a day, without a time of it. */
  readonly until: number | null;
}

/** Headings of the statement's columns. */
export interface Columns {
  readonly reference: string;
  readonly amount: string;
  /** Where a statement has one for what came in and one for what went out. */
  readonly otherAmount?: string;
  readonly currency: string;
  readonly time: string;
  readonly type: string;
}

export const DEFAULT_COLUMNS: Columns = {
  reference: 'reference',
  amount: 'amount',
  currency: 'currency',
  time: 'time',
  type: 'type',
};

export interface Finding {
  /** missing: in our ledger and not in the statement. extra: the other way round. different: in both, not alike. */
  readonly kind: 'missing' | 'extra' | 'different';
  readonly transactionId: string | null;
  readonly reference: string | null;
  readonly line: number | null;
  readonly ledger: string | null;
  readonly statement: string | null;
  readonly time: string | null;
}

export interface Period {
  /** Inclusive. */
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  readonly slackMs: number;
}

export interface Comparison {
  readonly matched: number;
  readonly findings: readonly Finding[];
}

/** `timeZone`: of times that name none, as ±hh:mm or Z. Throws with the line at fault. */
export function readStatement(text: string, columns: Columns, timeZone: string): StatementLine[] {
  const lines: StatementLine[] = [];
  for (const row of readCsv(text)) {
    if (lines.length === 0) requireColumns(row, columns);
    if (lines.length === LIMITS.reconcileLinesMax) {
      throw new Error(`the statement has over ${lines.length} lines; give a shorter period`);
    }
    lines.push(lineOf(row, columns, timeZone));
  }
  return lines;
}

/** Reference and amount, and whatever was named: what is looked for in vain would not be compared. */
function requireColumns(row: CsvRow, columns: Columns): void {
  for (const [field, heading] of Object.entries(columns) as [keyof Columns, string][]) {
    const isNeeded = field === 'reference' || field === 'amount' || heading !== DEFAULT_COLUMNS[field];
    if (isNeeded && fieldOf(row, heading) === null) {
      const headings = [...row.fields.keys()].join(', ');
      throw new Error(`line ${row.line}: no column "${heading}"; the first row has: ${headings}`);
    }
  }
}

function lineOf(row: CsvRow, columns: Columns, timeZone: string): StatementLine {
  const { line } = row;
  const reference = fieldOf(row, columns.reference) ?? '';
  const time = fieldOf(row, columns.time);
  const at = time === null || time === '' ? null : timeIn(time, timeZone, line);
  const until = at === null || time === null ? null : at + (isDayAlone(time) ? DAY_MS : 1);
  return {
    line,
    reference,
    transactionId: parseReference(reference)?.transactionId ?? null,
    reversal: /revers|refund|clawback/i.test(fieldOf(row, columns.type) ?? ''),
    amountText: amountOf(row, columns),
    currency: fieldOf(row, columns.currency)?.toUpperCase() || null,
    at,
    until,
  };
}

/** Of two columns the one that has any: in the other there is nothing, or nought. */
function amountOf(row: CsvRow, { amount, otherAmount }: Columns): string {
  const text = amountIn(fieldOf(row, amount) ?? '', row.line);
  if (otherAmount === undefined) return text;
  const other = amountIn(fieldOf(row, otherAmount) ?? '', row.line);
  if (Number(other) === 0) return text;
  if (Number(text) === 0) return other;
  throw new Error(`line ${row.line}: an amount in "${amount}", and one in "${otherAmount}"`);
}

const THOUSANDS_BY_COMMA = /^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/;
const DIGITS = /^[+-]?\d+(\.\d+)?$/;
/** Nothing, or a dash of any kind: where there are two columns of amounts. */
const NONE = /^[-\u2010-\u2015\u2212]?$/;

/** Without the commas of thousands. "10,50" has another comma: it is not 1050. What cannot be read ("UGX 5000") would look like another
 *  amount than the ledger's. */
function amountIn(text: string, line: number): string {
  if (NONE.test(text)) return '';
  const digits = THOUSANDS_BY_COMMA.test(text) ? text.replaceAll(',', '') : text;
  if (DIGITS.test(digits)) return digits;
  throw new Error(`line ${line}: "${text}" is no amount; write it as 10.50 or 1,000.50`);
}

const NUMBERS_FIRST_YEAR =
  /^(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?$/i;
/** "31 Jul 2026 10:00", "July 31, 2026 10:00:00 PM GMT". */
const MONTH_AS_WORD =
  /^(\d{1,2}[ -][a-z]{3,9}[ -]\d{4}|[a-z]{3,9} \d{1,2},? \d{4})(?:,? (\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?))?(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d))?$/i;
const NUMBERS_LAST_YEAR = /^\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}(?!\d)/;

/** Milliseconds since 1970. The machine's own zone never counts. */
function timeIn(text: string, timeZone: string, line: number): number {
  if (NUMBERS_LAST_YEAR.test(text)) {
    throw new Error(
      `line ${line}: "${text}" may name the day or the month first; write it as 2026-07-31 or 31 Jul 2026`,
    );
  }
  let at = Number.NaN;
  const numbers = NUMBERS_FIRST_YEAR.exec(text);
  const words = numbers === null ? MONTH_AS_WORD.exec(text) : null;
  if (numbers !== null) {
    const [, year, month, day, time = '00:00', zone = timeZone] = numbers;
    const date = `${year}-${month}-${day}`;
    if (hasDay(date, day)) at = Date.parse(`${date}T${time}${offsetOf(zone)}`);
  } else if (words !== null) {
    const [, dateWithDashes = '', time = '00:00', zone = timeZone] = words;
    const date = dateWithDashes.replaceAll('-', ' ');
    const [day] = /\b\d{1,2}\b/.exec(date) ?? [];
    if (hasDay(date, day)) at = Date.parse(`${date} ${time} ${offsetOf(zone)}`);
  }
  if (Number.isNaN(at)) throw new Error(`line ${line}: "${text}" is no time`);
  return at;
}

/** As Date.parse takes one in every form of a time. */
function offsetOf(zone: string): string {
  const [, hours, minutes = '00'] = /^([+-]\d\d):?(\d\d)?$/.exec(zone) ?? [];
  return hours === undefined ? 'Z' : `${hours}:${minutes}`;
}

const DAY_MS = 86_400_000;

function isDayAlone(text: string): boolean {
  return !text.includes(':');
}

/** Whether its month has the day: Date.parse takes 31 February for 3 March. */
function hasDay(date: string, day: string | undefined): boolean {
  return new Date(`${date} UTC`).getUTCDate() === Number(day);
}

/** Headings are compared without regard to case. A line break in a cell would look like another finding. */
function fieldOf({ fields }: CsvRow, heading: string): string | null {
  return (
    fields
      .get(heading.toLowerCase())
      ?.trim()
      .replaceAll(/[\r\n]+/g, ' ') ?? null
  );
}

/** A movement of any rail's float, before it is known which, and how much it is. */
type Settlement = Pick<Movement, 'transactionId' | 'reversal' | 'at'>;
type Created = Pick<Transaction, 'id' | 'amount' | 'currency' | 'provider'>;

/** The movements of one rail's float. Everything is read twice: for what settled in the period, and then for what those
 *  transactions are, which may have been created long before. So memory is that of the period, not that of the log. Records
 *  and, where the beginning of a log is gone, the transactions of its views may come in any order, and more than once. */
export class FloatMovements {
  readonly #railId: string;
  readonly #period: Period;
  readonly #movementsMax: number;
  readonly #settlements = new Map<string, Settlement>();
  readonly #movements = new Map<string, Movement>();
  readonly #rails = new Set<string>();
  /** What settled in the period is known: it is the second reading. */
  #isKnown = false;

  /** `movementsMax`: in the period, of all rails. */
  constructor(railId: string, period: Period, movementsMax: number = LIMITS.reconcileLinesMax) {
    this.#railId = railId;
    this.#period = period;
    this.#movementsMax = movementsMax;
  }

  get movements(): Iterable<Movement> {
    return this.#movements.values();
  }

  /** Every rail that the ledger has transactions of: known when all was read. */
  get rails(): readonly string[] {
    return [...this.#rails].toSorted();
  }

  /** Whether this reading needs what was recorded between two times, milliseconds since 1970. */
  needs(first: number, last: number): boolean {
    const { from, to, slackMs } = this.#period;
    return first < to + slackMs && (this.#isKnown || last >= from - slackMs);
  }

  /** All was added once, and is added once more. */
  readAgain(): void {
    this.#isKnown = true;
  }

  add({ at, events }: AccountRecord): void {
    for (const event of events) {
      switch (event.type) {
        case 'ChargeCreated':
        case 'DepositCreated':
        case 'PayoutCreated':
        case 'WithdrawalCreated':
          this.#created(event);
          break;
        case 'TransactionSucceeded':
          this.#settled({ transactionId: event.id, reversal: false, at });
          break;
        case 'ChargeReversed':
          this.#settled({ transactionId: event.id, reversal: true, at });
          break;
        // These move no money at a provider.
        case 'TransactionFailed':
        case 'WithdrawalRejected':
        case 'WithdrawalApproved':
        case 'SubmissionBegun':
        case 'SubmissionAccepted':
        case 'AnswerFixed':
        case 'ChargeReleased':
        case 'ReconciliationRaised':
        case 'ReconciliationResolved':
        case 'AccountOpened':
        case 'AccountSettingsChanged':
        case 'UserAdded':
        case 'UserRoleChanged':
        case 'UserRemoved':
        case 'AppConnected':
        case 'AppWebhookChanged':
        case 'AppRemoved':
        case 'WalletAdded':
        case 'WalletApproved':
        case 'WalletActivated':
        case 'WalletRevoked':
          break;
      }
    }
  }

  addTransaction(transaction: Transaction): void {
    this.#created(transaction);
    for (const { reason, entries, at } of transaction.journals) {
      if (entries.every(({ account }) => account !== 'PROVIDER_FLOAT')) continue;
      this.#settled({ transactionId: transaction.id, reversal: reason === 'CHARGE_REVERSED', at });
    }
  }

  #settled(settlement: Settlement): void {
    const { from, to, slackMs } = this.#period;
    if (this.#isKnown || settlement.at < from - slackMs || settlement.at >= to + slackMs) return;
    this.#settlements.set(keyOf(settlement), settlement);
    if (this.#settlements.size > this.#movementsMax) {
      throw new Error(`over ${this.#movementsMax} movements; give a shorter period`);
    }
  }

  #created({ id, amount, currency, provider }: Created): void {
    if (!this.#isKnown) return;
    this.#rails.add(provider);
    if (provider !== this.#railId) return;
    for (const reversal of [false, true]) {
      const key = keyOf({ transactionId: id, reversal });
      const settlement = this.#settlements.get(key);
      if (settlement !== undefined) this.#movements.set(key, { ...settlement, amount, currency });
    }
  }
}

/** From the first to the last time in the statement, days as a whole; null when it has none. */
export function periodOf(lines: readonly StatementLine[]): { from: number; to: number } | null {
  let from = Infinity;
  let to = -Infinity;
  for (const { at, until } of lines) {
    if (at === null || until === null) continue;
    from = Math.min(from, at);
    to = Math.max(to, until);
  }
  return from === Infinity ? null : { from, to };
}

export function compare(
  movements: Iterable<Movement>,
  lines: readonly StatementLine[],
  { from, to }: Period,
): Comparison {
  // Of a day that is in it in part only, nobody knows which lines are.
  const inPeriod = ({ at, until }: StatementLine): boolean =>
    at === null || until === null || (at >= from && until <= to);
  const hasSettled = ({ at }: Movement): boolean => at >= from && at < to;
  const open = new Map<string, Movement>();
  for (const movement of movements) open.set(keyOf(movement), movement);

  const taken = lines.map((line) => ({ line, movement: takeMovement(open, line) }));
  const cancelled = takenBack(taken.flatMap(({ line, movement }) => (movement === undefined ? [line] : [])));
  const findings: Finding[] = [];
  let matched = 0;
  for (const { line, movement } of taken) {
    if (movement === undefined) {
      if (inPeriod(line) && !cancelled.has(line)) findings.push(findingOf('extra', null, line));
    } else if (isAlike(movement, line)) matched++;
    else if (inPeriod(line) || hasSettled(movement)) findings.push(findingOf('different', movement, line));
  }
  for (const movement of open.values()) {
    if (hasSettled(movement)) findings.push(findingOf('missing', movement, null));
  }
  return { matched, findings };
}

/** The movement that the line is of, which is none of another's then. */
function takeMovement(
  open: Map<string, Movement>,
  { transactionId, reversal }: StatementLine,
): Movement | undefined {
  if (transactionId === null) return undefined;
  const key = keyOf({ transactionId, reversal });
  const movement = open.get(key);
  open.delete(key);
  return movement;
}

/** Of lines that the ledger has no movement for: each payment that was taken back, with the reversal. Together they move nothing, and the
 *  ledger may well have neither: it was taken back before anybody knew of it. */
function takenBack(lines: readonly StatementLine[]): Set<StatementLine> {
  // Of a statement of another route none has a movement: only what may be half of a pair is kept.
  const reversed = new Set(
    lines.filter(({ reversal }) => reversal).map(({ transactionId }) => transactionId),
  );
  const pairable = lines.filter(({ transactionId }) => transactionId !== null && reversed.has(transactionId));
  const alike = Map.groupBy(
    pairable,
    ({ transactionId, amountText, currency }) =>
      `${transactionId} ${Number(unsigned(amountText))} ${currency}`,
  );
  const cancelled = [...alike.values()].flatMap((each) => {
    const reversals = each.filter(({ reversal }) => reversal);
    const payments = each.filter(({ reversal }) => !reversal);
    const pairs = Math.min(payments.length, reversals.length);
    return [...payments.slice(0, pairs), ...reversals.slice(0, pairs)];
  });
  return new Set(cancelled);
}

function keyOf({ transactionId, reversal }: { transactionId: string; reversal: boolean }): string {
  return reversal ? `${transactionId} reversal` : transactionId;
}

function isAlike({ amount, currency }: Movement, line: StatementLine): boolean {
  if (line.currency !== null && line.currency !== currency) return false;
  return fromMajorUnits(unsigned(line.amountText), currency) === amount;
}

/** Which sign money that goes out has differs by provider. */
function unsigned(amountText: string): string {
  return amountText.replace(/^[+-]/, '');
}

function findingOf(kind: Finding['kind'], movement: Movement | null, line: StatementLine | null): Finding {
  const at = movement?.at ?? line?.at ?? null;
  return {
    kind,
    transactionId: movement?.transactionId ?? line?.transactionId ?? null,
    reference: line?.reference ?? null,
    line: line?.line ?? null,
    ledger:
      movement === null
        ? null
        : described(
            toMajorUnits(movement.amount as Money, movement.currency),
            movement.currency,
            movement.reversal,
          ),
    statement: line === null ? null : described(line.amountText, line.currency, line.reversal),
    time: at === null ? null : new Date(at).toISOString(),
  };
}

function described(amount: string, currency: string | null, reversal: boolean): string {
  return `${amount}${currency === null ? '' : ` ${currency}`}${reversal ? ' reversed' : ''}`;
}
