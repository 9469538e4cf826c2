// The money of one partition, added up a second time from the journals of every transaction, and held against the balances
// that its accounts state; each transaction has the journals that are due for what became of it. Shares no code with what
// booked them. Over many accounts, and over all that ever went through one, money adds up to more than the safe integers: it
// is added up as bigint.

import { decodeAccount } from '../../actors/accounts/rows.ts';
import { decodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { AssertionFailure } from '../domain/assert.ts';
import type { Currency } from '../domain/country.ts';
import { type Journal, LEDGER_ACCOUNTS, type LedgerAccount, type LedgerBalances } from '../domain/ledger.ts';
import { LIMITS } from '../limits.ts';
import type { Transaction } from '../domain/transaction.ts';
import { nameOf, type PartitionName, type Row } from '../../wal/types.ts';
import { journalsProblem } from './due-journals.ts';

export interface LedgerFault {
  /** Empty: it is not known. */
  readonly accountId: string;
  readonly transactionId: string | null;
  readonly problem: string;
}

type Amounts = Record<LedgerAccount, bigint>;

export type Totals = ReadonlyMap<Currency, Readonly<Amounts>>;

export interface LedgerAudit {
  readonly accounts: number;
  readonly transactions: number;
  readonly journals: number;
  readonly totals: Totals;
  /** All of them, also those not told. */
  readonly faultCount: number;
  readonly faults: readonly LedgerFault[];
}

interface Sums {
  readonly stated: LedgerBalances | null;
  readonly posted: Amounts;
  /** Amount and fee of what is on its way out. */
  openHolds: bigint;
  reversed: boolean;
}

export function ledgerLines(audits: readonly (LedgerAudit & PartitionName)[]): string[] {
  return audits.flatMap((audit) => {
    const hidden = audit.faultCount - audit.faults.length;
    return [
      ...audit.faults.map(({ accountId, transactionId, problem }) => {
        const names = [nameOf(audit), accountId, transactionId ?? ''].filter((name) => name !== '');
        return `${names.join(' ')}: ${problem}`;
      }),
      ...(hidden > 0 ? [`${nameOf(audit)}: ${hidden} more faults in its ledger`] : []),
    ];
  });
}

/** What was added up. */
export function auditedText(audits: readonly LedgerAudit[]): string {
  const sum = (of: (audit: LedgerAudit) => number): number =>
    audits.reduce((total, one) => total + of(one), 0);
  return (
    `${sum((one) => one.accounts)} accounts, ${sum((one) => one.transactions)} transactions, ` +
    `${sum((one) => one.journals)} journals`
  );
}

/** `rows`: the views of an accounts partition, in the order of their keys (accounts come before transactions). */
export function auditLedger(rows: Iterable<Row>): LedgerAudit {
  const sums = new Map<string, Sums>();
  const faults: LedgerFault[] = [];
  let faultCount = 0;
  const tell = (accountId: string, transactionId: string | null, problem: string): void => {
    faultCount += 1;
    if (faults.length < LIMITS.logToolDifferencesShownMax) faults.push({ accountId, transactionId, problem });
  };
  let accounts = 0;
  let transactions = 0;
  let journals = 0;
  for (const { table, key, value } of rows) {
    if (value === null) continue;
    if (table === 'account') {
      accounts += 1;
      const account = readable(decodeAccount, key, value);
      if (typeof account === 'string') {
        tell(key, null, account);
        continue;
      }
      for (const [currency, stated] of account.balances) {
        sums.set(`${account.id} ${currency}`, newSums(stated));
      }
    } else if (table === 'transaction') {
      transactions += 1;
      const transaction = readable(decodeKnown, key, value);
      if (typeof transaction === 'string') {
        tell('', key, transaction);
        continue;
      }
      journals += transaction.journals.length;
      addTransaction(sums, transaction, tell);
    }
  }
  const totals = new Map<Currency, Amounts>();
  for (const [key, each] of sums) {
    const [accountId, currency] = key.split(' ') as [string, Currency];
    checkAccount(accountId, currency, each, tell);
    addTotals(totals, currency, each);
  }
  return { accounts, transactions, journals, totals, faultCount, faults };
}

/** Reading a transaction asserts that its journals balance. A text: what does not hold, or why the row is none: it may be
 *  damaged in any way. */
function readable<T extends { readonly id: string }>(
  decode: (row: string) => T,
  key: string,
  row: string,
): T | string {
  try {
    const found = decode(row);
    return found.id === key ? found : `the row cannot be read: it is that of ${found.id}`;
  } catch (error) {
    if (error instanceof Error) return `the row cannot be read: ${wrongIn(error)}`;
    throw error;
  }
}

/** Of a row that has another number in the place of one: no list may have so many, or the amount may be none. */
function decodeKnown(row: string): Transaction {
  const transaction = decodeTransaction(row);
  const { type, status, currency, amount, fee, journals } = transaction;
  const isKnown =
    [type, status, currency].every((each: unknown) => each !== undefined) &&
    [amount, fee].every((each) => Number.isSafeInteger(each)) &&
    journals.every(({ entries }) =>
      entries.every(({ account }: { account: unknown }) => account !== undefined),
    );
  if (!isKnown) throw new TypeError('a field of it has no such value');
  return transaction;
}

/** In words of ours: those of the parser quote what stands there, which may be a phone number. */
function wrongIn(error: Error): string {
  if (error instanceof AssertionFailure) return error.message;
  if (!(error instanceof SyntaxError)) return 'a field of it is missing, or is of another kind';
  const [, position] = / at position (\d+)/.exec(error.message) ?? [];
  return `it is not JSON${position === undefined ? '' : `, from character ${position} on`}`;
}

type Tell = (accountId: string, transactionId: string | null, problem: string) => void;

function newSums(stated: LedgerBalances | null): Sums {
  return { stated, posted: nothing(), openHolds: 0n, reversed: false };
}

function nothing(): Amounts {
  return {
    MERCHANT_PENDING: 0n,
    MERCHANT_AVAILABLE: 0n,
    FEES_REVENUE: 0n,
    PROVIDER_FLOAT: 0n,
    SETTLEMENT_CLEARING: 0n,
  };
}

function addTransaction(sums: Map<string, Sums>, transaction: Transaction, tell: Tell): void {
  const { id, accountId, currency, type, status, amount, fee } = transaction;
  const key = `${accountId} ${currency}`;
  const of = sums.get(key) ?? newSums(null);
  sums.set(key, of);
  for (const journal of transaction.journals) {
    const difference = post(of.posted, journal);
    if (difference !== 0n) {
      tell(accountId, id, `${journal.reason}: debits exceed credits by ${difference} ${currency}`);
    }
    if (journal.currency !== currency) tell(accountId, id, `${journal.reason} is in ${journal.currency}`);
  }
  const problem = journalsProblem(transaction);
  if (problem !== null) tell(accountId, id, problem);
  if (status === 'REVERSED') of.reversed = true;
  const isOpen = status !== 'SUCCESSFUL' && status !== 'FAILED';
  if ((type === 'PAYOUT' || type === 'WITHDRAWAL') && isOpen) of.openHolds += BigInt(amount + fee);
}

/** Returns debits minus credits, which must be zero. */
function post(balances: Amounts, { entries }: Journal): bigint {
  let difference = 0n;
  for (const { account, side, amount } of entries) {
    const debit = BigInt(side === 'DEBIT' ? amount : -amount);
    difference += debit;
    balances[account] += account === 'PROVIDER_FLOAT' ? debit : -debit;
  }
  return difference;
}

function checkAccount(accountId: string, currency: Currency, of: Sums, tell: Tell): void {
  const { stated, posted, openHolds, reversed } = of;
  if (stated === null) return tell(accountId, null, `transactions in ${currency}, but no balance in it`);
  for (const name of LEDGER_ACCOUNTS) {
    if (isAmount(stated[name], posted[name])) continue;
    tell(
      accountId,
      null,
      `${name} is stated as ${stated[name]} ${currency}, its journals add up to ${posted[name]}`,
    );
  }
  const sum = zeroSum(amountsOf(stated, posted));
  if (sum !== 0n) tell(accountId, null, `the ledger accounts in ${currency} sum to ${sum}, not to zero`);
  if (stated.MERCHANT_AVAILABLE < 0 && !reversed) {
    tell(accountId, null, `available is ${stated.MERCHANT_AVAILABLE} ${currency}, and nothing was reversed`);
  }
  if (!isAmount(stated.SETTLEMENT_CLEARING, openHolds)) {
    tell(
      accountId,
      null,
      `SETTLEMENT_CLEARING is ${stated.SETTLEMENT_CLEARING} ${currency}, open holds are ${openHolds}`,
    );
  }
}

function isAmount(stated: number, amount: bigint): boolean {
  return Number.isSafeInteger(stated) && BigInt(stated) === amount;
}

/** `stated`, but for what is no amount in a damaged row. */
function amountsOf(stated: LedgerBalances, otherwise: Amounts): Amounts {
  const amounts = nothing();
  for (const name of LEDGER_ACCOUNTS) {
    const amount = stated[name];
    amounts[name] = Number.isSafeInteger(amount) ? BigInt(amount) : otherwise[name];
  }
  return amounts;
}

/** Debits minus credits over all ledger accounts. */
export function zeroSum(amounts: Readonly<Amounts>): bigint {
  const { PROVIDER_FLOAT, MERCHANT_PENDING, MERCHANT_AVAILABLE, FEES_REVENUE, SETTLEMENT_CLEARING } = amounts;
  return PROVIDER_FLOAT - MERCHANT_PENDING - MERCHANT_AVAILABLE - FEES_REVENUE - SETTLEMENT_CLEARING;
}

function addTotals(totals: Map<Currency, Amounts>, currency: Currency, { stated, posted }: Sums): void {
  const total = totals.get(currency) ?? nothing();
  totals.set(currency, total);
  const amounts = stated === null ? posted : amountsOf(stated, posted);
  for (const name of LEDGER_ACCOUNTS) total[name] += amounts[name];
}
