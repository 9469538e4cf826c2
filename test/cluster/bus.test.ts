// The NATS bus: what a caller is told is known to be so. Owners here are plain functions on a real nats-server.
import t from 'tap';
import type { Message, OnReply, Reply } from '../../src/bus/bus.ts';
import { request } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import type { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { commandSubject } from '../../src/nats/subjects.ts';
import { link } from './adapters.ts';
import { Cable } from './cable.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { done, onceOnly, repeatable, startBusServers } from './bus-driven.ts';
import { needs } from '../needs.ts';
import { until } from '../until.ts';

needs('nats-server');

const { servers, ownerLink, callerLink, newBus } = await startBusServers(t);

const CONFLICT = {
  type: 'rejected',
  rejection: { code: 'conflict', param: null, message: null, retryAfterSeconds: null },
} as const;

t.test('what this process serves needs no message, until another does', async (t) => {
  const nearby = new NatsBusServer(callerLink.connection);
  const { bus, routes } = newBus(nearby);
  const served = nearby.serve('accounts', 0, 1);
  let said = (onReply: OnReply): void => onReply(done('here'));
  served.open({ inbox: (_, onReply) => said(onReply), holds: () => true });
  routes.set('accounts', 0, { node: 'here', epoch: 1 });
  await callerLink.connection.flush();
  const before = callerLink.connection.stats().outMsgs;
  const replies: Reply[] = [];
  bus.send('accounts', 0, repeatable(1), (reply) => replies.push(reply));
  t.strictSame(replies, [done('here')], 'at once');
  for (const reply of [CONFLICT, { type: 'unavailable' } as const]) {
    said = (onReply) => onReply(reply);
    bus.send('accounts', 0, onceOnly(), (told) => t.strictSame(told, reply, 'also what was not done'));
  }
  said = () => {};
  const taken = request(bus, 'accounts', 0, onceOnly());
  t.equal(bus.open, 1);
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
  t.strictSame(await taken, { type: 'unknown' }, 'it may have been decided');
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

t.test('and is taken once, by the newest of two that are told of in one turn', async (t) => {
  const { bus, routes } = newBus();
  const server = new NatsBusServer(ownerLink.connection);
  const taken: string[] = [];
  const owners = ['first', 'second'].map((name, at) => {
    const served = server.serve('accounts', 3, 3 + at);
    served.open({ inbox: (_, onReply) => onReply(done(taken.push(name))), holds: () => true });
    return served;
  });
  await ownerLink.connection.flush();
  const reply = request(bus, 'accounts', 3, onceOnly());
  // It has found that there is no owner.
  await new Promise((resolve) => setImmediate(resolve));
  for (const epoch of [3, 4]) routes.set('accounts', 3, { node: 'a', epoch });
  t.strictSame(await reply, done(1));
  await ownerLink.connection.flush();
  t.strictSame(taken, ['second']);
  for (const owner of owners) owner.stop();
  bus.close();
});

t.test('that nobody listens for one partition says nothing of another', async (t) => {
  const { bus, routes } = newBus();
  const server = new NatsBusServer(ownerLink.connection);
  const held: OnReply[] = [];
  const there = server.serve('accounts', 1, 6);
  there.open({ inbox: (_, onReply) => held.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'gone', epoch: 6 });
  routes.set('accounts', 1, { node: 'a', epoch: 6 });
  const replies = [0, 1].map((partition) => request(bus, 'accounts', partition, onceOnly()));
  await waitFor('one owner has it', 20_000, () => held.length === 1);
  const next = server.serve('accounts', 0, 7);
  next.open({ inbox: (_, onReply) => onReply(done('next')), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 0, { node: 'b', epoch: 7 });
  t.strictSame(await replies[0], done('next'));
  // As long as it takes to ask again whom nobody has heard.
  t.strictSame(await request(bus, 'accounts', 2, repeatable(1, LIMITS.busRetryMs * 3)), {
    type: 'unavailable',
  });
  held[0]!(done('there'));
  t.strictSame(await replies[1], done('there'));
  t.equal(held.length, 1);
  for (const owner of [there, next]) owner.stop();
  bus.close();
});

t.test('also where that is this process; and by nobody where it was just given up', async (t) => {
  const nearby = new NatsBusServer(callerLink.connection);
  const { bus, routes } = newBus(nearby);
  const taken: number[] = [];
  const replies: Reply[] = [];
  const send = (n: number): void => {
    bus.send('accounts', 3, Object.assign(onceOnly(), { n }), (reply) => replies.push(reply));
  };
  send(1);
  await new Promise((resolve) => setImmediate(resolve));
  const served = nearby.serve('accounts', 3, 5);
  served.open({
    inbox: (message, onReply) => onReply(done(taken.push((message as unknown as { n: number }).n))),
    holds: () => true,
  });
  await callerLink.connection.flush();
  routes.set('accounts', 3, { node: 'here', epoch: 5 });
  await new Promise((resolve) => setImmediate(resolve));
  // It is served in another process from now on.
  nearby.left(commandSubject('accounts', 3, 5), served);
  send(2);
  bus.close();
  await new Promise((resolve) => setImmediate(resolve));
  await callerLink.connection.flush();
  await callerLink.connection.flush();
  t.strictSame(replies, [done(1), { type: 'unavailable' }]);
  t.strictSame(taken, [1]);
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
  asked[0]![0]!(CONFLICT);
  asked[1]![0]!({ type: 'unavailable' });
  await waitFor('it is asked again', 20_000, () => asked[1]!.length === 2);
  asked[1]![1]!(done('known'));
  t.strictSame(await reply, done('known'));
  asked[0]![0]!(done('late'));
  const next = request(bus, 'accounts', 0, repeatable(2));
  await waitFor('the owner has it', 20_000, () => asked[1]!.length === 3);
  asked[1]![2]!(done('next'));
  t.strictSame(await next, done('next'), 'what is known comes late, and is of nobody any more');
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
