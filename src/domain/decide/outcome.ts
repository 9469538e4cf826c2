// Decisions on what providers answer, and on what pollers and operators say of it. All of these may come late, twice, or out of
// order: what no longer applies changes nothing; what contradicts a final state changes no state either, and is raised for
// operators (reconciliation.ts).
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
  AccountCommand,
  BeginSubmission,
  BegunSubmission,
  RecordOutcome,
  RecordSubmission,
  SettleCashOut,
} from '../account-command.ts';
import type { AccountEvent } from '../account-event.ts';
import { mayBeTakenBack } from '../amount-limits.ts';
import { raiseOutcome } from './reconciliation.ts';
import { changed, type Decision, done, NOTHING_CHANGED, refuse } from './decision.ts';
import { rejection } from '../error-code.ts';
import { type Context, findTransaction, type LedgerState } from '../state.ts';
import type { Transaction } from '../transaction.ts';

const REVOKED_MESSAGE = 'The payout wallet was revoked before the withdrawal was sent.';
const REVERSED_EARLY_MESSAGE = 'The network returned the money before it confirmed the payment.';

/** A revoked wallet is sent nothing more. What was certainly not sent to it fails; what may have been sent is ended by its provider or
 *  by an operator. `neverTaken` stays true while the wallet is revoked, since nobody is told to submit it. */
export function decideBeginSubmission(
  state: LedgerState,
  { accountId, transactionId, again = false, neverTaken = false }: BeginSubmission,
  context: Context,
): Decision {
  const transaction = findTransaction(state, accountId, transactionId);
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
  const transaction = findTransaction(state, command.accountId, command.transactionId);
  if (transaction === undefined || transaction.submitted) return NOTHING_CHANGED;
  if (transaction.status !== 'PENDING_PROVIDER') return NOTHING_CHANGED;
  const { id } = transaction;
  return changed(command.accountId, context.now, {
    type: 'SubmissionAccepted',
    id,
    providerStatus: command.providerStatus,
  });
}

const OUTCOMES: ReadonlySet<string> = new Set<RecordOutcome['outcome']>(['SUCCESSFUL', 'FAILED', 'REVERSED']);
const SETTLEMENTS: ReadonlySet<string> = new Set<SettleCashOut['outcome']>(['SUCCESSFUL', 'FAILED']);

/** Whoever says another, of a newer version, would be taken to say that it failed: the money on hold would go back. */
export function isOutcomeKnown(command: AccountCommand): boolean {
  if (command.type === 'RecordOutcome') return OUTCOMES.has(command.outcome);
  return command.type !== 'SettleCashOut' || SETTLEMENTS.has(command.outcome);
}

export function decideOutcome(state: LedgerState, command: RecordOutcome, context: Context): Decision {
  const transaction = findTransaction(state, command.accountId, command.transactionId);
  if (transaction === undefined) return raiseOutcome(state, command, null, 'UNKNOWN_REFERENCE', context);
  switch (transaction.status) {
    case 'INITIATED':
      return raiseOutcome(state, command, transaction, 'CONTRADICTION', context);
    case 'PENDING_PROVIDER':
    case 'AWAITING_CUSTOMER':
      return conclude(state, command, transaction, context);
    case 'SUCCESSFUL':
      return afterSuccess(state, command, transaction, context);
    case 'FAILED':
      if (command.outcome !== 'SUCCESSFUL') return NOTHING_CHANGED;
      return raiseOutcome(state, command, transaction, 'SUCCESS_AFTER_FINAL', context);
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
    return raiseOutcome(state, command, transaction, 'AMOUNT_MISMATCH', context);
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

/** What the provider's people say of a payout or withdrawal, whose money is on hold until somebody knows. A charge or deposit ends by
 *  itself. */
export function decideSettle(state: LedgerState, command: SettleCashOut, context: Context): Decision {
  const { accountId, transactionId: id, outcome, failureCode, providerTransactionId } = command;
  const transaction = findTransaction(state, accountId, id);
  if (transaction === undefined) return refuse(rejection('transaction_not_found'));
  const { type, status } = transaction;
  const object = type.toLowerCase();
  if (type !== 'PAYOUT' && type !== 'WITHDRAWAL') {
    return refuse(rejection('conflict', `A ${object} is ended by its provider, or expires.`));
  }
  const body = `{"id":"${id}","object":"${object}","status":"${outcome}"}`;
  if (status === outcome) {
    const other = otherThanSaid(transaction, command);
    return other === null
      ? done(null, body)
      : refuse(rejection('conflict', `The ${object} is ${status}, with ${other}.`));
  }
  if (status !== 'PENDING_PROVIDER') return refuse(rejection('conflict', `The ${object} is ${status}.`));
  const said = { outcome, failureCode, failureMessage: null, providerTransactionId };
  const event = conclusion(transaction, { ...said, source: 'DASHBOARD', providerStatus: null }, context);
  return changed(accountId, context.now, event, body);
}

/** What is known of it and stays, though the person says another; null: nothing. A failure code that nobody said is `unknown`. */
function otherThanSaid(transaction: Transaction, said: SettleCashOut): string | null {
  const { failureCode, providerTransactionId: id } = transaction;
  if (said.outcome === 'FAILED') {
    const isOther = said.failureCode !== 'unknown' && said.failureCode !== failureCode;
    return isOther ? `the failure code ${failureCode ?? 'unknown'}` : null;
  }
  if (said.providerTransactionId === null || said.providerTransactionId === id) return null;
  return id === null ? 'no transaction id of the provider' : `the provider's transaction id ${id}`;
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
    return raiseOutcome(state, command, transaction, 'AMOUNT_MISMATCH', context);
  }
  if (outcome === 'REVERSED' && transaction.type === 'CHARGE') {
    // Only a part came back: a person decides what the merchant is to lose of it.
    if (!sameMoney(command, transaction)) {
      return raiseOutcome(state, command, transaction, 'AMOUNT_MISMATCH', context);
    }
    const { id, accountId, released } = transaction;
    if (released && !mayBeTakenBack(state.account(accountId), transaction)) {
      return raiseOutcome(state, command, transaction, 'CONTRADICTION', context);
    }
    return changed(accountId, context.now, { type: 'ChargeReversed', id, source, providerStatus });
  }
  return raiseOutcome(state, command, transaction, 'CONTRADICTION', context);
}

/** What the provider did not say is not held against it. */
function sameMoney({ amount, currency }: RecordOutcome, transaction: Transaction): boolean {
  return (
    (amount === null || amount === transaction.amount) &&
    (currency === null || currency === transaction.currency)
  );
}
