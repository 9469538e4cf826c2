// What the operator API asks of the webhooks group: plain JSON, as it travels over the bus to group 'webhooks',
// partition partitionOf(accountId). The group renders the bodies, so that the edge only passes them on.
//
// A delivery that is not on the account answers `not_found`; a replay for an app without a webhook URL, or one that was
// removed, answers `conflict`.

import type { FinalStatus, TransactionType } from './transaction.ts';

/** PENDING: waits for its first attempt. RETRYING: failed, another attempt is due. DEAD_LETTERED: no attempt is left.
 *  CANCELLED: the app was removed, or has no webhook URL any more. */
export const DELIVERY_STATUSES = ['PENDING', 'RETRYING', 'DELIVERED', 'DEAD_LETTERED', 'CANCELLED'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** What merchants hear of: an object and its final status. Only charges are reversed. */
export type EventType =
  | `${Lowercase<Exclude<TransactionType, 'REFUND'>>}.${Lowercase<Exclude<FinalStatus, 'REVERSED'>>}`
  | 'charge.reversed';

interface ForAccount {
  readonly accountId: string;
  /** Milliseconds since 1970; past it the message is dropped undecided. */
  readonly deadline: number;
}

/** Newest first. Body: {object: 'list', data: DeliveryView[], has_more, next_cursor}. */
export interface ListDeliveries extends ForAccount {
  readonly type: 'ListDeliveries';
  /** Null: every app. */
  readonly appId: string | null;
  /** Null: any. */
  readonly status: DeliveryStatus | null;
  readonly limit: number;
  /** A delivery's id: the `next_cursor` of the page before. */
  readonly startingAfter: string | null;
}

/** Body: DeliveryView. */
export interface GetDelivery extends ForAccount {
  readonly type: 'GetDelivery';
  readonly deliveryId: string;
}

/** Sends it again, whatever its status, to the app's current webhook URL with the same event id. Body: DeliveryView as
 *  it stands after the replay was recorded. */
export interface ReplayDelivery extends ForAccount {
  readonly type: 'ReplayDelivery';
  readonly deliveryId: string;
  readonly operator: string;
}

/** Every RETRYING or DEAD_LETTERED delivery of the app created at or after `since`. Body: {replayed: number, has_more};
 *  has_more: the bound of one message was reached, send it again. */
export interface ReplayFailedDeliveries extends ForAccount {
  readonly type: 'ReplayFailedDeliveries';
  readonly appId: string;
  /** Milliseconds since 1970. */
  readonly since: number;
  readonly operator: string;
}

export type WebhookOperatorMessage = ListDeliveries | GetDelivery | ReplayDelivery | ReplayFailedDeliveries;

/** A delivery as operators see it. Times are ISO 8601. */
export interface DeliveryView {
  readonly id: string;
  readonly object: 'delivery';
  readonly account_id: string;
  readonly app_id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly transaction_id: string;
  readonly status: DeliveryStatus;
  /** Where the next attempt goes, or the last one went. */
  readonly url: string | null;
  readonly next_attempt_at: string | null;
  readonly created_at: string;
  readonly attempts: readonly DeliveryAttemptView[];
}

export interface DeliveryAttemptView {
  readonly at: string;
  /** Null: no HTTP answer came. */
  readonly status_code: number | null;
  /** Null: a 2xx came in time. Otherwise a word for what went wrong, such as `timeout` or `http_status`. */
  readonly error: string | null;
  readonly duration_ms: number;
  /** First 2,000 characters of the answer. */
  readonly excerpt: string | null;
}
