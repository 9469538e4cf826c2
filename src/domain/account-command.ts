// Commands and queries of the accounts group: plain JSON, as they travel over the bus. A command asks for a change
// and may be refused; a query changes nothing. What a front could not parse travels as `problem`, so that the fixed
// order of checks (authentication before field rules) is decided in one place: decide.ts.

import type { Role, UsageKey } from './account.ts';
import type { ReconciliationKind } from './account-event.ts';
import type { Country, Currency, Network } from './country.ts';
import type { Rejection } from './error-code.ts';
import type { Money } from './money.ts';
import type { FeePolicy, LimitPolicy } from './policy.ts';
import type {
  ApprovalStatus,
  FailureCode,
  FinalStatus,
  Metadata,
  Source,
  Status,
  TransactionType,
} from './transaction.ts';

interface ForAccount {
  readonly accountId: string;
  /** Milliseconds since 1970; past it the command is dropped undecided. */
  readonly deadline: number;
}

// --- Merchants' commands --------------------------------------------------------------------------------------------

/** What a merchant's call proves about itself. */
export interface ByMerchant extends ForAccount {
  /** SHA-256 of the bearer key, base64url. Null: no key could be read; `problem` says why. */
  readonly keyHash: string | null;
  /** What the front found wrong before anybody knew who was calling; reported in its place in the order of checks. */
  readonly problem: Rejection | null;
}

interface CreateCall<Input> extends ByMerchant {
  readonly idempotencyKey: string | null;
  /** SHA-256 of the body's bytes, base64url, first 22 characters. */
  readonly requestHash: string;
  /** Null exactly when `problem` is set. */
  readonly input: Input | null;
}

/** Bodies as they passed the schema (src/http/schemas.ts): types and lengths hold, meaning is not yet checked.
 *  Absent optional fields may be undefined. */
interface CreateInput {
  readonly amount: string;
  readonly currency: Currency;
  readonly reference: string;
  readonly metadata?: Metadata | null | undefined;
}
/** Its wallet is named by a number. */
interface NumberInput extends CreateInput {
  readonly msisdn: string;
  readonly network?: Network | null | undefined;
  readonly country?: Country | null | undefined;
}
export interface CollectInput extends NumberInput {
  readonly description?: string | null | undefined;
}
export interface PayoutInput extends NumberInput {
  readonly narration?: string | null | undefined;
}
export interface WithdrawalInput extends CreateInput {
  /** A payout wallet's id. */
  readonly destination: string;
  readonly narration?: string | null | undefined;
}

export interface CreateCharge extends CreateCall<CollectInput> {
  readonly type: 'CreateCharge';
}
export interface CreateDeposit extends CreateCall<CollectInput> {
  readonly type: 'CreateDeposit';
}
export interface CreatePayout extends CreateCall<PayoutInput> {
  readonly type: 'CreatePayout';
}
export interface CreateWithdrawal extends CreateCall<WithdrawalInput> {
  readonly type: 'CreateWithdrawal';
}

// --- Pollers' commands ----------------------------------------------------------------------------------------------

/** From the poller group, before it submits a withdrawal. Body: BegunSubmission. */
export interface BeginSubmission extends ForAccount {
  readonly type: 'BeginSubmission';
  readonly transactionId: string;
  /** It was submitted before, and the sender has found out what became of that. Absent: the sender's version does not ask again,
   *  and does not know `revoked`. */
  readonly again?: boolean;
  /** With `again`, after `revoked`: no provider has it, for only the sender can have submitted it, and was refused each time for
   *  certain. Absent: nobody knows that. */
  readonly neverTaken?: boolean;
}
export interface BegunSubmission {
  /** begun         recorded: submit it
   *  begun_before  somebody may have submitted it, perhaps the sender itself, which lost the answer: enquire first, unless `again`
   *  revoked       with `again`: its payout wallet was revoked, do not submit it again; its provider ends what was submitted
   *  ended         it is final, perhaps because its payout wallet was revoked: never submit it */
  readonly submission: 'begun' | 'begun_before' | 'revoked' | 'ended';
}
/** From the poller group. */
export interface RecordSubmission extends ForAccount {
  readonly type: 'RecordSubmission';
  readonly transactionId: string;
  readonly providerStatus: string | null;
}
export interface RecordOutcome extends ForAccount {
  readonly type: 'RecordOutcome';
  readonly transactionId: string;
  readonly outcome: 'SUCCESSFUL' | 'FAILED' | 'REVERSED';
  readonly source: Source;
  /** Set exactly when the outcome is FAILED. */
  readonly failureCode: FailureCode | null;
  readonly failureMessage: string | null;
  readonly providerStatus: string | null;
  readonly providerTransactionId: string | null;
  /** What the provider says was moved, minor units; null when it did not say. A difference raises a
   *  reconciliation item and changes nothing. */
  readonly amount: number | null;
  readonly currency: Currency | null;
}
/** From the poller group: something the provider said that fits no transaction or contradicts one. */
export interface RaiseReconciliation extends ForAccount {
  readonly type: 'RaiseReconciliation';
  readonly kind: ReconciliationKind;
  readonly transactionId: string | null;
  readonly detail: string;
}
/** From the poller group: a callback came, and its provider has not said yet what it was about. When it has, a
 *  ResolveReconciliation resolves the note. Body: NotedCallback. */
