// Decisions on what providers answer and on what falls due. All of these may come late, twice, or out of order: what no
// longer applies changes nothing; what contradicts a final state changes no state either, and is raised for operators.
//
//   what we have          provider says SUCCESSFUL       FAILED           REVERSED
//   not sent              CONTRADICTION                  CONTRADICTION    CONTRADICTION
//   in progress           succeeds                       fails            fails: the money went back before we knew of it
//                         (or AMOUNT_MISMATCH)                            (or AMOUNT_MISMATCH)
//   SUCCESSFUL            nothing (or AMOUNT_MISMATCH)   CONTRADICTION    charge: reversed (or AMOUNT_MISMATCH);
//                                                                         others: CONTRADICTION
//   FAILED                SUCCESS_AFTER_FINAL            nothing          nothing: the money is where we say it is
//   REVERSED              nothing: an old answer         nothing          nothing
//   unknown               UNKNOWN_REFERENCE              the same         the same

import type {
  ActivateWallet,
  BeginSubmission,
  BegunSubmission,
  ExpireTransaction,
  FixAnswer,
  RaiseReconciliation,
  RecordOutcome,
  RecordSubmission,
  ReleaseCharge,
  SettleCashOut,
} from './account-command.ts';
import type { AccountEvent, ReconciliationKind } from './account-event.ts';
import { mayBeTakenBack } from './amount-limits.ts';
import { assert } from './assert.ts';
import type { Currency } from './country.ts';
import { changed, type Decision, done, NO_ACCOUNT, NOTHING_CHANGED, refuse } from './decision.ts';
import { rejection } from './error-code.ts';
import { isTransactionId, makeId } from './id.ts';
import { itemIdsOf } from './reconciliation-id.ts';
import type { Context, LedgerState } from './state.ts';
import type { Transaction } from './transaction.ts';

/** By who was waited for. Of one that its network never answered for, nobody knows whether the customer was ever asked. */
const EXPIRED_MESSAGES = {
  AWAITING_CUSTOMER: 'The customer did not answer in time.',
  PENDING_PROVIDER: 'The network did not answer in time.',
} as const;
const REVOKED_MESSAGE = 'The payout wallet was revoked before the withdrawal was sent.';
const REVERSED_EARLY_MESSAGE = 'The network returned the money before it confirmed the payment.';

/** A revoked wallet is sent nothing more. What was certainly not sent to it fails; what may have been, its provider ends, or an
 *  operator. That no provider has it stays true while it is revoked: nobody is told to submit it. */
export function decideBeginSubmission(
  state: LedgerState,
  { accountId, transactionId, again = false, neverTaken = false }: BeginSubmission,
  context: Context,
): Decision {
  const transaction = find(state, accountId, transactionId);
  if (transaction === undefined) return refuse(rejection('transaction_not_found'));
  const { id, status, submitted, unsent, destination } = transaction;
  if (status !== 'PENDING_PROVIDER' || destination === null) return done(null, begun('ended'));
  const isActive = state.account(accountId)?.wallets.get(destination)?.status === 'ACTIVE';
  if (isActive) {
    if (!unsent) return done(null, begun('begun_before'));
    return changed(accountId, context.now, { type: 'SubmissionBegun', id }, begun('begun'));
  }
  const isWithNobody = unsent || (neverTaken && !submitted);
  if (!isWithNobody) return done(null, begun(again ? 'revoked' : 'begun_before'));
  const event: AccountEvent = {
    type: 'TransactionFailed',
    id,
    source: 'SYSTEM',
    failureCode: 'wallet_inactive',
    failureMessage: REVOKED_MESSAGE,
    providerStatus: null,
  };
  return changed(accountId, context.now, event, begun('ended'));
}

function begun(submission: BegunSubmission['submission']): string {
  const body: BegunSubmission = { submission };
  return JSON.stringify(body);
}

