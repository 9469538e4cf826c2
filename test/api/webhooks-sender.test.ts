// One delivery attempt against real HTTPS endpoints that answer well, badly, slowly, endlessly or not at all. Where it goes is in
// webhooks-names.test.ts.

import { once } from 'node:events';
import net from 'node:net';
import { setImmediate } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { Stripe } from 'stripe';
import t from 'tap';
import type { ErrorClass, SendResult } from '../../actors/webhooks/sender.ts';
import { LIMITS } from '../../src/limits.ts';
import {
  BODY,
  certificate,
  LONG_MS,
  receiverFor,
  SECRET,
  send,
  senderFor,
  SHORT_MS,
} from './webhooks-attempt.ts';
import { makeCertificate, Receiver } from './webhooks-receiver.ts';
import type { Answer } from './webhooks-receiver.ts';

const otherCertificate = await makeCertificate();

// Each test has endpoints and a sender of its own, and the long ones only wait.
t.jobs = 6;
/** Of tests that keep the process busy, or listen to all of it. */
const ALONE = { buffered: false };

void t.test('the request is exactly that of the specification', async (t) => {
  const receiver = await receiverFor(t);
  const result = await send(senderFor(t), `https://localhost:${receiver.port}/hook?app=7`);
  t.hasStrict(result, { error: null, statusCode: 200, excerpt: 'ok' });
  const [request] = receiver.received;
  t.equal(request!.method, 'POST');
  t.equal(request!.path, '/hook?app=7');
  t.same(request!.headers, {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(BODY)),
    'user-agent': 'Service-Webhooks/1.0',
    'service-signature': request!.headers['service-signature'],
    'service-event-id': 'evt_1',
    'service-event-type': 'charge.successful',
    host: `localhost:${receiver.port}`,
    connection: 'keep-alive',
  });
  t.equal(request!.body.toString('utf8'), BODY);
});

void t.test('an independent verifier accepts the signature, and nothing that was changed', async (t) => {
  const receiver = await receiverFor(t);
  await send(senderFor(t), `https://localhost:${receiver.port}/`);
  const { headers, body } = receiver.received[0]!;
  const header = String(headers['service-signature']);
  const stripe = new Stripe('sk_test_unused');
  t.hasStrict(stripe.webhooks.constructEvent(body, header, SECRET, 300), { id: 'evt_1' });
  t.throws(() =>
    stripe.webhooks.constructEvent(Buffer.concat([body, Buffer.from(' ')]), header, SECRET, 300),
  );
  t.throws(
    () => stripe.webhooks.constructEvent(body, header, SECRET.replace('whsec_', ''), 300),
    'the whole secret',
  );
  t.throws(() => stripe.webhooks.constructEvent(body, header.replace(/v1=./, 'v1=x'), SECRET, 300));
});

void t.test('each attempt is signed at its own time', async (t) => {
  const receiver = await receiverFor(t);
  let now = 1_700_000_000_999;
  const sender = senderFor(t, { clock: () => now });
  await send(sender, `https://localhost:${receiver.port}/`);
  now += 30_000;
  await send(sender, `https://localhost:${receiver.port}/`);
  const times = receiver.received.map(({ headers }) => String(headers['service-signature']).split(',')[0]);
  t.same(times, ['t=1700000000', 't=1700000030']);
});

const LONG = { 'X-Debug': 'x'.repeat(60_000) };
const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n';
const says =
  (answer: string): Answer =>
  (_request, _response, socket) =>
    socket.write(`HTTP/1.1 ${answer}`);

