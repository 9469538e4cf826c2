// Part 6 of the specification, in the whole service: which event is sent for what, to whose endpoint, how it is signed, and
// what becomes of a delivery that nobody takes. The sender alone is tested in webhooks-sender.test.ts and webhooks-names.test.ts.

import { createHmac } from 'node:crypto';
import t, { type Test } from 'tap';
import { bodyOf, type Merchant, numberOf, openMerchant } from './merchants.ts';
import { assertDeliveryMatchesOpenApi } from './openapi-check.ts';
import { startService } from './start.ts';
import { type Received, Receiver } from './webhooks-receiver.ts';

const service = await startService({
  WEBHOOK_ALLOW_PRIVATE: 'true',
  WEBHOOK_RETRY_SECONDS: '1,0.1,0.1,0.1,0.1,0.1,0.1',
  WALLET_COOLING_OFF_SECONDS: '1',
});
t.teardown(() => service.stop());

interface App {
  readonly id: string;
  readonly key: string;
  readonly signingSecret: string;
  readonly receiver: Receiver;
}

async function connectApp(t: Test, merchant: Merchant): Promise<App> {
  const receiver = new Receiver(null);
  t.teardown(() => receiver.close());
  const webhook_url = `http://127.0.0.1:${await receiver.listen()}/hook`;
  const { status, body, text } = await merchant.operator('/apps', {
    name: 'A',
    domain: 'a.test',
    webhook_url,
  });
  if (status !== 201) throw new Error(text);
  return { id: body.id, key: body.secret_key, signingSecret: body.signing_secret, receiver };
}

const eventOf = ({ body }: Received): any => JSON.parse(body.toString());
const typesOf = ({ received }: Receiver): string[] => received.map((request) => eventOf(request).type);

/** As a merchant would: headers, signature over the raw bytes, shape; the body is the object as it was. */
function isGenuine(t: Test, { method, headers, body }: Received, secret: string): void {
  const event = JSON.parse(body.toString());
  assertDeliveryMatchesOpenApi(event, headers);
  t.strictSame(Object.keys(event), ['id', 'object', 'type', 'created_at', 'data']);
  t.equal(method, 'POST');
  t.hasStrict(headers, {
    'content-type': 'application/json',
    'user-agent': 'Service-Webhooks/1.0',
    'service-event-id': event.id,
    'service-event-type': event.type,
  });
  const [, time, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['service-signature'])) ?? [];
  t.ok(Math.abs(Number(time) - Date.now() / 1_000) < 300, 'signed now, in seconds');
  const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex');
  t.equal(signature, expected, 'keyed with the whole secret, prefix included');
  t.equal(event.created_at, event.data.object.updated_at, 'when it happened');
}

// Each test has a merchant and endpoints of its own, and mostly waits.
t.jobs = 3;

