// What is certainly not sent is said to be so, and nothing else is: names that lead nowhere, certificates of somebody else, servers
// that speak no TLS; and what breaks once the call is on its way. Real sockets.
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type LookupFunction, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import t, { type Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { HttpClient, type HttpResult } from '../../src/rails/http-client.ts';
import { MtnRail } from '../../src/rails/mtn.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { until } from '../until.ts';
import { transactionOf } from './rails-setup.ts';
import { makeCertificate } from './webhooks-receiver.ts';

async function portOf(t: Test, server: Server, host = '127.0.0.1'): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

function clientOf(
  t: Test,
  baseUrl: string,
  lookup?: LookupFunction,
  answerMs = 60_000,
): () => Promise<HttpResult> {
  const http = new HttpClient({ baseUrl, connections: 1, answerMs, lookup });
  t.teardown(() => http.close());
  return () => http.request({ method: 'POST', path: '/pay', headers: {}, body: '{"amount":"500"}' });
}

const RAIL = {
  country: 'KE',
  currency: 'KES',
  maxConcurrency: 1,
  answerMs: 60_000,
  notFoundGraceMs: 1_000,
  forgetful: false,
} as const;

function mtnAt(baseUrl: string, clock = systemClock): MtnRail {
  const collection = { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' };
  const options = {
    ...RAIL,
    clock,
    baseUrl,
    id: 'mtn',
    targetEnvironment: 'a',
    collection,
    disbursement: null,
  };
  return new MtnRail({ ...options, callbackUrl: () => null });
}

function airtelAt(baseUrl: string, clock = systemClock): AirtelRail {
  const credentials = { clientId: 'a', clientSecret: 'b', collectionApi: 'v1', disbursement: null } as const;
  return new AirtelRail({ ...RAIL, clock, ...credentials, baseUrl, id: 'airtel', amountDecimals: 2 });
}

const ACCEPTED = 'HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n';

t.test('a name that leads nowhere', async (t) => {
  for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
    const pay = clientOf(t, 'http://pay.example.com', (_hostname, _options, callback) => {
      callback(Object.assign(new Error(`getaddrinfo ${code}`), { code }), '', 4);
    });
    t.match(await pay(), { type: 'not_sent', reason: new RegExp(code) });
  }
  // The timers of a connection keep no process.
  const stay = setInterval(() => {}, 1_000);
  t.teardown(() => clearInterval(stay));
  const never = clientOf(t, 'http://pay.example.com', () => {}, 2_000);
  t.match(await never(), { type: 'not_sent' }, 'a name server that never answers');
});

t.test('a server with the certificate of another, and one without TLS', async (t) => {
  let received = 0;
  const tls = createTlsServer(await makeCertificate(), (socket) => socket.on('data', () => received++));
  tls.on('tlsClientError', () => {});
  t.match(await clientOf(t, `https://localhost:${await portOf(t, tls)}`)(), {
    type: 'not_sent',
    reason: /CERT/,
  });
  const plain = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      if (bytes.includes('amount')) received++;
      socket.end(ACCEPTED);
    });
  });
  t.match(await clientOf(t, `https://localhost:${await portOf(t, plain)}`)(), { type: 'not_sent' });
  t.equal(received, 0);
});

t.test('a connection that breaks under a call, and one that was closed before it', async (t) => {
  let paid = 0;
  let onCall: (socket: Socket) => void = () => {};
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => {
      paid++;
      onCall(socket);
    });
  });
  const pay = clientOf(t, `http://127.0.0.1:${await portOf(t, server)}`);
  onCall = (socket) => socket.write(ACCEPTED);
  t.match(await pay(), { type: 'answer', status: 202 });
  onCall = (socket) => socket.resetAndDestroy();
  t.match(await pay(), { type: 'lost' }, 'on the connection of the call before');
  // Without a word that it will be: whoever comes next takes another.
  onCall = (socket) => socket.end(ACCEPTED);
  for (let i = 0; i < 20; i++) t.match(await pay(), { type: 'answer', status: 202 });
  t.equal(paid, 22, 'none was sent twice');
});

