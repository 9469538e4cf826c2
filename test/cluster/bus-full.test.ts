// What a caller has under way over the NATS bus is bounded, in number and in what it says; and what an owner keeps of callers.
import t from 'tap';
import type { Test } from 'tap';
import type { Message, OnReply, Reply } from '../../src/bus/bus.ts';
import { request } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import type { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { done, repeatable, startBusServers } from './bus-driven.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const { ownerLink, callerLink, newBus } = await startBusServers(t);

t.test('a full bus refuses before anything is sent', async (t) => {
  const { bus } = newBus();
  const replies: Reply[] = [];
  for (let i = 0; i < 40_000; i++) bus.send('accounts', 0, repeatable(i), (reply) => replies.push(reply));
  t.equal(replies.length, 40_000 - 32_768);
  t.ok(replies.every(({ type }) => type === 'unavailable'));
  bus.close();
  t.equal(replies.length, 40_000, 'and closing answers the rest');
});

const large = (): Message => Object.assign(repeatable(1), { body: 'x'.repeat(60_000) });

/** Sends large requests until one is refused. `replies` are added to as the others are answered. */
async function sendUntilFull(
  t: Test,
  bus: NatsBus,
  partition: number,
): Promise<{ readonly sent: number; readonly replies: readonly Reply[] }> {
  const fit = Math.ceil(LIMITS.busCharactersOpenMax / 60_000);
  const replies: Reply[] = [];
  let sent = 0;
  while (replies.length === 0 && sent < fit * 2) {
    bus.send('accounts', partition, large(), (reply) => replies.push(reply));
    sent++;
    // What is sent leaves when the callback that sends has ended.
    await Promise.resolve();
  }
  t.strictSame(replies, [{ type: 'unavailable' }]);
  t.ok(sent > fit * 0.9 && sent <= fit + 1, `${sent} of 60,000 characters`);
  return { sent, replies };
}

t.test('so does one that carries much, until some of it is answered', async (t) => {
  const { bus, routes } = newBus();
  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 1, 4);
  const held: OnReply[] = [];
  served.open({ inbox: (_, onReply) => held.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 1, { node: 'a', epoch: 4 });
  const { sent, replies } = await sendUntilFull(t, bus, 1);

  await waitFor('its owner has them all', 60_000, () => held.length === sent - 1);
  for (const onReply of held) onReply(done('late'));
  await waitFor('they are answered', 60_000, () => replies.length === sent);
  const next = request(bus, 'accounts', 1, large());
  await waitFor('the next one is sent', 60_000, () => held.length === sent);
  held[sent - 1]!(done('next'));
  t.strictSame(await next, done('next'));
  served.stop();
  bus.close();
});

t.test('nor does what waits for an owner pile up: whoever comes gets all of it at once', async (t) => {
  const { bus, routes } = newBus();
  const { sent, replies } = await sendUntilFull(t, bus, 2);

  const served = new NatsBusServer(ownerLink.connection).serve('accounts', 2, 1);
  served.open({ inbox: (_, onReply) => onReply(done('late')), holds: () => true });
  await ownerLink.connection.flush();
  routes.set('accounts', 2, { node: 'a', epoch: 1 });
  await waitFor('they are answered', 60_000, () => replies.length === sent);
  t.strictSame(await request(bus, 'accounts', 2, large()), done('late'), 'and there is room again');
  served.stop();
  bus.close();
});

t.test('nor does what this process served itself go to the next owner all at once', async (t) => {
  const nearby = new NatsBusServer(callerLink.connection);
  const { bus, routes } = newBus(nearby);
  const lost = nearby.serve('accounts', 3, 1);
  const undecided: OnReply[] = [];
  lost.open({ inbox: (_, onReply) => undecided.push(onReply), holds: () => true });
  routes.set('accounts', 3, { node: 'here', epoch: 1 });
  const fit = Math.ceil(LIMITS.busCharactersOpenMax / 60_000);
  const replies: Reply[] = [];
  for (let sent = 0; sent < fit * 2; sent++) {
    bus.send('accounts', 3, large(), (reply) => replies.push(reply));
  }
  t.equal(undecided.length, fit * 2, 'it was all taken');

  const next = new NatsBusServer(ownerLink.connection).serve('accounts', 3, 2);
  const held: OnReply[] = [];
  next.open({ inbox: (_, onReply) => held.push(onReply), holds: () => true });
  await ownerLink.connection.flush();
  lost.close();
  for (const onReply of undecided) onReply({ type: 'unknown' });
  routes.set('accounts', 3, { node: 'there', epoch: 2 });
  await waitFor('the next owner has what is allowed', 60_000, () => held.length >= fit - 1);
  await callerLink.connection.flush();
  await ownerLink.connection.flush();
  t.ok(held.length <= fit + 1, `${held.length} of 60,000 characters`);
  for (let answered = 0; answered < fit * 2; answered++) {
    await waitFor('the next one has come', 60_000, () => held.length > answered);
    held[answered]!(done('late'));
  }
  await waitFor('all are answered', 60_000, () => replies.length === fit * 2);
  t.ok(replies.every(({ type }) => type === 'done'));
  t.equal(bus.open, 0);
  next.stop();
  lost.stop();
  bus.close();
});

t.test('nor does what has come to an owner before it has opened, beyond what a mailbox holds', async (t) => {
  const server = new NatsBusServer(ownerLink.connection);
  const served = server.serve('accounts', 0, 8);
  const told: string[] = [];
  const caller = 'early';
  server.attach(caller, (id, _attempt, { type }) => told.push(`${id} ${type}`));
  for (let id = 1; id <= LIMITS.mailboxMax + 1; id++) {
    served.take({ caller, id, attempt: 1, message: repeatable(id) });
  }
  t.strictSame(told, [`${LIMITS.mailboxMax + 1} not_owner`]);
  served.stop();
  t.equal(told.length, LIMITS.mailboxMax + 1, 'whoever never comes to open says so to all');
  t.equal(server.served('accounts', 0, 8), null);
});

t.test(
  'nor do refusals that an owner keeps in mind until their deadlines: beyond that it says nothing is known',
  async (t) => {
    const server = new NatsBusServer(ownerLink.connection);
    const served = server.serve('accounts', 3, 10);
    let decided = 0;
    const rejection = { code: 'conflict', param: null, message: null, retryAfterSeconds: null } as const;
    served.open({
      inbox: (_, onReply) => {
        decided++;
        onReply({ type: 'rejected', rejection });
      },
      holds: () => true,
    });
    const caller = 'refused';
    let told = '';
    server.attach(caller, (_id, _attempt, { type }) => (told = type));
    const send = (id: number, attempt: number): string => {
      told = 'nothing';
      served.take({ caller, id, attempt, message: repeatable(id, id === 1 ? 10_000 : 60_000) });
      return told;
    };
    for (let id = 1; id <= LIMITS.busRefusedMax; id++) if (send(id, 2) !== 'rejected') t.fail(told);
    const next = LIMITS.busRefusedMax + 1;
    t.equal(send(next, 2), 'unknown');
    t.equal(send(next + 1, 1), 'rejected', 'there is no attempt before the first');
    const before = decided;
    t.equal(send(2, 1), 'nothing');
    const now = Date.now;
    t.intercept(Date, 'now', { value: () => now() + 20_000 });
    t.equal(send(next, 3), 'rejected', 'and there is room again');
    t.equal(send(2, 1), 'nothing');
    t.equal(decided, before + 1);
    served.stop();
  },
);
