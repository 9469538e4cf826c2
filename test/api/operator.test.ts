// What operators can do: accounts, members, apps, wallets, and that every change is in the audit log without secrets.
import { equal } from 'node:assert/strict';
import t from 'tap';
import type { Bus } from '../../src/bus/bus.ts';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import { hashApiKey } from '../../src/http/api-key.ts';
import { LIMITS } from '../../src/limits.ts';
import { createAccount, openRegisteredAccounts, Openings } from '../../src/operator/account-actions.ts';
import { askPlatform, freshId, fromNow } from '../../src/operator/context.ts';
import { open, readToEnd } from './front.ts';
import { startOperator, TOKEN } from './operator-harness.ts';
import type { Test } from 'tap';
import type { Reply } from './operator-harness.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const dir = temporaryDirectory(t);
let operator = await startOperator(dir);
t.teardown(() => operator.stop());

const SHOP = { name: 'Kampala Coffee', country: 'UG', live: true, payouts_enabled: true };

async function newAccount(changes: object = {}): Promise<string> {
  const { status, body } = await operator.call('POST', '/accounts', { ...SHOP, ...changes });
  equal(status, 201);
  return body.id as string;
}

async function newUser(account: string, email: string, role: string): Promise<string> {
  const { body } = await operator.call('POST', `/accounts/${account}/users`, { email, role });
  return body.id as string;
}

function refused(t: Test, reply: Reply, status: number, code: string, param: string | null = null): void {
  t.match(
    reply,
    { status, body: { error: { code, param, request_id: /^req_/ } } },
    `${status} ${code} ${param}`,
  );
}

t.test('only the operator token opens it; health and metrics need none', async (t) => {
  refused(
    t,
    await operator.call('GET', '/accounts', undefined, { authorization: '' }),
    401,
    'authentication_required',
  );
  for (const authorization of ['Bearer wrong', `Bearer ${TOKEN}x`, 'Bearer sk_live_x']) {
    refused(t, await operator.call('GET', '/accounts', undefined, { authorization }), 401, 'invalid_api_key');
  }
  for (const path of ['//healthz', '//readyz', '//metrics']) {
    t.equal((await operator.call('GET', path, undefined, { authorization: '' })).status, 200, path);
  }
});

t.test('an account is created, read, listed and changed', async (t) => {
  const created = await operator.call('POST', '/accounts', SHOP);
  t.match(created, {
    status: 201,
    body: {
      id: /^acc_/,
      object: 'account',
      ...SHOP,
      withdrawals_enabled: false,
      users: [],
      apps: [],
      wallets: [],
    },
  });
  const { id } = created.body;
  t.strictSame((await operator.call('GET', `/accounts/${id}`)).body, created.body);
  t.hasStrict((await operator.call('GET', '/accounts')).body.data[0], { id, name: SHOP.name, opened: true });

  const changes = {
    withdrawals_enabled: true,
    approval_thresholds: { UGX: '100' },
    cash_out_per_minute: 3,
    fees: { CHARGE: { UGX: { fixed: '10', basis_points: 0, floor: null, cap: null } } },
    limits: { PAYOUT: { UGX: { maximum: '9000', daily: null, monthly: null } } },
  };
  const changed = await operator.call('PATCH', `/accounts/${id}`, changes);
  t.hasStrict(changed, { status: 200, body: { ...SHOP, ...changes } });
  t.strictSame((await operator.call('GET', `/accounts/${id}`)).body, changed.body);
  const back = await operator.call('PATCH', `/accounts/${id}`, {
    live: false,
    payouts_enabled: false,
    fees: { CHARGE: { UGX: null } },
  });
  const kept = { withdrawals_enabled: true, cash_out_per_minute: 3 };
  t.hasStrict(back.body, { live: false, payouts_enabled: false, fees: {}, ...kept });
  const own = {
    approval_thresholds: { UGX: null },
    limits: { PAYOUT: { UGX: null } },
    cash_out_per_minute: null,
  };
  const none = { approval_thresholds: {}, limits: {}, cash_out_per_minute: null };
  t.hasStrict((await operator.call('PATCH', `/accounts/${id}`, own)).body, none, 'the terms of the service');
  const { body: plain } = await operator.call('POST', '/accounts', { name: 'Plain', country: 'KE' });
  t.hasStrict(
    plain,
    { live: false, payouts_enabled: false, withdrawals_enabled: false },
    'may do nothing yet',
  );
});

