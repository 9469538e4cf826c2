// What operators read of deliveries. Newest first; a page costs the rows it shows, never the history, except for a
// filter that finds little: then it ends after a bounded number of rows with a cursor to go on from.

import { rejection } from '../../src/domain/error-code.ts';
import { encodeTime, isId, makeId } from '../../src/domain/id.ts';
import type { DeliveryView, GetDelivery, ListDeliveries } from '../../src/domain/webhook-message.ts';
import { doneReply, rejectedReply, type Reply } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { newestFirst } from '../runtime/newest-first.ts';
import { PageText, renderList } from '../runtime/page.ts';
import type { WebhookQuery } from './message.ts';
import type { Attempt, Delivery } from './record.ts';
import { listPrefix } from './state.ts';
import type { WebhookState } from './state.ts';

export const NO_DELIVERY = rejection('not_found', 'There is no such delivery on the account.');

export function answerQuery(state: WebhookState, query: WebhookQuery): Reply {
  switch (query.type) {
    case 'ListDeliveries':
      return listDeliveries(state, query);
    case 'GetDelivery':
      return getDelivery(state, query);
  }
}

function getDelivery(state: WebhookState, { accountId, deliveryId }: GetDelivery): Reply {
  const delivery = state.delivery(deliveryId);
  if (delivery === null || delivery.accountId !== accountId) {
    return rejectedReply(NO_DELIVERY);
  }
  return doneReply(JSON.stringify(viewOf(state, delivery)));
}

function listDeliveries(state: WebhookState, query: ListDeliveries): Reply {
  if (query.startingAfter !== null && !isId('delivery', query.startingAfter)) {
    return rejectedReply(rejection('invalid_cursor', null, 'starting_after'));
  }
  const { texts, next } = newest(state, query, query.limit);
  return doneReply(renderList(texts, next));
}

interface Wanted {
  readonly accountId: string;
  readonly appId: string | null;
  readonly status: Delivery['status'] | null;
  /** Only ids below it. */
  readonly startingAfter: string | null;
}

/** As many as one answer carries over the bus, at least one: what it does not carry is not read either, for with what their
 *  endpoints said deliveries are large. `next`: where to go on, null when there is nothing more. */
function newest(
  state: WebhookState,
  wanted: Wanted,
  limit: number,
): { texts: string[]; next: string | null } {
  const page = new PageText();
  let looked = 0;
  let last: string | null = null;
  let shown: string | null = null;
  for (const id of candidates(state, wanted)) {
    if (looked++ >= LIMITS.webhookRowsScannedMax) return { texts: page.rows, next: last };
    // With the answers that came, one that failed to the end is many times the size of the others.
    const isOther = wanted.status === 'DELIVERED' && !state.mayBeDelivered(wanted.accountId, id);
    const delivery = isOther ? null : state.delivery(id);
    if (delivery !== null && isWanted(delivery, wanted)) {
      const fits = page.rows.length < limit && page.add(JSON.stringify(viewOf(state, delivery)));
      if (!fits) return { texts: page.rows, next: shown };
      shown = id;
    }
    last = id;
  }
  return { texts: page.rows, next: null };
}

function candidates(
  state: WebhookState,
  { accountId, appId, status, startingAfter: before }: Wanted,
): Iterable<string> {
  const ids = state.inMemory(accountId).map(({ id }) => id);
  const recent = ids
    .filter((id) => before === null || id < before)
    .sort()
    .reverse();
  const listed = state.listed(listPrefix(accountId, appId, status), before);
  return newestFirst([recent, listed], (id) => id);
}

function isWanted(delivery: Delivery, { appId, status }: Wanted): boolean {
  return (appId === null || delivery.appId === appId) && (status === null || delivery.status === status);
}

/** Ids of at most `limit` deliveries of the app that failed or wait for a retry, created at or after `since`. First what has no attempt
 *  left: whoever goes on while there are more comes to all of it, also where what was sent again fails at once. */
export function failedSince(
  state: WebhookState,
  { accountId, appId, since }: { accountId: string; appId: string; since: number },
  limit: number,
): string[] {
  const oldest = makeId('delivery', encodeTime(Math.max(0, since)));
  const recent = state.inMemory(accountId).filter(({ id, appId: app }) => app === appId && id >= oldest);
  const ids: string[] = [];
  for (const status of ['DEAD_LETTERED', 'RETRYING'] as const) {
    for (const delivery of recent) if (delivery.status === status) ids.push(delivery.id);
    for (const id of state.listed(listPrefix(accountId, appId, status), null)) {
      if (ids.length >= limit || id < oldest) break;
      ids.push(id);
    }
  }
  return ids.slice(0, limit);
}

export function viewOf(state: WebhookState, delivery: Delivery): DeliveryView {
  const goesTo = delivery.nextAt === null ? undefined : state.endpoint(delivery.appId)?.url;
  return {
    id: delivery.id,
    object: 'delivery',
    account_id: delivery.accountId,
    app_id: delivery.appId,
    event_id: delivery.eventId,
    event_type: delivery.eventType,
    transaction_id: delivery.transactionId,
    status: delivery.status,
    url: goesTo ?? delivery.attempts.at(-1)?.url ?? null,
    next_attempt_at: delivery.nextAt === null ? null : new Date(delivery.nextAt).toISOString(),
    created_at: new Date(delivery.createdAt).toISOString(),
    attempts: delivery.attempts.map(attemptView),
  };
}

function attemptView(attempt: Attempt): DeliveryView['attempts'][number] {
  return {
    at: new Date(attempt.at).toISOString(),
    status_code: attempt.statusCode,
    error: attempt.error,
    duration_ms: attempt.durationMs,
    excerpt: attempt.excerpt,
  };
}
