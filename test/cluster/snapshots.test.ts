// Snapshots: an empty machine gets a partition's views and goes on from there; a damaged one restores nothing.
import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import { readHistory } from '../../src/nats/log/log-history.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { chunksOf } from '../../src/nats/snapshots/snapshot-chunks.ts';
import { Snapshots } from '../../src/nats/snapshots/snapshots.ts';
import { ensureLogStream } from '../../src/nats/streams.ts';
import { SNAPSHOT_BUCKET, SNAPSHOT_STREAM } from '../../src/nats/subjects.ts';
import { LIMITS } from '../../src/limits.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import { openViewsDatabase } from '../../wal/lmdb.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import type { Batch, Row } from '../../wal/types.ts';
import { batchAfter, startNats, temporaryLog } from './adapters.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const { nats, replica } = await startNats(t);
await ensureLogStream(nats.manager, 'accounts', 0, 1);

const full = temporaryLog();
const empty = temporaryLog();
t.teardown(() => Promise.all([full.remove(), empty.remove()]));
const at = (machine: typeof full): Snapshots =>
  new Snapshots({ link: nats, log: machine.log, views: machine.views, replicas: 1 });

t.test('an empty machine starts from a snapshot and the tail', async (t) => {
  const partition = full.log.openPartition('accounts', 0, {
    epoch: 1,
    replica: replica(0),
    onDurable: () => {},
  });
  partition.append('early');
  await partition.drained();
  const tip = partition.tip;
  const rows: Row[] = Array.from({ length: 30_000 }, (_, i) => ({
    table: i % 2 === 0 ? 'accounts' : 'by_reference',
    key: `key/${String(i).padStart(6, '0')}`,
    value: JSON.stringify({ i, text: 'é\n'.repeat(i % 7) }),
  }));
  await full.views.commit('accounts', 0, tip, rows);
  t.equal(await at(full).save('accounts', 0), tip.batch);
  t.equal(await at(empty).batchOf('accounts', 0), tip.batch);
  partition.append('late');
  await partition.drained();

  t.strictSame((await at(empty).restore('accounts', 0))?.hash, tip.hash);
  t.strictSame([...empty.views.rows('accounts', 0)], [...full.views.rows('accounts', 0)]);
  t.strictSame(empty.views.position('accounts', 0), full.views.position('accounts', 0));

  const follower = new LogFollower({ link: nats, log: empty.log, group: 'accounts', partition: 0 });
  const end = await follower.reachEnd();
  await follower.close();
  t.strictSame(end.tip.hash, partition.tip.hash, 'the tail continues the chain');
  t.equal(end.offset, 0);
  await t.rejects(at(empty).restore('accounts', 0), /not empty/);

  await t.test('what was before the snapshot can be had from the stream', async (t) => {
    t.equal(empty.log.startOf('accounts', 0).batch, tip.batch);
    await readHistory({ link: nats, group: 'accounts', partition: 0 }, empty.log);
    t.equal(empty.log.startOf('accounts', 0).batch, 0);
    const read = (machine: typeof full): Batch[] => [...machine.log.read('accounts', 0, { afterBatch: 0 })];
    t.strictSame(read(empty), read(full));
  });
});

t.test('also history that is more than is read at once', async (t) => {
  await ensureLogStream(nats.manager, 'accounts', 11, 1);
  const reader = temporaryLog();
  t.teardown(() => reader.remove());
  const batches: Batch[] = [];
  for (let tip = emptyTip; batches.length < 6; tip = tipAt(batches.at(-1)!)) {
    batches.push(batchAfter(tip, 11, 1, 'x'.repeat(LIMITS.streamReadBytesMax / 3)));
  }
  for (const batch of batches) await replica(11).publish(batch);
  await reader.log.startAt('accounts', 11, tipAt(batches[4]!));
  await readHistory({ link: nats, group: 'accounts', partition: 11 }, reader.log);
  t.equal(reader.log.startOf('accounts', 11).batch, 0);
  const read = [...reader.log.read('accounts', 11, { afterBatch: 0 })];
  t.strictSame(
    read.map(({ hash }) => hash),
    batches.slice(0, 5).map(({ hash }) => hash),
  );
});

