// Webhook deliveries: what was attempted, and sending it again.

import { parseTime } from '../domain/time.ts';
import type { PlainRoute } from '../http/route.ts';
import { LIMITS } from '../limits.ts';
import { askAccount, askWebhooks } from './context.ts';
import type { OperatorContext } from './context.ts';
import { operatorRoute, pageOf } from './route.ts';
import * as examples from './examples.ts';
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
      description:
        'Changes nothing. What has ended is kept for `WEBHOOK_RETENTION_DAYS` from when it was made. Next: `replayDelivery` of one that ' +
        'failed, `replayFailedDeliveries` after an endpoint was down.',
      answers: 'A page of deliveries.',
      examples: { page: examples.page(examples.delivery) },
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
      description: 'Changes nothing. What each attempt was answered, and when the next is.',
      answers: 'The delivery.',
      examples: { failed: examples.delivery },
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
      description:
        'Whatever became of it before, it is tried at once and has all its attempts anew: a merchant may be told twice. Next: ' +
        '`getDelivery`, to see what it was answered.',
      answers: 'The delivery, which waits for its attempt.',
      examples: { waits: examples.deliveryReplayed },
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
      description:
        'Those `DEAD_LETTERED`, then those `RETRYING`, that were created since `since` are tried at once, each with all its attempts anew: ' +
        `${LIMITS.webhookReplaysPerMessageMax} in a call, at most. Next: the same call again while \`has_more\` is true; ` +
        'but an endpoint that goes on failing is never through, since what fails again is `RETRYING` again.',
      body: schemas.ReplayFailedBody,
      bodyExamples: { sinceNoon: examples.replayFailed },
      answers: 'How many are sent again.',
      examples: { all: examples.replayed },
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
