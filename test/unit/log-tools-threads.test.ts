// A replay by several threads: what one finds in turn, damage and differences too; its end when one of them fails; and that what it
// builds is not for the disk.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { logTools } from '../../src/log-tools/commands.ts';
import { Rebuild } from '../../src/log-tools/rebuild.ts';
import { replayPartition, type Task, type Until } from '../../src/log-tools/replay-partition.ts';
import {
  errorOf,
  failureOf,
  type FromReplayThread,
  type ReplayThreadData,
  type ToReplayThread,
} from '../../src/log-tools/replay-protocol.ts';
import { replayByThreads } from '../../src/log-tools/replay-threads.ts';
import { LIMITS } from '../../src/limits.ts';
import { LogRewritten } from '../../wal/batch.ts';
import { isPageFault, PageFault } from '../../wal/lmdb.ts';
import { LogReader, LogUnsearchable } from '../../wal/log-reader.ts';
import { ViewStore } from '../../wal/views.ts';
import { writeTransactions } from '../history.ts';
import { traced, tracer } from '../tracer.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { damageBatch, fill, openStorage } from './storage-driven.ts';
import { runTool } from './wal/run-tool.ts';

const CLI = join(import.meta.dirname, '../../wal/cli.ts');
const COMMIT = LIMITS.checkpointRecordsPerCommitMax;
/** More commits than one for the second; the last is damaged. */
const RECORDS = [COMMIT, 3 * COMMIT, COMMIT / 2, COMMIT];
const DAMAGED = RECORDS.length - 1;
const LONGEST = 1;
const THREADS = 2;

const root = temporaryDirectory(t);
const directory = join(root, 'data');
const quiet = { add(): void {} };

t.before(async () => {
  const storage = openStorage(directory);
  for (const [number, records] of RECORDS.entries()) await fill(storage, number, records);
  await storage.close();
  const views = ViewStore.open({ directory });
  const position = views.position('accounts', LONGEST)!;
  // One row of the checkpoint is gone.
  const [row] = [...views.rows('accounts', LONGEST)];
  const { table, key } = row!;
  await views.commit('accounts', LONGEST, position, [{ table, key, value: null }]);
  await views.close();
  const log = LogReader.openReader({ directory });
  const { bytes } = log.batch('accounts', DAMAGED, 2);
  await log.close();
  damageBatch(directory, bytes);
});

const taskOf = (partition: number, verify: boolean, until: Until = null): Task => ({
  group: 'accounts',
  partition,
  until,
  verify,
  records: RECORDS[partition]!,
});

for (const verify of [false, true]) {
  t.test(
    `threads find what one finds in turn, ${verify ? 'beside' : 'without'} the checkpoint`,
    async (t) => {
      const log = LogReader.openReader({ directory });
      const views = verify ? ViewStore.open({ directory, readOnly: true }) : null;
      const tasks = RECORDS.map((_, partition) => taskOf(partition, verify));
      let batches = 0;
      let bytes = 0;
      const add = (more: number, moreBytes: number): void => {
        batches += more;
        bytes += moreBytes;
      };
      const reading = { directory, readsViews: verify };
      const byThreads = await replayByThreads(tasks, THREADS, reading, null, { add });

      let batchesInTurn = 0;
      const rebuild = Rebuild.inScratch(log, null, { add: (more) => void (batchesInTurn += more) });
      const inTurn = [];
      for (const task of tasks) inTurn.push(await replayPartition({ log, views }, rebuild, task));
      t.strictSame(byThreads, inTurn);
      t.match(byThreads[DAMAGED], { fault: { partition: DAMAGED } });
      if (verify) t.match(byThreads[LONGEST], { verified: { differenceCount: 1 } });
      else t.match(byThreads[LONGEST], { work: { upTo: log.tip('accounts', LONGEST).sequence } });
      t.equal(batches, batchesInTurn, 'all progress is told');
      t.equal(
        bytes,
        byThreads.reduce((sum, one) => sum + one.bytes, 0),
      );
      await Promise.all([rebuild.close(), views?.close(), log.close()]);
    },
  );
}

