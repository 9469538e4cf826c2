// The other half of the core: applies a record of the log to the state. Replaying a log calls this alone, so the same
// records always give the same state: nothing here looks at policy, a clock or chance.
//
// Invariants: events are facts and are never refused; one that does not fit is a bug or a damaged log, and asserts.
// Everything that follows from an event (statuses, journals, balances, usage) follows here and nowhere else.

import {
  type Account,
  type AccountSettings,
  type App,
  type PayoutWallet,
  USAGE_KEYS,
  type User,
} from './account.ts';
import {
  type AccountChange,
  type AccountEvent,
  type AccountRecord,
  type AppConnected,
  type ChargeReversed,
  CREATED_TYPES,
  type ReconciliationEvent,
  type TransactionCreated,
  type TransactionFailed,
  type TransactionSucceeded,
  type UserAdded,
  type WalletAdded,
} from './account-event.ts';
import { assert } from './assert.ts';
import type { Country, Currency } from './country.ts';
import {
  chargeReleased,
  chargeReversed,
  depositSettled,
  emptyBalances,
  chargeSettled,
  held,
  type Journal,
  type LedgerBalances,
  post,
  returned,
  settled,
} from './ledger.ts';
import { add, subtract } from './money.ts';
import type { LedgerState, ReconciliationItem } from './state.ts';
import { dayOf, monthOf } from './time.ts';
import {
  createdAt,
  isCashOut,
  NEXT_STATUSES,
  type Source,
  type Status,
  type StatusEvent,
  type Transaction,
} from './transaction.ts';

/** Shown as failure_message of a rejected withdrawal. Part of what replaying a log gives: never to be changed. */
const REJECTION_MESSAGE = 'A team member rejected the withdrawal.';

export function evolve(state: LedgerState, record: AccountRecord, sequence: number): void {
  for (const event of record.events) apply(state, event, record, sequence);
}

function apply(state: LedgerState, event: AccountEvent, record: AccountRecord, sequence: number): void {
  switch (event.type) {
    case 'ChargeCreated':
    case 'DepositCreated':
    case 'PayoutCreated':
    case 'WithdrawalCreated':
      return create(state, event, record, sequence);
    case 'WithdrawalApproved':
      return approveWithdrawal(changing(state, event.id, sequence), record.at);
    case 'WithdrawalRejected':
      return rejectWithdrawal(state, event.id, record, sequence);
    case 'SubmissionBegun':
      changing(state, event.id, sequence).unsent = false;
      return;
    case 'SubmissionAccepted':
      return acceptSubmission(changing(state, event.id, sequence), event.providerStatus, record.at);
    case 'AnswerFixed':
      return fixAnswer(changing(state, event.id, sequence));
    case 'TransactionSucceeded':
      return succeed(state, event, record, sequence);
    case 'TransactionFailed':
      return fail(state, event, record, sequence);
    case 'ChargeReleased':
      return release(state, event.id, record, sequence);
    case 'ChargeReversed':
      return reverse(state, event, record, sequence);
    case 'ReconciliationRaised':
    case 'ReconciliationResolved':
      return reconcile(state, event, record);
    case 'AccountOpened':
      assert(state.account(record.accountId) === undefined, 'an account is opened once');
      state.putAccount(
        newAccount(record.accountId, event.name, event.country, record.at, event.settings, sequence),
      );
      return;
    case 'AccountSettingsChanged':
    case 'UserAdded':
    case 'UserRoleChanged':
    case 'UserRemoved':
    case 'AppConnected':
    case 'AppWebhookChanged':
    case 'AppRemoved':
    case 'WalletAdded':
    case 'WalletApproved':
    case 'WalletActivated':
    case 'WalletRevoked':
      return changeAccount(changingAccount(state, record.accountId, sequence), event, record.at);
  }
}

/** An account as it is when just opened. */
export function newAccount(
  id: string,
  name: string,
  country: Country,
  at: number,
  settings: AccountSettings,
  sequence: number,
): Account {
  return {
    id,
    name,
    country,
    createdAt: at,
    settings: { ...settings },
    users: new Map(),
    apps: new Map(),
    wallets: new Map(),
    balances: new Map(),
    usage: new Map(),
    sequence,
  };
}

// --- Looking up what an event changes --------------------------------------------------------------------------------

function changing(state: LedgerState, id: string, sequence: number): Transaction {
  const transaction = state.transaction(id);
  assert(transaction !== undefined, 'the transaction of an event exists');
  state.touchTransaction(transaction);
  transaction.sequence = sequence;
  return transaction;
}

