// From the ledger's log to the merchant's endpoint: who hears of what, what the body says, what operators see, replay, and
// that a restart forgets nothing. Real log, real views, real HTTPS.

import { Stripe } from 'stripe';
import t from 'tap';
import type { Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { webhookMetrics } from '../../src/wiring/metrics.ts';
import { noMetrics } from '../no-metrics.ts';
import { until } from '../until.ts';
import { makeCertificate, Receiver } from './webhooks-receiver.ts';
import { accountIdOf, SIGNING_SECRET, WebhookService } from './webhooks-service.ts';
import type { ServiceOptions } from './webhooks-service.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const certificate = await makeCertificate();
const ACCOUNT = accountIdOf(1);

async function start(t: Test, options: Partial<ServiceOptions> = {}): Promise<WebhookService> {
  const service = await WebhookService.start({
    directory: temporaryDirectory(t),
    ca: certificate.cert,
    ...options,
  });
  t.teardown(() => service.stop());
  return service;
}

async function listen(t: Test): Promise<Receiver> {
  const receiver = new Receiver(certificate);
  await receiver.listen();
  t.teardown(() => receiver.close());
  return receiver;
}

const urlOf = (receiver: Receiver): string => `https://localhost:${receiver.port}/hook`;

interface Event {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly data: { readonly object: Record<string, unknown> };
}
const eventsOf = (receiver: Receiver): Event[] =>
  receiver.received.map(({ body }) => JSON.parse(body.toString('utf8')) as Event);

void t.test(
  'the final status of a charge reaches the app that made it, signed, and no other app',
  async (t) => {
    const service = await start(t);
    const [mine, other] = [await listen(t), await listen(t)];
    await service.merchant(ACCOUNT, 'sk_a', urlOf(mine));
    await service.app(ACCOUNT, 'sk_b', urlOf(other));
    const id = await service.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
    await mine.until(() => mine.received.length === 1);
    const { body, headers } = mine.received[0]!;
    const stripe = new Stripe('sk_test_unused');
    stripe.webhooks.constructEvent(body, String(headers['service-signature']), SIGNING_SECRET, 300);
    const [event] = eventsOf(mine);
    t.match(event, { object: 'event', type: 'charge.successful', id: /^evt_[0-9A-Z]{26}$/ });
    t.hasStrict(event!.data.object, {
      id,
      object: 'charge',
      status: 'SUCCESSFUL',
      amount: '50000',
      fee: '1250',
      net: '48750',
    });
    t.equal(event!.created_at, event!.data.object['updated_at']);
    t.equal(headers['service-event-id'], event!.id);
    t.equal(headers['service-event-type'], 'charge.successful');
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DELIVERED');
    t.equal(other.received.length, 0);
    t.hasStrict((await service.deliveries(ACCOUNT))[0], {
      transaction_id: id,
      event_id: event!.id,
      url: urlOf(mine),
      attempts: [{ status_code: 200, error: null, excerpt: 'ok' }],
    });
  },
);

void t.test('a reversal is a second event, and each shows the object as it was', async (t) => {
  const service = await start(t);
  const receiver = await listen(t);
  await service.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
  // The reversal is committed long before the first event is delivered.
  receiver.answer = (_request, response) => setTimeout(() => response.writeHead(200).end(), 200);
  const id = await service.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
  await service.outcome(ACCOUNT, id, 'REVERSED');
  await receiver.until(() => receiver.received.length === 2);
  const seen = eventsOf(receiver).map(({ type, data }) => `${type} ${String(data.object['status'])}`);
  // Each is delivered by itself: which comes first is not promised.
  t.same(seen.toSorted(), ['charge.reversed REVERSED', 'charge.successful SUCCESSFUL']);
  t.equal(new Set(eventsOf(receiver).map((event) => event.id)).size, 2);
});

void t.test('money moved from the dashboard is told to every app with a webhook URL', async (t) => {
  const service = await start(t);
  const receivers = [await listen(t), await listen(t)];
  await service.merchant(ACCOUNT, 'sk_a', urlOf(receivers[0]!));
  await service.app(ACCOUNT, 'sk_b', urlOf(receivers[1]!));
  await service.app(ACCOUNT, 'sk_c', null);
  const user = {
    type: 'AddUser',
    accountId: ACCOUNT,
    operator: 'amina',
    email: 'o@shop.example.com',
  } as const;
  const { id: by } = JSON.parse(await service.command({ ...user, role: 'OWNER' })) as { id: string };
  const input = { amount: '70000', currency: 'UGX', msisdn: '256772123456', reference: 'top-up' } as const;
  const deposit = {
    type: 'CreateDashboardDeposit',
    accountId: ACCOUNT,
    operator: 'amina',
    by,
    input,
  } as const;
  const { id } = JSON.parse(await service.command(deposit)) as { id: string };
  await service.outcome(ACCOUNT, id, 'FAILED');
  await Promise.all(receivers.map((receiver) => receiver.until(() => receiver.received.length === 1)));
  const [a, b] = receivers.map((receiver) => eventsOf(receiver)[0]!);
  t.equal(a!.type, 'deposit.failed');
  t.hasStrict(a!.data.object, { id, object: 'deposit', failure_code: 'customer_declined' });
  t.same(a, b, 'the same event, id included');
});

void t.test(
  'a failed delivery is repeated on schedule with the same bytes, to the current URL',
  async (t) => {
    const { service, receiver: broken, attempts, pass } = await failedOnce(t);
    const mended = await listen(t);
    pass(HOUR_MS + 1_000);
    await attempts(2);
    const { app_id: appId } = (await service.deliveries(ACCOUNT))[0]!;
    const change = { type: 'ChangeAppWebhook', accountId: ACCOUNT, operator: 'amina', appId } as const;
    await service.command({ ...change, webhookUrl: urlOf(mended) });
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.url === urlOf(mended));
    pass(HOUR_MS + 1_000);
    await mended.until(() => mended.received.length === 1);
    t.equal(broken.received.length, 2);
    const bodies = [...broken.received, ...mended.received].map(({ body }) => body.toString('hex'));
    t.equal(new Set(bodies).size, 1);
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DELIVERED');
    const [delivery] = await service.deliveries(ACCOUNT);
    t.equal(delivery!.attempts.at(-1)!.status_code, 200);
    t.hasStrict(delivery!.attempts[0], { status_code: 503, error: 'http_status', excerpt: 'oops' });
  },
);

