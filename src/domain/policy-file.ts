// The policy file: JSON that replaces any part of the default policy, and the same shapes as an account's own terms in the
// operator API. What it leaves out keeps its default. Every mistake is reported at once, with the path to it.
//
//   {
//     "minimums":            { "UGX": "500", … },
//     "fees":                { "CHARGE": { "UGX": { "fixed": "0", "basis_points": 250, "floor": null, "cap": "50000" } } },
//     "limits":              { "CHARGE": { "UGX": { "maximum": "5000000", "daily": "20000000", "monthly": null } } },
//     "approval_thresholds": { "UGX": "5000000", … }
//   }
//
// Amounts are minor units, as strings of digits (whole numbers are taken too). In `fees`, basis_points are hundredths of a
// percent; fixed and basis_points default to 0, floor and cap to none. In `limits`, null or absent is no limit. A row given
// replaces the whole row of its type and currency; a fee of PAYOUT is that of WITHDRAWAL, too, unless one is given. A field that is
// given twice is a mistake. Deposits have no fee.

import { USAGE_KEYS, type UsageKey } from './account.ts';
import { AMOUNT_MAX, NO_LIMIT } from './amount-limits.ts';
import { CURRENCIES, type Currency } from './country.ts';
import { type Money, parseAmount, ZERO } from './money.ts';
import type { FeePolicy, LimitPolicy, Policy } from './policy.ts';
import { repeatedName } from './repeated-name.ts';
import { CREATABLE_TYPES, type CreatableType } from './transaction.ts';

/** `path` as in "fees.CHARGE.UGX.cap"; "" for the whole. */
export interface PolicyProblem {
  readonly path: string;
  readonly message: string;
}

export type Parsed<T> =
  | { readonly type: 'valid'; readonly value: T }
  | { readonly type: 'invalid'; readonly problems: readonly PolicyProblem[] };

export const FEE_TYPES = ['CHARGE', 'PAYOUT', 'WITHDRAWAL'] as const satisfies readonly CreatableType[];

type Terms<T> = Partial<Record<UsageKey, T>>;

/** What an operator may send to change an account's own terms; null drops one, so that policy holds again. */
export interface AccountTerms {
  readonly approvalThresholds: Partial<Record<Currency, Money | null>>;
  readonly fees: Terms<FeePolicy | null>;
  readonly limits: Terms<LimitPolicy | null>;
}

/** As in "fees.CHARGE.UGX.cap". */
const PATH_PARTS_MAX = 4;

/** `text`: the file. Throws an Error that names every mistake; a field that is given twice, of which one would be lost, before all others. */
export function parsePolicyFile(text: string, defaults: Policy): Policy {
  const json = jsonOf(text);
  const repeated = repeatedName(text, json, PATH_PARTS_MAX);
  if (repeated !== null) throw new Error(`${repeated} is given more than once`);
  const parsed = parsePolicy(json, defaults);
  if (parsed.type === 'valid') return parsed.value;
  throw new Error(parsed.problems.map(({ message }) => message).join('; '));
}

/** The words of the parser may quote what stands there, and where a setting names another file, that may be a secret. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const [place = ''] = / at position .*$/.exec((error as Error).message) ?? [];
    throw new SyntaxError(`it is not JSON${place}`, { cause: error });
  }
}

/** `json`: the file, already parsed as JSON. */
export function parsePolicy(json: unknown, defaults: Policy): Parsed<Policy> {
  const reader = new Reader();
  const file = reader.object(json, '', ['minimums', 'fees', 'limits', 'approval_thresholds']);
  const minimums = readAmounts(reader, file['minimums'], 'minimums', 1);
  const thresholds = readAmounts(reader, file['approval_thresholds'], 'approval_thresholds', 0);
  const fees = readTerms(reader, file['fees'], 'fees', FEE_TYPES, readFee);
  const limits = readTerms(reader, file['limits'], 'limits', CREATABLE_TYPES, readLimit);
  refuseNulls(reader, { minimums, approval_thresholds: thresholds, fees, limits });
  return reader.result({
    ...defaults,
    minimums: { ...defaults.minimums, ...(minimums as Partial<Record<Currency, Money>>) },
    approvalThresholds: {
      ...defaults.approvalThresholds,
      ...(thresholds as Partial<Record<Currency, Money>>),
    },
    fees: {
      CHARGE: { ...defaults.fees.CHARGE, ...rowsOf('CHARGE', fees) },
      PAYOUT: { ...defaults.fees.PAYOUT, ...rowsOf('PAYOUT', fees) },
      WITHDRAWAL: { ...defaults.fees.WITHDRAWAL, ...rowsOf('WITHDRAWAL', fees) },
    },
    limits: {
      CHARGE: { ...defaults.limits.CHARGE, ...rowsOf('CHARGE', limits) },
      PAYOUT: { ...defaults.limits.PAYOUT, ...rowsOf('PAYOUT', limits) },
      DEPOSIT: { ...defaults.limits.DEPOSIT, ...rowsOf('DEPOSIT', limits) },
      WITHDRAWAL: { ...defaults.limits.WITHDRAWAL, ...rowsOf('WITHDRAWAL', limits) },
    },
  });
}

