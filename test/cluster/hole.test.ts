// One server's copy of a partition's stream lacks something in its middle, for good. Whoever reads there has all of the log all the same:
// what follows a hole would be taken for leftovers, and the log be written on from before it.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import type { FeedBatch } from '../../src/bus/feed.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { batchesAfter } from '../../src/nats/log/stream-batches.ts';
import { StreamFeed } from '../../src/nats/log/stream-feed.ts';
import { StreamReplica } from '../../src/nats/log/stream-replica.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { StreamReader } from '../../src/nats/stream-reader.ts';
import { leadElsewhere } from '../../src/nats/streams.ts';
import { logStream } from '../../src/nats/subjects.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import type { Batch } from '../../wal/types.ts';
import { batchAfter, temporaryLog } from './adapters.ts';
import { leaderOf, publish, putCopies, startThree } from './copy-of-one.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const EPOCH = 1;
/** So many that each server is read at by one, but for one time in 50. */
const READERS = 12;
/** So large that nats-server has them in two files. */
const LARGE = 'x'.repeat(700 * 1024);

function batches(partition: number, count: number, record: string): Batch[] {
  const made: Batch[] = [];
  for (let n = 0; n < count; n++) {
    const previous = made.at(-1);
    const tip = previous === undefined ? emptyTip : tipAt(previous);
    made.push(batchAfter(tip, partition, EPOCH, `${record} ${n + 1}`));
  }
  return made;
}

const holed = { partition: 0, batches: batches(0, 9, 'record'), lacks: [5, 6] };
const ended = { partition: 3, batches: batches(3, 9, 'record'), lacks: [8, 9] };
const unsure = { partition: 4, batches: batches(4, 9, 'record'), lacks: [8, 9] };
const cut = { partition: 2, batches: batches(2, 9, 'record'), lacks: [8, 9] };
const torn = { partition: 1, batches: batches(1, 15, LARGE) };

const copies = [holed, ended, unsure, cut, torn];
const three = await startThree(
  t,
  copies.map(({ partition, batches: log }) => ({ partition, log })),
);
const { directory, nats, problems } = three;
await putCopies(t, three, copies);
// It has read what files there are, and nothing of them yet.
const ofTorn = join(directory, 'n3', 'jetstream', '$G', 'streams', logStream('accounts', torn.partition));
rmSync(join(ofTorn, 'msgs', '1.blk'));

/** Whoever begins to read next does so at that server. */
function beginAtThird(t: Test): void {
  const { consumers } = nats.manager;
  const add = consumers.add.bind(consumers);
  t.teardown(() => void (consumers.add = add));
  consumers.add = async (stream, config) => {
    for (;;) {
      const info = await add(stream, config);
      if (info.cluster?.leader !== 'n3') continue;
      consumers.add = add;
      return info;
    }
  };
  problems.length = 0;
}

function assertTold(t: Test, { partition }: { readonly partition: number }, what: RegExp): void {
  const said = problems.join('\n');
  t.match(said, new RegExp(`^${logStream('accounts', partition)} has ${what.source} on its leader, .* n3: `));
}

async function untilThirdLeads(partition: number): Promise<void> {
  await waitFor('it leads', 60_000, async () => {
    if ((await leaderOf(nats, partition)) === 'n3') return true;
    await leadElsewhere(nats, logStream('accounts', partition));
    return false;
  });
}

function subscribe(t: Test, { partition }: { readonly partition: number }, epoch: number) {
  const lines: string[] = [];
  const feed = new StreamFeed({
    link: nats,
    decode: (_, line) => line,
    epochOf: () => epoch,
    onError: (error) => void t.fail(error.message),
  });
  const subscription = feed.subscribe('accounts', partition, 0, (batch: FeedBatch<string>) => {
    lines.push(...batch.records);
  });
  t.teardown(() => subscription.close());
  return { lines };
}

function next({ partition, batches: log }: typeof torn, epoch: number): Batch {
  return batchAfter(tipAt(log.at(-1)!), partition, epoch, 'one more');
}

t.test('a feed hands over all records', async (t) => {
  beginAtThird(t);
  const { lines } = subscribe(t, holed, EPOCH);
  await waitFor('all records came', 30_000, () => lines.length >= holed.batches.length);
  t.strictSame(
    lines,
    holed.batches.flatMap(({ records }) => records),
  );
  assertTold(t, holed, /5 to 6/);
});

t.test('a feed does not end where that server leads, of which it had read what is lost there', async (t) => {
  const { partition } = ended;
  await untilThirdLeads(partition);
  const { lines } = subscribe(t, ended, EPOCH);
  await waitFor('all records came', 60_000, () => lines.length >= ended.batches.length);
  let asked = 0;
  const { streams, consumers } = nats.manager;
  const getMessage = streams.getMessage.bind(streams);
  t.teardown(() => void (streams.getMessage = getMessage));
  streams.getMessage = (...what) => {
    asked++;
    return getMessage(...what);
  };
  const name = logStream('accounts', partition);
  for (const consumer of await consumers.list(name).next()) await consumers.delete(name, consumer.name);
  await waitFor('it has read on, and asked what stands at its end', 60_000, () => asked > 1);
  await publish(nats, [next(ended, EPOCH)]);
  await waitFor('and hears of more', 60_000, () => lines.length > ended.batches.length);
});

