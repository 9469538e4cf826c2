// The tools that copy logs and put them back: export, import, backup, restore.
import { pbkdf2 } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  watch,
  writeFileSync,
  existsSync,
} from 'node:fs';
import { Server } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { emptyTip } from '../../../wal/batch.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { Portions } from '../../../wal/tools/portions.ts';
import { SegmentDirectory } from '../../../wal/tools/segment.ts';
import type { Batch } from '../../../wal/types.ts';
import { until } from '../../until.ts';
import { quiet } from './run-tool.ts';
import { bytesAt, checkpointAll, key, next, segmentIn, tips, tool, toolJson, write } from './tool-logs.ts';

t.test('export and import make the same log elsewhere', async (t) => {
  const [data, copy, other] = [next(), next(), next()];
  await write(data, 6);
  t.equal((await tool('export', '--data', data, '--to', copy)).status, 0);
  t.match(await tool('export', '--data', data, '--to', copy), { status: 2, err: /is not empty/ });
  t.hasStrict(await toolJson('import', '--data', other, '--from', copy), {
    status: 0,
    report: { sound: true, imported: 21 },
  });
  t.strictSame(await tips(other), await tips(data));
  t.hasStrict(
    await toolJson('import', '--data', other, '--from', copy),
    { status: 0, report: { imported: 0 } },
    'again: nothing',
  );
  await write(data, 1, { epoch: 2 });
  const more = next();
  await tool('export', '--data', data, '--to', more);
  t.hasStrict(await toolJson('import', '--data', other, '--from', more), {
    status: 0,
    report: { imported: 6 },
  });
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

t.test(
  'what fails leaves nothing that keeps it from being tried again, however slow its disk is',
  async (t) => {
    const [data, to] = [next(), next()];
    await write(data, 6);
    const database = openLogDatabase({ directory: data });
    await database.put(key(1), Buffer.from(bytesAt(database, 1)).fill(0, 70, 80));
    await database.close();
    // Whatever is asked of a disk waits behind these.
    let isDone = false;
    const inTheWay = Array.from({ length: 8 }, async () => {
      while (!isDone) await promisify(pbkdf2)('word', 'salt', 20_000, 32, 'sha256');
    });
    const of = ['--data', data, '--group', 'accounts', '--partition', '1', '--to', to];
    const failed = await tool('export', ...of);
    isDone = true;
    await Promise.all(inTheWay);
    t.match(failed, { status: 1, err: /log corrupt/ });
    t.strictSame(readdirSync(to), []);
  },
);

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
  t.hasStrict(lines[0], {
    group: 'webhooks',
    partition: 0,
    batch: 2,
    epoch: 1,
    record: { group: 'webhooks', sequence: 3 },
  });

  const made: (string | null)[] = [];
  const watcher = watch(to, (_, name) => made.push(name));
  t.match(await tool('export', '--data', data, '--to', to, ...range), { status: 2, err: /is not empty/ });
  writeFileSync(join(to, 'last'), '');
  await until(() => made.includes('last'));
  watcher.close();
  t.strictSame(new Set(made), new Set(['last']), 'refused before it makes a lock, which a kill would leave');
});

t.test('backup adds what is new while the log is written, and restore proves it', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  t.hasStrict(await toolJson('backup', '--data', data, '--to', to), {
    status: 0,
    report: { batches: 12, records: 27, begun: true },
  });
  t.hasStrict(await toolJson('backup', '--data', data, '--to', to), {
    status: 0,
    report: { batches: 0, begun: false },
  });

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
  t.match(await tool('restore', '--from', to, '--to', restored), {
    status: 0,
    out: /^sound: .*\nNext: put the kept files/m,
  });
  t.strictSame(await tips(restored), await tips(data));
  t.equal(
    (await tool('restore', '--from', to, '--to', restored)).status,
    2,
    'nothing that exists is changed',
  );
  t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0, out: /sound: the rehearsal\n$/ });

  await write(restored, 1, { epoch: 3 });
  t.hasStrict(await tool('backup', '--data', restored, '--to', to), { status: 0 }, 'it goes on from there');
  await write(data, 1, { epoch: 4 });
  t.match(
    await tool('backup', '--data', data, '--to', to),
    { status: 1, out: /^0 batches.*\n.*\nNOT SOUND/m },
    'and not with two histories',
  );
});

