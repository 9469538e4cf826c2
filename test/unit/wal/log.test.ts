// What the log promises to its writer: dense sequences, batches in order, one flush in flight, bounds, epochs, and
// nothing acknowledged that is not durable.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { emptyTip, tipAt } from '../../../wal/batch.ts';
import type { FlushReport } from '../../../wal/group-commit.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import type { LogOptions } from '../../../wal/log.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import type { Batch, Replica } from '../../../wal/types.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

const directory = temporaryDirectory(t);
const LONG_ENOUGH_MS = 10_000;
let opened = 0;

/** A log of its own in a new directory, closed at the end of the test. */
function openLog(t: Test, options: Partial<LogOptions> = {}): WriteAheadLog {
  opened += 1;
  const log = WriteAheadLog.open({
    directory: join(directory, `${opened}`),
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
    ...options,
  });
  t.teardown(() => log.close());
  return log;
}

function collect(): { durable: Batch[]; onDurable: (batch: Batch) => void } {
  const durable: Batch[] = [];
  return { durable, onDurable: (batch) => durable.push(batch) };
}

t.test('what one turn of the event loop appends goes in one batch', async (t) => {
  const log = openLog(t);
  const { durable, onDurable } = collect();
  const partition = log.openPartition('accounts', 3, { epoch: 0, replica: null, onDurable });
  t.equal(partition.append('one'), 1);
  t.equal(partition.append('zwei ü €'), 2);
  t.equal(partition.append(''), 3);
  t.equal(partition.appended, 3);
  t.equal(partition.durable, 0, 'nothing is acknowledged in the same turn');
  await partition.drained();
  t.equal(partition.durable, 3);
  t.hasStrict(durable, [{ group: 'accounts', partition: 3, batch: 1, firstSequence: 1, epoch: 0 }]);
  t.strictSame(durable[0]?.records, ['one', 'zwei ü €', '']);
  t.strictSame(
    [...log.read('accounts', 3, { afterBatch: 0 })],
    durable,
    'what is read is what was acknowledged',
  );
  t.hasStrict(log.tip('accounts', 3), { batch: 1, sequence: 3, hash: durable[0]?.hash });
});

t.test('one flush is in flight at a time, and takes along all partitions', async (t) => {
  const reports: FlushReport[] = [];
  const log = openLog(t, { onFlush: (report) => reports.push(report) });
  const { durable, onDurable } = collect();
  const beganMs = performance.now();
  const partitions = [0, 1, 2].map((n) =>
    log.openPartition('accounts', n, { epoch: 0, replica: null, onDurable }),
  );
  for (const partition of partitions) partition.append('a');
  await new Promise((resolve) => setImmediate(resolve));
  // The first flush has begun: these wait for it, whatever their number.
  for (let count = 0; count < 50; count += 1) for (const partition of partitions) partition.append('b');
  t.equal(log.outstanding, 153);
  await Promise.all(partitions.map((partition) => partition.drained()));
  t.hasStrict(reports, [
    { batches: 3, records: 3 },
    { batches: 3, records: 150 },
  ]);
  t.equal(reports.length, 2);
  const sum = (numbers: number[]): number => numbers.reduce((total, each) => total + each, 0);
  t.equal(sum(reports.map(({ bytes }) => bytes)), sum(durable.map(({ bytes }) => bytes.length)));
  t.ok(sum(reports.map(({ durationMs }) => durationMs)) < performance.now() - beganMs);
  t.equal(log.outstanding, 0);
  for (const n of [0, 1, 2]) {
    const sequences = durable
      .filter(({ partition }) => partition === n)
      .map(({ firstSequence }) => firstSequence);
    t.strictSame(sequences, [1, 2], 'acknowledged in order');
  }
});

