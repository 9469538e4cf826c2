// The state of one accounts partition: what changed since the checkpoint, and every account touched, in memory; the rest
// is read from the views. This is the LedgerState that `decide` and `evolve` work on.
//
// Invariants: an object in memory is newer than or equal to its row; one that changed stays in memory until the views
// have reached the sequence of its last change.

import type { Account } from '../../src/domain/account.ts';
import { bodyOf } from '../../src/domain/id.ts';
import type { IdempotencyEntry, LedgerState, ReconciliationItem } from '../../src/domain/state.ts';
import { isFinal, type Transaction } from '../../src/domain/transaction.ts';
import { bucketOf } from '../../src/domain/transaction-filter.ts';
import type { Row, Views } from '../../wal/types.ts';
import type { OpenOptions } from '../runtime/group.ts';
import {
  decodeAccount,
  decodeIdempotency,
  decodeReconciliation,
  encodeAccount,
  encodeIdempotency,
  encodeOpen,
  encodeReconciliation,
  idempotencyKey,
  idPrefixOf,
  indexPrefix,
  openKey,
  openOf,
  openOfWallet,
  referencePrefix,
  SEPARATOR,
  tableOf,
  type OpenTable,
} from './rows.ts';
import { decodeTransaction, encodeTransaction } from './transaction-row.ts';

interface FreshKey {
  readonly key: string;
  readonly sequence: number;
}

interface StoredAs {
  /** Where its open row lies; null: it has none. */
  readonly table: OpenTable | null;
  /** Of its index row; null: it has none yet. */
  readonly bucket: string | null;
}

function storedAs(transaction: Transaction): StoredAs {
  const bucket = isFinal(transaction.status) ? bucketOf(transaction) : null;
  const open = openOf(transaction);
  return { table: open === null ? null : tableOf(open.kind), bucket };
}

export class Memory implements LedgerState {
  readonly #views: Views;
  readonly #accounts = new Map<string, Account>();
  /** Those not yet in the views as they are now. */
  readonly #transactions = new Map<string, Transaction>();
  /** Each change of a transaction, oldest first: the queue in which they leave memory. */
  #touched: Transaction[] = [];
  #touchedAt: number[] = [];
  readonly #idempotency = new Map<string, IdempotencyEntry>();
  readonly #reconciliation = new Map<string, ReconciliationItem>();
  readonly #dirtyAccounts = new Set<Account>();
  /** With the sequence of the last change. */
  readonly #dirtyReconciliation = new Map<ReconciliationItem, number>();
  /** Idempotency keys not yet in the views, oldest first. */
  #freshKeys: FreshKey[] = [];
  /** For the follower that writes rows: what the views have of a transaction that was read from its row. */
  readonly #rowOf = new Map<Transaction, StoredAs>();
  readonly #knownBuckets = new Set<string>();
  /** The transaction last read from its row: `decide` and `evolve` of one command ask for the same one. */
  #lastRead: Transaction | undefined;
  #charactersRead = 0;
  /** Sequence of the record being applied. */
  #sequence: number;
  readonly #writesRows: boolean;

  constructor(views: Views, { sequence, writesRows }: OpenOptions) {
    this.#views = views;
    this.#sequence = sequence;
    this.#writesRows = writesRows;
  }

  /** Of the last record applied. */
  get sequence(): number {
    return this.#sequence;
  }

  beginRecord(sequence: number): void {
    this.#sequence = sequence;
  }

  account(accountId: string): Account | undefined {
    const inMemory = this.#accounts.get(accountId);
    if (inMemory !== undefined) return inMemory;
    const row = this.#views.get('account', accountId);
    if (row === undefined) return undefined;
    const account = decodeAccount(row);
    this.#accounts.set(accountId, account);
    return account;
  }