function changingAccount(state: LedgerState, id: string, sequence: number): Account {
  const account = state.account(id);
  assert(account !== undefined, 'the account of a record exists');
  state.touchAccount(account);
  account.sequence = sequence;
  return account;
}

function balancesOf(account: Account, currency: Currency): LedgerBalances {
  const existing = account.balances.get(currency);
  if (existing !== undefined) return existing;
  const balances = emptyBalances();
  account.balances.set(currency, balances);
  return balances;
}

function book(account: Account, transaction: Transaction, journal: Journal): void {
  transaction.journals = transaction.journals.concat(journal);
  post(balancesOf(account, transaction.currency), journal);
}

// --- Creation --------------------------------------------------------------------------------------------------------

function create(
  state: LedgerState,
  event: TransactionCreated,
  { accountId, at }: AccountRecord,
  sequence: number,
): void {
  const account = changingAccount(state, accountId, sequence);
  const transaction = newTransaction(event, accountId, at, sequence);
  state.putTransaction(transaction);
  if (event.idempotencyKey !== null) {
    assert(event.requestHash !== null, 'an idempotency key comes with the hash of its request');
    const { id: transactionId, requestHash } = event;
    state.putIdempotency(accountId, event.idempotencyKey, { requestHash, transactionId });
  }
  countUsage(account, transaction, at);
  balancesOf(account, transaction.currency); // The currency is transacted in from now on.
  const { type, amount, fee, currency } = transaction;
  if (isCashOut(type)) {
    book(account, transaction, held(type, amount, fee, currency, at));
  }
}

function newTransaction(
  event: TransactionCreated,
  accountId: string,
  at: number,
  sequence: number,
): Transaction {
  const collects = event.type === 'ChargeCreated' || event.type === 'DepositCreated';
  const waits = event.type === 'WithdrawalCreated' && event.approvalRequired;
  const source: Source = event.requestedBy === null ? 'API' : 'DASHBOARD';
  const initiated = newStatusEvent('INITIATED', source, null, null, at);
  return {
    id: event.id,
    type: CREATED_TYPES[event.type],
    accountId,
    appId: event.appId,
    requestedBy: event.requestedBy,
    amount: event.amount,
    currency: event.currency,
    country: event.country,
    network: event.network,
    msisdn: event.msisdn,
    reference: event.reference,
    description: collects ? event.description : null,
    narration: collects ? null : event.narration,
    metadata: event.metadata,
    destination: event.type === 'WithdrawalCreated' ? event.destination : null,
    provider: event.provider,
    fee: event.fee,
    expiresAt: collects ? event.expiresAt : null,
    approvalStatus: waits ? 'PENDING' : 'NOT_REQUIRED',
    status: waits ? 'INITIATED' : 'PENDING_PROVIDER',
    failureCode: null,
    failureMessage: null,
    providerTransactionId: null,
    submitted: false,
    unsent: event.type === 'WithdrawalCreated' && event.unsent,
    events: waits ? [initiated] : [initiated, newStatusEvent('PENDING_PROVIDER', source, null, null, at)],
    journals: NO_JOURNALS,
    // The answer to a cash-out is its state as created; a charge or deposit waits for the rail a while.
    answeredAt: collects ? null : Number(!waits),
    releaseAt: null,
    released: false,
    sequence,
  };
}

const NO_JOURNALS: readonly Journal[] = [];

function countUsage(account: Account, { type, currency, amount }: Transaction, at: number): void {
  const key = USAGE_KEYS[type][currency];
  const day = dayOf(at);
  const month = monthOf(at);
  const usage = account.usage.get(key);
  if (usage === undefined) {
    account.usage.set(key, { day, daily: amount, month, monthly: amount });
    return;
  }
  usage.daily = usage.day === day ? add(usage.daily, amount) : amount;
  usage.monthly = usage.month === month ? add(usage.monthly, amount) : amount;
  usage.day = day;
  usage.month = month;
}

/** What a failed transaction used of a day or month that is still being counted is given back. */
function giveBackUsage(account: Account, transaction: Transaction): void {
  const { type, currency, amount } = transaction;
  const usage = account.usage.get(USAGE_KEYS[type][currency]);
  assert(usage !== undefined, 'the usage of a created transaction was counted');
  const created = createdAt(transaction);
  if (usage.day === dayOf(created)) usage.daily = subtract(usage.daily, amount);
  if (usage.month === monthOf(created)) usage.monthly = subtract(usage.monthly, amount);
}

// --- Status ----------------------------------------------------------------------------------------------------------

