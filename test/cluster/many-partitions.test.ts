// What a node does to take over its partitions grows with their number, and hardly faster: a thousand are taken in a moment.
import t from 'tap';
import type { Test } from 'tap';
import type { PartitionHost } from '../../src/bus/ownership.ts';
import { LeaseOwnership } from '../../src/nats/leases/lease-ownership.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { ensureLeaseBucket } from '../../src/nats/streams.ts';
import { link } from './adapters.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const host: PartitionHost = {
  async prepare() {},
  async forget() {},
  async acquire() {},
  serve() {},
  async release() {},
  async lose() {},
};

/** Of the processor, microseconds. */
async function costOfTaking(t: Test, partitions: number): Promise<number> {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const nats = await link(servers.url, 'a');
  await ensureLeaseBucket(nats.manager, 1);
  const table = new LeaseTable(nats, new StreamPublisher(nats), (error) => {
    throw error;
  });
  await table.ready();
  const ownership = new LeaseOwnership({
    table,
    host,
    node: 'a',
    newestFormat: 1,
    partitions: { accounts: partitions, webhooks: partitions, pollers: partitions },
    onProblem: () => {},
  });
  const before = process.cpuUsage();
  await ownership.start();
  await waitFor('it has all', 120_000, () => ownership.heldCount === partitions * 3);
  const { user, system } = process.cpuUsage(before);
  await ownership.close();
  await table.close();
  await nats.close();
  return user + system;
}

t.test('four times as many cost hardly more than four times as much', async (t) => {
  await costOfTaking(t, 64);
  const few = await costOfTaking(t, 256);
  const many = await costOfTaking(t, 1_024);
  t.ok(many < few * 20, `256 partitions cost ${few} us, 1,024 cost ${many} us`);
});