export function decideSubmission(state: LedgerState, command: RecordSubmission, context: Context): Decision {
  const transaction = find(state, command.accountId, command.transactionId);
  if (transaction === undefined || transaction.submitted) return NOTHING_CHANGED;
  if (transaction.status !== 'PENDING_PROVIDER') return NOTHING_CHANGED;
  const { id } = transaction;
  return changed(command.accountId, context.now, {
    type: 'SubmissionAccepted',
    id,
    providerStatus: command.providerStatus,
  });
}

export function decideOutcome(state: LedgerState, command: RecordOutcome, context: Context): Decision {
  const transaction = find(state, command.accountId, command.transactionId);
  if (transaction === undefined) {
    return raise(
      state,
      command,
      'UNKNOWN_REFERENCE',
      { detail: said(command), isIn: isSaidIn(command) },
      context,
    );
  }
  switch (transaction.status) {
    case 'INITIATED':
      return contradict(state, command, transaction, 'CONTRADICTION', context);
    case 'PENDING_PROVIDER':
    case 'AWAITING_CUSTOMER':
      return conclude(state, command, transaction, context);
    case 'SUCCESSFUL':
      return afterSuccess(state, command, transaction, context);
    case 'FAILED':
      if (command.outcome !== 'SUCCESSFUL') return NOTHING_CHANGED;
      return contradict(state, command, transaction, 'SUCCESS_AFTER_FINAL', context);
    case 'REVERSED':
      return NOTHING_CHANGED;
  }
}

function conclude(
  state: LedgerState,
  command: RecordOutcome,
  transaction: Transaction,
  context: Context,
): Decision {
  if (command.outcome !== 'FAILED' && !sameMoney(command, transaction)) {
    return contradict(state, command, transaction, 'AMOUNT_MISMATCH', context);
  }
  return changed(transaction.accountId, context.now, conclusion(transaction, command, context));
}

/** How what is in progress ends. */
function conclusion(
  { id, type, requestedBy }: Transaction,
  said: Omit<RecordOutcome, 'type' | 'accountId' | 'transactionId' | 'deadline' | 'amount' | 'currency'>,
  { now, policy }: Context,
): AccountEvent {
  const { outcome, providerStatus, providerTransactionId } = said;
  // A poller says `API` of what was answered at once, whoever asked.
  const source = said.source === 'API' && requestedBy !== null ? 'DASHBOARD' : said.source;
  if (outcome === 'SUCCESSFUL') {
    const releaseAt = type === 'CHARGE' ? now + policy.chargeReleaseMs : null;
    return { type: 'TransactionSucceeded', id, source, providerStatus, providerTransactionId, releaseAt };
  }
  const { failureCode, failureMessage } = said;
  return {
    type: 'TransactionFailed',
    id,
    source,
    failureCode: failureCode ?? 'unknown',
    failureMessage: failureMessage ?? (outcome === 'REVERSED' ? REVERSED_EARLY_MESSAGE : null),
    providerStatus,
  };
}

/** What the provider's people say. Money that left, or did not, is on hold until somebody knows; a charge or deposit ends by
 *  itself. */
export function decideSettle(state: LedgerState, command: SettleCashOut, context: Context): Decision {
  const { accountId, transactionId: id, outcome, failureCode, providerTransactionId } = command;
  const transaction = find(state, accountId, id);
  if (transaction === undefined) return refuse(rejection('transaction_not_found'));
  const { type, status } = transaction;
  const object = type.toLowerCase();
  if (type !== 'PAYOUT' && type !== 'WITHDRAWAL') {
    return refuse(rejection('conflict', `A ${object} is ended by its provider, or expires.`));
  }
  const body = `{"id":"${id}","object":"${object}","status":"${outcome}"}`;
  if (status === outcome) return done(null, body);
  if (status !== 'PENDING_PROVIDER') return refuse(rejection('conflict', `The ${object} is ${status}.`));
  const said = { outcome, failureCode, failureMessage: null, providerTransactionId };
  const event = conclusion(transaction, { ...said, source: 'DASHBOARD', providerStatus: null }, context);
  return changed(accountId, context.now, event, body);
}