t.test('a stream that lacks the history says so', async (t) => {
  const other = temporaryLog();
  t.teardown(() => other.remove());
  const tip = { batch: 99, sequence: 99, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) };
  await ensureLogStream(nats.manager, 'accounts', 7, 1);
  for (const partition of [0, 7]) await other.log.startAt('accounts', partition, tip);
  const historyOf = (partition: number): Promise<void> =>
    readHistory({ link: nats, group: 'accounts', partition }, other.log);
  await t.rejects(historyOf(0), /has no batch 4/);
  await t.rejects(historyOf(7), /has no batch 1/);
});

t.test('a log that has nothing after its start is saved as it stands', async (t) => {
  const [trimmed, next] = [temporaryLog(), temporaryLog()];
  t.teardown(() => Promise.all([trimmed.remove(), next.remove()]));
  const tip = { batch: 99, sequence: 98, epoch: 3, timeMs: 1, hash: Buffer.alloc(32, 1) };
  await trimmed.log.startAt('platform', 0, tip);
  await trimmed.views.commit('platform', 0, tip, [{ table: 'accounts', key: 'a', value: '{}' }]);
  t.equal(await at(trimmed).save('platform', 0), tip.batch);
  t.strictSame(await at(next).restore('platform', 0), tip);
  t.strictSame([...next.views.rows('platform', 0)], [...trimmed.views.rows('platform', 0)]);
});

t.test('without a snapshot there is nothing to restore', async (t) => {
  t.equal(await at(empty).restore('accounts', 1), null);
  t.equal(await at(empty).batchOf('accounts', 1), 0);
  t.equal(await at(full).save('accounts', 1), 0);
});

t.test('a snapshot that is cut short leaves the log empty', async (t) => {
  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  const whole = await store.getBlob('accounts.0');
  await store.putBlob({ name: 'accounts.2' }, whole!.subarray(0, whole!.length / 2));
  await t.rejects(at(empty).restore('accounts', 2));
  t.equal(empty.log.tip('accounts', 2).batch, 0);
  await store.putBlob({ name: 'accounts.2' }, whole!);
  await t.rejects(
    at(empty).restore('accounts', 2),
    /it is of accounts\/0/,
    'nor is it taken for another partition',
  );
});

t.test('a snapshot for which there is no room is not saved, and what was saved stays', async (t) => {
  const partition = full.log.openPartition('accounts', 3, { epoch: 1, replica: null, onDurable: () => {} });
  await partition.drained();
  // Of many chunks: the first ones are refused while the later ones are still made.
  const rows: Row[] = Array.from({ length: 20_000 }, (_, i) => ({
    table: 'accounts',
    key: String(i).padStart(6, '0'),
    value: randomBytes(200).toString('hex'),
  }));
  await full.views.commit('accounts', 3, partition.tip, rows);
  const { config, state } = await nats.manager.streams.info(SNAPSHOT_STREAM);
  await nats.manager.streams.update(SNAPSHOT_STREAM, { max_bytes: state.bytes + 300_000 });
  await t.rejects(at(full).save('accounts', 3));
  t.equal(await at(full).batchOf('accounts', 3), 0);
  t.not(await at(full).batchOf('accounts', 0), 0);

  await nats.manager.streams.update(SNAPSHOT_STREAM, { max_bytes: config.max_bytes });
  t.equal(await at(full).save('accounts', 3), partition.tip.batch, 'the next time there is room');

  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  const { nuid } = (await store.info('accounts.3'))!;
  await nats.manager.streams.purge(SNAPSHOT_STREAM, { filter: chunksOf(nuid), keep: 1 });
  t.equal(await at(full).batchOf('accounts', 3), 0, 'of which some chunks are gone is none');
  t.equal(await at(full).save('accounts', 3), partition.tip.batch);
});

