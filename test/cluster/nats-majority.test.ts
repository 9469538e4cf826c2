// NATS servers go away under load: of three one may go, leader or not; when two go nothing is acknowledged, and nothing is
// lost when they come back. In a file of its own: what NATS itself does not come back from is begun again, and takes its time.
import t from 'tap';
import type { Test } from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
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
  await Promise.all([leader, second].map((server) => cluster.nats.restart(server, 'member')));
  const then = load.answered;
  await waitFor('creates are answered again', 60_000, () => load.answered > then + 100);
  await untilReady(cluster.running, 45_000);
  const report = await load.stop();
  const refused = report.journal.filter(({ status }) => status !== null && status !== 201 && status !== 503);
  t.strictSame(refused, [], 'nobody is told an error but "not now, nothing was done"');
  t.strictSame(await cluster.check(report), []);
}
