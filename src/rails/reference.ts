// The references under which the providers know our transactions. Derived from our ids and nothing else, so that
// every attempt, on any machine, in any version, sends the same one: that is what makes a second submit harmless.
//
// Invariant: neither form ever changes. The vectors in test/unit/pollers-reference.test.ts are for ever; a new form
// needs a new function beside these, and transactions already submitted keep the old one.

import { createHash } from 'node:crypto';
import { BODY_LENGTH, bodyOf, ID_PREFIXES, isId, makeId, type IdKind } from '../domain/id.ts';

/** Type, transaction body, account body: letters and digits only, within Airtel's 4 to 64. */
const KIND_LENGTH = 3;
export const REFERENCE_LENGTH = KIND_LENGTH + 2 * BODY_LENGTH;

const KINDS = ['charge', 'payout', 'withdrawal', 'deposit'] as const satisfies readonly IdKind[];

export interface ReferenceParts {
  readonly accountId: string;
  readonly transactionId: string;
}

/** E.g. "CHG" + 26 + 26 characters: Airtel's ids and MTN's externalId. */
export function referenceOf(parts: { readonly id: string; readonly accountId: string }): string {
  return parts.id.slice(0, KIND_LENGTH).toUpperCase() + bodyOf(parts.id) + bodyOf(parts.accountId);
}

/** The ids in a reference, in whatever case the provider sends it back; null when it is not one of ours. */
export function parseReference(reference: string): ReferenceParts | null {
  if (reference.length !== REFERENCE_LENGTH) return null;
  const prefix = `${reference.slice(0, KIND_LENGTH).toLowerCase()}_`;
  const kind = KINDS.find((candidate) => ID_PREFIXES[candidate] === prefix);
  if (kind === undefined) return null;

  const bodies = reference.slice(KIND_LENGTH).toUpperCase();
  const transactionId = makeId(kind, bodies.slice(0, BODY_LENGTH));
  const accountId = makeId('account', bodies.slice(BODY_LENGTH));
  return isId(kind, transactionId) && isId('account', accountId) ? { accountId, transactionId } : null;
}

/** True: what a provider names as its answer's subject is a transaction of ours, and not this one. */
export function isOfAnother(named: string | null, transaction: { readonly id: string }): boolean {
  const parts = named === null ? null : parseReference(named.trim());
  return parts !== null && parts.transactionId !== transaction.id;
}

/** A UUID shaped as version 4, for MTN's X-Reference-Id: the first 16 bytes of the id's SHA-256 with the bits of
 *  version and variant set. It cannot be turned back into the id. */
export function uuidReference(transactionId: string): string {
  const bytes = createHash('sha256').update(transactionId).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
