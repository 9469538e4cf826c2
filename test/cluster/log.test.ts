// The replicated log: one stream per partition, batches at the place their number says, replaced writers fenced off,
// and every machine and every reader left with the same log.
import t from 'tap';
import type { Test } from 'tap';
import type { FeedBatch } from '../../src/bus/feed.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { StreamFeed } from '../../src/nats/log/stream-feed.ts';
import {
  batchAt,
  firstBatchOf,
  misses,
  sequenceOf,
  type StreamPartition,
} from '../../src/nats/log/stream-places.ts';
import { AsyncStreamReplica, Fenced } from '../../src/nats/log/stream-replica.ts';
import { ensureLogStream } from '../../src/nats/streams.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import { encodeBatch, tipAt } from '../../wal/batch.ts';
import type { WriteAheadLog } from '../../wal/log.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import type { Replica, Tip } from '../../wal/types.ts';
import { batchAfter, link, partitionMaker, startNats, tellOnce, temporaryLog } from './adapters.ts';
import { Cable } from './cable.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { LIMITS } from '../../src/limits.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const { servers, nats, replica } = await startNats(t);

const newPartition = partitionMaker(nats);

function newLog(t: Test): WriteAheadLog {
  const temporary = temporaryLog();
  t.teardown(() => temporary.remove());
  return temporary.log;
}

interface Writer {
  readonly log: PartitionLog;
  readonly durable: number[];
  readonly failures: Error[];
  write(...records: string[]): Promise<void>;
}

/** Takes the partition over as a node does: read to the end, open under the epoch. */
async function takeOver(wal: WriteAheadLog, partition: number, epoch: number): Promise<Writer> {
  const follower = new LogFollower({ link: nats, log: wal, group: 'accounts', partition });
  let offset: number;
  try {
    ({ offset } = await follower.reachEnd());
  } finally {
    await follower.close();
  }
  return open(wal, partition, epoch, replica(partition, { offset }));
}

function open(wal: WriteAheadLog, partition: number, epoch: number, to: Replica): Writer {
  const durable: number[] = [];
  const failures: Error[] = [];
  const log = wal.openPartition('accounts', partition, {
    epoch,
    replica: to,
    onDurable: (batch) => durable.push(...batch.records.map((_, i) => batch.firstSequence + i)),
    onFailure: (error) => failures.push(error),
  });
  return {
    log,
    durable,
    failures,
    async write(...records) {
      for (const record of records) log.append(record);
      await log.drained();
    },
  };
}

async function followed(wal: WriteAheadLog, partition: number): Promise<Tip> {
  const follower = new LogFollower({ link: nats, log: wal, group: 'accounts', partition });
  try {
    return (await follower.reachEnd()).tip;
  } finally {
    await follower.close();
  }
}

/** Those who know of no writer hear the same as those who know of a later one: then all is unsure at first. */
async function linesInFeed(partition: number, after: number, count: number): Promise<string[]> {
  const [lines, unsure] = await Promise.all([0, 99].map((epoch) => heardBy(epoch, partition, after, count)));
  t.strictSame(unsure, lines);
  return lines!;
}

async function heardBy(epoch: number, partition: number, after: number, count: number): Promise<string[]> {
  const lines: string[] = [];
  const feed = new StreamFeed({
    link: nats,
    epochOf: () => epoch,
    decode: (_, line) => line,
    onError: (error) => t.fail(error.message),
  });
  const subscription = feed.subscribe('accounts', partition, after, (batch: FeedBatch<string>) => {
    lines.push(...batch.records);
  });
  await waitFor(`${count} records came, not ${lines.length}`, 40_000, () => lines.length >= count);
  await subscription.close();
  return lines;
}

t.test('a batch stands in the stream at the place that its number says', async (t) => {
  const partition = await newPartition();
  const writer = await takeOver(newLog(t), partition, 1);
  await writer.write('one', 'two');
  await writer.write('three');
  const { state } = await nats.manager.streams.info(logStream('accounts', partition));
  t.equal(state.last_seq, writer.log.tip.batch, 'the opening batch and two more');
  t.strictSame(writer.durable, [1, 2, 3]);
});

