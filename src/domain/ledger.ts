// The double-entry ledger: accounts, sides, reasons and the journals each movement makes. Every journal is
// balanced when it is made and again when it is read back; a balance is only ever the sum of entries.

import { assert } from './assert.ts';
import type { Currency } from './country.ts';
import type { Money } from './money.ts';

export const LEDGER_ACCOUNTS = [
  'MERCHANT_PENDING',
  'MERCHANT_AVAILABLE',
  'FEES_REVENUE',
  'PROVIDER_FLOAT',
  'SETTLEMENT_CLEARING',
] as const;
export type LedgerAccount = (typeof LEDGER_ACCOUNTS)[number];

export const SIDES = ['DEBIT', 'CREDIT'] as const;
export type Side = (typeof SIDES)[number];

export const REASONS = [
  'CHARGE_SETTLED',
  'CHARGE_RELEASED',
  'CHARGE_REVERSED',
  'DEPOSIT_SETTLED',
  'PAYOUT_HELD',
  'PAYOUT_SETTLED',
  'PAYOUT_RETURNED',
  'WITHDRAWAL_HELD',
  'WITHDRAWAL_SETTLED',
  'WITHDRAWAL_RETURNED',
] as const;
export type Reason = (typeof REASONS)[number];

/** `amount` is never negative; entries of amount zero are left out. */
export interface Entry {
  readonly account: LedgerAccount;
  readonly side: Side;
  readonly amount: Money;
}

/** Its id is derived: deriveId('journal', transaction.id, index in `journals`). */
export interface Journal {
  readonly reason: Reason;
  readonly currency: Currency;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly entries: readonly Entry[];
}

/** Asserts debits = credits and returns the journal. */
export function balanced(journal: Journal): Journal {
  let difference = 0;
  for (const entry of journal.entries) {
    assert(entry.amount > 0, 'a ledger entry moves a positive amount');
    difference += entry.side === 'DEBIT' ? entry.amount : -entry.amount;
  }
  assert(difference === 0, `debits equal credits in ${journal.reason}`);
  return journal;
}