t.test('every final status of every kind has its event; nothing else has one', async (t) => {
  const merchant = await openMerchant(service);
  const app = await connectApp(t, merchant);
  const { receiver } = app;
  await merchant.fund('1000000');
  const wallet = await merchant.wallet();
  const goneWallet = await merchant.wallet('UG', '57');
  await receiver.until(() => receiver.received.length === 1);
  receiver.received.length = 0; // of the deposit that funds it

  const silent = { msisdn: numberOf('UGX', '65') };
  const withdrawal = { amount: '1000', currency: 'UGX', reference: 'w' };
  const rows: [string, object, string | null][] = [
    ['/v1/charges', bodyOf(), 'charge.successful'],
    ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '68') }), 'charge.successful'],
    ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '57') }), 'charge.failed'],
    ['/v1/charges', bodyOf({ msisdn: numberOf('UGX', '51') }), 'charge.failed'],
    ['/v1/charges', bodyOf(silent), null],
    ['/v1/deposits', bodyOf(), 'deposit.successful'],
    ['/v1/deposits', bodyOf({ msisdn: numberOf('UGX', '51') }), 'deposit.failed'],
    ['/v1/payouts', bodyOf(), 'payout.successful'],
    ['/v1/payouts', bodyOf({ msisdn: numberOf('UGX', '57') }), 'payout.failed'],
    ['/v1/payouts', bodyOf(silent), null],
    ['/v1/withdrawals', { ...withdrawal, destination: wallet }, 'withdrawal.successful'],
    ['/v1/withdrawals', { ...withdrawal, destination: goneWallet }, 'withdrawal.failed'],
  ];
  const wanted = new Map<string, string>();
  for (const [path, body, type] of rows) {
    const { body: object, status, text } = await merchant.post(path, body, { key: app.key });
    t.equal(status, 201, text);
    if (type !== null) wanted.set(object.id, type);
  }
  // One that waits for approval has no event; one that is rejected has.
  await merchant.change({ approval_thresholds: { UGX: '500' } });
  for (const isRejected of [false, true]) {
    const body = { ...withdrawal, destination: wallet };
    const { body: waiting } = await merchant.post('/v1/withdrawals', body, { key: app.key });
    t.equal(waiting.approval_status, 'PENDING');
    if (!isRejected) continue;
    await merchant.operator(`/withdrawals/${waiting.id}/reject`, { by: merchant.owner });
    wanted.set(waiting.id, 'withdrawal.failed');
  }

  await receiver.until(() => receiver.received.length >= wanted.size);
  const got = new Map(
    receiver.received.map((request) => [eventOf(request).data.object.id, eventOf(request).type]),
  );
  t.strictSame(got, wanted);
  for (const request of receiver.received) {
    isGenuine(t, request, app.signingSecret);
    const { type, data } = eventOf(request);
    const now = await merchant.get(`/v1/${type.split('.')[0]}s/${data.object.id}`);
    t.equal(now.text, JSON.stringify(data.object), `${type}: byte for byte the object`);
  }
  const ids = receiver.received.map((request) => eventOf(request).id);
  t.equal(new Set(ids).size, ids.length, 'each event has its own id');
});

t.test('a reversal is an event of its own', async (t) => {
  const merchant = await openMerchant(service);
  const app = await connectApp(t, merchant);
  const charge = bodyOf({ msisdn: numberOf('UGX', '70') });
  await merchant.post('/v1/charges', charge, { key: app.key });
  await app.receiver.until(() => app.receiver.received.length === 2);
  t.strictSame(typesOf(app.receiver), ['charge.successful', 'charge.reversed']);
  const [succeeded, reversed] = app.receiver.received.map(eventOf);
  t.equal(succeeded.data.object.status, 'SUCCESSFUL');
  t.hasStrict(reversed.data.object, { status: 'REVERSED', id: succeeded.data.object.id });
});

t.test('an app hears of its own keys’ doings and the dashboard’s, never of another app’s', async (t) => {
  const merchant = await openMerchant(service);
  const first = await connectApp(t, merchant);
  const second = await connectApp(t, merchant);
  const create = async (app: App): Promise<string> =>
    (await merchant.post('/v1/charges', bodyOf(), { key: app.key })).body.id;
  const ofFirst = await create(first);
  const ofSecond = await create(second);
  await merchant.post('/v1/charges', bodyOf()); // of a third app, without a URL
  await merchant.fund('10000');
  for (const [app, id] of [
    [first, ofFirst],
    [second, ofSecond],
  ] as const) {
    const { receiver } = app;
    await receiver.until(() => receiver.received.length >= 2);
    t.strictSame(new Set(typesOf(receiver)), new Set(['charge.successful', 'deposit.successful']));
    for (const request of receiver.received) {
      isGenuine(t, request, app.signingSecret);
      const { type, data } = eventOf(request);
      if (type === 'charge.successful') t.equal(data.object.id, id);
    }
  }

  const told = async (query: string): Promise<{ id: string; app_id: string; status: string }[]> =>
    (await service.operator('GET', `/operator/v1/accounts/${merchant.accountId}/deliveries?${query}`)).body
      .data;
  const all = await service.until(
    () => told('status=DELIVERED'),
    ({ length }) => length === 4,
  );
  const ofFirstApp = all.filter(({ app_id: app }) => app === first.id);
  t.equal(ofFirstApp.length, 2);
  t.strictSame(await told(`app=${first.id}`), ofFirstApp, 'operators see those of one app');
  t.strictSame(await told(`app=${first.id}&limit=1`), ofFirstApp.slice(0, 1));
  t.strictSame(await told(`app=${first.id}&starting_after=${ofFirstApp[0]!.id}`), ofFirstApp.slice(1));
  t.strictSame(await told('status=RETRYING'), []);
});