void t.test(
  'after the last attempt it is dead-lettered; a replay delivers it under the same event id',
  async (t) => {
    let deadLettered = 0;
    const metrics = { ...noMetrics, deadLettered: () => void deadLettered++ };
    const service = await start(t, { retryMs: [20, 20, 20, 20, 20, 20, 20], metrics });
    const receiver = await listen(t);
    receiver.answer = (_request, response) => response.writeHead(503).end();
    await service.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
    await service.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DEAD_LETTERED');
    t.equal(receiver.received.length, 8);
    receiver.answer = (_request, response) => response.writeHead(200).end();
    const [delivery] = await service.deliveries(ACCOUNT);
    await service.webhooks({
      type: 'ReplayDelivery',
      accountId: ACCOUNT,
      deliveryId: delivery!.id,
      operator: 'amina',
    });
    await receiver.until(() => receiver.received.length === 9);
    t.equal(new Set(eventsOf(receiver).map(({ id }) => id)).size, 1);
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DELIVERED');
    t.equal(deadLettered, 1, 'and counted once');
  },
);

const HOUR_MS = 3_600_000;

/** A delivery whose first attempt has failed, and that is tried again in an hour; time is the test's. */
async function failedOnce(t: Test, more: Partial<ServiceOptions> = {}) {
  let passedMs = 0;
  const clock = (): number => Date.now() + passedMs;
  const service = await start(t, { retryMs: [HOUR_MS, HOUR_MS], clock, ...more });
  const receiver = await listen(t);
  receiver.answer = (_request, response) => response.writeHead(503).end('oops');
  await service.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
  const id = await service.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
  const attempts = (made: number): Promise<boolean> =>
    until(async () => {
      const deliveries = await service.deliveries(ACCOUNT);
      return deliveries.find((delivery) => delivery.transaction_id === id)?.attempts.length === made;
    });
  await attempts(1);
  const pass = (ms: number): void => void (passedMs += ms);
  return { service, receiver, attempts, pass };
}

