// What `verify` tells of a partition that is damaged and has also lost its end, as its checkpoint knows: both, and no end that is not lost.
import t from 'tap';
import { emptyTip, encodeBatch, tipAt } from '../../../wal/batch.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { noteUnreadable } from '../../../wal/unreadable.ts';
import { ViewStore } from '../../../wal/views.ts';
import { next, toolJson } from './tool-logs.ts';

/** So many that a partition is not read to its end when all of them are damaged. */
const BATCHES = WAL_LIMITS.faultsShownMax + 20;
const NAME = { group: 'accounts', partition: 1 };

/** A record each. */
const batches: { bytes: Buffer; batch: number; sequence: number; hash: Buffer }[] = [];
for (let tip = emptyTip; tip.batch < BATCHES;) {
  const records = ['r'];
  const following = { batch: tip.batch + 1, firstSequence: tip.sequence + 1, previousHash: tip.hash };
  const batch = encodeBatch({ ...NAME, ...following, epoch: 0, records, recordsBytes: 1, timeMs: 0 });
  tip = tipAt(batch);
  batches.push({ bytes: batch.bytes, ...tip });
}

/** A log of the first `last` batches, with some of them damaged, and a checkpoint up to `checkpoint`. */
async function logWith(
  last: number,
  damaged: readonly number[],
  checkpoint: number,
  hash = batches[checkpoint - 1]!.hash,
): Promise<string> {
  const directory = next();
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure });
  const some = batches.slice(0, last).map(({ bytes }) => bytes);
  await log.appendForeign(NAME.group, NAME.partition, some);
  await log.close();
  const database = openLogDatabase({ directory });
  await database.batch(() => {
    for (const batch of damaged) {
      const bytes = Buffer.from(batches[batch - 1]!.bytes);
      bytes.writeUInt8(bytes.readUInt8(64) ^ 3, 64);
      void database.put([NAME.group, NAME.partition, batch], bytes);
    }
  });
  await database.close();
  const views = ViewStore.open({ directory });
  const { batch, sequence } = batches[checkpoint - 1]!;
  await views.commit(NAME.group, NAME.partition, { batch, sequence, hash }, []);
  await views.close();
  return directory;
}

/** Their batches; of the end that is lost, where it begins. */
async function faultsOf(directory: string): Promise<unknown[]> {
  const { status, report } = await toolJson('verify', '--data', directory);
  t.equal(status, 1);
  return report.faults.map(({ batch, sequence, problem }: Record<string, unknown>) =>
    /the end of the log is lost/.test(String(problem)) ? { lostFrom: [batch, sequence] } : batch,
  );
}

t.test('damage, and behind it an end that is lost', async (t) => {
  t.strictSame(await faultsOf(await logWith(6, [2, 3], 8)), [2, 3, { lostFrom: [7, 7] }]);
  t.strictSame(await faultsOf(await logWith(6, [2], 7)), [2, { lostFrom: [7, 7] }]);
});

t.test('damage alone, where the checkpoint reaches no further than the log', async (t) => {
  t.strictSame(await faultsOf(await logWith(6, [2], 6)), [2]);
  t.strictSame(await faultsOf(await logWith(6, [2], 4)), [2]);
  t.strictSame(await faultsOf(await logWith(6, [2, 6], 6)), [2, 6]);
});

t.test('also where that is of another log', async (t) => {
  for (const checkpoint of [4, 6]) {
    const directory = await logWith(6, [2], checkpoint, Buffer.alloc(32, 1));
    t.strictSame(await faultsOf(directory), [2]);
  }
});

t.test('so many faults that it is not read to its end: where that is lost from is not guessed', async (t) => {
  const all = Array.from({ length: BATCHES - 1 }, (_, index) => index + 1);
  const told = all.slice(0, WAL_LIMITS.faultsShownMax);
  t.strictSame(await faultsOf(await logWith(BATCHES - 1, all, BATCHES)), told);
});

t.test('one whose end ends the process that reads it: that is where the reading stopped', async (t) => {
  const directory = await logWith(6, [], 8);
  noteUnreadable(directory, {
    names: [NAME],
    places: [{ ...NAME, batch: 5, ending: 'SIGBUS' }],
    views: null,
  });
  t.strictSame(await faultsOf(directory), [5]);
});
