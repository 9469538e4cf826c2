// The NATS bus: what a caller is told is known to be so. Owners here are plain functions on a real nats-server.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import type { Message, OnReply, Reply } from '../../src/bus/bus.ts';
import { request } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import type { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { commandSubject } from '../../src/nats/subjects.ts';
import { commandLine } from '../../src/nats/bus/wire.ts';
import { link } from './adapters.ts';
import { Cable } from './cable.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { done, repeatable, startBusServers } from './bus-driven.ts';
import { platformGroup } from '../../actors/platform/group.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Views } from '../../wal/types.ts';
import { needs } from '../needs.ts';
import { until } from '../until.ts';

needs('nats-server');

const { servers, ownerLink, callerLink, newBus } = await startBusServers(t);

const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

function onceOnly(deadlineMs = 60_000): Message {
  return { type: 'ReplayDelivery', deadline: Date.now() + deadlineMs };
}

t.test('what this process serves needs no message, until another does', async (t) => {
  const nearby = new NatsBusServer(callerLink.connection);
  const { bus, routes } = newBus(nearby);
  const served = nearby.serve('accounts', 0, 1);
  served.open({ inbox: (_, onReply) => onReply(done('here')), holds: () => true });
  routes.set('accounts', 0, { node: 'here', epoch: 1 });
  await callerLink.connection.flush();
  const before = callerLink.connection.stats().outMsgs;
  const replies: Reply[] = [];
  bus.send('accounts', 0, repeatable(1), (reply) => replies.push(reply));
  t.strictSame(replies, [done('here')], 'at once');
  t.equal(callerLink.connection.stats().outMsgs, before);

  served.close();
  const moved = request(bus, 'accounts', 0, repeatable(2));
  const far = new NatsBusServer(ownerLink.connection).serve('accounts', 0, 2);
  far.open({ inbox: (_, onReply) => onReply(done('there')), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'there', epoch: 2 });
  t.strictSame(await moved, done('there'));
  served.stop();
  far.stop();
  bus.close();
});

t.test('a late reply to a process that is gone does not reach the next one of its name', async (t) => {
  const server = new NatsBusServer(ownerLink.connection);
  const served = server.serve('accounts', 2, 1);
  const waiting: OnReply[] = [];
  served.open({ inbox: (_, onReply) => waiting.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  const ask = async (number: number): Promise<{ bus: NatsBus; reply: Promise<Reply> }> => {
    const { bus, routes } = newBus(new NatsBusServer(callerLink.connection), 'front.same-name');
    routes.set('accounts', 2, { node: 'a', epoch: 1 });
    const reply = request(bus, 'accounts', 2, repeatable(number, 60_000));
    await waitFor('the owner has it', 20_000, () => waiting.length === number);
    return { bus, reply };
  };
  const gone = await ask(1);
  gone.bus.close();
  t.strictSame(await gone.reply, { type: 'unknown' });
  const next = await ask(2);
  waiting[0]!(done('for the one that is gone'));
  waiting[1]!(done('for the next'));
  t.strictSame(await next.reply, done('for the next'));
  next.bus.close();
  served.stop();
});

t.test('a thousand messages of one turn travel in few messages, and each gets its own reply', async (t) => {
  const { bus, routes } = newBus();
  const server = new NatsBusServer(ownerLink.connection);
  const served = server.serve('accounts', 1, 1);
  served.open({
    inbox: (message, onReply) => onReply(done((message as unknown as { n: number }).n)),
    holds: () => true,
  });
  routes.set('accounts', 1, { node: 'a', epoch: 1 });
  await ownerLink.connection.flush();
  const sent = (): number[] => [callerLink, ownerLink].map(({ connection }) => connection.stats().outMsgs);
  const before = sent();
  const replies = await Promise.all(
    Array.from({ length: 1000 }, (_, n) => request(bus, 'accounts', 1, repeatable(n))),
  );
  t.strictSame(
    replies,
    Array.from({ length: 1000 }, (_, n) => done(n)),
  );
  for (const [at, count] of sent().entries()) t.ok(count - before[at]! <= 3, 'batched');
  t.equal(bus.open, 0);
  served.stop();
  bus.close();
});

t.test('bodies keep their text, rejections their fields', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 0, 1);
  const rejection = {
    code: 'insufficient_balance',
    param: null,
    message: 'é 😀',
    retryAfterSeconds: null,
  } as const;
  const said: Reply[] = [
    { type: 'done', body: '{"a":"é 😀 \\n "}', replayed: true },
    { type: 'rejected', rejection },
    { type: 'unavailable' },
  ];
  served.open({
    inbox: (_, onReply) => onReply(said[(_ as unknown as { n: number }).n]!),
    holds: () => true,
  });
  routes.set('accounts', 0, { node: 'a', epoch: 1 });
  await ownerLink.connection.flush();
  for (const [n, reply] of said.entries()) {
    t.strictSame(await request(bus, 'accounts', 0, repeatable(n)), reply);
  }
  served.stop();
  bus.close();
});

t.test('long replies of one turn travel apart; of one that no message carries, it is said', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 2, 1);
  // Three bytes each: a few of them in one message are more than NATS carries.
  const long = '€'.repeat(LIMITS.listPageCharactersMax);
  const tooLong = 'x'.repeat(LIMITS.busReplyBytesMax);
  const texts = ['first', long, 'second', long, tooLong, 'last'];
  served.open({
    inbox: (message, onReply) => onReply(done(texts[(message as unknown as { limit: number }).limit])),
    holds: () => true,
  });
  routes.set('accounts', 2, { node: 'a', epoch: 1 });
  await ownerLink.connection.flush();
  const ask = (limit: number): Promise<Reply> =>
    request(bus, 'accounts', 2, {
      type: 'ListTransactions',
      limit,
      deadline: Date.now() + 60_000,
    } as unknown as Message);
  const replies = await Promise.all(texts.map((_, at) => ask(at)));
  t.ok(
    replies.every((reply, at) => {
      const text = texts[at];
      if (text === tooLong) return reply.type === 'unavailable';
      return reply.type === 'done' && reply.body === JSON.stringify(text);
    }),
  );
  const acted = request(bus, 'accounts', 2, Object.assign(onceOnly(), { limit: texts.indexOf(tooLong) }));
  await request(bus, 'accounts', 2, Object.assign(onceOnly(), { limit: 0 }));
  bus.close();
  t.strictSame(await acted, { type: 'unknown' }, 'what was done is not said to have been refused');
  served.stop();
});

