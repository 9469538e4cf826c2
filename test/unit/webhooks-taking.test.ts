// A long backlog that is due at once, as after an outage: how it comes into the lines of its endpoints.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { LocalFeed } from '../../actors/runtime/local-feed.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { CancelDelivery, RecordAttempt } from '../../actors/webhooks/message.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import type { OnReply } from '../../src/bus/bus.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import { noMetrics } from '../no-metrics.ts';
import { until } from '../until.ts';
import { accountId, appId, DEFAULT_RETRY_MS } from './webhooks-driven.ts';

const BACKLOG = 50_000;
const TURNS_MAX = 20_000;
const idOf = (i: number): string => makeId('delivery', `${encodeTime(i)}${'0'.repeat(16)}`);
const delivery = (id: string, app: number): string =>
  JSON.stringify({
    id,
    accountId: accountId(1),
    appId: appId(app),
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

const endpoint = (id: string, url: string | null): string =>
  JSON.stringify({ appId: id, accountId: accountId(1), url, signingSecretSealed: '' });

/** A checkpoint with a backlog of so many, made as it is read. The last is another endpoint's. `gone`: ids of those that are removed. */
function backlogOf(count: number, url: string | null, gone: ReadonlySet<string> = new Set()): Views {
  return {
    get: (table, key) => {
      if (table === 'delivery') {
        return gone.has(key) ? undefined : delivery(key, key === idOf(count - 1) ? 2 : 1);
      }
      if (table === 'endpoint') return endpoint(key, url);
      return table === 'event' ? '{"body":"{}"}' : undefined;
    },
    *range(table) {
      if (table !== 'due') return;
      for (let i = 0; i < count; i++) yield { key: idOf(i), value: '1' };
    },
  };
}

/** Over such a checkpoint. `onEnd`: what came of a delivery is told, and waits for `onReply`. */
function executorOver(t: Test, views: Views, onEnd: (deliveryId: string, onReply: OnReply) => void) {
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
  const logic = group.open(0, views, { writesRows: false, sequence: 0 });
  executor.host(0, logic, {
    clock: Date.now,
    send: (message, onReply) => onEnd((message as RecordAttempt | CancelDelivery).deliveryId, onReply),
  });
  return executor;
}

/** Until all that is due is lined up. Returns the turns of the event loop that it took. */
async function takenUp(executor: WebhookExecutor): Promise<number> {
  executor.tick();
  let turns = 0;
  for (; executor.gauges().scheduled.retries > 0 && turns < TURNS_MAX; turns++) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  return turns;
}

void t.test(
  'all that is due is lined up without waiting for the clock, and callers come between',
  async (t) => {
    const told: string[] = [];
    // None of them is ever answered: what is in flight stays there. The URL is refused, so nothing is sent.
    const executor = executorOver(t, backlogOf(BACKLOG, 'ftp://nowhere'), (id) => told.push(id));
    const turns = await takenUp(executor);
    const { scheduled, queued } = executor.gauges();
    t.equal(scheduled.retries, 0, 'in one tick');
    t.ok(turns > 10, `in ${turns} turns of the event loop`);
    t.equal(told.length, LIMITS.webhookEndpointInFlightBegin + 1);
    t.equal(told.at(-1), idOf(BACKLOG - 1), 'nobody waits for the backlog of another');
    t.strictSame(queued, { firsts: 0, retries: BACKLOG - told.length });
  },
);

void t.test('what waits in line is sent in its turn, but for what has been removed meanwhile', async (t) => {
  const answers: (() => void)[] = [];
  const server = createServer((_request, response) => void answers.push(() => response.end()));
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const inLine = 20;
  const room = LIMITS.webhookEndpointInFlightBegin + LIMITS.webhookEndpointQueuedMax;
  const count = room + inLine + 1;
  const gone = new Set<string>();
  const sent: string[] = [];
  const executor = executorOver(t, backlogOf(count, `http://127.0.0.1:${port}/`, gone), (id, onReply) => {
    sent.push(id);
    onReply({ type: 'done', body: '{}', replayed: false });
  });
  await takenUp(executor);
  for (let i = 0; i < inLine; i += 2) gone.add(idOf(room + i));
  const wanted = Array.from({ length: count }, (_, i) => idOf(i)).filter((id) => !gone.has(id));
  await until(() => {
    for (const answer of answers.splice(0)) answer();
    executor.tick();
    return sent.length >= wanted.length;
  });
  t.strictSame(sent.toSorted(), wanted, 'each once');
  executor.tick();
  t.strictSame(executor.gauges().queued, { firsts: 0, retries: 0 });
});

void t.test('of what nobody hears any more so many are cancelled at once, and in the end all', async (t) => {
  const count = 2 * LIMITS.webhookCancellingMax + 10;
  const gone = new Set<string>();
  const answers: (() => void)[] = [];
  const executor = executorOver(t, backlogOf(count, null, gone), (id, onReply) => {
    answers.push(() => {
      gone.add(id);
      onReply({ type: 'done', body: '{"status":"CANCELLED"}', replayed: false });
    });
  });
  await takenUp(executor);
  const atOnce: number[] = [];
  for (let rounds = 0; rounds < 10 && gone.size < count; rounds++) {
    atOnce.push(answers.length);
    for (const answer of answers.splice(0)) answer();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    executor.tick();
  }
  t.strictSame(atOnce, [LIMITS.webhookCancellingMax, LIMITS.webhookCancellingMax, 10]);
  t.equal(gone.size, count);
});
