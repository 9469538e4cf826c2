// A long backlog that is due at once, as after an outage: how it comes into the lines of its endpoints.

import { mock } from 'node:test';
import t from 'tap';
import { LocalFeed } from '../../actors/runtime/local-feed.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { RecordAttempt } from '../../actors/webhooks/message.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import { noMetrics } from '../no-metrics.ts';
import { accountId, appId, DEFAULT_RETRY_MS } from './webhooks-driven.ts';

const BACKLOG = 50_000;
const TURNS_MAX = 20_000;
const idOf = (i: number): string => makeId('delivery', `${encodeTime(i)}${'0'.repeat(16)}`);
const delivery = (id: string): string =>
  JSON.stringify({
    id,
    accountId: accountId(1),
    // The last is another endpoint's.
    appId: appId(id === idOf(BACKLOG - 1) ? 2 : 1),
    eventId: makeId('event', '0'.repeat(26)),
    eventType: 'charge.successful',
    transactionId: makeId('charge', '0'.repeat(26)),
    eventAt: 0,
    createdAt: 0,
    status: 'RETRYING',
    nextAt: 1,
    round: 0,
    made: 1,
    attempts: [],
  });

const endpoint = (id: string): string =>
  JSON.stringify({ appId: id, accountId: accountId(1), url: 'ftp://nowhere', signingSecretSealed: '' });

/** A checkpoint with the backlog, made as it is read. */
const views: Views = {
  get: (table, key) => {
    if (table === 'delivery') return delivery(key);
    if (table === 'endpoint') return endpoint(key);
    return table === 'event' ? '{"body":"{}"}' : undefined;
  },
  *range(table) {
    if (table !== 'due') return;
    for (let i = 0; i < BACKLOG; i++) yield { key: idOf(i), value: '1' };
  },
};

void t.test(
  'all that is due is lined up without waiting for the clock, and callers come between',
  async (t) => {
    // No tick of the executor's own.
    mock.timers.enable({ apis: ['setInterval'] });
    t.teardown(() => mock.timers.reset());
    const bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
    bus.attach('accounts', 0, (_message, onReply) =>
      onReply({ type: 'done', body: '{"sequence":0,"data":[]}', replayed: false }),
    );
    const executor = new WebhookExecutor({
      bus,
      feed: new LocalFeed(() => [][Symbol.iterator]()),
      sender: new Sender({ guard: { allowPrivate: true, ports: [] }, clock: Date.now }),
      openSecret: (sealed) => sealed,
      clock: Date.now,
      random: () => 0.5,
      metrics: noMetrics,
    });
    t.teardown(() => executor.close(0));
    const group = createWebhooksGroup({ retryMs: DEFAULT_RETRY_MS, retentionMs: 30 * 86_400_000 });
    const logic = group.open(0, views, { timers: true, sequence: 0 });
    const told: string[] = [];
    executor.host(0, logic, {
      clock: Date.now,
      send: (message) => {
        // None of them is ever answered: what is in flight stays there. The URL is refused, so nothing is sent.
        if (message.type === 'RecordAttempt') told.push((message as RecordAttempt).deliveryId);
      },
    });
    executor.tick();
    let turns = 0;
    while (executor.gauges().scheduled.retries > 0 && turns < TURNS_MAX) {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      turns++;
    }
    t.equal(executor.gauges().scheduled.retries, 0, 'in one tick');
    t.ok(turns > 10, `in ${turns} turns of the event loop`);
    t.equal(told.length, LIMITS.webhookEndpointInFlightBegin + 1);
    t.equal(told.at(-1), idOf(BACKLOG - 1), 'nobody waits for the backlog of another');
  },
);
