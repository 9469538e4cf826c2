// The one connection of a node to NATS: it is encrypted where that was asked for, and once made it comes back whatever servers say
// meanwhile.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { nkeys } from 'nats';
import t from 'tap';
import type { Test } from 'tap';
import { startNode } from '../../deploy/cluster-processes.ts';
import { freePort } from '../../deploy/free-ports.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { withLink } from '../../deploy/operator-link.ts';
import { withServers } from '../../deploy/server-path.ts';
import { request } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { connectNats, type NatsLink } from '../../src/nats/connection.ts';
import { CannotConnect } from '../../src/nats/errors.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { joining } from '../../src/nats/nats-problem.ts';
import { persist } from '../../src/nats/persist.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { pause } from '../../src/pause.ts';
import { link, RoutesByHand } from './adapters.ts';
import { done, repeatable } from './bus-driven.ts';
import { needs } from '../needs.ts';
import { until } from '../until.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

interface GuardedServer {
  readonly address: string;
  /** From now on it takes this password alone, and turns away who has come with another. */
  setPassword(password: string): void;
  /** From now on it lets in who is in this list, and what they may there. */
  setUsers(users: string): void;
}

function frontWith(password: string, permissions = ''): string {
  return `{ user: front, password: ${password}${permissions} }`;
}

async function startGuarded(t: Test, password: string): Promise<GuardedServer> {
  const directory = temporaryDirectory(t);
  const file = join(directory, 'server.conf');
  const address = `127.0.0.1:${await freePort()}`;
  const write = (users: string): void =>
    writeFileSync(file, `listen: "${address}"\nauthorization { users: [${users}] }\n`);
  write(frontWith(password));
  const child: ChildProcess = spawn('nats-server', ['-c', file], { stdio: 'ignore', env: withServers() });
  t.teardown(async () => {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });
  // Whoever comes later finds it.
  await (await link(`nats://front:${password}@${address}`, 'first')).close();
  const setUsers = (users: string): void => {
    write(users);
    child.kill('SIGHUP');
  };
  return { address, setUsers, setPassword: (taken) => setUsers(frontWith(taken)) };
}

t.test('who is turned away for a while, by a wrong password at the server, comes back', async (t) => {
  const server = await startGuarded(t, 'right');
  const problems: string[] = [];
  let reconnects = 0;
  const node = await link(`nats://front:right@${server.address}`, 'front', {
    onProblem: (problem) => problems.push(problem),
  });
  t.teardown(() => node.close());
  node.onReconnect(() => reconnects++);
  server.setPassword('wrong');
  await waitFor('it has been turned away several times', 20_000, () => {
    return problems.filter((problem) => problem.includes('AUTHORIZATION_VIOLATION')).length > 3;
  });
  t.equal(reconnects, 0);
  server.setPassword('right');
  await waitFor('it is back', 20_000, () => reconnects > 0);
  await t.resolves(node.connection.flush());
  const isLoss = (problem: string): boolean => problem.startsWith('the connection was lost');
  t.equal(problems.filter(isLoss).length, 1, 'its log tells why it is away, once');
});

t.test(
  'who may not listen for a while, by a wrong list at the server, hears again when it may',
  async (t) => {
    const server = await startGuarded(t, 'right');
    const problems: string[] = [];
    const node = await link(`nats://front:right@${server.address}`, 'ledger', {
      onProblem: (problem) => problems.push(problem),
    });
    t.teardown(() => node.close());
    const { connection } = node;
    const partitions = { accounts: 2, webhooks: 1, pollers: 1, platform: 1 };
    const [near, far, routes] = [
      new NatsBusServer(connection),
      new NatsBusServer(connection),
      new RoutesByHand(),
    ];
    routes.set('accounts', 1, { node: 'far', epoch: 1 });
    const served = far.serve('accounts', 1, 1);
    served.open({ holds: () => true, inbox: (_, onReply) => onReply(done('decided')) });
    const bus = new NatsBus({ connection, caller: 'ledger', routes, partitions, server: near });
    const publisher = new StreamPublisher(node);
    t.teardown(() => {
      bus.close();
      publisher.close();
      served.stop();
    });
    const other = '{ user: stream, password: too }';
    server.setUsers(`${frontWith('right', ', permissions: { subscribe: "none" }')}, ${other}`);
    const isDeaf = (subject: RegExp): boolean => problems.some((problem) => subject.test(problem));
    const all = [/subscribe to daftari\.cmd/, /subscribe to daftari\.reply/, /subscribe to _INBOX/];
    await waitFor('it hears nothing', 20_000, () => all.every(isDeaf));
    const acknowledging = await link(`nats://stream:too@${server.address}`, 'stream');
    t.teardown(() => acknowledging.close());
    acknowledging.connection.subscribe('log', {
      callback: (_, message) => void message.respond('{"seq":1}'),
    });
    await acknowledging.connection.flush();
    server.setUsers(`${frontWith('right')}, ${other}`);
    await waitFor('it hears that its batch is stored', 20_000, async () => {
      return (await publisher.publish('log', Buffer.from('batch'), {})).type === 'stored';
    });
    const reply = await request(bus, 'accounts', 1, repeatable(1, 5_000));
    t.strictSame(reply, done('decided'), 'and commands, and their replies');
  },
);

