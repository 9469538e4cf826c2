// Lists of transactions, newest first, with any combination of filters. Three kinds of source, each newest first, are
// merged: what is in memory and not yet in the views; what is in flight; and, of what is at rest, the index ranges of the
// buckets that match. A filter by reference reads the rows of that reference alone.
//
// A page skips as many rows as it may, and reads as many characters of them. A list that had to skip so many ends its page there, with a
// cursor to go on from: a page may be short, or empty, although there is more.

import type { TransactionFilter } from '../../src/domain/account-command.ts';
import { bodyOf, encodeTime } from '../../src/domain/id.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { bucketMatches, matches, typeOfBucket } from '../../src/domain/transaction-filter.ts';
import { LAST_KEY, type Views } from '../../wal/types.ts';
import { newestFirst } from '../runtime/newest-first.ts';
import type { Memory } from './memory.ts';
import { decodeOpen, indexPrefix, referencePrefix, SEPARATOR, transactionIdOf } from './rows.ts';

export interface Page {
  readonly transactions: readonly Transaction[];
  /** Null: there is no more. */
  readonly nextCursor: string | null;
  /** Highest sequence that the page could depend on. */
  readonly sequence: number;
}

interface Candidate {
  readonly body: string;
  readonly id: string;
  /** Not a candidate: its source has looked at all it may, and goes no further than here. */
  readonly isEnd: boolean;
}

/** How many more rows a page may look at, and how far `memory.charactersRead` may get. */
interface Budget {
  left: number;
  readonly charactersUpTo: number;
}

export interface PageBounds {
  /** Transactions. */
  readonly limit: number;
  /** Of the rows that are read whole, also of those that do not match; one or two more are. */
  readonly charactersMax: number;
  /** Rows that do not match. */
  readonly skippedMax: number;
}

/** `startingAfter`: id of the last transaction of the page before, null for the first page. */
export function listPage(
  memory: Memory,
  views: Views,
  accountId: string,
  filter: TransactionFilter,
  startingAfter: string | null,
  { limit, charactersMax, skippedMax }: PageBounds,
): Page {
  const before = upperBound(filter, startingAfter);
  const budget = { left: skippedMax, charactersUpTo: memory.charactersRead + charactersMax };
  const { fresh, sequence } = freshOnes(memory, accountId, filter, before);
  const from = lowerBound(filter);
  const stored = storedSources({ views, memory, accountId, filter, from, before, budget });
  const transactions: Transaction[] = [];
  for (const { id, isEnd } of newestFirst([fresh, ...stored], ({ body }) => body)) {
    if (isEnd) return { transactions, nextCursor: id, sequence };
    const isFull = transactions.length > 0 && memory.charactersRead >= budget.charactersUpTo;
    if (isFull || transactions.length === limit) {
      return { transactions, nextCursor: transactions.at(-1)!.id, sequence };
    }
    transactions.push(memory.transaction(id)!);
  }
  return { transactions, nextCursor: null, sequence };
}

/** Ids at or above this body are not on the page. */
function upperBound(filter: TransactionFilter, startingAfter: string | null): string {
  const byTime = filter.createdBefore === undefined ? LAST_KEY : encodeTime(filter.createdBefore + 1);
  const byCursor = startingAfter === null ? LAST_KEY : bodyOf(startingAfter);
  return byTime < byCursor ? byTime : byCursor;
}

function lowerBound({ createdAfter }: TransactionFilter): string {
  return createdAfter === undefined ? '' : encodeTime(Math.max(0, createdAfter));
}

/** What is in memory alone is bounded by how far the checkpoint lags. */
function freshOnes(
  memory: Memory,
  accountId: string,
  filter: TransactionFilter,
  before: string,
): { fresh: Candidate[]; sequence: number } {
  const fresh: Candidate[] = [];
  let sequence = 0;
  for (const transaction of memory.dirtyTransactions()) {
    if (transaction.accountId !== accountId) continue;
    if (transaction.sequence > sequence) sequence = transaction.sequence;
    const body = bodyOf(transaction.id);
    if (body < before && matches(transaction, filter)) fresh.push({ body, id: transaction.id, isEnd: false });
  }
  fresh.sort((a, b) => (a.body < b.body ? 1 : -1));
  return { fresh, sequence };
}

function storedSources(range: Range): Iterable<Candidate>[] {
  const { views, accountId, filter } = range;
  if (filter.reference !== undefined) return [ofReference(range, filter.reference)];
  const sources: Iterable<Candidate>[] = [inFlight(range)];
  const prefix = accountId + SEPARATOR;
  for (const { key } of views.range('bucket', { start: prefix, end: prefix + LAST_KEY })) {
    const bucket = key.slice(prefix.length);
    if (bucketMatches(bucket, filter)) sources.push(atRest(range, bucket));
  }
  return sources;
}

interface Range {
  readonly views: Views;
  readonly memory: Memory;
  readonly accountId: string;
  readonly filter: TransactionFilter;
  readonly from: string;
  readonly before: string;
  readonly budget: Budget;
}

/** Every row of a bucket matches, so nothing is skipped but what memory knows better. */
function* atRest(
  { views, memory, accountId, from, before }: Range,
  bucket: string,
): Generator<Candidate, undefined> {
  const prefix = indexPrefix(accountId, bucket);
  const type = typeOfBucket(bucket);
  for (const { key } of views.range('index', { start: prefix + from, end: prefix + before, reverse: true })) {
    const body = key.slice(prefix.length);
    const id = transactionIdOf(type, body);
    if (!memory.isDirty(id)) yield { body, id, isEnd: false };
  }
}

function* inFlight(range: Range): Generator<Candidate, undefined> {
  const { views, memory, accountId, filter, from, before, budget } = range;
  const prefix = accountId + SEPARATOR;
  for (const { key, value } of views.range('open', {
    start: prefix + from,
    end: prefix + before,
    reverse: true,
  })) {
    const { id, bucket } = decodeOpen(key, value);
    const body = bodyOf(id);
    if (bucketMatches(bucket, filter) && !memory.isDirty(id)) yield { body, id, isEnd: false };
    else if (budget.left-- <= 0) yield { body, id, isEnd: true };
  }
}

function* ofReference(range: Range, reference: string): Generator<Candidate, undefined> {
  const { views, memory, accountId, filter, from, before, budget } = range;
  const prefix = referencePrefix(accountId, reference);
  const bounds = { start: prefix + from, end: prefix + before, reverse: true };
  for (const { key, value } of views.range('reference', bounds)) {
    const body = key.slice(prefix.length);
    const id = value + body;
    const isMatch = !memory.isDirty(id) && matches(memory.transaction(id)!, filter);
    const isOver = budget.left <= 0 || memory.charactersRead >= budget.charactersUpTo;
    if (isMatch) yield { body, id, isEnd: false };
    else if (isOver) yield { body, id, isEnd: true };
    else budget.left--;
  }
}
