// What trimming leaves in a stream, to the batch: what an empty machine looks at before its snapshot, what webhooks have still to
// read, and all that the archive does not prove to have.
import { appendFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ErrorCode, NatsError } from 'nats';
import t from 'tap';
import { encodeWebhookRecord } from '../../actors/webhooks/record.ts';
import { streamTools } from '../../deploy/stream-tools.ts';
import type { GroupName } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { Snapshots } from '../../src/nats/snapshots/snapshots.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { firstBatchOf } from '../../src/nats/log/stream-places.ts';
import { ensureLogStream } from '../../src/nats/streams.ts';
import { logStream, logSubject, SNAPSHOT_BUCKET } from '../../src/nats/subjects.ts';
import { tipAt } from '../../wal/batch.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import type { Manifest } from '../../wal/tools/manifest.ts';
import type { Row } from '../../wal/types.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import type { ToolRun } from '../unit/wal/run-tool.ts';
import { batchAfter, link, startNats, temporaryLog } from './adapters.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const { servers, nats, replica } = await startNats(t);
const machine = temporaryLog();
const snapshots = new Snapshots({ link: nats, log: machine.log, views: machine.views, replicas: 1 });
const archives = temporaryDirectory(t);
t.teardown(() => machine.remove());

async function opened(group: GroupName, partition: number): Promise<PartitionLog> {
  await ensureLogStream(nats.manager, group, partition, 1);
  const log = machine.log.openPartition(group, partition, {
    epoch: 1,
    replica: replica(partition, { group }),
    onDurable: () => {},
  });
  await log.drained();
  return log;
}

/** Writes until the log has so many batches, each of two records but for the first, which opens it. */
async function writeTo(log: PartitionLog, batches: number): Promise<void> {
  while (log.tip.batch < batches) {
    log.append('one');
    log.append('two');
    await log.drained();
  }
}

async function snapshotAt(
  log: PartitionLog,
  rows: { table: string; key: string; value: string }[],
): Promise<void> {
  const group = log.group as GroupName;
  await machine.views.commit(group, log.partition, log.tip, rows);
  t.equal(await snapshots.save(group, log.partition), log.tip.batch);
}

function tool(name: string, partition: number, ...args: string[]): Promise<ToolRun> {
  const tools = streamTools(() => link(servers.url, 'operator'));
  return runTool(tools, name, ...args, '--group', 'accounts', '--partition', String(partition));
}

async function archived(archive: string, partition: number): Promise<void> {
  const { status, err } = await tool('archive', partition, '--to', archive, '--before', '2999-01-01');
  t.equal(status, 0, err);
}

interface Trimmed {
  readonly first: number;
  readonly last: number;
  readonly why: string;
}

async function trim(archive: string, partition: number): Promise<Trimmed> {
  const { status, out, err } = await tool('trim', partition, '--archive', archive, '--yes', '--json');
  t.equal(status, 0, err);
  const [{ first, last, why } = { first: 0, last: 0, why: err }] = (
    JSON.parse(out) as { partitions: Trimmed[] }
  ).partitions;
  return { first, last, why };
}

function firstOf(partition: number): Promise<number> {
  return firstBatchOf({ link: nats, group: 'accounts', partition });
}

const BEFORE = 16;
const SNAPSHOT = BEFORE + LIMITS.streamWarmUpMessages;
/** Of the last record in a batch. */
const sequenceAt = (batch: number): number => 2 * (batch - 1);

/** Three segments, one of which ends where a snapshot lets go of what is before, and one a batch later. */
async function written(partition: number, archive = join(archives, String(partition))): Promise<string> {
  const log = await opened('accounts', partition);
  for (const end of [BEFORE, BEFORE + 1, SNAPSHOT]) {
    await writeTo(log, end);
    await archived(archive, partition);
  }
  t.equal(log.tip.sequence, sequenceAt(SNAPSHOT));
  await snapshotAt(log, [{ table: 'accounts', key: 'a', value: '1' }]);
  return archive;
}

function taken(upstreamSequence: number): string {
  return encodeWebhookRecord({
    type: 'EventsTaken',
    at: 1,
    upstreamSequence,
    idBody: 'b',
    endpoints: [],
    events: [],
  });
}

