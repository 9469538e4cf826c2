// What a writer may take for said of its batch: that the stream has these very bytes at the place of its number, whatever became
// of the answers, and whoever else writes.
import t from 'tap';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import type { PublishResult } from '../../src/nats/stream-publisher.ts';
import { LIMITS } from '../../src/limits.ts';
import { AsyncStreamReplica } from '../../src/nats/log/stream-replica.ts';
import { batchAt } from '../../src/nats/log/stream-places.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import { batchAfter, partitionMaker, startNats } from './adapters.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const { nats, replica } = await startNats(t);

/** The first that say that it is stored are lost on their way back. */
class UnheardPublisher extends StreamPublisher {
  lost = 0;
  readonly attempts: PublishResult[] = [];

  override async publish(...what: Parameters<StreamPublisher['publish']>): Promise<PublishResult> {
    const result = await super.publish(...what);
    this.attempts.push(result);
    if (result.type !== 'stored' || this.attempts.length > this.lost) return result;
    return { type: 'unanswered', description: 'no acknowledgement in time' };
  }
}

const newPartition = partitionMaker(nats);

/** What stands in the stream, by its records. */
async function linesIn(partition: number): Promise<string[]> {
  const { state } = await nats.manager.streams.info(logStream('accounts', partition));
  const lines: string[] = [];
  for (let sequence = 1; sequence <= state.last_seq; sequence++) {
    const batch = await batchAt({ link: nats, group: 'accounts', partition }, sequence);
    lines.push(...(batch?.records ?? []));
  }
  return lines;
}

const FENCED = { name: 'Fenced' };

t.test('a batch whose answer was lost is sent again, and stands there once', async (t) => {
  const partition = await newPartition();
  const by = new UnheardPublisher(nats);
  t.teardown(() => by.close());
  by.lost = 2;
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition, { by }).publish(first);
  t.match(by.attempts, [{ duplicate: false }, { duplicate: true }, { duplicate: true }]);
  t.strictSame(await linesIn(partition), ['the first']);
});

t.test('also where the server does not remember it any more', async (t) => {
  const partition = await newPartition();
  const stream = logStream('accounts', partition);
  // The least that it takes.
  const { config } = await nats.manager.streams.info(stream);
  await nats.manager.streams.update(stream, { ...config, duplicate_window: 100_000_000 });
  const by = new UnheardPublisher(nats);
  t.teardown(() => by.close());
  by.lost = Infinity;
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition, { by }).publish(first);
  t.equal(by.attempts.at(-1)?.type, 'conflict', 'its own earlier attempt is what it finds');
  t.strictSame(await linesIn(partition), ['the first']);
});

t.test('it is not sent again once the partition is lost, nor without end', async (t) => {
  const partition = await newPartition();
  const by = new UnheardPublisher(nats);
  t.teardown(() => by.close());
  by.lost = Infinity;
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  const UNREACHED = { message: /the replica cannot be reached: .*no acknowledgement in time/ };
  await t.rejects(replica(partition, { by, mayWrite: () => false }).publish(first), UNREACHED);
  t.equal(by.attempts.length, 1);

  const now = performance.now.bind(performance);
  const wait = LIMITS.streamPublishMs;
  t.intercept(performance, 'now', { value: () => now() + (by.attempts.length >= 4 ? wait : 0) });
  await t.rejects(replica(partition, { by }).publish(first), UNREACHED);
  t.equal(by.attempts.length, 4);
});

t.test("nor is what the server refuses for another reason said to be stored, or another's", async (t) => {
  const partition = await newPartition();
  const stream = logStream('accounts', partition);
  const { config } = await nats.manager.streams.info(stream);
  await nats.manager.streams.update(stream, { ...config, max_msgs: 1 });
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition).publish(first);
  const second = batchAfter(tipAt(first), partition, 1, 'the second');
  const by = new UnheardPublisher(nats);
  t.teardown(() => by.close());
  const publishing = replica(partition, { by }).publish(second);
  await waitFor('it is refused', 10_000, () => by.attempts.length > 1);
  t.match(by.attempts[0], { type: 'unanswered', description: /maximum messages exceeded/ });
  await nats.manager.streams.update(stream, config);
  await publishing;
  t.strictSame(await linesIn(partition), ['the first', 'the second'], 'it goes on when it is taken');
});

