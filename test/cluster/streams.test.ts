// What the cluster asks of JetStream when it makes its streams: nats-server since 2.12 refuses a request that has a field
// which it does not know, and the one that tests run on may be older and take anything. And what it says of streams whose
// settings somebody has changed.
import { DiscardPolicy, nanos } from 'nats';
import t from 'tap';
import { Snapshots } from '../../src/nats/snapshots.ts';
import { joinCluster } from '../../src/nats/cluster-identity.ts';
import { ensureLeaseBucket, ensureLogStream } from '../../src/nats/streams.ts';
import { CLUSTER_STREAM, LEASE_STREAM, logStream, SNAPSHOT_STREAM } from '../../src/nats/subjects.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { link, made, temporaryLog } from './adapters.ts';
import { needs } from '../needs.ts';

needs('nats-server');

/** StreamConfig of nats-server 2.9 (server/stream.go), the oldest that is served. */
const KNOWN = new Set(
  (
    'name description subjects retention max_consumers max_msgs max_bytes max_age max_msgs_per_subject max_msg_size ' +
    'discard discard_new_per_subject storage num_replicas no_ack template_owner duplicate_window placement mirror ' +
    'sources sealed deny_delete deny_purge allow_rollup_hdrs allow_direct mirror_direct republish'
  ).split(' '),
);

t.test('no request for a stream has a field that nats-server does not know', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const nats = await link(servers.url, 'ledger');
  t.teardown(() => nats.close());
  const machine = temporaryLog();
  t.teardown(() => machine.remove());

  const asked = new Map<string, string[]>();
  const requests = nats.connection.subscribe('$JS.API.STREAM.CREATE.*', {
    callback: (error, message) => {
      if (error !== null) throw error;
      const unknown = Object.keys(message.json<object>()).filter((field) => !KNOWN.has(field));
      asked.set(message.subject.split('.').at(-1)!, unknown);
    },
  });
  await joinCluster(nats, made(16), 1, 1);
  await ensureLeaseBucket(nats.manager, 1);
  await ensureLogStream(nats.manager, 'accounts', 0, 1);
  const { log, views } = machine;
  t.equal(await new Snapshots({ link: nats, log, views, replicas: 1 }).save('accounts', 0), 0);
  await requests.drain();

  const streams = [CLUSTER_STREAM, LEASE_STREAM, logStream('accounts', 0), SNAPSHOT_STREAM];
  t.strictSame(
    Object.fromEntries(asked),
    Object.fromEntries(streams.map((name) => [name, [] as readonly string[]])),
  );
});

t.test('a stream that somebody has limited is told of: nats-server drops what does not fit', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const nats = await link(servers.url, 'ledger');
  t.teardown(() => nats.close());
  const { manager } = nats;
  const said: string[] = [];
  const begin = async (): Promise<void> => {
    await ensureLeaseBucket(manager, 1, (problem) => said.push(problem));
    await ensureLogStream(manager, 'accounts', 0, 1, (problem) => said.push(problem));
  };
  await begin();
  await begin();
  t.strictSame(said, [], 'nothing of those that it made');
  await manager.streams.update(LEASE_STREAM, { max_bytes: 1_000_000 });
  await manager.streams.update(logStream('accounts', 0), {
    max_age: nanos(3_600_000),
    discard: DiscardPolicy.Old,
  });
  await begin();
  t.strictSame(said, [
    `${LEASE_STREAM} drops what is still needed: it has max_bytes 1000000, not -1`,
    'DAFTARI_accounts_0 drops what is still needed: it has max_age 3600000000000, not 0; discard old, not new',
  ]);
});
