// A stream that a person has purged: what cannot be proved is not served, it is said why, all others go on; and a log that is
// chosen is served again. A bucket of leases that a person has removed is made anew by those who know what stood there.
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { streamTools } from '../../deploy/stream-tools.ts';
import { partitionOf } from '../../src/bus/bus.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { hasStream } from '../../src/nats/streams.ts';
import { LEASE_STREAM, logStream } from '../../src/nats/subjects.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import type { ToolRun } from '../unit/wal/run-tool.ts';
import { link } from './adapters.ts';
import { Cluster, PARTITIONS, SMALL } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const UNPROVEN = /not proven, not served: accounts\/(\d): the stream was purged empty after \d+ messages/;

async function readiness({ operatorUrl }: NodeProcess): Promise<string> {
  const answer = await fetch(`${operatorUrl}/readyz`).catch(() => null);
  return answer === null || answer.status !== 503 ? '' : answer.text();
}

t.test('a stream is purged while nobody follows it: its partition waits for a person', async (t) => {
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
  t.teardown(() => cluster.stop());
  const load = cluster.load(8, 0);
  await waitFor('creates are answered', 60_000, () => load.answered > 100);
  const report = await load.stop();
  const node = cluster.node('ledger1');
  node.signal('SIGTERM');
  t.equal(await node.exited(), 0);
  const purged = partitionOf(cluster.accounts[0]!.id, PARTITIONS);
  const connect = (): Promise<NatsLink> => link(cluster.nats.url, 'operator');
  const nats = await connect();
  t.teardown(() => nats.close());
  await nats.manager.streams.purge(logStream('accounts', purged));

  const back = await cluster.add('ledger1', 'ledger');
  await waitFor('it says what is wrong', 60_000, async () => UNPROVEN.test(await readiness(back)));
  t.equal(UNPROVEN.exec(await readiness(back))?.[1], String(purged));
  t.match(await (await fetch(`${back.operatorUrl}/metrics`)).text(), /^daftari_partitions_unproven 1$/m);
  const unproven = async (): Promise<unknown[]> =>
    (await cluster.partitions()).flatMap((each) => each.unproven_on.map((name) => [each.partition, name]));
  await waitFor('the front has heard of it', 60_000, async () => (await unproven()).length > 0);
  t.strictSame(await unproven(), [[purged, 'ledger1']]);
  const balancesOf = async (account: (typeof cluster.accounts)[number]): Promise<number> => {
    const headers = { authorization: `Bearer ${account.secretKey}` };
    return (await fetch(`${cluster.service.baseUrl}/v1/balances`, { headers })).status;
  };
  // All at once: who asks for what is not served waits for as long as a front does.
  await Promise.all(
    cluster.accounts.map(async (account) => {
      const status = partitionOf(account.id, PARTITIONS) === purged ? 503 : 200;
      await waitFor('all others are served', 60_000, async () => (await balancesOf(account)) === status);
    }),
  );

  back.signal('SIGTERM');
  t.equal(await back.exited(), 0);
  const putBack = (partition: number, ...args: string[]): Promise<ToolRun> => {
    const of = ['--data', back.dataDir, '--group', 'accounts', '--partition', String(partition)];
    return runTool(streamTools(connect), 'put-back', ...of, ...args);
  };
  const other = (purged + 1) % PARTITIONS;
  t.match(await putBack(other, '--yes'), { status: 1, err: /is not empty/ });
  t.match(await putBack(purged), { status: 0, out: /Nothing was written/ });
  const written = await putBack(purged, '--yes');
  t.match(written, { status: 0, out: /Written/ }, written.err);
  await untilReady([await cluster.add('ledger1', 'ledger')]);
  t.strictSame(await cluster.check(report), [], 'nothing that was acknowledged is lost');
  const more = cluster.load(8, 0);
  await waitFor('creates are answered', 60_000, () => more.answered > 50);
  const after = await more.stop();
  t.strictSame(notCreated(after.journal), []);
});

t.test(
  'the bucket of leases is removed under load: nodes make it anew, and nobody is told an error',
  async (t) => {
    const cluster = await Cluster.start({ ...SMALL, ledgers: 2 });
    t.teardown(() => cluster.stop());
    const load = cluster.load(8, 20);
    await waitFor('creates are answered', 60_000, () => load.answered > 100);
    const nats = await link(cluster.nats.url, 'operator');
    t.teardown(() => nats.close());
    await nats.manager.streams.delete(LEASE_STREAM);
    await waitFor('it is there again', 60_000, () => hasStream(nats.manager, LEASE_STREAM));
    const { answered } = load;
    await waitFor('creates are answered again', 60_000, () => load.answered > answered + 100);
    const report = await load.stop();
    t.strictSame(
      report.journal.filter(({ status }) => status !== 201),
      [],
    );
    t.strictSame(await cluster.check(report), [], 'nothing that was acknowledged is lost');
  },
);
