// At the edges of a connection: clients that go away, dawdle or send too much, and accounts that are late, busy or
// silent. A create gets a status only when its fate is known; nothing is answered twice; nothing is left behind.

import { once } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import type { Reply } from '../../src/bus/bus.ts';
import type { RouteName } from '../../src/http/observer.ts';
import { requestHashOf } from '../../src/http/account-calls.ts';
import { OpenCalls, type OpenCall } from '../../src/http/open-calls.ts';
import { LIMITS } from '../../src/limits.ts';
import { until } from '../until.ts';
import {
  CHARGE,
  CHARGE_PATH,
  createBytes,
  createHeaders,
  open,
  READ,
  readAnswer,
  readToEnd,
  requestBytes,
  startFront,
  watched,
} from './front.ts';
import { assertMatchesOpenApi } from './openapi-check.ts';

const SHORT = { requestReceiveMs: 400, commandDeadlineMs: 400 };
const NEVER = new Promise<never>(() => {});

t.test('busy accounts: 503 with Retry-After, for creates and reads', async (t) => {
  const { front } = await watched(t);
  front.bus.answer = () => ({ type: 'unavailable' });
  for (const [method, path, bytes] of [
    ['POST', '/v1/charges', createBytes('busy-create')],
    ['GET', CHARGE_PATH, READ],
  ] as const) {
    const answer = await front.send(bytes);
    t.hasStrict(answer, {
      status: 503,
      headers: { 'retry-after': '1' },
      body: { error: { code: 'service_unavailable', param: null } },
    });
    assertMatchesOpenApi(method, path, answer.status, answer.body);
  }
});

t.test('a rate limit says when to come back', async (t) => {
  const { front } = await watched(t);
  const rejection = {
    code: 'rate_limit_exceeded',
    message: null,
    param: null,
    retryAfterSeconds: 17,
  } as const;
  front.bus.answer = () => ({ type: 'rejected', rejection });
  const answer = await front.post('/v1/payouts', CHARGE);
  t.hasStrict(answer, {
    status: 429,
    headers: { 'retry-after': '17' },
    body: { error: { code: 'rate_limit_exceeded' } },
  });
});

t.test('a create of which nobody knows the fate gets no status; a read gets 503', async (t) => {
  const { front, unanswered } = await watched(t);
  front.bus.answer = () => ({ type: 'unknown' });
  const socket = await open(front.port);
  const all = readToEnd(socket);
  socket.write(createBytes('unknown-fate'));
  t.equal(await all, '', 'closed without a byte');
  t.strictSame(unanswered, ['unknown']);
  t.hasStrict(await front.send(READ), { status: 503 });
});

t.test('past the deadline a create is cut off, all else gets 503; a late answer goes nowhere', async (t) => {
  const { front, unanswered, statuses } = await watched(t, { bounds: SHORT, onCallback: () => NEVER });
  front.bus.answer = () => null;
  const socket = await open(front.port);
  const all = readToEnd(socket);
  socket.write(createBytes('too-late-1'));
  t.equal(await all, '');
  for (const safe of [READ, requestBytes('PUT', '/callbacks/mtn_ug/known', {}, '')]) {
    t.hasStrict(await front.send(safe), { status: 503, body: { error: { code: 'service_unavailable' } } });
  }
  t.strictSame([unanswered, statuses], [['unknown'], [503, 503]]);
  for (const onReply of front.bus.held) onReply({ type: 'done', body: '{}', replayed: false });
  front.bus.answer = () => ({ type: 'done', body: '{}', replayed: false });
  t.hasStrict(await front.send(READ), { status: 200 }, 'the front goes on');
  t.strictSame(
    [unanswered, statuses],
    [['unknown'], [503, 503, 200]],
    'the late answers were told to nobody',
  );
});

/** Calls that fall due one after the other, at 0 and so on, and say when they do, or that they make way. */
function openCalls(length: number, said: string[]): OpenCall[] {
  return Array.from({ length }, (_, at): OpenCall => ({
    list: null,
    previous: null,
    next: null,
    expiresAt: at,
    expire() {
      said.push(`due ${at}`);
      this.list?.remove(this);
    },
    makeWay() {
      said.push(`way ${at}`);
      this.list?.remove(this);
    },
    closeConnection() {},
  }));
}