t.test('the disk works on the next batch while the callers of one are answered', async (t) => {
  const log = openLog(t);
  const file = join(directory, `${opened}`, 'log', 'data.mdb');
  let writtenMeanwhile: boolean | null = null;
  const partition = log.openPartition('accounts', 0, {
    epoch: 0,
    replica: null,
    onCommitted: ({ batch }) => {
      if (batch === 1) partition.append('a record that the first batch called for');
    },
    onDurable: ({ batch }) => {
      if (batch > 1) return;
      // The thread does not come back to the event loop before it is there.
      const giveUpAt = performance.now() + LONG_ENOUGH_MS;
      do writtenMeanwhile = readFileSync(file).includes('a record that the first batch called for');
      while (!writtenMeanwhile && performance.now() < giveUpAt);
    },
  });
  partition.append('the first');
  await partition.drained();
  t.equal(writtenMeanwhile, true);
});

t.test('a batch keeps its bounds', async (t) => {
  const log = openLog(t, { batchRecordsMax: 4, batchBytesMax: 100 });
  const { durable, onDurable } = collect();
  const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable });
  for (let n = 1; n <= 10; n += 1) partition.append(`${n}`);
  partition.append('x'.repeat(60));
  partition.append('y'.repeat(60));
  partition.append('z'.repeat(300));
  partition.append('last');
  await partition.drained();
  t.strictSame(
    durable.map(({ records }) => records.length),
    [4, 4, 3, 1, 1, 1],
  );
  t.equal(partition.durable, 14);
  t.equal([...log.read('accounts', 0, { afterBatch: 0 })].length, 6);

  // With its newline each of the first has 25 bytes, each of the others 26.
  for (let n = 1; n <= 4; n += 1) partition.append('x'.repeat(24));
  await partition.drained();
  for (let n = 1; n <= 4; n += 1) partition.append('y'.repeat(25));
  await partition.drained();
  t.strictSame(
    durable.slice(6).map(({ records }) => records.length),
    [4, 3, 1],
  );
});

t.test('a batch is as young as its newest record, whatever the clock says meanwhile', async (t) => {
  const log = openLog(t, { now: () => 5_000 });
  const { durable, onDurable } = collect();
  let ofRecords = 9_000;
  const options = { epoch: 0, replica: null, onDurable, now: () => ofRecords };
  const partition = log.openPartition('accounts', 0, options);
  partition.append('ahead of the clock');
  await partition.drained();
  ofRecords = 4_000;
  partition.append('behind it');
  await partition.drained();
  t.strictSame(
    durable.map(({ timeMs }) => timeMs),
    [9_000, 5_000],
  );
});

t.test('an epoch is opened by a batch of its own, and an older one is refused', async (t) => {
  const log = openLog(t);
  const { durable, onDurable } = collect();
  const first = log.openPartition('accounts', 0, { epoch: 4, replica: null, onDurable });
  first.append('a');
  const closed = log.closePartition(first);
  t.throws(() => first.append('b'), /closed/, 'what it would take now it could not promise');
  await closed;
  t.strictSame(
    durable.map(({ batch, epoch, firstSequence, records }) => ({ batch, epoch, firstSequence, records })),
    [
      { batch: 1, epoch: 4, firstSequence: 1, records: [] },
      { batch: 2, epoch: 4, firstSequence: 1, records: ['a'] },
    ],
  );
  t.throws(() => log.openPartition('accounts', 0, { epoch: 3, replica: null, onDurable }), /epoch 3 is over/);
  const second = log.openPartition('accounts', 0, { epoch: 5, replica: null, onDurable });
  t.throws(() => log.openPartition('accounts', 0, { epoch: 5, replica: null, onDurable }), /open already/);
  await second.drained();
  t.hasStrict(log.tip('accounts', 0), { batch: 3, sequence: 1, epoch: 5 });
});

t.test('a record that the log cannot carry is refused', async (t) => {
  const log = openLog(t);
  const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable: () => {} });
  t.throws(() => partition.append('a\nb'), /newline/);
  t.throws(() => partition.append('\ud800'), /surrogate/);
  t.throws(() => log.openPartition('Accounts', 0, { epoch: 0, replica: null, onDurable: () => {} }), /group/);
  t.equal(partition.appended, 0);
});

