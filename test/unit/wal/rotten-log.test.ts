// Removals from a log of which a batch has rotted: a trim that could not say what its log begins after removes nothing, and what is
// cleared is gone whatever of it has rotted.
import t, { type Test } from 'tap';
import { emptyTip, encodeBatch, tipAt } from '../../../wal/batch.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

const PORTION = WAL_LIMITS.batchesPerTrim;
const BATCHES = 2 * PORTION + 1;

const bytes: Buffer[] = [];
for (let tip = emptyTip; tip.batch < BATCHES;) {
  const batch = encodeBatch({
    group: 'accounts',
    partition: 0,
    batch: tip.batch + 1,
    epoch: 0,
    firstSequence: tip.sequence + 1,
    records: ['r'],
    recordsBytes: 1,
    timeMs: 0,
    previousHash: tip.hash,
  });
  bytes.push(batch.bytes);
  tip = tipAt(batch);
}

async function withRotten(t: Test, rotten: readonly number[]): Promise<WriteAheadLog> {
  const directory = temporaryDirectory(t);
  const options = { directory, now: Date.now, onFailure: (error: Error) => void t.fail(error.message) };
  const written = WriteAheadLog.open(options);
  await written.appendForeign('accounts', 0, bytes);
  await written.close();
  const database = openLogDatabase({ directory });
  for (const batch of rotten) {
    const damaged = Buffer.from(bytes[batch - 1]!);
    damaged[64]! ^= 1;
    await database.put(['accounts', 0, batch], damaged);
  }
  await database.close();
  const log = WriteAheadLog.open(options);
  t.teardown(() => log.close());
  return log;
}

t.test('a trim that would come upon it removes nothing', async (t) => {
  // What would be the first batch, the last that goes, and the last of another transaction.
  for (const rotten of [BATCHES, BATCHES - 1, PORTION]) {
    const log = await withRotten(t, [rotten]);
    await t.rejects(log.trimBefore('accounts', 0, BATCHES), { name: 'LogCorruption', batch: rotten });
    t.equal(log.firstBatchNumber('accounts', 0), 1);
    t.equal(log.startOf('accounts', 0).batch, 0);
  }
});

t.test('what is cleared is empty', async (t) => {
  const all = Array.from(bytes, (_, index) => index + 1);
  for (const rotten of [[PORTION], [BATCHES], all]) {
    const log = await withRotten(t, rotten);
    await log.clear('accounts', 0);
    t.equal(log.lastBatchNumber('accounts', 0), 0);
    t.strictSame(log.tip('accounts', 0), emptyTip);
  }
});
