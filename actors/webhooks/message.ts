// What the webhooks group tells itself: commands from its feed reader, its sender and its timers. What operators ask is
// in src/domain/webhook-message.ts.

import type { WebhookOperatorMessage } from '../../src/domain/webhook-message.ts';
import type { Attempt, TakenEvent } from './record.ts';

interface WithDeadline {
  /** Milliseconds since 1970; past it the command is dropped undecided. */
  readonly deadline: number;
}

/** What the feed said of an app's endpoint. */
export type EndpointChange =
  | {
      readonly type: 'connected';
      readonly appId: string;
      readonly accountId: string;
      readonly url: string | null;
      readonly signingSecretSealed: string;
    }
  | { readonly type: 'changed'; readonly appId: string; readonly url: string | null }
  | { readonly type: 'removed'; readonly appId: string };

/** With all apps that may hear of it: the record has those alone that do. */
export type OfferedEvent = TakenEvent;

/** From the feed reader: all that the records up to `upstreamSequence` mean for webhooks. Changes nothing unless
 *  `afterSequence` is where the log's cursor stands. */
export interface TakeEvents extends WithDeadline {
  readonly type: 'TakeEvents';
  readonly afterSequence: number;
  readonly upstreamSequence: number;
  /** In order, and before `events`. */
  readonly endpoints: readonly EndpointChange[];
  readonly events: readonly OfferedEvent[];
}

/** From the sender. Changes the schedule only when `round` and `made` are still those of the delivery. */
export interface RecordAttempt extends WithDeadline {
  readonly type: 'RecordAttempt';
  readonly deliveryId: string;
  readonly round: number;
  /** Attempts of this round before this one. */
  readonly made: number;
  readonly attempt: Attempt;
  /** At least 0 and below 1: the jitter of the next attempt. */
  readonly random: number;
}

/** From the sender: the app has no webhook URL any more. */
export interface CancelDelivery extends WithDeadline {
  readonly type: 'CancelDelivery';
  readonly deliveryId: string;
}

/** Timer: deliveries past their retention. What waits for an attempt stays. */
export interface RemoveOldDeliveries extends WithDeadline {
  readonly type: 'RemoveOldDeliveries';
  /** At most LIMITS.webhookRemovalsPerRecordMax. */
  readonly deliveryIds: readonly string[];
}

export type WebhookQuery = Extract<WebhookOperatorMessage, { type: 'ListDeliveries' | 'GetDelivery' }>;
export type WebhookCommand =
  | Exclude<WebhookOperatorMessage, WebhookQuery>
  | TakeEvents
  | RecordAttempt
  | CancelDelivery
  | RemoveOldDeliveries;