t.test('reads from any batch and any sequence', async (t) => {
  const log = openLog(t, { batchRecordsMax: 3 });
  const { durable, onDurable } = collect();
  const partition = log.openPartition('accounts', 7, { epoch: 1, replica: null, onDurable });
  for (let n = 1; n <= 20; n += 1) partition.append(`record ${n}`);
  await partition.drained();
  t.strictSame([...log.read('accounts', 8, { fromSequence: 1 })], [], 'an empty partition has none');
  for (let sequence = 1; sequence <= 21; sequence += 1) {
    const records = [...log.read('accounts', 7, { fromSequence: sequence })].flatMap((batch) =>
      batch.records.map((record, index) => [batch.firstSequence + index, record]),
    );
    const wanted = records.filter(([at]) => Number(at) >= sequence);
    t.equal(wanted.length, 21 - sequence);
    t.ok(records.length - wanted.length < 3, 'starts with the batch that holds the sequence');
  }
  t.strictSame([...log.read('accounts', 7, { fromSequence: 0 })], durable);
  t.throws(() => [...log.read('accounts', 7, { fromSequence: 22 })], /ends at sequence 20/);
  t.hasStrict(log.partitions(), [{ group: 'accounts', partition: 7, tip: { sequence: 20 } }]);

  const reader = LogReader.openReader({ directory: join(directory, `${opened}`) });
  t.teardown(() => reader.close());
  t.strictSame([...reader.read('accounts', 7, { afterBatch: 0 })], durable, 'a reader beside the writer');
});

t.test('a replica is waited for, and its refusal stops its partition alone', async (t) => {
  const log = openLog(t);
  const { durable, onDurable } = collect();
  const gates: { batch: Batch; resolve(): void; reject(error: Error): void }[] = [];
  const replica: Replica = {
    publish: (batch) => new Promise((resolve, reject) => gates.push({ batch, resolve, reject })),
  };
  const failures: string[] = [];
  const onFailure = (error: Error): void => void failures.push(error.message);
  const replicated = log.openPartition('accounts', 0, { epoch: 0, replica, onDurable, onFailure });
  const local = log.openPartition('accounts', 1, { epoch: 0, replica: null, onDurable });
  replicated.append('a');
  local.append('b');
  await local.drained();
  replicated.append('c');
  local.append('d');
  await local.drained();
  t.equal(local.durable, 2, 'the other partition does not wait for the replica');
  t.equal(replicated.durable, 0);
  t.equal(gates.length, 1, 'one batch of a partition on its way');
  gates[0]?.resolve();
  while (gates.length < 2) await new Promise((resolve) => setImmediate(resolve));
  t.equal(replicated.durable, 1);
  gates[1]?.reject(new Error('another writer'));
  await replicated.drained();
  t.strictSame(failures, ['another writer']);
  t.equal(replicated.durable, 1);
  t.ok(replicated.closed);
  t.throws(() => replicated.append('e'), /closed/);
  local.append('f');
  await local.drained();
  t.equal(local.durable, 3);
  t.equal(log.outstanding, 0);
  t.strictSame(durable.filter(({ partition }) => partition === 0).length, 1);

  // Stepping down: what the replica never accepted goes.
  await log.truncateAfter('accounts', 0, 1);
  t.hasStrict(log.tip('accounts', 0), { batch: 1, sequence: 1 });
});