t.test('a volume that is not mounted is not taken for one to which nothing was written yet', async (t) => {
  const [data, mounted] = [next(), next()];
  await write(data, 3);
  const to = join(mounted, 'daftari');
  const copy = next();
  await tool('export', '--data', data, '--to', copy);
  const cases = [
    ...['backup', 'archive', 'export'].map((name) => [name, '--data', data, '--to', to]),
    ['export', '--data', data, '--to', to, '--format', 'jsonl'],
    ['restore', '--from', copy, '--to', to],
    ['import', '--from', copy, '--data', to],
  ];
  for (const [name = '', ...args] of cases) {
    const { status, err } = await tool(name, ...args);
    t.match({ status, err }, { status: 1, err: `${mounted} is not there: mount its volume` }, name);
  }
  t.notOk(existsSync(mounted));
  const begun = /^Begun in \S+, where nothing was: if something should be, its volume is not mounted/;
  const add = (name: string) => tool(name, '--data', data, '--to', `${mounted}-${name}`, ...optionsOf(name));
  const optionsOf = (name: string): string[] => (name === 'archive' ? ['--before', '2999-01-01'] : []);
  for (const name of ['backup', 'archive']) {
    t.match(await add(name), { status: 0, out: begun });
    const { status, out } = await add(name);
    t.equal(status, 0);
    t.notMatch(out, begun);
  }
});

t.test('a partition that the log has lost is not taken for backed up, nor for archived', async (t) => {
  const [data, to, archive] = [next(), next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  const old = ['--before', '2999-01-01'];
  await tool('archive', '--data', data, '--to', archive, ...old);
  const database = openLogDatabase({ directory: data });
  await database.batch(() => [1, 2, 3, 4].forEach((batch) => void database.remove(key(batch))));
  await database.close();
  t.match(await tool('backup', '--data', data, '--to', to), {
    status: 1,
    out: /Nothing of accounts\/1 was added: .*the backup has batch 4, but the log ends at 0: its end is lost/,
  });
  const lost =
    /accounts\/1: nothing was added: the archive ends with batch 4, the log with batch 0: .* has lost its end/;
  t.match(await tool('archive', '--data', data, '--to', archive, ...old), { status: 1, out: lost });
  const alone = ['--group', 'accounts', '--partition'];
  t.match(await tool('archive', '--data', data, '--to', archive, ...alone, '1'), { status: 1, out: lost });
  t.match(await tool('archive', '--data', data, '--to', archive, ...alone, '0'), { status: 0 });
});

t.test('an end that the log has lost is not taken for backed up, where a checkpoint has it', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  await write(data, 2, { epoch: 2 });
  await checkpointAll(data);
  const database = openLogDatabase({ directory: data });
  // As the backup has it, then all of it.
  for (const [batches, ends] of [[[5, 6, 7], 4] as const, [[1, 2, 3, 4], 0] as const]) {
    await database.batch(() => batches.forEach((batch) => void database.remove(key(batch))));
    for (const place of [to, next()]) {
      const { status, out } = await tool('backup', '--data', data, '--to', place);
      t.equal(status, 1);
      t.match(
        out,
        new RegExp(`Nothing of accounts/1 was added: .* the log ends at batch ${ends}, but its checkpoint`),
      );
    }
  }
  await database.close();
  const { report } = await toolJson('backup', '--data', data, '--to', to);
  t.strictSame(report.segments, [], 'the rest is in it');
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
    t.match(both.find(({ status }) => status === 1)?.err, /is being written by another process/);
    t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0, out: /sound: the rehearsal/ });

    writeFileSync(join(to, 'accounts-0-000000000001-000000000002.segment.gz.part'), 'of one that was killed');
    const before = readdirSync(to).filter((name) => !name.endsWith('.part'));
    const failed = SegmentDirectory.extend(to, async (target) => {
      const reader = LogReader.openReader({ directory: data });
      const name = { group: 'accounts', partition: 0 };
      const batches = reader.read(name.group, name.partition, { afterBatch: 0 });
      await target.write(name, emptyTip, batches, quiet);
      await reader.close();
      throw new Error('the disk is full');
    });
    await t.rejects(failed, /the disk is full/);
    t.strictSame(readdirSync(to), before);
  },
);

