// What is fixed when a cluster is created: whoever comes later agrees or is refused, and of those who come first at once one
// decides. An account's partition would otherwise differ by who is asked.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startNode } from '../../deploy/cluster-processes.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { firstFormatOf, joinCluster, noteClusterKey } from '../../src/nats/cluster-identity.ts';
import { ensureLeaseBucket } from '../../src/nats/streams.ts';
import { CLUSTER_BUCKET, CLUSTER_STREAM, LEASE_SUBJECT_PREFIX } from '../../src/nats/subjects.ts';
import { WriteFormat } from '../../src/nats/write-format.ts';
import { link, made } from './adapters.ts';
import { Cluster, TOGETHER } from './cluster.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

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

t.test('another master key is refused, unless the cluster was made before its key was noted', async (t) => {
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
  const directory = temporaryDirectory(t);
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
  });
  const [ledger, front] = nodes.map(
    ({ logFile }) =>
      (): string =>
        readFileSync(logFile, 'utf8'),
  );
  // Three replicas unless it is told otherwise, and there is one server.
  const words =
    /"problem":"not in the cluster yet: replicas > 1 not supported in non-clustered mode: NATS_REPLICAS /;
  await waitFor('the ledger says what it waits for', 30_000, () => words.test(ledger!()));
  const waiting = /"problem":"not in the cluster yet: /;
  await waitFor('the front says that it waits', 30_000, () => waiting.test(front!()));
  t.equal(ledger!().match(/not in the cluster yet/g)?.length, 1, 'once');
});

t.test(
  'the key of a cluster that does not say it is noted once, and ends nodes that have another',
  async (t) => {
    await nats.manager.streams.delete(CLUSTER_STREAM);
    const first = { ...made(4), isKeyUnproven: true };
    const identity = await joinCluster(nats, first, 1, 1);
    t.strictSame(
      await stored(),
      { format: 1, partitions: 4, firstFormat: 1 },
      'nor is what may be wrong noted',
    );

    const errors: Error[] = [];
    const [own, other] = [made(4).masterKey, 'fedcba9876543210'];
    const follow = (masterKey: string): Promise<WriteFormat> => {
      const onError = (error: Error): void => void errors.push(error);
      return WriteFormat.follow({
        link: nats,
        identity,
        formats: RECORD_FORMATS,
        masterKey,
        onRaised: () => {},
        onError,
      });
    };
    const [right, wrong] = await Promise.all([follow(own), follow(other)]);
    t.teardown(() => Promise.all([right.close(), wrong.close()]));
    t.strictSame([right.isMasterKeyNoted, wrong.isMasterKeyNoted], [false, false]);
    await Promise.all([noteClusterKey(nats, own), noteClusterKey(nats, own)]);
    await noteClusterKey(nats, other);
    t.strictSame(await stored(), { format: 1, firstFormat: 1, ...made(4) });
    await waitFor('both hear of it', 10_000, () => right.isMasterKeyNoted && errors.length > 0);
    t.match(errors, [{ name: 'ClusterIdentityError', message: /MASTER_KEY is not the one of the cluster/ }]);
  },
);

t.test('the key of a cluster that does not say it is that which opens what was sealed', async (t) => {
  const shape = { natsServers: 1, fronts: 1, ledgers: 0, webhooks: 0, pollers: 0, together: 1 } as const;
  const cluster = await Cluster.start(shape, 2);
  t.teardown(() => cluster.stop());
  const link1 = await link(cluster.nats.url, 'test');
  t.teardown(() => link1.close());
  const bucket = await link1.connection.jetstream().views.kv(CLUSTER_BUCKET);
  const identity = async () => (await bucket.get('identity'))!.json<Record<string, unknown>>();
  const node = cluster.node('node1');
  const file = join(node.dataDir, 'daftari.json');
  const kept = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const { masterKey } = await identity();
  t.equal(kept['masterKey'], masterKey, 'noted where it was begun');

  // As they were made before keys were noted.
  for (const each of cluster.running) each.signal('SIGTERM');
  await Promise.all(cluster.nodes.map((each) => each.exited()));
  const forget = async (): Promise<void> => {
    await bucket.put('identity', JSON.stringify({ ...(await identity()), masterKey: undefined }));
    writeFileSync(file, JSON.stringify({ ...kept, masterKey: undefined }));
  };
  await forget();
  const other = { MASTER_KEY: 'ab'.repeat(32), LOG_LEVEL: 'info' };
  const wrong = await cluster.add('node1', TOGETHER, other);
  t.equal(await wrong.exited(), 1);
  const said = readFileSync(wrong.logFile, 'utf8');
  t.match(said, /MASTER_KEY is not the key that the secrets of the cluster.*"message":"stopping"}/);
  t.equal((await identity())['masterKey'], undefined);
  t.equal(JSON.parse(readFileSync(file, 'utf8')).masterKey, undefined);

  // It has nothing that could prove its key.
  const front = await cluster.add('front2', 'front', other);
  const right = await cluster.add('node1', TOGETHER);
  await waitFor('it is noted', 60_000, async () => (await identity())['masterKey'] === masterKey);
  t.equal(await front.exited(), 1, 'a front that has another ends, too');
  t.match(
    readFileSync(front.logFile, 'utf8'),
    /MASTER_KEY is not the one of the cluster.*"message":"stopping"}/,
  );
  right.signal('SIGTERM');
  await right.exited();
  const late = await cluster.add('node1', TOGETHER, other);
  t.equal(await late.exited(), 2, 'nor does another join from now on');

  // With NATS's storage lost a node creates the cluster anew: what it says must not be wrong for ever.
  writeFileSync(file, JSON.stringify(kept));
  await bucket.destroy();
  const first = await cluster.add('node1', TOGETHER, other);
  t.equal(await first.exited(), 2);
  t.match(readFileSync(first.logFile, 'utf8'), /is not the key that the secrets in .* are sealed with/);
  await t.rejects(link1.manager.streams.info(CLUSTER_STREAM), /not found/, 'nothing was created');
});
