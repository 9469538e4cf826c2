// The tools that take the beginning out of a log: archive and trim.
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { logTools } from '../../../src/log-tools/commands.ts';
import { emptyTip } from '../../../wal/batch.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { walTools } from '../../../wal/tools/all.ts';
import { trimTool } from '../../../wal/tools/archive.ts';
import { whileStopped } from '../../../wal/tools/stopped.ts';
import { runTools } from '../../../wal/tools/tool.ts';
import { ViewStore } from '../../../wal/views.ts';
import { bytesAt, checkpointAll, key, next, segmentIn, tips, tool, toolJson, write } from './tool-logs.ts';
import { runTool } from './run-tool.ts';

t.test('trim removes nothing that its archive begins after', async (t) => {
  const [data, whole, first, second] = [next(), next(), next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  cpSync(data, whole, { recursive: true });
  await tool('archive', '--data', data, '--to', first, '--before', '2026-01-01T00:00:06Z');
  t.hasStrict(await toolJson('trim', '--data', data, '--archive', first, '--yes'), {
    status: 0,
    report: { removed: true, partitions: [{ last: 6 }] },
  });
  t.equal((await tool('archive', '--data', data, '--to', second)).status, 0);
  t.match(await toolJson('trim', '--data', whole, '--archive', second, '--yes'), {
    status: 0,
    report: { partitions: [{ last: 0, why: /not archived/ }] },
  });
  t.hasStrict(await tips(whole), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
  // One segment is an archive, too.
  const one = next();
  t.equal((await tool('archive', '--data', whole, '--to', one, '--group', 'webhooks')).status, 0);
  t.match(await toolJson('trim', '--data', whole, '--archive', one), {
    status: 0,
    report: { removed: false, partitions: [{ last: 0 }, { last: 0 }, { last: 8 }] },
  });
  t.hasStrict(await toolJson('trim', '--data', whole, '--archive', one, '--group', 'webhooks'), {
    report: { partitions: [{ group: 'webhooks', last: 8 }] },
  });
});

t.test('no service starts between what trim finds unneeded and its removal', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  let cursor = 16;
  const trim = trimTool(async (directory) => {
    const needed = cursor;
    // It makes the views anew, and reads from the beginning.
    const start = async (): Promise<void> => void (cursor = 1);
    await t.rejects(whileStopped(directory, start), /is in use by a service/);
    return () => needed;
  });
  const trimmed = await runTool([trim], 'trim', '--data', data, '--archive', archive, '--yes');
  t.match(trimmed, { status: 0, out: /Removed/ });
  const reader = LogReader.openReader({ directory: data });
  t.teardown(() => reader.close());
  t.ok(
    reader.partitions().every(({ start }) => start.sequence < cursor),
    `${cursor} is needed`,
  );
});

t.test('what an import that was killed had put back is gone with the next trim, which says so', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  const whole = WriteAheadLog.open({ directory: data, now: Date.now, onFailure: () => {} });
  const first = [1, 2, 3].map((batch) => whole.batch('accounts', 1, batch).bytes);
  await whole.close();
  const trim = ['trim', '--data', data, '--archive', archive] as const;
  t.match(await tool(...trim, '--yes'), { status: 0, out: /Removed/ });
  const trimmed = await tips(data);
  const log = WriteAheadLog.open({ directory: data, now: Date.now, onFailure: () => {} });
  await log.prepend('accounts', 1, emptyTip, first);
  await log.close();
  t.match(await tool(...trim), {
    status: 0,
    out: /accounts.1 +0 batches and 3 that an import had left to remove[^]*\nNothing was removed: add --yes to remove this\.\n$/,
  });
  t.match(await tool(...trim, '--yes'), { status: 0, out: /Removed 3 batches/ });
  const reader = LogReader.openReader({ directory: data });
  t.ok(reader.firstBatchNumber('accounts', 1) > 3, 'its room is free again');
  await reader.close();
  t.strictSame(await tips(data), trimmed);
  t.match(await tool(...trim, '--yes'), { status: 0, out: /nothing to remove/ });
});

