// Planned moves under load: a node that leaves or joins costs its callers neither an error nor a wait worth the name.
import t from 'tap';
import type { Test } from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/nats-servers.ts';
import { Cluster, SMALL } from './cluster.ts';
import { notCreated, percentile } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

/** Half a second on a machine of its own; here other tests and starting processes share two cores. */
const LONGEST_MS = 1_500;
const ROUNDS = 3;

t.test('each ledger is restarted in turn', async (t) => {
  // A machine that stands still for a moment does not do so each time; a hand-over that waits for a lease does.
  let longest = Infinity;
  for (let round = 1; round <= ROUNDS && longest >= LONGEST_MS; round++) {
    longest = await restartEachInTurn(t);
  }
  t.ok(longest < LONGEST_MS, 'no request waits for a lease to run out');
});

/** Returns what the longest request took, milliseconds. */
async function restartEachInTurn(t: Test): Promise<number> {
  const cluster = await Cluster.start(SMALL);
  try {
    const load = cluster.load(8, 30);
    await waitFor('creates are answered', 60_000, () => load.answered > 200);
    for (const name of ['ledger1', 'ledger2']) {
      const leaving = cluster.node(name);
      leaving.signal('SIGTERM');
      t.equal(await leaving.exited(), 0, `${name} ends gracefully`);
      const back = await cluster.add(name, 'ledger');
      await untilReady([back]);
      await waitFor(`${name} has its share again`, 30_000, async () =>
        (await cluster.partitions()).some(({ group, node }) => group === 'accounts' && node === name),
      );
    }
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), [], 'no failed request');
    t.equal(report.closedConnections, 0, 'no closed connection');
    const longest = Math.round(percentile(report.latenciesMs, 1));
    t.comment(`the longest of ${report.latenciesMs.length} requests took ${longest} ms`);
    t.strictSame(await cluster.check(report), []);
    return longest;
  } finally {
    await cluster.stop();
  }
}
