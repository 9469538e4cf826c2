// The flush gate by itself: the disk is a promise the test holds back, and nothing is acknowledged while it does.
import t from 'tap';
import { emptyTip } from '../../../wal/batch.ts';
import { GroupCommit } from '../../../wal/group-commit.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { PartitionLog } from '../../../wal/partition-log.ts';
import type { PartitionLogOptions } from '../../../wal/partition-log.ts';
import type { Batch, Replica } from '../../../wal/types.ts';

function heldDisk(failures: string[] = []) {
  const flushes: { batches: readonly Batch[]; end(): void; fail(error: Error): void }[] = [];
  const acknowledged: string[] = [];
  const commit = new GroupCommit({
    batchRecordsMax: 100,
    batchBytesMax: 10_000,
    now: () => 1,
    onFailure: (error) => failures.push(error.message),
    write: (batches) => new Promise((end, fail) => flushes.push({ batches, end, fail })),
  });
  const open = (
    partition: number,
    replica: Replica | null = null,
    options: Partial<PartitionLogOptions> = {},
  ): PartitionLog => {
    const log = new PartitionLog(
      { group: 'accounts', partition, tip: emptyTip },
      {
        epoch: 0,
        replica,
        onDurable: ({ records }) => acknowledged.push(...records),
        ...options,
      },
      (from) => commit.onAppend(from),
    );
    commit.add(log);
    return log;
  };
  return { flushes, acknowledged, commit, open };
}

/** A quorum that the test holds back. */
function heldReplica() {
  const answers: { confirm(): void; refuse(error: Error): void }[] = [];
  const replica: Replica = {
    publish: () => new Promise((confirm, refuse) => answers.push({ confirm, refuse })),
  };
  return { replica, answers };
}

