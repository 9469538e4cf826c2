// Limits on amounts: minimum, maximum of one transaction, and what an account may move in a UTC day and month, counted
// per type and currency when a transaction is created (given back when it fails: evolve.ts).
//
// Even where limits are off, every sum of an account stays a safe integer, however all that it has in flight ends:
//   - In a currency, pending + available + on its way out + fees grow only by charges and deposits that succeed.
//   - They are at most BALANCES_MAX when a charge or deposit is created.
//   - What was created before it and is still in flight is at most a year and some minutes old. That is 14 calendar months at most,
//     with MONTH_MAX of charges and as much of deposits in each. All of it may succeed.
//   - Only the available balance goes below zero, by reversals, and not beyond BALANCES_MAX.

import { type Account, type Usage, USAGE_KEYS } from './account.ts';
import { assert } from './assert.ts';
import type { Currency } from './country.ts';
import { type Rejection, rejection } from './error-code.ts';
import type { LedgerBalances } from './ledger.ts';
import type { Money } from './money.ts';
import type { Policy } from './policy.ts';
import { dayOf, monthOf } from './time.ts';
import type { CreatableType, Transaction } from './transaction.ts';

/** A limit that is off. */
export const NO_LIMIT = Number.MAX_SAFE_INTEGER as Money;

/** Of one transaction, and of a fixed fee: above what any network moves. */
export const AMOUNT_MAX = 1_000_000_000_000;
/** Of charges, and of deposits, of an account in a currency and a UTC month. */
const MONTH_MAX = 100 * AMOUNT_MAX;
/** Of a currency of an account, above zero as below. */
const BALANCES_MAX = 6_000 * AMOUNT_MAX;
const MONTHS_IN_FLIGHT_MAX = 14;
assert(
  Number.isSafeInteger(BALANCES_MAX + 2 * MONTHS_IN_FLIGHT_MAX * MONTH_MAX),
  'what an account has and what it has in flight add up to a safe integer',
);

/** Null when the amount is within every limit. */
export function checkLimits(
  account: Account,
  type: CreatableType,
  amount: Money,
  currency: Currency,
  policy: Policy,
  now: number,
): Rejection | null {
  const minimum = policy.minimums[currency];
  if (amount < minimum || amount === 0) {
    return rejection(
      'amount_below_minimum',
      `The minimum is ${minimum} ${currency} in minor units.`,
      'amount',
    );
  }
  const key = USAGE_KEYS[type][currency];
  const limits = account.settings.limits[key] ?? policy.limits[type][currency];
  const maximum = Math.min(limits.maximum, AMOUNT_MAX);
  if (amount > maximum) {
    return rejection(
      'amount_above_maximum',
      `The maximum is ${maximum} ${currency} in minor units.`,
      'amount',
    );
  }
  const usage = account.usage.get(key);
  const leftToday = limits.daily - usedOn(usage, dayOf(now));
  if (amount > leftToday) {
    return rejection('daily_limit_exceeded', leftOf('day', limits.daily, leftToday, currency), 'amount');
  }
  const usedThisMonth = usedIn(usage, monthOf(now));
  const leftThisMonth = limits.monthly - usedThisMonth;
  if (amount > leftThisMonth) {
    return rejection(
      'monthly_limit_exceeded',
      leftOf('month', limits.monthly, leftThisMonth, currency),
      'amount',
    );
  }
  if (type !== 'CHARGE' && type !== 'DEPOSIT') return null;
  return checkSums(account.balances.get(currency), amount, usedThisMonth);
}

/** `left` is below zero where the limit was lowered. */
function leftOf(span: 'day' | 'month', limit: number, left: number, currency: Currency): string {
  return `At most ${limit} ${currency} in minor units a UTC ${span}; ${Math.max(left, 0)} are left.`;
}

/** For what brings money in. */
function checkSums(
  balances: LedgerBalances | undefined,
  amount: Money,
  usedThisMonth: number,
): Rejection | null {
  if (amount > MONTH_MAX - usedThisMonth) {
    const message = `Charges and deposits of a month are at most ${MONTH_MAX} each, whatever the limits.`;
    return rejection('amount_above_maximum', message, 'amount');
  }
  if (balances === undefined) return null;
  const { PROVIDER_FLOAT: float, MERCHANT_AVAILABLE: available } = balances;
  // All but what is below zero.
  if (float - Math.min(available, 0) <= BALANCES_MAX) return null;
  const message = `With more than ${BALANCES_MAX} in its balances an account takes no more: pay out first.`;
  return rejection('amount_above_maximum', message, 'amount');
}

/** False: without the net of a released charge the available balance could not be counted any more. */
export function mayBeTakenBack(
  account: Account | undefined,
  { amount, fee, currency }: Pick<Transaction, 'amount' | 'fee' | 'currency'>,
): boolean {
  const available = account?.balances.get(currency)?.MERCHANT_AVAILABLE ?? 0;
  return available - (amount - fee) >= -BALANCES_MAX;
}

function usedOn(usage: Usage | undefined, day: number): number {
  return usage !== undefined && usage.day === day ? usage.daily : 0;
}

function usedIn(usage: Usage | undefined, month: number): number {
  return usage !== undefined && usage.month === month ? usage.monthly : 0;
}