/** Five deliveries that are due again since an hour, at an endpoint that takes 35 minutes to fail. It has failed three times since,
 *  and is about to end the attempt of the fourth. */
async function failingOnAndOn(t: Test) {
  const { service, receiver, pass } = await failedOnce(t);
  for (let n = 2; n <= 5; n++) await service.charge(ACCOUNT, 'sk_a', `order-000${n}`, 'SUCCESSFUL');
  const count = async (status: string): Promise<number> =>
    (await service.deliveries(ACCOUNT)).filter((delivery) => delivery.status === status).length;
  await until(async () => (await count('RETRYING')) === 5);
  // Or retries would pause.
  receiver.answer = (_request, response) => response.writeHead(200).end();
  await service.charge(ACCOUNT, 'sk_a', 'order-0006', 'SUCCESSFUL');
  await until(async () => (await count('DELIVERED')) === 1);

  const held: ((status: number) => void)[] = [];
  receiver.answer = (_request, response) => held.push((status) => response.writeHead(status).end());
  pass(HOUR_MS + 1_000);
  for (let failed = 0; failed < 3; failed++) {
    await until(() => held.length > 0);
    pass(35 * 60_000);
    held.shift()!(503);
  }
  await until(() => held.length > 0);
  pass(35 * 60_000);
  return { service, receiver, count, held };
}

void t.test(
  'what an endpoint that fails on and on leaves lying for longer than the schedule is given up',
  async (t) => {
    const { service, receiver, count, held } = await failingOnAndOn(t);
    held.shift()!(503);
    await until(async () => (await count('DEAD_LETTERED')) === 1);
    const delivery = (await service.deliveries(ACCOUNT)).find(({ status }) => status === 'DEAD_LETTERED')!;
    t.equal(delivery.next_attempt_at, null);
    t.strictSame(
      delivery.attempts.map(({ error }) => error),
      ['http_status', 'given_up'],
    );
    t.hasStrict(delivery.attempts.at(-1), { status_code: null, duration_ms: 0 });

    receiver.answer = (_request, response) => response.writeHead(200).end();
    for (const answer of held.splice(0)) answer(503);
    await service.charge(ACCOUNT, 'sk_a', 'order-0007', 'SUCCESSFUL');
    await until(async () => (await count('DELIVERED')) >= 2);
  },
);

void t.test('what only we left lying is tried, however late', async (t) => {
  const { service, receiver, pass } = await failedOnce(t);
  receiver.answer = (_request, response) => response.writeHead(200).end();
  pass(100 * HOUR_MS);
  await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DELIVERED');
  t.equal(receiver.received.length, 2);
});

void t.test(
  'so is it at an endpoint that had failed for long before we left it lying, and once more since',
  async (t) => {
    const { service, receiver, attempts, pass } = await failedOnce(t);
    pass(HOUR_MS / 2);
    await service.charge(ACCOUNT, 'sk_a', 'order-0002', 'SUCCESSFUL');
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'RETRYING');
    pass(HOUR_MS / 2 + 1_000);
    await attempts(2);
    receiver.answer = (_request, response) => {
      response.writeHead(receiver.received.length === 4 ? 503 : 200).end();
    };
    pass(100 * HOUR_MS);
    await attempts(3);
    const [second, first] = await service.deliveries(ACCOUNT);
    t.strictSame(
      [first, second].map((delivery) => delivery!.attempts.map(({ error }) => error)),
      [
        ['http_status', 'http_status', null],
        ['http_status', 'http_status'],
      ],
    );
  },
);