t.test('a log is copied batch by batch, and the copy is proven', async (t) => {
  const from = openLog(t, { batchRecordsMax: 2 });
  const to = openLog(t);
  const { durable, onDurable } = collect();
  const partition = from.openPartition('webhooks', 0, { epoch: 2, replica: null, onDurable });
  for (let n = 1; n <= 9; n += 1) partition.append(`${n}`);
  await partition.drained();
  const bytes = durable.map((batch) => batch.bytes);
  t.hasStrict(await to.appendForeign('webhooks', 0, bytes.slice(0, 3)), { batch: 3, sequence: 4 });
  await t.rejects(to.appendForeign('webhooks', 0, bytes.slice(4)), /batch 5|batch 4/, 'a gap');
  await t.rejects(to.appendForeign('webhooks', 0, bytes.slice(2)), /batch/, 'a repeat');
  t.match(await to.appendForeign('webhooks', 0, bytes.slice(3)), from.tip('webhooks', 0));
  t.strictSame([...to.read('webhooks', 0, { afterBatch: 0 })], durable);

  const given = /webhooks\/0 is being changed/;
  const cut = to.truncateAfter('webhooks', 0, 3);
  await t.rejects(to.appendForeign('webhooks', 0, bytes.slice(3)), given, 'it would stand behind a gap');
  await t.rejects(to.truncateAfter('webhooks', 0, 2), given);
  t.throws(() => to.openPartition('webhooks', 0, { epoch: 2, replica: null, onDurable }), given);
  await cut;
  t.match(await to.appendForeign('webhooks', 0, bytes.slice(3)), from.tip('webhooks', 0));

  await t.rejects(to.startAt('webhooks', 0, from.tip('webhooks', 0)), /not empty/);
  to.openPartition('webhooks', 0, { epoch: 2, replica: null, onDurable });
  await t.rejects(to.appendForeign('webhooks', 0, []), /open for writing/);
  to.openPartition('webhooks', 1, { epoch: 0, replica: null, onDurable });
  await t.rejects(to.startAt('webhooks', 1, from.tip('webhooks', 0)), /open for writing/);
});

t.test('a batch of another history follows nothing here, at the end of a log as on its way in', async (t) => {
  const at = join(directory, 'forked');
  const logs = [openLog(t, { directory: at, batchRecordsMax: 1 }), openLog(t, { batchRecordsMax: 1 })];
  const histories: Batch[][] = [];
  for (const [index, log] of logs.entries()) {
    const { durable, onDurable } = collect();
    const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable });
    for (let n = 1; n <= 4; n += 1) partition.append(`${n} of history ${index}`);
    await log.closePartition(partition);
    histories.push(durable);
  }
  const [own, other] = histories as [Batch[], Batch[]];
  const [log] = logs as [WriteAheadLog];
  await log.truncateAfter('accounts', 0, 3);
  await t.rejects(log.appendForeign('accounts', 0, [other[3]!.bytes]), { name: 'LogCorruption' });
  t.hasStrict(log.tip('accounts', 0), { batch: 3, hash: own[2]!.hash });
  await log.close();

  const database = openLogDatabase({ directory: at });
  database.putSync(['accounts', 0, 4], other[3]!.bytes);
  await database.close();
  const again = openLog(t, { directory: at });
  const options = { epoch: 0, replica: null, onDurable: () => {} };
  t.throws(() => again.openPartition('accounts', 0, options), { name: 'LogCorruption' });
  t.throws(() => [...again.read('accounts', 0, { afterBatch: 0 })], { name: 'LogCorruption' });
});

/** Nine batches of a record each, without the first five. */
async function trimmedLog(t: Test) {
  const log = openLog(t, { batchRecordsMax: 1 });
  const { durable, onDurable } = collect();
  const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable });
  for (let n = 1; n <= 9; n += 1) partition.append(`${n}`);
  await partition.drained();
  await log.trimBefore('accounts', 0, 6);
  return { log, partition, durable };
}

t.test('a trimmed log keeps its proof', async (t) => {
  const { log, partition, durable } = await trimmedLog(t);
  t.hasStrict(log.startOf('accounts', 0), { batch: 5, sequence: 5, hash: durable[4]?.hash });
  t.strictSame([...log.read('accounts', 0, { afterBatch: 5 })], durable.slice(5));
  t.strictSame([...log.read('accounts', 0, { fromSequence: 8 })], durable.slice(7));
  t.throws(() => [...log.read('accounts', 0, { fromSequence: 3 })], /trimmed/);
  t.throws(() => [...log.read('accounts', 0, { afterBatch: 2 })], /trimmed/);
  partition.append('10');
  await partition.drained();
  t.hasStrict(log.tip('accounts', 0), { batch: 10, sequence: 10 });
  await t.rejects(log.trimBefore('accounts', 0, 11), /batch 11: the batch is missing/);
  const holds = ({ batch, firstSequence: sequence, hash }: Batch): boolean =>
    log.holds('accounts', 0, { batch, sequence, hash });
  t.strictSame(durable.slice(0, 9).map(holds), [false, false, false, false, true, true, true, true, true]);
  t.notOk(holds({ ...durable[7]!, hash: durable[6]!.hash }), 'of another history');
  t.notOk(holds({ ...durable[9]!, batch: 11 }), 'beyond the end');
  t.notOk(
    holds({ ...durable[7]!, firstSequence: 9 }),
    'with another sequence, which would pass over a record',
  );
  await t.rejects(log.truncateAfter('accounts', 0, 9), /open for writing/);
  await log.closePartition(partition);
  await t.rejects(log.truncateAfter('accounts', 0, 4), /trimmed/);
  await log.truncateAfter('accounts', 0, 5);
  t.hasStrict(log.tip('accounts', 0), { batch: 5, sequence: 5, hash: durable[4]?.hash });
});

