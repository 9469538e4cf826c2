// Who sends: the process that has the partition, and nobody who may have lost it without having heard of that yet, or has yet to
// hear of what its apps have changed.

import t from 'tap';
import type { Test } from 'tap';
import { LocalFeed } from '../../actors/runtime/local-feed.ts';
import type { WebhookPolicy } from '../../actors/webhooks/decide.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import type { RecordAttempt, WebhookCommand } from '../../actors/webhooks/message.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import type { Reply } from '../../src/bus/bus.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { noMetrics } from '../no-metrics.ts';
import { until } from '../until.ts';
import { makeCertificate, Receiver } from '../api/webhooks-receiver.ts';
import { WebhookService } from '../api/webhooks-service.ts';
import { accountId, appId, DrivenWebhooks } from './webhooks-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

/** Refused before anything is sent, so that an attempt that is made is told of at once. */
const URL_THEN = 'ftp://then';
const URL_NOW = 'ftp://now';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A process that has one delivery to attempt, and may have lost its partition. */
class Process {
  isHeld = false;
  /** How far its clock is behind that of its partition, which has a record of before the clock was set back. */
  behindMs = 0;
  readonly webhooks: DrivenWebhooks;
  /** Where each attempt went. */
  readonly attempted: string[] = [];
  /** What the ledger answers when it is asked how far its log goes. */
  ledger: Reply = { type: 'unavailable' };
  /** Answers to what the feed tells that are yet to be given; null: each is given at once. */
  late: (() => void)[] | null = null;
  readonly feed = new LocalFeed(() => [][Symbol.iterator]());
  readonly #bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
  readonly executor: WebhookExecutor;

  constructor(t: Test, url = URL_THEN, policy: Partial<WebhookPolicy> = {}, queuedMax?: number) {
    this.webhooks = new DrivenWebhooks(policy);
    this.executor = new WebhookExecutor({
      bus: this.#bus,
      feed: this.feed,
      sender: new Sender({ guard: { allowPrivate: true, ports: [] }, clock: Date.now }),
      openSecret: (sealed) => sealed,
      clock: () => this.webhooks.now - this.behindMs,
      random: () => 0.5,
      metrics: noMetrics,
      queuedMax,
    });
    t.teardown(() => this.executor.close(0));
    this.webhooks.connect(appId(1), url);
    this.webhooks.takeEvent('SUCCESSFUL', [appId(1)]);
    this.ledgerEndsAt(this.webhooks.logic.cursor);
    this.#bus.attach('accounts', 0, (_message, onReply) => onReply(this.ledger));
  }

  ledgerEndsAt(sequence: number): void {
    this.ledger = { type: 'done', body: JSON.stringify({ sequence, data: [] }), replayed: false };
  }

  host(): void {
    this.executor.host(0, this.webhooks.logic, {
      clock: () => this.webhooks.now,
      send: (message, onReply) => {
        if (message.type === 'RecordAttempt') this.attempted.push((message as RecordAttempt).attempt.url);
        const reply = this.webhooks.send(message as WebhookCommand);
        if (this.late !== null && message.type === 'TakeEvents') this.late.push(() => onReply(reply));
        else onReply(reply);
      },
      holds: () => this.isHeld,
    });
    this.executor.tick();
  }

  /** The feed tells that the app points elsewhere, in the record behind those that were read. */
  tellOfChange(): void {
    const events = [{ type: 'AppWebhookChanged', id: appId(1), webhookUrl: URL_NOW }];
    const records = [{ accountId: accountId(1), at: this.webhooks.now, events }];
    this.feed.publish('accounts', 0, { firstSequence: this.webhooks.logic.cursor + 1, records });
  }

  /** Its attempt has its place, and all that follows of itself has happened. */
  async begin(): Promise<void> {
    this.host();
    while (this.executor.gauges().inFlight.firsts === 0 && this.attempted.length === 0) await turn();
    await quiet();
  }
}

/** All that follows of itself has happened. */
async function quiet(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn();
}

void t.test('what another process may have by now is sent when it is certain that none has', async (t) => {
  const process = new Process(t);
  await process.begin();
  t.strictSame(process.attempted, []);
  process.webhooks.changeUrl(appId(1), URL_NOW);
  process.isHeld = true;
  while (process.attempted.length === 0) await turn();
  t.strictSame(process.attempted, [URL_NOW]);
});

void t.test('what another process has is not sent here', async (t) => {
  const process = new Process(t);
  await process.begin();
  await process.executor.release(0);
  process.isHeld = true;
  while (process.executor.gauges().inFlight.firsts > 0) await turn();
  t.strictSame(process.attempted, []);
});