function afterSuccess(
  state: LedgerState,
  command: RecordOutcome,
  transaction: Transaction,
  context: Context,
): Decision {
  const { outcome, source, providerStatus } = command;
  if (outcome === 'SUCCESSFUL') {
    if (sameMoney(command, transaction)) return NOTHING_CHANGED;
    return contradict(state, command, transaction, 'AMOUNT_MISMATCH', context);
  }
  if (outcome === 'REVERSED' && transaction.type === 'CHARGE') {
    // A part that came back is not the whole: what the merchant is to lose of it, a person decides.
    if (!sameMoney(command, transaction)) {
      return contradict(state, command, transaction, 'AMOUNT_MISMATCH', context);
    }
    const { id, accountId, released } = transaction;
    if (released && !mayBeTakenBack(state.account(accountId), transaction)) {
      return contradict(state, command, transaction, 'CONTRADICTION', context);
    }
    return changed(accountId, context.now, { type: 'ChargeReversed', id, source, providerStatus });
  }
  return contradict(state, command, transaction, 'CONTRADICTION', context);
}

/** What the provider did not say is not held against it. */
function sameMoney({ amount, currency }: RecordOutcome, transaction: Transaction): boolean {
  return (
    (amount === null || amount === transaction.amount) &&
    (currency === null || currency === transaction.currency)
  );
}

// --- Reconciliation --------------------------------------------------------------------------------------------------

export function decideRaise(state: LedgerState, command: RaiseReconciliation, context: Context): Decision {
  const { kind, detail } = command;
  const raised = raise(state, command, kind, { detail, isIn: (told) => told === detail }, context);
  const isFull = kind === 'UNKNOWN_REFERENCE' && context.unknownReferencesLeft <= 0;
  return isFull && raised.record !== null ? refuse(TOO_MANY_UNKNOWN) : raised;
}

const TOO_MANY_UNKNOWN = rejection(
  'conflict',
  'Too many callbacks about unknown transactions are unresolved.',
);

function contradict(
  state: LedgerState,
  command: RecordOutcome,
  transaction: Transaction,
  kind: ReconciliationKind,
  context: Context,
): Decision {
  const { status, failureCode, amount, currency } = transaction;
  const ended = failureCode === null ? status : `${status} (${failureCode})`;
  const detail = `${said(command)}${OURS}${ended}, ${amount} ${currency}.`;
  return raise(state, command, kind, { detail, isIn: isSaidIn(command) }, context);
}

const OURS = ' Ours: ';

function said({ outcome, providerStatus, providerTransactionId, amount, currency }: RecordOutcome): string {
  let text = `The provider says ${outcome}`;
  if (providerStatus !== null) text += ` (${providerStatus})`;
  const money = moneyIn(amount, currency);
  if (money !== '') text += `, ${money}`;
  if (providerTransactionId !== null) text += `, its id ${providerTransactionId}`;
  return `${text}.`;
}

/** What an adapter makes of "5,000" is 0, of no currency or ours (src/rails/terminal.ts): as a number it would be believed. */
const NO_MONEY = 'of nothing, or of money that cannot be read';

function moneyIn(amount: number | null, currency: Currency | null): string {
  if (amount === 0) return NO_MONEY;
  return [amount, currency].filter((part) => part !== null).join(' ');
}

/** True of the text of an item that told the same outcome of the same money. In a callback and in the answer to an enquiry the
 *  rest may be said otherwise, or not at all. */