t.test('a client that gives up for good is told of; one that is closed here is not', async (t) => {
  const server = await startGuarded(t, 'right');
  const ends: Error[] = [];
  const linked = () =>
    link(`nats://front:right@${server.address}`, 'front', { onEnd: (end) => ends.push(end) });
  for (const end of ['close', 'drain'] as const) {
    const node = await linked();
    await node[end]();
    await node.connection.closed();
  }
  t.strictSame(ends, []);
  const { connection } = await linked();
  // Nothing is known that brings the client to it: behind the back of the link it ends as it would.
  await connection.close();
  await waitFor('it is told', 5_000, () => ends.length > 0);
  t.strictSame(ends.map(String), ['NatsEnded: the NATS client has ended its connection for good']);
});

t.test('who leaves waits for no server that does not answer, until that is found out', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const problems: string[] = [];
  const leaving = await link(servers.url, 'leaving', { onProblem: (problem) => void problems.push(problem) });
  leaving.connection.subscribe('some');
  await leaving.connection.flush();
  await servers.kill(0, 'SIGSTOP');
  leaving.connection.publish('some', 'text');
  await leaving.drain();
  t.ok(leaving.connection.isClosed());
  t.strictSame(problems, []);
});

t.test('what was asked for as long as it may be is not asked for again', async (t) => {
  let asked = 0;
  const ask = async (): Promise<never> => {
    asked++;
    await pause(LIMITS.natsReconnectMs * 1.5);
    throw new Error('no answer in time');
  };
  await t.rejects(persist(ask, { forMs: LIMITS.natsReconnectMs * 2 }), { message: 'no answer in time' });
  t.equal(asked, 1);
});

t.test('credentials that are renewed in their file are those of the next connection', async (t) => {
  const server = await startGuarded(t, 'right');
  const [first, renewed] = [nkeys.createUser(), nkeys.createUser()];
  const file = join(t.testdir({}), 'node.creds');
  const block = (kind: string, text: string): string =>
    `-----BEGIN ${kind}-----\n${text}\n------END ${kind}------\n`;
  const write = (user: typeof first): void =>
    writeFileSync(
      file,
      block('NATS USER JWT', 'jwt') + block('USER NKEY SEED', Buffer.from(user.getSeed()).toString()),
    );
  const mayCome = (user: typeof first): void => server.setUsers(`{ nkey: ${user.getPublicKey()} }`);
  write(first);
  mayCome(first);
  const connect = (): Promise<NatsLink> =>
    connectNats({
      url: `nats://${server.address}`,
      name: 'front',
      inboxPrefix: '_INBOX.front',
      credentialsFile: file,
    });
  await waitFor('the server has read its list', 20_000, async () => {
    try {
      await (await connect()).close();
      return true;
    } catch (error) {
      if (error instanceof CannotConnect) return false;
      throw error;
    }
  });
  let reconnects = 0;
  const node = await connect();
  t.teardown(() => node.close());
  node.onReconnect(() => reconnects++);
  writeFileSync(file, 'half of what is to st');
  await node.connection.reconnect();
  await waitFor('it is back by those that it knows', 20_000, () => reconnects > 0);
  write(renewed);
  mayCome(renewed);
  await waitFor('it is back by the renewed ones', 20_000, () => reconnects > 1);
  await t.resolves(node.connection.flush());
});

t.test('a server without TLS is told no password by who was given a tls:// URL', async (t) => {
  const server = await startGuarded(t, 'right');
  const plain = { url: `nats://front:right@${server.address}`, name: 'front', inboxPrefix: '_INBOX.front' };
  const node = await connectNats(plain);
  await node.close();
  const url = `tls://front:right@${server.address}`;
  const refused = { name: 'CannotConnect', message: /^cannot connect to NATS: the server has no TLS, / };
  await t.rejects(connectNats({ ...plain, url }), refused);
  const certFile = import.meta.filename;
  await t.rejects(connectNats({ ...plain, certFile }), refused, 'nor by who shows a certificate');
});

