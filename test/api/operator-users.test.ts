// Members of an account, as an operator or a dashboard changes them: their role, and that they are gone.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freshId } from '../../src/operator/context.ts';
import { type Reply, startOperator } from './operator-harness.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const dir = temporaryDirectory(t);
let operator = await startOperator(dir);
t.teardown(() => operator.stop());

function refused(t: Test, reply: Reply, status: number, code: string, param: string | null = null): void {
  t.hasStrict(reply, { status, body: { error: { code, param } } }, `${status} ${code} ${param}`);
}

/** An account with users of those roles: its path, and theirs by role. */
async function accountWith(...roles: string[]) {
  const shop = { name: 'Kampala Coffee', country: 'UG', live: true };
  const path = `/accounts/${(await operator.call('POST', '/accounts', shop)).body.id}`;
  const ids: string[] = [];
  for (const [n, role] of roles.entries()) {
    const { body } = await operator.call('POST', `${path}/users`, { email: `${n}@coffee.test`, role });
    ids.push(body.id);
  }
  const users = async () => (await operator.call('GET', `${path}/users`)).body.data;
  return { path, ids, users };
}

t.test('a member gets another role, and is removed', async (t) => {
  const { path, ids, users } = await accountWith('OWNER', 'MEMBER');
  const one = `${path}/users/${ids[1]}`;
  const wallet = { label: 'Till', msisdn: '0772000001', by: ids[1] };
  refused(t, await operator.call('POST', `${path}/wallets`, wallet), 403, 'not_permitted', 'by');
  const changed = await operator.call('PATCH', one, { role: 'ADMIN' });
  t.hasStrict(changed, {
    status: 200,
    body: { id: ids[1], object: 'user', role: 'ADMIN', removed_at: null },
  });
  t.equal((await operator.call('POST', `${path}/wallets`, wallet)).status, 201);

  const removed = await operator.call('DELETE', one);
  t.match(removed, { status: 200, body: { id: ids[1], role: 'ADMIN', removed_at: /Z$/ } });
  t.strictSame((await operator.call('DELETE', one)).body, removed.body, 'a removal that comes again');
  refused(t, await operator.call('PATCH', one, { role: 'MEMBER' }), 409, 'conflict');
  refused(
    t,
    await operator.call('POST', `${path}/wallets`, { ...wallet, label: 'Safe' }),
    403,
    'not_permitted',
    'by',
  );
  t.hasStrict(await users(), [{ id: ids[0], removed_at: null }, removed.body]);
  t.hasStrict((await operator.call('GET', `${path}/wallets`)).body.data, [{ status: 'PENDING_APPROVAL' }]);

  // Their address is free again.
  const again = { email: '1@coffee.test', role: 'FINANCE' };
  t.equal((await operator.call('POST', `${path}/users`, again)).status, 201);
});

t.test('the last owner stays, as an owner', async (t) => {
  const { path, ids } = await accountWith('OWNER', 'OWNER');
  const [first, second] = ids.map((id) => `${path}/users/${id}`);
  t.equal((await operator.call('PATCH', first!, { role: 'MEMBER' })).status, 200);
  refused(t, await operator.call('PATCH', second!, { role: 'ADMIN' }), 409, 'conflict');
  refused(t, await operator.call('DELETE', second!), 409, 'conflict');
});

t.test('an owner changes and removes others than owners', async (t) => {
  const { path, ids } = await accountWith('OWNER', 'OWNER', 'ADMIN', 'MEMBER');
  const [owner, otherOwner, admin, member] = ids;
  const of = (id: string | undefined, by?: string): string =>
    `${path}/users/${id}${by === undefined ? '' : `?by=${by}`}`;
  refused(
    t,
    await operator.call('PATCH', of(member), { role: 'OWNER', by: admin }),
    403,
    'not_permitted',
    'by',
  );
  refused(t, await operator.call('DELETE', of(member, admin)), 403, 'not_permitted', 'by');
  refused(t, await operator.call('DELETE', of(otherOwner, owner)), 403, 'not_permitted', 'by');
  t.equal((await operator.call('PATCH', of(admin), { role: 'FINANCE', by: owner })).status, 200);
  t.equal((await operator.call('DELETE', of(member, owner))).status, 200);
  t.equal((await operator.call('DELETE', of(otherOwner))).status, 200);
});

t.test('what is wrong is named, and all of it is in the audit log', async (t) => {
  const { path, ids, users } = await accountWith('OWNER', 'MEMBER');
  const before = await users();
  const [owner, member] = ids;
  const nobody = freshId('user');
  const wrong: [string, string, unknown, number, string, string | null][] = [
    ['PATCH', `${path}/users/${member}`, {}, 400, 'validation_failed', 'role'],
    ['PATCH', `${path}/users/${member}`, { role: 'KING' }, 400, 'validation_failed', 'role'],
    ['PATCH', `${path}/users/${member}`, { role: 'ADMIN', by: 'me' }, 400, 'validation_failed', 'by'],
    ['PATCH', `${path}/users/${member}`, { role: 'ADMIN', by: nobody }, 403, 'not_permitted', 'by'],
    ['PATCH', `${path}/users/${nobody}`, { role: 'ADMIN' }, 404, 'not_found', null],
    ['PATCH', `${path}/users/usr_1`, { role: 'ADMIN' }, 404, 'not_found', null],
    ['DELETE', `${path}/users/${nobody}`, undefined, 404, 'not_found', null],
    ['DELETE', `/accounts/${freshId('account')}/users/${member}`, undefined, 404, 'not_found', null],
    ['DELETE', `${path}/users/${member}?by=me`, undefined, 400, 'validation_failed', 'by'],
    ['DELETE', `${path}/users/${member}?from=me`, undefined, 400, 'unknown_parameter', 'from'],
    ['GET', `${path}/users/${member}`, undefined, 405, 'method_not_allowed', null],
  ];
  for (const [method, at, body, status, code, param] of wrong) {
    refused(t, await operator.call(method, at, body), status, code, param);
  }
  t.strictSame(await users(), before);

  const by = { Operator: 'amina' };
  await operator.call('PATCH', `${path}/users/${member}`, { role: 'ADMIN', by: owner }, by);
  await operator.call('DELETE', `${path}/users/${member}?by=${owner}`, undefined, by);
  await operator.call('DELETE', `${path}/users/${owner}`, undefined, by);
  const { body } = await operator.call('GET', '/audit?limit=3');
  const remove = 'DELETE /operator/v1/accounts/:account_id/users/:user_id';
  t.hasStrict(body.data, [
    { operator: 'amina', action: remove, body: null, outcome: 'refused', code: 'conflict' },
    { operator: 'amina', action: remove, body: { by: owner }, outcome: 'done' },
    {
      action: remove.replace('DELETE', 'PATCH'),
      body: { role: 'ADMIN', by: owner },
      outcome: 'done',
      status: 200,
      object_id: null,
    },
  ]);
});

t.test('they are as they were after a restart', async (t) => {
  const { path, ids, users } = await accountWith('OWNER', 'MEMBER', 'FINANCE');
  await operator.call('DELETE', `${path}/users/${ids[1]}`);
  await operator.call('PATCH', `${path}/users/${ids[2]}`, { role: 'OWNER' });
  const before = await users();
  for (const viewsGo of [false, true]) {
    await operator.stop();
    if (viewsGo) rmSync(join(dir, 'views'), { recursive: true });
    operator = await startOperator(dir);
    t.strictSame(await users(), before);
  }
});