t.test('without an owner a caller waits, and is told `unavailable` at its deadline', async (t) => {
  const { bus, routes } = newBus();
  t.strictSame(await request(bus, 'accounts', 2, repeatable(1, 200)), { type: 'unavailable' }, 'no route');
  routes.set('accounts', 2, { node: 'gone', epoch: 1 });
  // Unknown where the deadline came before NATS had said that nobody listens.
  const answered = await until(
    () => request(bus, 'accounts', 2, repeatable(1, 200)),
    ({ type }) => type !== 'unknown',
  );
  t.strictSame(answered, { type: 'unavailable' }, 'no responders');
  bus.close();
});

t.test('what nobody decided goes to the next owner, also when it acts only once', async (t) => {
  const { bus, routes } = newBus();
  const server = new NatsBusServer(ownerLink.connection);
  const first = server.serve('accounts', 3, 1);
  first.open({ inbox: () => t.fail('closed'), holds: () => true });
  first.close();
  routes.set('accounts', 3, { node: 'a', epoch: 1 });
  const reply = request(bus, 'accounts', 3, onceOnly());
  const second = server.serve('accounts', 3, 2);
  routes.set('accounts', 3, { node: 'b', epoch: 2 });
  second.open({ inbox: (_, onReply) => onReply(done('second')), holds: () => true });
  t.strictSame(await reply, done('second'));
  first.stop();
  second.stop();
  bus.close();
});

t.test('messages that come before the owner has opened wait for it', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 0, 7);
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'a', epoch: 7 });
  const { outMsgs: before } = callerLink.connection.stats();
  const reply = request(bus, 'accounts', 0, onceOnly());
  await callerLink.connection.flush();
  await ownerLink.connection.flush();
  served.open({ inbox: (_, onReply) => onReply(done('late')), holds: () => true });
  t.strictSame(await reply, done('late'));
  t.equal(callerLink.connection.stats().outMsgs - before, 1, 'and are not sent again');
  served.stop();
  bus.close();
});