void t.test('nothing is given up at an endpoint that answers again', async (t) => {
  const { receiver, count, held } = await failingOnAndOn(t);
  receiver.answer = (_request, response) => response.writeHead(200).end();
  held.shift()!(200);
  await until(async () => (await count('DELIVERED')) === 5);
  t.equal(await count('RETRYING'), 1, 'its time has not come');
});

void t.test('nothing is given up at a URL that was not tried for as long', async (t) => {
  const { service, receiver, count, held } = await failingOnAndOn(t);
  const { app_id: appId } = (await service.deliveries(ACCOUNT))[0]!;
  const other = await listen(t);
  const operator = { accountId: ACCOUNT, operator: 'amina' };
  await service.command({ ...operator, type: 'ChangeAppWebhook', appId, webhookUrl: urlOf(other) });
  await until(async () => (await service.deliveries(ACCOUNT))[1]?.url === urlOf(other));
  const before = receiver.received.length;
  held.shift()!(503);
  await other.until(() => other.received.length >= 2);
  t.equal(await count('DEAD_LETTERED'), 0);
  t.equal(receiver.received.length, before);
});

const otherKey = (): never => {
  throw new Error('sealed with another MASTER_KEY');
};

/** A service that cannot read the secrets it signs with, and two deliveries that nobody sent: of one an attempt was made before. */
async function unsigned(t: Test) {
  const directory = temporaryDirectory(t);
  let passedMs = 0;
  const pass = (ms: number): void => void (passedMs += ms);
  const clock = (): number => Date.now() + passedMs;
  const retryMs = [HOUR_MS, HOUR_MS];
  const scraped = new Metrics();
  const metrics = webhookMetrics(scraped);
  const run = (openSecret: (sealed: string) => string) =>
    WebhookService.start({ directory, ca: certificate.cert, retryMs, clock, metrics, openSecret });
  const receiver = await listen(t);
  receiver.answer = (_request, response) => response.writeHead(503).end();
  const before = await run((sealed) => sealed);
  const appId = await before.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
  await before.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
  await until(async () => (await before.deliveries(ACCOUNT))[0]?.status === 'RETRYING');
  await before.stop();
  receiver.answer = (_request, response) => response.writeHead(200).end();
  pass(HOUR_MS + 1_000);
  const service = await run(otherKey);
  await service.charge(ACCOUNT, 'sk_a', 'order-0002', 'SUCCESSFUL');
  const errors = async (): Promise<unknown[]> =>
    (await service.deliveries(ACCOUNT)).map(({ attempts }) => attempts.map(({ error }) => error));
  await until(async () =>
    (await errors()).every((each) => (each as unknown[]).includes('secret_unreadable')),
  );
  return { service, receiver, appId, errors, pass, scraped, again: () => run((sealed) => sealed) };
}

void t.test(
  'what cannot be signed waits for the right key, and uses up nothing of its schedule',
  async (t) => {
    const { service, receiver, errors, pass, scraped, again } = await unsigned(t);
    for (let hours = 0; hours < 100; hours += 20) {
      pass(20 * HOUR_MS);
      await until(async () => {
        const isOver = (await service.deliveries(ACCOUNT)).some(({ status }) => status === 'DEAD_LETTERED');
        return isOver || service.executor.gauges().scheduled.retries === 2;
      });
    }
    t.strictSame(await errors(), [['secret_unreadable'], ['http_status', 'secret_unreadable']], 'told once');
    t.strictSame(
      (await service.deliveries(ACCOUNT)).map(({ status }) => status),
      ['PENDING', 'RETRYING'],
    );
    const { oldestDueMs, endpointsFailing } = service.executor.gauges();
    t.ok(oldestDueMs.answering >= 100 * HOUR_MS, 'it waits for us');
    t.equal(endpointsFailing, 0, 'nothing is said of the endpoint');
    await service.stop();
    t.equal(receiver.received.length, 1);

    const mended = await again();
    t.teardown(() => mended.stop());
    await until(async () => (await mended.deliveries(ACCOUNT)).every(({ status }) => status === 'DELIVERED'));
    t.equal(receiver.received.length, 3);
    const [count] = /^daftari_webhook_attempt_seconds_count .*$/m.exec(await scraped.text()) ?? [];
    t.equal(count, 'daftari_webhook_attempt_seconds_count 3', 'of what was not sent no time is told');
  },
);

