// Lists of transactions, newest first, with any combination of filters: a merge of the index ranges of the buckets that
// match, and of what is in memory and not yet in the views. The cost of a page does not grow with the history.

import { bucketMatches, matches } from '../../src/domain/account-queries.ts';
import type { TransactionFilter } from '../../src/domain/account-command.ts';
import { bodyOf, encodeTime } from '../../src/domain/id.ts';
import { type Transaction, TRANSACTION_TYPES } from '../../src/domain/transaction.ts';
import type { Views } from '../../wal/types.ts';
import type { Memory } from './memory.ts';
import { compareNewestFirst, indexPrefix, SEPARATOR, transactionIdOf } from './rows.ts';

export interface Page {
  readonly transactions: readonly Transaction[];
  readonly hasMore: boolean;
  /** Highest sequence that the page could depend on. */
  readonly sequence: number;
}

/** Sorts above every character of an id and of a bucket. */
const AFTER_ALL = '~';

/** `startingAfter`: id of the last transaction of the page before, null for the first page. */
export function listPage(
  memory: Memory,
  views: Views,
  accountId: string,
  filter: TransactionFilter,
  startingAfter: string | null,
  limit: number,
): Page {
  const before = upperBound(filter, startingAfter);
  const fresh: Transaction[] = [];
  let sequence = 0;
  for (const transaction of memory.dirtyTransactions()) {
    if (transaction.accountId !== accountId) continue;
    if (transaction.sequence > sequence) sequence = transaction.sequence;
    if (bodyOf(transaction.id) < before && matches(transaction, filter)) fresh.push(transaction);
  }
  fresh.sort(compareNewestFirst);

  const stored = new Merge(rangesOf(views, accountId, filter, before), memory);
  const transactions: Transaction[] = [];
  let nextFresh = 0;
  while (transactions.length <= limit) {
    const candidate = fresh[nextFresh];
    const row = stored.head();
    if (candidate === undefined && row === null) break;
    if (row === null || (candidate !== undefined && bodyOf(candidate.id) > row.body)) {
      transactions.push(candidate!);
      nextFresh++;
    } else {
      transactions.push(memory.transaction(row.id)!);
      stored.take();
    }
  }
  stored.close();
  const hasMore = transactions.length > limit;
  if (hasMore) transactions.pop();
  return { transactions, hasMore, sequence };
}

/** Ids at or above this body are not on the page. */
function upperBound(filter: TransactionFilter, startingAfter: string | null): string {
  const byTime = filter.createdBefore === undefined ? AFTER_ALL : encodeTime(filter.createdBefore + 1);
  const byCursor = startingAfter === null ? AFTER_ALL : bodyOf(startingAfter);
  return byTime < byCursor ? byTime : byCursor;
}

interface IndexRow {
  readonly body: string;
  readonly id: string;
}

function rangesOf(
  views: Views,
  accountId: string,
  filter: TransactionFilter,
  before: string,
): Iterator<IndexRow>[] {
  const from = filter.createdAfter === undefined ? '' : encodeTime(Math.max(0, filter.createdAfter));
  const prefix = accountId + SEPARATOR;
  const ranges: Iterator<IndexRow>[] = [];
  for (const { key } of views.range('bucket', { start: prefix, end: prefix + AFTER_ALL })) {
    const bucket = key.slice(prefix.length);
    if (bucketMatches(bucket, filter)) {
      ranges.push(
        newestFirst(views, indexPrefix(accountId, filter.reference ?? '', bucket), bucket, from, before),
      );
    }
  }
  return ranges;
}

function* newestFirst(
  views: Views,
  prefix: string,
  bucket: string,
  from: string,
  before: string,
): Generator<IndexRow, undefined> {
  const type = TRANSACTION_TYPES[Number(bucket.charAt(0))]!;
  for (const { key } of views.range('index', { start: prefix + from, end: prefix + before, reverse: true })) {
    const body = key.slice(prefix.length);
    yield { body, id: transactionIdOf(type, body) };
  }
}

/** Merges ranges that each run from newest to oldest; leaves out what memory knows better. */
class Merge {
  readonly #ranges: Iterator<IndexRow>[];
  readonly #heads: (IndexRow | null)[];
  readonly #memory: Memory;

  constructor(ranges: Iterator<IndexRow>[], memory: Memory) {
    this.#ranges = ranges;
    this.#memory = memory;
    this.#heads = ranges.map((range) => this.#advance(range));
  }

  head(): IndexRow | null {
    const at = this.#newest();
    return at === -1 ? null : this.#heads[at]!;
  }

  take(): void {
    const at = this.#newest();
    this.#heads[at] = this.#advance(this.#ranges[at]!);
  }

  /** Lets go of the read transaction that unfinished ranges hold. */
  close(): void {
    for (const range of this.#ranges) range.return?.();
  }

  #newest(): number {
    let best = -1;
    for (let i = 0; i < this.#heads.length; i++) {
      const head = this.#heads[i];
      if (head === null || head === undefined) continue;
      if (best === -1 || head.body > this.#heads[best]!.body) best = i;
    }
    return best;
  }

  #advance(range: Iterator<IndexRow>): IndexRow | null {
    for (;;) {
      const next = range.next();
      if (next.done === true) return null;
      if (!this.#memory.isDirty(next.value.id)) return next.value;
    }
  }
}
