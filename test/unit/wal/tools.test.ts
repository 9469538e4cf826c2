// The operator's tools, on logs that a writer made, sound and damaged in every way a disk or a person can.
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { WriteAheadLog } from '../../../wal/log.ts';
import type { PartitionLog } from '../../../wal/partition-log.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import type { LogDatabase } from '../../../wal/lmdb.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { walTools } from '../../../wal/tools/all.ts';
import { runTools } from '../../../wal/tools/tool.ts';
import type { Tool } from '../../../wal/tools/tool.ts';
import { ViewStore } from '../../../wal/views.ts';
import { runTool } from './run-tool.ts';

const root = mkdtempSync(join(tmpdir(), 'wal-tools-'));
t.teardown(() => rmSync(root, { recursive: true }));
let made = 0;
const next = (): string => join(root, `${(made += 1)}`);

function tool(name: string, ...args: string[]) {
  return runTool(walTools, name, ...args);
}

async function toolJson(name: string, ...args: string[]) {
  const { status, out, err } = await tool(name, ...args, '--json');
  return { status, err, report: out === '' ? null : JSON.parse(out) };
}

/** A flush of its own for each turn, with the time it is given. */
async function write(
  directory: string,
  turns: number,
  options: { atMs?: number; epoch?: number } = {},
): Promise<void> {
  let nowMs = options.atMs ?? Date.parse('2026-11-21T09:00:00Z');
  const log = WriteAheadLog.open({
    directory,
    now: () => nowMs,
    onFailure: (error) => t.fail(error.message),
  });
  const open = (group: string, partition: number): PartitionLog =>
    log.openPartition(group, partition, { epoch: options.epoch ?? 1, replica: null, onDurable: () => {} });
  const partitions = [open('accounts', 0), open('accounts', 1), open('webhooks', 0)];
  for (const partition of partitions) await partition.drained();
  for (let turn = 1; turn <= turns; turn += 1) {
    nowMs += 1000;
    for (const partition of partitions) {
      for (let n = 0; n < 3; n += 1) {
        partition.append(
          JSON.stringify({
            group: partition.group,
            sequence: partition.appended + 1,
            ü: 'x'.repeat(turn * 40),
          }),
        );
      }
    }
    await Promise.all(partitions.map((partition) => partition.drained()));
  }
  await log.close();
}

function tips(directory: string): Promise<unknown> {
  const reader = LogReader.openReader({ directory });
  const found = reader.partitions();
  return reader.close().then(() => found);
}

t.test('inspect shows ranges, one batch and one record', async (t) => {
  const data = next();
  await write(data, 4);
  const { status, report } = await toolJson('inspect', '--data', data);
  t.equal(status, 0);
  t.match(report.partitions, [
    {
      group: 'accounts',
      partition: 0,
      batches: 5,
      records: 12,
      tip: { batch: 5, sequence: 12, epoch: 1 },
      checkpoint: 0,
    },
    { group: 'accounts', partition: 1 },
    { group: 'webhooks', partition: 0 },
  ]);
  t.match(
    (await tool('inspect', '--data', data)).out,
    /accounts\/0 +5 +12 +1 +12 +1 {2}2026-11-21T09:00:04.000Z/,
  );
  const place = ['--data', data, '--group', 'accounts', '--partition', '1'];
  const batch = await toolJson('inspect', ...place, '--batch', '2');
  t.match(batch.report, {
    batch: 2,
    firstSequence: 1,
    count: 3,
    records: [{ sequence: 1, record: { sequence: 1 } }],
  });
  const record = await toolJson('inspect', ...place, '--sequence', '7');
  t.match(record.report, {
    sequence: 7,
    batch: 4,
    time: '2026-11-21T09:00:03.000Z',
    record: { sequence: 7 },
  });
  t.equal((await tool('inspect', ...place, '--sequence', '13')).status, 2);
});

