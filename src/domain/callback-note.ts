// A callback whose provider has yet to say what it was about, noted so that whoever looks after its transaction next asks, too: a
// reconciliation item, open for so long, and a person's to resolve where the provider never says it. It is told from other
// items by its id alone, so that every version of the log's readers reads it.

import type { NoteCallback } from './account-command.ts';
import { changed, type Decision, done, refuse } from './decision.ts';
import { rejection } from './error-code.ts';
import { itemIdsOf } from './reconciliation-id.ts';
import type { Context, LedgerState } from './state.ts';

const DETAIL =
  'The provider called back about it, and has not said yet what became of it. It is asked until it does.';

/** True of the id of a reconciliation item about this transaction that is such a note. */
export function isCallbackNote(id: string, transactionId: string | null): transactionId is string {
  return transactionId !== null && itemIdsOf(transactionId, 'NOTE').includes(id);
}

/** Once, however often its provider calls. */
export function decideNoteCallback(state: LedgerState, command: NoteCallback, { now }: Context): Decision {
  const { accountId, transactionId } = command;
  if (state.transaction(transactionId)?.accountId !== accountId) {
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
        detail: DETAIL,
      } as const;
      return changed(accountId, now, raised, body);
    }
    if (note.resolvedAt === null) return done(null, body);
  }
  return refuse(rejection('conflict', 'Too many callbacks about it were noted.'));
}
