// Transactions by state and the money on hold, for /metrics: kept from the committed records of the accounts group, so that
// the ledger's own path is not touched.
//
// Invariant: memory holds what is in flight, never the history. After a restart `seed` says what was in flight; an event of
// a transaction that was not seeded counts as a transition and changes no gauge.

import { CountTree } from './counts.ts';
import type { Metrics } from './metrics.ts';

type Type = 'CHARGE' | 'PAYOUT' | 'DEPOSIT' | 'WITHDRAWAL';
type OpenStatus = 'INITIATED' | 'PENDING_PROVIDER' | 'AWAITING_CUSTOMER';
type FinalStatus = 'SUCCESSFUL' | 'FAILED' | 'REVERSED';

/** The part of the accounts group's events that is looked at. */
interface Event {
  readonly type: string;
  readonly id?: string;
  readonly amount?: number;
  readonly fee?: number;
  readonly currency?: string;
  readonly approvalRequired?: boolean;
}

interface InFlight {
  readonly type: Type;
  status: OpenStatus;
  readonly currency: string;
  /** Amount + fee for payouts and withdrawals; 0 for money that comes in. */
  readonly held: number;
}

const CREATED: Readonly<Partial<Record<string, Type>>> = {
  ChargeCreated: 'CHARGE',
  DepositCreated: 'DEPOSIT',
  PayoutCreated: 'PAYOUT',
  WithdrawalCreated: 'WITHDRAWAL',
};
const OPENED: Readonly<Partial<Record<string, OpenStatus>>> = {
  SubmissionAccepted: 'AWAITING_CUSTOMER',
  WithdrawalApproved: 'PENDING_PROVIDER',
};
const CLOSED: Readonly<Partial<Record<string, FinalStatus>>> = {
  TransactionSucceeded: 'SUCCESSFUL',
  TransactionFailed: 'FAILED',
  WithdrawalRejected: 'FAILED',
  ChargeReversed: 'REVERSED',
};
const TYPES: Readonly<Partial<Record<string, Type>>> = {
  chg_: 'CHARGE',
  dep_: 'DEPOSIT',
  pyt_: 'PAYOUT',
  wdl_: 'WITHDRAWAL',
};

export class TransactionCounts {
  readonly #inFlight = new Map<string, InFlight>();
  /** By status. */
  readonly #open = new CountTree();
  /** By currency. */
  readonly #heldAmounts = new CountTree();
  readonly #holds = new CountTree();
  readonly #entered: ReturnType<Metrics['counter']>;

  constructor(metrics: Metrics) {
    const entered = 'Transactions that entered a state, by type, since the process started.';
    this.#entered = metrics.counter('daftari_transactions_total', entered, ['type', 'status']);
    metrics.gaugeBy('daftari_transactions_open', 'Transactions that are not final.', 'status', () =>
      byOneLabel(this.#open),
    );
    metrics.gaugeBy('daftari_open_holds', 'Payouts and withdrawals in flight.', 'currency', () =>
      byOneLabel(this.#holds),
    );
    metrics.gaugeBy('daftari_open_holds_amount', 'Money on hold, minor units.', 'currency', () =>
      byOneLabel(this.#heldAmounts),
    );
  }

  /** A transaction that was in flight before the first record that `follow` gets. */
  seed(
    id: string,
    transaction: { readonly status: OpenStatus; readonly currency: string; readonly held: number },
  ): void {
    const type = TYPES[id.slice(0, 4)];
    if (type !== undefined && !this.#inFlight.has(id)) this.#add(id, { type, ...transaction });
  }

  /** Committed records of any accounts partition, each once. */
  follow(records: readonly { readonly events: readonly Event[] }[]): void {
    for (const { events } of records) for (const event of events) this.#take(event);
  }

  #take(event: Event): void {
    const { id } = event;
    if (id === undefined) return;
    const created = CREATED[event.type];
    if (created !== undefined) {
      this.#create(id, created, event);
      return;
    }
    const opened = OPENED[event.type];
    if (opened !== undefined) this.#move(id, opened);
    const closed = CLOSED[event.type];
    if (closed !== undefined) this.#close(id, closed);
  }

  #create(id: string, type: Type, { amount = 0, fee = 0, currency = '', approvalRequired }: Event): void {
    const held = type === 'PAYOUT' || type === 'WITHDRAWAL' ? amount + fee : 0;
    const status = approvalRequired === true ? 'INITIATED' : 'PENDING_PROVIDER';
    this.#entered.add(1, type, status);
    this.#add(id, { type, status, currency, held });
  }

  #add(id: string, transaction: InFlight): void {
    this.#inFlight.set(id, transaction);
    this.#open.add(1, transaction.status);
    this.#hold(transaction, 1);
  }

  /** Only money that comes in waits for a customer. */
  #move(id: string, to: OpenStatus): void {
    const transaction = this.#inFlight.get(id);
    const type = TYPES[id.slice(0, 4)];
    const isCashOut = type === 'PAYOUT' || type === 'WITHDRAWAL';
    if (type === undefined || (to === 'AWAITING_CUSTOMER' && isCashOut)) return;
    this.#entered.add(1, type, to);
    if (transaction === undefined) return;
    this.#open.add(-1, transaction.status);
    this.#open.add(1, to);
    transaction.status = to;
  }

  #close(id: string, to: FinalStatus): void {
    const type = TYPES[id.slice(0, 4)];
    if (type !== undefined) this.#entered.add(1, type, to);
    const transaction = this.#inFlight.get(id);
    if (transaction === undefined) return;
    this.#inFlight.delete(id);
    this.#open.add(-1, transaction.status);
    this.#hold(transaction, -1);
  }

  #hold({ held, currency }: InFlight, sign: 1 | -1): void {
    if (held === 0) return;
    this.#holds.add(sign, currency);
    this.#heldAmounts.add(sign * held, currency);
  }
}

function byOneLabel(counts: CountTree): (readonly [string, number])[] {
  return Array.from(counts.entries(), ([path, value]) => [path[0] ?? '', value] as const);
}