t.test('a batch that the next writer has read, and goes on after, is in the log', async (t) => {
  const partition = await newPartition();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition).publish(first);
  await replica(partition).publish(batchAfter(tipAt(first), partition, 2, 'of the next'));
  await t.resolves(replica(partition).publish(first), 'whenever its answer comes');
  t.strictSame(await linesIn(partition), ['the first', 'of the next']);
});

t.test('one in whose place another writer has written is not', async (t) => {
  const partition = await newPartition();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition).publish(first);
  await replica(partition).publish(batchAfter(tipAt(first), partition, 2, 'of the next'));
  await t.rejects(replica(partition).publish(batchAfter(tipAt(first), partition, 1, 'late')), FENCED);
  t.strictSame(await linesIn(partition), ['the first', 'of the next']);
});

t.test('nor is one before which NATS has forgotten what it had', async (t) => {
  const partition = await newPartition();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition).publish(first);
  const forgotten = batchAfter(tipAt(first), partition, 1, 'forgotten');
  await t.rejects(
    replica(partition).publish(batchAfter(tipAt(forgotten), partition, 1, 'the third')),
    FENCED,
  );
  t.strictSame(await linesIn(partition), ['the first']);
});

t.test('while nobody can say what stands in its place, nothing is assumed', async (t) => {
  const partition = await newPartition();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  // As by an earlier attempt that the server does not remember.
  await nats.connection.jetstream().publish(logSubject('accounts', partition), first.bytes);
  const { streams } = nats.manager;
  const getMessage = streams.getMessage.bind(streams);
  let asked = 0;
  streams.getMessage = async (...what) => {
    if (++asked === 1) throw new Error('TIMEOUT');
    return getMessage(...what);
  };
  await replica(partition).publish(first);
  streams.getMessage = getMessage;
  t.equal(asked, 2);
  t.strictSame(await linesIn(partition), ['the first']);
});

t.test('nor is one that the server let through to another place', async (t) => {
  const partition = await newPartition();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition).publish(first);
  await replica(partition).publish(batchAfter(tipAt(first), partition, 2, 'of the next'));
  // As nats-server before 2.11 can where both come at once.
  const by = new (class extends StreamPublisher {
    override publish(...[subject, data, { messageId }]: Parameters<StreamPublisher['publish']>) {
      return super.publish(subject, data, { messageId });
    }
  })(nats);
  t.teardown(() => by.close());
  const late = batchAfter(tipAt(first), partition, 1, 'late');
  await t.rejects(replica(partition, { by }).publish(late), FENCED, 'no reader takes it for part of the log');
  t.strictSame(await linesIn(partition), ['the first', 'of the next', 'late']);
});

t.test('nor is it where leases that began anew have given both writers one epoch', async (t) => {
  const partition = await newPartition();
  const first = batchAfter(emptyTip, partition, 1, 'the first');
  await replica(partition).publish(first);
  await replica(partition).publish(batchAfter(tipAt(first), partition, 2, 'of one'));
  const other = batchAfter(tipAt(first), partition, 2, 'of the other');
  await t.rejects(replica(partition).publish(other), FENCED);
  t.strictSame(await linesIn(partition), ['the first', 'of one']);
});

t.test(
  'with REPLICATION=async no more is acknowledged before the stream has it than may be lost',
  async (t) => {
    const partition = await newPartition();
    const by = new UnheardPublisher(nats);
    t.teardown(() => by.close());
    by.lost = Infinity;
    const failures: Error[] = [];
    let isLost = false;
    const of = { by, mayWrite: () => !isLost };
    const to = new AsyncStreamReplica(replica(partition, of), (error) => failures.push(error));
    let acknowledged = 0;
    let tip = emptyTip;
    const published = Array.from({ length: LIMITS.streamAsyncOutstandingMax }, (_, n) => {
      const batch = batchAfter(tip, partition, 1, `record ${n}`);
      tip = tipAt(batch);
      return to.publish(batch).then(() => acknowledged++);
    });
    await Promise.all(published.slice(0, -1));
    await waitFor('the first was sent again', 10_000, () => by.attempts.length > 2);
    t.equal(acknowledged, LIMITS.streamAsyncOutstandingMax - 1, 'the last waits');
    isLost = true;
    await t.rejects(published.at(-1)!, /the replica cannot be reached/, 'and is never said to be taken');
    await t.rejects(to.publish(batchAfter(tip, partition, 1, 'later')), /the replica cannot be reached/);
    await t.rejects(to.settled(), /the replica cannot be reached/);
    t.equal(failures.length, 1);
  },
);