async function webhooksHaveRead(partition: number, upstreamSequence: number): Promise<PartitionLog> {
  const log = await opened('webhooks', partition);
  log.append(taken(upstreamSequence));
  await log.drained();
  return log;
}

t.test('an archive says of what it finds no stream', async (t) => {
  const archive = join(archives, 'lost');
  const add = (...args: string[]): Promise<ToolRun> => {
    const tools = streamTools(() => link(servers.url, 'operator'));
    return runTool(tools, 'archive', '--to', archive, '--before', '2999-01-01', ...args);
  };
  t.match(await add(), { status: 1, out: '', err: /^archive: this NATS has no log of a cluster/ });
  const [lost, kept] = [await opened('accounts', 8), await opened('accounts', 9)];
  for (const log of [lost, kept]) await writeTo(log, 3);
  t.equal((await add()).status, 0);
  await writeTo(kept, 6);
  await nats.manager.streams.delete(logStream('accounts', 8));
  const why = 'accounts/8: nothing was added: there is no stream of it, and the archive has it up to batch 3';
  const { status, out } = await add();
  t.equal(status, 1);
  t.strictSame(out.split('\n').slice(1), [why, '']);
  t.match(out, /^accounts.9: sequences 5 to 10/, 'all others are');
  const again = await add('--partition', '8');
  t.equal(again.status, 1);
  t.match(again.out, why);
  t.match(
    await runTool(
      streamTools(() => link(servers.url, 'operator')),
      'trim',
      '--archive',
      archive,
    ),
    {
      status: 0,
      out: /^accounts.9 /,
    },
  );
});

t.test('an archive that cannot go on with a partition goes on with the others', async (t) => {
  const archive = join(archives, 'gap');
  const add = async (...args: string[]): Promise<ToolRun> => {
    const tools = streamTools(() => link(servers.url, 'operator'));
    return runTool(tools, 'archive', '--to', archive, '--before', '2999-01-01', ...args);
  };
  const [trimmed, kept] = [await opened('accounts', 11), await opened('accounts', 12)];
  for (const log of [trimmed, kept]) await writeTo(log, 3);
  t.equal((await add('--partition', '11')).status, 0);
  const other = join(archives, 'other');
  cpSync(archive, other, { recursive: true });
  t.equal((await add('--partition', '12')).status, 0);
  for (const log of [trimmed, kept]) await writeTo(log, 6);
  await nats.manager.streams.purge(logStream('accounts', 11), { seq: 6 });
  const { status, out } = await add();
  t.equal(status, 1);
  t.match(out, /^accounts.12: sequences 5 to 10/m);
  t.match(out, /^accounts.11: nothing was added: .* begins with batch 6: what is before was trimmed/m);
  t.match(await add(), { status: 1, out: /^accounts.11: nothing was added: [^\n]*\n$/ });

  const manifest = readFileSync(join(other, 'manifest.json'), 'utf8');
  const { out: none, err } = await runTool(
    streamTools(() => link(servers.url, 'operator')),
    'archive',
    '--to',
    other,
    '--before',
    '2999-01-01',
  );
  t.match(err, /^archive: the stream of accounts.11 begins with batch 6/);
  t.equal(none, '');
  t.equal(readFileSync(join(other, 'manifest.json'), 'utf8'), manifest, 'nothing shows that it is of this');
});

t.test('nothing goes into the archive of another cluster, whichever partitions are asked for', async (t) => {
  const archive = join(archives, 'of-another');
  await writeTo(await opened('accounts', 20), 3);
  await archived(archive, 20);
  await nats.manager.streams.delete(logStream('accounts', 20));
  const another = temporaryLog();
  t.teardown(() => another.remove());
  await ensureLogStream(nats.manager, 'accounts', 20, 1);
  const log = another.log.openPartition('accounts', 20, {
    epoch: 2,
    replica: replica(20),
    onDurable: () => {},
  });
  await log.drained();
  await writeTo(log, 6);
  await writeTo(await opened('accounts', 21), 3);
  const manifest = readFileSync(join(archive, 'manifest.json'), 'utf8');
  const { status, err } = await tool('archive', 21, '--to', archive, '--before', '2999-01-01');
  t.equal(status, 1);
  t.match(err, /^archive: .*accounts.20/);
  t.equal(readFileSync(join(archive, 'manifest.json'), 'utf8'), manifest);
  t.strictSame(
    readdirSync(archive).filter((name) => name.includes('-21')),
    [],
  );
});

