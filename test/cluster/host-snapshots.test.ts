// Snapshots of the partitions that a node serves, and what a machine makes of those it finds, against a real server.
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { accountsGroup } from '../../actors/accounts/group.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { encodeRecord } from '../../src/domain/event-codec.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { Snapshots } from '../../src/nats/snapshots/snapshots.ts';
import { areStreamsLost } from '../../src/nats/log/lost-streams.ts';
import { StreamReplica } from '../../src/nats/log/stream-replica.ts';
import { ensureLogStream } from '../../src/nats/streams.ts';
import { logStream, logSubject, SNAPSHOT_BUCKET, SNAPSHOT_STREAM } from '../../src/nats/subjects.ts';
import { emptyTip, encodeBatch, tipAt } from '../../wal/batch.ts';
import type { Batch, Row, Tip } from '../../wal/types.ts';
import { opened } from '../unit/domain/scenario.ts';
import { batchAfter, forgetLast, temporaryLog } from './adapters.ts';
import { type Hosting, startHostServers, writeAccounts } from './host-driven.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const { nats, publisher, startHost } = await startHostServers(t);

const BIG = 0;
const SMALL = 1;

t.test('a snapshot that fails holds up no other', async (t) => {
  const { host, logs, storage, lines, stop } = startHost();
  t.teardown(stop);
  for (const partition of [BIG, SMALL]) {
    await host.acquire('accounts', partition, 1);
    host.serve('accounts', partition);
    const rows: Row[] = Array.from({ length: partition === BIG ? 10_000 : 1 }, (_, i) => ({
      table: 'padding',
      key: String(i),
      value: randomBytes(100).toString('hex'),
    }));
    await storage.views.commit('accounts', partition, storage.log.tip('accounts', partition), rows);
  }
  t.strictSame(
    storage.hosted().map(({ number }) => number),
    [BIG, SMALL],
    'the one that fails is the first',
  );
  const { log, views } = storage;
  const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
  const saved = (): Promise<number[]> =>
    Promise.all([BIG, SMALL].map((partition) => snapshots.batchOf('accounts', partition)));
  t.strictSame(await saved(), [0, 0]);
  const { config } = await nats.manager.streams.info(SNAPSHOT_STREAM);
  // Room for the small one only.
  await nats.manager.streams.update(SNAPSHOT_STREAM, { max_bytes: 300_000 });
  await logs.snapshots.save();
  t.strictSame(await saved(), [0, 1]);
  const told = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 'warn');
  t.hasStrict(told, [{ message: 'no snapshot was saved', group: 'accounts', partition: BIG }]);

  await nats.manager.streams.update(SNAPSHOT_STREAM, { max_bytes: config.max_bytes });
  await logs.snapshots.save();
  t.strictSame(await saved(), [1, 1], 'the next time there is room');

  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  await store.delete(`accounts.${SMALL}`);
  await logs.snapshots.save();
  t.hasStrict(await store.info(`accounts.${SMALL}`), { deleted: false }, 'and where one was removed');
  t.strictSame(await saved(), [1, 1]);
});

t.test('a snapshot is said to be saved when one was', async (t) => {
  const OPENED = 14;
  const { host, logs, storage, lines, stop } = startHost();
  t.teardown(stop);
  const said = (): number => lines.filter((line) => line.includes('snapshot saved')).length;
  await host.acquire('accounts', OPENED, 1);
  await logs.snapshots.save();
  t.equal(storage.log.tip('accounts', OPENED).batch, 1);
  t.equal(said(), 0, 'of an epoch that was opened there are no views');
});

t.test('a log that begins with a snapshot was in a stream, also where nothing is after it', async (t) => {
  const machine = temporaryLog();
  t.teardown(() => machine.remove());
  const tip = { batch: 99, sequence: 99, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) };
  await machine.log.startAt('accounts', 9, tip);
  t.equal(await areStreamsLost(nats.manager, machine.log), true);
});