t.test('wrong bodies, queries and paths are refused by name, and change nothing', async (t) => {
  const id = await newAccount();
  const before = (await operator.call('GET', `/accounts/${id}`)).text;
  const wrong: [string, string, unknown, number, string, string | null][] = [
    ['POST', '/accounts', {}, 400, 'validation_failed', 'name'],
    ['POST', '/accounts', { ...SHOP, name: '' }, 400, 'validation_failed', 'name'],
    ['POST', '/accounts', { ...SHOP, name: ' \t\u00a0' }, 400, 'validation_failed', 'name'],
    ['POST', '/accounts', { name: 'x', country: 'TZ' }, 400, 'validation_failed', 'country'],
    ['POST', '/accounts', { ...SHOP, live: 'yes' }, 400, 'validation_failed', 'live'],
    ['POST', '/accounts', { ...SHOP, extra: 1 }, 400, 'validation_failed', 'extra'],
    ['POST', '/accounts', [], 400, 'invalid_json', null],
    ['GET', '/accounts?limit=0', undefined, 400, 'validation_failed', 'limit'],
    ['GET', '/accounts?limit=101', undefined, 400, 'validation_failed', 'limit'],
    ['GET', '/accounts?page=2', undefined, 400, 'unknown_parameter', 'page'],
    ['GET', '/accounts?starting_after=x', undefined, 400, 'invalid_cursor', 'starting_after'],
    ...['x', freshId('app')].map((cursor): (typeof wrong)[number] => [
      'GET',
      `/accounts/${id}/deliveries?starting_after=${cursor}`,
      undefined,
      400,
      'invalid_cursor',
      'starting_after',
    ]),
    ['GET', '/accounts/acc_x', undefined, 404, 'not_found', null],
    ['GET', `/accounts/${freshId('account')}`, undefined, 404, 'not_found', null],
    ['PATCH', `/accounts/${freshId('account')}`, { live: true }, 404, 'not_found', null],
    [
      'PATCH',
      `/accounts/${id}`,
      { fees: { CHARGE: { UGX: 5 } } },
      400,
      'validation_failed',
      'fees.CHARGE.UGX',
    ],
    ...[0, LIMITS.cashOutPerMinuteMax + 1].map((count): (typeof wrong)[number] => [
      'PATCH',
      `/accounts/${id}`,
      { cash_out_per_minute: count },
      400,
      'validation_failed',
      'cash_out_per_minute',
    ]),
    ['POST', `/accounts/${id}/users`, { email: 'nobody', role: 'OWNER' }, 400, 'validation_failed', 'email'],
    ['POST', `/accounts/${id}/users`, { email: 'a@b', role: 'KING' }, 400, 'validation_failed', 'role'],
    [
      'POST',
      `/accounts/${id}/apps`,
      { name: 'a', domain: 'b', webhook_url: 'http://x' },
      400,
      'validation_failed',
      'webhook_url',
    ],
    [
      'PATCH',
      `/accounts/${id}/apps/${freshId('app')}`,
      { webhook_url: 'http://x' },
      400,
      'validation_failed',
      'webhook_url',
    ],
    ['DELETE', `/accounts/${id}/apps/${freshId('app')}`, undefined, 404, 'not_found', null],
    [
      'POST',
      `/accounts/${id}/wallets`,
      { label: 'x', msisdn: '1', by: 'me' },
      400,
      'validation_failed',
      'by',
    ],
    [
      'POST',
      `/accounts/${id}/wallets/wal_1/approve`,
      { by: freshId('user') },
      404,
      'destination_not_found',
      null,
    ],
    ['GET', '/nothing', undefined, 404, 'not_found', null],
    ['PUT', '/accounts', {}, 405, 'method_not_allowed', null],
  ];
  for (const [method, path, body, status, code, param] of wrong) {
    refused(t, await operator.call(method, path, body), status, code, param);
  }
  const plain = { 'content-type': 'text/plain' };
  const asText = await operator.call('PATCH', `/accounts/${id}`, { live: false }, plain);
  refused(t, asText, 415, 'unsupported_media_type');
  const words = '`by` must be an id: usr_ and 26 characters.';
  for (const by of ['amina@shop.test', freshId('app'), 'usr_1']) {
    const { body } = await operator.call('POST', `/accounts/${id}/wallets/${freshId('wallet')}/revoke`, {
      by,
    });
    t.equal(body.error.message, words, 'what is wrong is said in words, not as a pattern');
  }
  for (const names of [['x'.repeat(60_000)], Array.from({ length: 4_000 }, (_, at) => `field${at}`)]) {
    const fees = Object.fromEntries(names.map((name) => [name, 1]));
    const long = await operator.call('PATCH', `/accounts/${id}`, { fees });
    t.match([long.status, long.body.error.code], [400, 'validation_failed']);
    t.ok(long.text.length < 4_000, `${long.text.length} characters`);
    t.match(long.body.error.param, /^fees\.(x{100}|field0$)/);
    t.match(long.body.error.message, names.length > 1 ? /; and 3984 more\.$/ : /… is not known\.$/);
  }
  const twice = { fees: { CHARGE: { UGX: 5 } }, limits: { PAYOUT: [] } };
  const { body } = await operator.call('PATCH', `/accounts/${id}`, twice);
  t.match(body.error.message, /^fees\.CHARGE\.UGX is .*; limits\.PAYOUT is /, 'all that is wrong with terms');
  t.equal((await operator.call('GET', `/accounts/${id}`)).text, before);
});

