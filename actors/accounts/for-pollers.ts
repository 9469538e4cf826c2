// What pollers ask of an accounts partition: what waits for a provider, and what was ended without it and might be paid
// nevertheless.

import { UNAVAILABLE } from '../../src/bus/bus.ts';
import type {
  ExpiredTransaction,
  GetPending,
  ListExpired,
  ListPending,
  PendingTransaction,
} from '../../src/domain/account-command.ts';
import { assert } from '../../src/domain/assert.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { encodeTime } from '../../src/domain/id.ts';
import { findTransaction } from '../../src/domain/state.ts';
import { createdAt, isFinal, type Transaction, type TransactionType } from '../../src/domain/transaction.ts';
import { bucketMatches, typeOfBucket } from '../../src/domain/transaction-filter.ts';
import { LIMITS } from '../../src/limits.ts';
import { keyAfter, LAST_KEY, type Views } from '../../wal/types.ts';
import type { Answered } from '../runtime/group.ts';
import { done, refuse, refuseWith } from './answers.ts';
import type { Memory } from './memory.ts';
import { decodeOpen, openKey, SEPARATOR, transactionIdOf } from './rows.ts';

// --- In flight ---------------------------------------------------------------------------------------------------------

function isPending(transaction: Transaction): boolean {
  return !isFinal(transaction.status) && transaction.status !== 'INITIATED';
}

export function getPending(memory: Memory, query: GetPending): Answered {
  const transaction = findTransaction(memory, query.accountId, query.transactionId);
  if (transaction === undefined) return refuse('transaction_not_found');
  if (!isPending(transaction) && query.evenFinal !== true) {
    // The poller lets go of it.
    return refuseWith(rejection('transaction_not_found'), transaction.sequence);
  }
  return done(JSON.stringify(pendingOf(transaction)), transaction.sequence);
}

export function pendingOf(transaction: Transaction): PendingTransaction {
  return {
    id: transaction.id,
    accountId: transaction.accountId,
    type: transaction.type,
    amount: transaction.amount,
    currency: transaction.currency,
    country: transaction.country,
    network: transaction.network,
    msisdn: transaction.msisdn,
    provider: transaction.provider,
    reference: transaction.reference,
    note: transaction.description ?? transaction.narration,
    createdAt: toBeSentSince(transaction),
    expiresAt: transaction.expiresAt,
    submitted: transaction.submitted,
    unsent: transaction.unsent,
  };
}

/** Approval, where it waited for one: until then its provider was not to have it. */
function toBeSentSince(transaction: Transaction): number {
  const approved = transaction.events.find(({ status }) => status === 'PENDING_PROVIDER');
  return approved?.at ?? createdAt(transaction);
}

/** By account, then by creation. What is in memory is merged in: it may be newer than its row, or have none. A page looks at a bounded
 *  number of rows: any number of withdrawals may wait for approval, and no time ends that. Whoever asks reads the log on from its
 *  `sequence`, whatever that record is: it is told when that is durable, or what took its place would be missed after a crash. */
export function listPending(memory: Memory, views: Views, query: ListPending): Answered {
  const after = query.afterId === null ? '' : pendingKey(memory, query.afterId);
  const found = new Map<string, Transaction>();
  for (const transaction of memory.dirtyTransactions()) {
    const key = openKey(transaction.accountId, transaction.id);
    if (key > after && isPending(transaction)) found.set(key, transaction);
  }
  const charactersUpTo = memory.charactersRead + LIMITS.listCharactersReadMax;
  let stored = 0;
  let looked = 0;
  /** The row with which this page has looked at all it may; null: it came to the end, or has its fill. */
  let last: { readonly key: string; readonly id: string } | null = null;
  for (const { key, value } of views.range('open', {
    start: after === '' ? '' : keyAfter(after),
    end: LAST_KEY,
  })) {
    const { kind, id } = decodeOpen(key, value);
    if (kind === 'provider' && !memory.isDirty(id)) {
      found.set(key, memory.transaction(id)!);
      if (++stored >= query.limit) break;
    }
    const isOver = ++looked >= LIMITS.listRowsScannedMax || memory.charactersRead >= charactersUpTo;
    if (!isOver || query.mayBeShort !== true) continue;
    last = { key, id };
    break;
  }
  const data = [...found]
    .filter(([key]) => last === null || key <= last.key)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, query.limit)
    .map(([, transaction]) => pendingOf(transaction));
  const { sequence } = memory;
  if (query.mayBeShort !== true) return done(JSON.stringify({ sequence, data }), sequence);
  const next = data.length === query.limit ? data.at(-1)!.id : (last?.id ?? null);
  return done(JSON.stringify({ sequence, data, next }), sequence);
}