t.test('a directory without a log is not made by a trim of it', async (t) => {
  const [data, archive, wrong] = [next(), next(), next()];
  await write(data, 2, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await tool('archive', '--data', data, '--to', archive);
  const asked = ['--data', wrong, '--archive', archive, '--yes'];
  t.match(await tool('trim', ...asked), { status: 2, err: /holds no log/ });
  t.notOk(existsSync(wrong));
});

t.test('what was trimmed is not before who reads the rest, in its progress', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  t.hasStrict(await toolJson('trim', '--data', data, '--archive', archive, '--yes'), {
    status: 0,
    report: { partitions: [{ last: 8 }, { last: 8 }, { last: 8 }] },
  });
  for (const args of [
    ['verify'],
    ['export', '--to', next()],
    ['export', '--to', next(), '--format', 'jsonl'],
  ]) {
    let err = '';
    const terminal = { out: () => {}, err: (text: string) => void (err += text), errIsTty: true, env: {} };
    t.equal(await runTools('wal', walTools, [...args, '--data', data], terminal), 0);
    t.match(err, /33% \| 1 of 3 batches/, args.join(' '));
  }
});

t.test('trim removes nothing when its archive is damaged, or is of another log', async (t) => {
  const [data, other] = [next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 4, { atMs });
  await write(other, 4, { atMs: atMs + 1 });
  await checkpointAll(data);
  const damages: [string, (archive: string) => void, RegExp][] = [
    [
      data,
      (archive) => {
        const file = segmentIn(archive, 'webhooks-0');
        const bytes = readFileSync(file);
        bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
        writeFileSync(file, bytes);
      },
      /SHA-256/,
    ],
    [data, (archive) => rmSync(segmentIn(archive, 'webhooks-0')), /no such file/],
    [other, () => {}, /is not of this log/],
  ];
  for (const [from, damage, problem] of damages) {
    const archive = next();
    await tool('archive', '--data', from, '--to', archive);
    damage(archive);
    t.match(await tool('trim', '--data', data, '--archive', archive, '--yes'), {
      status: 1,
      err: problem,
    });
    t.hasStrict(await tips(data), [
      { start: { batch: 0 } },
      { start: { batch: 0 } },
      { start: { batch: 0 } },
    ]);
  }
});

t.test('of a partition that is damaged, and of what it may still read, trim removes nothing', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 4, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  const views = ViewStore.open({ directory: data });
  const cursor = { table: 'cursor', key: 'upstream', value: '12' };
  await views.commit('webhooks', 0, views.position('webhooks', 0)!, [cursor]);
  await views.close();
  await tool('archive', '--data', data, '--to', archive);
  const trim = (...args: string[]) =>
    runTool([...walTools, ...logTools], 'trim', '--data', data, '--archive', archive, ...args);
  const trimJson = async (...args: string[]) => {
    const { status, out } = await trim(...args, '--json');
    return { status, ...JSON.parse(out) };
  };
  t.match(await trimJson(), { status: 0, partitions: [{ last: 4 }, { last: 4 }, { last: 4 }], faults: [] });
  const database = openLogDatabase({ directory: data });
  const last: [string, number, number] = ['webhooks', 0, 5];
  const bytes = Buffer.from(database.getBinary(last)!);
  await database.put(last, bytes.fill(0, 70, 80));
  await database.close();
  const partitions = [{ last: 1, why: /^from sequence 1, which is needed/ }, { last: 4 }];
  const faults = [{ group: 'webhooks', partition: 0, problem: /CRC32C/ }];
  t.match(await trimJson(), { status: 1, partitions, faults });
  t.match((await trim()).out, /^webhooks\/0: nothing to remove: log corrupt: webhooks\/0 batch 5/m);
  t.match(await trimJson('--group', 'accounts'), { status: 0, partitions, faults: [] });
  t.match(await trimJson('--yes'), { status: 1, partitions, faults });
  const reader = LogReader.openReader({ directory: data });
  const names = [...reader.partitionNames()];
  t.strictSame(
    names.map(({ group, partition }) => reader.startOf(group, partition).batch),
    [1, 4, 0],
  );
  await reader.close();
});

