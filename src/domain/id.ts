// Identifiers: prefix + 26 characters of Crockford base32, sortable by time, unique across the cluster.
// This file knows their layout; making fresh ones (clock, counter, randomness) is the runtime's
// (actors/runtime/fresh-id.ts).
//
// Body, 26 characters:
//   10  milliseconds since 1970, base32          created_at of the object is exactly this time
//    3  counter within the millisecond            ids of one partition are strictly increasing
//   11  random (55 bits)                          unique across partitions, unguessable
//    2  suffix: "00" for the object itself, "01", "02", … for what belongs to it (status events, journals,
//       entries): a derived id costs no bytes in the log, and no crash can give one event two of them.

import type { TransactionType } from './transaction.ts';

export const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
/** The two characters of each number from 0 to 1,023. */
export const PAIRS: readonly string[] = Array.from(ALPHABET, (high) =>
  Array.from(ALPHABET, (low) => high + low),
).flat();
export const BODY_LENGTH = 26;
const SUFFIX_LENGTH = 2;

export const ID_PREFIXES = {
  account: 'acc_',
  app: 'app_',
  user: 'usr_',
  wallet: 'wal_',
  charge: 'chg_',
  payout: 'pyt_',
  withdrawal: 'wdl_',
  deposit: 'dep_',
  refund: 'ref_',
  event: 'evt_',
  journal: 'jrn_',
  entry: 'ent_',
  reconciliation: 'rec_',
  delivery: 'dlv_',
  request: 'req_',
  audit: 'aud_',
} as const;
export type IdKind = keyof typeof ID_PREFIXES;

export const PREFIX_OF_TYPE = {
  CHARGE: ID_PREFIXES.charge,
  PAYOUT: ID_PREFIXES.payout,
  DEPOSIT: ID_PREFIXES.deposit,
  WITHDRAWAL: ID_PREFIXES.withdrawal,
  REFUND: ID_PREFIXES.refund,
} as const satisfies Record<TransactionType, string>;

/** Of every one of them. */
export const PREFIX_LENGTH = 4;
const BODY = /^[0-9A-HJKMNP-TV-Z]{26}$/;

/** `body`: 26 characters with suffix "00". */
export function makeId(kind: IdKind, body: string): string {
  return ID_PREFIXES[kind] + body;
}

export function bodyOf(id: string): string {
  return id.slice(PREFIX_LENGTH);
}

/** True when `id` has the prefix of `kind` and a well-formed body. */
export function isId(kind: IdKind, id: string): boolean {
  return (
    id.length === PREFIX_LENGTH + BODY_LENGTH && id.startsWith(ID_PREFIXES[kind]) && BODY.test(bodyOf(id))
  );
}

const TRANSACTION_KINDS: readonly IdKind[] = ['charge', 'payout', 'withdrawal', 'deposit', 'refund'];

/** True when `id` is the well-formed id of a charge, payout, withdrawal, deposit or refund. */
export function isTransactionId(id: string): boolean {
  return TRANSACTION_KINDS.some((kind) => isId(kind, id));
}

/** The id of the `index`-th thing (0 … 1022) that belongs to the object `id`. */
export function deriveId(kind: IdKind, id: string, index: number): string {
  const own = id.slice(PREFIX_LENGTH, PREFIX_LENGTH + BODY_LENGTH - SUFFIX_LENGTH);
  return ID_PREFIXES[kind] + own + PAIRS[index + 1]!;
}

/** Milliseconds since 1970: the time in an id's body. */
export function timeOf(id: string): number {
  let time = 0;
  for (let i = PREFIX_LENGTH; i < PREFIX_LENGTH + 10; i++) time = time * 32 + ALPHABET.indexOf(id.charAt(i));
  return time;
}

/** The ten characters that sort every id made at or after `timeMs` at or above them. */
export function encodeTime(timeMs: number): string {
  let text = '';
  let rest = timeMs;
  for (let i = 0; i < 10; i++) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