t.test('a caller of whom all comes after its deadline is told of, and none that was cut off', async (t) => {
  const said: string[] = [];
  const server = new NatsBusServer(ownerLink.connection, (problem) => said.push(problem));
  const served = server.serve('accounts', 3, 60);
  served.open({ inbox: (_, onReply) => onReply({ type: 'unavailable' }), holds: () => true });
  await ownerLink.connection.flush();
  const ask = async (caller: string, deadlineMs: number): Promise<void> => {
    const line = commandLine(1, 1, onceOnly(deadlineMs));
    callerLink.connection.publish(commandSubject('accounts', 3, 60), line, {
      reply: `daftari.reply.front.${caller}.1.1`,
    });
    await callerLink.connection.flush();
  };
  // What its connection held back, and then what it asks now.
  await ask('cut_off', -60_000);
  await ask('cut_off', -20_000);
  await waitFor('it is told of', 60_000, async () => {
    await ask('in_time', 15_000);
    await ask('cut_off', 15_000);
    await ask('behind', -585_000);
    return said.length > 0;
  });
  await ask('behind', -585_000);
  await ownerLink.connection.flush();
  t.match(said, [/^all that daftari\.reply\.front\.behind\.1\.0 asks comes 585 s after its deadline, /]);
  t.equal(said.length, 1, 'once');
  served.stop();
});

t.test('an owner dies with the answer: repeatable messages are resolved, others are unknown', async (t) => {
  const { bus, routes } = newBus();
  const dyingLink = await link(servers.url, 'dying');
  const dying = new NatsBusServer(dyingLink.connection).serve('accounts', 1, 1);
  let taken = 0;
  dying.open({ inbox: () => taken++, holds: () => true });
  await dyingLink.connection.flush();
  routes.set('accounts', 1, { node: 'a', epoch: 1 });
  const again = request(bus, 'accounts', 1, repeatable(1));
  const hint = request(bus, 'accounts', 1, { type: 'Hint', deadline: Date.now() + 60_000 });
  const once = request(bus, 'accounts', 1, onceOnly());
  await waitFor('all were taken', 60_000, () => taken === 3);
  await dyingLink.close();
  const next = new NatsBusServer(ownerLink.connection).serve('accounts', 1, 2);
  next.open({ inbox: (message, onReply) => onReply(done(message.type)), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 1, { node: 'b', epoch: 2 });
  t.strictSame(await again, done('RecordOutcome'));
  t.strictSame(await hint, done('Hint'), 'a callback comes once');
  bus.close();
  t.strictSame(await once, { type: 'unknown' });
  next.stop();
});

t.test('while an attempt may have been decided, only a decision on the newest one ends it', async (t) => {
  const { bus, routes } = newBus();
  const server = new NatsBusServer(ownerLink.connection);
  const asked: OnReply[][] = [[], []];
  const owners = asked.map((taken, index) => {
    const served = server.serve('accounts', 0, 11 + index);
    served.open({ inbox: (_, onReply) => taken.push(onReply), holds: () => true });
    return served;
  });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'a', epoch: 11 });
  const reply = request(bus, 'accounts', 0, repeatable(1));
  await waitFor('the first owner has it', 20_000, () => asked[0]!.length === 1);
  routes.set('accounts', 0, { node: 'b', epoch: 12 });
  await waitFor('the next owner has it', 20_000, () => asked[1]!.length === 1);
  const conflict = { code: 'conflict', param: null, message: null, retryAfterSeconds: null } as const;
  asked[0]![0]!({ type: 'rejected', rejection: conflict });
  asked[1]![0]!({ type: 'unavailable' });
  await waitFor('it is asked again', 20_000, () => asked[1]!.length === 2);
  asked[1]![1]!(done('known'));
  t.strictSame(await reply, done('known'));
  for (const owner of owners) owner.stop();
  bus.close();
});

