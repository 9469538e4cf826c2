// How accounts, transactions and what leads to them lie in the views. Keys sort by UTF-8 bytes; "\x01" separates their parts
// and occurs in none of them. A transaction's body is its id without the prefix: bodies sort by creation.
//
//   table            key                                   value
//   account          account id                            the account, JSON
//   transaction      transaction id                        the transaction (transaction-row.ts)
//   open             account · body                        id prefix, kind, bucket, due     what is not final
//   timer            account · body                        the same                         what is final and waits for a time
//   index            account · bucket · body               ""                               what is at rest
//   bucket           account · bucket                      ""                               buckets in `index`
//   reference        account · reference · body            id prefix
//   idempotency      account · key                         request hash · transaction id
//   reconciliation   item id                               the item, JSON
//
// A transaction is found in `open` until it is final and in `index` afterwards, so that it is indexed once, where it
// stays; charges that wait for their release are apart, so that no list walks over them. A list with any combination of
// filters merges the open rows and the ranges of the buckets that match: its cost does not grow with the history.

import type { Account, PayoutWallet } from '../../src/domain/account.ts';
import { bodyOf, PREFIX_LENGTH, PREFIX_OF_TYPE, timeOf } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { IdempotencyEntry, ReconciliationItem } from '../../src/domain/state.ts';
import type { Transaction, TransactionType } from '../../src/domain/transaction.ts';
import { bucketOf } from '../../src/domain/transaction-filter.ts';
import { LAST_KEY, type Views } from '../../wal/types.ts';
import type { Retention } from '../runtime/retention.ts';

export const SEPARATOR = '\x01';

/** Users are as they were before any could be removed: rows of then are read, and are the same. */
export function encodeAccount(account: Account): string {
  return JSON.stringify({
    ...account,
    users: Array.from(account.users.values(), ({ removedAt, ...user }) =>
      removedAt === null ? user : { ...user, removedAt },
    ),
    apps: [...account.apps.values()],
    wallets: [...account.wallets.values()],
    balances: [...account.balances],
    usage: [...account.usage],
  });
}

export function decodeAccount(value: string): Account {
  const row = JSON.parse(value);
  const byId = <T extends { id: string }>(items: T[]): Map<string, T> =>
    new Map(items.map((item) => [item.id, item]));
  return {
    ...row,
    users: byId(row.users.map((user: object) => ({ removedAt: null, ...user }))),
    apps: byId(row.apps),
    wallets: byId(row.wallets),
    balances: new Map(row.balances),
    usage: new Map(row.usage),
  } as Account;
}

export function encodeIdempotency(entry: IdempotencyEntry): string {
  return entry.requestHash + SEPARATOR + entry.transactionId;
}

export function decodeIdempotency(value: string): IdempotencyEntry {
  const at = value.indexOf(SEPARATOR);
  return { requestHash: value.slice(0, at), transactionId: value.slice(at + 1) };
}

/** Afterwards the key may be used again. The entry is as old as its transaction; while that is in flight, a repetition would pay
 *  twice. */
export const idempotencyRetention: Retention = {
  table: 'idempotency',
  keptMs: LIMITS.idempotencyRetentionMs,
  madeAt: ({ value }) => timeOf(decodeIdempotency(value).transactionId),
  isNeeded: ({ key, value }, views) => {
    const { transactionId } = decodeIdempotency(value);
    const accountId = key.slice(0, key.indexOf(SEPARATOR));
    return views.get('open', openKey(accountId, transactionId)) !== undefined;
  },
};

export function idempotencyKey(accountId: string, key: string): string {
  return accountId + SEPARATOR + key;
}

export function encodeReconciliation(item: ReconciliationItem): string {
  return JSON.stringify(item);
}

export function decodeReconciliation(value: string): ReconciliationItem {
  return JSON.parse(value) as ReconciliationItem;
}