t.test(
  'what is cleared is empty, also of what was put before its beginning and not to its end',
  async (t) => {
    for (const kept of [9, 5]) {
      const { log, partition, durable } = await trimmedLog(t);
      await log.closePartition(partition);
      await log.truncateAfter('accounts', 0, kept);
      const bytes = durable.map((batch) => batch.bytes);
      await log.prepend('accounts', 0, emptyTip, bytes.slice(0, 3));
      await log.clear('accounts', 0);
      t.equal(log.lastBatchNumber('accounts', 0), 0);
      t.strictSame(log.tip('accounts', 0), emptyTip);
      const start = tipAt(durable[7]!);
      await log.startAt('accounts', 0, start);
      t.hasStrict(await log.appendForeign('accounts', 0, bytes.slice(8)), { batch: 9 });
      t.strictSame(log.startOf('accounts', 0), start);
    }
  },
);

t.test('a log from which a batch is gone does not end before it', async (t) => {
  const { log, partition } = await trimmedLog(t);
  await log.closePartition(partition);
  await log.close();
  const database = openLogDatabase({ directory: join(directory, `${opened}`) });
  await database.remove(['accounts', 0, 8]);
  await database.close();
  const reader = LogReader.openReader({ directory: join(directory, `${opened}`) });
  t.teardown(() => reader.close());
  const read = (): number => [...reader.read('accounts', 0, { fromSequence: 7 })].length;
  t.throws(read, /accounts\/0 batch 8 \(sequence 8\): the batch is missing/);
});

t.test('removals make room in the file, and not more each time', async (t) => {
  const { log, partition } = await trimmedLog(t);
  await log.closePartition(partition);
  const { size } = statSync(join(directory, `${opened}`, 'log', 'data.mdb'));
  t.ok(size > WAL_LIMITS.removalRoomBytes);
  await log.trimBefore('accounts', 0, 7);
  await log.trimBefore('accounts', 0, 8);
  await log.truncateAfter('accounts', 0, 8);
  const after = statSync(join(directory, `${opened}`, 'log', 'data.mdb')).size;
  t.ok(after < size + WAL_LIMITS.removalRoomBytes, `${after} bytes`);
});

t.test('so does cutting off the end', async (t) => {
  const { durable } = await trimmedLog(t);
  const log = openLog(t);
  const size = (): number => statSync(join(directory, `${opened}`, 'log', 'data.mdb')).size;
  await log.appendForeign(
    'accounts',
    0,
    durable.map(({ bytes }) => bytes),
  );
  await log.truncateAfter('accounts', 0, 9);
  t.ok(size() < WAL_LIMITS.removalRoomBytes, 'nothing was cut off');
  await log.truncateAfter('accounts', 0, 8);
  t.ok(size() > WAL_LIMITS.removalRoomBytes);
});

