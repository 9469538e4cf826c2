// A partition that is to be served does not wait for the views of those that this node only follows, however long their logs.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { Checkpoints } from '../../src/storage/checkpoints.ts';
import { encodeBatch } from '../../wal/batch.ts';
import { WAL_LIMITS } from '../../wal/limits.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { ViewStore } from '../../wal/views.ts';
import { fill, OPEN_ACCOUNT, openStorage, overdueKeys, POLICIES, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const directory = temporaryDirectory(t);

const FOLLOWED = [0, 1, 2];
const SERVED = 3;
/** Commits of the views of each followed log. */
const COMMITS = 5;
const RECORDS = COMMITS * LIMITS.checkpointRecordsPerCommitMax;

t.test('the views of a partition that is taken over go before those that are prepared', async (t) => {
  const before = openStorage(directory);
  for (const partition of FOLLOWED) {
    await fill(before, partition, RECORDS);
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

for (const toServe of [true, false]) {
  const why = toServe ? 'taken over' : 'prepared';
  t.test(
    `while the views of long logs that are ${why} are made, those of what is served are kept up`,
    async (t) => {
      const { checkpoints } = makeAnew(t, directory);
      const ended: string[] = [];
      const twoCommits = 2 * LIMITS.checkpointRecordsPerCommitMax;
      const long = FOLLOWED.map(async (partition) => {
        await checkpoints.advance('accounts', partition, twoCommits, toServe);
        ended.push(why);
      });
      const kept = checkpoints.advance('accounts', SERVED, 1, false).then(() => ended.push('kept up'));
      await Promise.all([...long, kept]);
      t.strictSame(ended, ['kept up', why, why, why]);
    },
  );
}

t.test('a stop does not wait for the views of a long log', async (t) => {
  const { checkpoints, views } = makeAnew(t, directory);
  const advancing = t.rejects(checkpoints.advance('accounts', 0, RECORDS, true), /has ended/);
  await checkpoints.close();
  await advancing;
  const reached = views.position('accounts', 0)?.sequence ?? 0;
  t.ok(reached < RECORDS, `${reached} of ${RECORDS}`);
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

  // Before a cut: they go when it takes what they were made from, and stay when it does not.
  t.equal(await storage.dropViewsAfter('accounts', PARTITION, before.batch), false);
  t.strictSame(storage.views.position('accounts', PARTITION)?.hash, before.hash);
  t.equal(await storage.dropViewsAfter('accounts', PARTITION, before.batch - 1), true);
  t.equal(storage.views.position('accounts', PARTITION), null);
  t.equal(await storage.dropViewsAfter('accounts', PARTITION, 0), false, 'none are left');
  await storage.catchUpViews('accounts', PARTITION);

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

t.test('views that are being made are let go of before any of what they are made of goes', async (t) => {
  const home = temporaryDirectory(t);
  const [CUT, CLEARED] = [0, 1];
  const before = openStorage(home);
  for (const partition of [CUT, CLEARED]) await fill(before, partition, 1);
  await before.close();
  rmSync(join(home, 'views'), { recursive: true });

  const storage = openStorage(home);
  for (const [partition, go] of [
    [CUT, () => storage.dropViewsAfter('accounts', CUT, 0)],
    [CLEARED, () => storage.clear('accounts', CLEARED)],
  ] as const) {
    const made = storage.catchUpViews('accounts', partition);
    await Promise.all([t.rejects(made, /was let go/), go()]);
    storage.views.refresh();
    t.equal(
      storage.views.position('accounts', partition)?.sequence ?? 0,
      0,
      'and nothing comes back of them',
    );
  }
  await storage.close();
});

t.test('rows that are left of a restore are not taken for the state of a log that has nothing', async (t) => {
  const [WRITTEN, EMPTY] = [10, 11];
  const storage = openStorage(directory);
  await serve(storage, WRITTEN);
  const about = { accountId: makeId('account', `${encodeTime(0)}${'0'.repeat(16)}`), deadline: Infinity };
  t.equal((await send(storage, WRITTEN, { ...OPEN_ACCOUNT, ...about })).type, 'done');
  await storage.closePartition('accounts', WRITTEN);
  await storage.catchUpViews('accounts', WRITTEN);
  // Its process died before the position was written, and there is no snapshot any more.
  await storage.views.commit('accounts', EMPTY, null, [...storage.views.rows('accounts', WRITTEN)]);
  await serve(storage, EMPTY);
  t.equal((await send(storage, EMPTY, { ...OPEN_ACCOUNT, ...about })).type, 'done');
  storage.log.refresh();
  t.equal(storage.log.tip('accounts', EMPTY).sequence, 1, 'it is recorded: there was none');
  await storage.close();
});

t.test('what is let go of is written no more, also while rows whose time is over go', async (t) => {
  const home = temporaryDirectory(t);
  const views = ViewStore.open({ directory: home });
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory: home, now: Date.now, onFailure });
  const checkpoints = new Checkpoints(home, POLICIES, onFailure);
  t.teardown(async () => {
    await Promise.all([checkpoints.close(), views.close(), log.close()]);
  });
  const { overdue, recent } = overdueKeys(4 * LIMITS.retentionRowsPerCommitMax);
  const rows = [...overdue, ...recent];
  const places = [0, 1] as const;
  for (const partition of places) {
    await views.commit('accounts', partition, { sequence: 1, batch: 1, hash: Buffer.alloc(32) }, rows);
  }
  const swept = places.map((partition) => checkpoints.sweep('accounts', partition, Date.now()));
  // The first is under way, the second waits for it: whoever asked for that is not to wait for what never begins.
  for (const partition of places.toReversed()) {
    await checkpoints.release('accounts', partition);
    await views.drop('accounts', partition);
  }
  await Promise.all(swept);
  views.refresh();
  for (const partition of places) t.equal(views.position('accounts', partition), null);

  // Whoever waits for its views is told that they do not come.
  const advancing = checkpoints.advance('accounts', 0, 0, true);
  await Promise.all([t.rejects(advancing, /was let go/), checkpoints.release('accounts', 0)]);
});

t.test('nor is anything of it removed, where its views were about to be made anew', async (t) => {
  const home = temporaryDirectory(t);
  const views = ViewStore.open({ directory: home });
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory: home, now: Date.now, onFailure });
  const checkpoints = new Checkpoints(home, POLICIES, onFailure);
  t.teardown(() => Promise.all([views.close(), log.close()]));
  const rowsOf = (value: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({ table: 'row', key: String(n), value }));
  const format = { table: 'format', key: '', value: 'of another version' };
  const old = [format, ...rowsOf('old', 4 * WAL_LIMITS.rowsPerDrop)];
  await views.commit('accounts', 0, { sequence: 1, batch: 1, hash: Buffer.alloc(32) }, old);
  const advancing = checkpoints.advance('accounts', 0, 1, true);
  await Promise.all([t.rejects(advancing, /was let go/), checkpoints.release('accounts', 0)]);
  // Of a snapshot.
  const rows = rowsOf('new', 10);
  await views.commit('accounts', 0, null, rows);
  await checkpoints.close();
  views.refresh();
  t.strictSame(
    [...views.rows('accounts', 0)].filter(({ table }) => table === 'row'),
    rows,
  );
});

/** The thread that makes views, over logs that have none. */
function makeAnew(t: Test, home: string) {
  rmSync(join(home, 'views'), { recursive: true });
  const views = ViewStore.open({ directory: home });
  const checkpoints = new Checkpoints(home, POLICIES, (error) => void t.fail(error.message));
  t.teardown(() => Promise.all([checkpoints.close(), views.close()]));
  return { views, checkpoints };
}

/** The home goes when the test ends. */
function startOver(t: Test, home: string) {
  return makeAnew(t, home);
}

t.test(
  'who lets go of a partition whose rows are looked through does not wait for the views of others',
  async (t) => {
    const home = temporaryDirectory(t);
    const [SWEPT, LONG] = [0, 1];
    const before = openStorage(home);
    for (const partition of [SWEPT, LONG]) {
      await fill(before, partition, RECORDS);
    }
    const { sequence } = before.log.tip('accounts', LONG);
    await before.close();
    const { views, checkpoints } = startOver(t, home);
    await checkpoints.advance('accounts', SWEPT, 1, false);
    const ended: string[] = [];
    const swept = checkpoints.sweep('accounts', SWEPT, Date.now());
    const written = checkpoints.advance('accounts', SWEPT, sequence, false);
    const followed = checkpoints
      .advance('accounts', LONG, sequence, false)
      .then(() => ended.push('followed'));
    const released = checkpoints.release('accounts', SWEPT).then(async () => {
      ended.push('let go');
      await views.drop('accounts', SWEPT);
    });
    await t.rejects(written, /was let go/);
    await Promise.all([swept, followed, released]);
    t.strictSame(ended, ['let go', 'followed']);
    views.refresh();
    t.equal(views.position('accounts', SWEPT), null, 'and nothing is written of it');
  },
);

t.test(
  'views that were dropped are made anew, also while those of another log are made',
  { timeout: 60_000 },
  async (t) => {
    const home = temporaryDirectory(t);
    const [DROPPED, LONG] = [0, 1];
    const before = openStorage(home);
    await fill(before, DROPPED, 1);
    await fill(before, LONG, 4 * RECORDS);
    const [end, longEnd] = [DROPPED, LONG].map((partition) => before.log.tip('accounts', partition).sequence);
    await before.close();
    const { views, checkpoints } = startOver(t, home);
    await checkpoints.advance('accounts', DROPPED, end!, true);
    let isFollowing = true;
    const followed = checkpoints.advance('accounts', LONG, longEnd!, false).then(() => {
      isFollowing = false;
    });
    let rounds = 0;
    for (; isFollowing; rounds++) {
      await checkpoints.release('accounts', DROPPED);
      await views.drop('accounts', DROPPED);
      // What the thread has read before says that they are there, and nothing would be said to be reached.
      await checkpoints.advance('accounts', DROPPED, end!, true);
    }
    await followed;
    t.ok(rounds > 1, `${rounds} times`);
  },
);