t.test('the one batch that opens the first epoch may never have been in a stream', async (t) => {
  // As it is made again by whoever looks for what was lost.
  await ensureLogStream(nats.manager, 'accounts', 9, 1);
  for (const [count, isLost] of [
    [1, false],
    [2, true],
  ] as const) {
    const machine = temporaryLog();
    t.teardown(() => machine.remove());
    for (let i = 1; i <= count; i++) {
      const { bytes } = batchAfter(machine.log.tip('accounts', 9), 9, 1, `record ${i}`);
      await machine.log.appendForeign('accounts', 9, [bytes]);
    }
    t.equal(await areStreamsLost(nats.manager, machine.log), isLost, `${count} batches`);
  }
});

t.test('an empty machine does not begin with a snapshot of another log', async (t) => {
  const PLACE = { group: 'accounts', partition: 40 } as const;
  const [writer, other] = [temporaryLog(), temporaryLog()];
  t.teardown(() => Promise.all([writer.remove(), other.remove()]));
  await ensureLogStream(nats.manager, PLACE.group, PLACE.partition, 1);
  const { manager } = nats;
  const written = writer.log.openPartition(PLACE.group, PLACE.partition, {
    epoch: 1,
    replica: new StreamReplica({ publisher, manager, ...PLACE, offset: 0, mayWrite: () => true }),
    onDurable: () => {},
  });
  const accountId = makeId('account', `${encodeTime(0)}${'0'.repeat(16)}`);
  written.append(encodeRecord({ accountId, at: 1, events: [opened] } as AccountRecord));
  await written.drained();
  // Of the stream's that was lost, in whose place a shorter log was put back.
  const tip = { batch: 99, sequence: 99, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) };
  await other.log.startAt(PLACE.group, PLACE.partition, tip);
  const format = { table: 'format', key: '', value: String(accountsGroup(DEFAULT_POLICY).viewsFormat) };
  await other.views.commit(PLACE.group, PLACE.partition, tip, [format]);
  const { log, views } = other;
  const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
  t.equal(await snapshots.save(PLACE.group, PLACE.partition), tip.batch);

  const { host, storage, lines, stop } = startHost();
  t.teardown(stop);
  await host.prepare(PLACE.group, PLACE.partition);
  t.strictSame(storage.log.tip(PLACE.group, PLACE.partition).hash, written.tip.hash);
  t.equal(storage.views.position(PLACE.group, PLACE.partition)?.sequence, written.tip.sequence);
  t.ok(lines.some((line) => line.includes('the snapshot is not of this stream')));

  for (const died of ['when it had read the snapshot', 'when it had dropped its views again']) {
    await host.forget(PLACE.group, PLACE.partition);
    await storage.clear(PLACE.group, PLACE.partition);
    const own = { link: nats, log: storage.log, views: storage.views, replicas: 1 };
    await new Snapshots(own).restore(PLACE.group, PLACE.partition);
    if (died.includes('dropped')) await storage.views.drop(PLACE.group, PLACE.partition);
    await t.resolves(host.prepare(PLACE.group, PLACE.partition), `a machine that died ${died}`);
    t.strictSame(storage.log.tip(PLACE.group, PLACE.partition).hash, written.tip.hash);
  }
});

