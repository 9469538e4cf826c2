// Money: a branded safe integer in minor units of its currency. Arithmetic on money happens here and
// nowhere else; every result is asserted to stay a safe integer.

import { assert, AssertionFailure } from './assert.ts';
import { CURRENCY_DECIMALS, type Currency } from './country.ts';

declare const moneyBrand: unique symbol;
/** Integer minor units; may be negative (a balance after a reversal). */
export type Money = number & { readonly [moneyBrand]: 'Money' };

export const ZERO = 0 as Money;

/** Brands an integer that is already known to be minor units. */
export function money(minorUnits: number): Money {
  // Not an assert: its text would be made for every amount that is right.
  if (!Number.isSafeInteger(minorUnits)) {
    throw new AssertionFailure(`money is a safe integer, got ${minorUnits}`);
  }
  return minorUnits as Money;
}

export function add(a: Money, b: Money): Money {
  return money(a + b);
}

export function subtract(a: Money, b: Money): Money {
  return money(a - b);
}

const AMOUNT = /^(?:0|[1-9][0-9]{0,15})$/;

/** Parses the wire form: decimal digits, no sign, no leading zero, at most 2^53 - 1. Null when it is not that. */
export function parseAmount(text: string): Money | null {
  if (!AMOUNT.test(text)) return null;
  const value = Number(text);
  return Number.isSafeInteger(value) ? (value as Money) : null;
}

/** The provider's form: major units with exactly the currency's decimals ("500", "10.00"). */
export function toMajorUnits(amount: Money, currency: Currency): string {
  assert(amount >= 0, 'only non-negative amounts are sent to a provider');
  const decimals = CURRENCY_DECIMALS[currency];
  if (decimals === 0) return String(amount);
  const digits = String(amount).padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** Whether `amount` has no more decimals than these in major units. `decimals`: at most the currency's. */
export function hasAtMostDecimals(decimals: number, amount: Money, currency: Currency): boolean {
  return amount % 10 ** (CURRENCY_DECIMALS[currency] - decimals) === 0;
}

/** Parses a provider's major-unit amount, as text or number. Null when it is not a whole number of minor units. */
export function fromMajorUnits(value: string | number, currency: Currency): Money | null {
  const match = /^([0-9]{1,15})(?:\.([0-9]{1,8}))?$/.exec(String(value).trim());
  if (match === null) return null;
  const decimals = CURRENCY_DECIMALS[currency];
  const fraction = (match[2] ?? '').padEnd(decimals, '0');
  if (/[1-9]/.test(fraction.slice(decimals))) return null;
  const minorUnits = Number(match[1] + fraction.slice(0, decimals));
  return Number.isSafeInteger(minorUnits) ? (minorUnits as Money) : null;
}
