// An operator's change whose caller has been cut off is not made any more: they may have looked, found nothing, and sent it again.
import type { Socket } from 'node:net';
import t from 'tap';
import type { Test } from 'tap';
import { platformGroup } from '../../actors/platform/group.ts';
import type { Bus } from '../../src/bus/bus.ts';
import { hashApiKey } from '../../src/http/api-key.ts';
import { LIMITS } from '../../src/limits.ts';
import { askAccount } from '../../src/operator/context.ts';
import { until } from '../until.ts';
import { open, readAnswer, readToEnd, requestBytes } from './front.ts';
import { startOperator, TOKEN } from './operator-harness.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const directory = temporaryDirectory(t);
let operator = await startOperator(directory);
t.teardown(() => operator.stop());

const SHOP = { name: 'Kampala Coffee', country: 'UG', live: true };

t.test('a change whose caller has been cut off before its audit entry was there is not tried', async (t) => {
  const id = (await operator.call('POST', '/accounts', SHOP)).body.id as string;
  const now = Date.now;
  const send = operator.bus.send.bind(operator.bus);
  let waitedMs = 0;
  t.intercept(Date, 'now', { value: () => now() + waitedMs });
  t.intercept(operator.bus, 'send', {
    value: (...[group, partition, message, onReply]: Parameters<Bus['send']>) => {
      const isBegun = message.type === 'BeginAudit';
      send(group, partition, message, (reply) => {
        // As of a disk that did not answer for so long.
        if (isBegun) waitedMs += LIMITS.commandDeadlineMs + 1;
        onReply(reply);
      });
    },
  });
  // Read meanwhile, it is not there: whoever sends it again would have two.
  const user = { email: 'late@x', role: 'OWNER' };
  t.match(await operator.call('POST', `/accounts/${id}/users`, user), {
    status: 503,
    body: { error: { code: 'service_unavailable' } },
  });
  t.strictSame((await operator.call('GET', `/accounts/${id}`)).body.users, []);
  const { body } = await operator.call('GET', '/audit?limit=1');
  t.match(body.data, [{ body: user, outcome: 'refused', status: 503, code: 'service_unavailable' }]);
});

t.test('a change whose end the audit log does not take is answered, and operators are told', async (t) => {
  const send = operator.bus.send.bind(operator.bus);
  const bus = t.intercept(operator.bus, 'send', {
    value: (...[group, partition, message, onReply]: Parameters<Bus['send']>) =>
      message.type === 'EndAudit'
        ? onReply({ type: 'unavailable' })
        : send(group, partition, message, onReply),
  });
  const { status, headers } = await operator.call('POST', '/accounts', SHOP);
  t.equal(status, 201);
  bus.restore();
  const told = operator.lines.filter((line) => line.includes('the end of a change is missing'));
  t.equal(told.length, 1, 'of that change alone');
  const change = { request_id: headers['request-id'], outcome: 'done', status: 201 };
  t.hasStrict(JSON.parse(told[0]!), change, 'and what came of it');
  const { body } = await operator.call('GET', '/audit?limit=1');
  t.hasStrict(body.data, [{ outcome: null, status: null }], 'its entry stays open');
});

t.test('a change of which nobody knows what became of it has no answer, and its entry says so', async (t) => {
  const id = (await operator.call('POST', '/accounts', SHOP)).body.id as string;
  const send = operator.bus.send.bind(operator.bus);
  t.intercept(operator.bus, 'send', {
    value: (...[group, partition, message, onReply]: Parameters<Bus['send']>) =>
      group === 'accounts' ? onReply({ type: 'unknown' }) : send(group, partition, message, onReply),
  });
  t.intercept(operator.context, 'raiseWriteFormat', { value: async () => ({ type: 'unknown' }) });
  const users = `/accounts/${id}/users`;
  await t.rejects(operator.call('POST', users, { email: 'owner@x', role: 'OWNER' }), { code: 'ECONNRESET' });
  await t.rejects(operator.call('POST', '/write_format/raise'), { code: 'ECONNRESET' });
  const { body } = await operator.call('GET', '/audit?limit=2');
  const unknown = { outcome: 'unknown', status: null, code: null, object_id: null, ended_at: /Z$/ };
  t.match(body.data, [unknown, unknown]);
  // Reading again changes nothing.
  t.hasStrict(await operator.call('GET', users), {
    status: 503,
    headers: { 'retry-after': '1' },
    body: { error: { code: 'service_unavailable' } },
  });
});