t.test(
  'what nobody takes is tried 8 times, then dead-lettered; a replay goes to today’s URL, same id',
  async (t) => {
    const merchant = await openMerchant(service);
    const app = await connectApp(t, merchant);
    const { receiver } = app;
    const answers = [500, 404, 301, 400, 503, 302, 410, 429];
    receiver.answer = (_, response) => {
      const status = answers[receiver.received.length - 1] ?? 500;
      response.writeHead(status, { location: '/elsewhere' }).end('x'.repeat(2_500));
    };
    await merchant.post('/v1/charges', bodyOf(), { key: app.key });
    const deliveries = `/operator/v1/accounts/${merchant.accountId}/deliveries`;
    const { body: page } = await service.until(
      () => service.operator('GET', `${deliveries}?app=${app.id}`),
      ({ body }) => body.data[0]?.status === 'DEAD_LETTERED',
    );
    const [delivery] = page.data;
    t.equal(receiver.received.length, 8);
    t.strictSame(
      delivery.attempts.map(({ status_code }: any) => status_code),
      answers,
    );
    t.ok(
      receiver.received.every(({ path }) => path === '/hook'),
      'redirects are not followed',
    );
    t.equal(delivery.attempts[0].excerpt, 'x'.repeat(2_000));
    const ids = new Set(receiver.received.map((request) => eventOf(request).id));
    t.strictSame([...ids], [delivery.event_id]);
    t.equal(
      new Set(receiver.received.map(({ body }) => body.toString())).size,
      1,
      'the same bytes every time',
    );

    const other = new Receiver(null);
    t.teardown(() => other.close());
    const webhook_url = `http://127.0.0.1:${await other.listen()}/new`;
    const path = `/operator/v1/accounts/${merchant.accountId}/apps/${app.id}`;
    t.equal((await service.operator('PATCH', path, { webhook_url })).status, 200);
    const replayFailed = async (since: string): Promise<unknown> =>
      (await service.operator('POST', `${path}/replay_failed`, { since })).body;
    const after = new Date(Date.parse(delivery.created_at) + 1).toISOString();
    t.strictSame(await replayFailed(after), { replayed: 0, has_more: false }, 'none is so new');
    t.strictSame(await replayFailed(delivery.created_at), { replayed: 1, has_more: false });
    await other.until(() => other.received.length === 1);
    const delivered = (): Promise<unknown> =>
      service.until(
        () => service.operator('GET', `${deliveries}/${delivery.id}`),
        ({ body }) => body.status === 'DELIVERED',
      );
    await delivered();
    t.equal((await service.operator('POST', `${deliveries}/${delivery.id}/replay`)).status, 200);
    await other.until(() => other.received.length === 2);
    await delivered();
    for (const request of other.received) {
      isGenuine(t, request, app.signingSecret);
      t.equal(eventOf(request).id, delivery.event_id);
    }
    t.equal(receiver.received.length, 8);
  },
);

t.test('a webhook URL is HTTPS and public, unless development allows others', async (t) => {
  const strict = await startService();
  t.teardown(() => strict.stop());
  const merchant = await openMerchant(strict);
  const rows: [string, number][] = [
    ['https://shop.example/hooks', 201],
    ['http://shop.example/hooks', 400],
    ['https://127.0.0.1/hooks', 400],
    ['https://10.1.2.3/hooks', 400],
    ['https://[::1]/hooks', 400],
    ['https://169.254.169.254/latest', 400],
    ['ftp://shop.example', 400],
    ['shop.example', 400],
  ];
  for (const [webhook_url, status] of rows) {
    const answer = await merchant.operator('/apps', { name: 'A', domain: 'a.test', webhook_url });
    t.equal(answer.status, status, webhook_url);
    if (status === 400) t.hasStrict(answer.body.error, { code: 'validation_failed', param: 'webhook_url' });
  }
});