export interface NoteCallback extends ForAccount {
  readonly type: 'NoteCallback';
  readonly transactionId: string;
}
export interface NotedCallback {
  /** Of the reconciliation item. */
  readonly id: string;
}
// --- Commands of time -----------------------------------------------------------------------------------------------

/** Timers, and the poller after its last enquiry. Each changes nothing when it comes late or twice. */
export interface ExpireTransaction extends ForAccount {
  readonly type: 'ExpireTransaction';
  readonly transactionId: string;
}
export interface FixAnswer extends ForAccount {
  readonly type: 'FixAnswer';
  readonly transactionId: string;
}
export interface ReleaseCharge extends ForAccount {
  readonly type: 'ReleaseCharge';
  readonly transactionId: string;
}
export interface ActivateWallet extends ForAccount {
  readonly type: 'ActivateWallet';
  readonly walletId: string;
}

// --- Operators' and members' commands -------------------------------------------------------------------------------

/** From the operator API. `operator`: who holds the operator token; `by`: the member acting in the dashboard. */
interface ByOperator extends ForAccount {
  readonly operator: string;
}
/** What is said of an account that is to be: when it is registered, in the registry, and when it is opened. */
export interface NewAccount {
  readonly name: string;
  readonly country: Country;
  readonly live: boolean;
  readonly payoutsEnabled: boolean;
  readonly withdrawalsEnabled: boolean;
  readonly operator: string;
}
export interface OpenAccount extends ByOperator, NewAccount {
  readonly type: 'OpenAccount';
}
export interface AccountSettingsChanges {
  readonly live?: boolean | undefined;
  readonly payoutsEnabled?: boolean | undefined;
  readonly withdrawalsEnabled?: boolean | undefined;
  readonly cashOutPerMinute?: number | null | undefined;
  readonly approvalThresholds?: Partial<Record<Currency, Money | null>> | undefined;
  readonly fees?: Partial<Record<UsageKey, FeePolicy | null>> | undefined;
  readonly limits?: Partial<Record<UsageKey, LimitPolicy | null>> | undefined;
}
export interface ChangeAccountSettings extends ByOperator {
  readonly type: 'ChangeAccountSettings';
  /** What is absent stays. One of the account's own terms that is null is dropped: policy holds again. */
  readonly changes: AccountSettingsChanges;
}
export interface AddUser extends ByOperator {
  readonly type: 'AddUser';
  readonly email: string;
  readonly role: Role;
}
/** `by`: the owner who acts, who may not be one any more; null: the operator. */
export interface ChangeUserRole extends ByOperator {
  readonly type: 'ChangeUserRole';
  readonly userId: string;
  readonly role: Role;
  readonly by: string | null;
}
export interface RemoveUser extends ByOperator {
  readonly type: 'RemoveUser';
  readonly userId: string;
  readonly by: string | null;
}
export interface ConnectApp extends ByOperator {
  readonly type: 'ConnectApp';
  readonly name: string;
  readonly domain: string;
  readonly webhookUrl: string | null;
  readonly publishableKey: string;
  readonly secretKeyHash: string;
  readonly signingSecretSealed: string;
}
export interface ChangeAppWebhook extends ByOperator {
  readonly type: 'ChangeAppWebhook';
  readonly appId: string;
  readonly webhookUrl: string | null;
}
export interface RemoveApp extends ByOperator {
  readonly type: 'RemoveApp';
  readonly appId: string;
}
export interface AddWallet extends ByOperator {
  readonly type: 'AddWallet';
  readonly label: string;
  readonly msisdn: string;
  readonly network: Network | null;
  readonly country: Country | null;
  readonly by: string;
}
export interface ApproveWallet extends ByOperator {
  readonly type: 'ApproveWallet';
  readonly walletId: string;
  readonly by: string;
}
export interface RevokeWallet extends ByOperator {
  readonly type: 'RevokeWallet';
  readonly walletId: string;
  readonly by: string;
}
export interface ApproveWithdrawal extends ByOperator {
  readonly type: 'ApproveWithdrawal';
  readonly transactionId: string;
  readonly by: string;
}
export interface RejectWithdrawal extends ByOperator {
  readonly type: 'RejectWithdrawal';
  readonly transactionId: string;
  readonly by: string;
}
/** What the provider's people said of a payout or withdrawal, where its API says nothing final. */
export interface SettleCashOut extends ByOperator {
  readonly type: 'SettleCashOut';
  readonly transactionId: string;
  readonly outcome: 'SUCCESSFUL' | 'FAILED';
  /** Of one that failed. */
  readonly failureCode: FailureCode;
  /** Its own id of the movement, where it told it. */
  readonly providerTransactionId: string | null;
}
/** A request that may be sent again: under the same key with the same hash it is the same. */
export interface Repeatable {
  /** 8 to 255 characters. */
  readonly idempotencyKey: string;
  /** As of a create call. */
  readonly requestHash: string;
}
/** Money moved from the dashboard: no app. */
export interface CreateDashboardDeposit extends ByOperator {
  readonly type: 'CreateDashboardDeposit';
  readonly input: CollectInput;
  readonly by: string;
  /** Absent: each command is a deposit. */
  readonly repeatable?: Repeatable | null;
}
export interface ResolveReconciliation extends ByOperator {
  readonly type: 'ResolveReconciliation';
  readonly reconciliationId: string;
  readonly resolution: string;
}

