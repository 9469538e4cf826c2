// Where the servers number the messages of the bucket of leases differently, no write of a node agrees with what it read. Brought about
// as it comes about with nats-server 2.9: a replica that was killed takes refused writes of its journal for stored ones.
import t from 'tap';
import type { Test } from 'tap';
import type { NatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import { ensureLeaseBucket, leadElsewhere } from '../../src/nats/streams.ts';
import { LEASE_STREAM, LEASE_SUBJECT_PREFIX } from '../../src/nats/subjects.ts';
import { startNats, type Nats } from './adapters.ts';
import { streamsOn, type StreamOn } from './streams-on.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const KEY = 'want.accounts.0';

t.test('a bucket that its servers number differently is removed and made anew by the nodes', async (t) => {
  const split = await splitBucket(t);
  if (split === null) return;
  const { servers, nats } = split;
  // While the leader is the one that counts less, whoever reads elsewhere looks for another reader, and comes to read at the leader.
  const behind = await leaderOf(servers);
  await leadElsewhere(nats, LEASE_STREAM);
  await waitFor('another leads', 60_000, async () => ![behind, undefined].includes(await leaderOf(servers)));
  await assertMended(t, split);
});

/** Two replicas count one message more than the one that led them. Null: this nats-server does not come to that. */
async function splitBucket(t: Test): Promise<Nats | null> {
  const started = await startNats(t, { count: 3 });
  const { servers, nats, publisher } = started;
  await ensureLeaseBucket(nats.manager, 3);
  const put = async (key: string, revision?: number): Promise<string> => {
    const expected = revision === undefined ? {} : { lastSubjectSequence: revision };
    const { type } = await publisher.publish(LEASE_SUBJECT_PREFIX + key, Buffer.from('{}'), expected);
    return type;
  };
  t.equal(await put('other.0', 0), 'stored');
  // Only what names no revision passes the leader's own look, and stands in the journals.
  t.equal(await put('other.0', 0), 'conflict');
  t.equal(await put('other.1'), 'stored');
  await waitFor('all have it', 60_000, async () =>
    (await lastSequences(servers)).every((last) => last === 2),
  );
  const leader = await leaderOf(servers);
  for (const follower of [0, 1, 2].filter((each) => `n${each + 1}` !== leader)) {
    await servers.kill(follower, 'SIGKILL');
    await servers.restart(follower, 'member');
    await waitFor('it knows the bucket', 60_000, async () => {
      return ((await lastSequences(servers))[follower] ?? 0) >= 2;
    });
  }
  const last = await lastSequences(servers);
  if (new Set(last).size > 1) return started;
  t.comment('this version of nats-server is sound');
  return null;
}

async function assertMended(t: Test, { servers, nats, publisher }: Nats): Promise<void> {
  const before = await nats.manager.streams.info(LEASE_STREAM);
  const problems: string[] = [];
  const tables: LeaseTable[] = [];
  const readAt = async (): Promise<Set<string | undefined>> => {
    const consumers = await nats.manager.consumers.list(LEASE_STREAM).next();
    return new Set(consumers.map(({ cluster }) => cluster?.leader));
  };
  const begin = async (remake: (() => Promise<void>) | null): Promise<void> => {
    const onProblem = (problem: string) => problems.push(problem);
    const table = new LeaseTable(nats, publisher, (error) => t.fail(error.message), onProblem, remake);
    t.teardown(() => table.close());
    tables.push(table);
    await table.ready();
  };
  // Which server one reads at is that server's draw. One that leaves it to others sees the bucket mended wherever it reads, if each
  // server is read at by one that does not.
  await waitFor('each server is read at', 120_000, async () => {
    await begin(() => ensureLeaseBucket(nats.manager, 3));
    return (await readAt()).size === 3;
  });
  await begin(null);

  const done = new Set<string>();
  let turn = 0;
  // One write a look, so that a table's own look has time to see of one message where two servers have it.
  await waitFor('each writes over what another wrote', 120_000, async () => {
    const index = turn++ % tables.length;
    const table = tables[index]!;
    const node = `n${index}`;
    const known = table.wants.get('accounts.0');
    const written = await table.write(KEY, { node, session: 's' }, known?.revision ?? 0);
    if (written === true && known !== undefined && known.value.node !== node) done.add(node);
    return done.size === tables.length;
  });
  const { created } = await nats.manager.streams.info(LEASE_STREAM);
  t.not(created, before.created, 'it was made anew');
  t.match(problems.join('\n'), /number the messages of KV_daftari_leases differently .*: it was removed/);
  await waitFor('the servers agree', 60_000, async () => new Set(await lastSequences(servers)).size === 1);
}

/** Of the bucket, by server; undefined: a server that knows none. */
async function bucketOn({ monitorUrls }: NatsServers): Promise<(StreamOn | undefined)[]> {
  return Promise.all(monitorUrls.map(async (url) => (await streamsOn(url)).get(LEASE_STREAM)));
}

async function lastSequences(servers: NatsServers): Promise<(number | undefined)[]> {
  return (await bucketOn(servers)).map((each) => each?.last);
}

async function leaderOf(servers: NatsServers): Promise<string | undefined> {
  const leaders = new Set((await bucketOn(servers)).map((each) => each?.leader));
  return leaders.size === 1 ? [...leaders][0] : undefined;
}
