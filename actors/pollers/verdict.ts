// What an account is told about the end of a transaction: what its rail answered, as a command.

import type { ExpireTransaction, RecordOutcome } from '../../src/domain/account-command.ts';
import type { AccountEvent, TransactionFailed } from '../../src/domain/account-event.ts';
import type { Source } from '../../src/domain/transaction.ts';
import type { Terminal } from '../../src/rails/rail.ts';

export type Verdict = RecordOutcome | ExpireTransaction;

/** What its account says of its end. */
export type Final = Extract<
  AccountEvent,
  { type: 'TransactionFailed' | 'TransactionSucceeded' | 'ChargeReversed' }
>;

/** No submit reached the provider, and it is too late for another. */
export const NEVER_HAD_IT: Terminal = {
  type: 'failed',
  failureCode: 'provider_unavailable',
  failureMessage: 'The network could not be reached in time.',
  providerStatus: null,
  providerTransactionId: null,
  amount: null,
  currency: null,
  ourFault: false,
};

const OUTCOMES = { succeeded: 'SUCCESSFUL', failed: 'FAILED', reversed: 'REVERSED' } as const;

export function outcomeOf(
  { accountId, id }: { readonly accountId: string; readonly id: string },
  terminal: Terminal,
  source: Source,
  deadline: number,
): RecordOutcome {
  return {
    type: 'RecordOutcome',
    accountId,
    deadline,
    transactionId: id,
    outcome: OUTCOMES[terminal.type],
    source,
    failureCode: terminal.failureCode,
    failureMessage: terminal.failureMessage,
    providerStatus: terminal.providerStatus,
    providerTransactionId: terminal.providerTransactionId,
    amount: terminal.amount,
    currency: terminal.currency,
  };
}

/** It fails by what became of its submits, refused or never sent, and not by what its provider knows of it: of a further submit
 *  that says nothing. */
export function isOfSubmits(verdict: Verdict): boolean {
  if (verdict.type !== 'RecordOutcome' || verdict.outcome !== 'FAILED') return false;
  return verdict.source === 'API' || verdict.source === 'SYSTEM';
}

/** The account has yet to hear something else. */
export function contradicts(verdict: Verdict | null, type: Final['type']): boolean {
  if (verdict?.type !== 'RecordOutcome') return false;
  if (type === 'TransactionFailed') return verdict.outcome === 'SUCCESSFUL';
  return type === 'TransactionSucceeded' && verdict.outcome !== 'SUCCESSFUL';
}

/** False: it was ended by us, or by a person, and its provider may not know that. */
export function isOfProvider({ source, failureCode }: TransactionFailed): boolean {
  return source !== 'DASHBOARD' && !(source === 'SYSTEM' && failureCode === 'expired');
}