/** Has the call made at a time at which it soon is too late, and its change reach who decides it when it is. */
async function callLate(t: Test, type: string, path: string, body: object): Promise<void> {
  const now = Date.now;
  const send = operator.bus.send.bind(operator.bus);
  const cutOffMs = 500;
  let aheadMs = cutOffMs - LIMITS.commandDeadlineMs;
  let cutOffAt = Infinity;
  let isHeld = false;
  const date = t.intercept(Date, 'now', { value: () => now() + aheadMs });
  const bus = t.intercept(operator.bus, 'send', {
    value: (...[group, partition, message, onReply]: Parameters<Bus['send']>) => {
      // It was received before this. From here on a deadline counts from now.
      if (aheadMs !== 0) cutOffAt = now() + cutOffMs;
      aheadMs = 0;
      if (message.type !== type) return send(group, partition, message, onReply);
      isHeld = true;
      void until(() => now() > cutOffAt).then(() => send(group, partition, message, onReply));
    },
  });
  // The connection may be closed before there is an answer.
  await operator.call('POST', path, body, { operator: type }).catch(() => {});
  t.ok(isHeld);
  date.restore();
  bus.restore();
  const isOfIt = (entry: { readonly operator: string }): boolean => entry.operator === type;
  const entry = await until(
    async () => (await operator.call('GET', '/audit')).body.data.find(isOfIt),
    ({ outcome }) => outcome !== null,
  );
  t.match(entry, { outcome: 'refused', status: 503, code: 'service_unavailable' });
}

t.test('a change that reaches its account when its caller has been cut off is not made', async (t) => {
  const id = (await operator.call('POST', '/accounts', SHOP)).body.id as string;
  const list = async (): Promise<unknown> => (await operator.call('GET', '/accounts?limit=1')).text;
  const before = await list();
  await callLate(t, 'AddUser', `/accounts/${id}/users`, { email: 'late@x', role: 'OWNER' });
  t.strictSame((await operator.call('GET', `/accounts/${id}`)).body.users, []);
  await callLate(t, 'RegisterAccount', '/accounts', SHOP);
  t.equal(await list(), before);
});

/** Sends it, and cuts the connection as soon as the message of this type is on its way. */
async function cutOff(t: Test, type: string, path: string, body: object): Promise<void> {
  const send = operator.bus.send.bind(operator.bus);
  const cut = new AbortController();
  const bus = t.intercept(operator.bus, 'send', {
    value: (...[group, partition, message, onReply]: Parameters<Bus['send']>) => {
      send(group, partition, message, onReply);
      if (message.type === type) cut.abort();
    },
  });
  const url = `http://127.0.0.1:${operator.port}/operator/v1${path}`;
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
  const sent = fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal: cut.signal });
  await t.rejects(sent, { name: 'AbortError' });
  bus.restore();
}

t.test(
  'an account that is asked for again with its key, after the connection was cut, is made once',
  async (t) => {
    const listed = async () =>
      (await operator.call('GET', '/accounts?limit=100')).body.data.map(({ id }: { id: string }) => id);
    const before: readonly string[] = await listed();
    const shop = { ...SHOP, idempotency_key: 'merchant 4711' };
    await cutOff(t, 'RegisterKeyedAccount', '/accounts', shop);
    const again = await operator.call('POST', '/accounts', shop);
    const third = await operator.call('POST', '/accounts', shop);
    t.strictSame(await listed(), [again.body.id, ...before]);
    t.hasStrict(third, { status: 201, body: { ...again.body } });
    t.hasStrict(await operator.call('POST', '/accounts', { ...shop, country: 'KE' }), {
      status: 422,
      body: { error: { code: 'idempotency_key_reused' } },
    });

    await operator.stop();
    operator = await startOperator(directory);
    t.equal((await operator.call('POST', '/accounts', shop)).body.id, again.body.id, 'after a restart too');
    const other = await operator.call('POST', '/accounts', { ...shop, idempotency_key: 'merchant 4712' });
    t.not(other.body.id, again.body.id);
    const known = await listed();
    const { RegisterKeyedAccount: _, ...messages } = platformGroup.messages;
    t.intercept(platformGroup, 'messages', { value: messages });
    const late = { ...SHOP, idempotency_key: 'merchant 4713' };
    const refused = { status: 503, body: { error: { code: 'service_unavailable' } } };
    t.hasStrict(await operator.call('POST', '/accounts', late), refused, 'none, where its owner is older');
    t.strictSame(await listed(), known);
  },
);

