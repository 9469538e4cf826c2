// One key's requests leave others their place, in a front and in what is behind it: whoever floods it, or waits for a rail that
// hangs, is refused beyond a share, and nobody else is.

import t, { type Test } from 'tap';
import { makeApiKey } from '../../src/http/api-key.ts';
import { callerOf } from '../../src/http/caller.ts';
import { LIMITS } from '../../src/limits.ts';
import { until } from '../until.ts';
import { assertMatchesOpenApi } from './openapi-check.ts';
import {
  ACCOUNT_ID,
  CHARGE,
  open,
  requestBytes,
  SECRET_KEY,
  startFront,
  type Answer,
  type Front,
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
  const front = await flooded(t, { bounds: { frontKeyRequestsMax: 2 } });
  const held = [front.get('/v1/balances'), front.get('/v1/balances')];
  await until(() => front.bus.held.length === 2);
  for (const authorization of [`Bearer  ${SECRET_KEY}`, `bearer ${SECRET_KEY}`, `BEARER   ${SECRET_KEY}`]) {
    refused(t, 'GET', '/v1/balances', await front.get('/v1/balances', { Authorization: authorization }));
  }
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
  const observer = {
    onReply() {},
    onNoReply() {},
    onKeyFull: (accountId: string) => void full.push(accountId),
  };
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
      observer: { onReply() {}, onNoReply: () => unanswered++ },
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
