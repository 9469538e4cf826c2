// A partition that is to be served does not wait for the views of those that this node only follows, however long their logs.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { encodeIdempotency } from '../../actors/accounts/rows.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { encodeBatch } from '../../wal/batch.ts';
import { fill, openStorage, serve } from './storage-driven.ts';

const directory = mkdtempSync(join(tmpdir(), 'daftari-take-over-'));
t.teardown(() => rmSync(directory, { recursive: true }));

const FOLLOWED = [0, 1, 2];
const SERVED = 3;
/** Commits of the views of each followed log. */
const COMMITS = 5;

t.test('the views of a partition that is taken over go before those that are prepared', async (t) => {
  const before = openStorage(directory);
  for (const partition of FOLLOWED) {
    await fill(before, partition, COMMITS * LIMITS.checkpointRecordsPerCommitMax);
  }
  await fill(before, SERVED, 1);
  await before.close();
  rmSync(join(directory, 'views'), { recursive: true });

  const after = openStorage(directory);
  const ended: string[] = [];
  const followed = FOLLOWED.map(async (partition) => {
    await after.catchUpViews('accounts', partition);
    ended.push(`followed ${partition}`);
  });
  const served = serve(after, SERVED).then(() => ended.push('served'));
  await Promise.all([...followed, served]);
  t.equal(ended[0], 'served');
  t.equal(ended.length, FOLLOWED.length + 1);
  await after.close();
});

t.test('views of batches that were cut off the log are made anew, others stay', async (t) => {
  const PARTITION = 9;
  const storage = openStorage(directory);
  await fill(storage, PARTITION, 1);
  const before = storage.log.tip('accounts', PARTITION);
  await storage.closePartition('accounts', PARTITION);
  await storage.catchUpViews('accounts', PARTITION);
  t.equal(await storage.dropStrayViews('accounts', PARTITION), false);
  t.strictSame(storage.views.position('accounts', PARTITION)?.hash, before.hash);

  // As with a replaced writer's last batch: the stream has another one in its place.
  const last = storage.log.batch('accounts', PARTITION, before.batch);
  const { hash: previousHash } = storage.log.batch('accounts', PARTITION, before.batch - 1);
  const recordsBytes = last.records.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
  const inItsPlace = encodeBatch({ ...last, timeMs: last.timeMs + 1, previousHash, recordsBytes });
  await storage.log.truncateAfter('accounts', PARTITION, before.batch - 1);
  await storage.log.appendForeign('accounts', PARTITION, [inItsPlace.bytes]);
  storage.log.refresh();
  t.equal(await storage.dropStrayViews('accounts', PARTITION), true);
  t.equal(storage.views.position('accounts', PARTITION), null);
  await storage.catchUpViews('accounts', PARTITION);
  t.strictSame(
    storage.views.position('accounts', PARTITION)?.hash,
    storage.log.tip('accounts', PARTITION).hash,
  );
  await storage.close();
});

t.test('views that are dropped while rows are let go of stay dropped', async (t) => {
  const PARTITION = 11;
  const storage = openStorage(directory);
  await fill(storage, PARTITION, 1);
  await storage.catchUpViews('accounts', PARTITION);
  const rows = Array.from({ length: 6 * LIMITS.retentionRowsPerCommitMax }, (_, i) => {
    const of1970 = makeId('charge', `${encodeTime(i)}${'0'.repeat(16)}`);
    const entry = { requestHash: 'x'.repeat(22), transactionId: of1970 };
    return { table: 'idempotency', key: of1970, value: encodeIdempotency(entry) };
  });
  const position = storage.views.position('accounts', PARTITION)!;
  await storage.views.commit('accounts', PARTITION, position, rows);

  const swept = storage.sweep();
  await storage.losePartition('accounts', PARTITION);
  await storage.clear('accounts', PARTITION);
  await swept;
  storage.views.refresh();
  t.equal(storage.views.position('accounts', PARTITION), null, 'no rows, and no claim to any');
  await storage.close();
});
