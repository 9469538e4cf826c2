// What `decide` may look at and `evolve` may change: one account with the transactions and idempotency entries
// that the command names. The accounts group (actors/accounts) brings them into memory beforehand; the pure core
// neither knows nor cares where they come from.

import type { Account } from './account.ts';
import type { ReconciliationKind } from './account-event.ts';
import type { Policy } from './policy.ts';
import type { Transaction } from './transaction.ts';

export interface IdempotencyEntry {
  /** 22 characters of the body's hash; the endpoint is compared by the transaction's type. */
  readonly requestHash: string;
  readonly transactionId: string;
}

export interface ReconciliationItem {
  readonly id: string;
  readonly accountId: string;
  readonly kind: ReconciliationKind;
  readonly transactionId: string | null;
  readonly detail: string;
  readonly raisedAt: number;
  resolvedAt: number | null;
  resolvedBy: string | null;
  resolution: string | null;
}

/** Look-ups answer from memory and then from the views. `put…` is called by `evolve` only. */
export interface LedgerState {
  account(accountId: string): Account | undefined;
  transaction(id: string): Transaction | undefined;
  idempotency(accountId: string, key: string): IdempotencyEntry | undefined;
  reconciliation(id: string): ReconciliationItem | undefined;
  putAccount(account: Account): void;
  putTransaction(transaction: Transaction): void;
  putIdempotency(accountId: string, key: string, entry: IdempotencyEntry): void;
  putReconciliation(item: ReconciliationItem): void;
  /** Tells the state that an object it handed out is about to be changed by `evolve`. */
  touchAccount(account: Account): void;
  touchTransaction(transaction: Transaction): void;
  touchReconciliation(item: ReconciliationItem): void;
}

/** Undefined: the account has no such transaction. */
export function findTransaction(state: LedgerState, accountId: string, id: string): Transaction | undefined {
  const transaction = state.transaction(id);
  return transaction !== undefined && transaction.accountId === accountId ? transaction : undefined;
}

/** What comes with every command from outside the pure core. */
export interface Context {
  /** Milliseconds since 1970; never goes backwards within a partition. */
  readonly now: number;
  /** A fresh id body (26 characters, suffix "00"), not used for anything else. */
  readonly freshBody: string;
  readonly policy: Policy;
  /** Newest format of records that may be written (record-format.ts). */
  readonly writeFormat: number;
  /** Cash-out requests of the account that reached the rate limit check within the last minute. */
  readonly cashOutsInWindow: number;
  /** When enough of them have left the window for one more; milliseconds since 1970. */
  readonly cashOutWindowFreesAt: number;
  /** How many more UNKNOWN_REFERENCE items may be raised before operators have resolved some. Set for RaiseReconciliation alone. */
  readonly unknownReferencesLeft: number;
  /** Apps that one account may have connected at once. */
  readonly appsMax: number;
  /** Payout wallets that one account may ever have had. */
  readonly walletsMax: number;
  /** The most bytes that an account's users may take in an answer. The same bound holds for its connected apps, and for its
   *  wallets that are not revoked. */
  readonly accountListBytesMax: number;
}
