// What `decide` answers: a record to log (or none) and what the caller is told once it is durable.

import type { AccountEvent, AccountRecord } from '../account-event.ts';
import { type Rejection, rejection } from '../error-code.ts';

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
export function refuse(reason: Rejection): Decision {
  return { record: null, outcome: { type: 'rejected', rejection: reason }, countsAsCashOut: false };
}

export const NO_ACCOUNT: Rejection = rejection('not_found', 'There is no such account.');

/** Done; `record` is null when the command changed nothing. */
export function done(record: AccountRecord | null, body: string): Decision {
  return { record, outcome: { type: 'done', body }, countsAsCashOut: false };
}

/** Done, and one event says what. */
export function changed(accountId: string, now: number, event: AccountEvent, body = '{}'): Decision {
  return done({ accountId, at: now, events: [event] }, body);
}

/** What a late or repeated command gets. */
export const NOTHING_CHANGED: Decision = {
  record: null,
  outcome: { type: 'done', body: '{}' },
  countsAsCashOut: false,
};
