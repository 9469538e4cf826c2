// The flush gate by itself: the disk is a promise the test holds back, and nothing is acknowledged while it does.
import t from 'tap';
import { emptyTip } from '../../../wal/batch.ts';
import { GroupCommit } from '../../../wal/group-commit.ts';
import { PartitionLog } from '../../../wal/partition-log.ts';
import type { Batch } from '../../../wal/types.ts';

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
  const open = (partition: number): PartitionLog => {
    const log = new PartitionLog(
      { group: 'accounts', partition, tip: emptyTip },
      { epoch: 0, replica: null, onDurable: ({ records }) => acknowledged.push(...records) },
      (from) => commit.onAppend(from),
    );
    commit.add(log);
    return log;
  };
  return { flushes, acknowledged, commit, open };
}

/** Every callback that is due has run. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('nothing is acknowledged while the flush is held back', async (t) => {
  const { flushes, acknowledged, commit, open } = heldDisk();
  t.teardown(() => commit.stop());
  const first = open(0);
  const second = open(1);
  first.append('a');
  for (let n = 0; n < 20; n += 1) await turn();
  t.equal(flushes.length, 1);
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
});

t.test('a failed flush is told once, and nothing is acknowledged ever after', async (t) => {
  const failures: string[] = [];
  const { flushes, acknowledged, open } = heldDisk(failures);
  const first = open(0);
  const second = open(1);
  first.append('a');
  await turn();
  second.append('b');
  flushes[0]?.fail(new Error('disk full'));
  await Promise.all([first.drained(), second.drained()]);
  await turn();
  t.strictSame(failures, ['disk full']);
  t.strictSame(acknowledged, []);
  t.equal(flushes.length, 1, 'nothing more is written');
  t.throws(() => first.append('c'), /closed/);
  t.throws(() => second.append('c'), /closed/);
  t.throws(() => open(2), /disk full/);
});