t.test('nor does it read elsewhere, again and again, what a replaced writer sent last', async (t) => {
  const { partition } = unsure;
  await untilThirdLeads(partition);
  const { streams } = nats.manager;
  const getMessage = streams.getMessage.bind(streams);
  t.teardown(() => void (streams.getMessage = getMessage));
  let isAnswered = false;
  streams.getMessage = async (...what) => {
    const message = getMessage(...what);
    await message.then(
      () => {},
      () => (isAnswered = true),
    );
    return message;
  };
  problems.length = 0;
  const { lines } = subscribe(t, unsure, EPOCH + 1);
  await waitFor('it has asked of the end', 60_000, () => isAnswered);
  await publish(nats, [next(unsure, EPOCH + 1)]);
  await waitFor('all records came', 60_000, () => lines.length > unsure.batches.length);
  t.notMatch(problems.join(), /another batch/);
});

t.test('who takes the partition over ends with all of its log', async (t) => {
  beginAtThird(t);
  const temporary = temporaryLog();
  const follower = new LogFollower({
    link: nats,
    log: temporary.log,
    group: 'accounts',
    partition: holed.partition,
  });
  t.teardown(async () => {
    await follower.close();
    await temporary.remove();
  });
  t.strictSame(await follower.reachEnd(), { tip: tipAt(holed.batches.at(-1)!), offset: 0 });
  assertTold(t, holed, /5 to 6/);
});

t.test('who reads it once has all of it', async (t) => {
  beginAtThird(t);
  const read: Batch[] = [];
  const place = { link: nats, group: 'accounts', partition: holed.partition } as const;
  for await (const batch of batchesAfter(place, emptyTip)) read.push(batch);
  t.strictSame(read, holed.batches);
});

/** Who reads of a partition, at that server first. Resolves when all of these came. */
async function assertAllCome(t: Test, { partition, batches: log }: typeof torn): Promise<void> {
  beginAtThird(t);
  const sequences: number[] = [];
  const reader = new StreamReader({
    link: nats,
    stream: logStream('accounts', partition),
    from: 1,
    heartbeatMs: 500,
    onMessage: ({ sequence }) => void sequences.push(sequence),
    onError: (error) => t.fail(error.message),
  });
  t.teardown(() => reader.close());
  await waitFor('all came', 60_000, () => sequences.length >= log.length);
  t.strictSame(
    sequences,
    log.map((_, n) => n + 1),
  );
}

t.test('who waits for more hears of the end that it lost, also while it leads', async (t) => {
  await untilThirdLeads(cut.partition);
  await assertAllCome(t, cut);
  assertTold(t, cut, /8 to 9/);
});

t.test('nor does that server mislead who takes the partition over when it leads', async (t) => {
  const { partition } = cut;
  const place = { link: nats, group: 'accounts', partition } as const;
  await untilThirdLeads(partition);
  beginAtThird(t);
  const temporary = temporaryLog();
  const follower = new LogFollower({ log: temporary.log, ...place });
  const publisher = new StreamPublisher(nats);
  t.teardown(async () => {
    publisher.close();
    await follower.close();
    await temporary.remove();
  });
  const replica = (offset: number): StreamReplica =>
    new StreamReplica({ ...place, publisher, manager: nats.manager, offset, mayWrite: () => true });
  const { tip, offset } = await follower.reachEnd(async (lacking, to) => {
    for (const batch of lacking) await replica(to).publish(batch);
  });
  t.strictSame(tip, tipAt(cut.batches.at(-1)!));
  const more = batchAfter(tip, partition, EPOCH + 1, 'one more');
  await replica(offset).publish(more);
  for (let count = 0; count < READERS; count++) {
    const read: Batch[] = [];
    for await (const batch of batchesAfter(place, emptyTip)) read.push(batch);
    t.strictSame(read, [...cut.batches, more], 'all have what was written then');
  }
});

t.test('what no server has is passed over', async (t) => {
  const [stream, subject] = ['emptied', 'emptied.x'];
  await nats.manager.streams.add({ name: stream, subjects: [subject], num_replicas: 3 });
  for (let n = 0; n < 4; n++) await nats.connection.jetstream().publish(subject);
  for (const sequence of [2, 3]) await nats.manager.streams.deleteMessage(stream, sequence);
  const sequences: number[] = [];
  const reader = new StreamReader({
    link: nats,
    stream,
    from: 1,
    onMessage: ({ sequence }) => void sequences.push(sequence),
    onError: (error) => t.fail(error.message),
  });
  t.teardown(() => reader.close());
  await waitFor('what follows came', 30_000, () => sequences.includes(4));
});

t.test('who waits for what a server says that it has, and does not send, reads at another', async (t) => {
  await assertAllCome(t, torn);
  assertTold(t, torn, /1 to 15/);
});