t.test('where one fails the others end, too', async (t) => {
  const ended: unknown[] = [];
  const onWorker = (worker: Worker): void => void worker.once('exit', (code) => ended.push(code));
  process.on('worker', onWorker);
  t.teardown(() => process.off('worker', onWorker));
  const beyond = taskOf(2, false, { sequence: 10 * COMMIT });
  const reading = { directory, readsViews: false };
  await t.rejects(replayByThreads([taskOf(LONGEST, false), beyond], THREADS, reading, null, quiet), {
    message: /accounts\/2 ends at sequence/,
  });
  t.strictSame(ended, [0, 0]);

  const nowhere = join(root, 'nowhere');
  await t.rejects(replayByThreads([beyond], THREADS, reading, nowhere, quiet), {
    message: /ENOENT.*nowhere/,
  });
});

t.test('a thread gives up what it is at when it is told to end', async (t) => {
  const worker = new Worker(new URL('../../src/log-tools/replay-thread.ts', import.meta.url), {
    workerData: {
      directory,
      scratch: join(root, 'built'),
      readsViews: false,
      rests: false,
    } satisfies ReplayThreadData,
  });
  const told: FromReplayThread[] = [];
  worker.on('message', (message: FromReplayThread) => void told.push(message));
  // Both wait for it when it begins to listen.
  worker.postMessage({ type: 'replay', ...taskOf(LONGEST, false) } satisfies ToReplayThread);
  worker.postMessage({ type: 'end' } satisfies ToReplayThread);
  t.strictSame(await once(worker, 'exit'), [0]);
  t.match(told, [
    { type: 'opened' },
    { type: 'failed', failure: { error: { message: 'the replay has ended' } } },
  ]);
  t.equal(told.length, 2);
});

t.test('an error keeps on its way what it is told by', (t) => {
  const sent = (error: unknown): Error => errorOf(structuredClone(failureOf(error)));
  const at = { group: 'accounts', partition: 1, batch: 7, sequence: 70 };
  const rewritten = sent(new LogRewritten(at));
  t.ok(rewritten instanceof LogRewritten);
  t.match(rewritten, at);
  const unsearchable = sent(new LogUnsearchable('which partitions there are'));
  t.ok(unsearchable instanceof LogUnsearchable);
  t.equal(unsearchable.message, 'which partitions there are');
  t.ok(isPageFault(sent(new PageFault('a page'))));
  const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  t.match(sent(full), { message: 'no space left', code: 'ENOSPC' });
  t.notOk('code' in sent(new Error('another')));
  t.end();
});

t.test(
  'what a replay builds and removes again is not waited for until the disk has it',
  traced,
  async (t) => {
    const trace = join(root, 'trace.txt');
    const calls = ['-f', '-y', '-qq', '-o', trace, '-e', 'trace=pwrite64,fdatasync'];
    const replay = [CLI, 'replay', '--data', directory, '--partition', String(LONGEST)];
    const { status } = spawnSync(tracer, [...calls, process.execPath, ...replay]);
    t.equal(status, 0);
    const made = readFileSync(trace, 'utf8')
      .split('\n')
      .filter((line) => line.includes('daftari-replay-'));
    t.ok(made.some((line) => line.includes('pwrite64(')));
    t.notOk(made.some((line) => line.includes('fdatasync(')));
  },
);

t.test(
  'a long log has as many threads as the machine has cores',
  { skip: availableParallelism() < 2 },
  async (t) => {
    const long = join(root, 'long');
    const transactions = Math.ceil((2 * LIMITS.viewThreadRecordsMin) / 3);
    await writeTransactions({
      dataDir: long,
      keysFile: join(root, 'keys'),
      partitions: 2,
      accounts: 4,
      transactions,
      shape: 'charges',
    });
    let workers = 0;
    const onWorker = (): void => void workers++;
    process.on('worker', onWorker);
    t.teardown(() => process.off('worker', onWorker));
    const { status, out } = await runTool(logTools, 'replay', '--data', long);
    t.equal(status, 0, out);
    t.match(out, /(\nacc_\w+ +UGX .*){4}\n/);
    t.match(out, `sound: 4 accounts, ${transactions} transactions`);
    t.equal(workers, 2);
    await runTool(logTools, 'replay', '--data', directory);
    t.equal(workers, 2, 'a short one has none');
  },
);
