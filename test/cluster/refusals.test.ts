// What JetStream will not let a node read is asked for again, and the log says why: a limit of an account and a stream that is
// gone are mended by a person alone.
import { AckPolicy } from 'nats';
import t from 'tap';
import type { Test } from 'tap';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import { StreamFeed } from '../../src/nats/log/stream-feed.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { LIMITS } from '../../src/limits.ts';
import { ensureLeaseBucket, ensureLogStream } from '../../src/nats/streams.ts';
import { LEASE_STREAM, logStream, logSubject } from '../../src/nats/subjects.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import type { Tip } from '../../wal/types.ts';
import { batchAfter, link, longer } from './adapters.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const ONE_CONSUMER = `accounts { A { jetstream { max_consumers: 1 }, users: [{ user: a, password: b }] } }
no_auth_user: a`;

async function start(t: Test, problems: string[], configuration = ONE_CONSUMER): Promise<NatsLink> {
  const servers = await startNatsServers({ configuration });
  t.teardown(() => servers.stop());
  const nats = await link(servers.url, 'ledger', { onProblem: (problem) => problems.push(problem) });
  t.teardown(() => nats.close());
  return nats;
}

function fail(error: Error): never {
  throw error;
}

t.test('a node that may not read the leases says why, and joins when it may', async (t) => {
  const problems: string[] = [];
  const nats = await start(t, problems);
  await ensureLeaseBucket(nats.manager, 1);
  const publisher = new StreamPublisher(nats);
  t.teardown(() => publisher.close());
  const { consumers } = nats.manager;
  const { name } = await consumers.add(LEASE_STREAM, { ack_policy: AckPolicy.None });
  const asked: string[] = [];
  nats.connection.subscribe('$JS.API.CONSUMER.CREATE.>', {
    callback: (_, { subject }) => asked.push(subject),
  });

  const table = new LeaseTable(nats, publisher, fail);
  t.teardown(() => table.close());
  const session = { session: 's', groups: [], state: 'live' } as const;
  t.equal(await table.write('node.front', session, 0), true);
  await waitFor('it is asked again', 20_000, () => asked.length >= 3);
  t.strictSame(problems, [`${LEASE_STREAM} cannot be read: maximum consumers limit reached`], 'once');
  await consumers.delete(LEASE_STREAM, name);
  await table.ready();
  t.equal(problems.length, 1);
});

t.test('a feed whose stream is gone says so', async (t) => {
  const problems: string[] = [];
  const nats = await start(t, problems);
  const feed = new StreamFeed({ link: nats, epochOf: () => 0, decode: (_, line) => line, onError: fail });
  for (const after of [0, 5]) {
    const subscription = feed.subscribe('accounts', after, after, () => {});
    t.teardown(() => subscription.close());
  }
  const said = (after: number): string => `DAFTARI_accounts_${after} cannot be read: stream not found`;
  await waitFor('both say so', 20_000, () => problems.length >= 2);
  t.strictSame(problems.toSorted(), [said(0), said(5)]);
});

/** Publishes so many batches, and resolves with the last. */
type Write = (after: Tip, epoch: number, count: number) => Promise<Tip>;

/** Feeds of a stream of five batches, which they have read: one from its beginning, one that was begun where it ended. */
async function startFeeds(t: Test) {
  const nats = await start(t, [], '');
  const publisher = new StreamPublisher(nats);
  t.teardown(() => publisher.close());
  const write: Write = async (after, epoch, count) => {
    let tip = after;
    for (let i = 0; i < count; i++) {
      const batch = batchAfter(tip, 0, epoch, `record ${tip.batch} of ${epoch}`);
      await publisher.publish(logSubject('accounts', 0), batch.bytes, {});
      tip = tipAt(batch);
    }
    return tip;
  };
  await ensureLogStream(nats.manager, 'accounts', 0, 1);
  const most = await write(emptyTip, 1, 4);
  const errors: string[] = [];
  const read: number[] = [];
  const onError = ({ message }: Error): void => void errors.push(message);
  const feed = new StreamFeed({ link: nats, epochOf: () => 0, decode: (_, line) => line, onError });
  for (const after of [0, most.sequence]) {
    const subscription = feed.subscribe('accounts', 0, after, ({ firstSequence }) => {
      read.push(firstSequence);
    });
    t.teardown(() => subscription.close());
  }
  await waitFor('both read', 20_000, async () => {
    const consumers = await nats.manager.consumers.list(logStream('accounts', 0)).next();
    return read.length === 4 && consumers.length === 2;
  });
  const end = await write(most, 1, 1);
  await waitFor('all is read', 20_000, () => read.length === 6);
  return { nats, write, end, errors, read };
}

const GOES_ON_ELSEWHERE = 'accounts/0: the stream does not continue batch 5, which was read last';

for (const [what, since] of [
  ['soon', 1],
  ['and goes on', 2],
  ['and writes on beyond what was read', 4],
] as const) {
  t.test(`a feed ends of whose stream NATS has forgotten the end, and another writes, ${what}`, async (t) => {
    const { nats, write, errors, read } = await startFeeds(t);
    await nats.manager.streams.delete(logStream('accounts', 0));
    await ensureLogStream(nats.manager, 'accounts', 0, 1);
    await write(await write(emptyTip, 1, 3), 2, since);
    await waitFor('it is told', 20_000, () => errors.length === 2);
    t.strictSame(errors, [GOES_ON_ELSEWHERE, GOES_ON_ELSEWHERE]);
    t.equal(read.length, 6);
  });
}

t.test('and goes on where it is given back', async (t) => {
  const { nats, write, end, errors, read } = await startFeeds(t);
  await nats.manager.streams.delete(logStream('accounts', 0));
  await ensureLogStream(nats.manager, 'accounts', 0, 1);
  const forgotten = await write(emptyTip, 1, 3);
  await waitFor('both read on', 20_000, async () => {
    const consumers = await nats.manager.consumers.list(logStream('accounts', 0)).next();
    return consumers.length >= 2;
  });
  t.strictSame(await write(forgotten, 1, 2), end);
  await write(end, 2, 1);
  await waitFor('both hear of what is new', 20_000, () => read.length === 8);
  t.strictSame([read.slice(6), errors], [[6, 6], []]);
});

t.test(
  'also where a leader with less is asked what stands there, after one that has all of it',
  async (t) => {
    const { nats, write, end, errors, read } = await startFeeds(t);
    const { streams } = nats.manager;
    const [info, getMessage] = [streams.info.bind(streams), streams.getMessage.bind(streams)];
    const isAsked = Promise.withResolvers<void>();
    let isShortLed = false;
    streams.info = async (...what) => {
      const told = await info(...what);
      return isShortLed ? told : longer(told, end.batch - told.state.last_seq);
    };
    streams.getMessage = (...what) => {
      isShortLed = true;
      isAsked.resolve();
      return getMessage(...what);
    };
    await nats.manager.streams.delete(logStream('accounts', 0));
    await ensureLogStream(nats.manager, 'accounts', 0, 1);
    const forgotten = await write(emptyTip, 1, 3);
    await isAsked.promise;
    await write(await write(forgotten, 1, 2), 1, 1);
    await waitFor('both hear of what is new', 20_000, () => read.length === 8);
    t.strictSame([read.slice(6), errors], [[6, 6], []]);
  },
);

t.test('nor is read again what came while it was asked how far the stream goes', async (t) => {
  const { nats, write, end, errors, read } = await startFeeds(t);
  const { streams, consumers } = nats.manager;
  const info = streams.info.bind(streams);
  let tip = end;
  let asked = 0;
  streams.info = async (...what) => {
    const told = await info(...what);
    const heard = read.length;
    tip = await write(tip, 1, 1);
    await waitFor('both hear of it', 20_000, () => read.length >= heard + 2);
    asked++;
    return told;
  };
  const begun = t.capture(consumers, 'add', consumers.add.bind(consumers));
  const [one] = await consumers.list(logStream('accounts', 0)).next();
  await consumers.delete(logStream('accounts', 0), one!.name);
  await waitFor('the stream has what was read last', 20_000, () => asked === 3);
  t.equal(begun().length, 1, 'it was begun anew once');
  t.strictSame(errors, []);
});

t.test('a feed of which nobody can say whether its stream goes on waits for few', async (t) => {
  const { nats, write, end, errors } = await startFeeds(t);
  let asked = 0;
  nats.manager.streams.getMessage = async () => {
    asked++;
    throw new Error('TIMEOUT');
  };
  const other = await write({ ...end, hash: Buffer.alloc(32, 7) }, 2, LIMITS.streamWarmUpMessages);
  await waitFor('nobody can say of any', 20_000, () => asked === LIMITS.streamWarmUpMessages * 2);
  t.strictSame(errors, []);
  await write(other, 2, 1);
  await waitFor('it is told', 20_000, () => errors.length === 2);
  t.strictSame(errors, [GOES_ON_ELSEWHERE, GOES_ON_ELSEWHERE]);
});