t.test('nor of one whose first batch behind that is damaged, and the others lose theirs', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive, '--before', '2026-01-01T00:00:06Z');
  const database = openLogDatabase({ directory: data });
  const damaged = bytesAt(database, 7);
  damaged[80]! ^= 1;
  await database.put(key(7), damaged);
  await database.close();
  const trim = ['trim', '--data', data, '--archive', archive] as const;
  const expected = {
    status: 1,
    report: {
      partitions: [
        { group: 'accounts', partition: 0, last: 6 },
        { group: 'webhooks', last: 6 },
      ],
      faults: [{ group: 'accounts', partition: 1, problem: /batch 7/ }],
    },
  };
  t.match(await toolJson(...trim), expected);
  t.match(await toolJson(...trim, '--yes'), expected);
  const reader = LogReader.openReader({ directory: data });
  t.strictSame(
    [0, 1].map((partition) => reader.startOf('accounts', partition).batch),
    [6, 0],
  );
  t.equal(reader.startOf('webhooks', 0).batch, 6);
  await reader.close();
});

t.test('trim keeps what a checkpoint of another log would reach', async (t) => {
  const [data, other, archive] = [next(), next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 4, { atMs });
  await write(other, 4, { atMs: atMs + 1 });
  await checkpointAll(other);
  cpSync(join(other, 'views'), join(data, 'views'), { recursive: true });
  await tool('archive', '--data', data, '--to', archive);
  t.match(await toolJson('trim', '--data', data, '--archive', archive, '--yes'), {
    status: 0,
    report: { partitions: [{ last: 0, why: /checkpoint/ }] },
  });
  t.hasStrict(await tips(data), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
});

t.test('trim takes a sequence to keep that only the longest partition has', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 4, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  const log = WriteAheadLog.open({
    directory: data,
    now: () => 1,
    onFailure: (error) => t.fail(error.message),
  });
  const longest = log.openPartition('accounts', 1, { epoch: 1, replica: null, onDurable: () => {} });
  for (let n = 13; n <= 20; n += 1) {
    longest.append('more');
    await longest.drained();
  }
  await log.close();
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  t.match(await toolJson('trim', '--data', data, '--archive', archive, '--keep-sequence', '16'), {
    status: 0,
    report: {
      partitions: [{ last: 4, why: 'the last batch' }, { last: 8, why: /sequence 16/ }, { last: 4 }],
    },
  });
});

t.test('an archive is of one log: another is refused', async (t) => {
  const [data, other, archive] = [next(), next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 4, { atMs });
  await write(other, 6, { atMs: atMs + 1 });
  await tool('archive', '--data', data, '--to', archive);
  const before = readdirSync(archive);
  t.match(await tool('archive', '--data', other, '--to', archive), { status: 1, err: /of another log/ });
  t.strictSame(readdirSync(archive), before);
  // Nothing is wrong with what is asked for, which begins there.
  const [part, webhooks] = [next(), ['--group', 'webhooks']];
  await tool('archive', '--data', data, '--to', part, '--group', 'accounts');
  const begun = readdirSync(part);
  t.match(await tool('archive', '--data', other, '--to', part, ...webhooks), {
    status: 1,
    err: /^archive: accounts.0: the log has another batch 5 than the archive: /,
  });
  t.strictSame(readdirSync(part), begun);
  t.match(await tool('archive', '--data', data, '--to', part, ...webhooks), { status: 0, out: /^webhooks/ });
});

t.test(
  'an archive that has more than the log, as one that was restored, is told, and what to do',
  async (t) => {
    const [data, archive] = [next(), next()];
    const atMs = Date.parse('2026-01-01T00:00:00Z');
    await write(data, 6, { atMs });
    await tool('archive', '--data', data, '--to', archive);
    const before = readdirSync(archive);
    const restored = next();
    await write(restored, 4, { atMs });
    const shorter =
      /accounts\/0: the archive ends with batch 7, the log with batch 5: .* restored .* another directory/;
    t.match(await tool('archive', '--data', restored, '--to', archive), { status: 1, err: shorter });
    // It goes on otherwise, and nothing of that is old yet.
    await write(restored, 4, { epoch: 2, atMs: Date.now() });
    const otherwise =
      /accounts\/0: the log has another batch 7 than the archive: .* restored .* another directory/;
    t.match(await tool('archive', '--data', restored, '--to', archive), { status: 1, err: otherwise });
    t.strictSame(readdirSync(archive), before);
    t.equal((await tool('archive', '--data', restored, '--to', next())).status, 0);
  },
);

