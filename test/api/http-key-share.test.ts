// One key's requests, and bodies that come slowly, leave others their place, in a front and in what is behind it: whoever floods it,
// waits for a rail that hangs, or dawdles, is refused beyond a share, and nobody else is.

import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { makeApiKey } from '../../src/http/api-key.ts';
import { callerOf } from '../../src/http/caller.ts';
import { LIMITS } from '../../src/limits.ts';
import { until } from '../until.ts';
import { assertMatchesOpenApi } from './openapi-check.ts';
import {
  ACCOUNT_ID,
  CHARGE,
  createBytes,
  createHeaders,
  open,
  READ,
  readAnswer,
  requestBytes,
  SECRET_KEY,
  startFront,
  watched,
  type Answer,
  type Front,
  type Watched,
} from './front.ts';

const OTHER_KEY = makeApiKey('secret', 'acc_01KAJ3W8Q07M4R2N9X5T6V1B01');
const other = { Authorization: `Bearer ${OTHER_KEY}` };

async function flooded(t: Test, bounds: Parameters<typeof startFront>[0]): Promise<Front> {
  const front = await startFront(bounds);
  t.teardown(() => front.stop());
  front.bus.answer = ({ accountId }) =>
    accountId?.endsWith('00') === true ? null : { type: 'done', body: '{}', replayed: false };
  return front;
}

function refused(t: Test, method: string, path: string, answer: Answer): void {
  t.hasStrict(answer, { status: 503, headers: { 'retry-after': '1' } });
  t.equal(answer.body.error.code, 'service_unavailable');
  assertMatchesOpenApi(method, path, answer.status, answer.body);
}

t.test('a merchant whose creates all wait does not take a whole front', async (t: Test) => {
  const front = await flooded(t, { bounds: { frontRequestsOpenMax: 20, frontKeyRequestsMax: 10 } });
  const flood = Array.from({ length: 20 }, () => front.post('/v1/charges', CHARGE));
  await until(() => front.bus.held.length >= 10);
  t.equal((await front.post('/v1/charges', CHARGE, other)).status, 201);
  t.equal((await front.get('/v1/balances', other)).status, 200);
  refused(t, 'POST', '/v1/charges', await front.post('/v1/charges', CHARGE));
  refused(t, 'GET', '/v1/balances', await front.get('/v1/balances'));
  refused(t, 'GET', '/v1/charges', await front.get('/v1/charges'));

  front.bus.held.shift()!({ type: 'done', body: '{}', replayed: false });
  const again = front.post('/v1/charges', CHARGE);
  await until(() => front.bus.held.length === 10);
  for (const answered of front.bus.held.splice(0)) answered({ type: 'done', body: '{}', replayed: false });
  t.equal((await again).status, 201, 'each answer makes room for one more');
  const statuses = (await Promise.all(flood)).map(({ status }) => status).sort((a, b) => a - b);
  t.strictSame(statuses, [...Array(10).fill(201), ...Array(10).fill(503)]);
});

t.test('nor by writing its header in other ways', async (t: Test) => {
  // A read takes none of the bytes.
  const front = await flooded(t, { bounds: { frontKeyRequestsMax: 2, frontKeyBytesMax: 1 } });
  const held = [front.get('/v1/balances'), front.get('/v1/balances')];
  await until(() => front.bus.held.length === 2);
  for (const authorization of [`Bearer  ${SECRET_KEY}`, `bearer ${SECRET_KEY}`, `BEARER   ${SECRET_KEY}`]) {
    refused(t, 'GET', '/v1/balances', await front.get('/v1/balances', { Authorization: authorization }));
  }
  for (const answered of front.bus.held.splice(0)) answered({ type: 'done', body: '{}', replayed: false });
  t.ok((await Promise.all(held)).every(({ status }) => status === 200));
});

t.test('nor with keys that are refused: those of an account have one share of each kind', async (t: Test) => {
  const front = await flooded(t, { bounds: { frontKeyRequestsMax: 2 } });
  // An account with much to do is late to refuse, too.
  front.bus.send = (_group, _partition, _message, onReply) => void front.bus.held.push(onReply);
  const get = (key: string) => front.get('/v1/balances', { Authorization: `Bearer ${key}` });
  const publishable = () => get(makeApiKey('publishable', ACCOUNT_ID));
  const cutShort = () => get(makeApiKey('secret', ACCOUNT_ID).slice(0, -1));
  const held = [publishable(), publishable(), cutShort(), cutShort(), get(SECRET_KEY)];
  await until(() => front.bus.held.length === held.length);
  for (const send of [publishable, cutShort]) refused(t, 'GET', '/v1/balances', await send());
  for (const answered of front.bus.held.splice(0)) answered({ type: 'done', body: '{}', replayed: false });
  t.ok((await Promise.all(held)).every(({ status }) => status === 200));
});

