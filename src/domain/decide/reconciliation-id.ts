// Ids of the reconciliation items about a transaction: derived from it, so that each is raised once, however often its provider
// says the same.

import { RECONCILIATION_KINDS, type ReconciliationKind } from '../account-event.ts';
import { deriveId } from '../id.ts';

/** Index of the first item of the first kind: far above those of status events, journals and entries. Each further item of a kind has
 *  an index lower by FURTHER_STEP. */
const FIRST_INDEX = 1_000;
const FURTHER_STEP = 10;
/** Of one transaction and kind. */
const ITEMS_MAX = 5;
/** Notes of callbacks (reconciliation.ts) have no kind of their own: they take the last place of ten. */
const NOTE_PLACE = 9;

/** All that there may be, in the order in which they are raised. */
export function itemIdsOf(transactionId: string, kind: ReconciliationKind | 'NOTE'): string[] {
  const place = kind === 'NOTE' ? NOTE_PLACE : RECONCILIATION_KINDS.indexOf(kind);
  return Array.from({ length: ITEMS_MAX }, (_, n) =>
    deriveId('reconciliation', transactionId, FIRST_INDEX + place - n * FURTHER_STEP),
  );
}

/** True of the id of a reconciliation item about this transaction that is such a note. */
export function isCallbackNote(id: string, transactionId: string | null): transactionId is string {
  return transactionId !== null && itemIdsOf(transactionId, 'NOTE').includes(id);
}
