// A batch that is damaged where a checkpoint still has to read it: its partition stops and says so, and the process lives and
// stops as it should.

import { once } from 'node:events';
import t, { type Test } from 'tap';
import { logTools } from '../../src/log-tools/commands.ts';
import type { Storage } from '../../src/storage/storage.ts';
import type { ViewPosition } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import { damageBatch, OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';
import { runTool } from './wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const ADD_USER = { type: 'AddUser', email: 'user@shop.test', role: 'MEMBER' };

/** Two partitions, the views of both current, and the batch that those of the first reach damaged. */
async function damaged(t: Test) {
  const directory = temporaryDirectory(t);
  const told: string[] = [];
  const damage = new EventTarget();
  const storage = openStorage(directory, (group, partition, error) => {
    told.push(`${group}/${partition}: ${error.name}`);
    damage.dispatchEvent(new Event('told'));
  });
  const isTold = once(damage, 'told');
  for (const partition of [0, 1]) {
    await serve(storage, partition);
    await send(storage, partition, OPEN_ACCOUNT);
    await storage.catchUpViews('accounts', partition);
  }
  const { batch } = storage.log.tip('accounts', 0);
  damageBatch(directory, storage.log.bytesOf('accounts', 0, batch)!);
  for (const partition of [0, 1]) t.equal((await send(storage, partition, ADD_USER)).type, 'done');
  return { directory, storage, told, isTold };
}

/** Of a storage that was closed: an account and its user. */
async function withUser(t: Test): Promise<string> {
  const directory = temporaryDirectory(t);
  const storage = openStorage(directory);
  await serve(storage, 0);
  await send(storage, 0, OPEN_ACCOUNT);
  await send(storage, 0, ADD_USER);
  await storage.close();
  return directory;
}

t.test('damage that a checkpoint comes upon stops its partition, not the process', async (t) => {
  const { storage, told, isTold } = await damaged(t);
  storage.checkpoint();
  await isTold;
  t.same(told, ['accounts/0: LogCorruption']);
  t.same(await send(storage, 0, ADD_USER), { type: 'unavailable' });
  t.equal((await send(storage, 1, { ...ADD_USER, email: 'second@shop.test' })).type, 'done');
  await storage.close();
});

t.test('nor is a stop cut short by it: the views of the others reach the end of their logs', async (t) => {
  const { directory, storage, told } = await damaged(t);
  await storage.close();
  t.same(told, ['accounts/0: LogCorruption']);
  const after = openStorage(directory);
  t.equal(after.views.position('accounts', 1)?.sequence, after.log.tip('accounts', 1).sequence);
  await after.close();
});

t.test('damage that an opening comes upon is told each time, and ends no process', async (t) => {
  const directory = temporaryDirectory(t);
  const before = openStorage(directory);
  await serve(before, 0);
  await send(before, 0, OPEN_ACCOUNT);
  await before.closePartition('accounts', 0);
  // Nothing was written when it was taken over: the views need none of these batches, and the end of the log is proved by its last two.
  const takeOver = (storage: Storage, epoch: number): Promise<unknown> =>
    storage.openPartition('accounts', 0, { epoch, replica: null, onFenced: null });
  for (const epoch of [2, 3, 4]) {
    await takeOver(before, epoch);
    await before.closePartition('accounts', 0);
  }
  const { batch } = before.log.tip('accounts', 0);
  const bytes = before.log.bytesOf('accounts', 0, batch - 2)!;
  await before.close();
  damageBatch(directory, bytes, 40);

  const after = openStorage(directory);
  for (const _ of ['once', 'again']) {
    await t.rejects(takeOver(after, 5), { name: 'LogCorruption', batch: batch - 2 });
  }
  await serve(after, 1);
  t.equal((await send(after, 1, OPEN_ACCOUNT)).type, 'done', 'others are served');
  t.equal(after.log.tip('accounts', 0).batch, batch, 'and nothing is written of it');
  await after.close();
});

t.test('views are not gone on from that say another sequence than their batch ends with', async (t) => {
  const directory = temporaryDirectory(t);
  const storage = openStorage(directory);
  await serve(storage, 0);
  await send(storage, 0, OPEN_ACCOUNT);
  await storage.close();
  const views = ViewStore.open({ directory });
  const position = views.position('accounts', 0)!;
  // A bit of it turned over: what comes next would be passed over.
  await views.commit('accounts', 0, { ...position, sequence: position.sequence + 2 }, []);
  await views.close();
  const again = openStorage(directory);
  await t.rejects(serve(again, 0), {
    name: 'LogCorruption',
    message: /ends with sequence 1: the views are damaged, move them away/,
  });
  await again.close();
  for (const tool of ['verify', 'inspect'] as const) {
    const { status, out } = await runTool(logTools, tool, '--data', directory);
    t.equal(status, 1);
    t.match(out, 'the checkpoint was made from another log than this one');
  }
});

t.test(
  'nor from such as are not of this log: a start names where they are, and which is to be put back',
  async (t) => {
    const directory = await withUser(t);
    const views = ViewStore.open({ directory });
    const reached = views.position('accounts', 0)!;
    const { batch } = reached;
    const first = { batch: 1, sequence: 0, hash: Buffer.alloc(32) };
    const problems: [ViewPosition, string][] = [
      [{ ...reached, batch: batch + 2 }, `the log ends with batch ${batch}: it is older than its views`],
      [{ ...reached, hash: Buffer.alloc(32, 1) }, 'its hash is not the one that the views were made from'],
      [first, `the log begins after batch ${batch - 1}: it was trimmed beyond its views`],
    ];
    for (const [position, problem] of problems) {
      await views.commit('accounts', 0, position, []);
      const again = openStorage(directory);
      if (position === first) await again.log.trimBefore('accounts', 0, batch);
      await t.rejects(serve(again, 0), {
        name: 'LogCorruption',
        batch: position.batch,
        sequence: position.sequence,
        problem,
      });
      await again.close();
    }
    await views.close();
  },
);

t.test(
  'views that could not be made anew are not dropped: they are all that is left of what was trimmed',
  async (t) => {
    const directory = await withUser(t);

    const storage = openStorage(directory);
    const reached = storage.views.position('accounts', 0)!;
    await storage.log.trimBefore('accounts', 0, reached.batch);
    storage.log.refresh();
    t.equal(storage.lacksHistory('accounts', 0), false);
    const refusal = {
      name: 'LogCorruption',
      problem: /^what was before was trimmed, and its views are gone or /,
    };
    const format = {
      table: 'format',
      key: '',
      value: storage.views.reader('accounts', 0).get('format', '')!,
    };
    const early = { ...reached, batch: reached.batch - 2, sequence: reached.sequence - 1 };
    for (const [what, position, value] of [
      ['of another version', reached, 'another'],
      ['that end before the log begins', early, format.value],
    ] as const) {
      await storage.views.commit('accounts', 0, position, [{ ...format, value }]);
      const rows = [...storage.views.rows('accounts', 0)];
      t.equal(storage.lacksHistory('accounts', 0), true, what);
      t.same(storage.lags('accounts', 1), [], 'no start makes them');
      await t.rejects(storage.catchUpViews('accounts', 0), refusal, what);
      storage.views.refresh();
      t.same([...storage.views.rows('accounts', 0)], rows, 'all of them are there');
    }
    await storage.views.commit('accounts', 0, reached, [format]);
    await serve(storage, 0);
    await storage.close();
  },
);
