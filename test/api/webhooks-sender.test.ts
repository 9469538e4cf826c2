// One delivery attempt against real HTTPS endpoints that answer well, badly, slowly, endlessly or not at all; and against
// names that resolve to where no delivery may go.

import dgram from 'node:dgram';
import net from 'node:net';
import type { TLSSocket } from 'node:tls';
import { Stripe } from 'stripe';
import t from 'tap';
import type { Test } from 'tap';
import { resolveByDns, Sender } from '../../actors/webhooks/sender.ts';
import type { ErrorClass, SenderOptions, SendResult } from '../../actors/webhooks/sender.ts';
import { readConfig } from '../../src/config.ts';
import { LIMITS } from '../../src/limits.ts';
import { guardOf } from '../../src/wiring/outbound.ts';
import { listenSlowly, SLOW_AND_REFUSED } from './slow-listener.ts';
import { makeCertificate, Receiver } from './webhooks-receiver.ts';
import type { Answer } from './webhooks-receiver.ts';

const certificate = await makeCertificate();
const otherCertificate = await makeCertificate();

const SECRET = 'whsec_4Jd8sK2mQ9';
const BODY = JSON.stringify({
  id: 'evt_1',
  object: 'event',
  data: { object: { description: 'Ebirango – ßüñ 🥑' } },
});

/** Of attempts that are to time out; the request has to reach its endpoint before. */
const SHORT_MS = 1_500;
/** Of all others: on a machine that stands still for a moment they are answered all the same. */
const LONG_MS = 20_000;

function senderFor(t: Test, options: Partial<SenderOptions> = {}): Sender {
  const sender = new Sender({
    guard: { allowPrivate: true, ports: [] },
    clock: () => Date.now(),
    ca: certificate.cert,
    attemptMs: LONG_MS,
    ...options,
  });
  t.teardown(() => sender.close());
  return sender;
}

async function receiverFor(t: Test, answer?: Answer): Promise<Receiver> {
  const receiver = new Receiver(certificate);
  if (answer !== undefined) receiver.answer = answer;
  await receiver.listen();
  t.teardown(() => receiver.close());
  return receiver;
}

function send(sender: Sender, url: string): Promise<SendResult> {
  return sender.send({
    url,
    eventId: 'evt_1',
    eventType: 'charge.successful',
    body: BODY,
    signingSecret: SECRET,
  });
}

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
  ['200 and two lengths', says(`200 OK\r\nContent-Length: 2\r\n${CHUNKED}2\r\nok\r\n0\r\n\r\n`), null, 200],
  ['200 and a folded line', says('200 OK\r\nX-By: a\r\n b\r\nContent-Length: 0\r\n\r\n'), null, 200],
  [
    '200 and a line that is none',
    says('200 OK\r\nWarning in line 3\r\nContent-Length: 0\r\n\r\n'),
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
    if (error === 'timeout') t.ok(inTime, `${result.durationMs} ms`);
    if (statusCode === null) t.type(result.excerpt, 'string', 'says what went wrong');
  });
}

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
  t.hasStrict(await send(sender, `https://localhost:${port}/`), { error: 'timeout', statusCode: null });
  await closed;
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

void t.test(
  'an address that takes a second to accept is waited for, though its name has another',
  async (t) => {
    const { port, letGo } = await listenSlowly(t);
    const resolve = () => {
      // Comes after the first SYN: from the answer to it there is no turn of the event loop.
      setImmediate(letGo);
      return Promise.resolve([...SLOW_AND_REFUSED]);
    };
    const sender = senderFor(t, { resolve, attemptMs: LIMITS.webhookAttemptMs });
    t.hasStrict(await send(sender, `http://hooks.example.com:${port}/`), { error: null, statusCode: 200 });
  },
);

void t.test('nobody listens', async (t) => {
  const receiver = new Receiver(certificate);
  const port = await receiver.listen();
  await receiver.close();
  t.hasStrict(await send(senderFor(t), `https://localhost:${port}/`), { error: 'connect', statusCode: null });
});

