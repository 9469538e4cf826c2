// An operator's change whose caller has been cut off is not made any more: they may have looked, found nothing, and sent it again.
import t from 'tap';
import type { Test } from 'tap';
import type { Bus } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { until } from '../until.ts';
import { startOperator } from './operator-harness.ts';

const operator = await startOperator(t.testdir());
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
