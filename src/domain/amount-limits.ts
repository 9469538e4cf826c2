// Limits on amounts: minimum, maximum of one transaction, and what an account may move in a UTC day and month, counted
// per type and currency when a transaction is created (given back when it fails: evolve.ts).

import type { Account, Usage } from './account.ts';
import type { Currency } from './country.ts';
import { type Rejection, rejection } from './error-code.ts';
import { type CreatableType, limitsOf, USAGE_KEYS } from './fees.ts';
import type { Money } from './money.ts';
import type { Policy } from './policy.ts';
import { dayOf, monthOf } from './time.ts';

/** A limit that is off. It still refuses what would take the count out of the safe integers. */
export const NO_LIMIT = Number.MAX_SAFE_INTEGER as Money;

/** Holds also where the maximum is off: above what any network moves, and thousands of them, with their fees, add up to a
 *  safe integer. */
export const AMOUNT_MAX = 1_000_000_000_000;

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
  const limits = limitsOf(type, currency, account.settings, policy);
  const maximum = Math.min(limits.maximum, AMOUNT_MAX);
  if (amount > maximum) {
    return rejection(
      'amount_above_maximum',
      `The maximum is ${maximum} ${currency} in minor units.`,
      'amount',
    );
  }
  const usage = account.usage.get(USAGE_KEYS[type][currency]);
  const leftToday = limits.daily - usedOn(usage, dayOf(now));
  if (amount > leftToday) return rejection('daily_limit_exceeded', null, 'amount');
  const leftThisMonth = limits.monthly - usedIn(usage, monthOf(now));
  if (amount > leftThisMonth) return rejection('monthly_limit_exceeded', null, 'amount');
  return null;
}

function usedOn(usage: Usage | undefined, day: number): number {
  return usage !== undefined && usage.day === day ? usage.daily : 0;
}

function usedIn(usage: Usage | undefined, month: number): number {
  return usage !== undefined && usage.month === month ? usage.monthly : 0;
}