t.test('what an empty machine looks at before the snapshot stays', async (t) => {
  const archive = await written(0);
  await webhooksHaveRead(0, sequenceAt(SNAPSHOT));
  const why = `the snapshot reaches batch ${SNAPSHOT}`;
  const said = async (...args: string[]): Promise<string | undefined> =>
    (await tool('trim', 0, '--archive', archive, ...args)).out.trim().split('\n').at(-1);
  t.equal(await said(), 'Nothing was removed: add --yes to remove this.');
  t.strictSame(await trim(archive, 0), { first: 1, last: BEFORE, why });
  t.equal(await firstOf(0), BEFORE + 1);
  t.strictSame(await trim(archive, 0), { first: BEFORE + 1, last: BEFORE, why }, 'again: nothing');
  t.equal(await said(), 'There is nothing to remove.');
  t.equal(await said('--yes'), 'There is nothing to remove.');
});

t.test(
  'what begins a trimmed stream is of its log, also where a replaced writer has left something there',
  async (t) => {
    const partition = 13;
    const archive = join(archives, String(partition));
    const replaced = await opened('accounts', partition);
    await writeTo(replaced, BEFORE);
    await archived(archive, partition);
    // As nats-server before 2.11 can: it follows what the archive's last batch follows.
    const before = tipAt(machine.log.batch('accounts', partition, BEFORE - 1));
    const stale = batchAfter(before, partition, 1, 'stale');
    nats.connection.publish(logSubject('accounts', partition), stale.bytes);
    await nats.connection.flush();
    await machine.log.closePartition(replaced);
    const log = machine.log.openPartition('accounts', partition, {
      epoch: 2,
      replica: replica(partition, { offset: 1 }),
      onDurable: () => {},
    });
    await writeTo(log, SNAPSHOT);
    await snapshotAt(log, [{ table: 'accounts', key: 'a', value: '1' }]);
    await webhooksHaveRead(partition, sequenceAt(BEFORE));

    t.hasStrict(await trim(archive, partition), { first: 1, last: BEFORE });
    t.equal(await firstOf(partition), BEFORE + 1);
    t.hasStrict(await trim(archive, partition), { first: BEFORE + 1, last: BEFORE }, 'again: nothing');

    const lagging = temporaryLog();
    t.teardown(() => lagging.remove());
    const had = [...machine.log.read('accounts', partition, { afterBatch: 0 })].slice(0, BEFORE + 1);
    await lagging.log.appendForeign(
      'accounts',
      partition,
      had.map(({ bytes }) => bytes),
    );
    const place = { link: nats, group: 'accounts', partition } as const;
    const follower = new LogFollower({ ...place, log: lagging.log, firstBatch: await firstOf(partition) });
    t.teardown(() => follower.close());
    t.strictSame((await follower.reachEnd()).tip.hash, log.tip.hash);
  },
);

t.test('what webhooks have not read stays', async (t) => {
  const archive = await written(1);
  const why = (sequence: number): string => `webhooks have read up to sequence ${sequence}`;
  t.strictSame(await trim(archive, 1), { first: 1, last: 0, why: why(0) }, 'there are none yet');
  const log = await webhooksHaveRead(1, sequenceAt(BEFORE) - 1);
  t.strictSame(await trim(archive, 1), { first: 1, last: 0, why: why(sequenceAt(BEFORE) - 1) });
  await snapshotAt(log, [{ table: 'cursor', key: 'upstream', value: String(sequenceAt(BEFORE) - 1) }]);
  t.strictSame(await trim(archive, 1), { first: 1, last: 0, why: why(sequenceAt(BEFORE) - 1) });
  t.equal(await firstOf(1), 1);
  await nats.manager.streams.purge(logStream('webhooks', 1), { seq: log.tip.batch + 1 });
  log.append(taken(sequenceAt(BEFORE)));
  await log.drained();
  t.hasStrict(
    await trim(archive, 1),
    { first: 1, last: BEFORE },
    'read since their snapshot, before which nothing is left',
  );
  t.equal(await firstOf(1), BEFORE + 1);
});

