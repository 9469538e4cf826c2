// What a webhooks partition decides: which delivery comes to be, when it is tried again, when it ends. Pure: time, fresh
// ids and the random part of a wait come with the command; state is only read.

import { doneReply, rejectedReply } from '../../src/bus/bus.ts';
import { NO_APP } from '../../src/domain/decide/operator.ts';
import { rejection } from '../../src/domain/error-code.ts';
import type { Rejection } from '../../src/domain/error-code.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import type { ReplayDelivery, ReplayFailedDeliveries } from '../../src/domain/webhook-message.ts';
import { LIMITS } from '../../src/limits.ts';
import { decided, type Decision, type Tick } from '../runtime/group.ts';
import { replayed } from './evolve.ts';
import type {
  CancelDelivery,
  EndpointChange,
  OfferedEvent,
  RecordAttempt,
  RemoveOldDeliveries,
  TakeEvents,
  WebhookCommand,
} from './message.ts';
import { failedSince, NO_DELIVERY, viewOf } from './query.ts';
import { GIVEN_UP, SECRET_UNREADABLE } from './record.ts';
import type { AttemptRecorded, Delivery, Endpoint, TakenEvent, WebhookRecord } from './record.ts';
import { retryDelayMs } from './schedule.ts';
import type { WebhookState } from './state.ts';

export interface WebhookPolicy {
  /** Waits between attempts, ms; one attempt more than there are waits. */
  readonly retryMs: readonly number[];
  /** How long a delivery that has ended is kept, ms. */
  readonly retentionMs: number;
}

export function decide(
  state: WebhookState,
  command: WebhookCommand,
  tick: Tick,
  policy: WebhookPolicy,
): Decision<WebhookRecord> {
  switch (command.type) {
    case 'TakeEvents':
      return takeEvents(state, command, tick);
    case 'RecordAttempt':
      return recordAttempt(state, command, tick.now, policy);
    case 'CancelDelivery':
      return cancelDelivery(state, command, tick.now);
    case 'ReplayDelivery':
      return replayDelivery(state, command, tick.now);
    case 'ReplayFailedDeliveries':
      return replayFailedDeliveries(state, command, tick.now);
    case 'RemoveOldDeliveries':
      return removeOldDeliveries(state, command, tick.now);
  }
}

function takeEvents(state: WebhookState, command: TakeEvents, tick: Tick): Decision<WebhookRecord> {
  // Somebody else has read on from there, or this very command came twice.
  if (command.afterSequence !== state.cursor) return done(null, { cursor: state.cursor });
  const endpoints = endpointsAfter(state, command.endpoints);
  const hearing = new Map<string, boolean>();
  const events = command.events
    .map((event) => takenEvent(state, endpoints, hearing, event))
    .filter(({ appIds }) => appIds.length > 0);
  const record: WebhookRecord = {
    type: 'EventsTaken',
    at: tick.now,
    upstreamSequence: command.upstreamSequence,
    idBody: tick.freshBody,
    endpoints: Array.from(endpoints.values()),
    events,
  };
  return done(record, { cursor: command.upstreamSequence });
}

function endpointsAfter(state: WebhookState, changes: readonly EndpointChange[]): Map<string, Endpoint> {
  const endpoints = new Map<string, Endpoint>();
  for (const change of changes) {
    const before = endpoints.get(change.appId) ?? state.endpoint(change.appId);
    const after = endpointAfter(before, change);
    if (after !== null) endpoints.set(change.appId, after);
  }
  return endpoints;
}

function endpointAfter(before: Endpoint | null, change: EndpointChange): Endpoint | null {
  switch (change.type) {
    case 'connected': {
      const { appId, accountId, url, signingSecretSealed } = change;
      return { appId, accountId, url, signingSecretSealed, removed: false };
    }
    case 'changed':
      return before === null ? null : { ...before, url: change.url };
    case 'removed':
      return before === null ? null : { ...before, url: null, removed: true };
  }
}

/** Apps without a webhook URL at the time of the event hear nothing of it. `hearing`: who hears, as far as it was looked up. */
function takenEvent(
  state: WebhookState,
  changed: ReadonlyMap<string, Endpoint>,
  hearing: Map<string, boolean>,
  event: OfferedEvent,
): TakenEvent {
  const appIds = event.appIds.filter((appId) => {
    const known = hearing.get(appId);
    if (known !== undefined) return known;
    const endpoint = changed.get(appId) ?? state.endpoint(appId);
    const hears = endpoint !== null && endpoint.url !== null;
    hearing.set(appId, hears);
    return hears;
  });
  return { ...event, appIds };
}

