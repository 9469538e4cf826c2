// Crashes under load: what was acknowledged stays, nothing is applied twice, and callers who wait are answered.
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { request } from '../../src/bus/bus.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { freshId, fromNow } from '../../src/operator/context.ts';
import { link } from './adapters.ts';
import { Cluster, PARTITIONS, SMALL } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const cluster = await Cluster.start({ ...SMALL, fronts: 2 });
t.teardown(() => cluster.stop());

t.test('a ledger is killed: its partitions are served again, no caller sees an error', async (t) => {
  const load = cluster.load(16, 50);
  await waitFor('creates are answered', 60_000, () => load.answered > 300);

  const killedAt = performance.now();
  cluster.node('ledger1').signal('SIGKILL');
  await cluster.node('ledger1').exited();
  await waitFor('the other ledger has everything', 60_000, async () => {
    const owners = (await cluster.partitions()).filter(({ group }) => group === 'accounts');
    return owners.every(({ node }) => node === 'ledger2');
  });
  const claimedMs = performance.now() - killedAt;
  await untilReady(cluster.running);
  // A lease and a little more; the rest is for a machine that stands still for a moment.
  t.ok(claimedMs < 2_500 + 15_000, `claimed ${Math.round(claimedMs)} ms after the crash`);
  const before = load.answered;
  await waitFor('creates are answered again', 60_000, () => load.answered > before + 300);

  // The machine comes back, follows, and takes its share.
  const back = await cluster.add('ledger1', 'ledger');
  await untilReady([back]);
  await waitFor('it owns partitions again', 30_000, async () =>
    (await cluster.partitions()).some(({ group, node }) => group === 'accounts' && node === 'ledger1'),
  );
  const report = await load.stop();
  t.strictSame(notCreated(report.journal), [], 'everybody was answered');
  t.ok(
    Math.max(...report.latenciesMs) < 30_000,
    `the longest wait was ${Math.round(Math.max(...report.latenciesMs))} ms`,
  );
  t.strictSame(await cluster.check(report), []);
});

t.test('an owner is stopped past its lease and goes on: it acknowledges nothing', async (t) => {
  await untilReady(cluster.running);
  const load = cluster.load(16, 50);
  await waitFor('creates are answered', 60_000, () => load.answered > 300);
  const stopped = cluster.node('ledger1');
  const owned = (await cluster.partitions()).filter(({ node }) => node === 'ledger1');
  t.ok(owned.some(({ group }) => group === 'accounts'));
  stopped.signal('SIGSTOP');
  await waitFor('the other ledger has everything', 60_000, async () => {
    const owners = (await cluster.partitions()).filter(({ group }) => group === 'accounts');
    return owners.every(({ node }) => node === 'ledger2');
  });
  await waitFor('and serves', 60_000, async () => {
    await untilReady(cluster.fronts);
    return true;
  });
  stopped.signal('SIGCONT');
  const before = load.answered;
  await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
  await waitFor('it owns partitions again, under new epochs', 30_000, async () =>
    (await cluster.partitions()).some(
      ({ group, partition, node, epoch }) =>
        node === 'ledger1' &&
        owned.some((before) => {
          // The other ledger's, and its own again.
          return before.group === group && before.partition === partition && epoch >= before.epoch + 2;
        }),
    ),
  );
  const report = await load.stop();
  t.equal(stopped.exitStatus(), null, 'it lives on');
  t.strictSame(
    notCreated(report.journal).filter(({ status }) => status !== null),
    [],
  );
  t.strictSame(await cluster.check(report), []);
});

t.test('a front is killed: its callers ask another one with the same key', async (t) => {
  const load = cluster.load(16, 50);
  await waitFor('creates are answered', 60_000, () => load.answered > 300);
  // Stopped first, for several creates of each caller of the other one: each of its own waits for it when it dies.
  cluster.node('front2').signal('SIGSTOP');
  const stopped = load.answered;
  await waitFor('creates are answered by the other', 60_000, () => load.answered > stopped + 100);
  cluster.node('front2').signal('SIGKILL');
  const before = load.answered;
  await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
  const report = await load.stop();
  t.ok(report.closedConnections > 0, 'connections were cut');
  t.strictSame(notCreated(report.journal), []);
  t.strictSame(await cluster.check(report), []);
});

t.test(
  'an account that a front had only registered when it died is opened, and no owner has to begin',
  async (t) => {
    await untilReady(cluster.running);
    const hand = await link(cluster.nats.url, 'hand');
    const publisher = new StreamPublisher(hand);
    const table = new LeaseTable(hand, publisher, (error) => t.fail(error.message));
    await table.ready();
    const counts = { accounts: PARTITIONS, webhooks: PARTITIONS, pollers: PARTITIONS, platform: 1 };
    const { connection } = hand;
    const server = new NatsBusServer(connection, (problem) => t.fail(problem));
    const bus = new NatsBus({ connection, caller: 'front.hand', routes: table, partitions: counts, server });
    t.teardown(async () => {
      bus.close();
      publisher.close();
      await table.close();
      await hand.close();
    });
    const accountId = freshId('account');
    const account = { accountId, name: 'Half', country: 'KE', operator: 'amina', deadline: fromNow() };
    const may = { live: false, payoutsEnabled: false, withdrawalsEnabled: false };
    const registered = await request(bus, 'platform', 0, { type: 'RegisterAccount', ...account, ...may });
    t.equal(registered.type, 'done');
    const { operatorUrl, operatorToken } = cluster.service;
    const authorization = `Bearer ${operatorToken}`;
    await waitFor('it is open', 30_000, async () => {
      const got = await fetch(`${operatorUrl}/operator/v1/accounts/${accountId}`, {
        headers: { authorization },
      });
      return got.status === 200;
    });
  },
);
