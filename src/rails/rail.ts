// A rail: one (country, network) at one provider. The interface that MTN, Airtel and loopback implement, and the only
// thing the pollers know of a provider.
//
// An adapter decides once, at the edge, what an answer means: every word, code and HTTP status of the provider
// becomes one of the results below. It never throws for what the outside does.

import type { PendingTransaction } from '../domain/account-command.ts';
import type { Currency } from '../domain/country.ts';
import { type FailureCode, isCashOut } from '../domain/transaction.ts';
import type { Asked } from './retry-after.ts';

/** Money comes in (charge, deposit) or goes out (payout, withdrawal). */
export type Direction = 'collect' | 'send';

export function directionOf({ type }: PendingTransaction): Direction {
  return isCashOut(type) || type === 'REFUND' ? 'send' : 'collect';
}

/** Final word of the provider. */
export interface Terminal {
  readonly type: 'succeeded' | 'failed' | 'reversed';
  /** Set exactly when failed. */
  readonly failureCode: FailureCode | null;
  readonly failureMessage: string | null;
  /** The provider's own word or code, kept for audit. */
  readonly providerStatus: string | null;
  readonly providerTransactionId: string | null;
  /** What the provider says was moved, minor units; null when it did not say. */
  readonly amount: number | null;
  readonly currency: Currency | null;
  /** The refusal is our configuration's or float's fault: operators are alerted. */
  readonly ourFault: boolean;
}

export type SubmitResult =
  | Terminal
  /** Accepted; the outcome will come. Also the answer to a duplicate reference. */
  | { readonly type: 'accepted'; readonly providerStatus: string | null }
  /** Refused before acceptance for a passing reason (503, 429, connection refused): the same reference may be
   *  submitted again. `mayHaveIt`: what refused it may stand before something that took it: ask before it is given up. */
  | ({ readonly type: 'not_accepted'; readonly reason: string; readonly mayHaveIt?: true } & Asked)
  /** Nobody knows whether it was accepted (time-out, dropped connection, HTML, 5xx): enquire. */
  | ({ readonly type: 'unknown'; readonly reason: string } & Asked);

export type EnquiryResult =
  | Terminal
  | { readonly type: 'pending'; readonly providerStatus: string | null }
  /** The provider does not know the reference. Within its grace period that says nothing. */
  | { readonly type: 'not_found' }
  /** No usable answer: ask again later. */
  | ({ readonly type: 'unknown'; readonly reason: string } & Asked);

/** Asked when a submit is about to leave this machine: it may have waited for a token or a connection, and by then be another
 *  process's to send, or have ended. False: it is `not_accepted`. */
export type IsToBeSent = () => boolean;

export interface Rail {
  /** e.g. "mtn_ug"; the `provider` of a transaction. */
  readonly id: string;
  readonly maxConcurrency: number;
  /** How long after a submit `not_found` says nothing. */
  readonly notFoundGraceMs: number;
  /** True: it forgets what it accepted when the process ends (loopback), so that `not_found` for an accepted
   *  reference means "submit it again". A network never forgets: there it means "something is wrong, keep asking". */
  readonly forgetful: boolean;
  /** Sends it under the reference derived from its id (the same for every attempt). An adapter that knows the answer
   *  at once may return it without a promise. */
  submit(transaction: PendingTransaction, isToBeSent?: IsToBeSent): SubmitResult | Promise<SubmitResult>;
  enquire(transaction: PendingTransaction): EnquiryResult | Promise<EnquiryResult>;
  close(): Promise<void>;
}

/** Time as rails and pollers see it; tests drive it by hand. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Runs `run` every `intervalMs`, without keeping the process alive; the returned function stops it. */
  every(intervalMs: number, run: () => void): () => void;
}

/** A callback, or loopback's stand-in for one: enquire about this transaction now. Never proof. */
export interface OutcomeHint {
  readonly accountId: string;
  readonly transactionId: string;
}
export type OnHint = (hint: OutcomeHint) => void;

export async function closeAll(rails: ReadonlyMap<string, Rail>): Promise<void> {
  await Promise.all([...rails.values()].map((rail) => rail.close()));
}