t.test('nor is one of another container, whose process is not seen', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await SegmentDirectory.extend(to, async () => {
    // As the lock of that one looks: a number that is nobody's, or of a process that has begun at another time.
    const lock = join(to, 'writer.lock');
    writeFileSync(lock, '1 1');
    for (const name of ['backup', 'archive']) {
      t.match(await tool(name, '--data', data, '--to', to), {
        status: 1,
        err: /is being written by another process/,
      });
    }
    t.equal(readFileSync(lock, 'utf8'), '1 1');
  });
  t.equal((await tool('backup', '--data', data, '--to', to)).status, 0);
});

t.test('a file system that takes no sockets takes backups', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  t.intercept(Server.prototype, 'listen', {
    value(this: Server) {
      setImmediate(() => this.emit('error', Object.assign(new Error('no sockets'), { code: 'EPERM' })));
    },
  });
  t.equal((await tool('backup', '--data', data, '--to', to)).status, 0);
  await SegmentDirectory.extend(to, async () => {
    t.match(await tool('backup', '--data', data, '--to', to), {
      status: 1,
      err: /is being written by process/,
    });
  });
  t.match(await tool('import', '--data', data, '--from', to), {
    status: 1,
    err: /may be in use by a service: .*EPERM/,
  });
});

t.test('what is damaged is not backed up, and does not keep the rest from it', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  await write(data, 2, { epoch: 2 });
  const intact = next();
  cpSync(data, intact, { recursive: true });
  // Of accounts/0 all can be read; of webhooks/0, which has read it, the last batch cannot.
  const database = openLogDatabase({ directory: data });
  const place: [string, number, number] = ['webhooks', 0, 6];
  const bytes = Buffer.from(database.getBinary(place) ?? []);
  for (const [batch, problem] of [
    [6, /webhooks\/0 batch 6: CRC32C/],
    [7, /webhooks\/0 batch 7: .*missing/],
  ] as const) {
    await (batch === 6 ? database.put(place, bytes.subarray(0, -9)) : database.put(place, bytes));
    if (batch === 7) {
      await database.put(['webhooks', 0, 8], bytes);
      await database.remove(['webhooks', 0, 7]);
    }
    const copy = next();
    cpSync(to, copy, { recursive: true });
    t.match(await toolJson('backup', '--data', data, '--to', copy), {
      status: 1,
      report: {
        sound: false,
        batches: 3,
        faults: [{ names: [{ group: 'accounts' }, { group: 'webhooks' }], problem }],
      },
    });
    t.notOk(
      readdirSync(copy).some((name) => name.includes('-0-000000000005')),
      'no file that nothing names',
    );
    const restored = next();
    t.hasStrict(await tool('restore', '--from', copy, '--to', restored), { status: 0 });
    t.hasStrict(await tips(restored), [{ tip: { batch: 4 } }, { tip: { batch: 7 } }, { tip: { batch: 4 } }]);
    t.hasStrict(await toolJson('backup', '--data', intact, '--to', copy), {
      status: 0,
      report: { batches: 6 },
    });
  }
  await database.close();
});

t.test(
  'what is whole before damage that is newer than the backup goes behind what was restored',
  async (t) => {
    const [data, backup, to, mended] = [next(), next(), next(), next()];
    await write(data, 2);
    await tool('backup', '--data', data, '--to', backup);
    await write(data, 6, { epoch: 2, atMs: Date.parse('2026-11-21T10:00:00Z') });
    const database = openLogDatabase({ directory: data });
    await database.put(key(9), Buffer.from(bytesAt(database, 9)).fill(0, 70, 80));
    await database.close();
    const { sequence } = (await toolJson('verify', '--data', data)).report.faults[0];
    t.equal(sequence, 19);

    const of = ['--data', data, '--group', 'accounts', '--partition', '1', '--to', to];
    t.match(await tool('export', ...of), { status: 1, err: /CRC32C/ });
    t.equal((await tool('export', ...of, '--to-sequence', `${sequence - 1}`)).status, 0);
    t.equal((await tool('restore', '--from', backup, '--to', mended)).status, 0);
    t.match(await tool('import', '--data', mended, '--from', to), { status: 0, out: /5 batches imported/ });
    t.hasStrict(await tips(mended), [{}, { tip: { sequence: 18, batch: 8 } }, {}]);
    const upTo = (last: string) => tool('export', ...of.slice(0, -1), next(), '--to-sequence', last);
    t.match(await upTo('17'), { status: 0, out: /sequences 1 to 15/ });
    t.match(await upTo('2'), { status: 0, out: /1: no records, / }, 'what opened an epoch alone');
  },
);

