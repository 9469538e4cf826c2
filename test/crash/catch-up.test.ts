// Views made from the log alone are, row for row, those that were kept while the log was written, a few records at a time; also
// when the process is killed while it makes them, and the next one goes on.

import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { catchUp } from '../../src/storage/catch-up.ts';
import { recordsOf } from '../../src/storage/view-threads.ts';
import { writeTransactions } from '../history.ts';
import { openStorage, POLICIES } from '../unit/storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const PARTITIONS = 2;
/** Several commits of each partition: a transaction has three records. */
const TRANSACTIONS = LIMITS.checkpointRecordsPerCommitMax * PARTITIONS;

const root = temporaryDirectory(t);
const kept = join(root, 'kept');

t.before(() =>
  writeTransactions({
    dataDir: kept,
    keysFile: join(root, 'keys'),
    partitions: PARTITIONS,
    accounts: 8,
    deposits: 1,
    transactions: TRANSACTIONS,
    shape: 'mixed',
  }),
);

function withoutViews(name: string): string {
  const directory = join(root, name);
  cpSync(kept, directory, { recursive: true });
  rmSync(join(directory, 'views'), { recursive: true });
  return directory;
}

/** Of each partition: where its views reach, how many rows they are, and the hash of all of them. */
async function viewsIn(directory: string): Promise<object[]> {
  const storage = openStorage(directory);
  const views = Array.from({ length: PARTITIONS }, (_, number) => {
    const rows = [...storage.views.rows('accounts', number)];
    const position = storage.views.position('accounts', number);
    return { position, rows: rows.length, hash: hash('sha256', JSON.stringify(rows)) };
  });
  await storage.close();
  return views;
}

/** Returns how many records the views lacked. */
async function catchUpAll(directory: string): Promise<number> {
  const storage = openStorage(directory);
  const lags = storage.lags('accounts', PARTITIONS);
  await catchUp({ directory, policies: POLICIES, lags, threads: 2, onProgress() {} });
  await storage.close();
  return recordsOf(lags);
}

t.test('views of a whole history are those that were kept', async (t) => {
  const directory = withoutViews('whole');
  const lacking = await catchUpAll(directory);
  t.ok(lacking >= TRANSACTIONS * 3, `${lacking} records`);
  t.strictSame(await viewsIn(directory), await viewsIn(kept));
});

t.test('killed while it makes them, and gone on with, it makes the same', async (t) => {
  const directory = withoutViews('killed');
  const program = fileURLToPath(new URL('./catch-up-process.ts', import.meta.url));
  const args = [program, directory, String(PARTITIONS)];
  const { signal, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 120_000 });
  t.equal(signal, 'SIGKILL', stderr);
  const lacking = await catchUpAll(directory);
  t.ok(lacking > 0 && lacking < TRANSACTIONS * 3, `${lacking} records were lacking still`);
  t.strictSame(await viewsIn(directory), await viewsIn(kept));
});