t.test('nor the bytes that it has under way', async (t: Test) => {
  const front = await flooded(t, { bounds: { frontKeyBytesMax: 100_000 } });
  const large = JSON.stringify(CHARGE).padEnd(50_000, ' ');
  const flood = [front.post('/v1/charges', large), front.post('/v1/charges', large)];
  await until(() => front.bus.held.length === 2);
  refused(t, 'POST', '/v1/charges', await front.post('/v1/charges', CHARGE));
  t.equal((await front.post('/v1/charges', large, other)).status, 201);
  front.bus.held.shift()!({ type: 'done', body: '{}', replayed: false });
  t.equal((await Promise.race(flood)).status, 201);
  flood.push(front.post('/v1/charges', CHARGE));
  await until(() => front.bus.held.length === 2);
  for (const answered of front.bus.held) answered({ type: 'done', body: '{}', replayed: false });
  await Promise.all(flood);
});

t.test('whose client has gone is under way until its account has answered', async (t: Test) => {
  const full: string[] = [];
  const observer = { onKeyFull: (accountId: string) => void full.push(accountId) };
  const front = await flooded(t, { bounds: { frontKeyRequestsMax: 2 }, observer });
  const headers = { Authorization: `Bearer ${SECRET_KEY}` };
  for (let n = 1; n <= 2; n++) {
    const socket = await open(front.port);
    socket.write(requestBytes('GET', '/v1/balances', headers, null));
    await until(() => front.bus.held.length === n);
    socket.destroy();
  }
  refused(t, 'POST', '/v1/charges', await front.post('/v1/charges', CHARGE));
  t.strictSame(full, [ACCOUNT_ID], 'operators are told whose');
  for (const answered of front.bus.held.splice(0)) answered({ type: 'unavailable' });
  const create = front.post('/v1/charges', CHARGE);
  await until(() => front.bus.held.length === 1);
  front.bus.held[0]!({ type: 'done', body: '{}', replayed: false });
  t.equal((await create).status, 201);
});

t.test(
  'lists that wait in line, whose clients have gone, make room when their turn comes',
  async (t: Test) => {
    let unanswered = 0;
    const front = await flooded(t, {
      bounds: { frontKeyRequestsMax: LIMITS.keyListsAtOnceMax + 1 },
      observer: { onNoReply: () => unanswered++ },
    });
    const done = { type: 'done', body: '{}', replayed: false } as const;
    front.bus.answer = ({ type }) => (type === 'ListTransactions' ? null : done);
    const lists = Array.from({ length: LIMITS.keyListsAtOnceMax }, () => front.get('/v1/charges'));
    await until(() => front.bus.held.length === lists.length);
    const gone = await open(front.port);
    gone.write(requestBytes('GET', '/v1/charges', { Authorization: `Bearer ${SECRET_KEY}` }, null));
    let answer = await front.get('/v1/balances');
    // Its head may not have been read yet.
    while (answer.status !== 503) answer = await front.get('/v1/balances');
    gone.destroy();
    await until(() => unanswered === 1);
    for (const answered of front.bus.held.splice(0)) answered(done);
    await Promise.all(lists);
    const after = await Promise.all(
      Array.from({ length: LIMITS.keyListsAtOnceMax + 1 }, () => front.get('/v1/balances')),
    );
    t.ok(after.every(({ status }) => status === 200));
  },
);

t.test('what a key has under way is counted also while many others come', async (t: Test) => {
  // The held one is to outlive the others on a slow machine too.
  const front = await flooded(t, { bounds: { frontKeyRequestsMax: 1, commandDeadlineMs: 600_000 } });
  const held = front.get('/v1/balances');
  await until(() => front.bus.held.length === 1);
  const idle = `Bearer ${makeApiKey('secret', ACCOUNT_ID)}`;
  const before = callerOf(idle);
  t.equal(callerOf(idle), before);
  for (let i = 0; i <= LIMITS.frontKeysKeptMax; i += 256) {
    const all = Array.from({ length: 256 }, () =>
      front.get('/v1/balances', {
        Authorization: `Bearer ${makeApiKey('secret', 'acc_01KAJ3W8Q07M4R2N9X5T6V1B01')}`,
      }),
    );
    await Promise.all(all);
  }
  refused(t, 'GET', '/v1/balances', await front.get('/v1/balances'));
  front.bus.held[0]!({ type: 'done', body: '{}', replayed: false });
  t.equal((await held).status, 200);
  t.not(callerOf(idle), before, 'what is idle is forgotten: keys can be made up without end');
});

/** A merchant's create of which that much has come. */
async function partOf(t: Test, { front }: Watched, bytes: Buffer, length: number): Promise<Socket> {
  const socket = await open(front.port);
  t.teardown(() => socket.destroy());
  socket.write(bytes.subarray(0, length));
  t.hasStrict(await front.send(READ), { status: 200 }, 'it has been read before this');
  return socket;
}