/** The fields `approval_thresholds`, `fees` and `limits` of an account; absent ones change nothing, null drops a term. */
export function parseAccountTerms(json: {
  readonly approval_thresholds?: unknown;
  readonly fees?: unknown;
  readonly limits?: unknown;
}): Parsed<AccountTerms> {
  const reader = new Reader();
  return reader.result({
    approvalThresholds: readAmounts(reader, json.approval_thresholds, 'approval_thresholds', 0),
    fees: readTerms(reader, json.fees, 'fees', FEE_TYPES, readFee),
    limits: readTerms(reader, json.limits, 'limits', CREATABLE_TYPES, readLimit),
  });
}

function refuseNulls(reader: Reader, parts: Readonly<Record<string, object>>): void {
  for (const [part, rows] of Object.entries(parts)) {
    for (const [key, value] of Object.entries(rows)) {
      if (value !== null) continue;
      reader.problem(`${part}.${key.replace(':', '.')}`, 'has a value; leave it out for the default');
    }
  }
}

/** What is given for a type. */
function rowsOf<T>(type: CreatableType, terms: Terms<T | null>): Partial<Record<Currency, T>> {
  const rows: Partial<Record<Currency, T>> = {};
  for (const currency of CURRENCIES) {
    const row = terms[USAGE_KEYS[type][currency]] ?? null;
    if (row !== null) rows[currency] = row;
  }
  return rows;
}

// --- Parts -----------------------------------------------------------------------------------------------------------

function readAmounts(
  reader: Reader,
  json: unknown,
  path: string,
  least: number,
): Partial<Record<Currency, Money | null>> {
  const amounts: Partial<Record<Currency, Money | null>> = {};
  if (json === undefined) return amounts;
  const fields = reader.object(json, path, CURRENCIES);
  for (const currency of CURRENCIES) {
    const value = fields[currency];
    if (value === undefined) continue;
    amounts[currency] = value === null ? null : reader.amount(value, `${path}.${currency}`, least);
  }
  return amounts;
}

function readTerms<T>(
  reader: Reader,
  json: unknown,
  path: string,
  types: readonly CreatableType[],
  readRow: (reader: Reader, json: unknown, path: string) => T,
): Terms<T | null> {
  const terms: Terms<T | null> = {};
  if (json === undefined) return terms;
  const byType = reader.object(json, path, types);
  for (const type of types) {
    if (byType[type] === undefined) continue;
    const byCurrency = reader.object(byType[type], `${path}.${type}`, CURRENCIES);
    for (const currency of CURRENCIES) {
      const row = byCurrency[currency];
      if (row === undefined) continue;
      terms[USAGE_KEYS[type][currency]] =
        row === null ? null : readRow(reader, row, `${path}.${type}.${currency}`);
    }
  }
  return terms;
}

function readFee(reader: Reader, json: unknown, path: string): FeePolicy {
  const row = reader.object(json, path, ['fixed', 'basis_points', 'floor', 'cap']);
  const optional = (name: string): Money | null => {
    if (row[name] === undefined || row[name] === null) return null;
    const amount = reader.amount(row[name], `${path}.${name}`, 0);
    // More than any transaction may be would leave the safe integers when it is added to one.
    if (amount > AMOUNT_MAX) reader.problem(`${path}.${name}`, `is at most ${AMOUNT_MAX}`);
    return amount;
  };
  const floor = optional('floor');
  const cap = optional('cap');
  if (floor !== null && cap !== null && floor > cap) reader.problem(`${path}.floor`, 'is not above the cap');
  const basisPoints = row['basis_points'] ?? 0;
  if (
    typeof basisPoints !== 'number' ||
    !Number.isInteger(basisPoints) ||
    basisPoints < 0 ||
    basisPoints > 10_000
  ) {
    reader.problem(`${path}.basis_points`, 'is a whole number from 0 to 10000');
    return { fixed: ZERO, basisPoints: 0, floor, cap };
  }
  return { fixed: optional('fixed') ?? ZERO, basisPoints, floor, cap };
}

function readLimit(reader: Reader, json: unknown, path: string): LimitPolicy {
  const row = reader.object(json, path, ['maximum', 'daily', 'monthly']);
  const limit = (name: string): Money =>
    row[name] === undefined || row[name] === null ? NO_LIMIT : reader.amount(row[name], `${path}.${name}`, 0);
  return { maximum: limit('maximum'), daily: limit('daily'), monthly: limit('monthly') };
}

/** Reads what it can and collects what it cannot. */
class Reader {
  readonly #problems: PolicyProblem[] = [];

  problem(path: string, message: string): void {
    this.#problems.push({ path, message: `${path === '' ? 'the policy' : path} ${message}` });
  }

  /** The fields of an object that has no others than `names`; empty when it is none. */
  object(json: unknown, path: string, names: readonly string[]): Readonly<Record<string, unknown>> {
    if (typeof json !== 'object' || json === null || Array.isArray(json)) {
      this.problem(path, `is an object with the fields ${names.join(', ')}`);
      return {};
    }
    for (const name of Object.keys(json)) {
      if (names.includes(name)) continue;
      this.problem(
        path === '' ? name : `${path}.${name}`,
        `is not known; fields here are ${names.join(', ')}`,
      );
    }
    return json as Record<string, unknown>;
  }

  amount(json: unknown, path: string, least: number): Money {
    const text = typeof json === 'number' ? String(json) : json;
    const amount = typeof text === 'string' ? parseAmount(text) : null;
    if (amount !== null && amount >= least) return amount;
    this.problem(path, `is a whole number of minor units, at least ${least}, as a string of digits`);
    return ZERO;
  }

  result<T>(value: T): Parsed<T> {
    return this.#problems.length === 0
      ? { type: 'valid', value }
      : { type: 'invalid', problems: this.#problems };
  }
}
