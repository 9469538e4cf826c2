// The transaction: one movement of money, of any type, with its status history and its journals. Every
// public object (charge, payout, withdrawal, deposit, transaction) is a rendering of this (render.ts).
//
//                 ┌──────────────────────────────► FAILED
//   INITIATED ──► PENDING_PROVIDER ──► AWAITING_CUSTOMER ──► SUCCESSFUL ──► REVERSED (charges only)
//       └(a withdrawal waits here for approval)
//
// Invariants: events are only appended; the transaction's status is that of its last event; updatedAt is the
// time of its last event; nothing but `evolve` writes here; records, rows and the index of lists hold the place of a name in its
// list below, so a new one goes to the end.

import { assert } from './assert.ts';
import type { Country, Currency, Network } from './country.ts';
import type { CashOutType, Journal } from './ledger.ts';
import type { Money } from './money.ts';

export const TRANSACTION_TYPES = ['CHARGE', 'PAYOUT', 'DEPOSIT', 'WITHDRAWAL', 'REFUND'] as const;
export type TransactionType = (typeof TRANSACTION_TYPES)[number];

/** Types that a merchant can create. */
export const CREATABLE_TYPES = [
  'CHARGE',
  'PAYOUT',
  'DEPOSIT',
  'WITHDRAWAL',
] as const satisfies readonly TransactionType[];
export type CreatableType = (typeof CREATABLE_TYPES)[number];

export const STATUSES = [
  'INITIATED',
  'PENDING_PROVIDER',
  'AWAITING_CUSTOMER',
  'SUCCESSFUL',
  'FAILED',
  'REVERSED',
] as const;
export type Status = (typeof STATUSES)[number];

/** From a status to those that may follow it. A status may be skipped forwards, never backwards. */
export const NEXT_STATUSES = {
  INITIATED: ['PENDING_PROVIDER', 'FAILED'],
  PENDING_PROVIDER: ['AWAITING_CUSTOMER', 'SUCCESSFUL', 'FAILED'],
  AWAITING_CUSTOMER: ['SUCCESSFUL', 'FAILED'],
  SUCCESSFUL: ['REVERSED'],
  FAILED: [],
  REVERSED: [],
} as const satisfies Record<Status, readonly Status[]>;

const IS_FINAL = {
  INITIATED: false,
  PENDING_PROVIDER: false,
  AWAITING_CUSTOMER: false,
  SUCCESSFUL: true,
  FAILED: true,
  REVERSED: true,
} as const satisfies Record<Status, boolean>;
/** Merchants are told of each of these. */
export type FinalStatus = { [S in Status]: (typeof IS_FINAL)[S] extends true ? S : never }[Status];

export const APPROVAL_STATUSES = ['NOT_REQUIRED', 'PENDING', 'APPROVED', 'REJECTED'] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

export const SOURCES = ['API', 'PROVIDER_CALLBACK', 'PROVIDER_POLL', 'DASHBOARD', 'SYSTEM'] as const;
export type Source = (typeof SOURCES)[number];

export const FAILURE_CODES = [
  'insufficient_funds',
  'customer_declined',
  'customer_unreachable',
  'wallet_not_found',
  'wallet_limit_exceeded',
  'wallet_inactive',
  'invalid_msisdn',
  'expired',
  'provider_rejected',
  'provider_unavailable',
  'unknown',
  'approval_rejected',
] as const;
export type FailureCode = (typeof FAILURE_CODES)[number];

/** Its id is derived: deriveId('event', transaction.id, index in `events`). */
export interface StatusEvent {
  readonly status: Status;
  readonly source: Source;
  readonly providerStatus: string | null;
  readonly message: string | null;
  /** Milliseconds since 1970. */
  readonly at: number;
}

export type MetadataValue = string | number | boolean | null;
export type Metadata = Readonly<Record<string, MetadataValue>>;

export interface Transaction {
  readonly id: string;
  readonly type: TransactionType;
  readonly accountId: string;
  /** The app whose key caused it; null when money was moved from the dashboard. */
  readonly appId: string | null;
  /** The user who asked for it in the dashboard; null when it came by API key. */
  readonly requestedBy: string | null;
  readonly amount: Money;
  readonly currency: Currency;
  readonly country: Country;
  readonly network: Network;
  /** International digits without "+". Never leaves the service unmasked, except to the provider. */
  readonly msisdn: string;
  readonly reference: string;
  /** Charges and deposits. */
  readonly description: string | null;
  /** Payouts and withdrawals. */
  readonly narration: string | null;
  readonly metadata: Metadata | null;
  /** Withdrawals: the payout wallet's id. */
  readonly destination: string | null;
  /** Id of the rail it goes over, e.g. "mtn_ug". */
  readonly provider: string;
  /** Quoted when it was created; booked, and shown where the specification says so, on success. */
  readonly fee: Money;
  /** Charges and deposits: when it expires without an answer. Null: it never does. */
  readonly expiresAt: number | null;
  approvalStatus: ApprovalStatus;
  status: Status;
  failureCode: FailureCode | null;
  failureMessage: string | null;
  /** The provider's own id of the movement, once known. */
  providerTransactionId: string | null;
  /** True once the provider has acknowledged the submit. */
  submitted: boolean;
  /** Withdrawals: certainly with no provider, for its first submit is recorded before it is made and is not recorded yet. */
  unsent: boolean;
  /** Both lists are replaced, not grown: an array that `push` makes room in keeps room for some sixteen more, in each of all
   *  the transactions in memory. */
  events: readonly StatusEvent[];
  journals: readonly Journal[];
  /** Index in `events` of the state that the create call's 201 shows, fixed for ever; null until it is known. */
  answeredAt: number | null;
  /** Charges: when its net becomes available; null before success. */
  releaseAt: number | null;
  released: boolean;
  /** Log sequence of the last record that touched it. */
  sequence: number;
}

export function isFinal(status: Status): boolean {
  return IS_FINAL[status];
}

export function isCashOut(type: TransactionType): type is CashOutType {
  return type === 'PAYOUT' || type === 'WITHDRAWAL';
}

/** The status event at `index`, which must exist. */
export function statusEvent(transaction: Transaction, index: number): StatusEvent {
  const event = transaction.events[index];
  assert(event !== undefined, 'the status event exists');
  return event;
}

export function createdAt(transaction: Transaction): number {
  return statusEvent(transaction, 0).at;
}
