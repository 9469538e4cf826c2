// Filters of the lists: which transactions a filter names, and the buckets of the index that answers it.

import type { TransactionFilter } from './account-command.ts';
import { assert } from './assert.ts';
import { COUNTRIES, CURRENCIES, type Currency, NETWORKS } from './country.ts';
import {
  APPROVAL_STATUSES,
  createdAt,
  STATUSES,
  type Transaction,
  TRANSACTION_TYPES,
  type TransactionType,
} from './transaction.ts';

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

/** The currency of the transactions in it. */
export function currencyOfBucket(bucket: string): Currency {
  const currency = CURRENCIES[Number(bucket.charAt(5))];
  assert(currency !== undefined, 'a bucket ends with the digit of a currency');
  return currency;
}

const DIGITS = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

function digit<T>(list: readonly T[], value: T): string {
  const text = DIGITS[list.indexOf(value)];
  assert(text !== undefined, 'a bucket has one digit for each field');
  return text;
}

/** Of a name that only a newer version has in its list there is none. */
function hasDigit<T>(bucket: string, position: number, list: readonly T[], wanted: T | undefined): boolean {
  return wanted === undefined || list[Number(bucket.charAt(position))] === wanted;
}