t.test('nothing is sent twice for a route that is told again, or is of another partition', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 1, 15);
  const held: OnReply[] = [];
  served.open({ inbox: (_, onReply) => held.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  const route = { node: 'a', epoch: 15 };
  routes.set('accounts', 1, route);
  const first = request(bus, 'accounts', 1, repeatable(1));
  await waitFor('its owner has it', 20_000, () => held.length === 1);
  routes.set('accounts', 1, route);
  routes.set('accounts', 2, { node: 'b', epoch: 16 });
  routes.set('webhooks', 1, { node: 'b', epoch: 16 });
  const second = request(bus, 'accounts', 1, repeatable(2));
  await waitFor('its owner has what was sent then', 20_000, () => held.length > 1);
  held[1]!(done('second'));
  t.strictSame(await second, done('second'));
  held[0]!({ type: 'unavailable' });
  t.strictSame(await first, { type: 'unavailable' }, 'of the one attempt nothing was decided');
  served.stop();
  bus.close();
});

t.test('what was under way when the connection was lost is asked for again when it is back', async (t) => {
  const { cable, url } = await Cable.lay(servers.url);
  t.teardown(() => cable.remove());
  const cutLink = await link(url, 'cut');
  t.teardown(() => cutLink.close());
  const { bus, routes } = newBus(new NatsBusServer(cutLink.connection), 'front.cut', cutLink);
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 2, 17);
  const taken: string[] = [];
  const held: OnReply[] = [];
  served.open({
    inbox: ({ type }, onReply) => {
      taken.push(type);
      held.push(onReply);
    },
    holds: () => true,
  });
  await ownerLink.connection.flush();
  routes.set('accounts', 2, { node: 'a', epoch: 17 });
  const again = request(bus, 'accounts', 2, repeatable(1));
  const once = request(bus, 'accounts', 2, onceOnly());
  await waitFor('its owner has both', 20_000, () => held.length === 2);
  cable.cut();
  for (const onReply of held) onReply(done('lost'));
  await ownerLink.connection.flush();
  const isBack = new Promise<void>((resolve) => void cutLink.onReconnect(resolve));
  cable.mend();
  await isBack;
  bus.reconnected();
  await new Promise((resolve) => setImmediate(resolve));
  await cutLink.connection.flush();
  await ownerLink.connection.flush();
  t.strictSame(
    taken,
    ['RecordOutcome', 'ReplayDelivery', 'RecordOutcome'],
    'at once, but what acts only once',
  );
  held[2]!(done('heard'));
  t.strictSame(await again, done('heard'));
  bus.close();
  t.strictSame(await once, { type: 'unknown' });
  served.stop();
});

t.test('a key that was revoked since does not say that an earlier attempt has created nothing', async (t) => {
  const { bus, routes } = newBus();
  const server = new NatsBusServer(ownerLink.connection);
  const first = server.serve('accounts', 0, 13);
  const created: OnReply[] = [];
  first.open({ inbox: (_, onReply) => created.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'a', epoch: 13 });
  const deadline = Date.now() + 60_000;
  const create = request(bus, 'accounts', 0, { type: 'CreatePayout', deadline });
  const read = request(bus, 'accounts', 0, { type: 'GetPayout', deadline });
  await waitFor('the first owner has both', 20_000, () => created.length === 2);

  const second = server.serve('accounts', 0, 14);
  const rejection = { code: 'invalid_api_key', param: null, message: null, retryAfterSeconds: null } as const;
  second.open({ inbox: (_, onReply) => onReply({ type: 'rejected', rejection }), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'b', epoch: 14 });
  t.strictSame(await create, { type: 'unknown' }, 'a 401 would say that nothing was created');
  t.strictSame(await read, { type: 'rejected', rejection });
  const later = await request(bus, 'accounts', 0, { type: 'CreatePayout', deadline });
  t.strictSame(later, { type: 'rejected', rejection }, 'whose first attempt it was is told');
  for (const owner of [first, second]) owner.stop();
  bus.close();
});

t.test('what acts only once is not sent again when its owner does not know what became of it', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 0, 21);
  const taken: string[] = [];
  served.open({
    inbox: ({ type }, onReply) => {
      taken.push(type);
      onReply(taken.length <= 2 ? { type: 'unknown' } : done(type));
    },
    holds: () => true,
  });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'a', epoch: 21 });
  const once = request(bus, 'accounts', 0, onceOnly());
  // Sent and answered together with it: when this is sent again, so would that be.
  t.strictSame(await request(bus, 'accounts', 0, repeatable(1)), done('RecordOutcome'));
  t.strictSame(taken, ['ReplayDelivery', 'RecordOutcome', 'RecordOutcome']);
  bus.close();
  t.strictSame(await once, { type: 'unknown' });
  served.stop();
});