t.test('an answer to nothing is not taken for that of the next call', async (t) => {
  let calls = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => {
      const status = ++calls === 1 ? '202 Accepted' : '503 Service Unavailable';
      socket.write(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`);
      // It has given up on a call that it has answered.
      if (calls === 1) socket.write('HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n');
    });
  });
  const pay = clientOf(t, `http://127.0.0.1:${await portOf(t, server)}`);
  t.match(await pay(), { type: 'answer', status: 202 });
  const second = await pay();
  t.ok(second.type === 'lost' || (second.type === 'answer' && second.status === 503), JSON.stringify(second));
});

t.test('what is not to be sent any more when its token, or a connection, is there', async (t) => {
  const paths: string[] = [];
  let grant: () => void = () => {};
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (request) => {
      const [, path = ''] = request.toString('latin1').split(' ');
      paths.push(path);
      const text = '{"access_token":"t","expires_in":"180"}';
      grant = () => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
      if (!path.includes('token')) socket.end(ACCEPTED);
    });
  });
  const baseUrl = `http://127.0.0.1:${await portOf(t, server)}`;
  for (const rail of [mtnAt(baseUrl), airtelAt(baseUrl)]) {
    t.teardown(() => rail.close());
    paths.length = 0;
    let isToBeSent = true;
    const submitted = rail.submit(transactionOf({ country: 'KE' }), () => isToBeSent);
    await until(
      () => paths.length,
      (asked) => asked === 1,
    );
    isToBeSent = false;
    grant();
    t.match(await submitted, { type: 'not_accepted', reason: /not to be sent/ });
    t.equal(paths.length, 1, 'its token alone was asked for');
    await rail.submit(transactionOf({ country: 'KE' }), () => true);
    t.equal(paths.length, 2);
  }
});

t.test('a host that is an IPv6 address', async (t) => {
  let head = '';
  const server = createServer((socket) => {
    socket.on('data', (request) => {
      head = request.toString('latin1');
      socket.end(ACCEPTED);
    });
  });
  const port = await portOf(t, server, '::1').catch(() => null);
  if (port === null) {
    t.pass('no IPv6 here');
    return;
  }
  t.match(await clientOf(t, `http://[::1]:${port}/momo/`)(), { type: 'answer', status: 202 });
  t.match(head, `POST /momo/pay HTTP/1.1\r\nhost: [::1]:${port}\r\n`);
});

t.test('a request that cannot be sent takes no connection from others', async (t) => {
  const port = await portOf(
    t,
    createHttpServer((_request, response) => response.end('ok')),
  );
  const http = new HttpClient({ baseUrl: `http://127.0.0.1:${port}`, connections: 1, answerMs: 60_000 });
  t.teardown(() => http.close());
  const get = (key: string): Promise<HttpResult> =>
    http.request({ method: 'GET', path: '/', headers: { 'X-Key': key }, body: null });
  const reason = 'X-Key has a character that cannot be sent';
  for (const key of ['one\ntwo', 'Łódź']) t.hasStrict(await get(key), { type: 'not_sent', reason });
  t.hasStrict(await get('one two'), { type: 'answer' });
});

t.test('a token that no request can carry is none: the next one may be', async (t) => {
  let token = '';
  const server = createHttpServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.url?.includes('token') === true) {
      response.end(JSON.stringify({ access_token: token, expires_in: 1e300 }));
    } else if (request.url?.includes('collection') === true) {
      response.writeHead(202).end();
    } else {
      response.end('{"data":{"transaction":{"status":"SUCCESS"}},"status":{"success":true}}');
    }
  });
  const baseUrl = `http://127.0.0.1:${await portOf(t, server)}`;
  let now = Date.now();
  const clock = { ...systemClock, now: () => now };
  for (const rail of [mtnAt(baseUrl, clock), airtelAt(baseUrl, clock)]) {
    t.teardown(() => rail.close());
    for (token of ['t\u0001', 'one\r\nX-Reference-Id: two', 'Łódź', 'one two']) {
      t.equal(
        (await rail.submit(transactionOf({ country: 'KE' }))).type,
        'not_accepted',
        JSON.stringify(token),
      );
      now += LIMITS.railTokenRetryMs;
    }
    token = 'a-._~+/9==';
    t.equal((await rail.submit(transactionOf({ country: 'KE' }))).type, 'accepted');
  }
});
