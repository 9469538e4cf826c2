// A log that is cut off and written anew while it is read, as a take-over does beside the tools of a live node, is never taken
// for damaged; and damage is found all the same.
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LogCorruption, LogRewritten } from '../../../wal/batch.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { verifyPartitions } from '../../../wal/tools/verify.ts';
import { ViewStore } from '../../../wal/views.ts';
import { BATCHES, CUT, damage, PLACE, rewrite, rewrittenDuring, written } from './rewriting.ts';
import { next, tool, toolJson } from './tool-logs.ts';
import { quiet } from './run-tool.ts';

const { group, partition } = PLACE;
/** Of the event loop: about as many as reading all of it takes. */
const TURNS = 20;

t.test('reading on where the log was written anew says so, and does not call it damaged', async (t) => {
  const { directory, log } = await written(10);
  const reader = LogReader.openReader({ directory });
  t.teardown(() => Promise.all([reader.close(), log.close()]));
  const cases: [string, number, number, number][] = [
    ['cut off and written longer', 8, 5, 9],
    ['cut off and written shorter than what was read', 8, 5, 4],
    ['written anew from its beginning', 8, 10, 12],
  ];
  for (const [name, read, cut, count] of cases) {
    reader.refresh();
    const batches = reader.read(group, partition, { afterBatch: 0 });
    for (let n = 0; n < read; n += 1) t.equal(batches.next().done, false);
    await rewrite(log, cut, count);
    reader.refresh();
    t.throws(() => [...batches], LogRewritten, name);
    reader.refresh();
    t.equal([...reader.read(group, partition, { afterBatch: 0 })].at(-1)?.batch, 10 - cut + count);
    await rewrite(log, 10 - cut + count, 10);
  }
});

t.test(
  'who cuts it off makes room in its file first: readers of a file shorter than its pages would end',
  async (t) => {
    const { directory, log } = await written(3);
    t.teardown(() => log.close());
    const size = (): number => statSync(join(directory, 'log', 'data.mdb')).size;
    t.ok(size() < WAL_LIMITS.removalRoomBytes);
    await log.truncateAfter(group, partition, 3);
    t.ok(size() < WAL_LIMITS.removalRoomBytes, 'nothing is removed');
    await log.truncateAfter(group, partition, 2);
    t.ok(size() > WAL_LIMITS.removalRoomBytes);
  },
);

t.test('what is wrong with it twice, after a batch that is still there, is damage', async (t) => {
  const { directory, log } = await written(10);
  const reader = LogReader.openReader({ directory });
  t.teardown(() => Promise.all([reader.close(), log.close()]));
  await damage(directory, 6);
  reader.refresh();
  let error: unknown = null;
  try {
    for (const _ of reader.read(group, partition, { afterBatch: 0 }));
  } catch (thrown) {
    error = thrown;
  }
  t.ok(error instanceof LogCorruption && !(error instanceof LogRewritten), String(error));
  t.equal((error as LogCorruption).batch, 6);
});

t.test('verify finds nothing wrong with a log that is rewritten under it', async (t) => {
  const { directory, log } = await written(BATCHES);
  const reader = LogReader.openReader({ directory });
  t.teardown(() => Promise.all([reader.close(), log.close()]));
  for (let turns = 0; turns < 2 * TURNS; turns += 1) {
    const [verified] = await rewrittenDuring(log, turns, () => verifyPartitions(reader, [PLACE], quiet));
    t.strictSame(verified?.faults, []);
  }
});

t.test('verify finds damage in a log that is rewritten under it, and nothing else', async (t) => {
  const { directory, log } = await written(BATCHES);
  const reader = LogReader.openReader({ directory });
  t.teardown(() => Promise.all([reader.close(), log.close()]));
  await damage(directory, 500);
  for (let turns = 0; turns < TURNS; turns += 1) {
    const [verified] = await rewrittenDuring(log, turns, () => verifyPartitions(reader, [PLACE], quiet));
    const batches = verified?.faults.map(({ batch }) => batch);
    t.strictSame(batches, [500]);
  }
});

t.test('backup of a log that is rewritten under it has one history of it, whole', async (t) => {
  const { directory, log } = await written(BATCHES);
  t.teardown(() => log.close());
  for (let turns = 0; turns < TURNS; turns += 1) {
    const to = next();
    const backup = (): ReturnType<typeof toolJson> => toolJson('backup', '--data', directory, '--to', to);
    const { status, report, err } = await rewrittenDuring(log, turns, backup);
    t.equal(status, 0, err);
    t.strictSame(report?.faults, []);
    t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0, out: /sound: / });
    const { ends, segments } = JSON.parse(readFileSync(join(to, 'manifest.json'), 'utf8'));
    t.equal(ends[0].hash, segments.at(-1).end.hash, 'its end is the one of what it has');
  }
});

for (const asked of [[], ['--to-sequence', String(BATCHES - 1)], ['--format', 'jsonl']]) {
  t.test(
    `export ${asked.join(' ')} beside a trim, and a log that is rewritten, has one history`,
    async (t) => {
      const { directory, log } = await written(BATCHES);
      t.teardown(() => log.close());
      const exported = (to: string) => tool('export', '--data', directory, '--to', to, ...asked);
      for (let turns = 0; turns < TURNS; turns += 1) {
        const to = next();
        t.match(await rewrittenDuring(log, turns, () => exported(to)), { status: 0, err: '' });
        if (asked.includes('jsonl')) {
          const lines = readFileSync(join(to, `${group}-${partition}.jsonl`), 'utf8')
            .trimEnd()
            .split('\n');
          const records = lines.map((line) => JSON.parse(line));
          t.strictSame(
            records.map(({ sequence }) => sequence),
            records.map((_, index) => records[0].sequence + index),
          );
        } else t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0, out: /sound: / });
        const trimmed = next();
        const exporting = exported(trimmed);
        for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        // Never what a rewriting cuts off.
        await log.trimBefore(group, partition, 10 + 30 * turns);
        t.match(await exporting, { status: 0, err: '' });
      }
    },
  );
}

t.test('a checkpoint that is removed before the end of the log that it reached is no fault', async (t) => {
  const { directory, log } = await written(BATCHES);
  const views = ViewStore.open({ directory });
  t.teardown(() => Promise.all([views.close(), log.close()]));
  for (let turns = 0; turns < 2 * TURNS; turns += 1) {
    log.refresh();
    await views.commit(group, partition, log.tip(group, partition), []);
    const verifying = toolJson('verify', '--data', directory);
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    await views.drop(group, partition);
    await rewrite(log, CUT, CUT);
    const { status, report } = await verifying;
    t.equal(status, 0, JSON.stringify(report?.faults));
  }
});