t.test('who waits for a rail as long as one may is not asked for again meanwhile', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 3, 22);
  const waiting: OnReply[] = [];
  served.open({ inbox: (_, onReply) => waiting.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 3, { node: 'a', epoch: 22 });
  const sentAt = performance.now();
  const create = request(bus, 'accounts', 3, { type: 'CreateCharge', deadline: Date.now() + 60_000 });
  await waitFor('its owner is asked again', 60_000, () => waiting.length === 2);
  const silentMs = performance.now() - sentAt;
  t.ok(silentMs > LIMITS.railAnswerWaitMsMax, `sent again after ${Math.round(silentMs)} ms`);
  waiting[1]!(done('created'));
  t.strictSame(await create, done('created'));
  served.stop();
  bus.close();
});

t.test(
  'an owner without its lease says neither rejections nor reads, only what the log proved',
  async (t) => {
    const { bus, routes } = newBus();
    const served = new NatsBusServer(ownerLink.connection).serve('accounts', 2, 3);
    let holds = true;
    const pending: OnReply[] = [];
    served.open({ inbox: (_, onReply) => pending.push(onReply), holds: () => holds });
    await ownerLink.connection.flush();
    routes.set('accounts', 2, { node: 'a', epoch: 3 });
    const created = request(bus, 'accounts', 2, repeatable(1));
    const read = request(bus, 'accounts', 2, { type: 'GetAccount', deadline: Date.now() + 60_000 });
    const refused = request(bus, 'accounts', 2, onceOnly());
    await waitFor('all three were taken', 60_000, () => pending.length === 3);
    holds = false;
    pending[0]!(done('durable'));
    pending[1]!(done('stale'));
    pending[2]!({
      type: 'rejected',
      rejection: { code: 'conflict', param: null, message: null, retryAfterSeconds: null },
    });
    t.strictSame(await created, done('durable'));
    // What it says of the others has come in the same message.
    bus.close();
    t.strictSame(await read, { type: 'unknown' });
    t.strictSame(await refused, { type: 'unknown' });
    served.stop();
  },
);

t.test('who holds no lease, or never came to open, decides nothing: the next owner does', async (t) => {
  for (const becomesOwner of [true, false]) {
    const { bus, routes } = newBus();
    const server = new NatsBusServer(ownerLink.connection);
    const [first, second] = [server.serve('accounts', 1, 31), server.serve('accounts', 1, 32)];
    if (becomesOwner) first.open({ inbox: () => t.fail('it has no lease'), holds: () => false });
    second.open({ inbox: (_, onReply) => onReply(done('second')), holds: () => true });
    await ownerLink.connection.flush();
    routes.set('accounts', 1, { node: 'a', epoch: 31 });
    const reply = request(bus, 'accounts', 1, onceOnly());
    // Sent at the end of this turn, and taken by then.
    await new Promise((resolve) => setImmediate(resolve));
    await callerLink.connection.flush();
    await ownerLink.connection.flush();
    first.close();
    routes.set('accounts', 1, { node: 'b', epoch: 32 });
    t.strictSame(await reply, done('second'));
    first.stop();
    second.stop();
    bus.close();
  }
});

t.test('what an owner does not know, or cannot read, is unavailable there, and it goes on', async (t) => {
  const { bus, routes } = newBus();
  const counted: string[] = [];
  const platform = new Partition({
    group: platformGroup,
    logic: platformGroup.open(0, NO_VIEWS, { sequence: 0, writesRows: false }),
    log: { appended: 0, durable: 0, append: () => t.fail('nothing is logged') as never },
    clock: Date.now,
    deadlineClock: Date.now,
    lastRecordAt: 0,
    observer: { decided: (_, type, outcome) => counted.push(`${type} ${outcome}`) },
    writeFormat: () => 1,
    isPaused: () => false,
    publish: () => {},
  });
  const served = new NatsBusServer(ownerLink.connection).serve('platform', 0, 1);
  served.open({
    inbox: (message, onReply) => platform.send(message as never, onReply),
    holds: () => true,
  });
  await ownerLink.connection.flush();
  routes.set('platform', 0, { node: 'a', epoch: 1 });
  const ask = (type: string): Promise<Reply> =>
    request(bus, 'platform', 0, {
      type,
      limit: 1,
      startingAfter: null,
      deadline: Date.now() + 60_000,
    } as Message);
  t.strictSame(await ask('RegisterBranch'), { type: 'unavailable' });
  t.strictSame(await ask('ListBranches'), { type: 'unavailable' });
  const broken = ['hello', '1 1 \n', '1 1 null\n', '1 1 {"type":"ListAccounts"}\n', '1 1 {"type":'];
  for (const text of broken) {
    callerLink.connection.publish('daftari.cmd.platform.0.1', text, { reply: 'daftari.reply.broken.1' });
  }
  t.match(await ask('ListAccounts'), { type: 'done' });
  t.strictSame(
    counted,
    [...broken, 'RegisterBranch', 'ListBranches'].map(() => 'unknown unavailable'),
  );
  served.stop();
  bus.close();
});

