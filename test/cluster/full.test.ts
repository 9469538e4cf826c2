// NATS's account has no room for a log: nothing is acknowledged, it is said why, and with room everything goes on by itself,
// although nats-server has taken out of the stream again what did not fit, and left places there that are empty; out of the bucket
// of leases it has taken with it what stood there before.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { batchesAfter } from '../../src/nats/log/stream-batches.ts';
import { batchAt, sequenceOf, type StreamPartition } from '../../src/nats/log/stream-places.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { StreamReplica } from '../../src/nats/log/stream-replica.ts';
import { ensureLeaseBucket, ensureLogStream } from '../../src/nats/streams.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import type { WriteAheadLog } from '../../wal/log.ts';
import { emptyTip } from '../../wal/batch.ts';
import { link, temporaryLog } from './adapters.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const directory = temporaryDirectory(t);
const limit = (mebibytes: number): string => `max_file: ${mebibytes}MB, max_streams: -1`;
const servers = await startNatsServers({
  directory,
  configuration: `accounts { A { jetstream: { ${limit(1)} }, users: [{ user: a, password: a }] } }`,
});
const nats = await link(servers.url.replace('//', '//a:a@'), 'ledger');
const publisher = new StreamPublisher(nats);
t.teardown(async () => {
  publisher.close();
  await nats.close();
  await servers.stop();
});

function giveRoom(mebibytes: number): void {
  const file = join(directory, 'n1', 'server.conf');
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace(/max_file: \d+MB, max_streams: -1/, limit(mebibytes)),
  );
  process.kill(servers.pids()[0]!, 'SIGHUP');
}

function newLog(): WriteAheadLog {
  const temporary = temporaryLog();
  t.teardown(() => temporary.remove());
  return temporary.log;
}

const place = { link: nats, group: 'accounts', partition: 0 } as const;
const { group, partition } = place;

async function reach(
  log: WriteAheadLog,
  of: StreamPartition = place,
): Promise<{ readonly batch: number; readonly offset: number }> {
  const follower = new LogFollower({ ...of, log });
  try {
    const { tip, offset } = await follower.reachEnd();
    return { batch: tip.batch, offset };
  } finally {
    await follower.close();
  }
}

t.test('a log goes on where its account had no room for a while', async (t) => {
  await ensureLogStream(nats.manager, group, partition, 1);
  const wal = newLog();
  const failures: Error[] = [];
  let mayWrite = true;
  const open = (epoch: number, offset: number) => {
    const to = { publisher, manager: nats.manager, group, partition, offset, mayWrite: () => mayWrite };
    const replica = new StreamReplica(to);
    const onFailure = (error: Error): void => void failures.push(error);
    const log = wal.openPartition(group, partition, { epoch, replica, onDurable: () => {}, onFailure });
    return { replica, log };
  };
  const first = open(1, 0);
  await first.log.drained();
  const large = 'x'.repeat(200 * 1024);
  const stored = async () => (await nats.manager.streams.info(logStream(group, partition))).state;
  let appended = 0;
  const isFull = (): boolean => /resource/i.test(first.replica.waiting?.why ?? '');
  while (!isFull()) {
    first.log.append(`${++appended} ${large}`);
    await Promise.race([first.log.drained(), waitFor('it is full', 60_000, isFull)]);
  }
  t.equal(first.log.durable, appended - 1, 'what has no room is not durable');
  await waitFor('an empty place is left', 60_000, async () => ((await stored()).num_deleted ?? 0) > 0);

  await t.test('whoever reads it comes to its end', async (t) => {
    t.strictSame(
      (await reach(newLog())).batch,
      first.log.tip.batch - 1,
      'by whom is not waited for what is not there',
    );
    let read = 0;
    for await (const { batch } of batchesAfter(place, emptyTip)) read = batch;
    t.equal(read, first.log.tip.batch - 1);
  });

  await t.test(
    'a stream that never had room for its first batch is told from a purged one by a person',
    async (t) => {
      const other = { ...place, partition: 1 };
      const stream = logStream(group, other.partition);
      await ensureLogStream(nats.manager, group, other.partition, 1);
      const refused = await publisher.publish(
        logSubject(group, other.partition),
        Buffer.alloc(400 * 1024),
        {},
      );
      t.equal(refused.type, 'full');
      const log = newLog();
      await t.rejects(
        reach(log, other),
        /purged empty after 1 messages \(or never had room for its first batch\)/,
      );
      // As the README says.
      await nats.manager.streams.delete(stream);
      await ensureLogStream(nats.manager, group, other.partition, 1);
      t.strictSame(await reach(log, other), { batch: 0, offset: 0 });
    },
  );

  giveRoom(100);
  await first.log.drained();
  t.strictSame(failures, []);
  t.equal(first.log.durable, appended);

  // Its writer has gone on beyond the empty places; so does the next one.
  await wal.closePartition(first.log);
  const { tip } = first.log;
  t.equal((await sequenceOf(place, tip))! > tip.batch, true);
  const { last_seq: last } = await stored();
  const empty = await batchAt(place, (await sequenceOf(place, tip))! - 1);
  t.equal(empty, null);
  await t.rejects(batchAt(place, last + 1), { name: 'NothingYet' });
  const { batch, offset } = await reach(wal);
  t.equal(batch, tip.batch);
  const second = open(2, offset);
  second.log.append('more');
  await second.log.drained();
  t.strictSame(failures, []);
  const copy = newLog();
  t.equal((await reach(copy)).batch, second.log.tip.batch);
  t.ok(copy.tip(group, partition).hash.equals(second.log.tip.hash));
  mayWrite = false;
});

t.test('a session for which there was no room is renewed as soon as there is', async (t) => {
  await ensureLeaseBucket(nats.manager, 1);
  const newTable = () => new LeaseTable(nats, publisher, (error) => t.fail(error.message));
  const [table, late] = [newTable(), newTable()];
  t.teardown(() => Promise.all([table.close(), late.close()]));
  await table.ready();
  const session = { session: 's', groups: ['accounts'], state: 'live' } as const;
  const renew = () => table.write('node.a', session, table.nodes.get('a')?.revision ?? 0);
  t.equal(await table.write('lease.accounts.0', { node: 'a', session: 's', epoch: 1 }, 0), true);
  await waitFor('there is room', 60_000, async () => (await renew()) === true);
  giveRoom(1);
  await waitFor('there is none', 60_000, async () => {
    await renew();
    return /resource/i.test(table.unanswered ?? '');
  });
  giveRoom(100);
  await late.ready();
  t.equal(late.leases.size, 1, 'who begins now waits for nothing that was taken out again');
  await waitFor('it is renewed', 60_000, async () => (await renew()) === true);
});