function isSaidIn({ outcome, amount, currency }: RecordOutcome): (detail: string) => boolean {
  return (detail) => {
    const [theirs = ''] = detail.split(OURS, 1);
    if (!theirs.startsWith(`The provider says ${outcome}`)) return false;
    const money = moneyIn(amount, currency);
    // To its end: 1000 begins as 100 does. There may be an amount before it, or a currency behind it, that is not said now.
    return money === '' || new RegExp(`, (?:\\d+ )?${money}[,. ]`).test(theirs);
  };
}

/** One item for each transaction and kind, however often the provider repeats itself: its id is derived from both. What it says
 *  that is new when a person has resolved that one is another. */
function raise(
  state: LedgerState,
  { accountId, transactionId }: { readonly accountId: string; readonly transactionId: string | null },
  kind: ReconciliationKind,
  { detail, isIn }: { readonly detail: string; readonly isIn: (detail: string) => boolean },
  context: Context,
): Decision {
  if (state.account(accountId) === undefined) return refuse(NO_ACCOUNT);
  const event = { type: 'ReconciliationRaised', kind, transactionId, detail } as const;
  if (transactionId === null || !isTransactionId(transactionId)) {
    return changed(accountId, context.now, { ...event, id: makeId('reconciliation', context.freshBody) });
  }
  for (const id of itemIdsOf(transactionId, kind)) {
    const item = state.reconciliation(id);
    if (item === undefined) return changed(accountId, context.now, { ...event, id });
    if (item.resolvedAt === null || isIn(item.detail)) return NOTHING_CHANGED;
  }
  return NOTHING_CHANGED;
}

// --- What falls due --------------------------------------------------------------------------------------------------

export function decideExpiry(state: LedgerState, command: ExpireTransaction, context: Context): Decision {
  const transaction = find(state, command.accountId, command.transactionId);
  if (transaction === undefined) return NOTHING_CHANGED;
  const { id, status, expiresAt } = transaction;
  if (expiresAt === null || context.now < expiresAt) return NOTHING_CHANGED;
  if (status !== 'PENDING_PROVIDER' && status !== 'AWAITING_CUSTOMER') return NOTHING_CHANGED;
  return changed(command.accountId, context.now, {
    type: 'TransactionFailed',
    id,
    source: 'SYSTEM',
    failureCode: 'expired',
    failureMessage: EXPIRED_MESSAGES[status],
    providerStatus: null,
  });
}

export function decideFixAnswer(state: LedgerState, command: FixAnswer, context: Context): Decision {
  const transaction = find(state, command.accountId, command.transactionId);
  if (transaction === undefined || transaction.answeredAt !== null) return NOTHING_CHANGED;
  return changed(command.accountId, context.now, { type: 'AnswerFixed', id: transaction.id });
}

export function decideRelease(state: LedgerState, command: ReleaseCharge, context: Context): Decision {
  const transaction = find(state, command.accountId, command.transactionId);
  if (transaction === undefined) return NOTHING_CHANGED;
  const { id, status, released, releaseAt } = transaction;
  if (status !== 'SUCCESSFUL' || released) return NOTHING_CHANGED;
  if (releaseAt === null || context.now < releaseAt) return NOTHING_CHANGED;
  return changed(command.accountId, context.now, { type: 'ChargeReleased', id });
}

export function decideActivateWallet(
  state: LedgerState,
  command: ActivateWallet,
  context: Context,
): Decision {
  const wallet = state.account(command.accountId)?.wallets.get(command.walletId);
  if (wallet === undefined || wallet.status !== 'COOLING_OFF') return NOTHING_CHANGED;
  assert(wallet.activeAt !== null, 'a wallet that cools off knows until when');
  if (context.now < wallet.activeAt) return NOTHING_CHANGED;
  return changed(command.accountId, context.now, { type: 'WalletActivated', id: wallet.id });
}

// --- Shared ----------------------------------------------------------------------------------------------------------

function find(state: LedgerState, accountId: string, id: string): Transaction | undefined {
  const transaction = state.transaction(id);
  return transaction !== undefined && transaction.accountId === accountId ? transaction : undefined;
}