t.test(
  'an app that is asked for again with its key, after the connection was cut, is made once',
  async (t) => {
    const { id } = (await operator.call('POST', '/accounts', SHOP)).body;
    const apps = `/accounts/${id}/apps`;
    const till = { name: 'Till', domain: 'coffee.test', idempotency_key: 'till of merchant 4711' };
    await cutOff(t, 'ConnectApp', apps, till);
    const again = await operator.call('POST', apps, till);
    const [app, ...others] = (await operator.call('GET', apps)).body.data;
    t.strictSame(others, []);
    t.equal(again.status, 409);
    const { code, message } = again.body.error;
    t.equal(code, 'conflict');
    t.ok(
      message.startsWith(`${app.id} was connected with this idempotency key at ${app.created_at}. `),
      message,
    );

    await operator.stop();
    operator = await startOperator(directory);
    t.equal((await operator.call('POST', apps, till)).status, 409, 'after a restart too');
    await operator.call('DELETE', `${apps}/${app.id}`);
    const removed = await operator.call('POST', apps, till);
    t.equal(removed.status, 409);
    t.match(removed.body.error.message, /and removed since: use a new key\.$/);

    const second = await operator.call('POST', apps, { ...till, idempotency_key: 'another till' });
    t.equal(second.status, 201);
    const { secret_key: key } = second.body;
    const balances = { type: 'GetBalances', accountId: id, keyHash: hashApiKey(key), problem: null } as const;
    t.equal((await askAccount(operator.context, balances)).type, 'done', 'its key opens');
    const elsewhere = (await operator.call('POST', '/accounts', SHOP)).body.id;
    const theirs = await operator.call('POST', `/accounts/${elsewhere}/apps`, till);
    t.equal(theirs.status, 201, 'keys are of an account');
    t.not(theirs.body.publishable_key, app.publishable_key);
  },
);

t.test(
  'a change that takes no body is not begun before the end of one that comes all the same',
  async (t) => {
    const { id } = (await operator.call('POST', '/accounts', SHOP)).body;
    const apps = `/accounts/${id}/apps`;
    const app = (await operator.call('POST', apps, { name: 'Till', domain: 'coffee.test' })).body;
    const headers = { Authorization: `Bearer ${TOKEN}`, 'Transfer-Encoding': 'chunked' };
    const remove = requestBytes('DELETE', `/operator/v1${apps}/${app.id}`, headers, null);
    const send = t.capture(operator.bus, 'send', operator.bus.send.bind(operator.bus));
    const begin = async (): Promise<Socket> => {
      const socket = await open(operator.port);
      t.teardown(() => socket.destroy());
      socket.write(remove);
      t.equal((await operator.call('GET', apps)).body.data[0].removed_at, null);
      const types = send().map(({ args }) => args[2].type);
      t.strictSame(types, ['GetAccount'], 'its head was read before this');
      return socket;
    };
    const broken = await begin();
    const all = readToEnd(broken);
    broken.write('zz\r\n');
    t.match(await all, /^HTTP\/1\.1 400 /, 'a chunk that is none');
    const whole = await begin();
    const answered = readAnswer(whole);
    whole.write('3\r\nabc\r\n0\r\n\r\n');
    t.hasStrict(await answered, { status: 200, body: { id: app.id } });
  },
);