t.test(
  'what a key has under way is counted once also where it was forgotten while a body came',
  async (t) => {
    const all = await watched(t, { bounds: { frontKeyRequestsMax: 1 } });
    const { front } = all;
    front.bus.answer = ({ type }) =>
      type === 'CreateCharge' ? null : { type: 'done', body: '{}', replayed: false };
    const bytes = createBytes('comes-slowly');
    const slow = await partOf(t, all, bytes, bytes.length - 1);
    const before = callerOf(`Bearer ${SECRET_KEY}`);
    while (callerOf(`Bearer ${SECRET_KEY}`) === before) {
      callerOf(`Bearer ${makeApiKey('secret', ACCOUNT_ID)}`);
    }
    const held = front.post('/v1/charges', CHARGE);
    await until(() => front.bus.held.length === 1);
    slow.write(bytes.subarray(-1));
    refused(t, 'POST', '/v1/charges', await readAnswer(slow));
    front.bus.held[0]!({ type: 'done', body: '{}', replayed: false });
    t.equal((await held).status, 201);
    t.equal((await front.get('/v1/balances')).status, 200, 'and what is answered is under way no more');
  },
);

const halfOf = (t: Test, on: Watched, bytes: Buffer): Promise<Socket> => partOf(t, on, bytes, 50_000);
const LARGE = JSON.stringify(CHARGE).padEnd(60_000, ' ');

t.test('too much of bodies that are not whole yet: 503 to those that take longest', async (t) => {
  const all = await watched(t, { bounds: { frontBodiesBytesMax: 110_000 } });
  const bytes = createBytes('half-a-body', LARGE);
  const head = { ...createHeaders(), Authorization: null };
  const dawdling = await halfOf(t, all, requestBytes('POST', '/v1/charges', head, LARGE));
  const refused = readAnswer(dawdling);
  const halves = [await halfOf(t, all, bytes), await halfOf(t, all, bytes)];
  const answer = await refused;
  t.hasStrict(answer, { status: 503, headers: { 'retry-after': '1' } });
  assertMatchesOpenApi('POST', '/v1/charges', answer.status, answer.body);
  for (const half of halves) {
    half.write(bytes.subarray(50_000));
    t.hasStrict(await readAnswer(half), { status: 201 }, 'who comes later, and goes on, is served');
  }
  t.strictSame(
    all.madeWay,
    ['service_unavailable'],
    'operators are told, and of no refusal by a service that cannot serve',
  );
  t.notOk(all.statuses.includes(503));
});

t.test('room for one body of the largest size is room for any, whatever pieces it comes in', async (t) => {
  const all = await watched(t, { bounds: { frontBodiesBytesMax: LIMITS.bodyBytesMax } });
  const bytes = createBytes('comes-in-pieces', LARGE);
  const slow = await halfOf(t, all, bytes);
  slow.write(bytes.subarray(50_000, 55_000));
  t.hasStrict(await all.front.send(READ), { status: 200 }, 'it has been read before this');
  slow.write(bytes.subarray(55_000));
  t.hasStrict(await readAnswer(slow), { status: 201 });
});

t.test('who has made way itself takes no room from others', async (t) => {
  const all = await watched(t, { bounds: { frontBodiesBytesMax: 50_000 } });
  const bytes = createBytes('grows-at-once', LARGE);
  const bodyAt = bytes.indexOf('\r\n\r\n') + 4;
  const oldest = await partOf(t, all, bytes, bodyAt + 1);
  const refused = readAnswer(oldest);
  const other = await partOf(t, all, bytes, bodyAt + 10_000);
  oldest.write(bytes.subarray(bodyAt + 1, bodyAt + 46_000));
  t.hasStrict(await refused, { status: 503 });
  other.write(bytes.subarray(bodyAt + 10_000));
  t.hasStrict(await readAnswer(other), { status: 201 });
  t.strictSame(all.madeWay, ['service_unavailable']);
});

t.test('a head of whose body nothing has come takes no room from bodies', async (t) => {
  const all = await watched(t, { bounds: { frontBodiesBytesMax: LIMITS.frontBodyBytesMin } });
  const bytes = createBytes('head-first');
  const bodyAt = bytes.indexOf('\r\n\r\n') + 4;
  const begun = await partOf(t, all, bytes, bodyAt + 1);
  const headAlone = await partOf(t, all, bytes, bodyAt);
  headAlone.write(bytes.subarray(bodyAt));
  t.hasStrict(await readAnswer(headAlone), { status: 201 });
  begun.write(bytes.subarray(bodyAt + 1));
  t.hasStrict(await readAnswer(begun), { status: 201 });
});