t.test('views that are not of the log are not saved', async (t) => {
  const partition = full.log.openPartition('accounts', 12, { epoch: 1, replica: null, onDurable: () => {} });
  partition.append('a record');
  await partition.drained();
  const { tip } = partition;
  const database = openViewsDatabase({ directory: full.directory });
  t.teardown(() => database.close());
  const row = { table: 'accounts', key: 'a', value: '{}' };
  const readers: number[] = [];
  for (const other of [{ hash: Buffer.alloc(32, 7) }, { sequence: tip.sequence + 1 }, { sequence: 0 }]) {
    await full.views.commit('accounts', 12, { ...tip, ...other }, [row]);
    await t.rejects(at(full).save('accounts', 12), /the views do not stand at the end of batch/);
    readers.push(database.readerList().split('\n').length);
  }
  t.equal(await at(full).batchOf('accounts', 12), 0);
  t.equal(readers.at(-1), readers[0], 'and nobody goes on reading them');
});

t.test('a snapshot of which nothing is left but its name is none', async (t) => {
  const partition = full.log.openPartition('accounts', 8, { epoch: 1, replica: null, onDurable: () => {} });
  await partition.drained();
  const { tip } = partition;
  await full.views.commit('accounts', 8, tip, []);
  t.equal(await at(full).save('accounts', 8), tip.batch);
  // As a save leaves it whose last message was stored, and never answered: the store's client takes the chunks back.
  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  const { nuid } = (await store.info('accounts.8'))!;
  await nats.manager.streams.purge(SNAPSHOT_STREAM, { filter: chunksOf(nuid) });
  t.equal(await at(full).batchOf('accounts', 8), 0);
  t.equal(await at(empty).restore('accounts', 8), null, 'an empty machine reads the stream');
  t.equal(await at(full).save('accounts', 8), tip.batch, 'and it is saved again');
  t.strictSame((await at(empty).restore('accounts', 8))?.hash, tip.hash);
});

t.test('what was left by who died while saving goes, and nothing else', async (t) => {
  const jetstream = nats.connection.jetstream();
  const left = `$O.${SNAPSHOT_BUCKET}.C.LEFT`;
  const growing = `$O.${SNAPSHOT_BUCKET}.C.GROWING`;
  const chunks = async (): Promise<Record<string, number>> => {
    const filter = { subjects_filter: `$O.${SNAPSHOT_BUCKET}.C.>` };
    return (await nats.manager.streams.info(SNAPSHOT_STREAM, filter)).state.subjects ?? {};
  };
  const before = await chunks();
  for (const subject of [left, left, growing]) await jetstream.publish(subject, 'of a snapshot');
  const snapshots = at(full);
  t.equal(await snapshots.removeAbandoned(), 0, 'it may be on its way');
  await jetstream.publish(growing, 'and more of it');
  t.equal(await snapshots.removeAbandoned(), 1);
  t.strictSame(await chunks(), { ...before, [growing]: 2 });
  t.equal(await snapshots.removeAbandoned(), 1);
  t.strictSame(await chunks(), before);
  t.equal(await snapshots.removeAbandoned(), 0);
  t.not(await snapshots.batchOf('accounts', 0), 0);
});

t.test('a snapshot that does not have the digest it should have restores nothing', async (t) => {
  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  // Of many rows: the first are on the disk before the end of it is there to be proved.
  const { revision } = (await store.info('accounts.3'))!;
  const meta = await nats.manager.streams.getMessage(SNAPSHOT_STREAM, { seq: revision });
  const other = createHash('sha256').update('of something else').digest('base64url');
  const info = { ...meta.json<object>(), digest: `SHA-256=${other}=` };
  await nats.connection.jetstream().publish(meta.subject, JSON.stringify(info));
  await t.rejects(at(empty).restore('accounts', 3), /corrupt/);
  t.equal(empty.log.tip('accounts', 3).batch, 0);
  empty.views.refresh();
  t.ok(empty.views.rows('accounts', 3).next().value);
  // Who removes it has the log made of the stream: that goes past where these rows seem to reach, and they are not its views.
  t.equal(empty.views.position('accounts', 3), null);
});