function recordAttempt(
  state: WebhookState,
  command: RecordAttempt,
  now: number,
  { retryMs, retentionMs }: WebhookPolicy,
): Decision<WebhookRecord> {
  const delivery = state.delivery(command.deliveryId);
  if (delivery === null) return nothing;
  const overtaken = command.round !== delivery.round;
  // The same attempt reported twice.
  if (!overtaken && (command.made !== delivery.made || delivery.nextAt === null)) return nothing;
  const { deliveryId, attempt } = command;
  const isUnsigned = attempt.error === SECRET_UNREADABLE;
  const isKept = isUnsigned && now - delivery.createdAt < retentionMs;
  // Said once, not whenever it is looked at again.
  if (isKept && delivery.attempts.at(-1)?.error === SECRET_UNREADABLE) return nothing;
  const next = overtaken || isKept ? null : nextStep(command, now, retryMs);
  const record: AttemptRecorded = { type: 'AttemptRecorded', at: now, deliveryId, attempt, next };
  return done(record, { next });
}

function nextStep(command: RecordAttempt, now: number, retryMs: readonly number[]): AttemptRecorded['next'] {
  if (command.attempt.error === null) return { status: 'DELIVERED', nextAt: null };
  const isLast = command.attempt.error === GIVEN_UP || command.attempt.error === SECRET_UNREADABLE;
  const delayMs = isLast ? null : retryDelayMs(retryMs, command.made + 1, command.random);
  if (delayMs === null) return { status: 'DEAD_LETTERED', nextAt: null };
  return { status: 'RETRYING', nextAt: now + delayMs };
}

function cancelDelivery(
  state: WebhookState,
  { deliveryId }: CancelDelivery,
  now: number,
): Decision<WebhookRecord> {
  const delivery = state.delivery(deliveryId);
  if (delivery === null || delivery.nextAt === null || canHear(state, delivery.appId)) return nothing;
  return done({ type: 'DeliveryCancelled', at: now, deliveryId }, { status: 'CANCELLED' });
}

function replayDelivery(state: WebhookState, command: ReplayDelivery, now: number): Decision<WebhookRecord> {
  const delivery = state.delivery(command.deliveryId);
  if (delivery === null || delivery.accountId !== command.accountId) return rejected(NO_DELIVERY);
  if (!canHear(state, delivery.appId)) return rejected(cannotHear);
  const record: WebhookRecord = {
    type: 'DeliveriesReplayed',
    at: now,
    deliveryIds: [delivery.id],
    by: command.operator,
  };
  return done(record, viewOf(state, replayed(delivery, now)));
}

function replayFailedDeliveries(
  state: WebhookState,
  command: ReplayFailedDeliveries,
  now: number,
): Decision<WebhookRecord> {
  const endpoint = state.endpoint(command.appId);
  if (endpoint === null || endpoint.accountId !== command.accountId) return rejected(NO_APP);
  if (endpoint.url === null) return rejected(cannotHear);
  const found = failedSince(state, command, LIMITS.webhookReplaysPerMessageMax + 1);
  const deliveryIds = found.slice(0, LIMITS.webhookReplaysPerMessageMax);
  const body = { replayed: deliveryIds.length, has_more: found.length > deliveryIds.length };
  if (deliveryIds.length === 0) return done(null, body);
  return done({ type: 'DeliveriesReplayed', at: now, deliveryIds, by: command.operator }, body);
}

function removeOldDeliveries(
  state: WebhookState,
  command: RemoveOldDeliveries,
  now: number,
): Decision<WebhookRecord> {
  const deliveryIds = command.deliveryIds.filter((id) => state.delivery(id)?.nextAt === null);
  if (deliveryIds.length === 0) return nothing;
  return done({ type: 'DeliveriesRemoved', at: now, deliveryIds }, {});
}

/** What may be removed at `now`, as far as one look goes from `after` on; `lookedTo`: where the next one goes on, null at the
 *  end. A look from the start would find again what waits, and what is removed and still in the views. */
export function oldDeliveries(
  state: WebhookState,
  { retentionMs }: WebhookPolicy,
  now: number,
  after: string,
): { readonly deliveryIds: readonly string[]; readonly lookedTo: string | null } {
  const before = makeId('delivery', encodeTime(Math.max(0, now - retentionMs)));
  const deliveryIds: string[] = [];
  let looked = 0;
  let read = 0;
  for (const { id, characters } of state.oldest(after, before)) {
    if (!state.waits(id)) deliveryIds.push(id);
    read += characters;
    const isFull =
      deliveryIds.length === LIMITS.webhookRemovalsPerRecordMax || read >= LIMITS.webhookCharactersLookedMax;
    if (isFull || ++looked === LIMITS.webhookRowsScannedMax) return { deliveryIds, lookedTo: id };
  }
  return { deliveryIds, lookedTo: null };
}

/** A webhook URL is saved for the app. Removing an app clears it. */
export function canHear(state: WebhookState, appId: Delivery['appId']): boolean {
  const endpoint = state.endpoint(appId);
  return endpoint !== null && endpoint.url !== null;
}

const cannotHear = rejection('conflict', 'The app has no webhook URL, or was removed.');

const nothing: Decision<WebhookRecord> = done(null, {});

function done(record: WebhookRecord | null, body: object): Decision<WebhookRecord> {
  return decided(record, doneReply(JSON.stringify(body)));
}

function rejected(reason: Rejection): Decision<WebhookRecord> {
  return decided<WebhookRecord>(null, rejectedReply(reason));
}