t.test('what waits falls due in its order, also around what has gone', async (t) => {
  const calls = new OpenCalls();
  const said: string[] = [];
  const all = openCalls(6, said);
  for (const call of all) calls.receiving.append(call);
  for (const call of all.slice(0, 5)) calls.waiting.append(call);
  for (const at of [1, 2, 4]) calls.waiting.remove(all[at]!);
  calls.waiting.append(all[5]!);
  calls.expire(3);
  t.strictSame([said, calls.count], [['due 0', 'due 3'], 1]);
  calls.expire(5);
  t.strictSame([said, calls.count], [['due 0', 'due 3', 'due 5'], 0]);
});

t.test('bodies that are coming make room only where they have more than half of the places', async (t) => {
  const calls = new OpenCalls();
  const said: string[] = [];
  const all = openCalls(5, said);
  for (const call of all.slice(0, 4)) calls.receiving.append(call);
  t.ok(calls.makeRoom(5), 'there is room');
  for (const call of all.slice(2, 4)) calls.waiting.append(call);
  t.notOk(calls.makeRoom(4), 'half of them are other merchants’');
  t.strictSame(said, []);
  calls.receiving.append(all[4]!);
  t.ok(calls.makeRoom(5));
  t.strictSame(said, ['way 0'], 'the one that has been at it longest');

  calls.bodyBytes = 10;
  for (const call of all.slice(1, 3)) calls.keeping.add(call);
  calls.makeBodyRoom(all[2]!, 1, 11);
  t.strictSame([said.length, calls.keeping.size], [1, 2]);
  calls.makeBodyRoom(all[2]!, 2, 11);
  t.strictSame([said.length, calls.keeping.size], [3, 0], 'who made way is not asked again');
});

t.test('the deadline of an answer counts from the end of the body, however late that came', async (t) => {
  const bounds = { requestReceiveMs: 60_000, commandDeadlineMs: 1_000 };
  const { front, unanswered } = await watched(t, { bounds });
  front.bus.answer = () => null;
  const socket = await open(front.port);
  const all = readToEnd(socket);
  const bytes = createBytes('late-body');
  const bodyAt = bytes.indexOf('\r\n\r\n') + 4;
  const begunAt = performance.now();
  socket.write(bytes.subarray(0, bodyAt));
  await until(() => performance.now() > begunAt + bounds.commandDeadlineMs);
  const completeAt = performance.now();
  socket.write(bytes.subarray(bodyAt));
  t.equal(await all, '');
  t.ok(performance.now() >= completeAt + bounds.commandDeadlineMs);
  t.strictSame(unanswered, ['unknown']);
});

t.test('a client that goes away before its answer is not answered', async (t) => {
  const { front, unanswered, statuses } = await watched(t);
  front.bus.answer = () => null;
  const replies: readonly Reply[] = [{ type: 'done', body: '{}', replayed: false }, { type: 'unknown' }];
  for (const reply of replies) {
    const socket = await open(front.port);
    socket.write(createBytes('gone-away'));
    await until(() => front.bus.held.length === 1);
    socket.destroy();
    await until(() => unanswered.length === 1);
    front.bus.held.pop()!(reply);
    t.strictSame([unanswered.splice(0), statuses], [['aborted'], []], reply.type);
  }
});

t.test('a client that goes away in the middle of its body changes nothing', async (t) => {
  const { front, unanswered } = await watched(t);
  const socket = await open(front.port);
  socket.write(createBytes('half-body').subarray(0, -5));
  await new Promise((resolve) => setImmediate(resolve));
  socket.end();
  await until(() => unanswered.length === 1);
  t.strictSame([unanswered, front.bus.sent], [['aborted'], []]);
  socket.destroy();
});