t.test('bodies that do not come leave half of the places to others', async (t) => {
  const { front, statuses, madeWay } = await watched(t, { bounds: { frontRequestsOpenMax: 4 } });
  const head = requestBytes('POST', '/v1/charges', { 'Content-Type': 'application/json' }, LARGE);
  const dawdling: Socket[] = [];
  while (dawdling.length < 4) {
    const socket = await open(front.port);
    t.teardown(() => socket.destroy());
    socket.write(head.subarray(0, head.length - LARGE.length + 1));
    dawdling.push(socket);
    t.hasStrict(await front.send(READ), { status: 200 });
  }
  t.hasStrict(await readAnswer(dawdling[0]!), { status: 503 }, 'the first has made room');
  t.strictSame([statuses, madeWay], [[200, 200, 200, 200], ['service_unavailable']]);
});

t.test(
  'a body too large that makes way is told that it is, also when its client reads after it has sent all',
  async (t) => {
    const all = await watched(t, { bounds: { frontRequestsOpenMax: 1 } });
    const bytes = createBytes('large-and-slow', ' '.repeat(4 * LIMITS.bodyBytesMax));
    const dawdling = await partOf(t, all, bytes, 2 * LIMITS.bodyBytesMax);
    await new Promise((resolve) => dawdling.write(bytes.subarray(2 * LIMITS.bodyBytesMax), resolve));
    const answer = await readAnswer(dawdling);
    t.hasStrict(answer, { status: 413, body: { error: { code: 'body_too_large' } } });
    assertMatchesOpenApi('POST', '/v1/charges', answer.status, answer.body);
    t.strictSame([all.statuses, all.madeWay], [[200], ['body_too_large']]);
    dawdling.write(READ);
    t.hasStrict(await readAnswer(dawdling), { status: 200 }, 'its connection was not closed on what it sent');
  },
);

t.test('bodies of which nothing is kept make no way for those that are', async (t) => {
  const { frontBodyBytesMin: one } = LIMITS;
  const all = await watched(t, { bounds: { frontBodiesBytesMax: one } });
  const bytes = createBytes('nothing-kept');
  const bodyAt = bytes.indexOf('\r\n\r\n') + 4;
  const headAlone = await partOf(t, all, bytes, bodyAt);
  const large = createBytes('too-large-yet', ' '.repeat(4 * LIMITS.bodyBytesMax));
  const tooLarge = await partOf(t, all, large, 2 * LIMITS.bodyBytesMax);
  const begun = await partOf(t, all, bytes, bodyAt + 1);
  const refused = readAnswer(begun);
  const last = await partOf(t, all, bytes, bodyAt + 1);
  t.hasStrict(await refused, { status: 503 }, 'it had the room');
  t.strictSame(all.madeWay, ['service_unavailable'], 'and it alone made way');
  for (const socket of [headAlone, last]) {
    socket.write(bytes.subarray(socket === headAlone ? bodyAt : bodyAt + 1));
    t.hasStrict(await readAnswer(socket), { status: 201 });
  }
  tooLarge.write(large.subarray(2 * LIMITS.bodyBytesMax));
  t.hasStrict(await readAnswer(tooLarge), { status: 413 });
});

t.test('a body takes room until it is whole, and only once', async (t) => {
  const all = await watched(t, { bounds: { frontBodiesBytesMax: 70_000 } });
  const { front } = all;
  front.bus.answer = ({ type }) =>
    type === 'CreateCharge' ? null : { type: 'done', body: '{}', replayed: false };
  const bytes = createBytes('half-by-half', LARGE);
  const waiting: Socket[] = [];
  while (waiting.length < 3) {
    const socket = await halfOf(t, all, bytes);
    socket.write(bytes.subarray(50_000));
    waiting.push(socket);
    await until(() => front.bus.held.length === waiting.length);
  }
  const answered = Promise.all(waiting.map(readAnswer));
  const refused = readAnswer(await halfOf(t, all, bytes));
  await halfOf(t, all, bytes);
  t.hasStrict(await refused, { status: 503 });
  for (const onReply of front.bus.held) onReply({ type: 'done', body: '{}', replayed: false });
  const statuses = (await answered).map(({ status }) => status);
  t.strictSame(statuses, [201, 201, 201], 'what is under way makes no way');

  const large = createBytes('too-large-now', ' '.repeat(4 * LIMITS.bodyBytesMax));
  const tooLarge = await partOf(t, all, large, 50_000);
  tooLarge.write(large.subarray(50_000, 2 * LIMITS.bodyBytesMax));
  t.hasStrict(await front.send(READ), { status: 200 });
  await halfOf(t, all, bytes);
  t.strictSame(all.madeWay, ['service_unavailable', 'service_unavailable'], 'nor until it is too large');
});
