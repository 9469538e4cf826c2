// All of NATS's storage is lost, under load: streams, leases, snapshots. Nothing is served that is not proven; the nodes' logs are
// put back, and every acknowledged create is there exactly once.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { lastWords, untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { Cluster } from './cluster.ts';
import { notCreated } from './load.ts';
import { putBackLogs } from './put-back-logs.ts';
import { needs } from '../needs.ts';

needs('nats-server');

/** Rejects when the process has ended: none may by what NATS lost. */
async function readiness(node: NodeProcess): Promise<string> {
  const ended = node.exitStatus();
  if (ended !== null) throw new Error(`${node.name} has ended with ${ended}: ${lastWords(node)}`);
  const answer = await fetch(`${node.operatorUrl}/readyz`).catch(() => null);
  return answer === null ? '' : `${answer.status} ${await answer.text()}`;
}

t.test('streams, leases and snapshots are lost, and the logs are put back', async (t) => {
  const cluster = await Cluster.start({ natsServers: 3, fronts: 1, ledgers: 2, webhooks: 1, pollers: 1 });
  t.teardown(() => cluster.stop());
  const { nats } = cluster;
  const servers = [0, 1, 2];
  const load = cluster.load(8, 0);
  await waitFor('creates are answered', 60_000, () => load.answered > 200);
  await Promise.all(servers.map((server) => nats.kill(server, 'SIGKILL')));
  const stopped = load.stop();
  for (const server of servers) {
    rmSync(join(cluster.directory, `n${server + 1}`, 'jetstream'), { recursive: true });
  }
  await Promise.all(servers.map((server) => nats.restart(server)));

  const owners = ['ledger1', 'ledger2', 'webhooks1', 'poller1'];
  await waitFor('nobody who owns partitions is ready', 60_000, async () => {
    const told = await Promise.all(owners.map((name) => readiness(cluster.node(name))));
    return told.every((each) => each.startsWith('503'));
  });
  const [account] = cluster.accounts;
  const headers = { authorization: `Bearer ${account!.secretKey}` };
  // The front asks until its own deadline: whatever could answer would have by then.
  const signal = AbortSignal.timeout(3_000);
  const read = await fetch(`${cluster.service.baseUrl}/v1/balances`, { headers, signal }).catch(() => null);
  t.not(read?.status, 200, 'nothing that was before is told');
  const before = [...cluster.running];
  for (const node of before) node.signal('SIGKILL');
  await Promise.all(before.map((node) => node.exited()));

  // The reflex: to start what was stopped.
  const reflex = await cluster.add('ledger1', 'ledger');
  await waitFor('it says what is wrong', 60_000, async () =>
    /not proven, not served: .*the stream has never had anything/.test(await readiness(reflex)),
  );
  reflex.signal('SIGTERM');
  t.equal(await reflex.exited(), 0);

  const withLogs = ['ledger1', 'ledger2', 'webhooks1'].map((name) => cluster.node(name));
  for (const written of await putBackLogs(nats.url, 3, join(cluster.directory, 'ends'), withLogs)) {
    // The next in line may have as much of what the owner wrote, and be first.
    t.match(
      written,
      { status: 0, out: /Written\.|There is nothing to write\./ },
      `${written.err}${written.out}`,
    );
  }

  const roles = ['ledger', 'ledger', 'webhooks', 'poller'];
  await untilReady(await Promise.all(owners.map((name, index) => cluster.add(name, roles[index]!))));
  await untilReady([await cluster.add('front1', 'front')]);
  const report = await stopped;
  t.strictSame(await cluster.check(report), [], 'nothing that was acknowledged is lost, nothing is twice');
  const more = cluster.load(8, 0);
  await waitFor('creates are answered', 60_000, () => more.answered > 100);
  const after = await more.stop();
  t.strictSame(notCreated(after.journal), []);
  t.strictSame(await cluster.check(after), []);
  // The trial balance.
  for (const name of ['ledger1', 'ledger2']) {
    const replayed = await runTool(logTools, 'replay', '--data', cluster.node(name).dataDir);
    t.match(replayed, { status: 0 }, `${replayed.err}${replayed.out}`);
  }
});