function newStatusEvent(
  status: Status,
  source: Source,
  providerStatus: string | null,
  message: string | null,
  at: number,
): StatusEvent {
  return { status, source, providerStatus, message, at };
}

/** The only way a status changes: forwards, along NEXT_STATUSES. */
function enter(transaction: Transaction, event: StatusEvent): void {
  const next: readonly Status[] = NEXT_STATUSES[transaction.status];
  assert(next.includes(event.status), 'a status moves along NEXT_STATUSES');
  transaction.events = transaction.events.concat(event);
  transaction.status = event.status;
}

function fixAnswer(transaction: Transaction): void {
  if (transaction.answeredAt === null) transaction.answeredAt = transaction.events.length - 1;
}

function takenByProvider(transaction: Transaction): void {
  transaction.submitted = true;
  transaction.unsent = false;
}

function acceptSubmission(transaction: Transaction, providerStatus: string | null, at: number): void {
  takenByProvider(transaction);
  if (transaction.type === 'CHARGE' || transaction.type === 'DEPOSIT') {
    const source: Source = transaction.requestedBy === null ? 'API' : 'DASHBOARD';
    enter(transaction, newStatusEvent('AWAITING_CUSTOMER', source, providerStatus, null, at));
  }
  fixAnswer(transaction);
}

function approveWithdrawal(transaction: Transaction, at: number): void {
  assert(transaction.approvalStatus === 'PENDING', 'a withdrawal is approved once, while it waits');
  transaction.approvalStatus = 'APPROVED';
  enter(transaction, newStatusEvent('PENDING_PROVIDER', 'DASHBOARD', null, null, at));
}

function rejectWithdrawal(state: LedgerState, id: string, record: AccountRecord, sequence: number): void {
  const transaction = changing(state, id, sequence);
  assert(transaction.approvalStatus === 'PENDING', 'a withdrawal is rejected once, while it waits');
  transaction.approvalStatus = 'REJECTED';
  const failure = { failureCode: 'approval_rejected', failureMessage: REJECTION_MESSAGE } as const;
  fail(state, { id, source: 'DASHBOARD', providerStatus: null, ...failure }, record, sequence);
}

// --- Outcomes --------------------------------------------------------------------------------------------------------

function succeed(
  state: LedgerState,
  event: TransactionSucceeded,
  { accountId, at }: AccountRecord,
  sequence: number,
): void {
  const transaction = changing(state, event.id, sequence);
  const { type, amount, fee, currency } = transaction;
  enter(transaction, newStatusEvent('SUCCESSFUL', event.source, event.providerStatus, null, at));
  fixAnswer(transaction);
  takenByProvider(transaction);
  transaction.providerTransactionId = event.providerTransactionId;
  transaction.releaseAt = event.releaseAt;
  assert(
    (event.releaseAt !== null) === (type === 'CHARGE'),
    'a charge, and only a charge, is released later',
  );
  const account = changingAccount(state, accountId, sequence);
  switch (type) {
    case 'CHARGE':
      return book(account, transaction, chargeSettled(amount, fee, currency, at));
    case 'DEPOSIT':
      return book(account, transaction, depositSettled(amount, currency, at));
    case 'PAYOUT':
    case 'WITHDRAWAL':
      return book(account, transaction, settled(type, amount, fee, currency, at));
    case 'REFUND':
      assert(false, 'a refund is never created');
  }
}

/** Whatever the reason: the whole hold, fee included, goes back. */
function fail(
  state: LedgerState,
  { id, source, failureCode, failureMessage, providerStatus }: Omit<TransactionFailed, 'type'>,
  { accountId, at }: AccountRecord,
  sequence: number,
): void {
  const transaction = changing(state, id, sequence);
  enter(transaction, newStatusEvent('FAILED', source, providerStatus, failureMessage, at));
  fixAnswer(transaction);
  transaction.failureCode = failureCode;
  transaction.failureMessage = failureMessage;
  const account = changingAccount(state, accountId, sequence);
  giveBackUsage(account, transaction);
  const { type, amount, fee, currency } = transaction;
  if (isCashOut(type)) {
    book(account, transaction, returned(type, amount, fee, currency, at));
  }
}

function release(state: LedgerState, id: string, { accountId, at }: AccountRecord, sequence: number): void {
  const transaction = changing(state, id, sequence);
  const { status, amount, fee, currency } = transaction;
  assert(status === 'SUCCESSFUL' && !transaction.released, 'a successful charge is released once');
  transaction.released = true;
  const account = changingAccount(state, accountId, sequence);
  // A net of zero has nothing to move.
  if (amount !== fee) book(account, transaction, chargeReleased(amount, fee, currency, at));
}

