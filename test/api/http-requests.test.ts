// What a request becomes on its way to the account, and what comes back: one message, complete, to the partition of the
// account that the key names; the account's words unchanged, with the headers that every reply has.

import { hash } from 'node:crypto';
import { once } from 'node:events';
import t from 'tap';
import { partitionOf } from '../../src/bus/bus.ts';
import type { NoReplyReason, RouteName } from '../../src/http/observer.ts';
import { hashApiKey, makeApiKey, parseApiKey } from '../../src/http/api-key.ts';
import type { RawRequest } from '../../src/http/route.ts';
import { LIMITS } from '../../src/limits.ts';
import { until } from '../until.ts';
import {
  ACCOUNT_ID,
  CHARGE,
  createBytes,
  open,
  READ,
  readAnswer,
  readHead,
  requestBytes,
  SECRET_KEY,
  startFront,
  type Answer,
} from './front.ts';

const ID = '01KAJ3W8Q07M4R2N9X5T6V1B00';

t.test('creates', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const rows: [string, string, Record<string, unknown>][] = [
    [
      '/v1/charges',
      'CreateCharge',
      { ...CHARGE, description: 'd', metadata: { a: 1 }, network: 'MTN', country: 'UG' },
    ],
    ['/v1/deposits', 'CreateDeposit', { ...CHARGE, description: 'd' }],
    ['/v1/payouts', 'CreatePayout', { ...CHARGE, narration: 'n' }],
    [
      '/v1/withdrawals',
      'CreateWithdrawal',
      { amount: '1', currency: 'KES', destination: 'wal_x', reference: 'r' },
    ],
  ];
  for (const [path, type, input] of rows) {
    const before = Date.now();
    const answer = await front.post(path, input, { 'Idempotency-Key': 'key-12345678' });
    t.hasStrict(answer, {
      status: 201,
      text: '{"ok":true}',
      headers: { 'content-type': 'application/json' },
    });
    t.match(answer.headers['request-id'], /^req_[0-9A-HJKMNP-TV-Z]{26}$/);
    t.notOk('idempotent-replayed' in answer.headers);
    const { deadline, ...message } = front.bus.sent.at(-1)!;
    t.strictSame(message, {
      type,
      accountId: ACCOUNT_ID,
      keyHash: hashApiKey(SECRET_KEY),
      problem: null,
      idempotencyKey: 'key-12345678',
      requestHash: hash('sha256', JSON.stringify(input), 'base64url').slice(0, 22),
      input,
    });
    t.ok(deadline >= before + 15_000 && deadline <= Date.now() + 15_000, 'a deadline 15 s ahead');
  }
});

t.test('a replay says so', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  front.bus.answer = () => ({ type: 'done', body: '{"id":"chg_1"}', replayed: true });
  const answer = await front.post('/v1/charges', CHARGE);
  t.hasStrict(answer, { status: 201, text: '{"id":"chg_1"}', headers: { 'idempotent-replayed': 'true' } });
});

