// What the history writer is told (JSON on its command line) and tells (lines of JSON on stdout).

export interface HistoryJob {
  /** Data directory of a service; made when absent, continued when not. */
  readonly dataDir: string;
  readonly partitions: number;
  /** Secret keys, one a line. Accounts already in it are used again; it grows to `accounts` lines. */
  readonly keysFile: string;
  readonly accounts: number;
  /** Deposits of 100,000,000 UGX each new account gets: 100,000 payouts of 500 with their fee. */
  readonly deposits: number;
  /** Transactions to write, spread over the first `historyAccounts` accounts. */
  readonly transactions: number;
  readonly historyAccounts: number;
  /** 'mixed': types and outcomes as in a merchant's year; 'charges': successful charges only. */
  readonly shape: 'mixed' | 'charges';
  /** Number of the first transaction: continues where an earlier job ended. */
  readonly firstNumber: number;
  /** Where ids of charges go, "key number, space, id" a line, at most `idsKept` evenly spread; null: nowhere. */
  readonly idsFile: string | null;
  readonly idsKept: number;
  /** The apps' webhook URL, with # for the number of the account; null: none. */
  readonly webhookUrl: string | null;
}

export type HistoryLine =
  | { readonly type: 'progress'; readonly what: string; readonly done: number; readonly of: number }
  | { readonly type: 'done'; readonly seconds: number; readonly records: number }
  | { readonly type: 'failed'; readonly message: string };
