// How a record changes the state of a webhooks partition. Never refuses, reads no clock: the same log gives the same
// state.

import { assert } from '../../src/domain/assert.ts';
import { LIMITS } from '../../src/limits.ts';
import { deliveryIdOf } from './record.ts';
import type { AttemptRecorded, Delivery, DeliveriesRemoved, EventsTaken, WebhookRecord } from './record.ts';
import type { WebhookState } from './state.ts';

/** `onDue` is told of every delivery that now waits for an attempt. */
export function evolve(
  state: WebhookState,
  record: WebhookRecord,
  sequence: number,
  onDue: (delivery: Delivery) => void,
): void {
  state.sequence = sequence;
  switch (record.type) {
    case 'EventsTaken':
      return eventsTaken(state, record, onDue);
    case 'AttemptRecorded':
      return attemptRecorded(state, record, onDue);
    case 'DeliveriesReplayed':
      for (const id of record.deliveryIds) {
        const delivery = replayed(existing(state, id), record.at);
        state.putDelivery(delivery);
        onDue(delivery);
      }
      return;
    case 'DeliveryCancelled':
      state.putDelivery({ ...existing(state, record.deliveryId), status: 'CANCELLED', nextAt: null });
      return;
    case 'DeliveriesRemoved':
      return deliveriesRemoved(state, record);
  }
}

function eventsTaken(state: WebhookState, record: EventsTaken, onDue: (delivery: Delivery) => void): void {
  assert(record.upstreamSequence >= state.cursor, 'the cursor of a feed never goes back');
  state.setCursor(record.upstreamSequence);
  for (const endpoint of record.endpoints) state.putEndpoint(endpoint);
  let index = 0;
  for (const event of record.events) {
    const deliveryIds: string[] = [];
    for (const appId of event.appIds) {
      const delivery: Delivery = {
        id: deliveryIdOf(record.idBody, index++),
        accountId: event.accountId,
        appId,
        eventId: event.id,
        eventType: event.eventType,
        transactionId: event.transactionId,
        eventAt: event.at,
        createdAt: record.at,
        status: 'PENDING',
        nextAt: record.at,
        round: 0,
        made: 0,
        attempts: [],
      };
      deliveryIds.push(delivery.id);
      state.putDelivery(delivery);
      onDue(delivery);
    }
    state.putEvent({ id: event.id, body: event.body, deliveryIds });
  }
}

function attemptRecorded(
  state: WebhookState,
  { deliveryId, attempt, next }: AttemptRecorded,
  onDue: (delivery: Delivery) => void,
): void {
  const before = existing(state, deliveryId);
  const attempts = [...before.attempts, attempt].slice(-LIMITS.webhookAttemptsKeptMax);
  if (next === null) {
    state.putDelivery({ ...before, attempts });
    return;
  }
  const delivery: Delivery = {
    ...before,
    status: next.status,
    nextAt: next.nextAt,
    made: before.made + 1,
    attempts,
  };
  state.putDelivery(delivery);
  if (delivery.nextAt !== null) onDue(delivery);
}

/** The delivery as a replay makes it: due at once, with a whole schedule before it. */
export function replayed(delivery: Delivery, at: number): Delivery {
  return { ...delivery, status: 'PENDING', nextAt: at, round: delivery.round + 1, made: 0 };
}

function deliveriesRemoved(state: WebhookState, { deliveryIds }: DeliveriesRemoved): void {
  for (const id of deliveryIds) {
    const delivery = existing(state, id);
    state.removeDelivery(delivery);
    const event = state.event(delivery.eventId);
    if (event === null) continue;
    const left = event.deliveryIds.filter((other) => other !== id);
    if (left.length === 0) state.removeEvent(event.id);
    else state.putEvent({ ...event, deliveryIds: left });
  }
}

function existing(state: WebhookState, deliveryId: string): Delivery {
  const delivery = state.delivery(deliveryId);
  assert(delivery !== null, 'a record names a delivery that exists');
  return delivery;
}
