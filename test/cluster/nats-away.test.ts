// NATS servers go away under load: of three one may go, leader or not; when two go nothing is acknowledged, and nothing is
// lost when they come back. Who cannot serve meanwhile says so.
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Test } from 'tap';
import { untilReady, whyNotReady } from '../../deploy/cluster-processes.ts';
import { startNatsServers, waitFor } from '../../deploy/nats-servers.ts';
import { LEASE_STREAM } from '../../src/nats/subjects.ts';
import { Cluster, SMALL } from './cluster.ts';
import { link } from './adapters.ts';
import { faultOfNats } from './nats-fault.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const ATTEMPTS = 3;

t.test('the leader of the logs is killed, then a majority, and all come back', async (t) => {
  for (let attempt = 1; ; attempt++) {
    const cluster = await Cluster.start({ ...SMALL, natsServers: 3, environment: { PARTITIONS: '2' } });
    try {
      return await killAndBringBack(t, cluster);
    } catch (error) {
      // Nothing that stands on it can go on then, and nothing is shown: from the beginning.
      const fault = await faultOfNats(cluster);
      if (fault === null) throw error;
      t.comment(`attempt ${attempt}: NATS itself has not come back: ${fault}`);
      if (attempt === ATTEMPTS) return t.pass('NATS comes back', { skip: fault });
    } finally {
      await cluster.stop();
    }
  }
});

async function killAndBringBack(t: Test, cluster: Cluster): Promise<void> {
  const load = cluster.load(8, 60);
  await waitFor('creates are answered', 60_000, () => load.answered > 100);

  const observer = await link(cluster.nats.url, 'observer');
  const { cluster: raft } = await observer.manager.streams.info('DAFTARI_accounts_0');
  await observer.close();
  const leader = Number(raft?.leader?.slice(1)) - 1;
  await cluster.nats.kill(leader, 'SIGKILL');
  // A request on its way may take an election; new ones are answered after it.
  const before = load.answered;
  await waitFor('creates are answered without the leader', 45_000, () => load.answered > before + 100);

  const second = (leader + 1) % 3;
  await cluster.nats.kill(second, 'SIGKILL');
  await waitFor('nothing is answered any more', 60_000, async () => {
    const count = load.answered;
    await new Promise((resolve) => {
      setTimeout(resolve, 1_000);
    });
    return load.answered === count;
  });
  await Promise.all([cluster.nats.restart(leader), cluster.nats.restart(second)]);
  const then = load.answered;
  await waitFor('creates are answered again', 60_000, () => load.answered > then + 100);
  await untilReady(cluster.running, 45_000);
  const report = await load.stop();
  const refused = report.journal.filter(({ status }) => status !== null && status !== 201 && status !== 503);
  t.strictSame(refused, [], 'nobody is told an error but "not now, nothing was done"');
  t.strictSame(await cluster.check(report), []);
}

t.test('a front that hears of no owner says that it is not ready, until it does', async (t) => {
  const cluster = await Cluster.start({ natsServers: 1, fronts: 1, ledgers: 1, webhooks: 0, pollers: 0 });
  t.teardown(() => cluster.stop());
  const front = cluster.node('front1');
  const silent = async (): Promise<void> => {
    await waitFor('the front is not ready', 60_000, async () => (await whyNotReady(front)) !== null);
    t.match(await whyNotReady(front), 'nothing has been heard of ledger1 for 12 s');
    t.equal(await readyMetric(), 'daftari_ready 0');
  };
  const readyMetric = async (): Promise<string | undefined> =>
    (await (await fetch(`${front.operatorUrl}/metrics`)).text()).match(/^daftari_ready .*$/m)?.[0];
  t.equal(await readyMetric(), 'daftari_ready 1');
  await cluster.nats.kill(0, 'SIGKILL');
  await silent();
  await cluster.nats.restart(0);
  await untilReady(cluster.running);

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