t.test('a tool that is wrongly asked says how, with status 2', async (t) => {
  symlinkSync(join(root, '1'), join(root, 'link'));
  const cases: [string[], RegExp][] = [
    [['nothing'], /There is no tool "nothing"/],
    [['verify', '--data', join(root, 'nowhere')], /holds no log/],
    [['verify', '--wrong'], /--wrong/],
    [['backup', '--data', join(root, '1')], /--to is needed/],
    [['backup', '--data', join(root, '1'), '--to', join(root, '1')], /is in the data directory/],
    [['export', '--data', join(root, '1'), '--to', join(root, '1', '..copy')], /is in the data directory/],
    [['export', '--data', join(root, '1'), '--to', join(root, 'link', 'copy')], /is in the data directory/],
    [['archive', '--data', join(root, '1'), '--to', join(root, '1', 'old')], /is in the data directory/],
    [['inspect', '--data', join(root, '1'), '--group', 'none'], /no partition none\/\*/],
    [['inspect', '--data', join(root, '1'), '--batch', '1'], /--group and --partition/],
    [['restore', '--from', join(root, '1')], /no backup|--to/],
    [['archive', '--data', join(root, '1'), '--to', join(root, 'x'), '--before', 'monday'], /such as/],
  ];
  for (const [[name = '', ...args], message] of cases) {
    const { status, err } = await tool(name, ...args);
    t.ok(status > 0);
    t.match(err, message);
  }
  t.match((await tool('--help')).out, /verify +Prove the log/);
  for (const { name } of walTools) {
    const { status, out } = await tool(name, '--help');
    t.equal(status, 0);
    t.match(out, `Usage: wal ${name} [options]`);
  }
});

t.test('what may not be read is not taken for absent', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 1);
  await checkpointAll(data);
  await tool('backup', '--data', data, '--to', to);
  for (const path of [data, to]) chmodSync(path, 0);
  // Root reads everything; as nobody, it may not even enter.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    for (const name of ['inspect', 'verify']) {
      t.match(await tool(name, '--data', data), { status: 1, err: /permission denied/ }, name);
    }
    t.match(await tool('restore', '--from', to, '--rehearse'), { status: 1, err: /permission denied/ });
  } finally {
    if (isRoot) process.seteuid?.(0);
    for (const path of [data, to]) chmodSync(path, 0o700);
  }
});

t.test('a list of tools is extended by a program that knows more', async (t) => {
  const replay: Tool = {
    name: 'inspect',
    summary: 'More',
    help: 'More.',
    options: { transaction: { type: 'string', value: 'id', help: 'its story' } },
    run: async ({ values }) => ({
      sound: false,
      report: {},
      lines: [`story of ${String(values['transaction'])}`],
    }),
  };
  const { status, out } = await runTool([...walTools, replay], 'inspect', '--transaction', 'ch_1');
  t.equal(status, 1);
  t.equal(out, 'story of ch_1\n');
});

t.test(
  'the directory is that of --data, of DATA_DIR, or ./data, where an empty DATA_DIR is none',
  async (t) => {
    const asked: string[] = [];
    const where: Tool = {
      name: 'where',
      summary: 'Where',
      help: '\n  where --data there   an example',
      options: {},
      run: async ({ directory }) => {
        asked.push(directory);
        return { sound: true, report: {}, lines: [] };
      },
    };
    let out = '';
    const terminal = { out: (text: string) => void (out += text), err: () => {}, errIsTty: false };
    for (const env of [{}, { DATA_DIR: '' }, { DATA_DIR: 'of/env' }]) {
      await runTools('wal', [where], ['where'], { ...terminal, env });
    }
    await runTools('wal', [where], ['where', '--data', 'given'], {
      ...terminal,
      env: { DATA_DIR: 'of/env' },
    });
    t.strictSame(asked, ['./data', './data', 'of/env', 'given']);

    await runTools('wal', [where], ['where', '--help'], { ...terminal, env: {} });
    t.match(out, /\n\n {2}where --data there {3}an example\n\n/, 'its first example stands like the others');
  },
);