t.test('nor stays with one where there is another, of a stream that was trimmed', async (t) => {
  const PLACE = { group: 'accounts', partition: 42 } as const;
  await ensureLogStream(nats.manager, PLACE.group, PLACE.partition, 1);
  const batches: Batch[] = [];
  for (let tip = emptyTip; batches.length < 6; tip = tipAt(batches.at(-1)!)) {
    batches.push(batchAfter(tip, PLACE.partition, 1, null));
    await publisher.publish(logSubject(PLACE.group, PLACE.partition), batches.at(-1)!.bytes, {});
  }
  await nats.manager.streams.purge(logStream(PLACE.group, PLACE.partition), { seq: 4 });
  const format = { table: 'format', key: '', value: String(accountsGroup(DEFAULT_POLICY).viewsFormat) };
  const saveOf = async (tip: Tip): Promise<void> => {
    const machine = temporaryLog();
    const { log, views } = machine;
    await log.startAt(PLACE.group, PLACE.partition, tip);
    await views.commit(PLACE.group, PLACE.partition, tip, [format]);
    const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
    t.equal(await snapshots.save(PLACE.group, PLACE.partition), tip.batch);
    await machine.remove();
  };
  const { host, storage, stop } = startHost();
  t.teardown(stop);

  await saveOf({ ...tipAt(batches[3]!), hash: Buffer.alloc(32, 1) });
  await t.rejects(host.prepare(PLACE.group, PLACE.partition), { name: 'LogDiverged' });
  await t.rejects(
    host.prepare(PLACE.group, PLACE.partition),
    { name: 'LogDiverged' },
    'nor is there another yet',
  );
  await saveOf(tipAt(batches[4]!));
  await host.prepare(PLACE.group, PLACE.partition);
  t.strictSame(storage.log.tip(PLACE.group, PLACE.partition).hash, batches[5]!.hash);
});

/** Of a partition of accounts: three batches, all of them in a snapshot. */
async function ownerWithSnapshot(t: Test, partition: number): Promise<Hosting> {
  const owner = startHost({}, null, { onFenced: () => {} });
  t.teardown(owner.stop);
  await owner.host.acquire('accounts', partition, 1);
  owner.host.serve('accounts', partition);
  await writeAccounts(owner.storage, partition, 3);
  await owner.storage.catchUpViews('accounts', partition);
  await owner.logs.snapshots.save();
  return owner;
}

function startEmpty(t: Test): Hosting {
  const hosting = startHost({}, null, { directory: temporaryDirectory(t) });
  t.teardown(hosting.stop);
  return hosting;
}

t.test('but keeps one from which the stream has only lost its end', async (t) => {
  const PLACE = { group: 'accounts', partition: 43 } as const;
  const owner = await ownerWithSnapshot(t, PLACE.partition);
  const { log, views } = owner.storage;
  const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
  const end = log.tip(PLACE.group, PLACE.partition);
  t.equal(await snapshots.batchOf(PLACE.group, PLACE.partition), end.batch);

  const [empty, other] = [startEmpty(t), startEmpty(t)];
  await forgetLast(nats, PLACE.partition, 2);
  const refused = {
    name: 'LogDiverged',
    message: /the stream ends at 2, and this machine has batches up to 4: /,
  };
  for (const { host, storage } of [empty, other]) {
    await t.rejects(host.prepare(PLACE.group, PLACE.partition), refused);
    t.ok(host.isUnproven(PLACE.group, PLACE.partition), 'who can prove another log goes first');
    t.strictSame(
      storage.log.startOf(PLACE.group, PLACE.partition).hash,
      end.hash,
      'it may be all that is left',
    );
  }
  await owner.host.release(PLACE.group, PLACE.partition);
  await empty.host.prepare(PLACE.group, PLACE.partition);
  t.equal(empty.storage.log.startOf(PLACE.group, PLACE.partition).batch, end.batch, 'once it is given back');
  await empty.host.forget(PLACE.group, PLACE.partition);

  await forgetLast(nats, PLACE.partition, 2);
  const inBoth = log.tipAt(PLACE.group, PLACE.partition, 2);
  const opening = batchAfter(inBoth, PLACE.partition, 2, null);
  await publisher.publish(logSubject(PLACE.group, PLACE.partition), opening.bytes, {});
  await other.host.prepare(PLACE.group, PLACE.partition);
  t.strictSame(
    other.storage.log.tip(PLACE.group, PLACE.partition).hash,
    opening.hash,
    'where another has written since',
  );
});