t.test(
  'an empty machine reads the whole log, one that lagged the rest; the hash chain is the same',
  async (t) => {
    const partition = await newPartition();
    const writer = await takeOver(newLog(t), partition, 1);
    const lagging = newLog(t);
    for (let i = 0; i < 100; i++) await writer.write(`early ${i}`);
    await followed(lagging, partition);
    for (let i = 0; i < 100; i++) await writer.write(`late ${i}`);
    t.strictSame((await followed(lagging, partition)).hash, writer.log.tip.hash);
    t.strictSame((await followed(newLog(t), partition)).hash, writer.log.tip.hash);
  },
);

t.test('of two writers racing on one stream, one is fenced, and every reader sees one log', async (t) => {
  const partition = await newPartition();
  const [logA, logB] = [newLog(t), newLog(t)];
  const a = await takeOver(logA, partition, 1);
  await a.write('by a');
  const b = await takeOver(logB, partition, 2);
  await b.write('by b');
  await a.write('lost');
  t.type(a.failures[0], Fenced);
  t.strictSame(a.durable, [1], 'the replaced writer acknowledged nothing more');
  await b.write('by b again');
  t.strictSame(await linesInFeed(partition, 0, 3), ['by a', 'by b', 'by b again']);

  // The replaced machine still has what was never acknowledged. It is cut off when it follows.
  await logA.closePartition(a.log);
  t.strictSame((await followed(logA, partition)).hash, b.log.tip.hash);
});

t.test('writers that the server let race at one place are told apart by the place they got', async (t) => {
  const partition = await newPartition();
  const [logA, logB] = [newLog(t), newLog(t)];
  const a = await takeOver(logA, partition, 1);
  await a.write('by a');
  const b = await takeOver(logB, partition, 2);
  await b.write('by b');
  // As nats-server before 2.11 can: a stale batch of epoch 1 stands in the stream, after the new epoch's first.
  const stale = batchAfter(a.log.tip, partition, 1, 'stale');
  nats.connection.publish(logSubject('accounts', partition), stale.bytes);
  await nats.connection.flush();
  await b.write('refused');
  t.type(b.failures[0], Fenced, 'it cannot know what stands there: it steps down');

  await logB.closePartition(b.log);
  const c = await takeOver(newLog(t), partition, 3);
  await c.write('by c');
  const { state } = await nats.manager.streams.info(logStream('accounts', partition));
  t.equal(state.last_seq, c.log.tip.batch + 1, 'one leftover stands before it');
  t.strictSame(await linesInFeed(partition, 0, 3), ['by a', 'by b', 'by c']);
  t.strictSame(await linesInFeed(partition, 2, 1), ['by c'], 'also when it is begun after the leftover');
  t.strictSame(await linesInFeed(partition, 1, 2), ['by b', 'by c'], 'and before it');
  t.strictSame((await followed(newLog(t), partition)).hash, c.log.tip.hash);
  t.strictSame(
    await followed(logA, partition).catch((error: Error) => error.message),
    'accounts/3 is open for writing',
  );
  await logA.closePartition(a.log);
  t.strictSame((await followed(logA, partition)).hash, c.log.tip.hash);
});

t.test('a feed that is begun beside leftovers, or on one, hands none of them over', async (t) => {
  const partition = await newPartition();
  const [logA, logB] = [newLog(t), newLog(t)];
  const a = await takeOver(logA, partition, 1);
  await a.write('by a');
  const b = await takeOver(logB, partition, 2);
  await b.log.drained();
  // What NATS had of a's, say, and forgot; and what a wrote on before it heard of b.
  const records = Array.from({ length: 100 }, (_, i) => `stale ${i}`);
  const forgotten = encodeBatch({
    ...batchAfter(a.log.tip, partition, 1, ''),
    records,
    recordsBytes: records.join('').length,
    previousHash: a.log.tip.hash,
  });
  for (const { bytes } of [forgotten, batchAfter(tipAt(forgotten), partition, 1, 'stale')]) {
    nats.connection.publish(logSubject('accounts', partition), bytes);
  }
  await nats.connection.flush();
  await logB.closePartition(b.log);
  const c = await takeOver(logB, partition, 3);
  const lines = ['by a'];
  for (let i = 2; i <= 72; i++) {
    lines.push(`record ${i}`);
    await c.write(`record ${i}`);
    if (i === 2) t.strictSame(await linesInFeed(partition, 1, 1), ['record 2']);
  }
  for (let after = 60; after < 70; after++) {
    t.strictSame(await linesInFeed(partition, after, 72 - after), lines.slice(after), `after ${after}`);
  }
});