/** Every callback that is due has run. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('nothing is acknowledged while the flush is held back', async (t) => {
  const { flushes, acknowledged, commit, open } = heldDisk();
  t.teardown(() => commit.stop());
  const first = open(0);
  const second = open(1);
  first.append('a');
  t.equal(commit.flushingMs, 0, 'none is in flight');
  const beganMs = performance.now();
  for (let n = 0; n < 20; n += 1) await turn();
  t.equal(flushes.length, 1);
  const flushingMs = commit.flushingMs;
  t.ok(flushingMs > 0 && flushingMs < performance.now() - beganMs, `${flushingMs} ms`);
  first.append('b');
  second.append('c');
  for (let n = 0; n < 20; n += 1) await turn();
  t.equal(flushes.length, 1, 'one flush in flight');
  t.strictSame(acknowledged, []);
  flushes[0]?.end();
  await turn();
  t.strictSame(acknowledged, ['a']);
  t.equal(flushes.length, 2, 'the next begins right away');
  t.strictSame(flushes[1]?.batches.flatMap(({ records }) => records).sort(), ['b', 'c']);
  flushes[1]?.end();
  await Promise.all([first.drained(), second.drained()]);
  t.strictSame(acknowledged.sort(), ['a', 'b', 'c']);
  t.equal(commit.outstanding, 0);
  t.equal(commit.flushingMs, 0);
});

t.test('a failed flush is told once, and nothing is acknowledged ever after', async (t) => {
  const failures: string[] = [];
  const { flushes, acknowledged, open } = heldDisk(failures);
  const first = open(0);
  const second = open(1);
  first.append('a');
  await turn();
  second.append('b');
  const opening = open(3, null, { epoch: 1 });
  flushes[0]?.fail(new Error('disk full'));
  await Promise.all([first.drained(), second.drained()]);
  await turn();
  // Its epoch never opens: whoever closes it is not to wait for that.
  await opening.drained();
  t.strictSame(failures, ['disk full']);
  t.strictSame(acknowledged, []);
  t.equal(flushes.length, 1, 'nothing more is written');
  t.throws(() => first.append('c'), /closed/);
  t.throws(() => second.append('c'), /closed/);
  t.throws(() => open(2), /disk full/);
});

t.test('what its replica has is acknowledged when the disk has it too, not before', async (t) => {
  const { flushes, acknowledged, commit, open } = heldDisk();
  const { replica, answers } = heldReplica();
  t.teardown(() => commit.stop());
  const partition = open(0, replica);
  partition.append('a');
  await turn();
  answers[0]?.confirm();
  for (let n = 0; n < 20; n += 1) await turn();
  t.strictSame(acknowledged, []);
  t.equal(partition.durable, 0);
  flushes[0]?.end();
  await partition.drained();
  t.strictSame(acknowledged, ['a']);
});

t.test('a confirmation that comes while a flush is in flight begins no second one', async (t) => {
  const { flushes, acknowledged, commit, open } = heldDisk();
  const { replica, answers } = heldReplica();
  t.teardown(() => commit.stop());
  const replicated = open(0, replica);
  const local = open(1);
  replicated.append('a');
  await turn();
  flushes[0]?.end();
  await turn();
  local.append('b');
  await turn();
  t.equal(flushes.length, 2);
  replicated.append('c');
  let isDrained = false;
  void replicated.drained().then(() => (isDrained = true));
  answers[0]?.confirm();
  for (let n = 0; n < 20; n += 1) await turn();
  t.strictSame(acknowledged, ['a']);
  t.equal(isDrained, false, 'whoever lets go of it now would drop what it took');
  t.equal(flushes.length, 2, 'one flush in flight');
  flushes[1]?.end();
  await turn();
  t.strictSame(acknowledged, ['a', 'b']);
  t.strictSame(
    flushes[2]?.batches.map(({ records }) => records),
    [['c']],
  );
  flushes[2]?.end();
  answers[1]?.confirm();
  await replicated.drained();
  t.strictSame(acknowledged, ['a', 'b', 'c']);
});

t.test(
  'a refusal stops its partition once the disk has the batch, and drops what waits behind it',
  async (t) => {
    for (const refusedFirst of [true, false]) {
      const refusals: string[] = [];
      const { flushes, acknowledged, commit, open } = heldDisk();
      const { replica, answers } = heldReplica();
      t.teardown(() => commit.stop());
      const partition = open(0, replica, { onFailure: ({ message }) => refusals.push(message) });
      partition.append('a');
      await turn();
      partition.append('b');
      partition.append('c');
      if (refusedFirst) answers[0]?.refuse(new Error('another writer'));
      else flushes[0]?.end();
      for (let n = 0; n < 20; n += 1) await turn();
      t.strictSame(refusals, [], 'whoever cuts it off must find it');
      if (refusedFirst) flushes[0]?.end();
      else answers[0]?.refuse(new Error('another writer'));
      await partition.drained();
      await turn();
      t.strictSame(refusals, ['another writer']);
      t.strictSame(acknowledged, []);
      t.equal(flushes.length, 1);
      t.equal(commit.outstanding, 0);
      t.equal(commit.failure, null, 'the others go on');
      await partition.drained();
    }
  },
);

t.test('a refusal that its partition does not take stops the whole log, and is told once', async (t) => {
  for (const failsToo of [false, true]) {
    const failures: string[] = [];
    const { flushes, acknowledged, commit, open } = heldDisk(failures);
    const { replica, answers } = heldReplica();
    const replicated = open(0, replica);
    const local = open(1);
    replicated.append('a');
    await turn();
    flushes[0]?.end();
    await turn();
    local.append('b');
    await turn();
    answers[0]?.refuse(new Error('another writer'));
    await turn();
    if (failsToo) flushes[1]?.fail(new Error('disk full'));
    else flushes[1]?.end();
    await local.drained();
    await turn();
    t.strictSame(failures, ['another writer']);
    t.equal(commit.failure?.message, 'another writer');
    t.strictSame(acknowledged, []);
  }
});

t.test('what is appended when a batch is durable goes with the next flush', async (t) => {
  const { flushes, acknowledged, commit, open } = heldDisk();
  t.teardown(() => commit.stop());
  const downstream = open(1);
  const upstream = open(0, null, {
    onCommitted: ({ records }) => downstream.append(`heard ${records.join()}`),
  });
  upstream.append('a');
  await turn();
  upstream.append('b');
  flushes[0]?.end();
  await turn();
  t.strictSame(flushes[1]?.batches.flatMap(({ records }) => records).sort(), ['b', 'heard a']);
  t.strictSame(acknowledged, ['a']);
});

t.test('no more than so many records wait for the disk', (t) => {
  const { commit, open } = heldDisk();
  const partition = open(0);
  for (let n = 0; n < WAL_LIMITS.recordsOutstandingMax; n += 1) partition.append('');
  t.throws(() => partition.append(''), /300001 records wait for the disk/);
  commit.stop();
  t.end();
});
