// What `decide` answers: a record to log (or none) and what the caller is told once it is durable.

import type { AccountRecord } from './account-event.ts';
import type { Rejection } from './error-code.ts';

export type Outcome =
  /** Refused; no record. */
  | { readonly type: 'rejected'; readonly rejection: Rejection }
  /** Done; body is JSON text. */
  | { readonly type: 'done'; readonly body: string }
  /** The caller gets the create answer of this transaction as soon as it is fixed and durable. */
  | { readonly type: 'answer'; readonly transactionId: string; readonly replayed: boolean };

export interface Decision {
  readonly record: AccountRecord | null;
  readonly outcome: Outcome;
  /** The command got as far as the rate limit check and counts against it. */
  readonly countsAsCashOut: boolean;
}

/** Refused; nothing is recorded. */
export function refuse(rejection: Rejection): Decision {
  return { record: null, outcome: { type: 'rejected', rejection }, countsAsCashOut: false };
}

/** Done; `record` is null when the command changed nothing. */
export function done(record: AccountRecord | null, body: string): Decision {
  return { record, outcome: { type: 'done', body }, countsAsCashOut: false };
}

/** What a late or repeated command gets. */
export const NOTHING_CHANGED: Decision = {
  record: null,
  outcome: { type: 'done', body: '{}' },
  countsAsCashOut: false,
};