t.test('verify proves a sound log, also while it is written', async (t) => {
  const data = next();
  await write(data, 5);
  const { status, report } = await toolJson('verify', '--data', data);
  t.equal(status, 0);
  t.match(report, { sound: true, batches: 18, records: 45, faults: [] });
  const log = WriteAheadLog.open({
    directory: data,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  const partition = log.openPartition('accounts', 0, {
    epoch: 2,
    replica: null,
    onDurable: () => void (partition.closed || partition.append('more')),
  });
  t.match(await toolJson('verify', '--data', data), { status: 0, report: { sound: true } });
  await log.close();
});

type Damage = (database: LogDatabase) => Promise<unknown>;
const key = (batch: number): [string, number, number] => ['accounts', 1, batch];
const bytesAt = (database: LogDatabase, batch: number): Buffer =>
  Buffer.from(database.getBinary(key(batch)) ?? []);
const flip =
  (byte: number): Damage =>
  async (database) => {
    const bytes = bytesAt(database, 4);
    const at = byte < 0 ? bytes.length + byte : byte;
    bytes.writeUInt8(bytes.readUInt8(at) ^ 0x10, at);
    await database.put(key(4), bytes);
  };

// [what happened, how, batch that verify names, its words]
const damages: [string, Damage, number, RegExp][] = [
  ['a bit of the header flipped', flip(33), 4, /CRC32C/],
  ['a bit of a record flipped', flip(100), 4, /CRC32C/],
  ['a bit of the CRC flipped', flip(-34), 4, /CRC32C/],
  ['a bit of the hash flipped', flip(-1), 4, /hash chain/],
  ['a batch cut short', async (db) => db.put(key(4), bytesAt(db, 4).subarray(0, -9)), 4, /CRC32C/],
  ['a batch emptied', async (db) => db.put(key(4), Buffer.alloc(3)), 4, /too few/],
  ['a batch removed', async (db) => db.remove(key(4)), 4, /missing/],
  ['the first batch removed', async (db) => db.remove(key(1)), 1, /missing/],
  [
    'two batches swapped',
    async (db) => {
      const [a, b] = [bytesAt(db, 3), bytesAt(db, 4)];
      await db.put(key(3), b);
      await db.put(key(4), a);
    },
    3,
    /says it is batch 4/,
  ],
  [
    "another partition's batch in its place",
    async (db) => db.put(key(4), Buffer.from(db.getBinary(['accounts', 0, 4]) ?? [])),
    4,
    /belongs to partition 0/,
  ],
  ['the end removed, below the checkpoint', async (db) => db.remove(key(6)), 6, /end of the log is lost/],
];

t.test('verify names what is damaged, and nothing else', async (t) => {
  const sound = next();
  await write(sound, 5);
  await checkpointAll(sound);
  t.equal((await tool('verify', '--data', sound)).status, 0);
  for (const [what, damage, batch, words] of damages) {
    const data = next();
    cpSync(sound, data, { recursive: true });
    const database = openLogDatabase({ directory: data });
    await damage(database);
    await database.close();
    const { status, report } = await toolJson('verify', '--data', data);
    t.equal(status, 1, what);
    t.match(report.faults[0], { group: 'accounts', partition: 1, batch, problem: words }, what);
    t.ok(
      report.faults.every((fault: { partition: number }) => fault.partition === 1),
      `${what}: the others are sound`,
    );
    const { out } = await tool('verify', '--data', data);
    t.match(out, new RegExp(`accounts/1 batch ${batch} sequence \\d+: `));
  }
});

t.test('a file that was cut off is refused, by verify and by the writer', async (t) => {
  const data = next();
  await write(data, 5);
  const file = join(data, 'log', 'data.mdb');
  truncateSync(file, statSync(file).size - 4096);
  t.match(await tool('verify', '--data', data), { status: 1, err: /was cut off/ });
  t.throws(() => WriteAheadLog.open({ directory: data, now: Date.now, onFailure: () => {} }), /was cut off/);
});

t.test('an older log in the place of a newer one is found by its checkpoint', async (t) => {
  const data = next();
  await write(data, 2);
  const older = next();
  cpSync(join(data, 'log'), join(older, 'log'), { recursive: true });
  await write(data, 2, { epoch: 2 });
  await checkpointAll(data);
  cpSync(join(data, 'views'), join(older, 'views'), { recursive: true });
  const { status, out } = await tool('verify', '--data', older);
  t.equal(status, 1);
  t.match(out, /an older log was put in its place/);
  // Written on with the old log: longer, but with another history.
  await write(older, 9, { epoch: 2, atMs: Date.parse('2026-11-22T09:00:00Z') });
  t.match((await tool('verify', '--data', older)).out, /made from another log/);
});

async function checkpointAll(directory: string): Promise<void> {
  const reader = LogReader.openReader({ directory });
  const views = ViewStore.open({ directory });
  for (const { group, partition, tip } of reader.partitions()) await views.commit(group, partition, tip, []);
  await views.close();
  await reader.close();
}

t.test('export and import make the same log elsewhere', async (t) => {
  const [data, copy, other] = [next(), next(), next()];
  await write(data, 6);
  t.equal((await tool('export', '--data', data, '--to', copy)).status, 0);
  t.match(await toolJson('import', '--data', other, '--from', copy), {
    status: 0,
    report: { sound: true, imported: 21 },
  });
  t.strictSame(await tips(other), await tips(data));
  t.match(
    await toolJson('import', '--data', other, '--from', copy),
    { status: 0, report: { imported: 0 } },
    'again: nothing',
  );
  await write(data, 1, { epoch: 2 });
  const more = next();
  await tool('export', '--data', data, '--to', more);
  t.match(await toolJson('import', '--data', other, '--from', more), { status: 0, report: { imported: 6 } });
  t.strictSame(await tips(other), await tips(data));

  await write(other, 1, { epoch: 3 });
  await write(data, 1, { epoch: 4 });
  const forked = next();
  await tool('export', '--data', data, '--to', forked);
  t.match(await tool('import', '--data', other, '--from', forked), {
    status: 1,
    err: /differs from the log's/,
  });
});

t.test('export writes lines for people', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  const range = ['--format', 'jsonl', '--from-sequence', '3', '--to-sequence', '7'];
  t.equal((await tool('export', '--data', data, '--to', to, ...range)).status, 0);
  t.strictSame(readdirSync(to).sort(), ['accounts-0.jsonl', 'accounts-1.jsonl', 'webhooks-0.jsonl']);
  const lines = readFileSync(join(to, 'webhooks-0.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.strictSame(
    lines.map(({ sequence }) => sequence),
    [3, 4, 5, 6, 7],
  );
  t.match(lines[0], {
    group: 'webhooks',
    partition: 0,
    batch: 2,
    epoch: 1,
    record: { group: 'webhooks', sequence: 3 },
  });
});

t.test('backup adds what is new while the log is written, and restore proves it', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  t.match(await toolJson('backup', '--data', data, '--to', to), {
    status: 0,
    report: { batches: 12, records: 27 },
  });
  t.match(await toolJson('backup', '--data', data, '--to', to), { status: 0, report: { batches: 0 } });

  const log = WriteAheadLog.open({
    directory: data,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  const live = log.openPartition('accounts', 0, {
    epoch: 2,
    replica: null,
    onDurable: () => void (live.closed || live.append('{"live":true}')),
  });
  while (live.durable < 50) await new Promise((resolve) => setImmediate(resolve));
  const { status, report } = await toolJson('backup', '--data', data, '--to', to);
  t.equal(status, 0);
  t.ok(report.records >= 40);
  await log.close();
  t.equal((await tool('backup', '--data', data, '--to', to)).status, 0);

  const restored = next();
  t.match(await tool('restore', '--from', to, '--to', restored), { status: 0, out: /sound: / });
  t.strictSame(await tips(restored), await tips(data));
  t.equal(
    (await tool('restore', '--from', to, '--to', restored)).status,
    2,
    'nothing that exists is changed',
  );
  t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0, out: /sound: the rehearsal/ });

  await write(restored, 1, { epoch: 3 });
  t.match(await tool('backup', '--data', restored, '--to', to), { status: 0 }, 'it goes on from there');
  await write(data, 1, { epoch: 4 });
  t.match(
    await tool('backup', '--data', data, '--to', to),
    { status: 1, err: /another log/ },
    'and not with two histories',
  );
});

t.test(
  'one backup at a time: one that runs is not overtaken, and one that failed leaves nothing',
  async (t) => {
    const [data, to] = [next(), next()];
    await write(data, 3);
    await tool('backup', '--data', data, '--to', to);
    await write(data, 2, { epoch: 2 });
    const both = await Promise.all([
      tool('backup', '--data', data, '--to', to),
      tool('backup', '--data', data, '--to', to),
    ]);
    t.strictSame(
      both.map(({ status }) => status).toSorted((a, b) => a - b),
      [0, 1],
    );
    t.match(both.find(({ status }) => status === 1)?.err, /is being written by process/);
    t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0, out: /sound: the rehearsal/ });

    await write(data, 2, { epoch: 3 });
    // The second of the partitions cannot be read to its end: the segment of the first is there by then.
    const intact = next();
    cpSync(data, intact, { recursive: true });
    const database = openLogDatabase({ directory: data });
    await database.put(key(9), bytesAt(database, 9).subarray(0, -9));
    await database.close();
    writeFileSync(join(to, 'accounts-0-000000000001-000000000002.segment.gz.part'), 'of one that was killed');
    const before = readdirSync(to).filter((name) => !name.endsWith('.part'));
    t.match(await tool('backup', '--data', data, '--to', to), { status: 1, err: /CRC32C/ });
    t.strictSame(readdirSync(to), before);
    t.equal((await tool('backup', '--data', intact, '--to', to)).status, 0);
    t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0 });
  },
);