void t.test(
  'what cannot be signed ends when its app hears nothing more, or it would be removed',
  async (t) => {
    const { service, receiver, appId, pass } = await unsigned(t);
    t.teardown(() => service.stop());
    const statuses = async (): Promise<string[]> =>
      (await service.deliveries(ACCOUNT)).map(({ status }) => status);
    pass(30 * 24 * HOUR_MS);
    await until(
      async () => !(await statuses()).some((status) => status === 'PENDING' || status === 'RETRYING'),
    );
    await service.charge(ACCOUNT, 'sk_a', 'order-0003', 'SUCCESSFUL');
    await until(async () => (await statuses())[0] === 'PENDING');
    await service.command({ type: 'RemoveApp', accountId: ACCOUNT, operator: 'amina', appId });
    await until(() => Promise.resolve(service.executor.gauges().scheduled.retries === 1));
    pass(HOUR_MS + 1_000);
    await until(async () => (await statuses())[0] === 'CANCELLED');
    t.equal(receiver.received.length, 1);
  },
);

/** A delivery that was replayed while its first attempt is in flight, has fallen due, and waits for that one. */
async function replayedInFlight(t: Test) {
  const service = await start(t);
  const receiver = await listen(t);
  let answerFirst = (): void => {};
  receiver.answer = (_request, response) => {
    answerFirst = () => void response.writeHead(200).end();
  };
  const appId = await service.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
  await service.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
  await receiver.until(() => receiver.received.length === 1);
  receiver.answer = (_request, response) => response.writeHead(200).end();
  const deliveryId = (await service.deliveries(ACCOUNT))[0]!.id;
  await service.webhooks({ type: 'ReplayDelivery', accountId: ACCOUNT, deliveryId, operator: 'amina' });
  const { executor } = service;
  await until(async () => {
    const { scheduled, queued } = executor.gauges();
    return scheduled.firsts + scheduled.retries + queued.firsts + queued.retries === 0;
  });
  t.equal(receiver.received.length, 1);
  return { service, receiver, appId, deliveryId, answerFirst };
}

void t.test(
  'one that is replayed while its attempt is in flight is sent again when that ends, once',
  async (t) => {
    const { service, receiver, answerFirst } = await replayedInFlight(t);
    answerFirst();
    await receiver.until(() => receiver.received.length === 2);
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DELIVERED');
    t.equal(new Set(eventsOf(receiver).map(({ id }) => id)).size, 1);
    t.equal((await service.deliveries(ACCOUNT))[0]?.attempts.length, 2);
    t.equal(receiver.received.length, 2);
  },
);

void t.test('an endpoint that hangs fills its own queue, and nobody else waits for that', async (t) => {
  const perEndpoint = LIMITS.webhookEndpointQueuedMax;
  // No attempt may end before it is let go.
  const service = await start(t, { queuedMax: perEndpoint + 100, attemptMs: HOUR_MS });
  const [hanging, healthy] = [await listen(t), await listen(t)];
  const letGo: (() => void)[] = [];
  hanging.answer = (_request, response) => void letGo.push(() => response.writeHead(200).end());
  await service.merchant(ACCOUNT, 'sk_a', urlOf(hanging));
  const ids = await Promise.all(
    Array.from({ length: perEndpoint + 200 }, (_, n) =>
      service.charge(ACCOUNT, 'sk_a', `order-${n}-0000`, 'SUCCESSFUL'),
    ),
  );
  await hanging.until(() => hanging.received.length === LIMITS.webhookEndpointInFlightBegin);
  const other = accountIdOf(2);
  await service.merchant(other, 'sk_b', urlOf(healthy));
  const { logic } = service.logics()[0]!;
  await until(async () => logic.scheduled.firsts === 0);
  await service.charge(other, 'sk_b', 'order-0001', 'SUCCESSFUL');
  await healthy.until(() => healthy.received.length === 1);
  const waiting = ids.length - LIMITS.webhookEndpointInFlightBegin;
  t.equal(service.executor.gauges().queued.firsts, waiting, 'who waits in line is counted');

  hanging.answer = (_request, response) => response.writeHead(200).end();
  for (const answer of letGo) answer();
  await hanging.until(() => hanging.received.length >= ids.length);
  const heardOf = eventsOf(hanging).map(({ data }) => String(data.object['id']));
  t.same(heardOf.toSorted(), ids.toSorted(), 'each once');
  await until(async () => service.executor.gauges().queued.firsts === 0);
});