t.test('what the stream has not got is in no snapshot', async (t) => {
  const partition = full.log.openPartition('accounts', 5, { epoch: 1, replica: null, onDurable: () => {} });
  await partition.drained();
  const early = partition.tip;
  await full.views.commit('accounts', 5, early, []);
  t.equal(await at(full).save('accounts', 5), early.batch);
  partition.append('acknowledged with REPLICATION=async, by a writer that is replaced');
  await partition.drained();
  await full.views.commit('accounts', 5, partition.tip, []);
  const settled = (): Promise<void> => Promise.reject(new Error('another writer exists'));
  await t.rejects(at(full).save('accounts', 5, settled), /another writer exists/);
  t.equal(await at(full).batchOf('accounts', 5), early.batch);
});

t.test('a snapshot never replaces one that reaches further', async (t) => {
  const [slow, fast] = [temporaryLog(), temporaryLog()];
  t.teardown(() => Promise.all([slow.remove(), fast.remove()]));
  const writers: PartitionLog[] = [];
  for (const machine of [slow, fast]) {
    const partition = machine.log.openPartition('accounts', 6, {
      epoch: 1,
      replica: null,
      onDurable: () => {},
    });
    await partition.drained();
    if (machine === fast) {
      partition.append('later');
      await partition.drained();
    }
    await machine.views.commit('accounts', 6, partition.tip, []);
    writers.push(partition);
  }
  // Stopped while it saves, and going on when another has the partition and has saved its own.
  let reached = 0;
  const stopped = async (): Promise<void> => {
    reached = await at(fast).save('accounts', 6);
  };
  await t.rejects(at(slow).save('accounts', 6, stopped));
  t.equal(reached, 2);
  t.equal(await at(slow).batchOf('accounts', 6), 2);
  t.equal(await at(slow).save('accounts', 6), 2, 'nor does it begin to');
  t.equal(await at(slow).batchOf('accounts', 6), 2);
  writers[0]!.append('later');
  await writers[0]!.drained();
  const settled = async (): Promise<void> => {};
  t.equal(await at(slow).save('accounts', 6, settled, () => true), 2, 'nor where its views lag');
  t.equal(await at(slow).batchOf('accounts', 6), 2);
});

t.test('but one of another log, which a shorter one was put back in the place of', async (t) => {
  const other = temporaryLog();
  t.teardown(() => other.remove());
  const lost = { batch: 99, sequence: 99, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) };
  await other.log.startAt('accounts', 9, lost);
  await other.views.commit('accounts', 9, lost, []);
  t.equal(await at(other).save('accounts', 9), lost.batch);
  const partition = full.log.openPartition('accounts', 9, { epoch: 1, replica: null, onDurable: () => {} });
  await partition.drained();
  const { tip } = partition;
  await full.views.commit('accounts', 9, tip, []);
  const save = (isHeld: boolean): Promise<number> =>
    at(full).save(
      'accounts',
      9,
      async () => {},
      () => isHeld,
    );
  t.equal(await save(false), lost.batch, 'who does not hold the partition may have been left behind');
  t.equal(await save(true), tip.batch);
  t.equal(await at(full).batchOf('accounts', 9), tip.batch);
});

t.test('of a snapshot that somebody has removed nothing counts any more', async (t) => {
  const store = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  const { batch } = full.views.position('accounts', 0)!;
  t.equal(await at(full).batchOf('accounts', 0), batch);
  await store.delete('accounts.0');
  t.equal(await at(full).batchOf('accounts', 0), 0);
  t.equal(await at(full).save('accounts', 0), batch);
  t.equal(await at(full).batchOf('accounts', 0), batch);
});

t.test('a store that somebody has removed is made anew', async (t) => {
  const { batch } = full.views.position('accounts', 0)!;
  const snapshots = at(full);
  t.equal(await snapshots.batchOf('accounts', 0), batch);
  await nats.manager.streams.delete(SNAPSHOT_STREAM);
  t.equal(await snapshots.batchOf('accounts', 0), 0);
  t.equal(await snapshots.save('accounts', 0), batch);
  const other = temporaryLog();
  t.teardown(() => other.remove());
  // As of a restore that came to no end.
  await other.views.commit('accounts', 0, null, [{ table: 'accounts', key: 'stray', value: '{}' }]);
  t.equal((await at(other).restore('accounts', 0))?.batch, batch);
  t.strictSame([...other.views.rows('accounts', 0)], [...full.views.rows('accounts', 0)]);
});