t.test('reads', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const call = { accountId: ACCOUNT_ID, keyHash: hashApiKey(SECRET_KEY), problem: null };
  const none = { status: undefined, reference: undefined, country: undefined, network: undefined };
  const noTimes = { createdAfter: undefined, createdBefore: undefined };
  const list = { type: 'ListTransactions', ...call, view: 'object', limit: 25, startingAfter: null };
  const all = {
    type: undefined,
    status: undefined,
    approvalStatus: undefined,
    reference: undefined,
    currency: undefined,
  };
  const rows: [string, unknown][] = [
    [
      `/v1/charges/chg_${ID}`,
      { type: 'GetTransaction', ...call, id: `chg_${ID}`, view: 'object', kind: 'CHARGE' },
    ],
    [
      `/v1/charges/chg_${ID}?anything=1`,
      { type: 'GetTransaction', ...call, id: `chg_${ID}`, view: 'object', kind: 'CHARGE' },
    ],
    [
      `/v1/charges/chg_${ID}/timeline`,
      { type: 'GetTransaction', ...call, id: `chg_${ID}`, view: 'timeline', kind: 'CHARGE' },
    ],
    [
      `/v1/payouts/pyt_${ID}`,
      { type: 'GetTransaction', ...call, id: `pyt_${ID}`, view: 'object', kind: 'PAYOUT' },
    ],
    [
      `/v1/withdrawals/wdl_${ID}`,
      { type: 'GetTransaction', ...call, id: `wdl_${ID}`, view: 'object', kind: 'WITHDRAWAL' },
    ],
    [
      `/v1/deposits/dep_${ID}`,
      { type: 'GetTransaction', ...call, id: `dep_${ID}`, view: 'object', kind: 'DEPOSIT' },
    ],
    [
      `/v1/transactions/ref_${ID}`,
      { type: 'GetTransaction', ...call, id: `ref_${ID}`, view: 'detail', kind: null },
    ],
    ['/v1/charges', { ...list, filter: { type: 'CHARGE', ...none, ...noTimes } }],
    ['/v1/charges?', { ...list, filter: { type: 'CHARGE', ...none, ...noTimes } }],
    ['/v1/payouts?&', { ...list, filter: { type: 'PAYOUT', ...none, ...noTimes } }],
    [
      `/v1/charges?status=FAILED&reference=a%3Ab&country=UG&network=MTN&created_after=2026-01-01T00:00:00Z&created_before=2026-01-01T03:00:00.5%2B03:00&limit=100&starting_after=chg_${ID}`,
      {
        ...list,
        filter: {
          type: 'CHARGE',
          status: 'FAILED',
          reference: 'a:b',
          country: 'UG',
          network: 'MTN',
          createdAfter: Date.UTC(2026, 0, 1),
          createdBefore: Date.UTC(2026, 0, 1) + 500,
        },
        limit: 100,
        startingAfter: `chg_${ID}`,
      },
    ],
    ['/v1/transactions', { ...list, view: 'transaction', filter: all }],
    [
      '/v1/transactions?type=WITHDRAWAL&approval_status=PENDING&status=INITIATED&reference=1042&currency=KES&limit=1',
      {
        ...list,
        view: 'transaction',
        limit: 1,
        filter: {
          type: 'WITHDRAWAL',
          approvalStatus: 'PENDING',
          status: 'INITIATED',
          reference: '1042',
          currency: 'KES',
        },
      },
    ],
    ['/v1/balances', { type: 'GetBalances', ...call }],
    ['/v1/payout_destinations', { type: 'ListPayoutDestinations', ...call }],
  ];
  for (const [path, expected] of rows) {
    const answer = await front.get(path);
    t.hasStrict(answer, { status: 200, text: '{"ok":true}' }, path);
    const { deadline, ...message } = front.bus.sent.at(-1)!;
    t.ok(deadline > Date.now());
    t.strictSame(message, expected, path);
  }
});

t.test('the account is read off the key, and the key goes no further than the front', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const accountId = 'acc_01KAJ3W8Q07M4R2N9X5T6V1C00';
  const key = makeApiKey('secret', accountId);
  t.strictSame(parseApiKey(key), { kind: 'secret', accountId, wellFormed: true });
  await front.get('/v1/balances', { Authorization: `Bearer ${key}` });
  t.hasStrict(front.bus.sent.at(-1), { accountId, keyHash: hashApiKey(key) });
  t.notMatch(JSON.stringify(front.bus.sent), key.slice(34));
  t.ok(partitionOf(accountId, 16) < 16);
});

t.test('bodies arrive whole, however they are cut', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const text = JSON.stringify({ ...CHARGE, description: 'Wóõn '.repeat(40) });
  const whole = requestBytes('POST', '/v1/charges', head('split-keys'), text);
  const start = whole.indexOf('\r\n\r\n') + 4;
  const socket = await open(front.port);
  const answered = readAnswer(socket);
  socket.setNoDelay(true);
  socket.write(whole.subarray(0, start));
  for (let at = start; at < whole.length; at += 100) {
    await new Promise((resolve) => setImmediate(resolve));
    socket.write(whole.subarray(at, at + 100));
  }
  t.equal((await answered).status, 201);
  socket.destroy();
  const expected = { input: JSON.parse(text), requestHash: hash('sha256', text, 'base64url').slice(0, 22) };
  t.match(front.bus.sent.at(-1), expected);

  const chunks = [text.slice(0, 7), text.slice(7, 90), text.slice(90)].map(
    (part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`,
  );
  const headers = { ...head('chunked-key'), 'Transfer-Encoding': 'chunked' };
  const chunked = Buffer.concat([
    requestBytes('POST', '/v1/charges', headers, null),
    Buffer.from(`${chunks.join('')}0\r\n\r\n`),
  ]);
  t.equal((await front.send(chunked)).status, 201);
  t.hasStrict(front.bus.sent.at(-1), { ...expected, idempotencyKey: 'chunked-key' });
});

function head(idempotencyKey: string): Record<string, string> {
  return {
    Authorization: `Bearer ${SECRET_KEY}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': idempotencyKey,
  };
}

t.test('a connection serves one request after another', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const socket = await open(front.port);
  for (let i = 0; i < 5; i++) {
    const answered = readAnswer(socket);
    socket.write(requestBytes('POST', '/v1/charges', head(`in-turn-${i}`), JSON.stringify(CHARGE)));
    t.equal((await answered).status, 201);
  }
  socket.destroy();
  t.strictSame(
    front.bus.sent.map(({ idempotencyKey }) => idempotencyKey),
    ['in-turn-0', 'in-turn-1', 'in-turn-2', 'in-turn-3', 'in-turn-4'],
  );
});

