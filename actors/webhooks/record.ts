// Records of the webhooks group's log, and the state they make. This is a format: a change needs a new version number and
// an upcast in `decodeWebhookRecord`.
//
// A record is one line of JSON: {"v":1,"type":…}. Ids of new deliveries are derived from the record's `idBody`, so that
// replaying gives the same ones.

import { assert } from '../../src/domain/assert.ts';
import { deriveId, makeId } from '../../src/domain/id.ts';
import type { DeliveryStatus } from '../../src/domain/webhook-message.ts';

/** Where an app's events go. */
export interface Endpoint {
  readonly appId: string;
  readonly accountId: string;
  /** Null: the app hears nothing. */
  readonly url: string | null;
  readonly signingSecretSealed: string;
  readonly removed: boolean;
}

export interface Attempt {
  /** When it began, milliseconds since 1970. */
  readonly at: number;
  readonly url: string;
  /** Null: no HTTP answer came. */
  readonly statusCode: number | null;
  /** Null: delivered. */
  readonly error: string | null;
  readonly durationMs: number;
  readonly excerpt: string | null;
}

/** The error of an attempt that was not made, and after which none is. */
export const GIVEN_UP = 'given_up';

/** The error of an attempt that was not made because it could not be signed: a fault of ours, which uses up nothing. */
export const SECRET_UNREADABLE = 'secret_unreadable';

/** An event on its way to one app. */
export interface Delivery {
  readonly id: string;
  readonly accountId: string;
  readonly appId: string;
  readonly eventId: string;
  readonly eventType: string;
  readonly transactionId: string;
  /** When the event happened, milliseconds since 1970. */
  readonly eventAt: number;
  readonly createdAt: number;
  readonly status: DeliveryStatus;
  /** When the next attempt is due; set exactly when the status is PENDING or RETRYING. */
  readonly nextAt: number | null;
  /** 0, and one more with each replay. */
  readonly round: number;
  /** Attempts of this round. */
  readonly made: number;
  /** Oldest first; the newest LIMITS.webhookAttemptsKeptMax of all rounds. */
  readonly attempts: readonly Attempt[];
}

/** What every delivery of an event sends. */
export interface EventBody {
  readonly id: string;
  readonly body: string;
  /** Ids of its deliveries that are not yet removed. */
  readonly deliveryIds: readonly string[];
}

/** A final status of a transaction. */
export interface TakenEvent {
  /** Prefix evt_. */
  readonly id: string;
  readonly accountId: string;
  readonly transactionId: string;
  /** charge.successful, … */
  readonly eventType: string;
  /** The exact body of every attempt. */
  readonly body: string;
  /** When it happened, milliseconds since 1970. */
  readonly at: number;
  /** Each gets a delivery. */
  readonly appIds: readonly string[];
}

export interface EventsTaken {
  readonly type: 'EventsTaken';
  readonly at: number;
  /** The accounts partition's log is read up to here. */
  readonly upstreamSequence: number;
  readonly idBody: string;
  /** As they stand from now on. */
  readonly endpoints: readonly Endpoint[];
  readonly events: readonly TakenEvent[];
}

/** `status` and `nextAt` as they stand from now on; null: a replay has overtaken this attempt, or it could not be signed, only
 *  history changes. */
export interface AttemptRecorded {
  readonly type: 'AttemptRecorded';
  readonly at: number;
  readonly deliveryId: string;
  readonly attempt: Attempt;
  readonly next: { readonly status: DeliveryStatus; readonly nextAt: number | null } | null;
}

export interface DeliveriesReplayed {
  readonly type: 'DeliveriesReplayed';
  readonly at: number;
  readonly deliveryIds: readonly string[];
  readonly by: string;
}

export interface DeliveryCancelled {
  readonly type: 'DeliveryCancelled';
  readonly at: number;
  readonly deliveryId: string;
}

export interface DeliveriesRemoved {
  readonly type: 'DeliveriesRemoved';
  readonly at: number;
  readonly deliveryIds: readonly string[];
}

export type WebhookRecord =
  EventsTaken | AttemptRecorded | DeliveriesReplayed | DeliveryCancelled | DeliveriesRemoved;

/** Id of the `index`-th delivery of a record. */
export function deliveryIdOf(idBody: string, index: number): string {
  return deriveId('delivery', makeId('delivery', idBody), index);
}

const VERSION = 1;

export function encodeWebhookRecord(record: WebhookRecord): string {
  return JSON.stringify({ v: VERSION, ...record });
}

type FieldsOf<Type extends WebhookRecord['type']> = keyof Extract<WebhookRecord, { readonly type: Type }>;

/** By type. A record with another is of a later version. */
export const FIELDS = {
  EventsTaken: ['type', 'at', 'upstreamSequence', 'idBody', 'endpoints', 'events'],
  AttemptRecorded: ['type', 'at', 'deliveryId', 'attempt', 'next'],
  DeliveriesReplayed: ['type', 'at', 'deliveryIds', 'by'],
  DeliveryCancelled: ['type', 'at', 'deliveryId'],
  DeliveriesRemoved: ['type', 'at', 'deliveryIds'],
} as const satisfies { readonly [Type in WebhookRecord['type']]: readonly FieldsOf<Type>[] };

const KNOWN = new Map<string, ReadonlySet<string>>(
  Object.entries(FIELDS).map(([type, fields]) => [type, new Set(fields)]),
);

/** Throws AssertionFailure on a line that this version does not know in full: it would pass over what a later one says. */
export function decodeWebhookRecord(line: string): WebhookRecord {
  const { v, ...record } = JSON.parse(line) as { readonly v: number } & WebhookRecord;
  assert(v === VERSION, 'a webhook record is of a version this program reads');
  const known = KNOWN.get(record.type);
  assert(known !== undefined, 'a webhook record is of a type this program reads');
  for (const field in record) assert(known.has(field), 'a webhook record has fields this program reads');
  return record;
}