t.test('so does taking out what was put before its beginning and not to its end', async (t) => {
  const { log: from, durable } = await trimmedLog(t);
  const log = openLog(t);
  const size = (): number => statSync(join(directory, `${opened}`, 'log', 'data.mdb')).size;
  await log.startAt('accounts', 0, from.startOf('accounts', 0));
  await log.appendForeign(
    'accounts',
    0,
    durable.slice(5).map(({ bytes }) => bytes),
  );
  await log.removePrepended('accounts', 0);
  await log.prepend('accounts', 0, emptyTip, [durable[0]!.bytes]);
  t.ok(size() < WAL_LIMITS.removalRoomBytes, 'nothing was removed');
  await log.removePrepended('accounts', 0);
  t.ok(size() > WAL_LIMITS.removalRoomBytes);
  t.equal(log.firstBatchNumber('accounts', 0), 6, 'and no more than that');
  t.strictSame(log.tip('accounts', 0), from.tip('accounts', 0));
});

t.test('whatever the log writes is given up when its commit does not end', async (t) => {
  const from = await trimmedLog(t);
  const bytes = from.durable.map((batch) => batch.bytes);
  const at = join(directory, 'held');
  const before = openLog(t, { directory: at });
  await before.startAt('accounts', 0, from.log.startOf('accounts', 0));
  await before.appendForeign('accounts', 0, bytes.slice(5));
  await before.close();

  const log = openLog(t, { directory: at, commitMsMax: 20 });
  const letGo = await holdWriteLock(at);
  t.teardown(letGo);
  const given = /^LMDB did not commit to \S+: the commit has not ended in \d+ ms$/;
  await t.rejects(log.startAt('accounts', 1, log.tip('accounts', 0)), given);
  await t.rejects(log.trimBefore('accounts', 0, 7), given);
  await t.rejects(log.truncateAfter('accounts', 0, 8), given);
  await t.rejects(log.prepend('accounts', 0, emptyTip, bytes.slice(0, 5)), given);
  await letGo();
});

/** Another process is in a transaction on the log until the function that comes back is called. */
async function holdWriteLock(at: string): Promise<() => Promise<void>> {
  const script = `
    import { readSync, writeSync } from 'node:fs';
    import { openLogDatabase } from ${JSON.stringify(new URL('../../../wal/lmdb.ts', import.meta.url))};
    openLogDatabase({ directory: ${JSON.stringify(at)} }).transactionSync(() => {
      writeSync(1, 'held');
      readSync(0, Buffer.alloc(1));
    });`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const [word] = (await Promise.race([once(child.stdout, 'data'), ended])) as unknown[];
  if (String(word) !== 'held') throw new Error('the log was not held');
  return async () => {
    child.stdin.end();
    await ended;
  };
}

t.test('what was trimmed is put back, and counts once it meets the rest', async (t) => {
  const { log, partition, durable } = await trimmedLog(t);
  const bytes = durable.map((batch) => batch.bytes);
  await t.rejects(log.prepend('accounts', 0, emptyTip, bytes.slice(0, 2)), /open for writing/);
  await log.closePartition(partition);

  const reached = await log.prepend('accounts', 0, emptyTip, bytes.slice(0, 3));
  t.hasStrict(reached, { batch: 3, sequence: 3 });
  t.hasStrict(log.startOf('accounts', 0), { batch: 5 });
  t.strictSame([...log.read('accounts', 0, { afterBatch: 5 })], durable.slice(5));
  await t.rejects(log.prepend('accounts', 0, reached, bytes.slice(4, 5)), /batch/, 'a gap');
  await t.rejects(log.prepend('accounts', 0, reached, bytes.slice(3, 6)), /do not end where/);
  const other = openLog(t, { batchRecordsMax: 1 });
  const forged = other.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable: () => {} });
  for (let n = 1; n <= 5; n += 1) forged.append('forged');
  await forged.drained();
  const history = [...other.read('accounts', 0, { afterBatch: 0 })].map((batch) => batch.bytes);
  await t.rejects(log.prepend('accounts', 0, emptyTip, history), /do not end where/, 'another history');

  t.hasStrict(await log.prepend('accounts', 0, reached, bytes.slice(3, 5)), { batch: 5 });
  t.strictSame(log.startOf('accounts', 0), emptyTip);
  t.strictSame([...log.read('accounts', 0, { afterBatch: 0 })], durable);
  t.hasStrict(log.tip('accounts', 0), { batch: 9, sequence: 9 });
});

