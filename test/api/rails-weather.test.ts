// What providers' networks do to calls: tokens that end early, storms of 503, calls that hang, answers that are lost, a
// provider that is not there, keys that rotate. Real adapters over HTTP.
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import t, { type Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { HttpClient, type HttpResult } from '../../src/rails/http-client.ts';
import { MtnRail } from '../../src/rails/mtn.ts';
import type { CheckResult } from '../../src/rails/provider-rail.ts';
import type { Rail } from '../../src/rails/rail.ts';
import { clockBy, systemClock } from '../../src/rails/system-clock.ts';
import { until } from '../until.ts';
import { inThreeTries, listenSlowly, SLOW_AND_REFUSED } from './slow-listener.ts';
import { outcomeOf, type RailsUnderTest, startRails, transactionOf } from './rails-setup.ts';

/** By how much the rails' clock is ahead of the machine's. */
let passedMs = 0;
const rails = await startRails(
  { approveAfterMs: 5 },
  clockBy(() => Date.now() + passedMs),
);
t.teardown(() => rails.stop());

/** Of a rail to a provider of a test's own. */
const RAIL = {
  country: 'UG',
  currency: 'UGX',
  maxConcurrency: 2,
  answerMs: 60_000,
  notFoundGraceMs: 1_000,
  amountDecimals: 0,
  forgetful: false,
  clock: systemClock,
} as const;

/** A provider that answers so, until the test is over; its address. */
async function providerOf(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function tokensMinted(under: RailsUnderTest): Promise<number> {
  return Number((await under.control('GET', '/simulator/counts'))['tokens_minted']);
}

t.test('one token for a burst, and one more when it ends in the middle', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const rail = rails.rail(`${network.toLowerCase()}_gh`);
    const burst = Array.from({ length: 60 }, () => transactionOf({ network, country: 'GH' }));
    const before = await tokensMinted(rails);
    await Promise.all(burst.slice(0, 20).map(async (transaction) => rail.submit(transaction)));
    t.equal(await tokensMinted(rails), before + 1, 'single flight');

    // A token that was just made is not thrown away again.
    passedMs += LIMITS.railTokenRetryMs;
    const later = burst.slice(20, 40).map((transaction) => rail.submit(transaction));
    await rails.control('POST', '/simulator/expire-tokens');
    const last = burst.slice(40).map((transaction) => rail.submit(transaction));
    const answers = await Promise.all([...later, ...last]);
    t.ok(answers.every(({ type }) => type === 'accepted'));
    t.equal(await tokensMinted(rails), before + 2, 'one new token for all of them');
  }
});

t.test('tokens are renewed before they end', async (t) => {
  const LIFE = 60;
  let now = Date.now();
  const short = await startRails(
    { mtnTokenSeconds: LIFE, airtelTokenSeconds: LIFE },
    clockBy(() => now),
  );
  t.teardown(() => short.stop());
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const rail = short.rail(`${network.toLowerCase()}_ug`);
    const renewedAt: number[] = [];
    let minted = await tokensMinted(short);
    // A call a second, over the lives of three tokens.
    for (let second = 0; second <= 3 * LIFE; second++, now += 1_000) {
      const { type } = await rail.submit(transactionOf({ network }));
      if (type !== 'accepted') t.fail(`${network}: ${type}`);
      const before = minted;
      minted = await tokensMinted(short);
      if (minted > before) renewedAt.push(second);
    }
    const lives = renewedAt.slice(1).map((at, i) => at - renewedAt[i]!);
    t.ok(
      lives.length >= 3 && lives.every((life) => life < LIFE && life > LIFE / 2),
      `after ${lives.join(', ')} s`,
    );
  }
});