void t.test('a stop does not wait for what this process may not send', async (t) => {
  const process = new Process(t);
  await process.begin();
  await process.executor.close(LIMITS.webhookStopMs * 1_000);
  process.isHeld = true;
  while (process.executor.gauges().inFlight.firsts > 0) await turn();
  t.strictSame(process.attempted, []);
});

void t.test('nor is what cannot be signed looked up in views that are closed by then', async (t) => {
  const { cert: ca } = await makeCertificate();
  const openSecret = (): string => {
    throw new Error('sealed with another key');
  };
  const service = await WebhookService.start({ directory: temporaryDirectory(t), ca, openSecret });
  let tries = 0;
  const send = service.bus.send.bind(service.bus);
  service.bus.send = (group, partition, message, onReply) => {
    if (message.type !== 'RecordAttempt') return send(group, partition, message, onReply);
    tries++;
    onReply({ type: 'unavailable' });
  };
  await service.merchant(accountId(1), 'sk_a', URL_THEN);
  await service.charge(accountId(1), 'sk_a', 'order-0001', 'SUCCESSFUL');
  await until(async () => tries > 0);
  await service.checkpoint();
  await service.stop();
  await until(async () => service.executor.gauges().inFlight.firsts === 0);
});

void t.test('what is due goes where its app points by now, also when the feed has yet to tell', async (t) => {
  const process = new Process(t);
  process.isHeld = true;
  process.ledger = { type: 'unavailable' };
  process.host();
  await quiet();
  t.strictSame(process.attempted, [], 'nobody says how much there is to tell');
  process.ledgerEndsAt(process.webhooks.logic.cursor + 1);
  process.webhooks.now += LIMITS.leaseRenewMs;
  process.executor.tick();
  await quiet();
  t.strictSame(process.attempted, [], 'it is not told yet');
  process.tellOfChange();
  while (process.attempted.length === 0) await turn();
  t.strictSame(process.attempted, [URL_NOW]);
});

void t.test('how long something waits is told right where the clock was set back', async (t) => {
  const process = new Process(t);
  process.behindMs = 900_000;
  for (let more = 0; more < LIMITS.webhookEndpointInFlightBegin; more++) {
    process.webhooks.takeEvent('SUCCESSFUL', [appId(1)]);
  }
  process.ledger = { type: 'unavailable' };
  process.host();
  process.webhooks.now += 400_000;
  t.equal(process.executor.gauges().oldestDueMs.answering, 400_000, 'while the ledger is asked');
  process.ledgerEndsAt(process.webhooks.logic.cursor);
  process.executor.tick();
  while (process.executor.gauges().queued.firsts !== 1) await turn();
  t.equal(process.executor.gauges().oldestDueMs.answering, 400_000, 'in the queue of its endpoint');
});

/** One that has its delivery in flight, at an endpoint that answers when it is let. */
async function inFlight(t: Test): Promise<{ readonly process: Process; readonly answer: () => void }> {
  const endpoint = new Receiver(null);
  const { promise: asked, resolve } = Promise.withResolvers<() => void>();
  endpoint.answer = (_request, response) => resolve(() => response.writeHead(200).end());
  const port = await endpoint.listen();
  t.teardown(() => endpoint.close());
  const process = new Process(t, `http://127.0.0.1:${port}/`);
  process.isHeld = true;
  process.host();
  return { process, answer: await asked };
}

void t.test(
  'what is in flight when the partition is handed over is recorded first, and not longer',
  async (t) => {
    const { process, answer } = await inFlight(t);
    const released = process.executor.release(0, LIMITS.webhookStopMs * 1_000);
    process.isHeld = false;
    process.webhooks.takeEvent('FAILED', [appId(1)]);
    process.executor.tick();
    answer();
    await released;
    t.equal(process.attempted.length, 1);
    t.strictSame(
      process.webhooks.list({}).data.map(({ status }) => status),
      ['PENDING', 'DELIVERED'],
      'and nothing else is begun',
    );
  },
);