function pendingKey(memory: Memory, id: string): string {
  const transaction = memory.transaction(id);
  assert(transaction !== undefined, 'a page of pending transactions goes on after one of ours');
  return openKey(transaction.accountId, id);
}

// --- Expired -----------------------------------------------------------------------------------------------------------

/** What failed because it expired, or because an operator said so: its customer may have paid after all, or its provider may. By
 *  account, kind and creation. The rows of the index since a time are a part of it, so the cost does not grow with the history.
 *  `expiryMs`: from creation to expiry. */
export function listExpired(memory: Memory, views: Views, query: ListExpired, expiryMs: number): Answered {
  const { expiredSince, settledSince = expiredSince, followedFrom = Infinity, after, limit } = query;
  const sinceOf = (type: TransactionType): number => (isCollected(type) ? expiredSince : settledSince);
  const data: ExpiredTransaction[] = [];
  const take = (transaction: Transaction): void => {
    const expiredAt = endedByUsAt(transaction);
    if (expiredAt === null || expiredAt < sinceOf(transaction.type)) return;
    data.push({ ...pendingOf(transaction), expiredAt });
  };
  let sequence = 0;
  if (after === null) {
    // They have no place in the order of pages, so all come at once; soon there are fewer, for the views get them.
    for (const transaction of memory.dirtyTransactions()) {
      if (transaction.sequence > followedFrom) continue;
      if (transaction.sequence > sequence) sequence = transaction.sequence;
      take(transaction);
      if (data.length > limit) return { reply: UNAVAILABLE, sequence: 0 };
    }
  }
  const charactersUpTo = memory.charactersRead + LIMITS.listCharactersReadMax;
  let looked = 0;
  let next: string | null = null;
  const madeSince: MadeSince = (type) => {
    const lifeMs = isCollected(type) ? expiryMs + LIMITS.pollerExpiredLateMs : LIMITS.pollerSettledLateMs;
    return encodeTime(Math.max(0, sinceOf(type) - lifeMs));
  };
  for (const { key, id } of failedSince(views, madeSince, after)) {
    if (id !== null && !memory.isDirty(id)) take(memory.transaction(id)!);
    if (++looked < limit && memory.charactersRead < charactersUpTo) continue;
    next = key;
    break;
  }
  return done(JSON.stringify({ data, next }), sequence);
}

function isCollected(type: TransactionType): boolean {
  return type === 'CHARGE' || type === 'DEPOSIT';
}

/** Null: it did not fail, or was never sent, or its provider said so, which is the last word. */
function endedByUsAt({ type, status, failureCode, approvalStatus, events }: Transaction): number | null {
  if (status !== 'FAILED' || approvalStatus === 'REJECTED') return null;
  const { source, at } = events.at(-1)!;
  const isByUs = isCollected(type)
    ? source === 'SYSTEM' && failureCode === 'expired'
    : source === 'DASHBOARD';
  return isByUs ? at : null;
}

/** When what may be asked for was created at the earliest, as the time of an id. */
type MadeSince = (type: TransactionType) => string;

/** Rows of the index from behind `after` on, and, with `id` null, buckets that have none of interest. */
function* failedSince(
  views: Views,
  madeSince: MadeSince,
  after: string | null,
): Generator<{ key: string; id: string | null }, void, undefined> {
  const start = after === null ? '' : after.slice(0, after.lastIndexOf(SEPARATOR));
  for (const { key: ofBucket } of views.range('bucket', { start, end: LAST_KEY })) {
    const prefix = ofBucket + SEPARATOR;
    const end = prefix + LAST_KEY;
    if (after === end) continue;
    const bucket = ofBucket.slice(ofBucket.indexOf(SEPARATOR) + 1);
    const isOfInterest =
      bucketMatches(bucket, { status: 'FAILED' }) && !bucketMatches(bucket, { approvalStatus: 'REJECTED' });
    if (!isOfInterest) {
      yield { key: end, id: null };
      continue;
    }
    const type = typeOfBucket(bucket);
    const from = prefix + madeSince(type);
    const range = { start: after !== null && after >= from ? keyAfter(after) : from, end };
    for (const { key } of views.range('index', range)) {
      yield { key, id: transactionIdOf(type, key.slice(prefix.length)) };
    }
    yield { key: end, id: null };
  }
}