t.test('restore goes back to a time or a sequence', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 6);
  await tool('backup', '--data', data, '--to', to);
  for (const until of ['2026-11-21T09:00:04Z', `${Date.parse('2026-11-21T09:00:04Z')}`]) {
    const byTime = next();
    await tool('restore', '--from', to, '--to', byTime, '--until', until);
    t.hasStrict(await tips(byTime), [
      { tip: { sequence: 12 } },
      { tip: { sequence: 12 } },
      { tip: { sequence: 12 } },
    ]);
  }

  const bySequence = next();
  const at = ['--group', 'accounts', '--partition', '1', '--until-sequence', '8'];
  t.match(await tool('restore', '--from', to, '--to', bySequence, ...at), {
    status: 0,
    out: /^accounts\/0 [^]*\nwebhooks\/0 +18 +records to +18 [^\n]*\nsound: /,
  });
  t.hasStrict(await tips(bySequence), [
    { tip: { sequence: 18 } },
    { tip: { sequence: 8 } },
    { tip: { sequence: 18 } },
  ]);
  t.equal((await tool('verify', '--data', bySequence)).status, 0, 'the batch cut in two is sealed anew');
  const [, whole] = (await tips(data)) as { tip: { batch: number } }[];
  for (const [sequence, tip] of [
    ['9', { batch: 4, sequence: 9 }],
    ['18', whole!.tip],
    ['0', { batch: 1, sequence: 0 }],
  ] as const) {
    const between = next();
    const upTo = ['--group', 'accounts', '--partition', '1', '--until-sequence', sequence];
    t.equal((await tool('restore', '--from', to, '--to', between, ...upTo)).status, 0);
    t.hasStrict(
      await tips(between),
      [{ tip: { sequence: 18 } }, { tip }, { tip: { sequence: 18 } }],
      sequence,
    );
  }
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
    t.match(
      await tool(name, '--data', half),
      { status: 1, err: /did not come to its end: run it again/ },
      name,
    );
  }
  t.throws(
    () => WriteAheadLog.open({ directory: half, now: Date.now, onFailure: () => {} }),
    /did not come to its end/,
  );
  t.match(
    await tool('restore', '--from', to, '--to', half),
    { status: 1, err: /SHA-256/ },
    'no more than before',
  );
  bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
  writeFileSync(file, bytes);
  writeFileSync(join(half, 'master.key'), 'kept');
  await SegmentDirectory.extend(half, async () => {
    const refused = { status: 1, err: /is being written by another process/ };
    t.match(await tool('restore', '--from', to, '--to', half), refused);
  });
  const again = await tool('restore', '--from', to, '--to', half);
  t.match(again, { status: 0, out: /^Begun anew/ }, again.err);
  t.strictSame(await tips(half), await tips(data));
  t.strictSame(readdirSync(half).toSorted(), ['log', 'master.key']);
  t.match(await tool('restore', '--from', to, '--to', half), { status: 2, err: /is not empty/ });
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
    [['--until', '1763768400'], /is a time such as/],
    [['--until', '2026-11-31T23:59:59Z'], /is a time such as/],
    [['--until', '2026-02-29'], /is a time such as/],
    [['--until', '2026-11-21T08:59:59Z'], /has nothing to restore from before 2026-11-21T08:59:59.000Z/],
    [['--to', next()], /--rehearse goes without --to/],
  ];
  for (const [args, message] of cases) {
    t.match(await tool('restore', '--from', to, '--rehearse', ...args), { status: 2, err: message });
  }
});

