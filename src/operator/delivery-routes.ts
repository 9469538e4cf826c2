// Webhook deliveries: what was attempted, and sending it again.

import { parseTime } from '../domain/time.ts';
import type { PlainRoute } from '../http/route.ts';
import { askAccount, askWebhooks } from './context.ts';
import type { OperatorContext } from './context.ts';
import { operatorRoute, pageOf } from './route.ts';
import * as replies from './reply-schemas.ts';
import * as schemas from './schemas.ts';

export function deliveryRoutes(context: OperatorContext): readonly PlainRoute[] {
  const tag = 'Deliveries';
  return [
    operatorRoute(context, {
      method: 'GET',
      path: '/accounts/:account_id/deliveries',
      operationId: 'listDeliveries',
      tag,
      summary: 'List webhook deliveries with their attempts, newest first',
      query: schemas.DeliveriesQuery,
      errors: ['invalid_cursor'],
      reply: replies.DeliveryPage,
      handle: async ({ query }, accountId) => {
        const { app: appId = null, status = null } = query;
        const rows = pageOf(query);
        const list = await askWebhooks(context, {
          type: 'ListDeliveries',
          accountId,
          appId,
          status,
          ...rows,
        });
        if (list.type !== 'done' || rows.startingAfter !== null || !hasNoRow(list.body)) return list;
        // Of an account that does not exist it would read as if all had been delivered. Deliveries know no accounts, and are
        // listed while the account's own partition is away.
        const account = await askAccount(context, { type: 'GetAccount', accountId });
        return account.type === 'rejected' ? account : list;
      },
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/accounts/:account_id/deliveries/:delivery_id',
      operationId: 'getDelivery',
      tag,
      summary: 'Get a webhook delivery with its attempts',
      reply: replies.Delivery,
      handle: ({ parameters }, accountId) =>
        askWebhooks(context, { type: 'GetDelivery', accountId, deliveryId: parameters.delivery_id }),
    }),
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts/:account_id/deliveries/:delivery_id/replay',
      operationId: 'replayDelivery',
      tag,
      summary: "Send a delivery again, to the app's current URL with the same event id",
      errors: ['conflict'],
      reply: replies.Delivery,
      handle: ({ operator, deadline, parameters }, accountId) =>
        askWebhooks(context, {
          type: 'ReplayDelivery',
          accountId,
          deliveryId: parameters.delivery_id,
          operator,
          deadline,
        }),
    }),
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts/:account_id/apps/:app_id/replay_failed',
      operationId: 'replayFailedDeliveries',
      tag,
      summary: 'Send every failed delivery of an app again; repeat while has_more',
      body: schemas.ReplayFailedBody,
      errors: ['conflict'],
      reply: replies.Replayed,
      handle: ({ body, operator, deadline, parameters }, accountId) => {
        const appId = parameters.app_id;
        const since = parseTime(body.since) ?? 0;
        return askWebhooks(context, {
          type: 'ReplayFailedDeliveries',
          accountId,
          appId,
          since,
          operator,
          deadline,
        });
      },
    }),
  ];
}

/** As `actors/runtime/page.ts` writes one. Not parsed: a page of what failed is long. */
function hasNoRow(page: string): boolean {
  return page.startsWith('{"object":"list","data":[]');
}