t.test('a client that drips its body is cut off', async (t) => {
  const { front, unanswered } = await watched(t, { bounds: SHORT });
  const socket = await open(front.port);
  const all = readToEnd(socket);
  const bytes = createBytes('dripping1');
  socket.write(bytes.subarray(0, -50));
  let at = bytes.length - 50;
  const drip = setInterval(() => socket.write(bytes.subarray(at, ++at)), 50);
  t.equal(await all, '');
  clearInterval(drip);
  t.strictSame([unanswered, front.bus.sent], [['slow_client'], []]);
});

t.test('a body too large: 413, and the connection is closed', async (t) => {
  const { front, timedFrom } = await watched(t);
  const sizes = [LIMITS.bodyBytesMax + 1, 200_000, LIMITS.bodyDrainBytesMax];
  for (const size of sizes) {
    const socket = await open(front.port);
    const answered = readAnswer(socket);
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.write(createBytes('too-large', `{"description":"${'x'.repeat(size - 18)}"}`));
    const answer = await answered;
    t.hasStrict(answer, {
      status: 413,
      headers: { connection: 'close' },
      body: { error: { code: 'body_too_large' } },
    });
    assertMatchesOpenApi('POST', '/v1/charges', answer.status, answer.body);
    await closed;
  }
  t.strictSame(front.bus.sent, []);

  const endless = await open(front.port);
  const all = readToEnd(endless);
  endless.write(
    requestBytes(
      'POST',
      '/v1/charges',
      { ...createHeaders('endless-1'), 'Transfer-Encoding': 'chunked' },
      null,
    ),
  );
  const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
  t.hasStrict(await front.send(READ), { status: 200 }, 'its head has been read before this');
  const begunAt = performance.now();
  const pour = setInterval(() => endless.write(chunk), 1);
  await all;
  clearInterval(pour);
  t.ok(endless.bytesWritten < 64 * LIMITS.bodyDrainBytesMax, 'a body without end is cut off');
  t.ok(timedFrom.at(-1)! > begunAt, 'what its client took is no time of ours');
});

t.test('the largest body that is allowed arrives', async (t) => {
  const { front } = await watched(t);
  const metadata = Object.fromEntries(
    Array.from({ length: 20 }, (_, index) => [`key${index}`, 'x'.repeat(512)]),
  );
  const text = JSON.stringify({ ...CHARGE, metadata });
  const padded = text.padEnd(LIMITS.bodyBytesMax, ' ');
  t.hasStrict(await front.send(createBytes('largest-1', padded)), { status: 201 });
  t.hasStrict(front.bus.sent.at(-1)?.input, { metadata });
});

t.test('a front with too much open answers 503 at once', async (t) => {
  const { front } = await watched(t, { bounds: { frontRequestsOpenMax: 3 } });
  front.bus.answer = () => null;
  const sockets = await Promise.all([1, 2, 3].map(() => open(front.port)));
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  for (const socket of sockets) socket.write(READ);
  await until(() => front.bus.held.length === 3);
  for (const bytes of [createBytes('one-too-many'), READ]) {
    const answer = await front.send(bytes);
    t.hasStrict(answer, {
      status: 503,
      headers: { 'retry-after': '1' },
      body: { error: { code: 'service_unavailable' } },
    });
  }
  t.equal(front.bus.sent.length, 3);
  const answered = readAnswer(sockets[0]!);
  front.bus.held[0]!({ type: 'done', body: '{}', replayed: false });
  t.equal((await answered).status, 200);
  front.bus.answer = () => ({ type: 'done', body: '{}', replayed: false });
  t.equal((await front.send(createBytes('room-again'))).status, 201);
});

t.test('as many connections as may be open: one more is closed, until one goes', async (t) => {
  let refused = 0;
  const front = await startFront({
    connectionsMax: 2,
    observer: { onConnectionRefused: () => refused++ },
  });
  t.teardown(() => front.stop());
  const kept = await open(front.port);
  const gone = await open(front.port);
  for (let i = 0; i < 3; i++) t.equal(await readToEnd(await open(front.port)), '');
  t.equal(refused, 3);
  const answered = readAnswer(kept);
  kept.write(READ);
  t.hasStrict(await answered, { status: 200 }, 'those who are there are served');
  gone.destroy();
  let answer = null;
  while (answer === null) answer = await front.send(READ).catch(() => null);
  t.equal(answer.status, 200);
  kept.destroy();
});