t.test('a manifest that does not say what its segments are is not restored', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 2);
  for (const epoch of [2, 3]) {
    await tool('backup', '--data', data, '--to', to);
    await write(data, 2, { epoch });
  }
  await tool('backup', '--data', data, '--to', to);
  const file = join(to, 'manifest.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  const { segments } = manifest;
  t.equal(segments.length, 9);
  const longer = segments.with(3, { ...segments[3], end: { ...segments[3].end, batch: 7 } });
  for (const [wrong, problem] of [
    [{ ...manifest, segments: segments.toSpliced(3, 1) }, /does not follow batch 3: a segment is missing/],
    [{ ...manifest, segments: longer }, /ends at batch 6/],
    [{ ...manifest, version: 3 }, /format daftari-segments 3 is not known/],
    [{ ...manifest, segments: [] }, /is damaged \(partitions do not end where their segments do\)/],
  ] as const) {
    writeFileSync(file, JSON.stringify(wrong));
    const { status, err } = await tool('restore', '--from', to, '--rehearse');
    t.ok(status > 0);
    t.match(err, problem);
  }
  writeFileSync(file, JSON.stringify({ ...manifest, segments: segments.toReversed() }));
  t.equal((await tool('restore', '--from', to, '--rehearse')).status, 0, 'in whatever order');
});

t.test('a rehearsal leaves nothing behind', async (t) => {
  const [data, to, temporary] = [next(), next(), next()];
  await write(data, 2);
  await tool('backup', '--data', data, '--to', to);
  mkdirSync(temporary);
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = temporary;
  try {
    t.equal((await tool('restore', '--from', to, '--rehearse')).status, 0);
    rmSync(segmentIn(to, 'webhooks-0'));
    t.equal((await tool('restore', '--from', to, '--rehearse')).status, 1);
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
  t.strictSame(readdirSync(temporary), []);
});

t.test('what is written from segments goes in portions', async (t) => {
  const written: number[] = [];
  const portions = new Portions(async (batches) => written.push(batches.length));
  const third = { bytes: Buffer.alloc(WAL_LIMITS.bytesPerImport / 3 + 1) } as Batch;
  for (let n = 0; n < 7; n += 1) await portions.add(third);
  t.strictSame(written, [3, 3]);
  await portions.flush();
  await portions.flush();
  t.strictSame(written, [3, 3, 1]);
});

t.test('a log that begins late is exported and imported as it is', async (t) => {
  const [data, archive, copy, other] = [next(), next(), next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 8, { atMs });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive, '--before', '2026-01-01T00:00:06Z');
  await tool('trim', '--data', data, '--archive', archive, '--yes');
  t.equal((await tool('export', '--data', data, '--to', copy)).status, 0);
  t.hasStrict(await toolJson('import', '--data', other, '--from', copy), {
    status: 0,
    report: { imported: 9 },
  });
  t.strictSame(await tips(other), await tips(data));
  t.hasStrict((await tips(other)) as object[], [{ start: { batch: 6 } }, {}, {}]);
  t.match(await tool('restore', '--from', copy, '--rehearse'), {
    status: 0,
    out: /accounts\/0 begins after sequence 15: import what is before, or it is not served/,
  });
  const before = ['--group', 'accounts', '--partition', '1', '--until-sequence', '14'];
  t.match(await tool('restore', '--from', copy, '--rehearse', ...before), {
    status: 2,
    err: /accounts\/1 begins after sequence 15 in/,
  });
  t.match(await tool('restore', '--from', copy, '--rehearse', '--until', '2026-01-01T00:00:04Z'), {
    status: 2,
    err: /accounts\/0 begins after 2026-01-01T00:00:05.000Z in/,
  });
  const later = next();
  await write(data, 1, { epoch: 2, atMs: atMs + 60_000 });
  await tool('export', '--data', data, '--to', later);
  t.hasStrict(await toolJson('import', '--data', other, '--from', later), {
    status: 0,
    report: { imported: 6 },
  });
  t.strictSame(await tips(other), await tips(data));

  // Its beginning put back in one partition: the others stay as they are.
  const only = ['--group', 'accounts', '--partition', '1'];
  t.hasStrict(await toolJson('import', '--data', other, '--from', archive, ...only), {
    status: 0,
    report: { imported: 6 },
  });
  t.hasStrict(await tips(other), [{ start: { batch: 6 } }, { start: { batch: 0 } }, { start: { batch: 6 } }]);
});