t.test('who cannot begin, or make its views anew, leaves a partition to others that can', async (t) => {
  const PLACE = { group: 'accounts', partition: 44 } as const;
  await ownerWithSnapshot(t, PLACE.partition);
  const [begun, empty] = [startEmpty(t), startEmpty(t)];
  t.equal(begun.host.isEmpty(PLACE.group, PLACE.partition), true, 'it has all of the log to read');
  await begun.host.prepare(PLACE.group, PLACE.partition);
  t.equal(begun.host.isEmpty(PLACE.group, PLACE.partition), false);
  await begun.host.forget(PLACE.group, PLACE.partition);
  t.equal(begun.storage.log.startOf(PLACE.group, PLACE.partition).batch, 4);

  // A trim; and a version that has another form of views.
  await nats.manager.streams.purge(logStream(PLACE.group, PLACE.partition), { seq: 3 });
  await begun.storage.views.drop(PLACE.group, PLACE.partition);
  const refused = { name: 'LogDiverged', message: /begins with batch 3: .* must be put back/ };
  await t.rejects(begun.host.prepare(PLACE.group, PLACE.partition), refused);
  t.ok(begun.host.isUnproven(PLACE.group, PLACE.partition));

  // Of a later version.
  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  const lines = gzipSync(`${JSON.stringify({ format: 99 })}\n`);
  const meta = { name: `accounts.${PLACE.partition}`, metadata: { batch: '4', format: '99' } };
  await store.put(meta, Readable.toWeb(Readable.from([lines])) as never);
  const unknown = { name: 'LogDiverged', message: /format 99 is not known/ };
  await t.rejects(empty.host.prepare(PLACE.group, PLACE.partition), unknown);
  t.ok(empty.host.isUnproven(PLACE.group, PLACE.partition));
});

t.test(
  'a log that was left behind is let go only for a snapshot from which the stream goes on',
  async (t) => {
    const PLACE = { group: 'accounts', partition: 41 } as const;
    const { host, storage, lines, stop } = startHost();
    t.teardown(stop);
    await host.acquire(PLACE.group, PLACE.partition, 1);
    await host.release(PLACE.group, PLACE.partition);
    const own = storage.log.tip(PLACE.group, PLACE.partition);
    // Of owners since then, each of whom has but opened its epoch.
    const tips = [own];
    for (let epoch = 2; epoch <= 6; epoch++) {
      const { batch, sequence, hash } = tips.at(-1)!;
      const opening = encodeBatch({
        ...PLACE,
        batch: batch + 1,
        epoch,
        firstSequence: sequence + 1,
        records: [],
        recordsBytes: 0,
        timeMs: own.timeMs,
        previousHash: hash,
      });
      await publisher.publish(logSubject(PLACE.group, PLACE.partition), opening.bytes, {});
      tips.push(tipAt(opening));
    }
    await nats.manager.streams.purge(logStream(PLACE.group, PLACE.partition), { seq: 5 });
    const refusal = /begins with batch 5, .* ends with 1: .* must be put back from the archive/;
    const format = { table: 'format', key: '', value: String(accountsGroup(DEFAULT_POLICY).viewsFormat) };
    for (const tip of [null, ...tips.slice(2, 4)]) {
      if (tip !== null) {
        const machine = temporaryLog();
        const { log, views } = machine;
        await log.startAt(PLACE.group, PLACE.partition, tip);
        await views.commit(PLACE.group, PLACE.partition, tip, [format]);
        await new Snapshots({ link: nats, log, views, replicas: 1 }).save(PLACE.group, PLACE.partition);
        await machine.remove();
      }
      if (tip?.batch === 4) break;
      await t.rejects(host.prepare(PLACE.group, PLACE.partition), refusal);
      t.strictSame(storage.log.tip(PLACE.group, PLACE.partition), own, 'what only it may have it keeps');
    }
    await host.prepare(PLACE.group, PLACE.partition);
    t.strictSame(storage.log.tip(PLACE.group, PLACE.partition).hash, tips.at(-1)!.hash);
    t.equal(storage.log.startOf(PLACE.group, PLACE.partition).batch, 4);
    t.equal(lines.filter((line) => line.includes('the log was left behind')).length, 1);
  },
);
