// Rows whose time is over go in the background: no checkpoint waits for that, nor does a stop.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { Checkpoints } from '../../src/storage/checkpoints.ts';
import { ViewStore } from '../../wal/views.ts';
import { OPEN_ACCOUNT, openStorage, overdueKeys, POLICIES, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const PORTIONS = 40;
const ROWS = PORTIONS * LIMITS.retentionRowsPerCommitMax;

/** Two partitions; the first has many rows whose time is over, the second a record that its views lack. */
async function withOldRows(t: Test) {
  const directory = temporaryDirectory(t);
  const storage = openStorage(directory);
  for (const partition of [0, 1]) {
    await serve(storage, partition);
    await send(storage, partition, OPEN_ACCOUNT);
  }
  await storage.catchUpViews('accounts', 0);
  const { overdue, recent } = overdueKeys(ROWS);
  const rows = [...overdue, ...recent];
  await storage.views.commit('accounts', 0, storage.views.position('accounts', 0)!, rows);
  return { directory, storage, recent };
}

function keysIn(views: ViewStore): string[] {
  return Array.from(
    views.reader('accounts', 0).range('idempotency', { start: '', end: '~' }),
    ({ key }) => key,
  );
}

t.test('a checkpoint goes before the rest of a sweep', async (t) => {
  const { storage, recent } = await withOldRows(t);
  const order: string[] = [];
  const swept = storage.sweep().then(() => order.push('swept'));
  await storage.catchUpViews('accounts', 1);
  order.push('checkpointed');
  t.equal((await send(storage, 0, { type: 'AddUser', email: 'u@shop.test', role: 'MEMBER' })).type, 'done');
  await storage.catchUpViews('accounts', 0);
  order.push('its own, too');
  await swept;
  t.same(order, ['checkpointed', 'its own, too', 'swept']);
  const { sequence } = storage.log.tip('accounts', 0);
  t.equal(storage.views.position('accounts', 0)?.sequence, sequence, 'which it does not put back');
  t.same(keysIn(storage.views), recent.map(({ key }) => key).sort());
  await storage.close();
});

t.test(
  'of those that are asked for at once each is told of its end, also of one partition, or of a thread that ended',
  async (t) => {
    const { directory, storage, recent } = await withOldRows(t);
    await storage.close();
    const checkpoints = new Checkpoints(directory, POLICIES, (error) => void t.fail(error.message));
    await Promise.all([0, 0, 1].map((partition) => checkpoints.sweep('accounts', partition, Date.now())));
    const left = checkpoints.sweep('accounts', 0, Date.now());
    await checkpoints.close();
    await left;
    await checkpoints.sweep('accounts', 0, Date.now());
    const views = ViewStore.open({ directory });
    t.same(keysIn(views), recent.map(({ key }) => key).sort());
    await views.close();
  },
);

t.test('where checkpoints never end, a sweep has its turns', async (t) => {
  const directory = temporaryDirectory(t);
  const partitions = Array.from({ length: 4 * LIMITS.checkpointsPerSweepPortion }, (_, number) => number);
  const storage = openStorage(directory);
  for (const partition of partitions) {
    await serve(storage, partition);
    await send(storage, partition, OPEN_ACCOUNT);
  }
  await storage.close();
  rmSync(join(directory, 'views'), { recursive: true });

  const checkpoints = new Checkpoints(directory, POLICIES, (error) => void t.fail(error.message));
  const ended: string[] = [];
  const advanced = partitions.map(async (partition) => {
    await checkpoints.advance('accounts', partition, 1, false);
    ended.push('advanced');
  });
  const swept = checkpoints.sweep('accounts', 0, Date.now()).then(() => ended.push('swept'));
  await Promise.all([...advanced, swept]);
  const before = ended.indexOf('swept');
  t.ok(before >= LIMITS.checkpointsPerSweepPortion && before < partitions.length, `after ${before}`);
  await checkpoints.close();
});

t.test('a stop ends a sweep; the rest is for the next one', async (t) => {
  const { directory, storage, recent } = await withOldRows(t);
  // So many that whoever went on with each of them would come to the last when all is closed.
  for (let partition = 2; partition < 32; partition += 1) await serve(storage, partition);
  const close = storage.views.close.bind(storage.views);
  let isClosed = false;
  t.capture(storage.views, 'close', () => {
    isClosed = true;
    return close();
  });
  t.capture(storage.views, 'refresh', () => void t.notOk(isClosed, 'of what is closed nothing is read'));
  const swept = storage.sweep();
  await storage.close();
  await swept;
  const views = ViewStore.open({ directory });
  const left = keysIn(views).length - recent.length;
  t.ok(left > 0 && left < ROWS, `${left} of ${ROWS}`);
  await views.close();
});
