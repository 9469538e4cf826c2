// Fees: what a movement costs, by policy or by the account's own terms. Quoted once, when the transaction is created,
// and written into its event; booked on success.

import { type AccountSettings, USAGE_KEYS } from './account.ts';
import { assert } from './assert.ts';
import type { Currency } from './country.ts';
import { add, money, type Money, ZERO } from './money.ts';
import type { FeePolicy, Policy } from './policy.ts';
import type { CreatableType } from './transaction.ts';

/** Fee = fixed + basis points of the amount rounded half up to the minor unit, then floor, then cap. */
export function feeOn(amount: Money, terms: FeePolicy): Money {
  assert(amount >= 0, 'a fee is taken on an amount that is not negative');
  // In two parts, so that no product leaves the safe integers: amount = whole * 10,000 + rest.
  const whole = Math.floor(amount / 10_000);
  const rest = amount - whole * 10_000;
  const share = money(whole * terms.basisPoints + Math.floor((rest * terms.basisPoints + 5_000) / 10_000));
  let fee = add(terms.fixed, share);
  if (terms.floor !== null && fee < terms.floor) fee = terms.floor;
  if (terms.cap !== null && fee > terms.cap) fee = terms.cap;
  return fee;
}

/** The fee of a new transaction. A charge's fee never exceeds its amount: its net is never negative. */
export function quoteFee(
  type: CreatableType,
  amount: Money,
  currency: Currency,
  settings: AccountSettings,
  policy: Policy,
): Money {
  if (type === 'DEPOSIT') return ZERO;
  const fee = feeOn(amount, termsOf(type, currency, settings, policy));
  return type === 'CHARGE' && fee > amount ? amount : fee;
}

function termsOf(
  type: keyof Policy['fees'],
  currency: Currency,
  settings: AccountSettings,
  policy: Policy,
): FeePolicy {
  const own = settings.fees[USAGE_KEYS[type][currency]];
  if (own !== undefined) return own;
  if (type !== 'WITHDRAWAL') return policy.fees[type][currency];
  // The fee of a withdrawal is the payout fee (specification, part 2), unless something else is said of withdrawals.
  return policy.fees.WITHDRAWAL[currency] ?? termsOf('PAYOUT', currency, settings, policy);
}