  transaction(id: string): Transaction | undefined {
    const inMemory = this.#transactions.get(id);
    if (inMemory !== undefined) return inMemory;
    if (this.#lastRead?.id === id) return this.#lastRead;
    const row = this.#views.get('transaction', id);
    if (row === undefined) return undefined;
    this.#charactersRead += row.length;
    this.#lastRead = decodeTransaction(row);
    return this.#lastRead;
  }

  /** Of the rows of transactions, since it was made. With its metadata a row may be a hundred times as long as another. */
  get charactersRead(): number {
    return this.#charactersRead;
  }

  idempotency(accountId: string, key: string): IdempotencyEntry | undefined {
    const composite = idempotencyKey(accountId, key);
    const fresh = this.#idempotency.get(composite);
    if (fresh !== undefined) return fresh;
    const row = this.#views.get('idempotency', composite);
    return row === undefined ? undefined : decodeIdempotency(row);
  }

  reconciliation(id: string): ReconciliationItem | undefined {
    const inMemory = this.#reconciliation.get(id);
    if (inMemory !== undefined) return inMemory;
    const row = this.#views.get('reconciliation', id);
    return row === undefined ? undefined : decodeReconciliation(row);
  }

  putAccount(account: Account): void {
    this.#accounts.set(account.id, account);
    this.#dirtyAccounts.add(account);
  }

  putTransaction(transaction: Transaction): void {
    this.#transactions.set(transaction.id, transaction);
    this.#touch(transaction);
  }

  putIdempotency(accountId: string, key: string, entry: IdempotencyEntry): void {
    const composite = idempotencyKey(accountId, key);
    this.#idempotency.set(composite, entry);
    this.#freshKeys.push({ key: composite, sequence: this.#sequence });
  }

  putReconciliation(item: ReconciliationItem): void {
    this.#reconciliation.set(item.id, item);
    this.#dirtyReconciliation.set(item, this.#sequence);
  }

  touchAccount(account: Account): void {
    this.#dirtyAccounts.add(account);
  }

  touchTransaction(transaction: Transaction): void {
    if (!this.#transactions.has(transaction.id)) {
      // It came from its row: from here on memory is newer.
      this.#transactions.set(transaction.id, transaction);
      if (this.#writesRows) this.#rowOf.set(transaction, storedAs(transaction));
    }
    this.#touch(transaction);
  }

  #touch(transaction: Transaction): void {
    this.#touched.push(transaction);
    this.#touchedAt.push(this.#sequence);
  }

  touchReconciliation(item: ReconciliationItem): void {
    this.#reconciliation.set(item.id, item);
    this.#dirtyReconciliation.set(item, this.#sequence);
  }

  /** Transactions not yet in the views as they are now. */
  dirtyTransactions(): Iterable<Transaction> {
    return this.#transactions.values();
  }

  dirtyReconciliation(): Iterable<ReconciliationItem> {
    return this.#dirtyReconciliation.keys();
  }

  isDirty(id: string): boolean {
    return this.#transactions.has(id);
  }

  /** Rows of all that changed, for the follower that writes the views. */
  takeRows(): Row[] {
    const rows: Row[] = [];
    for (const account of this.#dirtyAccounts) {
      rows.push({ table: 'account', key: account.id, value: encodeAccount(account) });
      for (const wallet of account.wallets.values()) {
        const open = openOfWallet(account.id, wallet);
        const key = openKey(account.id, wallet.id);
        rows.push({ table: 'timer', key, value: open === null ? null : encodeOpen(open) });
      }
    }
    for (const transaction of this.#transactions.values()) this.#transactionRows(transaction, rows);
    for (const item of this.#dirtyReconciliation.keys()) {
      rows.push({ table: 'reconciliation', key: item.id, value: encodeReconciliation(item) });
    }
    for (const { key } of this.#freshKeys) {
      rows.push({ table: 'idempotency', key, value: encodeIdempotency(this.#idempotency.get(key)!) });
    }
    return rows;
  }

  #transactionRows(transaction: Transaction, rows: Row[]): void {
    const { id, accountId } = transaction;
    const stored = this.#rowOf.get(transaction);
    rows.push({ table: 'transaction', key: id, value: encodeTransaction(transaction) });
    const open = openOf(transaction);
    const table = open === null ? null : tableOf(open.kind);
    const key = openKey(accountId, id);
    if (stored !== undefined && stored.table !== null && stored.table !== table) {
      rows.push({ table: stored.table, key, value: null });
    }
    if (open !== null && table !== null) rows.push({ table, key, value: encodeOpen(open) });
    if (stored === undefined) {
      const byReference = referencePrefix(accountId, transaction.reference) + bodyOf(id);
      rows.push({ table: 'reference', key: byReference, value: idPrefixOf(transaction) });
    }
    if (isFinal(transaction.status)) this.#indexRows(transaction, stored?.bucket ?? null, rows);
  }

  /** `stored`: the bucket it is indexed under already, null when it is not. */
  #indexRows(transaction: Transaction, stored: string | null, rows: Row[]): void {
    const { accountId } = transaction;
    const bucket = bucketOf(transaction);
    if (stored === bucket) return;
    const body = bodyOf(transaction.id);
    if (stored !== null) {
      rows.push({ table: 'index', key: indexPrefix(accountId, stored) + body, value: null });
    }
    rows.push({ table: 'index', key: indexPrefix(accountId, bucket) + body, value: '' });
    const known = accountId + SEPARATOR + bucket;
    if (this.#knownBuckets.has(known)) return;
    this.#knownBuckets.add(known);
    rows.push({ table: 'bucket', key: known, value: '' });
  }

  /** The views have reached `sequence`. */
  evict(sequence: number): void {
    for (const account of this.#dirtyAccounts) {
      if (account.sequence <= sequence) this.#dirtyAccounts.delete(account);
    }
    this.#evictTransactions(sequence);
    for (const [item, changedAt] of this.#dirtyReconciliation) {
      if (changedAt > sequence) continue;
      this.#dirtyReconciliation.delete(item);
      this.#reconciliation.delete(item.id);
    }
    let keys = 0;
    while (keys < this.#freshKeys.length && this.#freshKeys[keys]!.sequence <= sequence) {
      this.#idempotency.delete(this.#freshKeys[keys++]!.key);
    }
    if (keys > 0) this.#freshKeys = this.#freshKeys.slice(keys);
    this.#lastRead = undefined;
  }

  #evictTransactions(sequence: number): void {
    const touched = this.#touched;
    let head = 0;
    for (; head < touched.length && this.#touchedAt[head]! <= sequence; head++) {
      const transaction = touched[head]!;
      if (transaction.sequence > sequence) continue;
      this.#transactions.delete(transaction.id);
      this.#rowOf.delete(transaction);
    }
    if (head === 0) return;
    this.#touched = touched.slice(head);
    this.#touchedAt = this.#touchedAt.slice(head);
  }
}