t.test('a node that NATS will not take says so in a line, with the settings to look at', async (t) => {
  const server = await startGuarded(t, 'right');
  const directory = temporaryDirectory(t);
  const settings = { directory, operatorToken: 'an-operator-token', masterKey: '5e'.repeat(32) };
  const said = async (name: string, natsUrl: string, more: Record<string, string> = {}): Promise<string> => {
    const node = await startNode({ ...settings, natsUrl }, name, 'front', more);
    t.teardown(() => node.signal('SIGKILL'));
    t.equal(await node.exited(), 1, 'the server may take it at the next start');
    return readFileSync(node.logFile, 'utf8');
  };
  const tls = await said('tls', `tls://front:right@${server.address}`);
  t.match(tls, /^cannot connect to NATS: the server has no TLS, and a tls:\/\/ URL in NATS_URL, .*\n$/);
  const unknown = await said('unknown', `nats://front:wrong@${server.address}`);
  t.match(
    unknown,
    /^cannot connect to NATS: .*Authorization Violation.* the user and password of NATS_URL, .*\n$/,
  );
  const file = { NATS_CREDENTIALS_FILE: import.meta.filename };
  const damaged = await said('damaged', `nats://${server.address}`, file);
  t.match(damaged, /^cannot connect to NATS: NATS_CREDENTIALS_FILE holds no credentials\n$/);
});

t.test('servers that take no message of the length that some have are refused', async (t) => {
  const servers = await startNatsServers({ configuration: 'max_payload: 256KB' });
  t.teardown(() => servers.stop());
  const options = { name: 'front', inboxPrefix: '_INBOX.front' };
  const joined = connectNats({ ...options, url: servers.url });
  await t.rejects(joined, { name: 'NatsUnfit', message: /at most 262144 bytes.*set max_payload to 1MB/ });
});

t.test('nor are they stayed with when another server has gone', async (t) => {
  const fit = await startNatsServers();
  t.teardown(() => fit.stop());
  const unfit = await startNatsServers({ configuration: 'max_payload: 256KB' });
  t.teardown(() => unfit.stop());
  const problems: string[] = [];
  const options = { url: `${fit.url},${unfit.url}`, name: 'front', inboxPrefix: '_INBOX.front' };
  // The client begins with either.
  const connect = (): Promise<NatsLink | null> =>
    connectNats(options, { onProblem: (problem) => problems.push(problem) }).catch(() => null);
  const node = (await until(connect, (joined) => joined !== null))!;
  t.teardown(() => node.close());
  let reconnects = 0;
  node.onReconnect(() => reconnects++);
  const refusals = (): number => problems.filter((problem) => /at most 262144 bytes/.test(problem)).length;
  const publisher = new StreamPublisher(node);
  await fit.kill(0, 'SIGKILL');
  // Before anybody here knows that it has come to another.
  while (node.connection.info?.max_payload !== 262_144) await setImmediate();
  const log = publisher.publish('log', Buffer.alloc(LIMITS.natsPayloadBytes), {});
  publisher.close();
  t.hasStrict(await log, { type: 'unanswered' }, 'what is too long for it is lost');
  await waitFor('it says what is wrong with the other', 20_000, () => refusals() > 0);
  await fit.restart(0);
  await waitFor('it is back', 20_000, () => reconnects > 0);
  t.ok(fit.url.endsWith(node.connection.getServer()));
  t.equal(refusals(), 1, 'told once, however often it is tried');
  node.connection.publish('any', new Uint8Array(LIMITS.natsPayloadBytes));
  await t.resolves(node.connection.flush());
});

t.test('what NATS does not give a node that begins is told in a line, with what mends it', async (t) => {
  const without = await startGuarded(t, 'right');
  const plain = await link(`nats://front:right@${without.address}`, 'ledger');
  const told = (why: RegExp) => ({ name: 'CannotJoin', message: why });
  await t.rejects(
    joining(() => plain.manager.streams.info('any')),
    told(/^cannot join the cluster: JetStream does not answer: .* a `jetstream` block /),
  );
  const asOperator = withLink(
    async () => plain,
    ({ manager }) => manager.streams.info('any'),
  );
  await t.rejects(asOperator, { message: /^JetStream does not answer: / }, 'nor an operator');
  const server = await startNatsServers();
  t.teardown(() => server.stop());
  const ledger = await link(server.url, 'ledger');
  t.teardown(() => ledger.close());
  const { manager } = ledger;
  await t.rejects(
    joining(() => manager.streams.add({ name: 'any', num_replicas: 3 })),
    told(/^cannot join the cluster: replicas > 1 .*: with one set NATS_REPLICAS=1$/),
  );
  await t.rejects(
    joining(() => manager.streams.info('any')),
    told(/stream not found: no node has created the cluster yet \(start one /),
  );
  const fault = new TypeError('a fault of ours');
  await t.rejects(
    joining(() => Promise.reject(fault)),
    fault,
    'not a word of NATS',
  );
});
