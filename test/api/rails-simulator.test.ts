// The simulator as a person and a stranger meet it: its page, its strictness about headers and bodies, its thread, and
// `npm run simulator`.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { empty, type Outcome } from '../../src/rails/simulator/call.ts';
import { Network } from '../../src/rails/simulator/network.ts';
import { Schedule } from '../../src/rails/simulator/schedule.ts';
import { startSimulatorThread } from '../../src/rails/simulator/thread.ts';
import { startSimulator } from '../../src/rails/simulator/server.ts';
import { provisionSimulator } from '../../src/rails/routes-simulator.ts';
import { within } from '../../wal/within.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { until } from '../until.ts';

const HOUR_MS = 3_600_000;

const simulator = await startSimulator({ port: 0, host: '127.0.0.1', approveAfterMs: 10 });
t.teardown(() => simulator.close());

async function call(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: object | string,
): Promise<{ status: number; text: string; body: Record<string, unknown> }> {
  const response = await fetch(simulator.url + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = text.startsWith('{');
  return { status: response.status, text, body: isJson ? (JSON.parse(text) as Record<string, unknown>) : {} };
}

t.test('the processes of one merchant have one till, one application and one subscription', async (t) => {
  const app = async (merchant: string): Promise<unknown> => {
    const body = { merchant, country: 'UG', currency: 'UGX', callback_hash: true };
    return (await call('POST', '/portal/airtel/apps', {}, body)).body;
  };
  const first = await app('a shop');
  t.strictSame(await app('a shop'), first);
  t.not(
    ((await app('another')) as { client_id: string }).client_id,
    (first as { client_id: string }).client_id,
  );
  const subscribe = async (product: string): Promise<unknown> => {
    const market = { target_environment: 'mtnuganda', country: 'UG', currency: 'UGX' };
    return (await call('POST', '/portal/mtn/subscriptions', {}, { ...market, merchant: 'a shop', product }))
      .body['subscription_key'];
  };
  const key = await subscribe('collection');
  t.equal(await subscribe('collection'), key);
  t.not(await subscribe('disbursement'), key);
});

const WRONG_CONTROLS = [
  ['answers', { on: 'token', body: { code: 'X' } }, 'body'],
  ['answers', { on: 'token', status: 99 }, 'status'],
  ['answers', { on: 'token', contentType: 'text/html\r\n' }, 'contentType'],
  ['answers', { on: 'tokens' }, 'on'],
  ['answers', { times: 0 }, 'times'],
  ['answers', { msisdn: 73 }, 'msisdn'],
  ['answers', { statuscode: 500 }, 'statuscode'],
  ['outcomes', { state: 'failed' }, 'msisdn'],
  ['outcomes', { msisdn: '73', state: 'FAILED' }, 'state'],
  ['outcomes', { msisdn: '73', amount: 5 }, 'amount'],
] as const;

t.test(
  'a control that is wrong is refused by name, and no call that it was for ends the simulator',
  async (t) => {
    const token = (): Promise<{ status: number }> => call('POST', '/auth/oauth2/token', {}, {});
    for (const [what, body, field] of WRONG_CONTROLS) {
      const answer = await call('POST', `/simulator/${what}`, {}, body);
      t.hasStrict(answer, { status: 400, body: { error: `${field}: missing or wrong` } }, field);
      t.equal((await token()).status, 401);
    }
    const market = { country: 'UG', currency: 'UGX' };
    const app = { ...market, pin_padding: 'oaep' };
    t.match(await call('POST', '/portal/airtel/apps', {}, app), { status: 400, text: /pin_padding/ });
    const product = { ...market, product: 'collection', target_environment: 'mtnuganda' };
    const subscribed = await call(
      'POST',
      '/portal/mtn/subscriptions',
      {},
      { ...product, callback_method: 'put' },
    );
    t.match(subscribed, { status: 400, text: /callback_method/ });
    const list = (limit: string): Promise<{ status: number }> =>
      call('GET', `/simulator/transactions?limit=${limit}`);
    t.match(await list('all'), { status: 400, body: { error: 'limit: missing or wrong' } });
    t.equal((await list('1000')).status, 200);
  },
);

t.test('a simulator that has all it may have says so, and goes on', async (t) => {
  const full = await startSimulator({ port: 0, host: '127.0.0.1', approveAfterMs: 10 });
  t.teardown(() => full.close());
  const post = async (path: string, body: object): Promise<number> =>
    (await fetch(full.url + path, { method: 'POST', body: JSON.stringify(body) })).status;
  const market = { country: 'UG', currency: 'UGX' };
  const mtn = { ...market, product: 'collection', target_environment: 'mtnuganda' };
  const controls = [
    ['/portal/mtn/subscriptions', mtn, 201, 409, LIMITS.simulatorAppsMax],
    ['/simulator/answers', { on: 'token' }, 204, 400, LIMITS.simulatorForcedMax],
    ['/simulator/outcomes', { msisdn: '73' }, 204, 400, LIMITS.simulatorForcedMax],
  ] as const;
  for (const [path, body, taken, refused, most] of controls) {
    for (let n = 0; n < most; n++) if ((await post(path, body)) !== taken) t.fail(`${path} ${n}`);
    t.equal(await post(path, body), refused, path);
  }
  t.equal(await post('/portal/airtel/apps', market), 201);
});

t.test('numbers that stay silent for ever keep no other out: the oldest of them is forgotten', (t) => {
  const network = new Network({ approveAfterMs: 60_000, speed: 1 });
  t.teardown(() => network.close());
  const market = { provider: 'mtn', country: 'UG', currency: 'UGX' } as const;
  const till = { ...market, id: 'till', amountDecimals: 0, balance: 0 };
  const money = { amountText: '5', amount: 500, currency: 'UGX', payerMessage: '', payeeNote: '' };
  const answers = { accepted: () => empty(202), refused: () => empty(400), full: () => empty(503) };
  const submit = (reference: string, msisdn: string): Outcome | undefined => {
    const given = { ...money, till, reference, externalId: reference, msisdn, callbackUrl: null };
    let answer: Outcome | undefined;
    network.submit({ ...given, provider: 'mtn', kind: 'collect' }, answers, (outcome) => (answer = outcome));
    return answer;
  };
  const isKnown = (reference: string): boolean => network.find(till, 'collect', reference) !== undefined;
  const taken = empty(202);
  t.strictSame(submit('waits', '256772000001'), taken);
  for (let n = 1; n < LIMITS.simulatorPendingMax; n++) submit(`silent ${n}`, '256772000065');
  network.settle(network.find(till, 'collect', 'silent 1')!, 'succeeded', null);
  t.strictSame(submit('silent again', '256772000065'), taken);
  t.strictSame(submit('another', '256772000001'), taken);
  t.strictSame(['waits', 'silent 1', 'silent 2', 'silent 3', 'another'].map(isKnown), [
    true,
    true,
    false,
    true,
    true,
  ]);
  t.equal(network.counts().pending, LIMITS.simulatorPendingMax);
  t.end();
});

t.test(
  "what it does later it does when its time has passed, whatever happens to the machine's clock",
  async (t) => {
    const schedule = new Schedule();
    t.teardown(() => schedule.close());
    const now = Date.now;
    let aheadMs = 0;
    t.intercept(Date, 'now', { value: () => now() + aheadMs });
    const after = (ms: number): Promise<void> => new Promise((resolve) => schedule.after(ms, resolve));
    const stalled = after(5);
    aheadMs = -HOUR_MS;
    await within(2_000, stalled, 'it waits for the clock that was set back');
    let rushed = false;
    schedule.after(HOUR_MS / 2, () => (rushed = true));
    const soon = after(5);
    aheadMs = HOUR_MS;
    await within(2_000, soon, 'it is late');
    t.notOk(rushed);
  },
);

t.test('MTN: what its gateway and its product refuse', async (t) => {
  const subscribe = async (product: string): Promise<Record<string, string>> => {
    const market = { target_environment: 'mtnuganda', country: 'UG', currency: 'UGX' };
    const { body } = await call('POST', '/portal/mtn/subscriptions', {}, { product, ...market });
    return { 'Ocp-Apim-Subscription-Key': String(body['subscription_key']) };
  };
  const key = await subscribe('collection');
  const user = randomUUID();
  const create = { ...key, 'X-Reference-Id': user };
  const host = { providerCallbackHost: 'pay.example.com' };
  t.equal((await call('POST', '/v1_0/apiuser', { 'X-Reference-Id': user }, host)).status, 401, 'no key');
  t.equal((await call('POST', '/v1_0/apiuser', { ...key, 'X-Reference-Id': '1' }, host)).status, 400);
  t.equal((await call('POST', '/v1_0/apiuser', create, host)).status, 201);
  t.equal((await call('POST', '/v1_0/apiuser', create, host)).status, 409);
  const { body: made } = await call('POST', `/v1_0/apiuser/${user}/apikey`, key);
  const basic = (text: string) => ({
    ...key,
    Authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  });
  t.equal((await call('POST', '/collection/token/', basic(`${user}:wrong`))).status, 401);
  t.equal(
    (await call('POST', '/disbursement/token/', basic(`${user}:${String(made['apiKey'])}`))).status,
    401,
  );
  const token = await call('POST', '/collection/token/', basic(`${user}:${String(made['apiKey'])}`));
  t.hasStrict(token.body, { token_type: 'access_token', expires_in: 3600 });

  const otherKey = await subscribe('disbursement');
  const other = randomUUID();
  await call('POST', '/v1_0/apiuser', { ...otherKey, 'X-Reference-Id': other }, host);
  const { body: otherMade } = await call('POST', `/v1_0/apiuser/${other}/apikey`, otherKey);
  const disbursement = (text: string) =>
    call('POST', '/disbursement/token/', { ...basic(text), ...otherKey });
  t.equal((await disbursement(`${user}:${String(made['apiKey'])}`)).status, 401, 'a user of the other key');
  const { body: otherToken } = await disbursement(`${other}:${String(otherMade['apiKey'])}`);

  const headers = {
    ...key,
    Authorization: `Bearer ${String(token.body['access_token'])}`,
    'X-Target-Environment': 'mtnuganda',
    'X-Reference-Id': randomUUID(),
  };
  const good = {
    amount: '500',
    currency: 'UGX',
    externalId: 'x1',
    payer: { partyIdType: 'MSISDN', partyId: '256772000001' },
    payerMessage: 'a',
    payeeNote: 'b',
  };
  const path = '/collection/v1_0/requesttopay';
  const CASES: readonly (readonly [string, object, object | string, number, RegExp])[] = [
    ['no token', { Authorization: 'Bearer x' }, good, 401, /invalid_token/],
    [
      'a token of the other product',
      { Authorization: `Bearer ${String(otherToken['access_token'])}` },
      good,
      401,
      /invalid_token/,
    ],
    [
      'another environment',
      { 'X-Target-Environment': 'sandbox' },
      good,
      500,
      /NOT_ALLOWED_TARGET_ENVIRONMENT/,
    ],
    ['a reference that is no UUID', { 'X-Reference-Id': 'CHG1' }, good, 400, /X-Reference-Id/],
    [
      'a UUID of version 1',
      { 'X-Reference-Id': '9a1c2d3e-1111-1222-8333-000000000000' },
      good,
      400,
      /version 4/,
    ],
    ['no JSON', {}, '{', 400, /VALIDATION_ERROR/],
    ['an amount that is a number', {}, { ...good, amount: 500 }, 400, /amount/],
    ['no amount', {}, { ...good, amount: '0' }, 400, /amount/],
    ['decimals in Uganda', {}, { ...good, amount: '500.50' }, 400, /no decimals/],
    ['another currency', {}, { ...good, currency: 'EUR' }, 500, /INVALID_CURRENCY/],
    ['a note that is null', {}, { ...good, payeeNote: null }, 400, /payeeNote/],
    ['a note with half a character', {}, { ...good, payeeNote: 'x\ud83e' }, 400, /payeeNote/],
    ['a note with an apostrophe', {}, { ...good, payeeNote: "Joe's" }, 400, /not supported/],
    ['a note that is too long', {}, { ...good, payerMessage: 'x'.repeat(129) }, 400, /longer/],
    ['a number with +', {}, { ...good, payer: { ...good.payer, partyId: '+256772000001' } }, 400, /partyId/],
    [
      'a foreign callback',
      { 'X-Callback-Url': 'https://evil.example/x' },
      good,
      500,
      /INVALID_CALLBACK_URL_HOST/,
    ],
    ['a body that is too long', {}, { ...good, more: 'x'.repeat(70_000) }, 413, /Too large/],
  ];
  for (const [what, changed, body, status, says] of CASES) {
    const answer = await call('POST', path, { ...headers, ...changed }, body);
    t.equal(answer.status, status, what);
    t.match(answer.text, says, what);
  }
  t.hasStrict(await call('POST', path, headers, good), { status: 202, text: '' });
  t.equal((await call('POST', path, headers, good)).status, 409, 'twice');
  t.equal((await call('GET', `${path}/${randomUUID()}`, headers)).status, 404);
});

t.test('Airtel: what it refuses', async (t) => {
  const { body: app } = await call('POST', '/portal/airtel/apps', {}, { country: 'KE', currency: 'KES' });
  const credentials = { client_id: app['client_id'], client_secret: app['client_secret'] };
  t.equal((await call('POST', '/auth/oauth2/token', {}, credentials)).status, 401, 'no grant_type');
  const grant = { ...credentials, grant_type: 'client_credentials' };
  const { body: token } = await call('POST', '/auth/oauth2/token', {}, grant);
  t.match(token, { token_type: 'bearer', expires_in: /^180$/ });
  const headers = {
    Authorization: `Bearer ${String(token['access_token'])}`,
    'X-Country': 'KE',
    'X-Currency': 'KES',
  };
  const good = {
    reference: 'order1',
    subscriber: { country: 'KE', currency: 'KES', msisdn: '733000001' },
    transaction: { amount: 10.5, country: 'KE', currency: 'KES', id: 'CHG1' },
  };
  const path = '/merchant/v1/payments/';
  const change = (part: 'subscriber' | 'transaction', changes: object) => ({
    ...good,
    [part]: { ...good[part], ...changes },
  });
  const CASES: readonly (readonly [string, object, object | string, RegExp])[] = [
    ['no token', { Authorization: 'x' }, good, /invalid_token/],
    ['another country', { 'X-Country': 'UG' }, good, /ROUTER007/],
    ['another currency', { 'X-Currency': 'UGX' }, good, /ROUTER112/],
    ['an international number', {}, change('subscriber', { msisdn: '254733000001' }), /ESB000033/],
    ['a country code that differs', {}, change('subscriber', { country: 'UG' }), /ROUTER006/],
    ['an id with hyphens', {}, change('transaction', { id: 'CHG-1' }), /ROUTER003/],
    ['a reference that is too short', {}, { ...good, reference: 'abc' }, /ROUTER003/],
    ['an amount that is text', {}, change('transaction', { amount: '10.5' }), /DP00800001004/],
    ['no JSON', {}, '[', /ROUTER003/],
  ];
  for (const [what, changed, body, says] of CASES) {
    t.match((await call('POST', path, { ...headers, ...changed }, body)).text, says, what);
  }
  t.hasStrict((await call('POST', path, headers, good)).body, {
    status: { response_code: 'DP00800001006', success: true },
  });
  t.match((await call('POST', path, headers, good)).text, /ESB000041/, 'twice');
  t.match((await call('GET', '/standard/v1/payments/NONE', headers)).text, /DP00800001025/);
  const sent = '/standard/v2/disbursements/NONE';
  t.match((await call('GET', sent, headers)).text, /ROUTER003/);
  t.match((await call('GET', `${sent}?transactionType=B2C`, headers)).text, /DP00900001015/);
});

/** Of both protocols: how a token is had, and whether a call with it is let in. */
async function tokensOf(url: string) {
  const profile = { url, callbackHost: '127.0.0.1', merchant: 'one', portalSecretOf: () => 'secret' };
  const routes = (await provisionSimulator(profile)).filter(({ country }) => country === 'UG');
  return routes.map((route) => {
    let ask: { path: string; headers: Record<string, string>; body: string | null };
    let use: { path: string; headers: Record<string, string> };
    if (route.adapter === 'mtn') {
      const { subscriptionKey, apiUser, apiKey } = route.collection!;
      const key = { 'Ocp-Apim-Subscription-Key': subscriptionKey };
      const basic = `Basic ${Buffer.from(`${apiUser}:${apiKey}`).toString('base64')}`;
      ask = { path: '/collection/token/', headers: { ...key, Authorization: basic }, body: null };
      const headers = { ...key, 'X-Target-Environment': route.targetEnvironment };
      use = { path: '/collection/v1_0/account/balance', headers };
    } else {
      const { clientId: client_id, clientSecret: client_secret } = route;
      const body = JSON.stringify({ client_id, client_secret, grant_type: 'client_credentials' });
      ask = { path: '/auth/oauth2/token', headers: {}, body };
      use = { path: '/standard/v1/users/balance', headers: { 'X-Country': 'UG', 'X-Currency': 'UGX' } };
    }
    return {
      id: route.id,
      get: async (): Promise<string> => {
        const response = await fetch(url + ask.path, { ...ask, method: 'POST' });
        return ((await response.json()) as { access_token: string }).access_token;
      },
      statusOf: async (token: string): Promise<number> => {
        const headers = { ...use.headers, Authorization: `Bearer ${token}` };
        return (await fetch(url + use.path, { headers })).status;
      },
    };
  });
}

t.test('a token is refused when its time is over', async (t) => {
  const options = { port: 0, host: '127.0.0.1', approveAfterMs: 10 };
  const short = await startSimulator({ ...options, mtnTokenSeconds: 0.1, airtelTokenSeconds: 0.1 });
  t.teardown(() => short.close());
  for (const { id, get, statusOf } of await tokensOf(short.url)) {
    const token = await get();
    await until(
      () => statusOf(token),
      (status) => status === 401,
    );
    t.pass(id);
  }
});

t.test('where credentials have one token, the next revokes it', async (t) => {
  const [mtn, airtel] = await tokensOf(simulator.url);
  for (const { id, get, statusOf } of [mtn!, airtel!]) {
    const [first, second] = [await get(), await get()];
    t.strictSame([await statusOf(first), await statusOf(second)], [200, 200], `${id}: both, unless told`);
  }
  await call('POST', '/simulator/one-token');
  for (const { id, get, statusOf } of [mtn!, airtel!]) {
    const [first, second] = [await get(), await get()];
    t.strictSame([await statusOf(first), await statusOf(second)], [401, 200], id);
  }
});

t.test('the page', async (t) => {
  const { status, text } = await call('GET', '/');
  t.equal(status, 200);
  t.match(text, /MTN UG/);
  t.match(text, /<td>73<\/td><td>503<\/td>/, 'the numbers that misbehave');
  t.equal((await call('GET', '/nowhere')).status, 404);
  t.equal((await call('POST', '/transactions/999999/approve')).status, 404);
});

t.test('what is no action of a payment is not done, whatever its name', async (t) => {
  const { data } = (await call('GET', '/simulator/transactions?limit=1')).body;
  const [{ number } = { number: 0 }] = data as { number: number }[];
  for (const action of ['pay', 'toString', 'constructor']) {
    t.equal((await call('POST', `/simulator/transactions/${number}/${action}`)).status, 409, action);
  }
});

t.test("another site's page presses no button, and uses no control", async (t) => {
  for (const path of ['/transactions/1/approve', '/simulator/transactions/1/approve', '/simulator/answers']) {
    t.equal((await call('POST', path, { Origin: 'https://evil.example' }, {})).status, 403, path);
  }
  const { status } = await call('DELETE', '/simulator/forced', { Origin: simulator.url });
  t.equal(status, 204, 'its own may');
});

t.test('in a thread, on a port that is taken', async (t) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as AddressInfo;
  const options = { port, host: '127.0.0.1', approveAfterMs: 1 };
  await t.rejects(
    startSimulatorThread(options, () => t.fail('not a death')),
    /EADDRINUSE.*SIMULATOR_PORT/,
  );
  taken.close();
});

