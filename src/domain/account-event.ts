// Events of the accounts group: what happened, past tense, complete enough that `evolve` needs nothing else. A log
// record is the events of one command on one account at one time. This is a format: see event-codec.ts.

import type { AccountSettings, Role } from './account.ts';
import type { Country, Currency, Network } from './country.ts';
import type { Money } from './money.ts';
import type { FailureCode, Metadata, Source, TransactionType } from './transaction.ts';

interface TransactionCreatedFields {
  readonly id: string;
  readonly appId: string | null;
  readonly requestedBy: string | null;
  readonly amount: Money;
  readonly currency: Currency;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  readonly reference: string;
  readonly metadata: Metadata | null;
  /** Rail id. */
  readonly provider: string;
  /** Quoted fee: booked on success; for payouts and withdrawals held from now on. */
  readonly fee: Money;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the body, base64url, first 22 characters. */
  readonly requestHash: string | null;
}

export interface ChargeCreated extends TransactionCreatedFields {
  readonly type: 'ChargeCreated';
  readonly description: string | null;
  readonly expiresAt: number;
}
export interface DepositCreated extends TransactionCreatedFields {
  readonly type: 'DepositCreated';
  readonly description: string | null;
  readonly expiresAt: number;
}
export interface PayoutCreated extends TransactionCreatedFields {
  readonly type: 'PayoutCreated';
  readonly narration: string | null;
}
export interface WithdrawalCreated extends TransactionCreatedFields {
  readonly type: 'WithdrawalCreated';
  readonly narration: string | null;
  readonly destination: string;
  readonly approvalRequired: boolean;
  /** A SubmissionBegun comes before its first submit. False: made in record format 1, whose withdrawals are sent without one. */
  readonly unsent: boolean;
}
export type TransactionCreated = ChargeCreated | DepositCreated | PayoutCreated | WithdrawalCreated;
/** The type of the transaction that each of them creates. */
export const CREATED_TYPES = {
  ChargeCreated: 'CHARGE',
  DepositCreated: 'DEPOSIT',
  PayoutCreated: 'PAYOUT',
  WithdrawalCreated: 'WITHDRAWAL',
} as const satisfies Record<TransactionCreated['type'], TransactionType>;

export interface WithdrawalApproved {
  readonly type: 'WithdrawalApproved';
  readonly id: string;
  readonly by: string;
}
export interface WithdrawalRejected {
  readonly type: 'WithdrawalRejected';
  readonly id: string;
  readonly by: string;
}
/** The withdrawal is about to be submitted for the first time: from now on its provider may have it. */
export interface SubmissionBegun {
  readonly type: 'SubmissionBegun';
  readonly id: string;
}
/** The provider acknowledged the submit. A charge or deposit becomes AWAITING_CUSTOMER. */
export interface SubmissionAccepted {
  readonly type: 'SubmissionAccepted';
  readonly id: string;
  readonly providerStatus: string | null;
}
/** The create call's answer is fixed as the state after this event (nothing else changes). */
export interface AnswerFixed {
  readonly type: 'AnswerFixed';
  readonly id: string;
}
export interface TransactionSucceeded {
  readonly type: 'TransactionSucceeded';
  readonly id: string;
  readonly source: Source;
  readonly providerStatus: string | null;
  readonly providerTransactionId: string | null;
  /** Charges: when the net becomes available. Null for the other types. */
  readonly releaseAt: number | null;
}
export interface TransactionFailed {
  readonly type: 'TransactionFailed';
  readonly id: string;
  readonly source: Source;
  readonly failureCode: FailureCode;
  readonly failureMessage: string | null;
  readonly providerStatus: string | null;
}
export interface ChargeReleased {
  readonly type: 'ChargeReleased';
  readonly id: string;
}
export interface ChargeReversed {
  readonly type: 'ChargeReversed';
  readonly id: string;
  readonly source: Source;
  readonly providerStatus: string | null;
}

/** Records, and the ids of items, hold the place of a kind: a new one goes to the end. */
export const RECONCILIATION_KINDS = [
  'SUCCESS_AFTER_FINAL',
  'AMOUNT_MISMATCH',
  'UNKNOWN_REFERENCE',
  'CONTRADICTION',
] as const;
export type ReconciliationKind = (typeof RECONCILIATION_KINDS)[number];

export interface ReconciliationRaised {
  readonly type: 'ReconciliationRaised';
  readonly id: string;
  readonly kind: ReconciliationKind;
  readonly transactionId: string | null;
  /** What the provider said, for a person. */
  readonly detail: string;
}
export interface ReconciliationResolved {
  readonly type: 'ReconciliationResolved';
  readonly id: string;
  readonly by: string;
  readonly resolution: string;
}

export interface AccountOpened {
  readonly type: 'AccountOpened';
  readonly name: string;
  readonly country: Country;
  readonly settings: AccountSettings;
}
export interface AccountSettingsChanged {
  readonly type: 'AccountSettingsChanged';
  readonly settings: AccountSettings;
  readonly by: string;
}
export interface UserAdded {
  readonly type: 'UserAdded';
  readonly id: string;
  readonly email: string;
  readonly role: Role;
  readonly by: string;
}
/** `by`: the owner who did it, or the operator. */
export interface UserRoleChanged {
  readonly type: 'UserRoleChanged';
  readonly id: string;
  readonly role: Role;
  readonly by: string;
}
export interface UserRemoved {
  readonly type: 'UserRemoved';
  readonly id: string;
  readonly by: string;
}
export interface AppConnected {
  readonly type: 'AppConnected';
  readonly id: string;
  readonly name: string;
  readonly domain: string;
  readonly webhookUrl: string | null;
  readonly publishableKey: string;
  readonly secretKeyHash: string;
  readonly signingSecretSealed: string;
  readonly by: string;
}
export interface AppWebhookChanged {
  readonly type: 'AppWebhookChanged';
  readonly id: string;
  readonly webhookUrl: string | null;
  readonly by: string;
}
export interface AppRemoved {
  readonly type: 'AppRemoved';
  readonly id: string;
  readonly by: string;
}
export interface WalletAdded {
  readonly type: 'WalletAdded';
  readonly id: string;
  readonly label: string;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  readonly by: string;
}
export interface WalletApproved {
  readonly type: 'WalletApproved';
  readonly id: string;
  readonly activeAt: number;
  readonly by: string;
}
export interface WalletActivated {
  readonly type: 'WalletActivated';
  readonly id: string;
}
export interface WalletRevoked {
  readonly type: 'WalletRevoked';
  readonly id: string;
  readonly by: string;
}

export type ReconciliationEvent = ReconciliationRaised | ReconciliationResolved;

/** Of the account itself, once it is open. */
export type AccountChange =
  | AccountSettingsChanged
  | UserAdded
  | UserRoleChanged
  | UserRemoved
  | AppConnected
  | AppWebhookChanged
  | AppRemoved
  | WalletAdded
  | WalletApproved
  | WalletActivated
  | WalletRevoked;

export type AccountEvent =
  | TransactionCreated
  | WithdrawalApproved
  | WithdrawalRejected
  | SubmissionBegun
  | SubmissionAccepted
  | AnswerFixed
  | TransactionSucceeded
  | TransactionFailed
  | ChargeReleased
  | ChargeReversed
  | ReconciliationEvent
  | AccountOpened
  | AccountChange;

/** One log record of the accounts group. */
export interface AccountRecord {
  readonly accountId: string;
  /** Milliseconds since 1970 on the writer's clock, never less than the record before it in the partition. */
  readonly at: number;
  readonly events: readonly AccountEvent[];
}