t.test(
  'leftovers of years are no obstacle: to the machine that wrote, one that followed, one that is empty',
  async (t) => {
    const partition = await newPartition();
    const [logA, logB] = [newLog(t), newLog(t)];
    let writer = await takeOver(logA, partition, 1);
    const stream = logStream('accounts', partition);
    for (let epoch = 1; epoch <= 4; epoch++) {
      for (let i = 0; i < 30; i++) await writer.write(`record ${epoch}-${i}`);
      await followed(logB, partition);
      // As nats-server before 2.11 can: batches of a writer that is replaced stand in the stream, at the next one's places.
      const { bytes } = encodeBatch({
        group: 'accounts',
        partition,
        batch: writer.log.tip.batch,
        epoch,
        firstSequence: writer.log.tip.sequence,
        records: ['stale'],
        recordsBytes: 5,
        timeMs: Date.now(),
        previousHash: Buffer.alloc(32, epoch),
      });
      for (let i = 0; i < 30; i++) nats.connection.publish(logSubject('accounts', partition), bytes);
      await nats.connection.flush();
      await logA.closePartition(writer.log);
      writer = await takeOver(logA, partition, epoch + 1);
    }
    await writer.write('the last');
    const { state } = await nats.manager.streams.info(stream);
    t.equal(state.last_seq, writer.log.tip.batch + 120);
    for (const log of [logB, newLog(t)]) {
      t.strictSame((await followed(log, partition)).hash, writer.log.tip.hash);
    }
    t.equal((await linesInFeed(partition, 0, 121)).length, 121);
    t.strictSame(await linesInFeed(partition, 120, 1), ['the last']);

    const place: StreamPartition = { link: nats, group: 'accounts', partition };
    for (const number of [1, 31, 32, 63, 93, 94, writer.log.tip.batch]) {
      const batch = logA.batch('accounts', partition, number);
      const sequence = await sequenceOf(place, batch);
      t.strictSame(
        (await batchAt(place, sequence!))!.hash,
        batch.hash,
        `batch ${number} stands at ${sequence}`,
      );
      t.equal(await sequenceOf(place, { batch: number, hash: Buffer.alloc(32, 7) }), null);
    }
  },
);

/** As NATS itself does for whoever asks it something and names this subject for the answer. */
async function putStrangers(partition: number, count = 1): Promise<void> {
  const stream = logStream('accounts', partition);
  const { state } = await nats.manager.streams.info(stream);
  const reply = logSubject('accounts', partition);
  for (let i = 0; i < count; i++) nats.connection.publish(`$JS.API.STREAM.INFO.${stream}`, '', { reply });
  await waitFor('they stand there', 20_000, async () => {
    return (await nats.manager.streams.info(stream)).state.last_seq >= state.last_seq + count;
  });
}

t.test('what is no batch is left alone by every reader, wherever it stands', async (t) => {
  const partition = await newPartition();
  const place: StreamPartition = { link: nats, group: 'accounts', partition };
  const local = newLog(t);
  await putStrangers(partition);
  let writer = await takeOver(local, partition, 1);
  for (let epoch = 2; epoch < 5; epoch++) {
    await putStrangers(partition);
    await writer.write(`under ${epoch - 1}`);
    t.strictSame(writer.failures, [], 'nobody else has written');
    await putStrangers(partition);
    await local.closePartition(writer.log);
    writer = await takeOver(local, partition, epoch);
  }
  await writer.write('under 4');
  const lines = ['under 1', 'under 2', 'under 3', 'under 4'];
  for (const after of lines.keys()) {
    t.strictSame(await linesInFeed(partition, after, lines.length - after), lines.slice(after));
  }
  t.strictSame((await followed(newLog(t), partition)).hash, writer.log.tip.hash);

  await nats.manager.streams.purge(logStream('accounts', partition), { seq: 5 });
  t.equal(await batchAt(place, 5), null);
  t.equal(await firstBatchOf(place), 3, 'what stands before it is none');
  const { hash } = local.batch('accounts', partition, 5);
  t.equal(await sequenceOf(place, { batch: 5, hash }), 10);

  // Made anew, with nothing in it but that: it proves nothing of the log.
  await local.closePartition(writer.log);
  await nats.manager.streams.delete(logStream('accounts', partition));
  await ensureLogStream(nats.manager, 'accounts', partition, 1);
  await putStrangers(partition);
  await t.rejects(followed(local, partition), /does not continue the log of this machine/);
  t.equal(local.tip('accounts', partition).sequence, lines.length, 'nothing was cut off');
});