t.test('users have a role, and one e-mail address one user', async (t) => {
  const id = await newAccount();
  const user = await operator.call('POST', `/accounts/${id}/users`, { email: 'a@shop.test', role: 'OWNER' });
  t.match(user, { status: 201, body: { id: /^usr_/, object: 'user', email: 'a@shop.test', role: 'OWNER' } });
  refused(
    t,
    await operator.call('POST', `/accounts/${id}/users`, { email: 'a@shop.test', role: 'MEMBER' }),
    409,
    'conflict',
    'email',
  );
  t.strictSame((await operator.call('GET', `/accounts/${id}/users`)).body, {
    object: 'list',
    data: [user.body],
  });
});

t.test('an account has no more apps than its events have deliveries for', async (t) => {
  const id = await newAccount();
  const app = { name: 'Shop', domain: 'shop.test' };
  const connect = () => operator.call('POST', `/accounts/${id}/apps`, app);
  const { body: first } = await connect();
  for (let count = 1; count < LIMITS.appsPerAccountMax; count++) t.equal((await connect()).status, 201);
  const one = await connect();
  refused(t, one, 409, 'conflict');
  t.match(one.body.error.message, /has 100 apps, the most it may have: remove one/);
  t.equal((await operator.call('DELETE', `/accounts/${id}/apps/${first.id}`)).status, 200);
  t.equal((await connect()).status, 201);
});

t.test('an app shows its secret key once; only its hash is kept', async (t) => {
  const id = await newAccount();
  const app = { name: 'Shop', domain: 'shop.test', webhook_url: 'https://shop.test/hook' };
  const { status, body } = await operator.call('POST', `/accounts/${id}/apps`, app);
  t.equal(status, 201);
  t.match(body, {
    id: /^app_/,
    ...app,
    secret_key: /^sk_live_/,
    publishable_key: /^pk_live_/,
    signing_secret: /^whsec_/,
  });
  t.equal(body.secret_key.slice(8, 34), id.slice(4), 'the key names its account');

  const list = await operator.call('GET', `/accounts/${id}/apps`);
  t.hasStrict(list.body.data, [{ id: body.id, publishable_key: body.publishable_key, removed_at: null }]);
  t.notMatch(
    list.text,
    new RegExp(`${body.secret_key}|${body.signing_secret}|${hashApiKey(body.secret_key)}`),
  );
  const revealed = await operator.call('POST', `/accounts/${id}/apps/${body.id}/reveal_signing_secret`);
  t.strictSame(revealed.body, { id: body.id, signing_secret: body.signing_secret });

  const moved = await operator.call('PATCH', `/accounts/${id}/apps/${body.id}`, { webhook_url: null });
  t.hasStrict(moved, { status: 200, body: { webhook_url: null } });
  t.match((await operator.call('DELETE', `/accounts/${id}/apps/${body.id}`)).body, { removed_at: /Z$/ });
  refused(
    t,
    await operator.call('PATCH', `/accounts/${id}/apps/${body.id}`, { webhook_url: null }),
    409,
    'conflict',
  );
});