t.test('a body in small pieces takes no more than its bytes, twice', async (t) => {
  const { front, statuses, madeWay } = await watched(t, {
    bounds: { frontBodiesBytesMax: 4 * LIMITS.frontBodyBytesMin },
  });
  const head = { ...createHeaders('byte-by-byte'), 'Transfer-Encoding': 'chunked' };
  const piecesOf = (body: string): Buffer => {
    const pieces = Array.from(body, (piece) => `1\r\n${piece}\r\n`).join('');
    const bytes = Buffer.from(`${pieces}0\r\n\r\n`);
    return Buffer.concat([requestBytes('POST', '/v1/charges', head, null), bytes]);
  };
  const text = JSON.stringify(CHARGE);
  await front.send(piecesOf(text.padEnd(3 * LIMITS.frontBodyBytesMin, ' ')));
  t.hasStrict(front.bus.sent[0], {
    input: CHARGE,
    requestHash: requestHashOf(text.padEnd(3 * LIMITS.frontBodyBytesMin, ' ')),
  });
  await front.send(piecesOf(text.padEnd(5 * LIMITS.frontBodyBytesMin, ' ')));
  t.strictSame([statuses, madeWay], [[201], ['service_unavailable']]);
});

t.test('of a create that was refused before its body was whole nothing comes when it is', async (t) => {
  const { front, statuses, madeWay } = await watched(t, { bounds: { frontBodiesBytesMax: 10_000 } });
  const bytes = createBytes('refused-half', JSON.stringify(CHARGE).padEnd(60_000, ' '));
  const socket = await open(front.port);
  t.teardown(() => socket.destroy());
  const refused = readAnswer(socket);
  socket.write(bytes.subarray(0, 50_000));
  t.hasStrict(await refused, { status: 503 });
  socket.write(bytes.subarray(50_000));
  const next = readAnswer(socket);
  socket.write(READ);
  t.hasStrict(await next, { status: 200 }, 'the connection serves the next');
  t.strictSame(
    front.bus.sent.map(({ type }) => type),
    ['GetTransaction'],
  );
  t.strictSame([statuses, madeWay], [[200], ['service_unavailable']]);
});

t.test(
  'requests sent before the answer to the one before: the connection is closed, nothing is mixed up',
  async (t) => {
    const { front, unanswered, statuses } = await watched(t);
    front.bus.answer = () => null;
    const socket = await open(front.port);
    const all = readToEnd(socket);
    socket.write(Buffer.concat([createBytes('sent-ahead-1'), createBytes('sent-ahead-2')]));
    t.equal(await all, '');
    t.strictSame([unanswered, statuses], [['aborted'], []]);
    t.strictSame(front.bus.sent, []);

    front.bus.send = (_group, _partition, _message, onReply) =>
      onReply({ type: 'done', body: '{}', replayed: false });
    const reader = await open(front.port);
    const answers = readToEnd(reader);
    reader.write(Buffer.concat([READ, READ, READ]));
    t.equal(await answers, '', 'reads too, though they would be answered at once');
    t.strictSame([unanswered, statuses], [['aborted', 'aborted'], []]);
  },
);