t.test('HEAD is answered as GET is, but without the body', async (t) => {
  const statuses: [string, string, number][] = [];
  const front = await startFront({
    observer: { onReply: ({ method, path }, status) => statuses.push([method, path, status]) },
  });
  t.teardown(() => front.stop());
  const long = JSON.stringify({ long: 'é'.repeat(10_000) });
  front.bus.answer = ({ type }) => {
    if (type === 'GetBalances') return { type: 'unavailable' };
    return { type: 'done', body: type === 'ListTransactions' ? long : '{"ok":true}', replayed: false };
  };
  const rows: [string, string | null, number][] = [
    [`/v1/charges/chg_${ID}`, SECRET_KEY, 200],
    ['/v1/transactions?limit=1', SECRET_KEY, 200],
    ['/v1/charges?page=1', SECRET_KEY, 400],
    [`/v1/charges/chg_${ID}`, null, 401],
    ['/v1/balances', SECRET_KEY, 503],
    ['/v1/payouts/x', SECRET_KEY, 404],
    ['/openapi.json', null, 200],
    ['/v1/nothing', null, 404],
  ];
  const head = async (path: string, headers: Readonly<Record<string, string>>): Promise<Answer> => {
    const socket = await open(front.port);
    let received = '';
    socket.on('data', (chunk) => (received += chunk.toString('latin1')));
    const closed = once(socket, 'close');
    const answer = readHead(socket);
    socket.write(requestBytes('HEAD', path, headers, null));
    await closed;
    t.equal(received.indexOf('\r\n\r\n'), received.length - 4, 'nothing follows its headers');
    return answer;
  };
  // Whoever has gone before its connection is closed is left alone: the HTTP library would end the process.
  const gone = await open(front.port);
  gone.write(requestBytes('HEAD', '/openapi.json', {}, null));
  await once(gone, 'readable');
  gone.destroy();
  const shown = ({ headers }: Answer): Record<string, string | undefined> => ({
    ...headers,
    'request-id': '',
    date: '',
  });
  for (const [path, key, status] of rows) {
    const headers = key === null ? {} : { Authorization: `Bearer ${key}` };
    const got = await front.send(requestBytes('GET', path, headers, null));
    const answer = await head(path, headers);
    t.equal(answer.status, status, path);
    t.strictSame(shown(answer), { ...shown(got), connection: 'close' }, path);
    t.equal(Number(answer.headers['content-length']), Buffer.byteLength(got.text), path);
  }
  t.hasStrict(await head('/v1/deposits', {}), { status: 405, headers: { allow: 'POST' } });
  t.strictSame(statuses[2], ['HEAD', '/v1/charges/:id', 200]);
  t.strictSame(statuses.at(-1), ['HEAD', '*', 405]);
});

t.test(
  'the answer to HEAD is the last of its connection: answers that a client does not read do not pile up',
  async (t) => {
    let answers = 0;
    const front = await startFront({
      observer: { onReply: () => void answers++ },
      // Some looks at what is open later.
      bounds: { requestReceiveMs: 3 * LIMITS.frontSweepMs },
    });
    t.teardown(() => front.stop());
    const socket = await open(front.port);
    const closed = once(socket, 'close');
    socket.resume().write(Buffer.concat(Array(3).fill(requestBytes('HEAD', '/openapi.json', {}, null))));
    await closed;
    t.equal(answers, 1);

    const slow = await open(front.port);
    t.teardown(() => slow.destroy());
    slow.write(createBytes('never-whole').subarray(0, -1));
    await once(slow, 'close');
    t.hasStrict(await front.send(READ), { status: 200 }, 'and nobody looks for it when it has gone');
  },
);

