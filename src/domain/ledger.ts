// The double-entry ledger: accounts, sides, reasons and the journals each movement makes. Every journal is
// balanced when it is made and again when it is read back; a balance is only ever the sum of entries.

import { assert } from './assert.ts';
import type { Currency } from './country.ts';
import { add, money, type Money, subtract, ZERO } from './money.ts';

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

/** A movement out of the available balance, by which it is held meanwhile. */
export type CashOutType = 'PAYOUT' | 'WITHDRAWAL';

/** `amount` is never negative; entries of amount zero are left out. */
export interface Entry {
  readonly account: LedgerAccount;
  readonly side: Side;
  readonly amount: Money;
}

/** Its id is derived: deriveId('journal', transaction.id, index in `journals`); its entries' ids likewise, counted over
 *  all journals of the transaction. */
export interface Journal {
  readonly reason: Reason;
  readonly currency: Currency;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly entries: readonly Entry[];
}

function entry(account: LedgerAccount, side: Side, amount: Money): Entry {
  return { account, side, amount };
}

function journal(reason: Reason, currency: Currency, at: number, entries: Entry[]): Journal {
  return balanced({ reason, currency, at, entries: entries.filter(movesMoney) });
}

function movesMoney(row: Entry): boolean {
  return row.amount !== 0;
}

/** The customer paid: the float has the amount, the merchant its net, we the fee. */
export function chargeSettled(amount: Money, fee: Money, currency: Currency, at: number): Journal {
  return journal('CHARGE_SETTLED', currency, at, [
    entry('PROVIDER_FLOAT', 'DEBIT', amount),
    entry('MERCHANT_PENDING', 'CREDIT', subtract(amount, fee)),
    entry('FEES_REVENUE', 'CREDIT', fee),
  ]);
}

/** A day later: the net becomes available. */
export function chargeReleased(amount: Money, fee: Money, currency: Currency, at: number): Journal {
  const net = subtract(amount, fee);
  return journal('CHARGE_RELEASED', currency, at, [
    entry('MERCHANT_PENDING', 'DEBIT', net),
    entry('MERCHANT_AVAILABLE', 'CREDIT', net),
  ]);
}

/** The network took the payment back: the settlement mirrored, out of the balance that its net is in by now. */
export function chargeReversed(
  amount: Money,
  fee: Money,
  released: boolean,
  currency: Currency,
  at: number,
): Journal {
  return journal('CHARGE_REVERSED', currency, at, [
    entry(released ? 'MERCHANT_AVAILABLE' : 'MERCHANT_PENDING', 'DEBIT', subtract(amount, fee)),
    entry('FEES_REVENUE', 'DEBIT', fee),
    entry('PROVIDER_FLOAT', 'CREDIT', amount),
  ]);
}

export function depositSettled(amount: Money, currency: Currency, at: number): Journal {
  return journal('DEPOSIT_SETTLED', currency, at, [
    entry('PROVIDER_FLOAT', 'DEBIT', amount),
    entry('MERCHANT_AVAILABLE', 'CREDIT', amount),
  ]);
}

/** Money on its way out is held, fee included, so that two requests never spend it twice. */
export function held(type: CashOutType, amount: Money, fee: Money, currency: Currency, at: number): Journal {
  const total = add(amount, fee);
  return journal(`${type}_HELD`, currency, at, [
    entry('MERCHANT_AVAILABLE', 'DEBIT', total),
    entry('SETTLEMENT_CLEARING', 'CREDIT', total),
  ]);
}

/** The recipient has the amount: the hold is paid out. */
export function settled(
  type: CashOutType,
  amount: Money,
  fee: Money,
  currency: Currency,
  at: number,
): Journal {
  return journal(`${type}_SETTLED`, currency, at, [
    entry('SETTLEMENT_CLEARING', 'DEBIT', add(amount, fee)),
    entry('PROVIDER_FLOAT', 'CREDIT', amount),
    entry('FEES_REVENUE', 'CREDIT', fee),
  ]);
}

/** The whole hold goes back, fee included. */
export function returned(
  type: CashOutType,
  amount: Money,
  fee: Money,
  currency: Currency,
  at: number,
): Journal {
  const total = add(amount, fee);
  return journal(`${type}_RETURNED`, currency, at, [
    entry('SETTLEMENT_CLEARING', 'DEBIT', total),
    entry('MERCHANT_AVAILABLE', 'CREDIT', total),
  ]);
}

/** Sums of ledger entries in one currency. MERCHANT_* and FEES_REVENUE, SETTLEMENT_CLEARING: credits minus
 *  debits. PROVIDER_FLOAT: debits minus credits. So float = pending + available + clearing + fees. */
export type LedgerBalances = Record<LedgerAccount, Money>;

export function emptyBalances(): LedgerBalances {
  return {
    MERCHANT_PENDING: ZERO,
    MERCHANT_AVAILABLE: ZERO,
    FEES_REVENUE: ZERO,
    PROVIDER_FLOAT: ZERO,
    SETTLEMENT_CLEARING: ZERO,
  };
}

/**
 * Adds a journal to the balances of its currency. Asserts what must hold afterwards: no balance below zero, except
 * `available` (and with it the float) by a reversal after release, which later deposits may only raise.
 */
export function post(balances: LedgerBalances, row: Journal): void {
  balanced(row);
  const availableBefore = balances.MERCHANT_AVAILABLE;
  for (const { account, side, amount } of row.entries) {
    const increases = (side === 'DEBIT') === (account === 'PROVIDER_FLOAT');
    balances[account] = increases ? add(balances[account], amount) : subtract(balances[account], amount);
  }
  assert(zeroCheck(balances) === 0, 'the ledger accounts of a currency sum to zero');
  assert(balances.MERCHANT_PENDING >= 0, 'the pending balance is not below zero');
  assert(balances.FEES_REVENUE >= 0, 'fees booked are not below zero');
  assert(balances.SETTLEMENT_CLEARING >= 0, 'open holds are not below zero');
  const available = balances.MERCHANT_AVAILABLE;
  assert(
    available >= 0 || available >= availableBefore || row.reason === 'CHARGE_REVERSED',
    'the available balance goes below zero by a reversal only',
  );
}

/** Debits minus credits over all accounts of a currency: zero, or money was made or lost. */
export function zeroCheck(balances: LedgerBalances): Money {
  return money(
    balances.PROVIDER_FLOAT -
      balances.MERCHANT_PENDING -
      balances.MERCHANT_AVAILABLE -
      balances.FEES_REVENUE -
      balances.SETTLEMENT_CLEARING,
  );
}

/** Asserts debits = credits and returns the journal. */
export function balanced(row: Journal): Journal {
  let difference = 0;
  for (const { side, amount } of row.entries) {
    assert(amount > 0, 'a ledger entry moves a positive amount');
    difference += side === 'DEBIT' ? amount : -amount;
  }
  assert(difference === 0, 'debits equal credits in a journal');
  return row;
}
