// How many transactions of one partition are in which state, how much money is on hold, and what waits for operators to
// reconcile it: for /metrics. Counted as records are applied, in a few array cells, so that the ledger's own path does not
// feel it.

import {
  type AccountEvent,
  type AccountRecord,
  RECONCILIATION_KINDS,
  type ReconciliationKind,
} from '../../src/domain/account-event.ts';
import type { Account } from '../../src/domain/account.ts';
import { CURRENCIES, type Currency } from '../../src/domain/country.ts';
import type { LedgerState, ReconciliationItem } from '../../src/domain/state.ts';
import {
  isCashOut,
  isFinal,
  STATUSES,
  type Status,
  type Transaction,
  TRANSACTION_TYPES,
} from '../../src/domain/transaction.ts';
import { currencyOfBucket, typeOfBucket } from '../../src/domain/transaction-filter.ts';

type Ledger = Pick<LedgerState, 'transaction' | 'reconciliation'>;

const CHARGE = TRANSACTION_TYPES.indexOf('CHARGE');
const PENDING_PROVIDER = STATUSES.indexOf('PENDING_PROVIDER');
const AWAITING_CUSTOMER = STATUSES.indexOf('AWAITING_CUSTOMER');

/** Events that change a transaction's status; ChargeCreated, the most frequent, goes its own way. */
const MOVE_TYPES = [
  'SubmissionAccepted',
  'WithdrawalApproved',
  'DepositCreated',
  'PayoutCreated',
  'WithdrawalCreated',
  'WithdrawalRejected',
  'TransactionSucceeded',
  'TransactionFailed',
  'ChargeReversed',
] as const satisfies readonly AccountEvent['type'][];
const MOVES: ReadonlySet<string> = new Set(MOVE_TYPES);
type Move = Extract<AccountEvent, { type: (typeof MOVE_TYPES)[number] }>;

export class Census {
  /** Entered since this process opened the partition, by type and status. */
  readonly #entered = new Float64Array(TRANSACTION_TYPES.length * STATUSES.length);
  /** Not final, by status. */
  readonly #open = new Float64Array(STATUSES.length);
  /** Payouts and withdrawals in flight, and their amounts plus fees, by currency. The sum over many accounts may be more than a number
   *  counts exactly, and what was rounded once would stay wrong. */
  readonly #holds = new Float64Array(CURRENCIES.length);
  readonly #held = CURRENCIES.map(() => 0n);
  /** Reconciliation items raised since this process opened the partition, and those not resolved, by kind. */
  readonly #raised = new Float64Array(RECONCILIATION_KINDS.length);
  readonly #unresolved = new Float64Array(RECONCILIATION_KINDS.length);

  /** A transaction that is in flight when the partition is opened. `bucket`: of its open row. */
  seed(bucket: string): void {
    this.#open[Number(bucket.charAt(1))]!++;
    if (isCashOut(typeOfBucket(bucket))) this.#holds[CURRENCIES.indexOf(currencyOfBucket(bucket))]!++;
  }

  /** An account that has payouts or withdrawals in flight then. Its ledger knows what they hold: none of them need be read for it. */
  seedHeld({ balances }: Pick<Account, 'balances'>): void {
    for (const [currency, { SETTLEMENT_CLEARING: held }] of balances) {
      this.#held[CURRENCIES.indexOf(currency)]! += BigInt(held);
    }
  }

  /** A reconciliation item that is there when the partition is opened. */
  seedItem({ kind, resolvedAt }: ReconciliationItem): void {
    if (resolvedAt === null) this.#unresolved[RECONCILIATION_KINDS.indexOf(kind)]!++;
  }

  /** After a record was applied. */
  follow(record: AccountRecord, ledger: Ledger): void {
    for (const event of record.events) {
      if (event.type === 'ChargeCreated') {
        this.#enter(CHARGE, PENDING_PROVIDER);
        this.#open[PENDING_PROVIDER]!++;
      } else if (MOVES.has(event.type)) {
        this.#moved(ledger.transaction((event as Move).id)!, event.type);
      } else if (event.type === 'ReconciliationRaised') {
        this.#raised[RECONCILIATION_KINDS.indexOf(event.kind)]!++;
        this.#unresolved[RECONCILIATION_KINDS.indexOf(event.kind)]!++;
      } else if (event.type === 'ReconciliationResolved') {
        const { kind } = ledger.reconciliation(event.id)!;
        this.#unresolved[RECONCILIATION_KINDS.indexOf(kind)]!--;
      }
    }
  }

  #moved(transaction: Transaction, by: string): void {
    const { events, type } = transaction;
    const isNew = by === 'DepositCreated' || by === 'PayoutCreated' || by === 'WithdrawalCreated';
    const now = STATUSES.indexOf(transaction.status);
    // That of a cash-out changes no status.
    if (by === 'SubmissionAccepted' && now !== AWAITING_CUSTOMER) return;
    this.#enter(TRANSACTION_TYPES.indexOf(type), now);
    if (!isNew) this.#leave(events[events.length - 2]!.status);
    const isOpen = !isFinal(transaction.status);
    if (isOpen) this.#open[now]!++;
    if (!isCashOut(type)) return;
    if (isNew) this.#hold(transaction, 1);
    else if (!isOpen) this.#hold(transaction, -1);
  }

  #enter(type: number, status: number): void {
    this.#entered[type * STATUSES.length + status]!++;
  }

  #leave(status: Status): void {
    if (!isFinal(status)) this.#open[STATUSES.indexOf(status)]!--;
  }

  #hold({ currency, amount, fee }: Transaction, sign: 1 | -1): void {
    const at = CURRENCIES.indexOf(currency);
    this.#holds[at]! += sign;
    this.#held[at]! += BigInt(sign * (amount + fee));
  }

  *entered(): Generator<{ type: string; status: Status; count: number }> {
    for (const [t, type] of TRANSACTION_TYPES.entries()) {
      for (const [s, status] of STATUSES.entries()) {
        const count = this.#entered[t * STATUSES.length + s]!;
        if (count > 0) yield { type, status, count };
      }
    }
  }

  /** Goes on from what `other` has counted, whose partition this process writes no more. What is open left with it. */
  absorb(other: Census): void {
    for (const [at, count] of other.#entered.entries()) this.#entered[at]! += count;
    for (const [at, count] of other.#raised.entries()) this.#raised[at]! += count;
  }

  open(status: Status): number {
    return this.#open[STATUSES.indexOf(status)]!;
  }

  holds(currency: Currency): { count: number; amount: number } {
    const at = CURRENCIES.indexOf(currency);
    return { count: this.#holds[at]!, amount: Number(this.#held[at]) };
  }

  /** Items raised of `kind`, and those of them and of before that nobody has resolved. */
  reconciliation(kind: ReconciliationKind): { raised: number; open: number } {
    const at = RECONCILIATION_KINDS.indexOf(kind);
    return { raised: this.#raised[at]!, open: this.#unresolved[at]! };
  }
}