void t.test('what is due at a changed URL waits for nothing that hangs at the old one', async (t) => {
  const service = await start(t, { attemptMs: HOUR_MS });
  const [old, now] = [await listen(t), await listen(t)];
  old.answer = () => {};
  const appId = await service.merchant(ACCOUNT, 'sk_a', urlOf(old));
  const inFlight = LIMITS.webhookEndpointInFlightBegin;
  const charge = (n: number) => service.charge(ACCOUNT, 'sk_a', `order-${n}-0000`, 'SUCCESSFUL');
  for (let n = 0; n <= inFlight; n++) await charge(n);
  await old.until(() => old.received.length === inFlight);
  const to = { accountId: ACCOUNT, operator: 'amina', appId, webhookUrl: urlOf(now) };
  await service.command({ type: 'ChangeAppWebhook', ...to });
  await now.until(() => now.received.length === 1);
});

void t.test('nor is it left waiting when its app was removed meanwhile', async (t) => {
  const { service, receiver, appId, deliveryId, answerFirst } = await replayedInFlight(t);
  await service.command({ type: 'RemoveApp', accountId: ACCOUNT, operator: 'amina', appId });
  const { logic } = service.logics()[0]!;
  await until(async () => logic.attemptOf(deliveryId) === 'cannot_hear');
  answerFirst();
  await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'CANCELLED');
  t.equal(receiver.received.length, 1);
});

void t.test('an app that was removed hears nothing more', async (t) => {
  let cancelled = 0;
  const metrics = { ...noMetrics, cancelled: () => void cancelled++ };
  const { service, receiver, pass } = await failedOnce(t, { metrics });
  const { app_id: appId } = (await service.deliveries(ACCOUNT))[0]!;
  await service.command({ type: 'RemoveApp', accountId: ACCOUNT, operator: 'amina', appId });
  await until(async () => !service.logics()[0]!.logic.canHear(appId));
  pass(HOUR_MS + 1_000);
  await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'CANCELLED');
  await until(() => Promise.resolve(cancelled === 1));
  t.equal(receiver.received.length, 1);
});

void t.test('what nobody hears any more is cancelled many at a time', async (t) => {
  const receiver = await listen(t);
  receiver.answer = (_request, response) => response.writeHead(500).end();
  let passedMs = 0;
  let [atOnce, atOnceMost] = [0, 0];
  const options = {
    directory: temporaryDirectory(t),
    ca: certificate.cert,
    retryMs: [3_600_000],
    clock: () => Date.now() + passedMs,
    onStep: (step: string) => {
      if (step === 'CancelDelivery before') atOnceMost = Math.max(atOnceMost, ++atOnce);
      if (step === 'CancelDelivery after') atOnce--;
    },
  };
  const first = await WebhookService.start(options);
  const appId = await first.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
  const numbers = Array.from({ length: 100 }, (_, i) => 1_000 + i);
  await Promise.all(numbers.map((n) => first.charge(ACCOUNT, 'sk_a', `order-${n}`, 'SUCCESSFUL')));
  await until(async () => {
    const retrying = (await first.deliveries(ACCOUNT)).filter(({ status }) => status === 'RETRYING');
    return retrying.length === numbers.length;
  });
  const change = { type: 'ChangeAppWebhook', accountId: ACCOUNT, operator: 'amina', appId } as const;
  await first.command({ ...change, webhookUrl: null });
  await until(async () => !first.logics()[0]!.logic.canHear(appId));
  await first.stop();
  passedMs = 2 * 3_600_000;
  const second = await WebhookService.start(options);
  t.teardown(() => second.stop());
  await until(async () => (await second.deliveries(ACCOUNT)).every(({ status }) => status === 'CANCELLED'));
  t.equal((await second.deliveries(ACCOUNT)).length, numbers.length);
  t.ok(atOnceMost > LIMITS.webhookEndpointInFlightMax, `${atOnceMost} at once`);
  t.equal(receiver.received.length, numbers.length);
});

