// Decisions on reconciliation items, which operators look at. One is raised for what a provider says that fits no transaction or
// contradicts one, and for a callback that its provider has yet to explain (a note).

import type {
  NoteCallback,
  RaiseReconciliation,
  RecordOutcome,
  ResolveReconciliation,
} from '../account-command.ts';
import type { ReconciliationKind } from '../account-event.ts';
import type { Currency } from '../country.ts';
import { changed, type Decision, done, NO_ACCOUNT, NOTHING_CHANGED, refuse } from './decision.ts';
import { rejection } from '../error-code.ts';
import { isTransactionId, makeId } from '../id.ts';
import { itemIdsOf } from './reconciliation-id.ts';
import { renderReconciliation } from '../render/account.ts';
import { type Context, findTransaction, type LedgerState } from '../state.ts';
import type { Transaction } from '../transaction.ts';

// --- What a provider says --------------------------------------------------------------------------------------------

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

/** What the provider says of an outcome, and what we have of it. `transaction`: null, we have nothing. */
export function raiseOutcome(
  state: LedgerState,
  command: RecordOutcome,
  transaction: Transaction | null,
  kind: ReconciliationKind,
  context: Context,
): Decision {
  const detail = transaction === null ? said(command) : `${said(command)}${OURS}${ended(transaction)}`;
  return raise(state, command, kind, { detail, isIn: isSaidIn(command) }, context);
}

function ended({ status, failureCode, amount, currency }: Transaction): string {
  return `${failureCode === null ? status : `${status} (${failureCode})`}, ${amount} ${currency}.`;
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

/** For 0: an adapter makes that of an amount it cannot read, such as "5,000" (src/rails/terminal.ts). As a number it would be believed. */
const NO_MONEY = 'of nothing, or of money that cannot be read';

function moneyIn(amount: number | null, currency: Currency | null): string {
  if (amount === 0) return NO_MONEY;
  return [amount, currency].filter((part) => part !== null).join(' ');
}

/** Whether the text of an item already tells the same outcome of the same money. The rest may be said otherwise in a callback and in the
 *  answer to an enquiry, or not at all. */
function isSaidIn({ outcome, amount, currency }: RecordOutcome): (detail: string) => boolean {
  return (detail) => {
    const [theirs = ''] = detail.split(OURS, 1);
    if (!theirs.startsWith(`The provider says ${outcome}`)) return false;
    const money = moneyIn(amount, currency);
    // To its end: 1000 begins as 100 does. There may be an amount before it, or a currency behind it, that is not said now.
    return money === '' || new RegExp(`, (?:\\d+ )?${money}[,. ]`).test(theirs);
  };
}

/** One item for each transaction and kind, however often the provider repeats itself: its id is derived from both. If a person has
 *  resolved it and the provider then says something new, that is another item. */
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

// --- Callbacks that their provider has yet to explain ----------------------------------------------------------------

const NOTE_DETAIL =
  'The provider called back about it, and has not said yet what became of it. It is asked until it does.';

/** Once, however often its provider calls. */
export function decideNoteCallback(state: LedgerState, command: NoteCallback, { now }: Context): Decision {
  const { accountId, transactionId } = command;
  if (findTransaction(state, accountId, transactionId) === undefined) {
    return refuse(rejection('transaction_not_found'));
  }
  for (const id of itemIdsOf(transactionId, 'NOTE')) {
    const note = state.reconciliation(id);
    const body = `{"id":"${id}"}`;
    if (note === undefined) {
      const raised = {
        type: 'ReconciliationRaised',
        id,
        kind: 'CONTRADICTION',
        transactionId,
        detail: NOTE_DETAIL,
      } as const;
      return changed(accountId, now, raised, body);
    }
    if (note.resolvedAt === null) return done(null, body);
  }
  return refuse(rejection('conflict', 'Too many callbacks about it were noted.'));
}

// --- Resolved --------------------------------------------------------------------------------------------------------

export function decideResolve(
  state: LedgerState,
  command: ResolveReconciliation,
  { now }: Context,
): Decision {
  const { accountId, reconciliationId: id, resolution, operator: by } = command;
  const item = state.reconciliation(id);
  if (item === undefined || item.accountId !== accountId) {
    return refuse(rejection('not_found', 'There is no such reconciliation item on the account.'));
  }
  if (item.resolvedAt !== null) {
    const isRepeat = item.resolution === resolution && item.resolvedBy === by;
    if (isRepeat) return done(null, renderReconciliation(item));
    return refuse(rejection('conflict', 'The item is already resolved.'));
  }
  return changed(
    accountId,
    now,
    { type: 'ReconciliationResolved', id, by, resolution },
    renderReconciliation({ ...item, resolvedAt: now, resolvedBy: by, resolution }),
  );
}