t.test('restore goes back to a time or a sequence', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 6);
  await tool('backup', '--data', data, '--to', to);
  const byTime = next();
  await tool('restore', '--from', to, '--to', byTime, '--until', '2026-11-21T09:00:04Z');
  t.match(await tips(byTime), [
    { tip: { sequence: 12 } },
    { tip: { sequence: 12 } },
    { tip: { sequence: 12 } },
  ]);

  const bySequence = next();
  const at = ['--group', 'accounts', '--partition', '1', '--until-sequence', '8'];
  t.equal((await tool('restore', '--from', to, '--to', bySequence, ...at)).status, 0);
  t.match(await tips(bySequence), [
    { tip: { sequence: 18 } },
    { tip: { sequence: 8 } },
    { tip: { sequence: 18 } },
  ]);
  t.equal((await tool('verify', '--data', bySequence)).status, 0, 'the batch cut in two is sealed anew');
  await write(bySequence, 2, { epoch: 2 });
  t.equal((await tool('verify', '--data', bySequence)).status, 0);
});

t.test('a damaged backup is not restored', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  const file = join(to, readdirSync(to).find((name) => name.startsWith('accounts-1')) ?? '');
  const bytes = readFileSync(file);
  bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
  writeFileSync(file, bytes);
  t.match(await tool('restore', '--from', to, '--rehearse'), { status: 1, err: /SHA-256/ });

  // accounts/0 is there by then: half of a log must not pass for the whole.
  const half = next();
  t.match(await tool('restore', '--from', to, '--to', half), { status: 1, err: /SHA-256/ });
  for (const name of ['inspect', 'verify']) {
    t.match(await tool(name, '--data', half), { status: 1, err: /did not come to its end: remove/ }, name);
  }
  t.throws(
    () => WriteAheadLog.open({ directory: half, now: Date.now, onFailure: () => {} }),
    /did not come to its end/,
  );
  t.match(await tool('restore', '--from', to, '--to', half), { status: 2, err: /not empty/ });
});