void t.test('of a name whose first address refuses, the next is tried', async (t) => {
  const receiver = await receiverFor(t);
  // Nobody listens at the first: the receiver is at 127.0.0.1 alone.
  const addresses = ['127.0.0.9', '127.0.0.1'].map((address) => ({ address, family: 4 }));
  const sender = senderFor(t, { resolve: () => Promise.resolve(addresses) });
  t.hasStrict(await send(sender, `https://hooks.example.com:${receiver.port}/`), {
    error: null,
    statusCode: 200,
  });
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
  // Closed by the endpoint at the moment of the next request: the sender cannot know.
  receiver.answer = (_request, response, _socket, reset) => {
    if (receiver.received.length === 3) reset();
    else response.writeHead(200).end('ok');
  };
  t.hasStrict(await send(sender, url), { error: null, statusCode: 200 });
  t.equal(receiver.connections, 2);
  t.equal(receiver.received.length, 4, 'sent again at once on a fresh connection');
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

void t.test('a literal address needs no name, in brackets or not', async (t) => {
  const receiver = await receiverFor(t);
  t.hasStrict(await send(senderFor(t), `https://127.0.0.1:${receiver.port}/`), { error: null });
  t.hasStrict(await send(senderFor(t), `https://[::1]:${receiver.port}/`), { error: 'connect' });
});

void t.test('a name that does not resolve, or for ever', async (t) => {
  const fails = senderFor(t, { resolve: () => Promise.reject(new Error('queryA ENOTFOUND')) });
  t.match(await send(fails, 'https://hooks.example.com/'), { error: 'dns', excerpt: /ENOTFOUND/ });
  const empty = senderFor(t, { resolve: () => Promise.resolve([]) });
  t.hasStrict(await send(empty, 'https://hooks.example.com/'), { error: 'dns' });
  const hangs = senderFor(t, { resolve: () => new Promise(() => {}), attemptMs: SHORT_MS });
  const result = await send(hangs, 'https://hooks.example.com/');
  t.hasStrict(result, { error: 'timeout' });
  t.ok(result.durationMs < LONG_MS, 'DNS is within the time-out');
});

const A = 1;
const AAAA = 28;

/** A name server that answers questions of the given types alone, with an address of this machine. */
async function nameServerFor(t: Test, types: readonly number[]): Promise<string> {
  const server = dgram.createSocket('udp4');
  server.on('message', (question, { port, address }) => {
    const type = question.readUInt16BE(question.indexOf(0, HEAD_BYTES) + 1);
    if (!types.includes(type)) return;
    const end = question.indexOf(0, HEAD_BYTES) + 5;
    const answer = Buffer.from(question.subarray(0, end));
    answer.set([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], 2);
    const where = type === A ? [127, 0, 0, 1] : [...Array<number>(15).fill(0), 1];
    const record = [0xc0, HEAD_BYTES, 0, type, 0, 1, 0, 0, 0, 60, 0, where.length, ...where];
    server.send(Buffer.concat([answer, Buffer.from(record)]), port, address);
  });
  await new Promise<void>((resolve) => {
    server.bind(0, '127.0.0.1', resolve);
  });
  t.teardown(() => server.close());
  return `127.0.0.1:${server.address().port}`;
}
const HEAD_BYTES = 12;

void t.test('a name is found though its name server never answers for IPv6', async (t) => {
  const receiver = await receiverFor(t);
  const both = await nameServerFor(t, [A, AAAA]);
  const whole = resolveByDns(() => [both]);
  t.same(await whole('hooks.example.com'), [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ]);
  // Both are asked twice, and for longer the second time: longer than an attempt lasts.
  const one = await nameServerFor(t, [A]);
  const other = await nameServerFor(t, [A]);
  const half = resolveByDns(() => [one, other]);
  const sender = senderFor(t, { resolve: half, attemptMs: LIMITS.webhookAttemptMs });
  t.hasStrict(await send(sender, `https://hooks.example.com:${receiver.port}/`), { error: null });
});

void t.test('names are asked of the name servers that the system has by now', async (t) => {
  const [silent, speaks] = [await nameServerFor(t, []), await nameServerFor(t, [A, AAAA])];
  const resolverFor = (resolverMs?: number) => {
    const servers = [silent];
    const resolve = resolveByDns(() => servers, resolverMs);
    servers[0] = speaks;
    return senderFor(t, { resolve, attemptMs: SHORT_MS });
  };
  const receiver = await receiverFor(t);
  const url = `https://hooks.example.com:${receiver.port}/`;
  t.hasStrict(await send(resolverFor(), url), { error: 'timeout' });
  t.hasStrict(await send(resolverFor(0), url), { error: null });
});

// Where the name leads decides, whatever it is called. Addresses of the test's own machine: were one let through, the
// receiver would hear of it.
const DNS_ANSWERS: readonly (readonly [what: string, addresses: readonly string[]])[] = [
  ['loopback', ['127.0.0.1']],
  ['another loopback', ['127.8.8.8']],
  ['a public address and loopback', ['8.8.8.8', '127.0.0.1']],
  ['loopback and a public address', ['127.0.0.1', '8.8.8.8']],
  ['public IPv6 and loopback', ['2606:4700:4700::1111', '127.0.0.1']],
  ['a public address and IPv6 loopback', ['8.8.8.8', '::1']],
  ['IPv6 loopback', ['::1']],
  ['mapped loopback', ['::ffff:127.0.0.1']],
  ['IPv4-compatible loopback', ['::7f00:1']],
  ['NAT64 of loopback', ['64:ff9b::7f00:1']],
  ['6to4 of loopback', ['2002:7f00:1::1']],
  ['Teredo', ['2001:0:4136:e378:8000:63bf:3fff:fdd2']],
  ['cloud metadata', ['169.254.169.254']],
  ['AWS metadata', ['fd00:ec2::254']],
  ['private', ['10.0.0.5']],
  ['unspecified', ['0.0.0.0']],
  ['link-local with a zone', ['fe80::1%eth0']],
  ['multicast', ['224.0.0.251']],
  ['not assigned', ['4000::1']],
  ['not an address', ['localhost']],
];

for (const [what, addresses] of DNS_ANSWERS) {
  void t.test(`a name that resolves to ${what} is refused before a byte is sent`, async (t) => {
    const receiver = await receiverFor(t);
    const sender = senderFor(t, {
      guard: { allowPrivate: false, ports: [receiver.port] },
      resolve: () =>
        Promise.resolve(addresses.map((address) => ({ address, family: net.isIP(address) || 4 }))),
    });
    const result = await send(sender, `https://hooks.example.com:${receiver.port}/`);
    t.hasStrict(result, { error: 'url_refused', statusCode: null });
    t.equal(receiver.connections, 0);
  });
}

void t.test('a refused URL is not even resolved, literal addresses included', async (t) => {
  const receiver = await receiverFor(t);
  let asked = 0;
  const sender = senderFor(t, {
    guard: { allowPrivate: false, ports: [receiver.port] },
    resolve: () => {
      asked++;
      return Promise.resolve([]);
    },
  });
  for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', 'localhost']) {
    t.hasStrict(await send(sender, `https://${host}:${receiver.port}/`), { error: 'url_refused' }, host);
  }
  t.hasStrict(await send(sender, 'http://example.com/'), { error: 'url_refused' });
  t.equal(asked, 0);
  t.equal(receiver.connections, 0);
});

void t.test('a port of WEBHOOK_PORTS is connected to, any other is refused', async (t) => {
  let asked = 0;
  const sender = senderFor(t, {
    guard: guardOf(readConfig({ WEBHOOK_PORTS: '8443' })),
    resolve: () => {
      asked++;
      return Promise.resolve([]);
    },
  });
  t.match(await send(sender, 'https://hooks.example.com:8444/'), {
    error: 'url_refused',
    excerpt: /port 8444/,
  });
  t.equal(asked, 0);
  t.hasStrict(await send(sender, 'https://hooks.example.com:8443/'), { error: 'dns' });
  t.equal(asked, 1, 'it went on to the name');
});

void t.test(
  'the connection goes to the address that was checked: a name is asked once per connection',
  async (t) => {
    const receiver = await receiverFor(t);
    const answers = ['127.0.0.1', '127.0.0.99'];
    const sender = senderFor(t, {
      resolve: () => Promise.resolve([{ address: answers.shift() ?? '127.0.0.99', family: 4 }]),
    });
    t.hasStrict(await send(sender, `https://hooks.example.com:${receiver.port}/`), { error: null });
    t.same(answers, ['127.0.0.99'], 'asked once');
    receiver.dropConnections();
    t.hasStrict(
      await send(sender, `https://hooks.example.com:${receiver.port}/`),
      { error: 'connect' },
      'asked again',
    );
  },
);