t.test('keys cannot be created before live payments are on', async (t) => {
  const id = await newAccount({ live: false });
  const app = await operator.call('POST', `/accounts/${id}/apps`, { name: 'Shop', domain: 'shop.test' });
  refused(t, app, 403, 'live_mode_not_enabled');
});

t.test('a wallet is added by an admin, approved by another owner, revoked', async (t) => {
  const id = await newAccount();
  const [first, second] = [await newUser(id, 'a@x', 'OWNER'), await newUser(id, 'b@x', 'OWNER')];
  const member = await newUser(id, 'c@x', 'MEMBER');
  const wallet = { label: 'Till', msisdn: '0772000001', by: first };
  const path = `/accounts/${id}/wallets`;
  refused(t, await operator.call('POST', path, { ...wallet, by: member }), 403, 'not_permitted', 'by');
  refused(t, await operator.call('POST', path, { ...wallet, msisdn: '1' }), 400, 'invalid_msisdn', 'msisdn');
  // Null is as good as absent, as in a deposit.
  const added = await operator.call('POST', path, { ...wallet, network: null, country: null });
  t.hasStrict(added, {
    status: 201,
    body: { status: 'PENDING_APPROVAL', msisdn_masked: '25677****001', country: 'UG', network: 'MTN' },
  });
  t.match(added.body.id, /^wal_/);
  t.notMatch(added.text, /772000001/);
  const one = `${path}/${added.body.id}`;
  refused(t, await operator.call('POST', `${one}/approve`, { by: first }), 403, 'not_permitted', 'by');
  t.match((await operator.call('POST', `${one}/approve`, { by: second })).body, {
    status: 'COOLING_OFF',
    active_at: /Z$/,
  });
  refused(t, await operator.call('POST', `${one}/approve`, { by: second }), 409, 'conflict');
  t.hasStrict((await operator.call('POST', `${one}/revoke`, { by: first })).body, { status: 'REVOKED' });
  t.hasStrict((await operator.call('GET', path)).body.data, [{ id: added.body.id, status: 'REVOKED' }]);
});

t.test('every change is in the audit log, refused ones too, without secrets', async (t) => {
  const id = await newAccount();
  const user = await operator.call(
    'POST',
    `/accounts/${id}/users`,
    { email: 'o@x', role: 'OWNER' },
    { Operator: 'amina' },
  );
  const wallet = { label: 'Till of 256772000001', msisdn: '+256772000001', by: user.body.id };
  await operator.call('POST', `/accounts/${id}/wallets`, wallet, { Operator: ' Grâce\t' });
  const long = { Operator: 'x'.repeat(65) };
  await operator.call('DELETE', `/accounts/${id}/apps/${freshId('app')}`, undefined, long);
  const { body, text } = await operator.call('GET', '/audit?limit=4');
  t.match(body.data, [
    {
      operator: 'x'.repeat(64),
      action: 'DELETE /operator/v1/accounts/:account_id/apps/:app_id',
      body: null,
      outcome: 'refused',
      status: 404,
      code: 'not_found',
      object_id: null,
    },
    {
      operator: 'Grce',
      action: 'POST /operator/v1/accounts/:account_id/wallets',
      target: `/operator/v1/accounts/${id}/wallets`,
      body: { label: 'Till of 25677****001', msisdn: '+25677****001' },
      outcome: 'done',
      status: 201,
      object_id: /^wal_/,
    },
    { operator: 'amina', body: { email: 'o@x' }, outcome: 'done', object_id: user.body.id },
    { operator: 'operator', action: 'POST /operator/v1/accounts', object_id: id, ended_at: /Z$/ },
  ]);
  t.notMatch(text, /772000001/);
  t.equal(body.has_more, true);
  const next = await operator.call('GET', `/audit?limit=4&starting_after=${body.next_cursor}`);
  t.ok(next.body.data[0].id < body.next_cursor);
});

