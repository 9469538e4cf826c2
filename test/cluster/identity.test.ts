// What is fixed when a cluster is created: whoever comes later agrees or is refused, and of those who come first at once one
// decides. An account's partition would otherwise differ by who is asked.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { startNode } from '../../deploy/cluster-processes.ts';
import { startNatsServers, waitFor } from '../../deploy/nats-servers.ts';
import { firstFormatOf, joinCluster } from '../../src/nats/cluster-identity.ts';
import { ensureLeaseBucket } from '../../src/nats/streams.ts';
import { CLUSTER_BUCKET, CLUSTER_STREAM, LEASE_SUBJECT_PREFIX } from '../../src/nats/subjects.ts';
import { link, made } from './adapters.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const servers = await startNatsServers();
const nats = await link(servers.url, 'node');
t.teardown(async () => {
  await nats.close();
  await servers.stop();
});

async function stored(): Promise<unknown> {
  const { data } = await nats.manager.streams.getMessage(CLUSTER_STREAM, {
    last_by_subj: `$KV.${CLUSTER_BUCKET}.identity`,
  });
  return JSON.parse(Buffer.from(data).toString());
}

async function storedAs(identity: unknown): Promise<void> {
  const bucket = await nats.connection.jetstream().views.kv(CLUSTER_BUCKET);
  await bucket.put('identity', JSON.stringify(identity));
}

t.test('a front waits until a node has created the cluster and joined it', async (t) => {
  const fronts = [joinCluster(nats, made(4), null, 1), joinCluster(nats, made(5), null, 1)];
  const results = Promise.allSettled(fronts);
  await joinCluster(nats, made(4), 1, 1);
  await ensureLeaseBucket(nats.manager, 1);
  await nats.connection.jetstream().publish(`${LEASE_SUBJECT_PREFIX}node.a`, '{}');
  t.match(await results, [
    { status: 'fulfilled' },
    { status: 'rejected', reason: { message: /created with PARTITIONS=4 and cannot be joined with 5/ } },
  ]);
});

t.test('another number of partitions is refused, and changes nothing', async (t) => {
  const before = await stored();
  t.strictSame(before, { format: 1, firstFormat: 1, ...made(4) });
  await joinCluster(nats, made(4), 1, 1);
  await t.rejects(joinCluster(nats, made(8), 1, 2), {
    message: /PARTITIONS=4 and cannot be joined with 8.*Set PARTITIONS=4\./,
  });
  await t.rejects(joinCluster(nats, made(2), 1, 2), /cannot be joined with 2/);
  await joinCluster(nats, made(4), 1, 2);
  t.strictSame(await stored(), before, 'nor is its first format that of a node that came later');
  t.equal(await firstFormatOf(nats), 1);
});

t.test('another master key is refused; a cluster that was made before it was noted takes any', async (t) => {
  const other = { partitions: 4, masterKey: 'fedcba9876543210' };
  for (const replicas of [1, null]) {
    await t.rejects(joinCluster(nats, other, replicas, 1), /MASTER_KEY is not the one of the cluster/);
  }
  const before = await stored();
  await storedAs({ format: 1, partitions: 4, firstFormat: 1 });
  await joinCluster(nats, other, 1, 1);
  await storedAs(before);
});

t.test(
  'of nodes that begin together with other numbers one decides, and the others are refused',
  async (t) => {
    for (let round = 0; round < 5; round++) {
      await nats.manager.streams.delete(CLUSTER_STREAM);
      const numbers = [4, 8, 16];
      const results = await Promise.allSettled(
        numbers.map((number) => joinCluster(nats, made(number), 1, 1)),
      );
      const { partitions } = (await stored()) as { partitions: number };
      t.strictSame(
        results.map(({ status }) => status),
        numbers.map((number) => (number === partitions ? 'fulfilled' : 'rejected')),
      );
    }
  },
);

t.test('a cluster of before there were two formats of records has the first', async (t) => {
  await storedAs({ format: 1, partitions: 4 });
  await joinCluster(nats, made(4), 1, 3);
  t.equal(await firstFormatOf(nats), 1);
});

t.test('a cluster of a later format is not joined', async (t) => {
  await storedAs({ format: 2, partitions: 4, firstFormat: 1 });
  for (const replicas of [1, null]) {
    await t.rejects(joinCluster(nats, made(4), replicas, 1), /has format 2; this version reads format 1/);
  }
});

t.test('a server that is away for a moment is asked again', async (t) => {
  await storedAs({ format: 1, partitions: 4, firstFormat: 1 });
  await servers.kill(0, 'SIGKILL');
  const joining = joinCluster(nats, made(4), 1, 1);
  await servers.restart(0);
  await t.resolves(joining);
});

t.test('a node that cannot join yet says why while it waits', async (t) => {
  const single = await startNatsServers();
  const directory = mkdtempSync(join(tmpdir(), 'daftari-identity-'));
  const secrets = { operatorToken: 'an-operator-token', masterKey: '5e'.repeat(32) };
  const settings = { natsUrl: single.url, directory, ...secrets };
  const nodes = await Promise.all([
    startNode(settings, 'ledger1', 'ledger'),
    startNode(settings, 'front1', 'front'),
  ]);
  t.teardown(async () => {
    for (const node of nodes) node.signal('SIGKILL');
    await Promise.all(nodes.map((node) => node.exited()));
    await single.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  const [ledger, front] = nodes.map(
    ({ logFile }) =>
      (): string =>
        readFileSync(logFile, 'utf8'),
  );
  // Three replicas unless it is told otherwise, and there is one server.
  const words = /"problem":"not in the cluster yet: replicas > 1 not supported in non-clustered mode"/;
  await waitFor('the ledger says what it waits for', 30_000, () => words.test(ledger!()));
  const waiting = /"problem":"not in the cluster yet: /;
  await waitFor('the front says that it waits', 30_000, () => waiting.test(front!()));
  t.equal(ledger!().match(/not in the cluster yet/g)?.length, 1, 'once');
});