t.test('npm run simulator: listens, says where, and stops', async (t) => {
  const child = spawn(process.execPath, ['src/rails/simulator/main.ts'], {
    env: { ...ENVIRONMENT, SIMULATOR_PORT: '0', SIMULATOR_HOST: '' },
  });
  const said = await new Promise<string>((resolve) => {
    child.stdout.once('data', (text: Buffer) => resolve(text.toString()));
  });
  const url = /http:\/\/\S+/.exec(said)?.[0];
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+$/, said);
  t.equal((await fetch(url!)).status, 200);
  child.kill('SIGTERM');
  t.equal(await new Promise((resolve) => child.once('exit', resolve)), 0);

  const wrong = spawn(process.execPath, ['src/rails/simulator/main.ts'], {
    env: { ...ENVIRONMENT, SIMULATOR_PORT: 'x' },
  });
  t.equal(await new Promise((resolve) => wrong.once('exit', resolve)), 2);

  const mistaken = spawn(process.execPath, ['src/rails/simulator/main.ts', '--port', '9000'], {
    env: { ...ENVIRONMENT, SIMULATOR_PORT: '0' },
  });
  t.teardown(() => mistaken.kill());
  t.equal(await new Promise((resolve) => mistaken.once('exit', resolve)), 2, 'what nobody reads');
});