t.test('wrong credentials: refused at once, without a storm of token requests', async (t) => {
  const { url } = rails.simulator;
  const common = {
    country: 'UG',
    currency: 'UGX',
    baseUrl: url,
    maxConcurrency: 8,
    answerMs: 2_000,
    notFoundGraceMs: 1_000,
    forgetful: false,
    clock: systemClock,
  } as const;
  const wrong = { subscriptionKey: 'x'.repeat(32), apiUser: 'nobody', apiKey: 'x' };
  const all: Rail[] = [
    new MtnRail({
      ...common,
      id: 'mtn_wrong',
      targetEnvironment: 'mtnuganda',
      collection: wrong,
      disbursement: wrong,
      callbackUrl: () => null,
    }),
    ...(['v1', 'v2'] as const).map(
      (collectionApi) =>
        new AirtelRail({
          ...common,
          id: 'airtel_wrong',
          clientId: 'nobody',
          clientSecret: 'x',
          collectionApi,
          amountDecimals: 0,
          disbursement: null,
        }),
    ),
  ];
  for (const rail of all) {
    t.teardown(() => rail.close());
    const charge = await rail.submit(transactionOf({}));
    t.hasStrict(charge, { type: 'failed', failureCode: 'provider_rejected', ourFault: true });
    t.equal((await rail.enquire(transactionOf({}))).type, 'unknown');
  }
});

t.test('an answer without a token sends nothing, and what it has instead is never shown', async (t) => {
  let status = 200;
  let answer = '';
  let sent = 0;
  const baseUrl = await providerOf(t, (request, response) => {
    if (request.url?.includes('token') === true) response.writeHead(status).end(answer);
    else response.end(String(++sent));
  });
  const common = { ...RAIL, baseUrl } as const;
  const collection = { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' };
  const mtn = { targetEnvironment: 'mtnuganda', collection, disbursement: null, callbackUrl: () => null };
  const airtel = { clientId: 'a', clientSecret: 'b', collectionApi: 'v1', disbursement: null } as const;
  const ODD = [
    [200, '{"access_token":""}', /not_accepted|unknown/],
    [200, '{"accessToken":"granted"}', /not_accepted|unknown/],
    [200, 'access_token=granted', /not_accepted|unknown/],
    [200, '', /not_accepted|unknown/],
    // A firewall's page says nothing about credentials, and fails nothing.
    [403, '<html>a firewall</html>', /not_accepted|unknown/],
    [401, '', /failed|unknown/],
    [400, '{"error":"invalid_client"}', /failed|unknown/],
    [403, '{"error":"forbidden"}', /failed|unknown/],
    [500, '{"error":"login_failed"}', /not_accepted|unknown/],
  ] as const;
  for (const [answered, body, type] of ODD) {
    status = answered;
    answer = body;
    for (const rail of [
      new MtnRail({ ...common, ...mtn, id: 'mtn_odd' }),
      new AirtelRail({ ...common, ...airtel, id: 'airtel_odd' }),
    ]) {
      for (const result of [await rail.submit(transactionOf()), await rail.enquire(transactionOf())]) {
        t.match(result, { type }, `${status} ${answer}`);
        t.match(JSON.stringify(result), `"token: HTTP ${status}`);
        t.notMatch(JSON.stringify(result), /granted/);
      }
      await rail.close();
    }
  }
  t.equal(sent, 0);
});

t.test(
  'two processes whose tokens revoke each other fail nothing, and make no storm of tokens',
  async (t) => {
    let minted = 0;
    const revokes = createServer((request, response) => {
      response.setHeader('content-type', 'application/json');
      if (request.url?.includes('token') === true) {
        response.end(JSON.stringify({ access_token: `t${++minted}`, expires_in: 180 }));
      } else if (request.headers.authorization !== `Bearer t${minted}`) {
        response.writeHead(401).end('{"message":"an old token"}');
      } else if (request.url?.includes('collection') === true) {
        response.writeHead(202).end();
      } else {
        response.end('{"data":{"transaction":{"status":"SUCCESS"}},"status":{"success":true}}');
      }
    });
    await new Promise<void>((resolve) => revokes.listen(0, '127.0.0.1', resolve));
    const baseUrl = `http://127.0.0.1:${(revokes.address() as AddressInfo).port}`;
    let now = Date.now();
    const common = { ...RAIL, baseUrl, clock: { ...systemClock, now: () => now } } as const;
    const mtn = (): Rail =>
      new MtnRail({
        ...common,
        id: 'mtn_shared',
        targetEnvironment: 'mtnuganda',
        collection: { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' },
        disbursement: null,
        callbackUrl: () => null,
      });
    const airtel = (): Rail =>
      new AirtelRail({
        ...common,
        id: 'airtel_shared',
        clientId: 'a',
        clientSecret: 'b',
        collectionApi: 'v1',
        disbursement: null,
      });
    for (const [ours, theirs] of [
      [mtn(), mtn()],
      [airtel(), airtel()],
    ] as const) {
      minted = 0;
      const transaction = transactionOf();
      t.equal((await ours.submit(transactionOf())).type, 'accepted');
      t.equal((await theirs.submit(transactionOf())).type, 'accepted', 'with a token that revokes ours');
      t.hasStrict(await ours.submit(transaction), { type: 'not_accepted' }, 'ours was just made');
      t.equal((await ours.enquire(transaction)).type, 'unknown');
      t.equal(minted, 2, 'no storm');
      now += LIMITS.railTokenRetryMs;
      t.equal((await ours.submit(transaction)).type, 'accepted', 'the same reference, with a new token');
      t.equal(minted, 3);
      await Promise.all([ours.close(), theirs.close()]);
    }
    revokes.closeAllConnections();
    await new Promise((resolve) => revokes.close(resolve));
  },
);

t.test('a storm of 503, then fair weather', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const rail = rails.rail(`${network.toLowerCase()}_ug`);
    const provider = network.toLowerCase();
    await rail.submit(transactionOf({ network }));
    await rails.control('POST', '/simulator/answers', { provider, on: 'any', status: 503, times: 40 });
    const transactions = Array.from({ length: 40 }, () => transactionOf({ network }));
    const answers = await Promise.all(transactions.map(async (transaction) => rail.submit(transaction)));
    t.ok(answers.every(({ type }) => type === (network === 'MTN' ? 'unknown' : 'not_accepted')));
    await rails.control('DELETE', '/simulator/forced');
    for (const transaction of transactions) {
      t.equal((await rail.enquire(transaction)).type, 'not_found', 'none was accepted');
      t.equal((await rail.submit(transaction)).type, 'accepted', 'the same reference is taken now');
    }
  }
});