export type CreateCommand = CreateCharge | CreateDeposit | CreatePayout | CreateWithdrawal;

export type AccountCommand =
  | CreateCommand
  | BeginSubmission
  | RecordSubmission
  | RecordOutcome
  | RaiseReconciliation
  | NoteCallback
  | ExpireTransaction
  | FixAnswer
  | ReleaseCharge
  | ActivateWallet
  | OpenAccount
  | ChangeAccountSettings
  | AddUser
  | ChangeUserRole
  | RemoveUser
  | ConnectApp
  | ChangeAppWebhook
  | RemoveApp
  | AddWallet
  | ApproveWallet
  | RevokeWallet
  | ApproveWithdrawal
  | RejectWithdrawal
  | CreateDashboardDeposit
  | SettleCashOut
  | ResolveReconciliation;

// --- Queries --------------------------------------------------------------------------------------------------------

/** Filters of the lists; undefined: any. Times are inclusive milliseconds since 1970. */
export interface TransactionFilter {
  readonly type?: TransactionType | undefined;
  readonly status?: Status | undefined;
  readonly approvalStatus?: ApprovalStatus | undefined;
  readonly reference?: string | undefined;
  readonly currency?: Currency | undefined;
  readonly country?: Country | undefined;
  readonly network?: Network | undefined;
  readonly createdAfter?: number | undefined;
  readonly createdBefore?: number | undefined;
}

/** Merchants' reads. `view` chooses the rendering. */
export interface GetTransaction extends ByMerchant {
  readonly type: 'GetTransaction';
  readonly id: string;
  /** 'object': the typed object (charge, …), only if the transaction is of `kind`. 'timeline': {charge, events,
   *  ledger}. 'detail': {transaction, events, ledger}. */
  readonly view: 'object' | 'timeline' | 'detail';
  /** The type the path names; null: any. */
  readonly kind: TransactionType | null;
}
export interface ListTransactions extends ByMerchant {
  readonly type: 'ListTransactions';
  readonly filter: TransactionFilter;
  /** 'object': typed objects; 'transaction': the unified view. */
  readonly view: 'object' | 'transaction';
  readonly limit: number;
  readonly startingAfter: string | null;
}
export interface GetBalances extends ByMerchant {
  readonly type: 'GetBalances';
}
export interface ListPayoutDestinations extends ByMerchant {
  readonly type: 'ListPayoutDestinations';
}