t.test('an archive that cannot go on with a partition goes on with the others', async (t) => {
  const [data, archive, other] = [next(), next(), next()];
  const [group, partition] = [next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 4, { atMs });
  await tool('archive', '--data', data, '--to', archive);
  await tool('archive', '--data', data, '--to', group, '--group', 'accounts');
  await tool('archive', '--data', data, '--to', partition, '--group', 'webhooks');
  await write(data, 2, { epoch: 2, atMs: atMs + 10_000 });
  const database = openLogDatabase({ directory: data });
  const damaged = bytesAt(database, 7);
  damaged[damaged.length - 1]! ^= 1;
  await database.put(key(7), damaged);
  await database.close();
  const { status, report } = await toolJson('archive', '--data', data, '--to', archive);
  t.equal(status, 1);
  t.match(report, {
    segments: [
      { group: 'accounts', partition: 0, end: { batch: 8 } },
      { group: 'webhooks', partition: 0, end: { batch: 8 } },
    ],
    faults: [{ group: 'accounts', partition: 1, problem: /batch 7/ }],
  });
  t.strictSame(
    readdirSync(archive).filter((name) => name.startsWith('accounts-1')).length,
    1,
    'nothing is left of what was begun',
  );
  t.match(await tool('archive', '--data', data, '--to', archive), {
    status: 1,
    out: /^accounts\/1: nothing was added: [^\n]*batch 7[^\n]*\n$/,
  });
  t.match(await tool('restore', '--from', archive, '--to', next()), { status: 0 });

  // Of another log, of which one partition could be gone on with: nothing shows that it is of this.
  await write(other, 6, { atMs: atMs + 1 });
  for (const alone of [group, partition]) {
    const kept = readFileSync(join(alone, 'manifest.json'), 'utf8');
    t.match(await tool('archive', '--data', other, '--to', alone), {
      status: 1,
      out: '',
      err: /of another log/,
    });
    t.equal(readFileSync(join(alone, 'manifest.json'), 'utf8'), kept);
  }

  // What is begun is of this log, whichever partition is damaged where it is looked for.
  const again = openLogDatabase({ directory: other });
  const broken = bytesAt(again, 4);
  broken[80]! ^= 1;
  await again.put(key(4), broken);
  await again.close();
  t.match(await toolJson('archive', '--data', other, '--to', next()), {
    status: 1,
    report: { segments: [{}, {}], faults: [{ group: 'accounts', partition: 1, problem: /batch 4/ }] },
  });
});

t.test('nor does one whose end was cut off and written anew keep anything from the others', async (t) => {
  const [data, archive] = [next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 4, { atMs });
  await tool('archive', '--data', data, '--to', archive);
  const log = WriteAheadLog.open({
    directory: data,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  await log.truncateAfter('accounts', 1, 3);
  await log.close();
  await write(data, 2, { epoch: 2, atMs: atMs + 10_000 });
  t.match(await toolJson('archive', '--data', data, '--to', archive), {
    status: 1,
    report: {
      segments: [
        { group: 'accounts', partition: 0, end: { batch: 8 } },
        { group: 'webhooks', partition: 0, end: { batch: 8 } },
      ],
      faults: [{ group: 'accounts', partition: 1, problem: /the log has another batch 5 than the archive/ }],
    },
  });
  t.match(await tool('restore', '--from', archive, '--rehearse'), { status: 0 });
});

t.test('without a time, archive takes what is older than 30 days', async (t) => {
  const [data, archive] = [next(), next()];
  const dayMs = 86_400_000;
  await write(data, 2, { atMs: Date.now() - 31 * dayMs });
  await write(data, 2, { epoch: 2, atMs: Date.now() - 29 * dayMs });
  t.hasStrict(await toolJson('archive', '--data', data, '--to', archive), {
    status: 0,
    report: { segments: [{ end: { sequence: 6 } }, { end: { sequence: 6 } }, { end: { sequence: 6 } }] },
  });
});

t.test('before there is anything to archive, trim does not call the archive none', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 2, { atMs: Date.now() });
  t.equal((await tool('archive', '--data', data, '--to', archive)).status, 0);
  t.match(await tool('trim', '--data', data, '--archive', archive, '--yes'), {
    status: 2,
    err: /has no manifest.json: nothing has been written there yet, or it is not mounted/,
  });
  const words = /has no manifest.json: no backup, archive or export/;
  t.match(await tool('trim', '--data', data, '--archive', data), { status: 2, err: words });
});