/** Why a transaction or wallet is not at rest. `provider`: a poller looks after it. `approval`: a person does. */
const OPEN_KINDS = { provider: 'p', approval: 'a', release: 'r', cooling: 'c' } as const;
export type OpenKind = keyof typeof OPEN_KINDS;
/** What a time ends: nothing is approved by waiting. */
export type TimerKind = Exclude<OpenKind, 'approval'>;
const KIND_OF_LETTER = new Map(
  Object.entries(OPEN_KINDS).map(([kind, letter]) => [letter, kind as OpenKind]),
);

export interface OpenRow {
  readonly accountId: string;
  /** Of the transaction or wallet. */
  readonly id: string;
  readonly kind: OpenKind;
  /** The transaction's; '------' for a wallet. */
  readonly bucket: string;
  /** When its timer falls due, ms since 1970; null: it has none. */
  readonly dueAt: number | null;
}

/** In flight, and at rest but for a timer. */
export type OpenTable = 'open' | 'timer';

/** Where the row of such a kind lies. */
export function tableOf(kind: OpenKind): OpenTable {
  return kind === 'provider' || kind === 'approval' ? 'open' : 'timer';
}

const NO_BUCKET = '------';
const BUCKET_AT = PREFIX_LENGTH + 1;
const DUE_AT = BUCKET_AT + NO_BUCKET.length;

export function openKey(accountId: string, id: string): string {
  return accountId + SEPARATOR + bodyOf(id);
}

export function encodeOpen({ id, kind, bucket, dueAt }: OpenRow): string {
  return id.slice(0, PREFIX_LENGTH) + OPEN_KINDS[kind] + bucket + (dueAt ?? '');
}

export function decodeOpen(key: string, value: string): OpenRow {
  const at = key.indexOf(SEPARATOR);
  const due = value.slice(DUE_AT);
  return {
    accountId: key.slice(0, at),
    id: value.slice(0, PREFIX_LENGTH) + key.slice(at + 1),
    kind: KIND_OF_LETTER.get(value.charAt(PREFIX_LENGTH) as 'p')!,
    bucket: value.slice(BUCKET_AT, DUE_AT),
    dueAt: due === '' ? null : Number(due),
  };
}

/** What keeps a transaction open, null when it is at rest. */
export function openOf(transaction: Transaction): OpenRow | null {
  switch (transaction.status) {
    case 'INITIATED':
      return openAs(transaction, 'approval', null);
    case 'PENDING_PROVIDER':
    case 'AWAITING_CUSTOMER':
      return openAs(transaction, 'provider', transaction.expiresAt);
    case 'SUCCESSFUL':
      if (transaction.releaseAt === null || transaction.released) return null;
      return openAs(transaction, 'release', transaction.releaseAt);
    case 'FAILED':
    case 'REVERSED':
      return null;
  }
}

function openAs(transaction: Transaction, kind: OpenKind, dueAt: number | null): OpenRow {
  const { accountId, id } = transaction;
  return { accountId, id, kind, bucket: bucketOf(transaction), dueAt };
}

/** A wallet that cools off has a timer. */
export function openOfWallet(accountId: string, { id, status, activeAt }: PayoutWallet): OpenRow | null {
  return status === 'COOLING_OFF'
    ? { accountId, id, kind: 'cooling', bucket: NO_BUCKET, dueAt: activeAt }
    : null;
}

/** Prefix of the index rows of one bucket. */
export function indexPrefix(accountId: string, bucket: string): string {
  return accountId + SEPARATOR + bucket + SEPARATOR;
}

/** Nothing lies in it, or no more. Whether it has a row then depends on when the views were written; lists are the same. */
export function isEmptyBucket(key: string, views: Views): boolean {
  const prefix = key + SEPARATOR;
  const [row] = views.range('index', { start: prefix, end: prefix + LAST_KEY, limit: 1 });
  return row === undefined;
}

export function referencePrefix(accountId: string, reference: string): string {
  return accountId + SEPARATOR + reference + SEPARATOR;
}

export function idPrefixOf(transaction: Transaction): string {
  return transaction.id.slice(0, PREFIX_LENGTH);
}

export function transactionIdOf(type: TransactionType, body: string): string {
  return PREFIX_OF_TYPE[type] + body;
}