t.test('nor do many of them hide a batch, or prove one that is gone', async (t) => {
  const partition = await newPartition();
  const place: StreamPartition = { link: nats, group: 'accounts', partition };
  const local = newLog(t);
  const writer = await takeOver(local, partition, 1);
  for (let i = 2; i <= 6; i++) await writer.write(`record ${i}`);
  const [early, behind] = [newLog(t), newLog(t)];
  const snapshot = tipAt(local.batch('accounts', partition, 3));
  for (const log of [early, behind]) await log.startAt('accounts', partition, snapshot);
  await putStrangers(partition, LIMITS.streamWarmUpMessages + 6);
  t.equal(await sequenceOf(place, writer.log.tip), 6);
  t.equal((await followed(early, partition)).batch, 6);
  t.equal(await misses(place, 5), null);
  t.equal(await misses(place, 6), 'end', 'which holds five records');

  // Of what was acknowledged after the snapshot nothing is left.
  await nats.manager.streams.purge(logStream('accounts', partition), { seq: 7 });
  await t.rejects(followed(behind, partition), /does not continue the log of this machine/);
  t.equal(await misses(place, 5), null, 'nothing tells');

  await writer.write('the last');
  t.strictSame(await linesInFeed(partition, 5, 1), ['the last']);
});

t.test('a log that the stream does not continue is refused, however little the stream has', async (t) => {
  const partition = await newPartition();
  const writer = await takeOver(newLog(t), partition, 1);
  for (let i = 1; i <= 5; i++) await writer.write(`record ${i}`);

  // Such as one that begins with the snapshot of a writer that was replaced while it saved it; also where the stream ends.
  for (const batch of [3, writer.log.tip.batch]) {
    const forked = newLog(t);
    const { epoch, timeMs } = writer.log.tip;
    const hash = Buffer.alloc(32, 7);
    await forked.startAt('accounts', partition, { batch, sequence: batch - 1, epoch, timeMs, hash });
    await t.rejects(takeOver(forked, partition, 2), /does not continue the log of this machine/);
  }
  const late = newLog(t);
  await late.startAt('accounts', partition, writer.log.tip);
  t.strictSame((await followed(late, partition)).hash, writer.log.tip.hash);
  await writer.write('the last');
  t.same(writer.failures, [], 'nobody else has written');
});

t.test('after REPLICATION=async the stream follows, in order', async (t) => {
  const partition = await newPartition();
  const writer = open(
    newLog(t),
    partition,
    1,
    new AsyncStreamReplica(replica(partition), (error) => t.fail(error.message)),
  );
  for (let i = 0; i < 200; i++) await writer.write(`record ${i}`);
  const stream = logStream('accounts', partition);
  await waitFor('the stream has caught up', 60_000, async () => {
    return (await nats.manager.streams.info(stream)).state.last_seq === writer.log.tip.batch;
  });
  t.equal((await linesInFeed(partition, 0, 200)).length, 200);
});

t.test('what was acknowledged then goes after what is no batch, and is not cut off', async (t) => {
  const partition = await newPartition();
  const local = newLog(t);
  const failures: Error[] = [];
  const to = new AsyncStreamReplica(replica(partition), (error) => failures.push(error));
  const writer = open(local, partition, 1, to);
  await writer.write('the first');
  await to.settled();
  await putStrangers(partition, 3);
  const lines = ['the first'];
  for (let i = 0; i < 20 && failures.length === 0; i++) {
    lines.push(`record ${i}`);
    await writer.write(`record ${i}`);
  }
  await to.settled().catch(() => {});
  await local.closePartition(writer.log);
  t.equal((await followed(local, partition)).sequence, writer.durable.length);
  t.strictSame(failures, []);
  t.strictSame(await linesInFeed(partition, 0, 21), lines);
});