t.test('old batches are archived once, then trimmed, and the rest is still proven', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  const archiveArgs = ['--data', data, '--to', to, '--before', '2026-01-01T00:00:06Z'];
  t.hasStrict(await toolJson('archive', ...archiveArgs), {
    status: 0,
    report: { segments: [{ end: { sequence: 15 } }] },
  });
  t.match(await tool('archive', ...archiveArgs), {
    status: 0,
    out: /^Nothing to archive that is older than \d{4}-\S+Z \(--before\)\.\n/,
  });

  const trimArgs = ['--data', data, '--archive', to];
  t.match(await toolJson('trim', ...trimArgs), { report: { partitions: [{ last: 0, why: /checkpoint/ }] } });
  await checkpointAll(data);
  const kept = await toolJson('trim', ...trimArgs, '--keep-sequence', '5');
  t.match(kept.report.partitions[0], { from: 0, last: 2, why: /sequence 5/ });
  t.hasStrict(await toolJson('trim', ...trimArgs), {
    status: 0,
    report: { removed: false, partitions: [{ last: 6 }] },
  });
  t.hasStrict(await tips(data), [{ start: { batch: 0 } }], 'nothing is removed without --yes');

  const log = WriteAheadLog.open({
    directory: data,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  t.match(await tool('trim', ...trimArgs, '--yes'), { status: 1, err: /being written/ });
  await log.close();
  t.equal((await tool('trim', ...trimArgs, '--yes')).status, 0);
  t.hasStrict(await tips(data), [{ start: { batch: 6, sequence: 15 }, tip: { sequence: 24 } }, {}, {}]);
  t.hasStrict(await toolJson('verify', '--data', data), { status: 0, report: { sound: true, records: 27 } });
  t.match(await toolJson('trim', ...trimArgs, '--keep-sequence', '5'), {
    status: 0,
    report: { partitions: [{ from: 6, last: 6, why: /sequence 5/ }] },
  });

  const backup = next();
  t.match(await tool('backup', '--data', data, '--to', backup), {
    status: 1,
    err: /copy the archive that has them/,
  });
  rmSync(backup, { recursive: true, force: true });
  cpSync(to, backup, { recursive: true });
  t.equal((await tool('backup', '--data', data, '--to', backup)).status, 0, 'it goes on from the archive');
  t.hasStrict(await tool('restore', '--from', backup, '--rehearse'), { status: 0 });

  const [again, tooShort] = [next(), next()];
  cpSync(data, again, { recursive: true });
  const bare = next();
  await write(bare, 4, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  t.equal((await tool('export', '--data', bare, '--to', tooShort)).status, 0);
  t.match(await tool('import', '--data', again, '--from', tooShort), {
    status: 1,
    err: /begins after batch 6, and .* ends with 5: add what is between/,
  });
  t.hasStrict(await toolJson('import', '--data', again, '--from', to), {
    status: 0,
    report: { imported: 18 },
  });
  t.hasStrict(await tips(again), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
  t.hasStrict(
    await toolJson('verify', '--data', again),
    { status: 0, report: { records: 72 } },
    'all is back',
  );
  t.hasStrict(
    await toolJson('import', '--data', again, '--from', to),
    { report: { imported: 0 } },
    'again: nothing',
  );

  await write(data, 2, { epoch: 2, atMs: Date.parse('2026-02-01T00:00:00Z') });
  t.equal((await tool('archive', '--data', data, '--to', to)).status, 0, 'the archive goes on');
  const whole = next();
  t.hasStrict(await tool('restore', '--from', to, '--to', whole), { status: 0 });
  t.hasStrict(await tips(whole), [{ start: { batch: 0 }, tip: { sequence: 30 } }]);
  for (const [from, last] of [
    [6, 11],
    [11, 14],
  ] as const) {
    await checkpointAll(data);
    t.match(
      await toolJson('trim', ...trimArgs, '--yes'),
      { status: 0, report: { removed: true, partitions: [{ from, last }] } },
      'and so does the trim',
    );
    await write(data, 2, { epoch: 3, atMs: Date.parse('2026-03-01T00:00:00Z') });
    t.equal((await tool('archive', '--data', data, '--to', to)).status, 0);
  }
});

t.test('nor what it says to begin after with a digit that has turned over', async (t) => {
  const [data, whole, first, second] = [next(), next(), next(), next()];
  await write(data, 5, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  cpSync(data, whole, { recursive: true });
  await tool('archive', '--data', data, '--to', first, '--before', '2026-01-01T00:00:04Z');
  t.hasStrict(await toolJson('trim', '--data', data, '--archive', first, '--yes'), {
    report: { partitions: [{ last: 4 }] },
  });
  t.equal((await tool('archive', '--data', data, '--to', second)).status, 0);
  const manifest = join(second, 'manifest.json');
  const text = readFileSync(manifest, 'utf8');
  writeFileSync(manifest, text.replaceAll(/("start": \{\s+"batch": )4/g, '$10'));
  t.not(readFileSync(manifest, 'utf8'), text);
  t.match(await tool('trim', '--data', whole, '--archive', second, '--yes'), {
    status: 1,
    err: /accounts-0-\d+-\d+\.segment\.gz does not begin as manifest\.json says, after batch 0: that is damaged/,
  });
  t.hasStrict(await tips(whole), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
});

t.test(
  'nor is anything restored up to a moment before it, where a digit of its time has turned over',
  async (t) => {
    const [data, archive, late] = [next(), next(), next()];
    await write(data, 5, { atMs: Date.parse('2026-01-01T00:00:00Z') });
    await checkpointAll(data);
    await tool('archive', '--data', data, '--to', archive, '--before', '2026-01-01T00:00:04Z');
    await tool('trim', '--data', data, '--archive', archive, '--yes');
    await tool('export', '--data', data, '--to', late);
    const restore = ['restore', '--from', late, '--rehearse', '--until', '2026-01-01T00:00:01Z'] as const;
    t.match(await tool(...restore), {
      status: 2,
      err: /accounts\/0 begins after 2026-01-01T00:00:03.000Z in/,
    });
    const manifest = join(late, 'manifest.json');
    const text = readFileSync(manifest, 'utf8');
    const turned = text.replaceAll(/("start": [^}]*"timeMs": \d+)3000,/g, '$11000,');
    t.not(turned, text);
    writeFileSync(manifest, turned);
    t.match(await tool(...restore), {
      status: 1,
      err: /does not begin as manifest\.json says, after batch 4/,
    });
  },
);

t.test('a beginning with a number that has turned over is told, and nothing goes by it', async (t) => {
  const sound = next();
  await write(sound, 5);
  const open = (directory: string): WriteAheadLog =>
    WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => t.fail(error.message) });
  const log = open(sound);
  await log.trimBefore('accounts', 1, 4);
  await log.close();
  // Its own is batch 3 with sequence 6, and the last batch 6.
  const says = 'the start of the trimmed log says batch';
  for (const [own, turned, problem] of [
    ['"batch":3', '"batch":1', `${says} 1, and is that of batch 3`],
    ['"batch":3', '"batch":2', `${says} 2, and is that of batch 3`],
    ['"batch":3', '"batch":5', `${says} 5 ends with sequence 6, and what follows begins with 13`],
    ['"batch":3', '"batch":7', `${says} 7, and is that of batch 3`],
    ['"sequence":6', '"sequence":7', `${says} 3 ends with sequence 7, and what follows begins with 7`],
  ] as const) {
    const data = next();
    cpSync(sound, data, { recursive: true });
    const database = openLogDatabase({ directory: data });
    await database.put(key(0), Buffer.from(bytesAt(database, 0).toString().replace(own, turned)));
    await database.close();
    const { status, report } = await toolJson('verify', '--data', data);
    t.equal(status, 1);
    t.match(report.faults, [{ group: 'accounts', partition: 1, batch: 0, problem }]);
    t.equal(report.faults.length, 1, 'what follows it is whole');
    const lines = await tool('export', '--data', data, '--to', next(), '--format', 'jsonl');
    const message = new RegExp(problem);
    t.match(lines, { status: 1, err: message }, 'no record is left out without a word');
    const again = open(data);
    const options = { epoch: 1, replica: null, onDurable() {} };
    t.throws(() => again.openPartition('accounts', 1, options), { name: 'LogCorruption', message });
    await again.close();
  }
});
