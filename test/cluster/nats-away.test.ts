// NATS goes away, or takes nothing: who cannot serve meanwhile says so, and why, and goes on when it is back.
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { untilReady, whyNotReady } from '../../deploy/cluster-processes.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { partitionOf } from '../../src/bus/bus.ts';
import { storedMessage } from '../../src/nats/streams.ts';
import { CLUSTER_STREAM, IDENTITY_SUBJECT, LEASE_STREAM } from '../../src/nats/subjects.ts';
import { Cluster, PARTITIONS, SMALL } from './cluster.ts';
import { forgetLast, link, messagesOf } from './adapters.ts';
import { needs } from '../needs.ts';

needs('nats-server');

// Each has a cluster of its own, and the first mostly waits.
t.jobs = 2;

t.test('a front that hears of no owner says that it is not ready, until it does', async (t) => {
  const cluster = await Cluster.start({ natsServers: 1, fronts: 1, ledgers: 1, webhooks: 0, pollers: 0 });
  t.teardown(() => cluster.stop());
  const hand = await link(cluster.nats.url, 'hand');
  t.teardown(() => hand.close());
  const front = cluster.node('front1');
  // However late it is asked.
  const why = /nothing has been heard of ledger1 for (?:1[2-9]|[2-9]\d) s/;
  const silent = async (): Promise<void> => {
    await waitFor('the front says why', 60_000, async () => why.test((await whyNotReady(front)) ?? ''));
    t.equal(await readyMetric(), 'daftari_ready 0');
  };
  const readyMetric = async (): Promise<string | undefined> =>
    (await (await fetch(`${front.operatorUrl}/metrics`)).text()).match(/^daftari_ready .*$/m)?.[0];
  t.equal(await readyMetric(), 'daftari_ready 1');
  const partition = partitionOf(cluster.accounts[0]!.id, PARTITIONS);
  const messages = await messagesOf(hand, partition);
  await forgetLast(hand, partition, 1);
  t.strictSame(await messagesOf(hand, partition), messages.slice(0, -1));
  const identity = (): Promise<string | null> =>
    storedMessage(hand.manager, CLUSTER_STREAM, { last_by_subj: IDENTITY_SUBJECT }).then(
      (stored) => stored?.string() ?? null,
      () => null,
    );
  const said = await identity();
  await hand.manager.streams.purge(CLUSTER_STREAM);
  t.equal(await identity(), null);
  await cluster.nats.kill(0, 'SIGKILL');
  await silent();
  await cluster.nats.restart(0);
  await untilReady(cluster.running);
  await waitFor('what the cluster says of itself stands there again', 60_000, async () => {
    return said !== null && isDeepStrictEqual(JSON.parse((await identity()) ?? '{}'), JSON.parse(said));
  });
  await waitFor(
    'the owner gives back what NATS has forgotten, though it writes nothing',
    60_000,
    async () => {
      const now = await messagesOf(hand, partition).catch(() => []);
      return isDeepStrictEqual(now.slice(0, messages.length), messages);
    },
  );

  // Nobody is left who would end its session.
  const ledger = cluster.node('ledger1');
  ledger.signal('SIGKILL');
  await ledger.exited();
  await silent();
  await cluster.add('ledger1', 'ledger');
  await untilReady(cluster.running);
});

t.test('a node whose writes NATS refuses says why, and goes on when it takes them', async (t) => {
  const cluster = await Cluster.start({ natsServers: 1, fronts: 1, ledgers: 1, webhooks: 0, pollers: 0 });
  t.teardown(() => cluster.stop());
  const ledger = cluster.node('ledger1');
  const hand = await link(cluster.nats.url, 'hand');
  t.teardown(() => hand.close());
  // As where its storage is full.
  await hand.manager.streams.update(LEASE_STREAM, { max_msg_size: 1 });
  const why = /NATS does not take what this node writes: \d+: message size exceeds/;
  await waitFor('it is not ready', 60_000, async () => why.test((await whyNotReady(ledger)) ?? ''));
  const lines = readFileSync(ledger.logFile, 'utf8').split('\n');
  const told = lines.filter((line) => line.includes('node.ledger1 could not be written'));
  t.equal(told.length, 1, 'nor is its log silent, or filled');
  await hand.manager.streams.update(LEASE_STREAM, { max_msg_size: -1 });
  await untilReady(cluster.running);
});

t.test('a node whose streams do not take what is created says so while its callers wait', async (t) => {
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1, environment: { PARTITIONS: '1' } });
  t.teardown(() => cluster.stop());
  const ledger = cluster.node('ledger1');
  const hand = await link(cluster.nats.url, 'hand');
  t.teardown(() => hand.close());
  const limitTo = (bytes: number): Promise<unknown> =>
    hand.manager.streams.update('DAFTARI_accounts_0', { max_msg_size: bytes });
  const load = cluster.load(4, 60);
  await waitFor('creates are answered', 60_000, () => load.answered > 20);
  await limitTo(1);
  const why = /NATS has not taken what this node writes to accounts\/0 for \d+ s: \d+: message size exceeds/;
  const saysSo = async (): Promise<boolean> => why.test((await whyNotReady(ledger)) ?? '');
  await waitFor('it is not ready', 18_000, saysSo);
  await limitTo(-1);
  await untilReady(cluster.running);
  const report = await load.stop();
  t.strictSame(await cluster.check(report), []);
});

t.test('who starts before the servers waits for them', async (t) => {
  const nats = await startNatsServers();
  t.teardown(() => nats.stop());
  await nats.kill(0, 'SIGTERM');
  const problems: string[] = [];
  const connecting = link(nats.url, 'early', { onProblem: (problem) => void problems.push(problem) });
  await waitFor('it says what it waits for', 60_000, () => problems.length > 0);
  await nats.restart(0);
  const connection = await connecting;
  t.match(problems, [/^no connection yet: .*CONNECTION_REFUSED/]);
  t.equal((await connection.manager.streams.list().next()).length, 0);
  await connection.close();
});