t.test('the feed goes on after any record, and waits for its handler', async (t) => {
  const partition = await newPartition();
  const writer = await takeOver(newLog(t), partition, 1);
  const written = Array.from({ length: 600 }, (_, i) => `record ${i + 1}`);
  for (let i = 0; i < 600; i += 3) await writer.write(...written.slice(i, i + 3));
  for (const after of [0, 1, 2, 3, 299, 300, 598]) {
    t.strictSame(await linesInFeed(partition, after, 600 - after), written.slice(after), `after ${after}`);
  }
  let busy = 0;
  let most = 0;
  let last = 0;
  const feed = new StreamFeed({
    link: nats,
    epochOf: () => 0,
    decode: (_, line) => line,
    onError: (error) => t.fail(error.message),
  });
  const subscription = feed.subscribe('accounts', partition, 0, async (batch) => {
    most = Math.max(most, ++busy);
    await new Promise((resolve) => setImmediate(resolve));
    busy--;
    last = batch.firstSequence + batch.records.length - 1;
  });
  await waitFor('everything came', 60_000, () => last === 600);
  await subscription.close();
  t.equal(most, 1);
});

t.test('what was removed before the feed has read it is an error, and not passed over', async (t) => {
  const partition = await newPartition();
  const writer = await takeOver(newLog(t), partition, 1);
  for (let i = 1; i <= 5; i++) await writer.write(`record ${i}`);
  const subscribe = (after: number): { lines: string[]; errors: Error[]; goOn: () => void } => {
    const found = { lines: [] as string[], errors: [] as Error[], goOn: () => {} };
    const held = new Promise<void>((resolve) => (found.goOn = resolve));
    const feed = new StreamFeed({
      link: nats,
      epochOf: () => 0,
      decode: (_, line) => line,
      onError: (error) => found.errors.push(error),
    });
    const subscription = feed.subscribe('accounts', partition, after, (batch: FeedBatch<string>) => {
      found.lines.push(...batch.records);
      return held;
    });
    t.teardown(() => subscription.close());
    return found;
  };
  const live = subscribe(0);
  await waitFor('it is at the first record', 20_000, () => live.lines.length === 1);
  // What it has been sent by then it still reads.
  const count = LIMITS.streamReadMessages + 8;
  for (let i = 6; i <= count; i++) await writer.write(`record ${i}`);
  await nats.manager.streams.purge(logStream('accounts', partition), { seq: count });
  live.goOn();
  const begun = subscribe(0);
  for (const { lines, errors } of [live, begun]) {
    await waitFor('it says so', 20_000, () => errors.length > 0);
    t.match(errors[0], /the stream goes on at sequence \d+, not/);
    t.ok(lines.length < count - 1);
  }
});

t.test('what went down with a connection is read when it is back, also where nothing follows', async (t) => {
  const partition = await newPartition();
  const writer = await takeOver(newLog(t), partition, 1);
  const { cable, url } = await Cable.lay(servers.url);
  t.teardown(() => cable.remove());
  const standby = await link(url, 'standby');
  const local = newLog(t);
  const follower = new LogFollower({ link: standby, log: local, group: 'accounts', partition });
  await follower.reachEnd();
  cable.cut();
  await writer.write('the last');
  // The server has handed it to the connection.
  await waitFor('it was handed over', 20_000, async () => {
    const consumers = await nats.manager.consumers.list(logStream('accounts', partition)).next();
    return consumers.some(({ num_pending }) => num_pending === 0);
  });
  const isBack = new Promise<void>((resolve) => void standby.onReconnect(resolve));
  cable.mend();
  await isBack;
  const { tip } = await follower.reachEnd();
  t.strictSame(tip.hash, writer.log.tip.hash);
  await follower.close();
  await standby.close();
});

const PURGED = /the stream was purged empty/;

t.test('a stream that was purged empty is not waited for, nor is what it had taken for had', async (t) => {
  const partition = await newPartition();
  const stream = logStream('accounts', partition);
  const [first, warm, cold, late] = [newLog(t), newLog(t), newLog(t), newLog(t)];
  const writer = await takeOver(first, partition, 1);
  for (let i = 0; i < 5; i++) await writer.write(`record ${i}`);
  await followed(cold, partition);
  const following = new LogFollower({ link: nats, log: warm, group: 'accounts', partition });
  t.teardown(() => following.close());
  await following.reachEnd();
  const before = await nats.manager.streams.info(stream);
  await nats.manager.streams.purge(stream);

  const { tip } = await following.reachEnd();
  t.strictSame(tip.hash, writer.log.tip.hash, 'whoever had read it all goes on');
  for (const log of [cold, newLog(t)]) await t.rejects(followed(log, partition), PURGED);

  await putStrangers(partition, 1);
  await t.rejects(following.reachEnd(), { name: 'LogDiverged' }, 'nothing that is left proves it');
  await nats.manager.streams.purge(stream);

  // As if it were purged just after it was asked how far it goes.
  tellOnce(nats, () => before);
  await t.rejects(followed(late, partition), PURGED);
});

