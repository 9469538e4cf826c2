// Who asks for many lists waits behind their own: nobody else's request does.

import t, { type Test } from 'tap';
import type { Rejection } from '../../src/domain/error-code.ts';
import { ListLine } from '../../src/http/list-line.ts';
import { LIMITS } from '../../src/limits.ts';
import { makeApiKey } from '../../src/http/api-key.ts';
import { collectGarbage } from '../garbage.ts';
import { until } from '../until.ts';
import { ACCOUNT_ID, CHARGE, open, requestBytes, SECRET_KEY, startFront, type Answer } from './front.ts';

const OTHER_ACCOUNT_ID = 'acc_01KAJ3W8Q07M4R2N9X5T6V1B01';
const OTHER_KEY = makeApiKey('secret', OTHER_ACCOUNT_ID);
const LISTS = ['/v1/charges', '/v1/payouts', '/v1/transactions', '/v1/payout_destinations'];
const AT_ONCE = LIMITS.keyListsAtOnceMax;

t.test('a key has a few lists under way, and each that ends lets the next begin', async (t: Test) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const { bus } = front;
  bus.answer = () => null;
  const lists = Array.from({ length: AT_ONCE * 3 }, (_, i) => front.get(LISTS[i % LISTS.length]!));
  await until(() => bus.sent.length === AT_ONCE);

  const others = [
    front.get('/v1/charges', { Authorization: `Bearer ${OTHER_KEY}` }),
    front.get('/v1/balances'),
    front.post('/v1/charges', CHARGE),
  ];
  await until(() => bus.sent.length === AT_ONCE + others.length);
  t.equal(bus.sent.filter(({ type }) => type.startsWith('List')).length, AT_ONCE + 1);
  for (const answered of bus.held.splice(AT_ONCE)) answered({ type: 'done', body: '{}', replayed: false });
  t.strictSame(
    (await Promise.all(others)).map(({ status }) => status),
    [200, 200, 201],
    'another account, another read and a create wait for none of them',
  );

  bus.answer = () => ({ type: 'done', body: '{}', replayed: false });
  for (const answered of bus.held.splice(0)) answered({ type: 'done', body: '{}', replayed: false });
  const answers = await Promise.all(lists);
  t.ok(answers.every(({ status }) => status === 200));
  t.equal(bus.sent.length, lists.length + others.length);
});

t.test('lists of keys that somebody made up for an account are not before its own', async (t: Test) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const { bus } = front;
  bus.answer = () => null;
  const made = ['secret', 'publishable'].map((kind) => makeApiKey(kind as 'secret', ACCOUNT_ID));
  const lists = [...made, `${SECRET_KEY}X`].flatMap((key) =>
    Array.from({ length: AT_ONCE * 2 }, () => front.get('/v1/charges', { Authorization: `Bearer ${key}` })),
  );
  await until(() => bus.held.length === AT_ONCE);
  const own = front.get('/v1/charges');
  await until(() => bus.held.length === AT_ONCE + 1);
  bus.answer = () => ({ type: 'done', body: '{}', replayed: false });
  for (const answered of bus.held.splice(0)) answered({ type: 'done', body: '{}', replayed: false });
  t.equal((await own).status, 200);
  await Promise.all(lists);
});

t.test(
  'lists of keys that are refused stand in one line of their account, before nobody else’s',
  async (t: Test) => {
    const front = await startFront();
    t.teardown(() => front.stop());
    const { bus } = front;
    const refusedOf = (accountId: string): Promise<Answer> =>
      front.get('/v1/charges', { Authorization: `Bearer ${makeApiKey('publishable', accountId)}` });
    // What is refused takes as long as what is not, where the account is in another process.
    const asked: string[] = [];
    bus.send = (_group, _partition, message, onReply) => {
      const { accountId, problem } = message as { accountId?: string; problem?: Rejection | null };
      asked.push(`${accountId} ${problem?.code}`);
      bus.held.push(onReply);
    };
    const lists = Array.from({ length: AT_ONCE * 2 }, () => refusedOf(ACCOUNT_ID));
    await until(() => asked.length >= AT_ONCE);
    const others = [refusedOf(OTHER_ACCOUNT_ID), front.get('/v1/charges')];
    const [itsOwn, ofOther] = [`${ACCOUNT_ID} undefined`, `${OTHER_ACCOUNT_ID} secret_key_required`];
    await until(() => asked.includes(itsOwn) && asked.includes(ofOther));
    t.equal(asked.length, AT_ONCE + others.length, 'the rest waits');

    bus.send = (_group, _partition, _message, onReply) => {
      setImmediate(() => onReply({ type: 'done', body: '{}', replayed: false }));
    };
    for (const answered of bus.held.splice(0)) answered({ type: 'done', body: '{}', replayed: false });
    await Promise.all([...lists, ...others]);
  },
);

t.test('a list whose caller has gone, or waited too long, is not asked for', async (t: Test) => {
  const frontKeyRequestsMax = 2 * AT_ONCE + 1;
  const front = await startFront({ bounds: { commandDeadlineMs: 300, frontKeyRequestsMax } });
  t.teardown(() => front.stop());
  const { bus } = front;
  bus.answer = () => null;
  const lists = (length: number) => Array.from({ length }, () => front.get('/v1/charges'));
  const first = lists(AT_ONCE);
  await until(() => bus.sent.length === AT_ONCE);
  const gone = await open(front.port);
  gone.end(requestBytes('GET', '/v1/charges', { Authorization: `Bearer ${SECRET_KEY}` }, null));
  const answers = await Promise.all([...first, ...lists(AT_ONCE)]);
  t.ok(answers.every(({ status }) => status === 503));
  t.equal(bus.sent.length, AT_ONCE);

  bus.answer = () => ({ type: 'done', body: '{}', replayed: false });
  for (const answered of bus.held.splice(0)) answered({ type: 'unavailable' });
  const next = await Promise.all(lists(frontKeyRequestsMax));
  t.ok(
    next.every(({ status }) => status === 200),
    'and takes no place of those that follow',
  );
  t.equal(bus.sent.length, AT_ONCE + next.length);
});

t.test('keys come one after the other, and callers of other things between their lists', async (t: Test) => {
  const line = new ListLine();
  const begun: string[] = [];
  const list = (account: string) => (onDone: () => void) => {
    begun.push(account);
    for (const end = performance.now() + LIMITS.turnMs; performance.now() < end;);
    onDone();
  };
  for (let i = 0; i < 3; i++) line.append('many', list('many'));
  line.append('one', list('one'));
  while (begun.filter((each) => each !== '-').length < 4) {
    await new Promise((resolve) => setImmediate(resolve));
    begun.push('-');
  }
  t.equal(begun.join(' ').replaceAll(/(- )+/g, '- ').replace(/^- /, ''), 'many - one - many - many -');
});

t.test(
  'a key that has no list any more is forgotten: anybody may make up any number of them',
  async (t: Test) => {
    const line = new ListLine();
    const length = 100_000;
    const keys = 200;
    await collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let n = 0; n < keys; n++) {
      await new Promise<void>((resolve) => {
        line.append(String(n).padEnd(length, 'x'), (onDone) => {
          onDone();
          resolve();
        });
      });
    }
    await collectGarbage();
    const kept = process.memoryUsage().heapUsed - before;
    await new Promise((resolve) => line.append('one more', resolve));
    t.ok(kept < (keys * length) / 2, `${kept} bytes`);
  },
);
