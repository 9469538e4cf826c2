// What trim keeps of a log whose end has no records: batches that only open an epoch, or nothing but where it begins. And which
// segments of its archive it proves; and of which views it takes no word.
import { appendFileSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { logTools } from '../../../src/log-tools/commands.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { walTools } from '../../../wal/tools/all.ts';
import { ViewStore } from '../../../wal/views.ts';
import { runTool } from './run-tool.ts';
import { checkpointAll, next, tips, toolJson, tool, write } from './tool-logs.ts';

t.test('the last record stays when it is needed, though the batches behind it have none', async (t) => {
  const [data, archive] = [next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 2, { atMs });
  await write(data, 0, { epoch: 2, atMs: atMs + 60_000 });
  await write(data, 0, { epoch: 3, atMs: atMs + 60_000 });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  const trim = ['trim', '--data', data, '--archive', archive, '--group', 'accounts'] as const;
  // Batch 3 has records 4 to 6.
  t.match(await toolJson(...trim, '--keep-sequence', '6'), {
    status: 0,
    report: { partitions: [{ last: 2, why: /sequence 6/ }, { last: 2 }] },
  });
  t.match(await toolJson(...trim, '--keep-sequence', '7'), {
    status: 0,
    report: { partitions: [{ last: 4, why: 'the last batch' }, { last: 4 }] },
  });
  t.equal((await toolJson(...trim, '--keep-sequence', '6', '--yes')).status, 0);
  t.match(
    await toolJson(...trim, '--keep-sequence', '3'),
    {
      status: 0,
      report: {
        partitions: [
          { from: 2, last: 2, why: /sequence 3/ },
          { from: 2, last: 2 },
        ],
      },
    },
    'nor does what is gone already keep it from being asked',
  );
});

t.test('all stays of which the next start makes the views again: they are of another version', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 3, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  const trim = async (...args: string[]) => {
    const asked = ['trim', '--data', data, '--archive', archive, '--json', ...args];
    const { status, out } = await runTool([...walTools, ...logTools], ...asked);
    return { status, ...JSON.parse(out) };
  };
  // Of webhooks that have read nothing, the first batch of their accounts has no record that they need.
  t.match(await trim(), { status: 0, partitions: [{ last: 1 }, { last: 3 }, { last: 3 }] });
  const views = ViewStore.open({ directory: data });
  const format = { table: 'format', key: '', value: 'of another version' };
  for (const { group, partition } of views.partitionNames()) {
    await views.commit(group, partition, views.position(group, partition)!, [format]);
  }
  await views.close();
  const kept = { last: 0, why: /checkpoint/ };
  t.match(await trim('--yes'), { status: 0, partitions: [kept, kept, kept] });
});

t.test('of a log that only says where it begins there is nothing to remove', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 2, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await tool('archive', '--data', data, '--to', archive);
  const log = WriteAheadLog.open({ directory: data, now: Date.now, onFailure: () => {} });
  await log.startAt('accounts', 2, { batch: 9, sequence: 9, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) });
  await log.close();
  const asked = ['--data', data, '--archive', archive, '--group', 'accounts', '--partition', '2', '--yes'];
  t.match(await toolJson('trim', ...asked), {
    status: 0,
    report: { partitions: [{ from: 9, last: 9, left: 0 }] },
  });
});

t.test('every segment of what goes is proven, and no other', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 6, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  // Batches 1 to 3, 4 and 5, 6 and 7.
  for (const before of ['2026-01-01T00:00:03Z', '2026-01-01T00:00:05Z', '2026-02-01']) {
    await tool('archive', '--data', data, '--to', archive, '--before', before);
  }
  const [first, ...others] = readdirSync(archive)
    .filter((file) => file.startsWith('accounts-1-'))
    .toSorted()
    .map((file) => join(archive, file)) as [string, string, string];
  const trim = ['trim', '--data', data, '--archive', archive, '--yes'] as const;
  const whole = others.map((file) => [file, readFileSync(file)] as const);
  for (const [file, bytes] of whole) {
    appendFileSync(file, 'x');
    t.match(await tool(...trim), { status: 1, err: `${file} has changed` });
    writeFileSync(file, bytes);
  }
  t.hasStrict(await tips(data), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
  for (const file of others) appendFileSync(file, 'x');
  // Batch 4 has records 7 to 9.
  t.match(await toolJson(...trim, '--keep-sequence', '7'), {
    status: 0,
    report: { partitions: [{ last: 3 }, { last: 3 }, { last: 3 }] },
  });
  for (const [file, bytes] of whole) writeFileSync(file, bytes);
  rmSync(first);
  t.match(await toolJson(...trim), {
    status: 0,
    report: { partitions: [{ from: 3, last: 6 }, { last: 6 }, { last: 6 }] },
  });
});
