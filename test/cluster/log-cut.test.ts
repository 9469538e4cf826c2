// A machine that was killed between its own disk and the stream, back before another has taken its partition over: what it wrote
// and the stream never accepted is cut off, while the stream goes on. And what a follower has done when it says so.
import t, { type Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import type { Batch, Tip } from '../../wal/types.ts';
import { needs } from '../needs.ts';
import {
  batchAfter,
  forgetLast,
  longer,
  partitionMaker,
  startNats,
  tellOnce,
  temporaryLog,
} from './adapters.ts';

needs('nats-server');

const { nats } = await startNats(t);
const newPartition = partitionMaker(nats);

async function publish({ partition, bytes }: Batch): Promise<void> {
  await nats.connection.jetstream().publish(logSubject('accounts', partition), bytes);
}

/** By the next owner. */
async function publishAfter(previous: Tip, partition: number, record: string): Promise<Tip> {
  const batch = batchAfter(previous, partition, 2, record);
  await publish(batch);
  return tipAt(batch);
}

/** On an empty machine, to the end. */
async function follow(partition: number): Promise<void> {
  const temporary = temporaryLog();
  const follower = new LogFollower({ link: nats, log: temporary.log, group: 'accounts', partition });
  await follower.reachEnd();
  await follower.close();
  await temporary.remove();
}

/** A log whose only batch the stream has never accepted. */
async function logWithNever(t: Test) {
  const partition = await newPartition();
  const temporary = temporaryLog();
  t.teardown(() => temporary.remove());
  const { log } = temporary;
  await log.appendForeign('accounts', partition, [
    batchAfter(emptyTip, partition, 1, 'never accepted').bytes,
  ]);
  return { partition, log };
}

t.test('nothing goes with it that the stream has accepted meanwhile', async (t) => {
  const { partition, log } = await logWithNever(t);

  // The first cut takes long.
  const [cutting, cut] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let cuts = 0;
  const beforeCut = async (): Promise<void> => {
    cuts += 1;
    cutting.resolve();
    if (cuts === 1) await cut.promise;
  };
  const follower = new LogFollower({ link: nats, log, group: 'accounts', partition, beforeCut });
  t.teardown(() => follower.close());
  const reached = follower.reachEnd();
  await cutting.promise;
  let tip = emptyTip;
  for (const record of ['opened', 'second', 'third']) tip = await publishAfter(tip, partition, record);
  // Whoever follows has had time to hear of it.
  await follow(partition);
  cut.resolve();
  await reached;
  tip = await publishAfter(tip, partition, 'fourth');
  t.strictSame((await follower.reachEnd()).tip.hash, tip.hash);
  const read = [...log.read('accounts', partition, { afterBatch: 0 })].flatMap(({ records }) => records);
  t.strictSame(read, ['opened', 'second', 'third', 'fourth']);
});

t.test('nor more than a writer may leave: beyond that a person decides', async (t) => {
  for (const count of [LIMITS.streamAsyncOutstandingMax, LIMITS.streamAsyncOutstandingMax + 1]) {
    const partition = await newPartition();
    const temporary = temporaryLog();
    t.teardown(() => temporary.remove());
    const { log } = temporary;
    const accepted = batchAfter(emptyTip, partition, 1, 'accepted');
    const local = [accepted];
    for (let tip = tipAt(accepted); local.length <= count; tip = tipAt(local.at(-1)!)) {
      local.push(batchAfter(tip, partition, 1, 'never accepted'));
    }
    await log.appendForeign(
      'accounts',
      partition,
      local.map(({ bytes }) => bytes),
    );
    await publish(accepted);
    const { batch } = await publishAfter(tipAt(accepted), partition, 'of the next owner');
    const follower = new LogFollower({ link: nats, log, group: 'accounts', partition });
    const reached = follower.reachEnd();
    if (count > LIMITS.streamAsyncOutstandingMax) {
      await t.rejects(reached, { name: 'LogDiverged', message: /33 batches of this machine are not in/ });
      t.equal(log.lastBatchNumber('accounts', partition), local.length);
    } else {
      t.equal((await reached).tip.batch, batch);
      t.equal(log.lastBatchNumber('accounts', partition), batch);
    }
    await follower.close();
  }
});

t.test('a stream that lacks more is told from one in which another has written', async (t) => {
  for (const [record, isAhead] of [
    ['the same', true],
    ["another's", false],
  ] as const) {
    const partition = await newPartition();
    const temporary = temporaryLog();
    t.teardown(() => temporary.remove());
    const local: Batch[] = [];
    for (let tip = emptyTip; local.length <= LIMITS.streamWarmUpMessages + 1; tip = tipAt(local.at(-1)!)) {
      local.push(batchAfter(tip, partition, 1, 'the same'));
    }
    const bytes = local.map((batch) => batch.bytes);
    await temporary.log.appendForeign('accounts', partition, bytes);
    await publish(batchAfter(emptyTip, partition, 1, record));
    const follower = new LogFollower({ link: nats, log: temporary.log, group: 'accounts', partition });
    await t.rejects(follower.reachEnd(), { message: /the stream ends at 1, /, isAhead });
    await follower.close();
  }
});

t.test('nor is anything cut, or waited for, when its follower has been closed', async (t) => {
  const { partition, log } = await logWithNever(t);
  const [cutting, cut] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const beforeCut = (): Promise<void> => {
    cutting.resolve();
    return cut.promise;
  };
  const follower = new LogFollower({ link: nats, log, group: 'accounts', partition, beforeCut });
  const reached = follower.reachEnd();
  await cutting.promise;
  let isClosed = false;
  const closed = follower.close().then(() => (isClosed = true));
  await follow(partition);
  t.notOk(isClosed, 'before the cut has ended');
  cut.resolve();
  await closed;
  t.equal(log.lastBatchNumber('accounts', partition), 0);
  await reached;

  // As if the stream had more, which never comes.
  const next = new LogFollower({ link: nats, log, group: 'accounts', partition });
  const asked = Promise.withResolvers<void>();
  tellOnce(nats, (now) => {
    setImmediate(asked.resolve);
    return longer(now, 1);
  });
  const waiting = t.rejects(next.reachEnd(), /is followed no more/);
  await asked.promise;
  await next.close();
  await waiting;
});

t.test('all that it has read of a stream that goes on is in the log when it says so', async (t) => {
  const partition = await newPartition();
  const temporary = temporaryLog();
  const { log } = temporary;
  let tip = await publishAfter(emptyTip, partition, 'the first');
  const before = await nats.manager.streams.info(logStream('accounts', partition));
  for (let n = 0; n < 200; n++) tip = await publishAfter(tip, partition, 'x'.repeat(2_000));
  // As if all of that had been written just after it was asked how far it goes.
  tellOnce(nats, () => before);
  const follower = new LogFollower({ link: nats, log, group: 'accounts', partition });
  t.teardown(async () => {
    await follower.close();
    await temporary.remove();
  });
  const reached = await follower.reachEnd();
  t.equal(log.lastBatchNumber('accounts', partition), reached.tip.batch);
  t.ok(reached.tip.batch < tip.batch, 'there was more');
  t.equal(reached.offset, 0);
  t.strictSame((await follower.reachEnd()).tip.hash, tip.hash);
});

t.test('what the disk of NATS has forgotten while it is read is not waited for', async (t) => {
  const partition = await newPartition();
  const temporary = temporaryLog();
  const { log } = temporary;
  const tip = await publishAfter(emptyTip, partition, 'the first');
  // As it was before its machine lost its power: there were two more.
  tellOnce(nats, (now) => longer(now, 2));
  const follower = new LogFollower({ link: nats, log, group: 'accounts', partition });
  t.teardown(async () => {
    await follower.close();
    await temporary.remove();
  });
  const reached = await follower.reachEnd();
  t.strictSame(reached.tip.hash, tip.hash);
  t.equal(reached.offset, 0, 'and what is written next comes where it ends');
});

/** Who follows a stream of two batches, of which NATS has forgotten the second since it was read, as when all servers lose their power. */
async function followerOfForgotten(t: Test) {
  const partition = await newPartition();
  const temporary = temporaryLog();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  const forgotten = batchAfter(tipAt(first), partition, 1, 'forgotten');
  for (const batch of [first, forgotten]) await publish(batch);
  const warm = new LogFollower({ link: nats, log: temporary.log, group: 'accounts', partition });
  t.teardown(async () => {
    await warm.close();
    await temporary.remove();
  });
  await warm.reachEnd();
  await forgetLast(nats, partition, 1);
  return { partition, first, forgotten, warm };
}

t.test(
  'nor is what another has written in its place passed over, by whoever had read what is forgotten',
  async (t) => {
    const { partition, first, warm } = await followerOfForgotten(t);
    // The next owner has no more.
    const tip = await publishAfter(tipAt(first), partition, 'of the next owner');
    t.strictSame((await warm.reachEnd()).tip.hash, tip.hash, 'it is read again');
  },
);

t.test('nor is a server said to have a wrong copy where all have forgotten what was read', async (t) => {
  const { forgotten, warm } = await followerOfForgotten(t);
  const complaints = t.capture(nats, 'complain');
  const { tip } = await warm.reachEnd(async (batches) => {
    for (const batch of batches) await publish(batch);
  });
  t.strictSame(tip, tipAt(forgotten));
  t.strictSame(complaints(), []);
});

t.test(
  'what was trimmed after the end of a log is said to be missing, and where it is put back from',
  async (t) => {
    const partition = await newPartition();
    const temporary = temporaryLog();
    const { log } = temporary;
    const first = batchAfter(emptyTip, partition, 1, 'the first');
    await publish(first);
    let tip = tipAt(first);
    for (const record of ['the second', 'the third']) tip = await publishAfter(tip, partition, record);
    await log.appendForeign('accounts', partition, [first.bytes]);
    await nats.manager.streams.purge(logStream('accounts', partition), { seq: tip.batch });
    const follower = new LogFollower({ link: nats, log, group: 'accounts', partition });
    t.teardown(async () => {
      await follower.close();
      await temporary.remove();
    });
    await t.rejects(follower.reachEnd(), {
      name: 'LogDiverged',
      message:
        /the stream begins with batch 3, and the log of this machine ends with 1: .* archive \(npm run wal -- import\)$/,
    });
    t.equal(log.lastBatchNumber('accounts', partition), 1, 'and nothing is cut off');
  },
);