t.test('where the stream begins late, its first batch proves a log that has what is before', async (t) => {
  const partition = await newPartition();
  const stream = logStream('accounts', partition);
  const [first, behind, forked] = [newLog(t), newLog(t), newLog(t)];
  const writer = await takeOver(first, partition, 1);
  for (let i = 0; i < 5; i++) await writer.write(`record ${i}`);
  await followed(behind, partition);
  await followed(forked, partition);
  await nats.manager.streams.purge(stream);
  await writer.write('the last');
  const end = writer.log.tip.batch;
  const place: StreamPartition = { link: nats, group: 'accounts', partition };
  const firstBatch = await firstBatchOf(place);
  t.equal(firstBatch, end);

  const reach = async (log: WriteAheadLog): Promise<Tip> => {
    const follower = new LogFollower({ ...place, log, firstBatch });
    try {
      return (await follower.reachEnd()).tip;
    } finally {
      await follower.close();
    }
  };
  t.strictSame((await reach(behind)).hash, writer.log.tip.hash);
  const lost = forked.batch('accounts', partition, end - 1);
  const { hash: previousHash } = forked.batch('accounts', partition, end - 2);
  await forked.truncateAfter('accounts', partition, end - 2);
  const other = encodeBatch({ ...lost, records: ['other'], recordsBytes: 5, previousHash });
  await forked.appendForeign('accounts', partition, [other.bytes]);
  await t.rejects(reach(forked), /does not continue the log of this machine/);
});

t.test('what is read after a trim is not taken for leftovers', async (t) => {
  const partition = await newPartition();
  const [first, local] = [newLog(t), newLog(t)];
  const writer = await takeOver(first, partition, 1);
  await followed(local, partition);
  for (let i = 0; i < 5; i++) await writer.write(`record ${i}`);
  await nats.manager.streams.purge(logStream('accounts', partition), { seq: writer.log.tip.batch - 1 });
  const follower = new LogFollower({ link: nats, log: local, group: 'accounts', partition });
  await waitFor('the rest was handed over', 20_000, async () => {
    const consumers = await nats.manager.consumers.list(logStream('accounts', partition)).next();
    return consumers.some(({ delivered }) => delivered.stream_seq === writer.log.tip.batch);
  });
  await nats.connection.flush();
  await t.rejects(
    follower.reachEnd(),
    /begins with batch 5, and the log of this machine ends with 0: .* be put back/,
  );
  await follower.close();
});

t.test(
  'a log before a stream that has never had anything is cut only where it was never in one',
  async (t) => {
    const NEVER = /the stream has never had anything/;
    for (const [title, trimmed, batches, hasBegun, isCut] of [
      ['the one batch that was on its way', 0, 1, false, true],
      ['which is known to have been in a stream', 0, 1, true, false],
      ['two, of which one was in a stream', 0, 2, false, false],
      ['what follows a trim or a snapshot', 1, 1, false, false],
      ['a start with nothing after it, as a snapshot leaves it', 1, 0, false, false],
    ] as const) {
      const partition = await newPartition();
      const local = newLog(t);
      const writer = await takeOver(local, partition, 1);
      for (let i = 1; i < trimmed + batches; i++) await writer.write(`record ${i}`);
      await local.closePartition(writer.log);
      const end = local.tip('accounts', partition);
      if (batches === 0) {
        await local.truncateAfter('accounts', partition, 0);
        await local.startAt('accounts', partition, end);
      } else if (trimmed > 0) await local.trimBefore('accounts', partition, trimmed + 1);
      await nats.manager.streams.delete(logStream('accounts', partition));
      await ensureLogStream(nats.manager, 'accounts', partition, 1);
      const follower = new LogFollower({
        link: nats,
        log: local,
        group: 'accounts',
        partition,
        hasBegun,
      });
      t.teardown(() => follower.close());
      if (isCut) t.equal((await follower.reachEnd()).tip.batch, 0, title);
      else await t.rejects(follower.reachEnd(), NEVER, title);
      t.equal(local.tip('accounts', partition).batch, isCut ? 0 : trimmed + batches, title);
    }
  },
);
