// What the cluster asks of JetStream when it makes its streams: nats-server since 2.12 refuses a request that has a field
// which it does not know, and the one that tests run on may be older and take anything. What it says of streams whose
// settings somebody has changed. And what it asks of a stream that is being made.
import { DiscardPolicy, nanos, StorageType } from 'nats';
import t from 'tap';
import { Snapshots } from '../../src/nats/snapshots/snapshots.ts';
import { joinCluster } from '../../src/nats/cluster-identity.ts';
import { StreamFaults } from '../../src/nats/stream-faults.ts';
import { ensureLeaseBucket, ensureLogStream, messageAt } from '../../src/nats/streams.ts';
import {
  CLUSTER_STREAM,
  LEASE_STREAM,
  logStream,
  logSubject,
  SNAPSHOT_STREAM,
} from '../../src/nats/subjects.ts';
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

t.test('settings of a stream that lose what it should keep are told of, once', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const said: string[] = [];
  const nats = await link(servers.url, 'ledger', { onProblem: (problem) => said.push(problem) });
  t.teardown(() => nats.close());
  const { manager } = nats;
  const faults = new StreamFaults(nats, 1);
  await ensureLeaseBucket(manager, 1);
  await ensureLogStream(manager, 'accounts', 0, 1);
  const look = async (): Promise<string[]> => {
    await faults.lookAtLeases();
    await faults.lookAtLog('accounts', 0);
    return said.splice(0);
  };
  t.strictSame(await look(), [], 'nothing of those that it made');
  await manager.streams.update(LEASE_STREAM, { max_bytes: 1_000_000 });
  await manager.streams.update(logStream('accounts', 0), {
    max_age: nanos(3_600_000),
    discard: DiscardPolicy.Old,
  });
  const limited = `${LEASE_STREAM} does not keep what it should: it has max_bytes 1000000, not -1`;
  const aged = 'DAFTARI_accounts_0 does not keep what it should: it has max_age 3600000000000, not 0';
  t.strictSame(await look(), [limited, `${aged}; discard old, not new`]);
  t.strictSame(await look(), [], 'once');
  await manager.streams.update(logStream('accounts', 0), { discard: DiscardPolicy.New });
  t.strictSame(await look(), [aged], 'what has changed');

  await manager.streams.add({
    name: logStream('accounts', 1),
    subjects: [logSubject('accounts', 1)],
    storage: StorageType.Memory,
    discard: DiscardPolicy.New,
  });
  await new StreamFaults(nats, 3).lookAtLog('accounts', 1);
  t.strictSame(said, [
    'DAFTARI_accounts_1 does not keep what it should: it has storage memory, not file; num_replicas 1, not NATS_REPLICAS=3',
  ]);
});

t.test('a message that is asked for while its stream is made leaves the server alive', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const [maker, asker] = await Promise.all(['maker', 'asker'].map((name) => link(servers.url, name)));
  t.teardown(() => Promise.all([maker!.close(), asker!.close()]));
  const name = logStream('accounts', 0);
  let isMaking = true;
  let answers = 0;
  const ask = async (): Promise<void> => {
    while (isMaking) {
      const why = await messageAt(asker!.manager, name, 1).then(String, String);
      if (/stream not found|NothingYet/.test(why)) answers++;
      else throw new Error(why);
    }
  };
  const make = async (): Promise<void> => {
    for (let round = 0; round < 200; round++) {
      await ensureLogStream(maker!.manager, 'accounts', 0, 1);
      await maker!.manager.streams.delete(name);
    }
  };
  const making = make().finally(() => {
    isMaking = false;
  });
  await Promise.all([making, ...Array.from({ length: 8 }, ask)]);
  t.ok(answers > 200, `asked ${answers} times`);
});