const ANSWERS: readonly (readonly [
  what: string,
  answer: Answer,
  error: ErrorClass | null,
  status: number | null,
])[] = [
  ['200', (_q, response) => response.writeHead(200).end('{}'), null, 200],
  ['201', (_q, response) => response.writeHead(201).end(), null, 201],
  ['200 and long headers', (_q, response) => response.writeHead(200, LONG).end('{}'), null, 200],
  ['204 without a body', (_q, response) => response.writeHead(204).end(), null, 204],
  ['301', (_q, response) => response.writeHead(301, { Location: '/elsewhere' }).end(), 'http_status', 301],
  ['302', (_q, response) => response.writeHead(302, { Location: '/elsewhere' }).end(), 'http_status', 302],
  ['307', (_q, response) => response.writeHead(307, { Location: '/elsewhere' }).end(), 'http_status', 307],
  [
    '308',
    (_q, response) => response.writeHead(308, { Location: 'https://127.0.0.1/' }).end(),
    'http_status',
    308,
  ],
  ['400', (_q, response) => response.writeHead(400).end('bad signature'), 'http_status', 400],
  ['404', (_q, response) => response.writeHead(404).end(), 'http_status', 404],
  ['410', (_q, response) => response.writeHead(410).end(), 'http_status', 410],
  ['500', (_q, response) => response.writeHead(500).end('<html>'), 'http_status', 500],
  ['503', (_q, response) => response.writeHead(503, { 'Retry-After': '5' }).end(), 'http_status', 503],
  ['no answer', () => {}, 'timeout', null],
  ['headers that drip', (_q, _r, socket) => drip(socket, 'HTTP/1.1 200 OK\r\nX-Slow: '), 'timeout', null],
  [
    '100 Continue for ever',
    (_q, _r, socket) => drip(socket, '', 'HTTP/1.1 100 Continue\r\n\r\n'),
    'timeout',
    null,
  ],
  ['a reset before the answer', (_q, _r, _s, reset) => reset(), 'connection_reset', null],
  ['a close before the answer', (_q, _r, socket) => socket.end(), 'connection_reset', null],
  ['garbage', (_q, _r, socket) => socket.end('I am not HTTP\r\n\r\n'), 'invalid_response', null],
  ['endless headers', (_q, _r, socket) => socket.write(bigHeaders), 'invalid_response', null],
  ['a switch of protocols', (_q, _r, socket) => socket.write(upgrade), 'invalid_response', 101],
  ['a status that is none', says('2000 OK\r\nContent-Length: 0\r\n\r\n'), 'invalid_response', null],
  ['200 and lines that end in LF alone', says('200 OK\nContent-Length: 2\n\nok'), null, 200],
  ['500 and lines that end in LF alone', says('500 Oh\nContent-Length: 2\n\nno'), 'http_status', 500],
  ['200 and its length twice', says('200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n'), null, 200],
  ['200 and a length that is none', says('200 OK\r\nContent-Length: -1\r\n\r\n'), null, 200],
  ['200 in HTTP/1.0', (_q, _r, socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nok'), null, 200],
  [
    '200 and endless trailers',
    says(`200 OK\r\n${CHUNKED}0\r\n${'X-Big: 0123456789\r\n'.repeat(8_000)}`),
    null,
    200,
  ],
  [
    '200 after early hints',
    says('103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
    null,
    200,
  ],
  ['200 and two lengths', says(`200 OK\r\nContent-Length: 2\r\n${CHUNKED}2\r\nok\r\n0\r\n\r\n`), null, 200],
  ['200 and a folded line', says('200 OK\r\nX-By: a\r\n b\r\nContent-Length: 0\r\n\r\n'), null, 200],
  [
    '200 and a line that is none',
    says('200 OK\r\nWarning in line 3\r\nContent-Length: 0\r\n\r\n'),
    null,
    200,
  ],
  [
    '200 and, later than that, a line that is none',
    (_q, _r, socket) => {
      socket.write('HTTP/1.1 200 OK\r\nDate: today\r\n');
      socket.write('Warning in line 3\r\nContent-Length: 0\r\n\r\n');
    },
    null,
    200,
  ],
  [
    '200 and such a line, after early hints',
    (_q, _r, socket) => {
      socket.write('HTTP/1.1 103 Early Hints\r\n\r\n');
      socket.write('HTTP/1.1 200 OK\r\nWarning in line 3\r\n\r\n');
    },
    null,
    200,
  ],
];

const bigHeaders = `HTTP/1.1 200 OK\r\n${'X-Big: 0123456789\r\n'.repeat(8_000)}`;
const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';

/** Writes a little every 50 ms until the other side is gone. */
function drip(stream: NodeJS.WritableStream & { destroyed?: boolean }, first = 'x', each = 'x'): void {
  stream.write(first);
  const timer = setInterval(() => {
    if (stream.destroyed === true) clearInterval(timer);
    else stream.write(each);
  }, 50);
  stream.on('close', () => clearInterval(timer));
}

for (const [what, answer, error, statusCode] of ANSWERS) {
  void t.test(`an endpoint that answers with ${what}`, async (t) => {
    const receiver = await receiverFor(t, answer);
    const sender = senderFor(t, { attemptMs: error === 'timeout' ? SHORT_MS : LONG_MS });
    const result = await send(sender, `https://localhost:${receiver.port}/hook`);
    t.hasStrict(result, { error, statusCode });
    t.equal(receiver.received.length, 1, 'asked once');
    const inTime = result.durationMs >= SHORT_MS - 5 && result.durationMs < LONG_MS;
    if (error === 'timeout') {
      t.ok(inTime, `${result.durationMs} ms`);
      t.equal(result.excerpt, `No answer within ${SHORT_MS} ms: the request was sent.`);
    }
    if (statusCode === null) t.type(result.excerpt, 'string', 'says what went wrong');
  });
}

void t.test('the excerpt of an answer that cannot be parsed is what came of it', async (t) => {
  const receiver = await receiverFor(t, says('500 Oh\nContent-Length: 2\n\nno'));
  const sender = senderFor(t);
  const { excerpt } = await send(sender, `https://localhost:${receiver.port}/`);
  t.equal(excerpt, 'HTTP/1.1 500 Oh\nContent-Length: 2\n\nno');
  receiver.answer = (_request, _response, socket) => {
    for (const part of ['HTTP/1.1 500 Oh\r\n', 'Warning in line 3\r\n']) socket.write(part);
  };
  const inParts = await send(sender, `https://localhost:${receiver.port}/`);
  t.hasStrict(inParts, { statusCode: 500, excerpt: 'HTTP/1.1 500 Oh\r\nWarning in line 3\r\n' });
});

/** Bodies of which the end never comes: a body is ignored (specification part 6), so the status counts. */
const BROKEN_BODIES: readonly (readonly [what: string, answer: Answer, excerpt: RegExp])[] = [
  ['stops', (_q, response) => response.write('a'), /^a$/],
  ['drips', (_q, response) => drip(response), /^x+$/],
  ['ends in a reset', (_q, response, _s, reset) => response.write('half', reset), /^(?:half)?$/],
  ['is shorter than it says', (_q, _r, socket) => socket.end('5\r\nshort\r\n'), /^short$/],
  ['is not in chunks as it says', (_q, _r, socket) => socket.write('5\r\nshort\r\nmore\r\n'), /^short$/],
];

for (const [what, answer, excerpt] of BROKEN_BODIES) {
  void t.test(`the status of an answer counts though its body ${what}`, async (t) => {
    for (const [status, error] of [
      [200, null],
      [500, 'http_status'],
    ] as const) {
      const receiver = await receiverFor(t, (request, response, ...rest) => {
        response.writeHead(status, { 'Transfer-Encoding': 'chunked' }).flushHeaders();
        answer(request, response, ...rest);
      });
      const sender = senderFor(t, { attemptMs: SHORT_MS });
      const result = await send(sender, `https://localhost:${receiver.port}/hook`);
      t.hasStrict(result, { error, statusCode: status });
      t.match(result.excerpt, excerpt);
      receiver.answer = (_q, response) => response.writeHead(200).end('ok');
      const next = await send(sender, `https://localhost:${receiver.port}/hook`);
      t.hasStrict(next, { error: null, statusCode: 200, excerpt: 'ok' });
    }
  });
}

/** Answers at once, also while this thread stands still, and counts its answers. */
const ENDPOINT = `
  const { createServer } = require('node:http');
  const { parentPort, workerData: answered } = require('node:worker_threads');
  const server = createServer((request, response) => {
    response.on('finish', () => Atomics.add(answered, 0, 1));
    request.resume().on('end', () => response.writeHead(200).end('ok'));
  });
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

void t.test(
  'what was answered in time counts, though this process stood still meanwhile',
  ALONE,
  async (t) => {
    const answered = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(ENDPOINT, { eval: true, workerData: answered });
    t.teardown(() => worker.terminate());
    const [port] = (await once(worker, 'message')) as [number];
    const attemptMs = 200;
    const sender = senderFor(t, { attemptMs });
    const url = `http://127.0.0.1:${port}/`;
    // Over a connection that is kept, the request leaves at once.
    while ((await send(sender, url)).error !== null);
    await setImmediate();
    const before = Atomics.load(answered, 0);
    const startedAt = performance.now();
    const sent = send(sender, url);
    await setImmediate();
    while (Atomics.load(answered, 0) === before || performance.now() <= startedAt + attemptMs);
    t.hasStrict(await sent, { error: null, statusCode: 200, excerpt: 'ok' });
  },
);

void t.test('the time-out of the service is 10 seconds in total', (t) => {
  t.equal(LIMITS.webhookAttemptMs, 10_000);
  t.end();
});

void t.test('an endpoint that takes the connection and never speaks TLS', async (t) => {
  let closed: Promise<unknown> = Promise.reject(new Error('nobody connected'));
  closed.catch(() => {});
  const server = net.createServer((socket) => {
    closed = new Promise((resolve) => {
      socket.resume().on('close', resolve);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as net.AddressInfo;
  const sender = senderFor(t, { attemptMs: SHORT_MS });
  const excerpt = /: the connection was accepted, TLS not agreed\.$/;
  t.match(await send(sender, `https://localhost:${port}/`), { error: 'timeout', statusCode: null, excerpt });
  await closed;
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

void t.test('nobody listens', async (t) => {
  const receiver = new Receiver(certificate);
  const port = await receiver.listen();
  await receiver.close();
  t.hasStrict(await send(senderFor(t), `https://localhost:${port}/`), { error: 'connect', statusCode: null });
});

void t.test('a certificate that nobody vouches for, for another name, or none at all', async (t) => {
  const receiver = await receiverFor(t);
  const sender = senderFor(t, { ca: otherCertificate.cert });
  t.hasStrict(await send(sender, `https://localhost:${receiver.port}/`), { error: 'tls', statusCode: null });
  const resolve = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]);
  const elsewhere = senderFor(t, { resolve });
  t.hasStrict(await send(elsewhere, `https://other.example.com:${receiver.port}/`), {
    error: 'tls',
    statusCode: null,
  });
  t.hasStrict(await send(elsewhere, `https://hooks.example.com:${receiver.port}/`), {
    error: null,
    statusCode: 200,
  });
  t.equal(receiver.received.length, 1, 'nothing was sent before the certificate was checked');
  const plain = new Receiver(null);
  await plain.listen();
  t.teardown(() => plain.close());
  t.hasStrict(await send(senderFor(t), `https://localhost:${plain.port}/`), {
    error: 'tls',
    statusCode: null,
  });
});

void t.test('a host with the root dot is asked for by the name that its certificate has', async (t) => {
  const named: unknown[] = [];
  const receiver = await receiverFor(t, ({ headers }, response, socket) => {
    named.push((socket as TLSSocket & { servername: unknown }).servername, headers.host);
    response.writeHead(200).end();
  });
  const resolve = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]);
  const result = await send(senderFor(t, { resolve }), `https://hooks.example.com.:${receiver.port}/`);
  t.hasStrict(result, { error: null, statusCode: 200 });
  // RFC 6066: without the dot, and some servers end the handshake where it is there.
  t.same(named, ['hooks.example.com', `hooks.example.com:${receiver.port}`]);
});

void t.test('a huge answer is read up to a bound, and its status counts', ALONE, async (t) => {
  let written = 0;
  const receiver = await receiverFor(t, (_request, response) => {
    response.writeHead(200);
    const chunk = Buffer.alloc(64 * 1024, 'é');
    const more = (): void => {
      while (!response.destroyed && written < 1024 * 1024 * 1024) {
        written += chunk.length;
        if (!response.write(chunk)) return void response.once('drain', more);
      }
    };
    more();
  });
  const result = await send(senderFor(t), `https://localhost:${receiver.port}/`);
  t.hasStrict(result, { error: null, statusCode: 200, excerpt: 'é'.repeat(2_000) });
  t.ok(written < 64 * 1024 * 1024, `${written} bytes`);
});

void t.test('an endpoint that answers and does not take the request keeps no connection', async (t) => {
  const body = 'x'.repeat(16_000_000);
  const taken = Promise.withResolvers<'whole' | 'closed'>();
  const connected = Promise.withResolvers<net.Socket>();
  const server = net.createServer({ pauseOnConnect: true }, (socket) => {
    let bytes = 0;
    socket.on('data', (chunk) => {
      bytes += chunk.length;
      if (bytes > body.length) taken.resolve('whole');
    });
    socket.on('close', () => taken.resolve('closed'));
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    connected.resolve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/`;
  const event = { eventId: 'evt_1', eventType: 'charge.successful', signingSecret: SECRET };
  const result = await senderFor(t).send({ url, body, ...event });
  t.hasStrict(result, { error: null, statusCode: 200, excerpt: 'ok' });
  const socket = await connected.promise;
  socket.resume();
  t.equal(await taken.promise, 'closed', 'more than both systems keep is never sent');
  socket.destroy();
});

const ENDLESS: readonly (readonly [what: string, first: string, each: string, SendResult['statusCode']])[] = [
  ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', null],
  ['blank lines', '', '\r\n', null],
  ['chunks of a byte', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\nx\r\n', 200],
];

for (const [what, first, each, statusCode] of ENDLESS) {
  void t.test(`${what} without end are read up to a bound`, ALONE, async (t) => {
    let written = 0;
    const receiver = await receiverFor(t, (_request, _response, socket) => {
      socket.write(first);
      const many = Buffer.from(each.repeat(1_000));
      const more = (): void => {
        while (!socket.destroyed && written < 1024 * 1024 * 1024) {
          written += many.length;
          if (!socket.write(many)) return void socket.once('drain', more);
        }
      };
      more();
    });
    const sender = senderFor(t);
    const url = `https://localhost:${receiver.port}/`;
    const error = statusCode === null ? 'invalid_response' : null;
    t.hasStrict(await send(sender, url), { error, statusCode });
    t.ok(written < 64 * 1024 * 1024, `${written} bytes`);
    receiver.answer = (_request, response) => {
      for (let i = 0; i < 10; i++) response.writeProcessing();
      response.writeHead(200).end('ok');
    };
    t.hasStrict(await send(sender, url), { error: null, statusCode: 200, excerpt: 'ok' });
  });
}

void t.test('the excerpt is the first 2,000 characters, whole ones', async (t) => {
  const answers = ['x'.repeat(5_000), 'ß'.repeat(5_000), '€'.repeat(5_000), `x${'🥑'.repeat(5_000)}`, ''];
  const expected = ['x'.repeat(2_000), 'ß'.repeat(2_000), '€'.repeat(2_000), `x${'🥑'.repeat(1_999)}`, ''];
  const receiver = await receiverFor(t, (_request, response) => response.writeHead(500).end(answers.shift()));
  const sender = senderFor(t);
  for (const excerpt of expected) {
    t.equal((await send(sender, `https://localhost:${receiver.port}/`)).excerpt, excerpt);
  }
});

void t.test('a connection is kept, and one that the endpoint closed meanwhile is no failure', async (t) => {
  const receiver = await receiverFor(t);
  const sender = senderFor(t);
  const url = `https://localhost:${receiver.port}/`;
  await send(sender, url);
  await send(sender, url);
  t.equal(receiver.connections, 1);
  const together: (() => void)[] = [];
  receiver.answer = (_request, response) => {
    together.push(() => response.writeHead(200).end('ok'));
    if (together.length === 2) for (const answer of together) answer();
  };
  await Promise.all([send(sender, url), send(sender, url)]);
  t.equal(receiver.connections, 2);
  // Closed by the endpoint at the moment of the next request: the sender cannot know.
  receiver.answer = (_request, response, _socket, reset) => {
    if (receiver.received.length === 5) reset();
    else response.writeHead(200).end('ok');
  };
  t.hasStrict(await send(sender, url), { error: null, statusCode: 200 });
  t.equal(receiver.connections, 3);
  t.equal(receiver.received.length, 6, 'sent again at once, not on the other that was kept');
});

void t.test(
  'an endpoint that took the request and broke off later does not get it again at once',
  async (t) => {
    const receiver = await receiverFor(t);
    const sender = senderFor(t, { staleMs: 0 });
    const url = `https://localhost:${receiver.port}/`;
    await send(sender, url);
    receiver.answer = (_request, _response, _socket, reset) => reset();
    t.hasStrict(await send(sender, url), { error: 'connection_reset', statusCode: null });
    t.strictSame([receiver.connections, receiver.received.length], [1, 2]);
  },
);

void t.test('nor does one that broke off in the middle of its answer', async (t) => {
  const receiver = await receiverFor(t);
  const sender = senderFor(t);
  const url = `https://localhost:${receiver.port}/`;
  await send(sender, url);
  receiver.answer = (_request, _response, socket) => socket.end('HTTP/1.1 200 OK\r\nX-');
  t.hasStrict(await send(sender, url), { error: 'connection_reset', statusCode: null });
  t.strictSame([receiver.connections, receiver.received.length], [1, 2]);
});

void t.test(
  'a busy connection is kept for a time only: then deliveries go where the name leads by now',
  async (t) => {
    const receiver = await receiverFor(t);
    const led = async (connectionMs?: number): Promise<(ErrorClass | null)[]> => {
      const addresses = ['127.0.0.1', '127.0.0.1', '127.0.0.99'];
      const resolve = () => Promise.resolve([{ address: addresses.shift() ?? '127.0.0.99', family: 4 }]);
      const sender = senderFor(t, { resolve, connectionMs });
      const ends: (ErrorClass | null)[] = [];
      for (let n = 0; n < 3; n++) {
        ends.push((await send(sender, `https://hooks.example.com:${receiver.port}/`)).error);
      }
      return ends;
    };
    t.same(await led(), [null, null, null]);
    t.same(await led(0), [null, null, 'connect'], 'nobody listens there');
  },
);

void t.test('a kept connection carries nothing of the deliveries before', ALONE, async (t) => {
  const receiver = await receiverFor(t);
  const sender = senderFor(t);
  const url = `https://localhost:${receiver.port}/`;
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on('warning', onWarning);
  t.teardown(() => process.off('warning', onWarning));
  for (let n = 0; n < 20; n++) await send(sender, url);
  t.strictSame([receiver.connections, warnings], [1, []], 'no listener stays');
  receiver.answer = (_request, _response, socket) => socket.end('I am not HTTP\r\n\r\n');
  t.hasStrict(await send(sender, url), { error: 'invalid_response', statusCode: null });
});