t.test('restore refuses what the backup does not have, where it would restore all', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  const cases: [string[], RegExp][] = [
    [['--until-sequence', '3'], /go together/],
    [['--group', 'accounts', '--partition', '1'], /go together/],
    [['--group', 'accounts', '--partition', '7', '--until-sequence', '3'], /has no partition accounts\/7/],
    [['--group', 'accounts', '--partition', '1', '--until-sequence', '10'], /ends at sequence 9/],
    [['--to', next()], /--rehearse goes without --to/],
  ];
  for (const [args, message] of cases) {
    t.match(await tool('restore', '--from', to, '--rehearse', ...args), { status: 2, err: message });
  }
});

t.test('trim removes nothing that its archive begins after', async (t) => {
  const [data, whole, first, second] = [next(), next(), next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  cpSync(data, whole, { recursive: true });
  await tool('archive', '--data', data, '--to', first, '--before', '2026-01-01T00:00:06Z');
  t.match(await toolJson('trim', '--data', data, '--archive', first, '--yes'), {
    status: 0,
    report: { removed: true, partitions: [{ last: 6 }] },
  });
  t.equal((await tool('archive', '--data', data, '--to', second)).status, 0);
  t.match(await toolJson('trim', '--data', whole, '--archive', second, '--yes'), {
    status: 0,
    report: { partitions: [{ last: 0, why: /not archived/ }] },
  });
  t.match(await tips(whole), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
});

t.test('old batches are archived once, then trimmed, and the rest is still proven', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 8, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  const archiveArgs = ['--data', data, '--to', to, '--before', '2026-01-01T00:00:06Z'];
  t.match(await toolJson('archive', ...archiveArgs), {
    status: 0,
    report: { segments: [{ end: { sequence: 15 } }] },
  });
  t.match(await tool('archive', ...archiveArgs), { status: 0, out: /Nothing to archive/ });

  const trimArgs = ['--data', data, '--archive', to];
  t.match(await toolJson('trim', ...trimArgs), { report: { partitions: [{ last: 0, why: /checkpoint/ }] } });
  await checkpointAll(data);
  const kept = await toolJson('trim', ...trimArgs, '--keep-sequence', '5');
  t.match(kept.report.partitions[0], { from: 0, last: 2, why: /sequence 5/ });
  t.match(await toolJson('trim', ...trimArgs), {
    status: 0,
    report: { removed: false, partitions: [{ last: 6 }] },
  });
  t.match(await tips(data), [{ start: { batch: 0 } }], 'nothing is removed without --yes');

  const log = WriteAheadLog.open({
    directory: data,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  t.match(await tool('trim', ...trimArgs, '--yes'), { status: 1, err: /being written/ });
  await log.close();
  t.equal((await tool('trim', ...trimArgs, '--yes')).status, 0);
  t.match(await tips(data), [{ start: { batch: 6, sequence: 15 }, tip: { sequence: 24 } }, {}, {}]);
  t.match(await toolJson('verify', '--data', data), { status: 0, report: { sound: true, records: 27 } });

  const backup = next();
  t.match(await tool('backup', '--data', data, '--to', backup), {
    status: 1,
    err: /copy the archive that has them/,
  });
  rmSync(backup, { recursive: true, force: true });
  cpSync(to, backup, { recursive: true });
  t.equal((await tool('backup', '--data', data, '--to', backup)).status, 0, 'it goes on from the archive');
  t.match(await tool('restore', '--from', backup, '--rehearse'), { status: 0 });

  const [again, tooShort] = [next(), next()];
  cpSync(data, again, { recursive: true });
  const bare = next();
  await write(bare, 3, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  t.equal((await tool('export', '--data', bare, '--to', tooShort)).status, 0);
  t.match(await tool('import', '--data', again, '--from', tooShort), {
    status: 1,
    err: /begins after batch 6, and .* ends with 4: add what is between/,
  });
  t.match(await toolJson('import', '--data', again, '--from', to), { status: 0, report: { imported: 18 } });
  t.match(await tips(again), [{ start: { batch: 0 } }, { start: { batch: 0 } }, { start: { batch: 0 } }]);
  t.match(await toolJson('verify', '--data', again), { status: 0, report: { records: 72 } }, 'all is back');
  t.match(
    await toolJson('import', '--data', again, '--from', to),
    { report: { imported: 0 } },
    'again: nothing',
  );

  await write(data, 2, { epoch: 2, atMs: Date.parse('2026-02-01T00:00:00Z') });
  t.equal((await tool('archive', '--data', data, '--to', to)).status, 0, 'the archive goes on');
  const whole = next();
  t.match(await tool('restore', '--from', to, '--to', whole), { status: 0 });
  t.match(await tips(whole), [{ start: { batch: 0 }, tip: { sequence: 30 } }]);
});