t.test('closing flushes what was taken, and it is found again', async (t) => {
  const log = openLog(t);
  const { durable, onDurable } = collect();
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable });
  for (let n = 1; n <= 1000; n += 1) partition.append(`${n}`);
  await log.close();
  t.equal(durable.flatMap(({ records }) => records).length, 1000);
  t.throws(() => partition.append('more'), /closed/);
  const again = WriteAheadLog.open({
    directory: join(directory, `${opened}`),
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  t.teardown(() => again.close());
  t.hasStrict(again.tip('accounts', 0), { sequence: 1000, epoch: 1 });
});

t.test('a log has one writer', async (t) => {
  const log = openLog(t);
  const options = { directory: join(directory, `${opened}`), now: Date.now, onFailure: () => {} };
  t.throws(() => WriteAheadLog.open(options), /being written by process/);
  const child = `import { WriteAheadLog } from ${JSON.stringify(join(import.meta.dirname, '../../../wal/log.ts'))};
    WriteAheadLog.open({ directory: ${JSON.stringify(options.directory)}, now: Date.now, onFailure: () => {} });`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', child], {
    encoding: 'utf8',
  });
  t.not(status, 0);
  t.match(stderr, `being written by process ${process.pid}`);
  await log.close();
  const again = WriteAheadLog.open(options);
  await again.close();
});

t.test('a log that could not be opened is free for whoever opens it when it is mended', async (t) => {
  const options = { directory: mkdtempSync(join(directory, 'mended-')), now: Date.now, onFailure: () => {} };
  await WriteAheadLog.open(options).close();
  const file = join(options.directory, 'log', 'data.mdb');
  const sound = readFileSync(file);
  writeFileSync(file, sound.subarray(0, 100));
  t.throws(() => WriteAheadLog.open(options), /damaged|shorter|cannot/);
  writeFileSync(file, sound);
  await WriteAheadLog.open(options).close();
});

t.test('a log that its user may not write is refused, and does not end the process', async (t) => {
  const directory = temporaryDirectory(t);
  await openLogDatabase({ directory }).close();
  const files = ['lock.mdb', 'data.mdb'].map((file) => join(directory, 'log', file));
  // Root may write everything; nobody may not.
  const isRoot = process.getuid?.() === 0;
  const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
  const owned = isRoot ? [directory, join(directory, 'log'), ...files] : [];
  for (const path of owned) chownSync(path, 65_534, 65_534);
  const script = `import { openLogDatabase } from '${join(import.meta.dirname, '../../../wal/lmdb.ts')}';
    try { openLogDatabase({ directory: '${directory}' }); } catch (error) { process.stdout.write(error.message); }`;
  for (const file of files) {
    chmodSync(file, 0o444);
    const args = ['--input-type=module', '-e', script];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', ...user });
    t.equal(stdout, `EACCES: permission denied, access '${file}'`, stderr);
    t.equal(status, 0);
    chmodSync(file, 0o644);
  }
});

t.test(
  'who may read a log, and not write its lock, is refused: beside a writer half of it is not seen',
  async (t) => {
    const directory = temporaryDirectory(t);
    await openLogDatabase({ directory }).close();
    const lock = join(directory, 'log', 'lock.mdb');
    chmodSync(lock, 0o444);
    for (const path of [directory, join(directory, 'log')]) chmodSync(path, 0o755);
    const script = `import { LogReader } from '${join(import.meta.dirname, '../../../wal/log-reader.ts')}';
    try { LogReader.openReader({ directory: '${directory}' }); } catch (error) { process.stdout.write(error.message); }`;
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const args = ['--input-type=module', '-e', script];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', ...user });
    t.equal(status, 0, stderr);
    t.match(stdout, `${lock} is needed to read what lies beside it (EACCES)`);
  },
);

t.test('a reader makes no log where there is none', async (t) => {
  const nowhere = join(directory, 'nowhere');
  t.throws(() => LogReader.openReader({ directory: nowhere }), /holds no log/);
  t.notOk(existsSync(nowhere));
});
