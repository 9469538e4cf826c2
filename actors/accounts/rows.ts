// How accounts, transactions and what leads to them lie in the views. Keys sort by UTF-8 bytes; "\x01" separates their parts
// and occurs in none of them.
//
//   table            key                                             value
//   account          account id                                      the account, JSON
//   transaction      transaction id                                  the transaction, JSON
//   index            account · reference · bucket · id body          ""       reference "" for the list of all
//   bucket           account · bucket                                ""       buckets the account ever had
//   idempotency      account · key                                   request hash · transaction id
//   open             transaction or wallet id                        account id · kind · due
//   reconciliation   item id                                         the item, JSON
//
// A list with any combination of filters is a merge of the index ranges of the buckets that match: its cost does not
// grow with the history.

import type { Account, PayoutWallet } from '../../src/domain/account.ts';
import { bodyOf, ID_PREFIXES, timeOf } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { balanced } from '../../src/domain/ledger.ts';
import type { IdempotencyEntry, ReconciliationItem } from '../../src/domain/state.ts';
import { createdAt, type Transaction, type TransactionType } from '../../src/domain/transaction.ts';

export const SEPARATOR = '\x01';

export function encodeAccount(account: Account): string {
  return JSON.stringify({
    ...account,
    users: [...account.users.values()],
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
    users: byId(row.users),
    apps: byId(row.apps),
    wallets: byId(row.wallets),
    balances: new Map(row.balances),
    usage: new Map(row.usage),
  } as Account;
}

export function encodeTransaction(transaction: Transaction): string {
  return JSON.stringify(transaction);
}

/** Asserts that every journal still balances. */
export function decodeTransaction(value: string): Transaction {
  const transaction = JSON.parse(value) as Transaction;
  for (const journal of transaction.journals) balanced(journal);
  return transaction;
}

export function encodeIdempotency(entry: IdempotencyEntry): string {
  return entry.requestHash + SEPARATOR + entry.transactionId;
}

export function decodeIdempotency(value: string): IdempotencyEntry {
  const at = value.indexOf(SEPARATOR);
  return { requestHash: value.slice(0, at), transactionId: value.slice(at + 1) };
}

/** Its key may be used again. The entry is as old as its transaction. */
export function isIdempotencyOver(value: string, now: number): boolean {
  return timeOf(decodeIdempotency(value).transactionId) < now - LIMITS.idempotencyRetentionMs;
}

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
export type OpenKind = 'provider' | 'approval' | 'release' | 'cooling';

export interface OpenRow {
  readonly accountId: string;
  readonly kind: OpenKind;
  /** When its timer falls due, ms since 1970; null: it has none. */
  readonly dueAt: number | null;
}

export function encodeOpen(open: OpenRow): string {
  return open.accountId + SEPARATOR + open.kind + SEPARATOR + (open.dueAt ?? '');
}

export function decodeOpen(value: string): OpenRow {
  const [accountId, kind, dueAt] = value.split(SEPARATOR) as [string, OpenKind, string];
  return { accountId, kind, dueAt: dueAt === '' ? null : Number(dueAt) };
}

/** What keeps a transaction open, null when it is at rest. */
export function openOf(transaction: Transaction): OpenRow | null {
  const accountId = transaction.accountId;
  switch (transaction.status) {
    case 'INITIATED':
      return {
        accountId,
        kind: transaction.approvalStatus === 'PENDING' ? 'approval' : 'provider',
        dueAt: null,
      };
    case 'PENDING_PROVIDER':
    case 'AWAITING_CUSTOMER':
      return { accountId, kind: 'provider', dueAt: transaction.expiresAt };
    case 'SUCCESSFUL':
      if (transaction.releaseAt === null || transaction.released) return null;
      return { accountId, kind: 'release', dueAt: transaction.releaseAt };
    case 'FAILED':
    case 'REVERSED':
      return null;
  }
}

/** A wallet that cools off has a timer. */
export function openOfWallet(accountId: string, wallet: PayoutWallet): OpenRow | null {
  return wallet.status === 'COOLING_OFF' ? { accountId, kind: 'cooling', dueAt: wallet.activeAt } : null;
}

/** Prefix of the index rows of one bucket. `reference` "": the list of all. */
export function indexPrefix(accountId: string, reference: string, bucket: string): string {
  return accountId + SEPARATOR + reference + SEPARATOR + bucket + SEPARATOR;
}

export function indexKeys(transaction: Transaction, bucket: string): [string, string] {
  const body = bodyOf(transaction.id);
  return [
    indexPrefix(transaction.accountId, '', bucket) + body,
    indexPrefix(transaction.accountId, transaction.reference, bucket) + body,
  ];
}

const PREFIX_OF_TYPE = {
  CHARGE: ID_PREFIXES.charge,
  PAYOUT: ID_PREFIXES.payout,
  DEPOSIT: ID_PREFIXES.deposit,
  WITHDRAWAL: ID_PREFIXES.withdrawal,
  REFUND: ID_PREFIXES.refund,
} as const satisfies Record<TransactionType, string>;

export function transactionIdOf(type: TransactionType, body: string): string {
  return PREFIX_OF_TYPE[type] + body;
}

/** Newest first; ids of one partition sort by creation. */
export function compareNewestFirst(a: Transaction, b: Transaction): number {
  const left = createdAt(a) - createdAt(b);
  if (left !== 0) return -left;
  return bodyOf(a.id) < bodyOf(b.id) ? 1 : -1;
}