t.test('the answer to a submit is lost: the same reference finds what was accepted', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    for (const type of ['CHARGE', 'PAYOUT'] as const) {
      const transaction = transactionOf({ network, type });
      const rail = rails.rail(transaction.provider);
      const lost = { msisdn: transaction.msisdn.slice(-9), on: 'submit', drop: true, afterEffect: true };
      await rails.control('POST', '/simulator/answers', lost);
      t.equal((await rail.submit(transaction)).type, 'unknown');
      const again = await rail.submit(transaction);
      t.match(again.type, /accepted|unknown/, 'a duplicate fails nothing');
      t.equal((await outcomeOf(rail, transaction)).type, 'succeeded');
      const { data } = await rails.control('GET', '/simulator/transactions?limit=1000');
      const made = (data as { msisdn: string }[]).filter(({ msisdn }) => transaction.msisdn.endsWith(msisdn));
      t.equal(made.length, 1, 'one payment');
    }
  }
});

t.test('a refusal that is cut off before what it says refuses nothing', async (t) => {
  const token = '{"access_token":"t","expires_in":"3600"}';
  let head = '';
  const cuts = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (request) => {
      if (!request.includes('X-Target-Environment') && !request.includes('X-Country')) {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${token.length}\r\n\r\n${token}`);
      } else {
        socket.end(`HTTP/1.1 ${head}\r\n\r\n`);
      }
    });
  });
  await new Promise<void>((resolve) => cuts.listen(0, '127.0.0.1', resolve));
  t.teardown(() => cuts.close());
  const baseUrl = `http://127.0.0.1:${(cuts.address() as AddressInfo).port}`;
  const mtn = new MtnRail({
    ...RAIL,
    id: 'mtn_cut',
    baseUrl,
    targetEnvironment: 'mtnuganda',
    collection: { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' },
    disbursement: null,
    callbackUrl: () => null,
  });
  const airtel = new AirtelRail({
    ...RAIL,
    id: 'airtel_cut',
    baseUrl,
    clientId: 'a',
    clientSecret: 'b',
    collectionApi: 'v1',
    disbursement: null,
  });
  t.teardown(() => Promise.all([mtn.close(), airtel.close()]));
  for (const [rail, announced, type] of [
    [mtn, '400 Bad Request\r\nContent-Length: 0', 'failed'],
    // What follows may be RESOURCE_ALREADY_EXIST: MTN has it.
    [mtn, '400 Bad Request', 'unknown'],
    [mtn, '400 Bad Request\r\nContent-Length: 33', 'unknown'],
    [mtn, '400 Bad Request\r\nTransfer-Encoding: chunked', 'unknown'],
    [mtn, '409 Conflict', 'unknown'],
    [mtn, '429 Too Many Requests', 'unknown'],
    [mtn, '202 Accepted', 'accepted'],
    [airtel, '503 Service Unavailable\r\nContent-Length: 0', 'not_accepted'],
    [airtel, '503 Service Unavailable', 'unknown'],
    [airtel, '429 Too Many Requests', 'unknown'],
  ] as const) {
    head = announced;
    t.equal((await rail.submit(transactionOf())).type, type, announced);
  }
});

t.test('a provider that hangs, drips or is not there', async (t) => {
  const hangs = createServer((request, response) => {
    if (request.url?.includes('token') === true) {
      response.setHeader('content-type', 'application/json');
      response.end('{"access_token":"t","expires_in":"3600"}');
    } else if (request.method === 'GET') {
      response.write('{');
      const drip = setInterval(() => response.write(' '), 50);
      response.on('close', () => clearInterval(drip));
    }
  });
  await new Promise<void>((resolve) => hangs.listen(0, '127.0.0.1', resolve));
  const { port } = hangs.address() as AddressInfo;
  const railTo = (baseUrl: string) =>
    new MtnRail({
      ...RAIL,
      id: 'mtn_slow',
      baseUrl,
      answerMs: 1_000,
      targetEnvironment: 'mtnuganda',
      collection: { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' },
      disbursement: null,
      callbackUrl: () => null,
    });
  const slow = railTo(`http://127.0.0.1:${port}`);
  t.hasStrict(await slow.submit(transactionOf()), { type: 'unknown' }, 'it hangs: nobody knows');
  t.hasStrict(await slow.enquire(transactionOf()), { type: 'unknown' }, 'it drips: no answer');
  hangs.closeAllConnections();
  await new Promise((resolve) => hangs.close(resolve));
  const gone = railTo(`http://127.0.0.1:${port}`);
  t.hasStrict(await gone.submit(transactionOf()), { type: 'not_accepted' }, 'not there: it was not sent');
  await Promise.all([slow.close(), gone.close()]);
});

t.test(
  'an answer that never begins, or comes byte by byte, is given up: its time and memory are bounded',
  async (t) => {
    const pieces = (count: number): string =>
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\n \r\n'.repeat(count)}0\r\n\r\n`;
    const odd = createTcpServer((socket) => {
      let telling: NodeJS.Timeout | undefined;
      socket.on('error', () => {});
      socket.on('close', () => clearInterval(telling));
      socket.on('data', (request) => {
        const [, path = ''] = request.toString('latin1').split(' ');
        if (path === '/stalls') {
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{');
          return;
        }
        if (path !== '/never') {
          socket.write(pieces(Number(path.slice(1))));
          return;
        }
        let told = 0;
        telling = setInterval(() => {
          socket.write(`HTTP/1.1 ${++told < 40 ? '102 Processing' : '204 No Content'}\r\n\r\n`);
        }, 50);
      });
    });
    await new Promise<void>((resolve) => odd.listen(0, '127.0.0.1', resolve));
    const baseUrl = `http://127.0.0.1:${(odd.address() as AddressInfo).port}`;
    const get = async (path: string, answerMs: number): Promise<HttpResult> => {
      const http = new HttpClient({ baseUrl, connections: 1, answerMs });
      const result = await http.request({ method: 'GET', path, headers: {}, body: null });
      await http.close();
      return result;
    };
    t.hasStrict(await get('/never', 500), { type: 'lost', reason: 'the answer took too long' });
    const startedAt = performance.now();
    t.hasStrict(await get('/stalls', 500), { type: 'lost' });
    const tookMs = performance.now() - startedAt;
    t.ok(tookMs < 30_000, `${tookMs} ms`);
    t.match(await get('/2000', 15_000), { type: 'answer', text: /^ {2000}$/ });
    t.hasStrict(await get('/3000', 15_000), { type: 'lost', reason: 'the answer is too long' });
    await new Promise((resolve) => odd.close(resolve));
  },
);

t.test('an address that takes a second to accept is waited for, though its host has another', async (t) => {
  const get = async (): Promise<HttpResult> => {
    const { port, letGo } = await listenSlowly(t);
    const http = new HttpClient({
      baseUrl: `http://pay.example.com:${port}`,
      connections: 1,
      answerMs: 15_000,
      lookup: (_hostname, _options, callback) => {
        callback(null, [...SLOW_AND_REFUSED]);
        letGo();
      },
    });
    t.teardown(() => http.close());
    return http.request({ method: 'GET', path: '/', headers: {}, body: null });
  };
  const result = await inThreeTries(get, ({ type }) => type === 'answer');
  t.hasStrict(result, { type: 'answer', status: 200, text: 'ok' });
});

t.test('a host is looked up once for all connections that wait for it, and anew after that', async (t) => {
  const { port } = new URL(
    await providerOf(t, (_request, response) => {
      response.writeHead(200, { connection: 'close' }).end('ok');
    }),
  );
  const asked: (() => void)[] = [];
  const http = new HttpClient({
    baseUrl: `http://pay.example.com:${port}`,
    connections: 3,
    answerMs: 15_000,
    lookup: (_hostname, _options, callback) => {
      asked.push(() => callback(null, [{ address: '127.0.0.1', family: 4 }]));
    },
  });
  t.teardown(() => http.close());
  const get = () => http.request({ method: 'GET', path: '/', headers: {}, body: null });
  for (const [lookUps, count] of [
    [1, 3],
    [2, 1],
  ] as const) {
    const all = Promise.all(Array.from({ length: count }, get));
    await until(
      () => asked.length,
      (length) => length >= lookUps,
    );
    t.equal(asked.length, lookUps);
    asked.at(-1)?.();
    t.ok((await all).every(({ type }) => type === 'answer'));
  }
  t.equal(asked.length, 2);
});

t.test('signed collections, both paddings of the PIN, and keys that rotate', async (t) => {
  for (const padding of ['pkcs1', 'oaep-sha256'] as const) {
    const app = await rails.control('POST', '/portal/airtel/apps', {
      country: 'UG',
      currency: 'UGX',
      signed: true,
      pin_padding: padding,
    });
    const railWith = (pin: string, collectionApi: 'v1' | 'v2'): AirtelRail =>
      new AirtelRail({
        id: 'airtel_signed',
        country: 'UG',
        currency: 'UGX',
        baseUrl: rails.simulator.url,
        maxConcurrency: 8,
        answerMs: 60_000,
        amountDecimals: 0,
        notFoundGraceMs: 60_000,
        forgetful: false,
        clock: systemClock,
        clientId: String(app['client_id']),
        clientSecret: String(app['client_secret']),
        collectionApi,
        disbursement: { pin, padding, publicKey: String(app['pin_public_key']) },
      });
    const rail = railWith(String(app['pin']), 'v2');
    const wrongPin = railWith('0000', 'v1');
    t.teardown(() => Promise.all([rail.close(), wrongPin.close()]));
    for (const type of ['CHARGE', 'PAYOUT'] as const) {
      const transaction = transactionOf({ network: 'AIRTEL', type });
      t.equal((await rail.submit(transaction)).type, 'accepted', `${type}, ${padding}`);
      t.equal((await outcomeOf(rail, transaction)).type, 'succeeded');
    }
    await rails.control('POST', '/simulator/rotate-keys');
    const atOnce = Array.from({ length: 8 }, () => rail.submit(transactionOf({ network: 'AIRTEL' })));
    t.ok(
      (await Promise.all(atOnce)).every(({ type }) => type === 'accepted'),
      'with the new key, also those that were refused at the same time',
    );

    const unsigned = await wrongPin.submit(transactionOf({ network: 'AIRTEL' }));
    t.hasStrict(unsigned, {
      type: 'failed',
      failureCode: 'provider_rejected',
      providerStatus: 'DP00800001026',
    });
    const refused = await wrongPin.submit(transactionOf({ network: 'AIRTEL', type: 'PAYOUT' }));
    t.hasStrict(refused, { type: 'failed', failureCode: 'provider_rejected', providerStatus: 'ROUTER115' });
  }
});

t.test('a published key that signs nothing sends nothing', async (t) => {
  const oneOfRsa = (modulus: string, exponent: string): KeyObject =>
    createPublicKey({ key: { kty: 'RSA', n: modulus, e: exponent }, format: 'jwk' });
  const keys = [
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey,
    // OpenSSL reads them, and encrypts with none.
    oneOfRsa('_'.repeat(4_000), 'AQAB'),
    oneOfRsa('_'.repeat(700), '_'.repeat(100)),
  ];
  let key = '';
  const baseUrl = await providerOf(t, (request, response) => {
    const isToken = request.url?.includes('token') === true;
    response.end(JSON.stringify(isToken ? { access_token: 't' } : { data: { key } }));
  });
  const rail = new AirtelRail({
    ...RAIL,
    id: 'airtel_odd',
    baseUrl,
    clientId: 'a',
    clientSecret: 'b',
    collectionApi: 'v2',
    disbursement: null,
  });
  t.teardown(() => rail.close());
  for (const published of keys) {
    key = published.export({ type: 'spki', format: 'der' }).toString('base64');
    t.match(await rail.submit(transactionOf()), { type: 'not_accepted', reason: /no usable key/ });
  }
});

t.test('what keeps a collection from being signed is told, and nothing is sent', async (t) => {
  let status = 200;
  let answer = '';
  const baseUrl = await providerOf(t, (request, response) => {
    if (request.url?.includes('token') === true) response.end('{"access_token":"t"}');
    else if (status === 0) response.destroy();
    else response.writeHead(status).end(answer);
    t.notMatch(request.url, /merchant/);
  });
  const airtel = { id: 'airtel_odd', clientId: 'a', clientSecret: 'b', disbursement: null } as const;
  const rail = new AirtelRail({ ...RAIL, ...airtel, baseUrl, collectionApi: 'v2' });
  const gone = new AirtelRail({ ...RAIL, ...airtel, baseUrl: 'http://127.0.0.1:1', collectionApi: 'v2' });
  t.teardown(() => Promise.all([rail.close(), gone.close()]));
  const CASES = [
    [0, '', { type: 'not_accepted', reason: /no usable key.*closed/ }],
    [200, '{"data":{"transaction":{"status":"TS"}}}', { type: 'not_accepted', reason: /no usable key/ }],
    [404, '<html>a firewall</html>', { type: 'not_accepted', reason: /no usable key.*HTTP 404: <html>/ }],
    [503, '', { type: 'not_accepted', reason: /no usable key.*HTTP 503/ }],
    [400, '{"status_code":"ROUTER007"}', { failureCode: 'provider_rejected', providerStatus: 'ROUTER007' }],
  ] as const;
  for (const [answered, body, expected] of CASES) {
    status = answered;
    answer = body;
    t.match(await rail.submit(transactionOf()), expected, `${status} ${answer}`);
  }
  for (const [answered, detail] of [
    [0, /none: .*closed/],
    [503, /none, or not an RSA key: HTTP 503/],
  ] as const) {
    status = answered;
    let last: CheckResult | undefined;
    for await (const result of rail.check(null)) last = result;
    t.match(last, { what: 'signing key', ok: false, detail });
  }
  t.match(await gone.submit(transactionOf()), { type: 'not_accepted', reason: /ECONNREFUSED/ });
});