t.test('an owner that fails over a message ends, and does not go on half done and deaf', async (t) => {
  const owner = `
    import { link } from '${import.meta.resolve('./adapters.ts')}';
    import { NatsBusServer } from '${import.meta.resolve('../../src/nats/bus/nats-bus-server.ts')}';
    const { connection } = await link('${servers.url}', 'failing');
    const served = new NatsBusServer(connection).serve('accounts', 3, 40);
    served.open({ inbox: () => { throw new Error('a bug of ours'); }, holds: () => true });
    await connection.flush();
    process.stdout.write('serving');
  `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', owner]);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += String(text)));
  const ended = once(child, 'exit');
  t.teardown(() => child.kill('SIGKILL'));
  await waitFor('it serves', 60_000, () => said.includes('serving'));
  callerLink.connection.publish('daftari.cmd.accounts.3.40', commandLine(1, 1, onceOnly()), {
    reply: 'daftari.reply.anybody.1',
  });
  t.strictSame(await ended, [1, null]);
  t.match(said, /a bug of ours/);
});

t.test('after a rejected repetition the first attempt can no longer act', async (t) => {
  const { routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 3, 9);
  const decided: number[] = [];
  served.open({
    inbox: (message, onReply) => {
      decided.push((message as unknown as { n: number }).n);
      onReply({
        type: 'rejected',
        rejection: { code: 'conflict', param: null, message: null, retryAfterSeconds: null },
      });
    },
    holds: () => true,
  });
  await ownerLink.connection.flush();
  routes.set('accounts', 3, { node: 'a', epoch: 9 });
  const { connection } = callerLink;
  const subject = 'daftari.cmd.accounts.3.9';
  const send = (id: number, attempt: number, n: number): void =>
    connection.publish(subject, `${id} ${attempt} ${JSON.stringify(repeatable(n))}\n`, {
      reply: 'daftari.reply.late.1',
    });
  send(1, 2, 20);
  send(1, 1, 10);
  send(2, 1, 30);
  await connection.flush();
  await waitFor('the last was decided', 60_000, () => decided.includes(30));
  t.strictSame(decided, [20, 30]);
  served.stop();
});

t.test('nobody has an owner write what only it may write, by naming that for the answer', async (t) => {
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 3, 50);
  const taken: string[] = [];
  served.open({
    inbox: ({ type }, onReply) => {
      taken.push(type);
      onReply(done('written'));
    },
    holds: () => true,
  });
  const written: string[] = [];
  const watch = ownerLink.connection.subscribe('daftari.log.>', {
    callback: (_, { subject }) => void written.push(subject),
  });
  await ownerLink.connection.flush();
  const { connection } = callerLink;
  const subject = commandSubject('accounts', 3, 50);
  connection.publish(subject, commandLine(1, 1, onceOnly()), { reply: 'daftari.log.accounts.3' });
  connection.publish(subject, commandLine(1, 1, onceOnly()));
  connection.publish(subject, commandLine(1, 1, repeatable(1)), { reply: 'daftari.reply.front.1.1' });
  await connection.flush();
  await waitFor('the last was decided', 20_000, () => taken.includes('RecordOutcome'));
  await ownerLink.connection.flush();
  t.strictSame([taken, written], [['RecordOutcome'], []]);
  watch.unsubscribe();
  served.stop();
});
