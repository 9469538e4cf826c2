// A state that holds everything in memory: what the log tools replay into, and the tests. The accounts group has its own,
// with views behind it (actors/accounts).

import type { Account } from './account.ts';
import type { IdempotencyEntry, LedgerState, ReconciliationItem } from './state.ts';
import type { Transaction } from './transaction.ts';

export class MemoryState implements LedgerState {
  readonly accounts = new Map<string, Account>();
  readonly transactions = new Map<string, Transaction>();
  readonly reconciliations = new Map<string, ReconciliationItem>();
  /** account id → idempotency key → entry. */
  readonly idempotencyEntries = new Map<string, Map<string, IdempotencyEntry>>();

  account(accountId: string): Account | undefined {
    return this.accounts.get(accountId);
  }

  transaction(id: string): Transaction | undefined {
    return this.transactions.get(id);
  }

  idempotency(accountId: string, key: string): IdempotencyEntry | undefined {
    return this.idempotencyEntries.get(accountId)?.get(key);
  }

  reconciliation(id: string): ReconciliationItem | undefined {
    return this.reconciliations.get(id);
  }

  putAccount(account: Account): void {
    this.accounts.set(account.id, account);
  }

  putTransaction(transaction: Transaction): void {
    this.transactions.set(transaction.id, transaction);
  }

  putIdempotency(accountId: string, key: string, entry: IdempotencyEntry): void {
    const entries = this.idempotencyEntries.get(accountId);
    if (entries === undefined) this.idempotencyEntries.set(accountId, new Map([[key, entry]]));
    else entries.set(key, entry);
  }

  putReconciliation(item: ReconciliationItem): void {
    this.reconciliations.set(item.id, item);
  }

  touchAccount(): void {
    // Everything is in memory: there is nothing to mark.
  }

  touchTransaction(): void {
    // As above.
  }

  touchReconciliation(): void {
    // As above.
  }
}
