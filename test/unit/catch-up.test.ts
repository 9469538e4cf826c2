// Views of many partitions that are gone or behind are made by several threads before the partitions are served: the same
// views as one thread makes, all of them, and a damaged log holds up no other.

import { cpSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { catchUp, type Lag } from '../../src/storage/catch-up.ts';
import { Checkpoints } from '../../src/storage/checkpoints.ts';
import { threadsFor } from '../../src/storage/view-threads.ts';
import type { Storage } from '../../src/storage/storage.ts';
import { LogCorruption } from '../../wal/batch.ts';
import { damageBatch, fill, OPEN_ACCOUNT, openStorage, POLICIES, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const PARTITIONS = 5;
const COMMIT = LIMITS.checkpointRecordsPerCommitMax;
/** More commits than one for the first, nothing for the last. */
const RECORDS = [3 * COMMIT, COMMIT, COMMIT, COMMIT, 0];

const root = temporaryDirectory(t);
const written = join(root, 'written');

t.before(async () => {
  const storage = openStorage(written);
  for (let number = 0; number < PARTITIONS; number++) await fill(storage, number, RECORDS[number]!);
  await storage.close();
});

function copy(name: string): string {
  const directory = join(root, name);
  cpSync(written, directory, { recursive: true });
  return directory;
}

function withoutViews(name: string): string {
  const directory = copy(name);
  rmSync(join(directory, 'views'), { recursive: true });
  return directory;
}

async function catchUpAll(directory: string, lags: readonly Lag[]): Promise<number[]> {
  const steps: number[] = [];
  const onProgress = (records: number): void => void steps.push(records);
  await catchUp({ directory, policies: POLICIES, lags, threads: 2, onProgress });
  return steps;
}

function viewsIn(storage: Storage): object[] {
  storage.views.refresh();
  return Array.from({ length: PARTITIONS }, (_, number) => ({
    position: storage.views.position('accounts', number),
    rows: [...storage.views.rows('accounts', number)],
  }));
}

t.test('views made by several threads are those that were kept while the log was written', async (t) => {
  const kept = openStorage(copy('kept'));
  const directory = withoutViews('gone');
  const storage = openStorage(directory);
  const lags = storage.lags('accounts', PARTITIONS);
  t.same(
    lags.map(({ partition, upTo, records }) => ({ partition, upTo, records })),
    RECORDS.slice(0, 4).map((records, partition) => ({ partition, upTo: records, records })),
    'what has no record lacks none',
  );

  const steps = await catchUpAll(directory, lags);
  t.equal(
    steps.reduce((sum, records) => sum + records, 0),
    RECORDS.reduce((sum, records) => sum + records, 0),
    'progress adds up to what was lacking',
  );
  t.ok(steps.length > lags.length, 'and is told after every commit');
  t.strictSame(viewsIn(storage), viewsIn(kept));
  t.same(storage.lags('accounts', PARTITIONS), []);
  await storage.close();
  await kept.close();
});

t.test('what is asked for while a partition is applied is applied once, and all of it', async (t) => {
  const kept = openStorage(copy('kept once'));
  const directory = withoutViews('asked for again');
  const storage = openStorage(directory);
  const checkpoints = new Checkpoints(directory, POLICIES, (error) => void t.fail(error.message));
  // The first goes on until a commit; the least is asked for last.
  const asked = [1, RECORDS[0]!, 2].map((upTo) => checkpoints.advance('accounts', 0, upTo, true));
  await Promise.all(asked);
  await checkpoints.close();
  t.strictSame(viewsIn(storage)[0], viewsIn(kept)[0]);
  await storage.close();
  await kept.close();
});

for (const where of ['whole', 'trimmed up to where they end'] as const) {
  t.test(`views that lack the end of their log are continued, of one that is ${where}`, async (t) => {
    const directory = copy(`behind one that is ${where}`);
    const ahead = openStorage(directory);
    await serve(ahead, 1);
    t.equal((await send(ahead, 1, OPEN_ACCOUNT)).type, 'done');
    t.equal((await send(ahead, 1, { type: 'AddUser', email: 'u@shop.test', role: 'MEMBER' })).type, 'done');
    await ahead.close();
    const kept = openStorage(directory);
    const views = viewsIn(kept);
    await kept.close();
    rmSync(join(directory, 'views'), { recursive: true });
    cpSync(join(written, 'views'), join(directory, 'views'), { recursive: true });

    const storage = openStorage(directory);
    const { batch } = storage.views.position('accounts', 1)!;
    if (where !== 'whole') await storage.log.trimBefore('accounts', 1, batch + 1);
    const lags = storage.lags('accounts', PARTITIONS);
    t.same(lags, [{ group: 'accounts', partition: 1, upTo: COMMIT + 2, records: 2 }]);
    t.same(await catchUpAll(directory, lags), [2]);
    t.strictSame(viewsIn(storage), views);
    await storage.close();
  });
}

t.test('views in the form of another version lack all of their log, though they reach its end', async (t) => {
  const kept = openStorage(copy('of this version'));
  const directory = copy('of another version');
  const storage = openStorage(directory);
  const other = { table: 'format', key: '', value: 'of another version' };
  await storage.views.commit('accounts', 1, storage.views.position('accounts', 1)!, [other]);
  const lags = storage.lags('accounts', PARTITIONS);
  t.same(lags, [{ group: 'accounts', partition: 1, upTo: COMMIT, records: COMMIT }]);
  t.same(await catchUpAll(directory, lags), [COMMIT]);
  t.strictSame(viewsIn(storage), viewsIn(kept));
  await storage.close();
  await kept.close();
});

t.test('a damaged log holds up no other, and is refused when it is opened', async (t) => {
  const directory = withoutViews('damaged');
  const before = openStorage(directory);
  const bytes = before.log.bytesOf('accounts', 0, 1)!;
  await before.close();
  damageBatch(directory, bytes);

  const storage = openStorage(directory);
  await catchUpAll(directory, storage.lags('accounts', PARTITIONS));
  t.same(
    storage.lags('accounts', PARTITIONS).map(({ partition }) => partition),
    [0],
  );
  await t.rejects(serve(storage, 0), LogCorruption);
  await serve(storage, 1);
  await storage.close();
});

t.test('a thread is begun where it is worth it and nowhere else', async (t) => {
  const lag = (records: number): Lag => ({ group: 'accounts', partition: 0, upTo: records, records });
  const worth = LIMITS.viewThreadRecordsMin;
  t.equal(threadsFor([]), 1);
  t.equal(threadsFor([lag(100 * worth)]), 1, 'one partition is one thread’s work');
  t.equal(threadsFor([lag(worth), lag(worth - 1)]), 1);
  const most = threadsFor(Array.from({ length: 64 }, () => lag(worth)));
  t.ok(most <= Math.min(availableParallelism(), LIMITS.viewThreadsMax));
  const fit = Math.min(availableParallelism(), process.availableMemory() / LIMITS.viewThreadBytes);
  if (fit >= 2) t.equal(threadsFor([lag(worth), lag(worth)]), 2);
});

t.test('a thread that cannot work ends it', async (t) => {
  const lags: Lag[] = [0, 1].map((partition) => ({ group: 'accounts', partition, upTo: 1, records: 1 }));
  await t.rejects(catchUpAll(join(root, 'nothing'), lags), /holds no log/);
});

t.test('nor does anybody wait for one that has ended', async (t) => {
  const told: string[] = [];
  const ended = new Checkpoints(join(root, 'nothing'), POLICIES, ({ message }) => void told.push(message));
  await t.rejects(ended.advance('accounts', 0, 1, true), /holds no log/);
  await ended.started;
  await ended.close();
  t.match(told[0], /holds no log/);
  await t.rejects(ended.advance('accounts', 0, 1, true), /has ended/);
  await ended.release('accounts', 0);
});