t.test('what webhooks have read is known from their snapshot where nothing came after it', async (t) => {
  const archive = await written(2);
  const log = await opened('webhooks', 2);
  await snapshotAt(log, [
    { table: 'cursor', key: 'upstream', value: String(sequenceAt(BEFORE)) },
    { table: 'cursor', key: 'z', value: '1' },
    { table: 'deliveries', key: 'upstream', value: '2' },
  ]);
  t.hasStrict(await trim(archive, 2), { first: 1, last: BEFORE });
});

t.test('nothing is removed that the archive does not prove to have', async (t) => {
  const archive = await written(3);
  await webhooksHaveRead(3, sequenceAt(SNAPSHOT));
  const manifest = join(archive, 'manifest.json');
  const whole = JSON.parse(readFileSync(manifest, 'utf8')) as Manifest;
  const [first, ...others] = whole.segments;
  const have = (segments: Manifest['segments']): void =>
    writeFileSync(manifest, JSON.stringify({ ...whole, segments }));

  have(others);
  const why = `the archive lacks what is between batches 0 and ${BEFORE}`;
  t.strictSame(await trim(archive, 3), { first: 1, last: 0, why });

  have([{ ...first!, end: { ...first!.end, hash: '07'.repeat(32) } }, ...others]);
  const other = await tool('trim', 3, '--archive', archive, '--yes');
  t.equal(other.status, 1);
  t.match(other.err, /accounts\/3: batch 16 of .* is not the stream's: it is of another cluster/);

  have(whole.segments);
  const file = join(archive, first!.file);
  const bytes = readFileSync(file);
  writeFileSync(file, Buffer.from(bytes.map((byte, i) => (i === bytes.length >> 1 ? byte ^ 1 : byte))));
  const damaged = await tool('trim', 3, '--archive', archive, '--yes');
  t.equal(damaged.status, 1);
  t.match(damaged.err, /has changed: its SHA-256/);
  t.equal(await firstOf(3), 1);

  writeFileSync(file, bytes);
  t.hasStrict(await trim(archive, 3), { first: 1, last: BEFORE }, 'whole again, it goes');
});

t.test('a stream of which the archive is damaged keeps nothing from the others', async (t) => {
  const [DAMAGED, WHOLE] = [23, 24];
  const archive = await written(DAMAGED);
  await written(WHOLE, archive);
  for (const partition of [DAMAGED, WHOLE]) await webhooksHaveRead(partition, sequenceAt(SNAPSHOT));
  const manifest = JSON.parse(readFileSync(join(archive, 'manifest.json'), 'utf8')) as Manifest;
  const { file } = manifest.segments.find(({ partition }) => partition === DAMAGED)!;
  appendFileSync(join(archive, file), 'x');
  const tools = streamTools(() => link(servers.url, 'operator'));
  const args = ['--archive', archive, '--yes', '--group', 'accounts'];
  const { status, out } = await runTool(tools, 'trim', ...args);
  t.equal(status, 1, out);
  t.match(out, /^accounts.23: .* has changed/m);
  t.match(out, new RegExp(`^accounts.24 +${BEFORE} batches`, 'm'));
  t.match(out, `Removed ${BEFORE} batches.`);
  t.strictSame([await firstOf(DAMAGED), await firstOf(WHOLE)], [1, BEFORE + 1]);
});

t.test('what is not tried any more, since NATS does not answer, is named', async (t) => {
  const [TRIED, SILENT, UNTRIED] = [31, 32, 33];
  const archive = await written(TRIED);
  for (const partition of [SILENT, UNTRIED]) await written(partition, archive);
  for (const partition of [TRIED, SILENT, UNTRIED]) {
    await webhooksHaveRead(partition, sequenceAt(SNAPSHOT));
  }
  const tools = streamTools(async () => {
    const silent = await link(servers.url, 'operator');
    const { streams } = silent.manager;
    const ask = streams.getMessage.bind(streams);
    streams.getMessage = async (stream, query) => {
      if (stream === logStream('accounts', SILENT)) throw new NatsError('no answer', ErrorCode.Timeout);
      return ask(stream, query);
    };
    return silent;
  });
  const run = (...args: string[]): Promise<ToolRun> => runTool(tools, ...args, '--group', 'accounts');
  const trimmed = await run('trim', '--archive', archive, '--yes');
  t.equal(trimmed.status, 1);
  t.match(trimmed.out, new RegExp(`^accounts.31 +${BEFORE} batches`, 'm'));
  t.match(
    trimmed.out,
    /^accounts.32: no answer\naccounts.33: it was not tried: NATS had just not answered$/m,
  );
  const added = await run('archive', '--to', archive, '--before', '2999-01-01');
  t.equal(added.status, 1);
  t.match(
    added.out,
    /^accounts.32: nothing was added: no answer\naccounts.33: nothing was added: it was not /m,
  );
});

t.test('a snapshot of another log proves nothing', async (t) => {
  const archive = await written(6);
  const webhooks = await opened('webhooks', 6);
  const other = temporaryLog();
  t.teardown(() => other.remove());
  const tip = { batch: SNAPSHOT + 9, sequence: 1_000, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) };
  const store = async (group: GroupName, rows: Row[]): Promise<void> => {
    await other.log.startAt(group, 6, tip);
    await other.views.commit(group, 6, tip, rows);
    const { log, views } = other;
    t.equal(await new Snapshots({ link: nats, log, views, replicas: 1 }).save(group, 6), tip.batch);
  };
  await store('webhooks', [{ table: 'cursor', key: 'upstream', value: String(sequenceAt(SNAPSHOT)) }]);
  t.strictSame(await trim(archive, 6), { first: 1, last: 0, why: 'webhooks have read up to sequence 0' });
  webhooks.append(taken(sequenceAt(SNAPSHOT)));
  await webhooks.drained();
  const bucket = await nats.connection.jetstream().views.os(SNAPSHOT_BUCKET);
  await bucket.delete('webhooks.6');
  await store('accounts', []);
  const why = `batch ${tip.batch}, which the snapshot reaches, is not the stream's: remove it, and another is saved`;
  t.strictSame(await trim(archive, 6), { first: 1, last: 0, why });
  t.equal(await firstOf(6), 1);
});