void t.test(
  'what waits for its turn when the partition is handed over is left to the next owner',
  async (t) => {
    const endpoint = new Receiver(null);
    const held: (() => void)[] = [];
    endpoint.answer = (_request, response) => held.push(() => response.writeHead(200).end());
    const port = await endpoint.listen();
    t.teardown(() => endpoint.close());
    const process = new Process(t, `http://127.0.0.1:${port}/`);
    const begun = LIMITS.webhookEndpointInFlightBegin;
    for (let more = 0; more < begun; more++) process.webhooks.takeEvent('SUCCESSFUL', [appId(1)]);
    process.ledgerEndsAt(process.webhooks.logic.cursor);
    process.isHeld = true;
    process.host();
    await endpoint.until(() => held.length === begun);
    t.equal(process.executor.gauges().queued.firsts, 1);
    endpoint.answer = (_request, response) => response.writeHead(200).end();
    const released = process.executor.release(0, LIMITS.webhookStopMs * 1_000);
    for (const answer of held) answer();
    await released;
    t.equal(process.attempted.length, begun);
    t.equal(endpoint.received.length, begun);
  },
);

void t.test(
  'nor is anything taken for it when its feed is told late that what it handed over is there',
  async (t) => {
    const process = new Process(t);
    process.isHeld = true;
    process.host();
    while (process.attempted.length === 0) await turn();
    process.late = [];
    process.tellOfChange();
    while (process.late.length === 0) await turn();
    process.webhooks.takeEvent('SUCCESSFUL', [appId(1)]);
    const released = process.executor.release(0);
    process.late[0]!();
    await released;
    await quiet();
    t.equal(process.webhooks.logic.scheduled.firsts, 1);
  },
);

void t.test('nor is a hand-over held up by a feed that has no room for what it tells', async (t) => {
  const process = new Process(t, URL_THEN, {}, 0);
  process.isHeld = true;
  process.host();
  await quiet();
  process.tellOfChange();
  await quiet();
  await process.executor.release(0);
  t.strictSame(process.attempted, []);
});

void t.test('retries to an endpoint that fails pause for a tenth of the shortest wait at most', async (t) => {
  const process = new Process(t, URL_THEN, { retryMs: [1_000, 1_000] });
  const events = Array.from({ length: 20 }, () => process.webhooks.event('SUCCESSFUL', [appId(1)]));
  process.webhooks.take([], events);
  process.ledgerEndsAt(process.webhooks.logic.cursor);
  process.isHeld = true;
  process.host();
  let attempted = events.length + 1;
  while (process.attempted.length < attempted) await turn();
  for (const waitMs of [1_000, 100, 100]) {
    process.webhooks.now += waitMs - 1;
    process.executor.tick();
    await quiet();
    t.equal(process.attempted.length, attempted++);
    process.webhooks.now++;
    process.executor.tick();
    await quiet();
    t.equal(process.attempted.length, attempted);
  }
});

void t.test('an endpoint that hangs holds up no hand-over for long', async (t) => {
  const { process, answer } = await inFlight(t);
  await process.executor.release(0, 50);
  answer();
  while (process.executor.gauges().inFlight.firsts > 0) await turn();
  t.strictSame(process.attempted, [], 'it is the next owner who tells of it');
});

void t.test('what is sent again by an operator while it stands in line is in flight once', async (t) => {
  const endpoint = new Receiver(null);
  const port = await endpoint.listen();
  t.teardown(() => endpoint.close());
  const process = new Process(t, `http://127.0.0.1:${port}/`);
  const { webhooks } = process;
  const others = LIMITS.webhookEndpointInFlightBegin + LIMITS.webhookEndpointQueuedMax;
  const events = Array.from({ length: others }, () => webhooks.event('SUCCESSFUL', [appId(1)]));
  webhooks.take([], events);
  process.ledgerEndsAt(webhooks.logic.cursor);
  const last = webhooks.list({}).data[0]!;
  // The last is not answered: a second attempt would find the first in flight.
  const held: (() => void)[] = [];
  endpoint.answer = ({ headers }, response) => {
    if (headers['service-event-id'] !== last.event_id) held.push(() => response.writeHead(200).end());
  };
  process.isHeld = true;
  process.host();
  while (process.executor.gauges().queued.firsts <= LIMITS.webhookEndpointQueuedMax) await turn();
  const operator = 'ops@example.com';
  const replay = { type: 'ReplayDelivery', accountId: accountId(1), deliveryId: last.id, operator } as const;
  t.hasStrict(webhooks.send({ ...replay, deadline: Infinity }), { type: 'done' });
  process.executor.tick();
  while (process.executor.gauges().queued.retries === 0) await turn();
  while (process.attempted.length < events.length) {
    for (const answer of held.splice(0)) answer();
    await turn();
  }
  process.executor.tick();
  await endpoint.until(() => endpoint.received.length > events.length);
  await quiet();
  t.hasStrict(process.executor.gauges(), { queued: { firsts: 0, retries: 0 }, inFlight: { retries: 1 } });
});
