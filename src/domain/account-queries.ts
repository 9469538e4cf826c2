// What merchants' reads share, with each other and with `decide`: who is calling, which transactions a filter names, and
// the index bucket of a transaction.

import type { Account, App } from './account.ts';
import type { TransactionFilter } from './account-command.ts';
import { assert } from './assert.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from './country.ts';
import { type ErrorCode, type Rejection, rejection } from './error-code.ts';
import type { LedgerState } from './state.ts';
import {
  APPROVAL_STATUSES,
  createdAt,
  STATUSES,
  type Transaction,
  TRANSACTION_TYPES,
  type TransactionType,
} from './transaction.ts';

interface MerchantCall {
  readonly accountId: string;
  readonly deadline: number;
  readonly keyHash: string | null;
  readonly problem: Rejection | null;
}

export type Access =
  | { readonly type: 'granted'; readonly account: Account; readonly app: App }
  | { readonly type: 'refused'; readonly rejection: Rejection };

/** Problems that a front reports about the key; all others come later in the order of checks. */
const KEY_PROBLEMS: ReadonlySet<ErrorCode> = new Set([
  'authentication_required',
  'secret_key_required',
  'invalid_api_key',
]);

/** For a command past its deadline: nobody waits for it any more, and nothing was decided. */
export const TOO_LATE: Rejection = rejection(
  'service_unavailable',
  'The deadline of the request has passed.',
  null,
  1,
);

function refused(code: ErrorCode): Access {
  return { type: 'refused', rejection: rejection(code) };
}

/** The checks that every merchant's call starts with: deadline, authentication, live mode. */
export function authorise(state: LedgerState, call: MerchantCall, now: number): Access {
  if (now > call.deadline) return { type: 'refused', rejection: TOO_LATE };
  const { keyHash, problem } = call;
  const account = state.account(call.accountId);
  if (problem !== null && KEY_PROBLEMS.has(problem.code)) {
    // Any key of an account that is not live says so, the publishable one too (specification parts 5 and 7).
    const isOfNoUse = problem.code === 'secret_key_required' && account?.settings.live === false;
    return isOfNoUse ? refused('live_mode_not_enabled') : { type: 'refused', rejection: problem };
  }
  if (keyHash === null) return refused('authentication_required');
  if (account === undefined) return refused('invalid_api_key');
  const app = appOfKey(account, keyHash);
  if (app === null) return refused('invalid_api_key');
  if (!account.settings.live) return refused('live_mode_not_enabled');
  return { type: 'granted', account, app };
}

/** `authorise`, then whatever else the front found wrong with the query. */
export function authoriseQuery(state: LedgerState, call: MerchantCall, now: number): Access {
  const access = authorise(state, call, now);
  if (access.type === 'granted' && call.problem !== null) return { type: 'refused', rejection: call.problem };
  return access;
}

/** SHA-256 hashes of long random keys are compared, never keys: what the time it takes could tell, how a hash begins, leads
 *  to no key. */
function appOfKey(account: Account, keyHash: string): App | null {
  for (const app of account.apps.values()) {
    if (app.secretKeyHash === keyHash && app.removedAt === null) return app;
  }
  return null;
}

/** True when the transaction is one that the filter names. */
export function matches(transaction: Transaction, filter: TransactionFilter): boolean {
  const { type, status, approvalStatus, reference, currency, country, network } = filter;
  if (type !== undefined && type !== transaction.type) return false;
  if (status !== undefined && status !== transaction.status) return false;
  if (approvalStatus !== undefined && approvalStatus !== transaction.approvalStatus) return false;
  if (reference !== undefined && reference !== transaction.reference) return false;
  if (currency !== undefined && currency !== transaction.currency) return false;
  if (country !== undefined && country !== transaction.country) return false;
  if (network !== undefined && network !== transaction.network) return false;
  const { createdAfter, createdBefore } = filter;
  if (createdAfter !== undefined && createdAt(transaction) < createdAfter) return false;
  if (createdBefore !== undefined && createdAt(transaction) > createdBefore) return false;
  return true;
}

/**
 * Every closed-list field of a transaction as one digit each: type, status, approval, country, network, currency. An index
 * keyed by it answers any combination of those filters with few scans. Stored: the lists it indexes may only grow at
 * their ends.
 */
export function bucketOf(transaction: Transaction): string {
  return (
    digit(TRANSACTION_TYPES, transaction.type) +
    digit(STATUSES, transaction.status) +
    digit(APPROVAL_STATUSES, transaction.approvalStatus) +
    digit(COUNTRIES, transaction.country) +
    digit(NETWORKS, transaction.network) +
    digit(CURRENCIES, transaction.currency)
  );
}

/** False when no transaction in the bucket matches the filter. Reference and times are not part of a bucket. */
export function bucketMatches(bucket: string, filter: TransactionFilter): boolean {
  return (
    hasDigit(bucket, 0, TRANSACTION_TYPES, filter.type) &&
    hasDigit(bucket, 1, STATUSES, filter.status) &&
    hasDigit(bucket, 2, APPROVAL_STATUSES, filter.approvalStatus) &&
    hasDigit(bucket, 3, COUNTRIES, filter.country) &&
    hasDigit(bucket, 4, NETWORKS, filter.network) &&
    hasDigit(bucket, 5, CURRENCIES, filter.currency)
  );
}

/** The type of the transactions in it. */
export function typeOfBucket(bucket: string): TransactionType {
  const type = TRANSACTION_TYPES[Number(bucket.charAt(0))];
  assert(type !== undefined, 'a bucket begins with the digit of a type');
  return type;
}

const DIGITS = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

function digit<T>(list: readonly T[], value: T): string {
  const text = DIGITS[list.indexOf(value)];
  assert(text !== undefined, 'a bucket has one digit for each field');
  return text;
}

function hasDigit<T>(bucket: string, position: number, list: readonly T[], wanted: T | undefined): boolean {
  return wanted === undefined || bucket.charAt(position) === digit(list, wanted);
}