void t.test(
  'an app that has a webhook URL again before its delivery could be cancelled hears of it',
  async (t) => {
    let cancelled = 0;
    const metrics = { ...noMetrics, cancelled: () => void cancelled++ };
    let passedMs = 0;
    const clock = (): number => Date.now() + passedMs;
    const service = await start(t, { retryMs: [HOUR_MS], delivers: false, clock, metrics });
    const receiver = await listen(t);
    receiver.answer = (_request, response) => response.writeHead(500).end();
    const appId = await service.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
    const { logic } = service.logics()[0]!;
    let refused = 0;
    let mayCancel = false;
    // As a partition does while it may write nothing, or has enough to do.
    service.executor.host(0, logic, {
      clock,
      send: (message, onReply) => {
        if (message.type !== 'CancelDelivery' || mayCancel) {
          return service.bus.send('webhooks', 0, message, onReply);
        }
        refused++;
        onReply({ type: 'unavailable' });
      },
    });
    await service.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'RETRYING');
    const change = { type: 'ChangeAppWebhook', accountId: ACCOUNT, operator: 'amina', appId } as const;
    await service.command({ ...change, webhookUrl: null });
    await until(async () => !logic.canHear(appId));
    passedMs = HOUR_MS + 1_000;
    await until(() => Promise.resolve(refused > 0));
    receiver.answer = (_request, response) => response.writeHead(200).end();
    await service.command({ ...change, webhookUrl: urlOf(receiver) });
    const { id } = (await service.deliveries(ACCOUNT))[0]!;
    await until(() => Promise.resolve(typeof logic.attemptOf(id) === 'object'));
    mayCancel = true;
    await receiver.until(() => receiver.received.length === 2);
    await until(async () => (await service.deliveries(ACCOUNT))[0]?.status === 'DELIVERED');
    t.equal(cancelled, 0, 'and none is counted as cancelled');
  },
);

void t.test(
  'a restart goes on where it was: due retries, history, cursor; with and without a checkpoint',
  async (t) => {
    const directory = temporaryDirectory(t);
    const receiver = await listen(t);
    receiver.answer = (_request, response) => response.writeHead(500).end();
    let passedMs = 0;
    const clock = (): number => Date.now() + passedMs;
    const options = { directory, ca: certificate.cert, retryMs: [3_600_000, 60_000], clock };
    const first = await WebhookService.start(options);
    await first.merchant(ACCOUNT, 'sk_a', urlOf(receiver));
    await first.charge(ACCOUNT, 'sk_a', 'order-0001', 'SUCCESSFUL');
    await until(async () => (await first.deliveries(ACCOUNT))[0]?.status === 'RETRYING');
    await first.checkpoint();
    await first.charge(ACCOUNT, 'sk_a', 'order-0002', 'SUCCESSFUL');
    await until(
      async () =>
        (await first.deliveries(ACCOUNT)).filter(({ status }) => status === 'RETRYING').length === 2,
    );
    await first.stop();
    const before = receiver.received.length;
    receiver.answer = (_request, response) => response.writeHead(200).end();
    passedMs = 2 * 3_600_000;
    const second = await WebhookService.start(options);
    t.teardown(() => second.stop());
    await until(async () => (await second.deliveries(ACCOUNT)).every(({ status }) => status === 'DELIVERED'));
    t.equal(receiver.received.length, before + 2, 'each retried once, nothing read twice');
    t.equal(new Set(eventsOf(receiver).map(({ id }) => id)).size, 2);
  },
);
