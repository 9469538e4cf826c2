// The owner's side of the NATS bus: what it takes, and what it says to whom. Owners here are plain functions on a real nats-server.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import type { Message, OnReply, Reply } from '../../src/bus/bus.ts';
import { request } from '../../src/bus/bus.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import { commandSubject } from '../../src/nats/subjects.ts';
import { commandLine } from '../../src/nats/bus/wire.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { link } from './adapters.ts';
import { done, onceOnly, repeatable, startBusServers } from './bus-driven.ts';
import { platformGroup } from '../../actors/platform/group.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Views } from '../../wal/types.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const { servers, ownerLink, callerLink, newBus } = await startBusServers(t);

const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

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

t.test('what is answered while the connection ends, or has ended, is lost, and nothing else', async (t) => {
  const ending = await link(servers.url, 'ending');
  const served = new NatsBusServer(ending.connection).serve('accounts', 3, 41);
  served.open({ inbox: (_, onReply) => onReply(done('x'.repeat(100_000))), holds: () => true });
  const { bus, routes } = newBus(undefined, undefined, ending);
  routes.set('accounts', 2, { node: 'nobody', epoch: 1 });
  // More than one message carries; what is asked of others goes out beside it.
  const answer = (): void => {
    for (let id = 1; id <= 4; id++) served.take({ caller: 'far', id, attempt: 1, message: onceOnly() });
    bus.send('accounts', 2, onceOnly(), () => {});
  };
  let hasEnded = false;
  const draining = ending.drain().then(() => (hasEnded = true));
  let turns = 0;
  for (; !hasEnded; turns++) {
    t.doesNotThrow(answer);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await draining;
  t.ok(turns > 1 && ending.connection.isClosed());
  t.doesNotThrow(answer);
  await new Promise((resolve) => setImmediate(resolve));
  bus.close();
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