function reverse(
  state: LedgerState,
  event: ChargeReversed,
  { accountId, at }: AccountRecord,
  sequence: number,
): void {
  const transaction = changing(state, event.id, sequence);
  const { amount, fee, released, currency } = transaction;
  assert(transaction.type === 'CHARGE', 'only a charge is reversed');
  enter(transaction, newStatusEvent('REVERSED', event.source, event.providerStatus, null, at));
  const account = changingAccount(state, accountId, sequence);
  book(account, transaction, chargeReversed(amount, fee, released, currency, at));
}

// --- Reconciliation --------------------------------------------------------------------------------------------------

function reconcile(state: LedgerState, event: ReconciliationEvent, { accountId, at }: AccountRecord): void {
  const existing = state.reconciliation(event.id);
  if (event.type === 'ReconciliationRaised') {
    assert(existing === undefined, 'a reconciliation item is raised once');
    const item: ReconciliationItem = {
      id: event.id,
      accountId,
      kind: event.kind,
      transactionId: event.transactionId,
      detail: event.detail,
      raisedAt: at,
      resolvedAt: null,
      resolvedBy: null,
      resolution: null,
    };
    state.putReconciliation(item);
    return;
  }
  assert(existing !== undefined && existing.resolvedAt === null, 'an open reconciliation item is resolved');
  state.touchReconciliation(existing);
  existing.resolvedAt = at;
  existing.resolvedBy = event.by;
  existing.resolution = event.resolution;
}

// --- The account itself ----------------------------------------------------------------------------------------------

function changeAccount(account: Account, event: AccountChange, at: number): void {
  switch (event.type) {
    case 'AccountSettingsChanged':
      account.settings = { ...event.settings };
      return;
    case 'UserAdded':
      account.users.set(event.id, newUser(event, at));
      return;
    case 'UserRoleChanged':
      account.users.set(event.id, { ...memberOf(account, event.id), role: event.role });
      return;
    case 'UserRemoved':
      account.users.set(event.id, { ...memberOf(account, event.id), removedAt: at });
      return;
    case 'AppConnected':
      account.apps.set(event.id, newApp(event, at));
      return;
    case 'AppWebhookChanged':
      appOf(account, event.id).webhookUrl = event.webhookUrl;
      return;
    case 'AppRemoved':
      appOf(account, event.id).removedAt = at;
      return;
    case 'WalletAdded':
      account.wallets.set(event.id, newWallet(event, at));
      return;
    case 'WalletApproved': {
      const wallet = walletOf(account, event.id);
      assert(wallet.status === 'PENDING_APPROVAL', 'a wallet is approved once, while it waits');
      wallet.status = 'COOLING_OFF';
      wallet.activeAt = event.activeAt;
      return;
    }
    case 'WalletActivated': {
      const wallet = walletOf(account, event.id);
      assert(wallet.status === 'COOLING_OFF', 'a wallet becomes active after cooling off');
      wallet.status = 'ACTIVE';
      return;
    }
    case 'WalletRevoked':
      walletOf(account, event.id).status = 'REVOKED';
      return;
  }
}

/** A user as they are when just added. */
export function newUser({ id, email, role }: Omit<UserAdded, 'type' | 'by'>, at: number): User {
  return { id, email, role, removedAt: null, createdAt: at };
}

function newApp(event: AppConnected, at: number): App {
  return {
    id: event.id,
    name: event.name,
    domain: event.domain,
    publishableKey: event.publishableKey,
    secretKeyHash: event.secretKeyHash,
    signingSecretSealed: event.signingSecretSealed,
    webhookUrl: event.webhookUrl,
    removedAt: null,
    createdAt: at,
  };
}

/** A wallet as it is when just added. */
export function newWallet(event: WalletAdded, at: number): PayoutWallet {
  return {
    id: event.id,
    label: event.label,
    country: event.country,
    network: event.network,
    msisdn: event.msisdn,
    addedBy: event.by,
    createdAt: at,
    status: 'PENDING_APPROVAL',
    activeAt: null,
  };
}

function memberOf(account: Account, id: string): User {
  const user = account.users.get(id);
  assert(user !== undefined && user.removedAt === null, 'the user of an event is a member');
  return user;
}

function appOf(account: Account, id: string): App {
  const app = account.apps.get(id);
  assert(app !== undefined, 'the app of an event exists');
  return app;
}

function walletOf(account: Account, id: string): PayoutWallet {
  const wallet = account.wallets.get(id);
  assert(wallet !== undefined, 'the wallet of an event exists');
  return wallet;
}