t.test(
  'bytes along with a create that the HTTP library answers with an error in its place: nothing is created',
  async (t) => {
    const { front, unanswered } = await watched(t);
    const body = JSON.stringify(CHARGE);
    const chunked = requestBytes(
      'POST',
      '/v1/charges',
      { ...createHeaders('with-trailers'), 'Transfer-Encoding': 'chunked' },
      null,
    );
    const rows: [string, Buffer, string][] = [
      ['trailers', chunked, `${body.length.toString(16)}\r\n${body}\r\n0\r\nChecksum: abc\r\n\r\n`],
      ['a request of HTTP/1.0', createBytes('then-http-1.0'), 'GET / HTTP/1.0\r\n\r\n'],
      [
        'headers too large',
        createBytes('then-headers-1'),
        `GET / HTTP/1.1\r\nX: ${'x'.repeat(9_000)}\r\n\r\n`,
      ],
      [
        'two framings',
        createBytes('then-framings-1'),
        'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      ],
    ];
    for (const [what, first, rest] of rows) {
      const socket = await open(front.port);
      const all = readToEnd(socket);
      socket.write(Buffer.concat([first, Buffer.from(rest)]));
      t.match(await all, /^HTTP\/1\.1 (?:400|431|505) /, what);
      t.strictSame(front.bus.sent, [], what);
    }
    t.strictSame(
      unanswered,
      rows.map(() => 'aborted'),
    );
    t.hasStrict(await front.send(createBytes('goes-on-1')), { status: 201 }, 'the front goes on');
  },
);

t.test('answers that a client does not read do not pile up: its connection is closed', async (t) => {
  const { front } = await watched(t);
  const socket = await open(front.port);
  const all = readToEnd(socket);
  const requests = 400;
  socket.write('GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(requests));
  const answers = (await all).split('HTTP/1.1 200 OK').length - 1;
  t.ok(answers >= 1 && answers < requests, `${answers} answers`);
  t.hasStrict(await front.send(READ), { status: 200 });
});

t.test(
  'nor do short ones, of a client that sends each request when the one before is answered',
  async (t) => {
    let answers = 0;
    const count = ({ path }: RouteName): void => void (path === '/v1/charges/:id' && answers++);
    const front = await startFront({ observer: { onReply: count } });
    t.teardown(() => front.stop());
    const body = JSON.stringify({ long: 'x'.repeat(LIMITS.answerAtOnceCharactersMax - 20) });
    front.bus.answer = () => ({ type: 'done', body, replayed: false });
    const socket = await open(front.port);
    t.teardown(() => socket.destroy());
    // Far more than the buffers of both sockets take.
    const requestsMax = 32_000_000 / body.length;
    let requests = 0;
    while (answers === requests && requests < requestsMax) {
      socket.write(READ);
      requests++;
      for (let others = 0; answers < requests && others < 200; others++) await front.get('/v1/balances');
    }
    t.ok(requests > 100 && requests < requestsMax, `${requests} requests`);
    t.equal(answers, requests - 1, 'the one after an answer that is not taken closes the connection');
  },
);

t.test(
  'a long answer arrives whole, however slowly it is read, and the connection serves the next',
  async (t) => {
    const { front } = await watched(t);
    const body = JSON.stringify({ long: 'é€😀'.repeat(1_000_000) });
    const bytes = Buffer.from(body);
    front.bus.answer = () => ({ type: 'done', body, replayed: false });
    const socket = await open(front.port);
    t.teardown(() => socket.destroy());
    for (let i = 0; i < 2; i++) {
      const chunks: Buffer[] = [];
      let received = 0;
      socket.write(READ);
      await new Promise<void>((resolve) => {
        const look = (chunk: Buffer): void => {
          chunks.push(chunk);
          received += chunk.length;
          socket.pause();
          setImmediate(() => socket.resume());
          const end = chunks[0]!.indexOf('\r\n\r\n') + 4;
          if (received < end + bytes.length) return;
          socket.off('data', look);
          resolve();
        };
        socket.on('data', look);
      });
      const answer = Buffer.concat(chunks);
      const end = answer.indexOf('\r\n\r\n');
      t.match(answer.subarray(0, end).toString(), /^HTTP\/1\.1 200 OK/);
      t.ok(answer.subarray(end + 4).equals(bytes), 'byte for byte');
    }
  },
);

t.test('what is not HTTP is closed, and harms nobody', async (t) => {
  const { front } = await watched(t);
  const rows = [
    'hello\r\n\r\n',
    '\r\n\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'GET / HTTP/1.0\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
    'POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n',
    'POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n',
    'POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n',
    'POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'POST /v1/charges HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
  ];
  for (const bytes of rows) {
    const socket = await open(front.port);
    const all = readToEnd(socket);
    socket.end(bytes, 'latin1');
    const received = await all;
    t.match(received, /^(?:|HTTP\/1\.1 (?:400|404|431|505) [^]*)$/, JSON.stringify(bytes.slice(0, 40)));
  }
  t.strictSame(front.bus.sent, []);
  t.hasStrict(await front.send(READ), { status: 200 });
});

t.test(
  'what HTTP/1.1 allows and the HTTP library does not has a page of HTML, and creates nothing',
  async (t) => {
    const { front } = await watched(t);
    const body = JSON.stringify(CHARGE);
    const many = Object.fromEntries(Array.from({ length: 120 }, (_, n) => [`a${n}`, 'b']));
    const withMany = requestBytes('POST', '/v1/charges', { ...createHeaders('many-headers'), ...many }, body);
    t.ok(withMany.length < 2_048, 'far below 4 KiB');
    const rows: [string, Buffer, number][] = [
      ['a hundred headers and more', withMany, 431],
      [
        'absolute form',
        requestBytes('POST', 'http://front/v1/charges', createHeaders('absolute'), body),
        505,
      ],
      ['a question about no path', requestBytes('OPTIONS', '*', {}, null), 505],
    ];
    for (const [what, bytes, status] of rows) {
      const socket = await open(front.port);
      const all = readToEnd(socket);
      socket.write(bytes);
      t.match(await all, new RegExp(`^HTTP/1\\.1 ${status} [^]*<h1>`), what);
    }
    t.strictSame(front.bus.sent, []);
  },
);

t.test('a body in another coding than chunks is none, wherever it may end for others', async (t) => {
  const { front } = await watched(t);
  const body = JSON.stringify(CHARGE);
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const bytesWith = (path: string, coding: string): Buffer => {
    const head = { ...createHeaders(), 'Transfer-Encoding': coding };
    return Buffer.concat([requestBytes('POST', path, head, null), Buffer.from(chunks)]);
  };
  const twice = ['identity', 'chunked', ''].map((second) => `chunked\r\nTransfer-Encoding: ${second}`);
  for (const coding of [
    'identity',
    'xchunked',
    'gzip, chunked',
    'chunked, identity',
    'chunked;a=b',
    ...twice,
  ]) {
    for (const path of ['/v1/charges', '/nowhere']) {
      const socket = await open(front.port);
      const all = readToEnd(socket);
      // Alone: on a request behind it the HTTP library closes the connection in any case.
      socket.write(bytesWith(path, coding));
      t.equal(await all, '', `${coding}: ${path}`);
    }
  }
  t.strictSame(front.bus.sent, []);
  for (const coding of ['chunked', 'Chunked']) {
    t.hasStrict(await front.send(bytesWith('/v1/charges', coding)), { status: 201 }, coding);
  }
});

t.test('too much of answers that are not taken: the oldest are cut short', async (t) => {
  const { front } = await watched(t, { bounds: { frontAnswersBytesMax: 40_000_000 } });
  const body = JSON.stringify({ long: 'x'.repeat(16_000_000) });
  front.bus.answer = () => ({ type: 'done', body, replayed: false });
  const begin = async (taken = 0): Promise<Socket> => {
    const socket = await open(front.port);
    socket.write(READ);
    do {
      socket.read();
      await once(socket, 'readable');
    } while (socket.bytesRead < taken);
    return socket;
  };
  const sockets = [await begin(2_000_000)];
  while (sockets.length < 4) sockets.push(await begin());
  const isWhole = (socket: Socket): Promise<boolean> =>
    new Promise((resolve) => {
      socket.on('data', () => {
        if (socket.bytesRead > body.length) resolve(true);
      });
      socket.on('close', () => resolve(false));
    });
  const answers = await Promise.all(sockets.map(isWhole));
  for (const socket of sockets) socket.destroy();
  t.strictSame(answers, [false, false, true, true]);
  t.ok(await isWhole(await begin()), 'and there is room again');

  for (let n = 0; n < 2; n++) (await begin()).destroy();
  const later = [await begin(), await begin()];
  t.strictSame(await Promise.all(later.map(isWhole)), [true, true], 'who has gone takes none');
  for (const socket of later) socket.destroy();
});
