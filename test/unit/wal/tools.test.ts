// The operator's tools, on logs that a writer made, sound and damaged in every way a disk or a person can.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { decodeBatch, encodeBatch } from '../../../wal/batch.ts';
import { holdDirectory } from '../../../wal/directory-socket.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import type { LogDatabase } from '../../../wal/lmdb.ts';
import { walTools } from '../../../wal/tools/all.ts';
import { Progress } from '../../../wal/tools/progress.ts';
import { runTools } from '../../../wal/tools/tool.ts';
import type { Tool } from '../../../wal/tools/tool.ts';
import { verify } from '../../../wal/tools/verify.ts';
import { runTool } from './run-tool.ts';
import { bytesAt, checkpointAll, key, next, root, tool, toolJson, write } from './tool-logs.ts';

/** Of LMDB. */
const pageBytes = 4096;
const cli = fileURLToPath(new URL('../../../wal/cli.ts', import.meta.url));

t.test('inspect shows ranges, one batch and one record', async (t) => {
  const data = next();
  await write(data, 4);
  const { status, report } = await toolJson('inspect', '--data', data);
  t.equal(status, 0);
  t.hasStrict(report.partitions, [
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
  t.hasStrict(batch.report, {
    batch: 2,
    firstSequence: 1,
    count: 3,
    records: [{ sequence: 1, record: { sequence: 1 } }],
  });
  const record = await toolJson('inspect', ...place, '--sequence', '7');
  t.hasStrict(record.report, {
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
    [['verify', '--data', ''], /--data is empty/],
    [['backup', '--data', join(root, '1')], /--to is needed/],
    [['backup', '--data', join(root, '1'), '--to', join(root, '1')], /is in the data directory/],
    [['export', '--data', join(root, '1'), '--to', join(root, '1', '..copy')], /is in the data directory/],
    [['export', '--data', join(root, '1'), '--to', join(root, 'link', 'copy')], /is in the data directory/],
    [
      ['export', '--data', join(root, '1'), '--to', join(root, 'x'), '--from-sequence', '2'],
      /--from-sequence goes with --format jsonl/,
    ],
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

t.test('a file in the place of a directory is said to be one', async (t) => {
  const [data, file] = [next(), next()];
  await write(data, 1);
  writeFileSync(file, '');
  const cases: [string, string, ...string[]][] = [
    ...['backup', 'archive', 'export'].map((name): [string, string] => [name, 'to']),
    ['export', 'to', '--format', 'jsonl'],
    ['trim', 'archive'],
    ['import', 'from'],
    ['restore', 'from'],
  ];
  for (const [name, option, ...others] of cases) {
    const log = name === 'restore' ? [] : ['--data', data];
    t.match(
      await tool(name, ...log, `--${option}`, file, ...others),
      { status: 2, err: `${name}: --${option} ${file} is a file: give a directory\n` },
      name,
    );
  }
  const copy = next();
  await tool('backup', '--data', data, '--to', copy);
  t.match(await tool('restore', '--from', copy, '--to', file), { status: 2, err: /is a file/ });
  for (const { name } of walTools.filter((each) => each.data !== false)) {
    const source = name === 'import' ? ['--from', copy] : [];
    const wrong = { status: 2, err: `${name}: ${file} is a file: give the data directory with --data\n` };
    t.match(await tool(name, '--data', file, ...source), wrong, name);
  }
});

t.test('a place where nothing can be made is refused, however a file system says so', async (t) => {
  const [data, copy] = [next(), next()];
  await write(data, 1);
  await tool('backup', '--data', data, '--to', copy);
  // Its parent is there, and is said not to be.
  const nowhere = '/proc/daftari';
  const cases = [
    ...['backup', 'archive', 'export'].map((name) => [name, '--data', data, '--to', nowhere]),
    ['export', '--data', data, '--to', nowhere, '--format', 'jsonl'],
    ['restore', '--from', copy, '--to', nowhere],
    ['import', '--from', copy, '--data', nowhere],
  ];
  for (const [name = '', ...args] of cases) {
    t.match(await tool(name, ...args), { status: 1, err: /ENOENT.*\/proc\/daftari/ }, name);
  }
});

t.test('who reads no more of what is printed changes nothing of the exit status', async (t) => {
  const data = next();
  await write(data, 2);
  const run = (...args: string[]) => {
    // By then nobody reads.
    const command = 'set -o pipefail; "$@" | true';
    const all = ['-c', command, 'bash', process.execPath, cli, ...args, '--data', data];
    const { status, stderr } = spawnSync('bash', all, { encoding: 'utf8' });
    return { status, stderr };
  };
  t.strictSame(run('verify', '--json'), { status: 0, stderr: '' });
  t.strictSame(run('inspect', '--help'), { status: 0, stderr: '' });
  const bothTo = ['-c', 'set -o pipefail; "$@" 2>&1 | true', 'bash', process.execPath, cli];
  t.equal(spawnSync('bash', [...bothTo, 'verify', '--wrong']).status, 2, 'of what is told of it, too');
  const database = openLogDatabase({ directory: data });
  await database.remove(key(2));
  await database.close();
  t.strictSame(run('verify'), { status: 1, stderr: '' });
});

t.test('a file that LMDB cannot open is said to be damaged, by a process that lives', async (t) => {
  const sound = next();
  await write(sound, 2);
  await checkpointAll(sound);
  const damages: Record<string, [(file: string) => void, RegExp]> = {
    'the first page overwritten': [(file) => overwrite(file, 0), /written over its first two pages/],
    'the second page overwritten': [(file) => overwrite(file, 4_096), /written over its first two pages/],
    'one bit of the version turned over': [
      (file) => overwrite(file, 28, Buffer.of(2, 4)),
      /written over its first two pages/,
    ],
    'the second page cut off': [(file) => truncateSync(file, 4_096), /ends within its first two pages/],
    'almost all cut off': [(file) => truncateSync(file, 100), /ends within its first two pages/],
    'all cut off': [(file) => truncateSync(file, 0), /holds no/],
  };
  for (const [name, [damage, message]] of Object.entries(damages)) {
    for (const part of ['log', 'views']) {
      const data = next();
      cpSync(sound, data, { recursive: true });
      damage(join(data, part, 'data.mdb'));
      // In a process of its own: it must not be ours that ends.
      const run = spawnSync(process.execPath, [cli, 'verify', '--data', data], { encoding: 'utf8' });
      t.match(
        { status: run.status, words: run.stderr + run.stdout },
        { status: 1, words: message },
        `${name}: ${part}`,
      );
    }
  }
});

function overwrite(file: string, position: number, bytes = Buffer.alloc(4_096, 0xa5)): void {
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, bytes, 0, bytes.length, position);
  closeSync(descriptor);
}

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
    t.match(await tool('restore', '--from', to, '--rehearse'), {
      status: 1,
      err: new RegExp(`permission denied.*${to}`),
    });
  } finally {
    if (isRoot) process.seteuid?.(0);
    for (const path of [data, to]) chmodSync(path, 0o700);
  }
});

t.test('what is mounted read-only is read where no service writes it, and only there', async (t) => {
  const [data, mounted] = [next(), next()];
  await write(data, 1);
  mkdirSync(mounted);
  const mount = (...args: string[]): boolean => spawnSync('mount', args).status === 0;
  if (!mount('--bind', data, mounted)) {
    t.pass('mounting needs root');
    return;
  }
  // In a process of its own: one that has read it keeps it mounted.
  const looks = () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [cli, 'verify', '--data', mounted]);
    return { status, out: String(stdout), err: String(stderr) };
  };
  try {
    t.ok(mount('-o', 'remount,ro,bind', mounted));
    t.match(looks(), { status: 0, out: /^sound: 3 partitions/m });
    const service = await holdDirectory(data);
    t.match(looks(), { status: 1, err: /is mounted read-only and in use by a service/ });
    await service?.release();
    rmSync(join(data, 'log', 'lock.mdb'));
    t.match(looks(), { status: 0, out: /^sound: 3 partitions/m });
  } finally {
    const { status, stderr } = spawnSync('umount', [mounted], { encoding: 'utf8' });
    t.equal(status, 0, stderr);
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
  t.hasStrict(report, { sound: true, batches: 18, records: 45 });
  t.strictSame(report.faults, []);
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
  t.hasStrict(await toolJson('verify', '--data', data), { status: 0, report: { sound: true } });
  await log.close();
});

t.test('what is written and checkpointed while verify reads the last batch is no fault', async (t) => {
  const data = next();
  // So many that there is a pause between them, in which its view of the checkpoint is forgotten.
  await write(data, 69);
  await checkpointAll(data);
  const logs = new URL('tool-logs.ts', import.meta.url).href;
  const script = `
    import { checkpointAll, write } from ${JSON.stringify(logs)};
    await write(${JSON.stringify(data)}, 1, { epoch: 2 });
    await checkpointAll(${JSON.stringify(data)});`;
  let read = 0;
  class Interrupted extends Progress {
    override add(): void {
      read += 1;
      if (read === 210) spawnSync(process.execPath, ['--input-type=module', '--eval', script]);
    }
  }
  const progress = new Interrupted({ write: () => {}, shown: false, overwrites: false });
  t.hasStrict(await verify.run({ directory: data, values: {}, progress }), {
    sound: true,
    report: { batches: 210 },
  });
  t.hasStrict(await toolJson('verify', '--data', data), { status: 0, report: { batches: 216 } });
});

type Damage = (database: LogDatabase) => Promise<unknown>;
const flip =
  (byte: number): Damage =>
  async (database) => {
    const bytes = bytesAt(database, 4);
    const at = byte < 0 ? bytes.length + byte : byte;
    bytes.writeUInt8(bytes.readUInt8(at) ^ 0x10, at);
    await database.put(key(4), bytes);
  };

/** Written as if another batch had been before it. */
const forged: Damage = async (database) => {
  const batch = decodeBatch(bytesAt(database, 1), { group: 'accounts', partition: 1, batch: 1 });
  const { bytes } = encodeBatch({ ...batch, recordsBytes: 0, previousHash: Buffer.alloc(32, 1) });
  await database.put(key(1), bytes);
};

// [what happened, how, batch and sequence that verify names, how many faults it finds, its words]
const damages: [string, Damage, number, number, number, RegExp][] = [
  ['a bit of the header flipped', flip(33), 4, 7, 1, /CRC32C/],
  ['a bit of a record flipped', flip(100), 4, 7, 1, /CRC32C/],
  ['a bit of the CRC flipped', flip(-34), 4, 7, 1, /CRC32C/],
  ['a bit of the hash flipped', flip(-1), 4, 7, 2, /hash chain/],
  ['a batch cut short', async (db) => db.put(key(4), bytesAt(db, 4).subarray(0, -9)), 4, 7, 1, /CRC32C/],
  ['a batch emptied', async (db) => db.put(key(4), Buffer.alloc(3)), 4, 7, 1, /too few/],
  ['a batch removed', async (db) => db.remove(key(4)), 4, 7, 1, /missing/],
  [
    'a batch removed, and the one behind it damaged',
    async (db) => {
      await db.remove(key(3));
      await flip(100)(db);
    },
    3,
    4,
    2,
    /missing/,
  ],
  ['the first batch removed', async (db) => db.remove(key(1)), 1, 1, 1, /missing/],
  ['the first batch of another history', forged, 1, 1, 2, /hash chain/],
  [
    'the last batch cut short',
    async (db) => db.put(key(6), bytesAt(db, 6).subarray(0, -9)),
    6,
    13,
    1,
    /CRC32C/,
  ],
  [
    'two batches swapped',
    async (db) => {
      const [a, b] = [bytesAt(db, 3), bytesAt(db, 4)];
      await db.put(key(3), b);
      await db.put(key(4), a);
    },
    3,
    7,
    2,
    /says it is batch 4/,
  ],
  [
    "another partition's batch in its place",
    async (db) => db.put(key(4), Buffer.from(db.getBinary(['accounts', 0, 4]) ?? [])),
    4,
    7,
    1,
    /belongs to partition 0/,
  ],
  [
    'the end removed, below the checkpoint',
    async (db) => db.remove(key(6)),
    6,
    13,
    1,
    /end of the log is lost/,
  ],
  [
    'the end removed, and a batch before it damaged',
    async (db) => {
      await flip(100)(db);
      await db.remove(key(6));
    },
    4,
    7,
    2,
    /CRC32C/,
  ],
  [
    'the end removed, and the batch before it damaged',
    async (db) => {
      await db.put(key(5), bytesAt(db, 5).subarray(0, -9));
      await db.remove(key(6));
    },
    5,
    10,
    2,
    /CRC32C/,
  ],
  [
    'all of it removed',
    async (db) => db.batch(() => [1, 2, 3, 4, 5, 6].forEach((batch) => void db.remove(key(batch)))),
    1,
    1,
    1,
    /log ends at batch 0, .* end of the log is lost/,
  ],
];

t.test('verify names what is damaged, and nothing else', async (t) => {
  const sound = next();
  await write(sound, 5);
  await checkpointAll(sound);
  t.equal((await tool('verify', '--data', sound)).status, 0);
  for (const [what, damage, batch, sequence, count, words] of damages) {
    const data = next();
    cpSync(sound, data, { recursive: true });
    const database = openLogDatabase({ directory: data });
    await damage(database);
    await database.close();
    const { status, report } = await toolJson('verify', '--data', data);
    t.equal(status, 1, what);
    t.match(report.faults[0], { group: 'accounts', partition: 1, batch, sequence, problem: words }, what);
    t.equal(report.faults.length, count, what);
    t.ok(
      report.faults.every((fault: { partition: number }) => fault.partition === 1),
      `${what}: the others are sound`,
    );
    const line = new RegExp(`accounts/1 batch ${batch} sequence ${sequence}: `);
    t.match((await tool('verify', '--data', data)).out, line);
    if (!words.source.includes('end of the log is lost')) continue;
    t.match(await tool('inspect', '--data', data), { status: 1, out: line }, 'seen at its end');
  }
});

t.test(
  'a page of the file that was overwritten is damage of what lies in it, and of nothing else',
  async (t) => {
    const data = next();
    await write(data, 120);
    const database = openLogDatabase({ directory: data });
    const bytes = bytesAt(database, 10);
    await database.close();
    const file = join(data, 'log', 'data.mdb');
    const content = readFileSync(file);
    // Pages are copied when they are written: older copies may hold the batch, too.
    for (let at = content.indexOf(bytes); at >= 0; at = content.indexOf(bytes, at)) {
      content.fill(0, at - (at % pageBytes), at - (at % pageBytes) + pageBytes);
    }
    writeFileSync(file, content);

    const { status, report } = await toolJson('verify', '--data', data);
    t.equal(status, 1);
    const problem = /^it lies in a damaged page of .*data\.mdb \(MDB_CORRUPTED/;
    for (const fault of report.faults) t.match(fault, { group: 'accounts', partition: 1, problem });
    t.ok(report.faults.some(({ batch }: { batch: number }) => batch === 10));
    t.hasStrict(report.partitions, [{}, {}, { group: 'webhooks', sequence: 360 }]);
    t.hasStrict(await toolJson('backup', '--data', data, '--to', next()), {
      status: 1,
      report: { faults: [{ names: [{ group: 'accounts', partition: 1 }] }], batches: 242 },
    });
  },
);

t.test('verify tells the first of many faults, and goes on with the next partition', async (t) => {
  const data = next();
  await write(data, 120);
  const database = openLogDatabase({ directory: data });
  await database.batch(() => {
    for (let batch = 2; batch <= 120; batch += 1) void database.put(key(batch), Buffer.alloc(3));
    void database.remove(['webhooks', 0, 5]);
  });
  await database.close();
  const { report } = await toolJson('verify', '--data', data);
  t.equal(report.faults.length, WAL_LIMITS.faultsShownMax + 1);
  t.hasStrict(report.faults.at(-1), { group: 'webhooks', batch: 5 });
  const batch = report.faults.at(-2).batch + 1;
  t.strictSame(report.unread, [{ group: 'accounts', partition: 1, batch }]);
  t.match((await tool('verify', '--data', data)).out, `accounts/1: so many faults that it was not read from`);
});

t.test('a start of a trimmed log that cannot be read is told, and what follows it is proven', async (t) => {
  const sound = next();
  await write(sound, 5);
  const log = WriteAheadLog.open({
    directory: sound,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  await log.trimBefore('accounts', 1, 4);
  const start = { ...log.startOf('accounts', 1), hash: 'ab'.repeat(32) };
  await log.close();
  const rows = [{}, null, { ...start, hash: 'ab' }, { ...start, batch: -1 }, { ...start, sequence: 1.5 }];
  for (const row of [...rows.map((each) => JSON.stringify(each)), 'no JSON']) {
    const data = next();
    cpSync(sound, data, { recursive: true });
    const database = openLogDatabase({ directory: data });
    await database.put(key(0), Buffer.from(row));
    await database.put(key(6), bytesAt(database, 6).subarray(0, -9));
    await database.close();
    const { status, report } = await toolJson('verify', '--data', data);
    t.equal(status, 1);
    t.match(report.faults, [
      { partition: 1, batch: 0, problem: /start of the trimmed log is unreadable/ },
      { partition: 1, batch: 6, sequence: 13, problem: /CRC32C/ },
    ]);
    t.equal(report.faults.length, 2, row);
    t.match(await tool('inspect', '--data', data), {
      status: 1,
      out: /start of the trimmed log is unreadable/,
    });
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
  const { report } = await toolJson('verify', '--data', older);
  // An epoch, and two batches of three records.
  t.hasStrict(report.faults[0], { batch: 4, sequence: 7 }, 'what is lost begins behind what is there');
  t.match(await tool('inspect', '--data', older), {
    status: 1,
    out: /^accounts\/1 batch 4 sequence 7: .*the end of the log is lost/m,
  });
  // Written on with the old log: longer, but with another history.
  await write(older, 9, { epoch: 2, atMs: Date.parse('2026-11-22T09:00:00Z') });
  t.match((await tool('verify', '--data', older)).out, /made from another log/);
});
