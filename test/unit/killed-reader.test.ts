// A tool that is killed while it reads beside a service: what it read is written anew all the same, and the files do not grow with
// every commit.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { Jobs } from '../../src/jobs.ts';
import { openLogDatabase, openViewsDatabase } from '../../wal/lmdb.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { openStorage, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const COMMITS = 500;
/** A commit writes the pages from the root to its batch anew, in turns. */
const PAGES_MAX = 64;
const PAGE_BYTES = 4_096;
const WAIT_MS = 60_000;

/** Reads, says so, and never comes to the end of the turn in which it reads. */
const READER = `
import { writeSync } from 'node:fs';
import { LogReader } from './wal/log-reader.ts';
import { ViewStore } from './wal/views.ts';
const [directory, which] = process.argv.slice(1);
LogReader.openReader({ directory }).partitionNames();
if (which === 'both') ViewStore.open({ directory, readOnly: true }).partitionNames();
writeSync(1, 'reads');
for (;;);
`;

/** Resolves with its number when it is gone. */
async function killWhileItReads(t: Test, directory: string, which: 'log' | 'both'): Promise<number> {
  const reader = spawn(process.execPath, ['--input-type=module', '-e', READER, directory, which], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => reader.kill('SIGKILL'));
  await once(reader.stdout, 'data');
  reader.kill('SIGKILL');
  await once(reader, 'exit');
  return reader.pid!;
}

t.test('the log takes the pages again that it read', async (t) => {
  const directory = temporaryDirectory(t);
  const log = WriteAheadLog.open({
    directory,
    now: Date.now,
    onFailure: (error) => {
      throw error;
    },
  });
  t.teardown(() => log.close());
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable() {} });
  await partition.drained();
  await killWhileItReads(t, directory, 'log');
  log.forgetKilledReaders();
  const pages = (): number => statSync(join(directory, 'log', 'data.mdb')).size / PAGE_BYTES;
  const before = pages();
  for (let n = 0; n < COMMITS; n++) {
    partition.append(`${n}`);
    await partition.drained();
  }
  const grown = pages() - before;
  t.ok(grown < PAGES_MAX, `${grown} pages more after ${COMMITS} commits`);
});

t.test('a service that runs sees to it, of its log and its views', async (t) => {
  const directory = temporaryDirectory(t);
  const storage = openStorage(directory);
  const jobs = new Jobs();
  t.teardown(async () => {
    jobs.stop();
    await storage.close();
  });
  await serve(storage, 0);
  // Opened before, as by the checkpoint thread: whoever opens them looks, too.
  const databases = [openLogDatabase({ directory }), openViewsDatabase({ directory })];
  t.teardown(() => Promise.all(databases.map((database) => database.close())));
  const pid = await killWhileItReads(t, directory, 'both');
  const isAmongReaders = new RegExp(`^ *${pid} `, 'm');
  const places = (): number =>
    databases.filter((database) => isAmongReaders.test(database.readerList())).length;
  t.equal(places(), databases.length, 'its places are left');
  storage.schedule(jobs);
  await waitFor('its places are free', WAIT_MS, () => places() === 0);
});