/** Reads of operators and of the other groups; no key. */
export interface GetAccount extends ForAccount {
  readonly type: 'GetAccount';
}
export interface GetTrialBalance extends ForAccount {
  readonly type: 'GetTrialBalance';
}
/** The public object as it was when it reached the final status `status` (each occurs at most once in a
 *  transaction), and who should hear of it. Body:
 *  {event_id, created_at, object, apps: [{id}]}
 *  event_id: deriveId('event', transactionId, index of that status event); created_at: its time, ISO 8601; object:
 *  the typed object (charge, …) with the status, fee, updated_at and failure of that event; apps: the transaction's
 *  app if it is not removed, or, for appId null, every such app of the account. Where each hears, and by which secret, the webhooks
 *  know from the log. */
export interface GetWebhookObject extends ForAccount {
  readonly type: 'GetWebhookObject';
  readonly transactionId: string;
  readonly status: FinalStatus;
}
/** For operators, who show a merchant its secret again. Body: {signingSecretSealed}. */
export interface GetWebhookEndpoint extends ForAccount {
  readonly type: 'GetWebhookEndpoint';
  readonly appId: string;
}
/** For the pollers' recovery: transactions of this partition that wait for a provider, by account and id, after `afterId`.
 *  Body: {sequence, data: PendingTransaction[], next}; `next` is the `afterId` of the next page, null at the end. accountId is not
 *  used. */
export interface ListPending extends ForAccount {
  readonly type: 'ListPending';
  readonly afterId: string | null;
  readonly limit: number;
  /** A page may be short, or empty, although there is more. Absent, as older versions ask: fewer than `limit` means the end, and there
   *  is no `next`. */
  readonly mayBeShort?: true;
}
/** One pending transaction by id: body is a PendingTransaction, or transaction_not_found when it is final. */
export interface GetPending extends ForAccount {
  readonly type: 'GetPending';
  readonly transactionId: string;
  /** True: also one that is final, so that a late callback can be enquired about; transaction_not_found then means
   *  that the account never had it. */
  readonly evenFinal?: boolean;
}
/** For the pollers' recovery: what has expired since a time, or was said to have failed by an operator. Body: {data:
 *  ExpiredTransaction[], next}; `next` is the `after` of the next page, null at the end. A page looks at `limit` rows at most, so it may
 *  be empty. `unavailable` while more have just expired than a page holds: asked again, all are told. accountId is not used. */
export interface ListExpired extends ForAccount {
  readonly type: 'ListExpired';
  /** Milliseconds since 1970. */
  readonly expiredSince: number;
  /** The same, of what an operator said to have failed. Absent, as older versions ask: `expiredSince`. */
  readonly settledSince?: number;
  /** Whoever asks hears of what came after this sequence, and is not told it here. Absent, as older versions ask: of nothing. */
  readonly followedFrom?: number;
  readonly after: string | null;
  readonly limit: number;
}
/** Newest first. accountId '': every account of the partition. Body: {object, data, next}; a page may be short, or empty,
 *  although there is more: `next` is the `startingAfter` of the next page, null at the end. */
export interface ListReconciliation extends ForAccount {
  readonly type: 'ListReconciliation';
  /** True: only those not resolved. */
  readonly open: boolean;
  readonly limit: number;
  /** Only items with lower ids; null or absent: all. */
  readonly startingAfter?: string | null;
}

export type MerchantQuery = GetTransaction | ListTransactions | GetBalances | ListPayoutDestinations;

export type AccountQuery =
  | MerchantQuery
  | GetAccount
  | GetTrialBalance
  | GetWebhookObject
  | GetWebhookEndpoint
  | ListPending
  | GetPending
  | ListExpired
  | ListReconciliation;

// --- What pollers are answered --------------------------------------------------------------------------------------

/** What a poller needs to submit and enquire. */
export interface PendingTransaction {
  readonly id: string;
  readonly accountId: string;
  readonly type: TransactionType;
  readonly amount: number;
  readonly currency: Currency;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  /** Rail id. */
  readonly provider: string;
  readonly reference: string;
  /** Description or narration, shown to the payer or payee where the network supports it. */
  readonly note: string | null;
  /** Milliseconds since 1970: since when it is to be sent. A withdrawal that waited for approval is as good as created then. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** The provider is known to have accepted it. */
  readonly submitted: boolean;
  /** A withdrawal that no provider has: see BeginSubmission. Absent in answers of older versions: false. */
  readonly unsent?: boolean;
}

/** Ended by us and not by its provider, which may not know that. */
export interface ExpiredTransaction extends PendingTransaction {
  /** Milliseconds since 1970. */
  readonly expiredAt: number;
}