t.test('request ids are unique', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const ids = new Set<string | undefined>();
  const socket = await open(front.port);
  for (let i = 0; i < 1_100; i++) {
    const answered = readAnswer(socket);
    socket.write(requestBytes('GET', '/v1/nothing', {}, null));
    ids.add((await answered).headers['request-id']);
  }
  socket.destroy();
  t.equal(ids.size, 1_100);
});

t.test('callbacks are handed on as they came, and the answer says whether anybody knew them', async (t) => {
  const seen: RawRequest[] = [];
  const front = await startFront({
    onCallback: (callback) => {
      seen.push(callback);
      if (callback.path.endsWith('known')) return 'accepted';
      return callback.path.endsWith('busy') ? 'busy' : 'unknown';
    },
  });
  t.teardown(() => front.stop());
  const call = (method: string, path: string, body: Buffer) =>
    front.send(requestBytes(method, path, { 'Content-Type': 'text/html' }, body));
  t.hasStrict(await call('PUT', '/callbacks/mtn_ug/known', Buffer.from([0xff, 0x00])), {
    status: 200,
    text: '{}',
  });
  t.hasStrict(seen, [{ method: 'PUT', path: '/callbacks/mtn_ug/known' }]);
  t.strictSame(seen[0]!.body, Buffer.from([0xff, 0x00]));
  t.hasStrict(await call('POST', '/callbacks/a/b/known', Buffer.from('x')), { status: 200 });
  t.hasStrict(await call('POST', '/callbacks/x', Buffer.alloc(0)), {
    status: 404,
    body: { error: { code: 'not_found' } },
  });
  t.hasStrict(await call('POST', '/callbacks/busy', Buffer.alloc(0)), {
    status: 503,
    headers: { 'retry-after': '1' },
    body: { error: { code: 'service_unavailable' } },
  });
  t.hasStrict(await call('POST', '/callbacks/known', Buffer.alloc(70_000)), { status: 413 });
  t.equal(seen.length, 4);
});

t.test('whoever counts sees every request once, with its route', async (t) => {
  const seen: [string, string, number | NoReplyReason, string | null][] = [];
  const row = ({ method, path }: RouteName, what: number | NoReplyReason, code: string | null): void => {
    seen.push([method, path, what, code]);
  };
  const front = await startFront({
    observer: {
      onReply: (route, status, durationMs, requestId, code) => {
        t.ok(durationMs >= 0 && durationMs < 10_000);
        t.match(requestId, /^req_/);
        row(route, status, code);
      },
      onNoReply: (route, reason) => row(route, reason, null),
    },
  });
  t.teardown(() => front.stop());
  await front.post('/v1/charges', CHARGE);
  await front.post('/v1/charges', {});
  await front.get(`/v1/charges/chg_${ID}/timeline`);
  await front.get('/nowhere');
  t.strictSame(seen, [
    ['POST', '/v1/charges', 201, null],
    ['POST', '/v1/charges', 400, 'validation_failed'],
    ['GET', '/v1/charges/:id/timeline', 200, null],
    ['*', '*', 404, 'not_found'],
  ]);
});

t.test('a request takes from its last byte to its answer, however long it was on its way', async (t) => {
  const ON_ITS_WAY_MS = 1_000;
  const durations: number[] = [];
  const front = await startFront({
    observer: { onReply: (_, __, durationMs) => durations.push(durationMs) },
  });
  t.teardown(() => front.stop());
  const head = {
    Authorization: `Bearer ${SECRET_KEY}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': 'slow-body',
  };
  const bytes = requestBytes('POST', '/v1/charges', head, JSON.stringify(CHARGE));
  const bodyAt = bytes.indexOf('\r\n\r\n') + 4;
  for (const cutAt of [bodyAt, bodyAt + 20]) {
    const socket = await open(front.port);
    const answered = readAnswer(socket);
    const begunAt = performance.now();
    socket.write(bytes.subarray(0, cutAt));
    await until(() => performance.now() > begunAt + ON_ITS_WAY_MS);
    const restAt = performance.now();
    socket.write(bytes.subarray(cutAt));
    t.equal((await answered).status, 201);
    const mostMs = performance.now() - restAt;
    socket.destroy();
    const took = durations.splice(0);
    t.ok(took.length === 1 && took[0]! <= mostMs, `${took.join(' and ')} of ${mostMs} ms`);
  }
});
