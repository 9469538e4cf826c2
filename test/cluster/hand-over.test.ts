// Planned moves under load: a node that leaves or joins costs its callers neither an error nor a wait worth the name, nor is anything lost
// that it acknowledged before its stream had it.
import t from 'tap';
import type { Test } from 'tap';
import { lastWords, untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { Cable } from './cable.ts';
import { Cluster, SMALL } from './cluster.ts';
import { notCreated, percentile } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

/** Half a second on a machine of its own; here other tests and starting processes share two cores. */
const LONGEST_MS = 1_500;
const ROUNDS = 3;
const LOOK_MS = 20;

t.test('each ledger is restarted in turn', async (t) => {
  // A machine that is slow for a moment is not so each time; a hand-over that waits for a lease is.
  let longest = Infinity;
  for (let round = 1; round <= ROUNDS && longest >= LONGEST_MS; round++) {
    longest = await restartEachInTurn(t);
  }
  t.ok(longest < LONGEST_MS, 'no request waits for a lease to run out');
});

t.test('with REPLICATION=async', async (t) => {
  const environment = { REPLICATION: 'async' };
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1, environment });
  t.teardown(() => cluster.stop());
  // What it acknowledges is not in its stream yet.
  const { cable, url } = await Cable.lay(cluster.nats.urls[0]!, 10);
  t.teardown(() => cable.remove());
  const far = { NATS_URL: url };

  await t.test('a node that leaves takes nothing with it', async (t) => {
    const node = await cluster.addOwner('ledger2', far);
    const load = cluster.load(16, 20);
    await waitFor('creates are answered', 60_000, () => load.answered > 500);
    node.signal('SIGTERM');
    t.equal(await node.exited(), 0, lastWords(node));
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('nor does one that dies and is back before another has what it had', async (t) => {
    const node = await cluster.addOwner('ledger2', far);
    const stays = cluster.node('ledger1');
    stays.signal('SIGTERM');
    t.equal(await stays.exited(), 0, lastWords(stays));
    const load = cluster.load(16, 20);
    await waitFor('creates are answered', 60_000, () => load.answered > 500);
    node.signal('SIGKILL');
    await node.exited();
    await cluster.addOwner('ledger2', far);
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });
});

/** For how long at most the machine has stood still since, ms, as this process could see: requests did, too, by no fault of nodes. */
function watchStandstill(t: Test): () => number {
  let [seenAt, longest] = [performance.now(), 0];
  const looking = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, Math.round(now - seenAt) - LOOK_MS);
    seenAt = now;
  }, LOOK_MS);
  t.teardown(() => clearInterval(looking));
  return () => longest;
}

/** Returns what the longest request took while the machine did not stand still, milliseconds. */
async function restartEachInTurn(t: Test): Promise<number> {
  const cluster = await Cluster.start(SMALL);
  try {
    const stoodStillMs = watchStandstill(t);
    const load = cluster.load(8, 30);
    await waitFor('creates are answered', 60_000, () => load.answered > 200);
    for (const name of ['ledger1', 'ledger2']) {
      const leaving = cluster.node(name);
      leaving.signal('SIGTERM');
      t.equal(await leaving.exited(), 0, `${name} ends gracefully`);
      const back = await cluster.add(name, 'ledger');
      await untilReady([back]);
      await waitFor(`${name} has its share again`, 30_000, () => cluster.ownsSome(name));
    }
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), [], 'no failed request');
    t.equal(report.closedConnections, 0, 'no closed connection');
    const stillMs = stoodStillMs();
    const longest = Math.round(percentile(report.latenciesMs, 1) - stillMs);
    t.comment(
      `the longest of ${report.latenciesMs.length} requests took ${longest} ms, but for ${stillMs} ms`,
    );
    t.strictSame(await cluster.check(report), []);
    return longest;
  } finally {
    await cluster.stop();
  }
}
