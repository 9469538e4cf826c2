// A partition's time does not go back where its log begins behind its last record: after a snapshot, or a trim. Nor where its last batch
// is said to be older than that.

import { join } from 'node:path';
import t from 'tap';
import { makeId } from '../../src/domain/id.ts';
import { encodeBatch, tipAt } from '../../wal/batch.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { ViewStore } from '../../wal/views.ts';
import { OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const HOUR_MS = 3_600_000;
const RIGHT = 1_772_357_400_000;
const PARTITION = 3;

/** Opens an account by a clock that says `time`; resolves with the partition's time. */
async function openAccountAt(directory: string, time: number, n: number): Promise<number> {
  const storage = openStorage(directory, undefined, () => time);
  await serve(storage, PARTITION);
  const accountId = makeId('account', `${String(n).padStart(24, '0')}00`);
  const { type } = await send(storage, PARTITION, { ...OPEN_ACCOUNT, accountId });
  if (type !== 'done') throw new Error(type);
  const now = storage.partition('accounts', PARTITION)!.now();
  await storage.close();
  return now;
}

function opened(directory: string): { log: WriteAheadLog; views: ViewStore } {
  return {
    log: WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => t.fail(error.message) }),
    views: ViewStore.open({ directory }),
  };
}

/** As an empty machine does with a snapshot: the views, and the log from their batch on. */
async function restore(from: string, to: string): Promise<void> {
  const [source, target] = [opened(from), opened(to)];
  const position = source.views.position('accounts', PARTITION)!;
  const rows = [...source.views.rows('accounts', PARTITION)];
  await target.views.commit('accounts', PARTITION, position, rows);
  const tip = tipAt(source.log.batch('accounts', PARTITION, position.batch));
  await target.log.startAt('accounts', PARTITION, tip);
  for (const { log, views } of [source, target]) await Promise.all([log.close(), views.close()]);
}

/** As batches before 2026-11-23 were: with the time of the process's clock. */
async function giveLastBatchTime(directory: string, timeMs: number): Promise<void> {
  const { log, views } = opened(directory);
  const { batch } = log.tip('accounts', PARTITION);
  const last = log.batch('accounts', PARTITION, batch);
  const { hash: previousHash } = log.batch('accounts', PARTITION, batch - 1);
  const recordsBytes = last.records.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
  await log.truncateAfter('accounts', PARTITION, batch - 1);
  const { bytes } = encodeBatch({ ...last, timeMs, previousHash, recordsBytes });
  await log.appendForeign('accounts', PARTITION, [bytes]);
  await views.drop('accounts', PARTITION);
  await Promise.all([log.close(), views.close()]);
}

t.test('after a start with a clock ahead that was set right', async (t) => {
  const root = temporaryDirectory(t);
  const [before, after] = [join(root, 'before'), join(root, 'after')];
  await openAccountAt(before, RIGHT + HOUR_MS, 1);
  const reached = await openAccountAt(before, RIGHT, 2);
  t.ok(reached >= RIGHT + HOUR_MS, 'records keep their future time, and so do new ones');
  await restore(before, after);
  t.ok((await openAccountAt(after, RIGHT, 3)) >= reached, 'also where none of them is in the log');
});

t.test('after a clock that was set back, where a batch says an earlier time than its record', async (t) => {
  const directory = temporaryDirectory(t);
  const reached = await openAccountAt(directory, RIGHT + HOUR_MS, 1);
  await giveLastBatchTime(directory, RIGHT);
  t.ok((await openAccountAt(directory, RIGHT, 2)) >= reached);
});
