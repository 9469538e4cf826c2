// A callback that no poller takes, or looks into: what has ended nobody asks the provider about, so the provider is not told
// that it was heard, and a person is told. Those that wait leave merchants their place.
import t from 'tap';
import type { OnReply } from '../../src/bus/bus.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { createLog } from '../../src/observability/log.ts';
import { LIMITS } from '../../src/limits.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { Callbacks } from '../../src/rails/callbacks.ts';
import type { LoadedRails } from '../../src/rails/loaded-rails.ts';
import { callbackHandler, sendHint } from '../../src/wiring/callbacks.ts';
import { startFront } from '../api/front.ts';

t.test('is a line of the log that names its transaction', async (t) => {
  const lines: string[] = [];
  const log = createLog({ level: 'info', node: 'front1', stream: { write: (line) => lines.push(line) } });
  const bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
  const hint = {
    accountId: 'acc_01M83KVP0NCKCQJT8VCMGAG200',
    transactionId: 'chg_01M83MZX6N00095SSPRQBRF700',
  };
  bus.attach('pollers', 0, (_, onReply) => onReply({ type: 'done', body: '{}', replayed: false }));
  sendHint(bus, hint, log);
  t.strictSame(lines, [], 'taken');
  bus.attach('pollers', 0, undefined);
  sendHint(bus, hint, log);
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0]!), {
    level: 'warn',
    transactionId: hint.transactionId,
    message: 'no poller took a callback: if its transaction had ended, ask its provider',
  });
});

t.test(
  'a provider is told that its callback was heard when it was looked into, and not before',
  async (t) => {
    const held: OnReply[] = [];
    const bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
    bus.attach('pollers', 0, (_, onReply) => held.push(onReply));
    const transaction = { id: 'chg_01JB2XK8Z30001NPQRSTVWXY00', accountId: 'acc_01JB2XK7T0000ABCDEFGHJKM00' };
    const callbacks = new Callbacks({ key: Buffer.alloc(32, 7), portalSecrets: new Map() });
    const rails: Pick<LoadedRails, 'rails' | 'callbacks' | 'isCallbackPlausible'> = {
      rails: new Map(),
      callbacks,
      isCallbackPlausible: () => true,
    };
    const lines: string[] = [];
    const log = createLog({ level: 'info', node: 'front1', stream: { write: (line) => lines.push(line) } });
    const onCallback = callbackHandler(bus, rails as LoadedRails, log, new Metrics());
    const { pathname } = new URL(callbacks.callbackUrl('http://x', 'mtn_ug', transaction));
    const front = await startFront({ onCallback });
    t.teardown(() => front.stop());
    const call = (): Promise<Response> =>
      fetch(`http://127.0.0.1:${front.port}${pathname}`, { method: 'PUT', body: '{}' });
    const heard = async (count: number): Promise<void> => {
      while (held.length < count) await new Promise((resolve) => setImmediate(resolve));
    };
    for (const [reply, status] of [
      [{ type: 'done', body: '{}', replayed: false }, 200],
      [{ type: 'unknown' }, 503],
      [{ type: 'unavailable' }, 503],
    ] as const) {
      let isAnswered = false;
      const answer = call().then((response) => {
        isAnswered = true;
        return response;
      });
      await heard(1);
      // The front has answered what came after it.
      t.equal((await fetch(`http://127.0.0.1:${front.port}/nowhere`)).status, 404);
      t.notOk(isAnswered);
      held.shift()!(reply);
      t.equal((await answer).status, status, reply.type);
    }
    t.equal(lines.length, 2);
    for (const line of lines) {
      t.match(
        JSON.parse(line),
        { request_id: /^req_/, transactionId: transaction.id },
        'found by the request',
      );
    }

    const given = { method: 'PUT', path: pathname, contentType: '', body: Buffer.alloc(0), requestId: 'r' };
    const waiting = Array.from({ length: LIMITS.frontCallbacksWaitingMax }, async () => onCallback(given));
    t.equal(held.length, LIMITS.frontCallbacksWaitingMax);
    t.equal((await call()).status, 503, 'at once, when too many wait');
    t.equal(held.length, LIMITS.frontCallbacksWaitingMax);
    for (const onReply of held.splice(0)) onReply({ type: 'done', body: '{}', replayed: false });
    t.strictSame(new Set(await Promise.all(waiting)), new Set(['accepted']));
    const again = call();
    await heard(1);
    held[0]!({ type: 'done', body: '{}', replayed: false });
    t.equal((await again).status, 200);
  },
);

t.test('a callback is read behind a byte order mark, and with a wrong hash not looked into', async (t) => {
  const heard: unknown[] = [];
  const bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
  bus.attach('pollers', 0, (message, onReply) => {
    heard.push(message);
    onReply({ type: 'done', body: '{}', replayed: false });
  });
  const transaction = { id: 'chg_01JB2XK8Z30001NPQRSTVWXY00', accountId: 'acc_01JB2XK7T0000ABCDEFGHJKM00' };
  const callbacks = new Callbacks({
    key: Buffer.alloc(32, 7),
    portalSecrets: new Map([['airtel_ug', 'secret']]),
  });
  const rails: Pick<LoadedRails, 'rails' | 'callbacks' | 'isCallbackPlausible'> = {
    rails: new Map(),
    callbacks,
    isCallbackPlausible: (railId, text) => railId === 'airtel_ug' && !text.includes('wrong'),
  };
  const lines: string[] = [];
  const log = createLog({ level: 'info', node: 'front1', stream: { write: (line) => lines.push(line) } });
  const front = await startFront({
    onCallback: callbackHandler(bus, rails as LoadedRails, log, new Metrics()),
  });
  t.teardown(() => front.stop());
  const { pathname } = new URL(callbacks.portalUrl('http://x', 'airtel_ug') ?? '');
  const call = async (rest: string): Promise<number> => {
    const body = `\ufeff{"transaction":{"id":"${referenceOf(transaction)}","status_code":"TS"}${rest}}`;
    return (await fetch(`http://127.0.0.1:${front.port}${pathname}`, { method: 'POST', body })).status;
  };
  t.equal(await call(''), 200);
  t.match(heard, [{ type: 'Hint', accountId: transaction.accountId, transactionId: transaction.id }]);
  t.strictSame(lines, []);
  t.equal(await call(',"hash":"wrong"'), 200, 'nor is it sent again');
  t.equal(heard.length, 1);
  t.match(lines, [/"rail":"airtel_ug".*a callback carries a wrong hash/]);
});