t.test('of a stream that nobody has written nothing is counted as removed', async (t) => {
  const archive = join(archives, '1');
  await ensureLogStream(nats.manager, 'accounts', 4, 1);
  const { status, out } = await tool('trim', 4, '--archive', archive);
  t.equal(status, 0);
  t.match(out, /accounts\/4 +0 batches +kept: there is no snapshot/);
});

t.test(
  'nothing is added to an archive that is not of this stream, however short the stream is',
  async (t) => {
    const archive = join(archives, '5');
    const log = await opened('accounts', 5);
    await writeTo(log, 3);
    await archived(archive, 5);
    const manifest = join(archive, 'manifest.json');
    const ours = JSON.parse(readFileSync(manifest, 'utf8')) as Manifest;
    const [end] = ours.ends;
    for (const others of [
      { ...end!, hash: '07'.repeat(32) },
      { ...end!, batch: 9, sequence: sequenceAt(9) },
      { ...end!, batch: 2, sequence: sequenceAt(2), hash: '07'.repeat(32) },
    ]) {
      const segments = ours.segments.with(-1, { ...ours.segments.at(-1)!, end: others });
      writeFileSync(manifest, JSON.stringify({ ...ours, ends: [others], segments }));
      const { status, out, err } = await tool('archive', 5, '--to', archive, '--before', '2999-01-01');
      t.equal(status, 1, out);
      t.match(err, new RegExp(`accounts/5: batch ${others.batch} of .* is not the stream's`));
    }
    writeFileSync(manifest, JSON.stringify(ours));
    t.match(await tool('archive', 5, '--to', archive, '--before', '2999-01-01'), {
      status: 0,
      out: /^Nothing to archive/,
    });
    await writeTo(log, 4);
    await archived(archive, 5);
  },
);