t.test('nothing is changed when the audit log cannot be written', async (t) => {
  const id = await newAccount();
  operator.bus.attach('platform', 0, undefined);
  const before = await operator.call('GET', `/accounts/${id}`);
  const change = () => operator.call('PATCH', `/accounts/${id}`, { live: false });
  refused(t, await change(), 503, 'service_unavailable');
  operator.bus.attach('platform', 0, (_, onReply) => onReply({ type: 'unknown' }));
  refused(t, await change(), 503, 'service_unavailable');
  t.equal((await operator.call('GET', `/accounts/${id}`)).text, before.text);
  await operator.stop();
  operator = await startOperator(dir);
});

t.test('what the HTTP library answers with an error, for bytes along with it, is not tried', async (t) => {
  const id = await newAccount();
  const newest = async (): Promise<unknown> => (await operator.call('GET', '/audit?limit=1')).body.data;
  const before = await newest();
  const body = JSON.stringify(SHOP);
  const head = `Host: a\r\nAuthorization: Bearer ${TOKEN}`;
  const requests = [
    `POST /operator/v1/accounts HTTP/1.1\r\n${head}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    `DELETE /operator/v1/accounts/${id}/apps/${freshId('app')} HTTP/1.1\r\n${head}\r\n\r\n`,
  ];
  for (const request of requests) {
    const socket = await open(operator.port);
    const all = readToEnd(socket);
    socket.write(`${request}GET / HTTP/1.0\r\n\r\n`);
    t.match(await all, /^HTTP\/1\.1 505 /);
    t.strictSame(await newest(), before);
  }
});

t.test('what was created is there after a restart, and what was only registered is opened', async (t) => {
  const id = await newAccount();
  const accountId = freshId('account');
  const flags = { live: true, payoutsEnabled: false, withdrawalsEnabled: true };
  const half = { accountId, name: 'Half', country: 'KE', ...flags, operator: 'amina' } as const;
  await askPlatform(operator.context, { type: 'RegisterAccount', ...half, deadline: fromNow() });
  refused(t, await operator.call('GET', `/accounts/${accountId}`), 404, 'not_found');
  await operator.stop();

  operator = await startOperator(dir);
  t.equal(await openRegisteredAccounts(operator.context), 1);
  t.equal(await openRegisteredAccounts(operator.context), 0);
  t.hasStrict((await operator.call('GET', `/accounts/${accountId}`)).body, {
    name: 'Half',
    country: 'KE',
    withdrawals_enabled: true,
  });
  t.hasStrict((await operator.call('GET', '/accounts?limit=2')).body.data, [
    { id: accountId, opened: true },
    { id },
  ]);
});

/** The bus, but for what goes to accounts. */
function withAccounts(ofAccounts: Bus['send']): Bus {
  return {
    partitions: (group) => operator.bus.partitions(group),
    send: (group, ...rest) =>
      group === 'accounts' ? ofAccounts(group, ...rest) : operator.bus.send(group, ...rest),
  };
}

t.test('an account whose partition nobody serves is not registered', async (t) => {
  const bus = withAccounts((_, __, ___, onReply) => onReply({ type: 'unavailable' }));
  const flags = { live: true, payoutsEnabled: false, withdrawalsEnabled: false };
  const account = { accountId: freshId('account'), name: 'Far', country: 'UG', ...flags } as const;
  const created = await createAccount(
    { ...operator.context, bus },
    { ...account, operator: 'amina' },
    fromNow(),
  );
  t.strictSame(created, { type: 'unavailable' });
  t.equal(await openRegisteredAccounts(operator.context), 0);
});

t.test('an account that is registered is never told not to be, and a start opens it', async (t) => {
  const create = (ofAccounts: Bus['send']) => {
    const bus = withAccounts((group, partition, message, onReply) => {
      if (message.type === 'GetAccount') operator.bus.send(group, partition, message, onReply);
      else ofAccounts(group, partition, message, onReply);
    });
    const flags = { live: true, payoutsEnabled: false, withdrawalsEnabled: false };
    const account = { accountId: freshId('account'), name: 'Far', country: 'UG', ...flags } as const;
    return createAccount({ ...operator.context, bus }, { ...account, operator: 'amina' }, fromNow());
  };
  const now = Date.now;
  let waitedMs = 0;
  t.intercept(Date, 'now', { value: () => now() + waitedMs });
  for (const reply of [{ type: 'unavailable' }, { type: 'unknown' }] as const) {
    const created = await create((_, __, ___, onReply) => {
      waitedMs = 2 * LIMITS.commandDeadlineMs;
      onReply(reply);
    });
    waitedMs = 0;
    t.strictSame(created, { type: 'unknown' }, reply.type);
    const before = operator.lines.length;
    const away = withAccounts((_, __, ___, onReply) => {
      waitedMs = 2 * LIMITS.commandDeadlineMs;
      onReply(reply);
    });
    await new Openings({ ...operator.context, bus: away }).finish();
    waitedMs = 0;
    t.match(operator.lines.slice(before).join(''), /could not be opened/, 'a start goes on without it');
    t.equal(await openRegisteredAccounts(operator.context), 1);
  }
  let asked = 0;
  const created = await create((group, partition, message, onReply) => {
    if (asked++ === 0) onReply({ type: 'unavailable' });
    else operator.bus.send(group, partition, message, onReply);
  });
  t.hasStrict(created, { type: 'done' }, 'its partition was away for a moment');
  t.equal(await openRegisteredAccounts(operator.context), 0);
});

t.test('what cannot be opened, or marked, waits for the next start, and nothing else does', async (t) => {
  const flags = { live: true, payoutsEnabled: false, withdrawalsEnabled: false };
  const count = LIMITS.unopenedAccountsPerRoundMax + 1;
  const ids = Array.from({ length: count }, () => freshId('account')).sort();
  for (const accountId of ids) {
    const account = { accountId, name: 'Many', country: 'UG', ...flags, operator: 'amina' } as const;
    await askPlatform(operator.context, { type: 'RegisterAccount', ...account, deadline: fromNow() });
  }
  let marks = 0;
  const full: Bus = {
    partitions: (group) => operator.bus.partitions(group),
    send: (group, partition, message, onReply) => {
      if (message.type !== 'MarkAccountOpened') return operator.bus.send(group, partition, message, onReply);
      if (++marks > count) throw new Error('it goes on without end');
      onReply({ type: 'unavailable' });
    },
  };
  t.equal(await openRegisteredAccounts({ ...operator.context, bus: full }), count - 1);

  const now = Date.now;
  let waitedMs = 0;
  t.intercept(Date, 'now', { value: () => now() + waitedMs });
  const asked: string[] = [];
  const away = withAccounts((group, partition, message, onReply) => {
    const { accountId } = message as AccountCommand;
    if (!ids.slice(0, 2).includes(accountId)) return operator.bus.send(group, partition, message, onReply);
    asked.push(accountId);
    waitedMs = 2 * LIMITS.commandDeadlineMs;
    onReply({ type: 'unavailable' });
  });
  const before = operator.lines.length;
  await new Openings({ ...operator.context, bus: away }).finish();
  waitedMs = 0;
  t.match(operator.lines.slice(before).join(''), `the registered account ${ids[0]} cannot be opened`);
  const inEachRound = [...ids.slice(0, 2), ...ids.slice(0, 2)];
  t.strictSame(asked, inEachRound, 'all of them together are waited for once');
  t.equal(await openRegisteredAccounts(operator.context), 2);
  const { body } = await operator.call('GET', '/accounts');
  t.equal(body.data.length, LIMITS.operatorPageDefault, 'a page of which no limit was said');
});

t.test('a terminal that shows an answer obeys nothing in it, and the text is what it was', async (t) => {
  const name = 'shop \u009b2J\u007f\u202e\u2066\u2028 Zoë';
  const id = await newAccount({ name });
  for (const path of [`/accounts/${id}`, '/accounts?limit=1', '/audit?limit=2']) {
    const { text } = await operator.call('GET', path);
    t.notMatch(text, /[\u007f\u009b\u202e\u2066\u2028]/, path);
    t.match(text, 'Zoë', path);
  }
  t.equal((await operator.call('GET', `/accounts/${id}`)).body.name, name);
});

t.test('deliveries and apps that are not there are said to be not there', async (t) => {
  const id = await newAccount();
  const path = `/accounts/${id}/deliveries`;
  const one = `${path}/${freshId('delivery')}`;
  const list = await operator.call('GET', `${path}?app=${freshId('app')}&status=DEAD_LETTERED&limit=5`);
  t.equal(list.status, 200);
  t.strictSame(list.body, { object: 'list', data: [], has_more: false, next_cursor: null });
  refused(t, await operator.call('GET', one), 404, 'not_found');
  refused(t, await operator.call('POST', `${one}/replay`), 404, 'not_found');
  refused(t, await operator.call('GET', `${path}?status=LOST`), 400, 'validation_failed', 'status');
  refused(t, await operator.call('GET', `${path}?app=x`), 400, 'validation_failed', 'app');
  const failed = `/accounts/${id}/apps/${freshId('app')}/replay_failed`;
  refused(t, await operator.call('POST', failed, { since: 'yesterday' }), 400, 'validation_failed', 'since');
  refused(t, await operator.call('POST', failed, { since: '2026-01-01T00:00:00.000Z' }), 404, 'not_found');
});

t.test('of an account, an app or a delivery that is not there it is said, not of its path', async (t) => {
  const nobody = `/accounts/${freshId('account')}`;
  const account = `/accounts/${await newAccount()}`;
  const app = `${account}/apps/${freshId('app')}`;
  const delivery = `${account}/deliveries/${freshId('delivery')}`;
  const asked: [method: string, path: string, message: RegExp, body?: object][] = [
    ['GET', nobody, /no such account/],
    ['GET', `${nobody}/apps`, /no such account/],
    ['GET', `${nobody}/trial_balance`, /no such account/],
    ['GET', `${nobody}/deliveries`, /no such account/],
    ['GET', `${nobody}/deliveries?status=DEAD_LETTERED`, /no such account/],
    ['POST', `${app}/reveal_signing_secret`, /no such app/],
    ['POST', `${app}/replay_failed`, /no such app/, { since: '2026-01-01' }],
    ['GET', delivery, /no such delivery/],
    ['POST', `${delivery}/replay`, /no such delivery/],
  ];
  for (const [method, path, message, body] of asked) {
    const reply = await operator.call(method, path, body);
    refused(t, reply, 404, 'not_found');
    t.match(reply.body.error.message, message, `${method} ${path}`);
  }
});

t.test('the format of records is raised on demand, or the reason why not is given', async (t) => {
  refused(t, await operator.call('POST', '/write_format/raise'), 409, 'conflict');
  t.hasStrict((await operator.call('GET', '/audit?limit=1')).body.data, [
    { action: 'POST /operator/v1/write_format/raise', outcome: 'refused', code: 'conflict' },
  ]);
});

t.test('rails, partitions, metrics and the request ids of log lines', async (t) => {
  t.hasStrict((await operator.call('GET', '/rails')).body, {
    object: 'list',
    data: [{ id: 'loopback', last_failure_at: '1970-01-01T00:00:00.000Z', our_faults: 2 }],
  });
  t.hasStrict((await operator.call('GET', '/partitions')).body, {
    object: 'list',
    data: [{ group: 'accounts' }],
  });
  const metrics = await operator.call('GET', '//metrics');
  t.match(metrics.headers['content-type'], /^text\/plain; version=0\.0\.4/);
  t.match(metrics.text, /^daftari_commands_total\{group="platform",type="BeginAudit",outcome="done"\} \d+$/m);
  t.match(metrics.text, /route="\/operator\/v1\/accounts",status="201"/);
  const reply = await operator.call('GET', '/rails');
  t.ok(operator.lines.some((line) => line.includes(`"request_id":"${String(reply.headers['request-id'])}"`)));
  t.notMatch(operator.lines.join(''), new RegExp(`${TOKEN}|whsec_|sk_live_[0-9A-Z]|256772000001`));
});
