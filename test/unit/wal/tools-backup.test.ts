// A backup beside a log that does not go on from it: cut off and written anew, begun anew, trimmed, or another altogether.
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { RECORD_FORMATS } from '../../../src/domain/record-format.ts';
import { logTools } from '../../../src/log-tools/commands.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { Progress } from '../../../wal/tools/progress.ts';
import { restoreTool } from '../../../wal/tools/restore.ts';
import { storedTip } from '../../../wal/types.ts';
import { runTool } from './run-tool.ts';
import { until as waitUntil } from '../../until.ts';
import { checkpointAll, growManifest, next, segmentIn, tips, tool, write } from './tool-logs.ts';

t.test(
  'each backup notes where every partition ended at its moment, which an auditor holds a replay against',
  async (t) => {
    const [data, to] = [next(), next()];
    const ends: unknown[] = [];
    for (const epoch of [1, 2]) {
      await write(data, 3 - epoch, { epoch });
      await tool('backup', '--data', data, '--to', to);
      const reader = LogReader.openReader({ directory: data });
      const tips = reader
        .partitions()
        .map(({ group, partition, tip }) => ({ group, partition, ...storedTip(tip) }))
        .toSorted((a, b) => a.partition - b.partition);
      await reader.close();
      ends.push({ timeMs: Math.max(...tips.map(({ timeMs }) => timeMs)), tips });
    }
    await write(data, 1, { epoch: 3 });
    const archived = await tool('archive', '--data', data, '--to', to, '--before', '2999-01-01');
    t.match(
      archived,
      { status: 0, out: /sequences 10 to/ },
      'which goes on with it, and is of no one moment',
    );
    const { points } = JSON.parse(readFileSync(join(to, 'manifest.json'), 'utf8'));
    t.strictSame(points, ends);
  },
);

t.test(
  'a log whose end was cut off and written anew keeps its partition out of the backup, and no other',
  async (t) => {
    for (const backups of [1, 2]) {
      const [data, to] = [next(), next()];
      for (let epoch = 1; epoch <= backups; epoch += 1) {
        await write(data, 2, { epoch });
        await tool('backup', '--data', data, '--to', to);
      }
      const log = WriteAheadLog.open({
        directory: data,
        now: Date.now,
        onFailure: (error) => t.fail(error.message),
      });
      await log.truncateAfter('accounts', 1, 2);
      await log.close();
      await write(data, 5, { epoch: 3, atMs: Date.parse('2026-11-22T09:00:00Z') });

      const added = await tool('backup', '--data', data, '--to', to);
      t.match(added, {
        status: 1,
        out: /Nothing of accounts\/1 was added: .* another batch \d than the backup: .* begin a new directory/,
      });
      t.match(added.out, /^12 batches, 30 records added/m, 'of the other two');
      t.match(
        await tool('restore', '--from', to, '--rehearse'),
        { status: 0 },
        'what the backup has is whole',
      );
      t.match(await tool('backup', '--data', data, '--to', next()), { status: 0 }, 'as is a new one');
    }
  },
);

t.test('each partition that stays out of a backup is told with its own trouble', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 2);
  await tool('backup', '--data', data, '--to', to);
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory: data, now: Date.now, onFailure });
  await log.truncateAfter('accounts', 1, 2);
  await log.close();
  await write(data, 2, { epoch: 2, atMs: Date.parse('2026-11-22T09:00:00Z') });
  // The last that the backup has of it, by which it would know the log.
  const database = openLogDatabase({ directory: data });
  const last: [string, number, number] = ['accounts', 0, 3];
  await database.put(last, Buffer.from(database.getBinary(last)!).fill(0, 70, 80));
  await database.close();
  const { status, out } = await tool('backup', '--data', data, '--to', to);
  t.equal(status, 1);
  t.match(out, /^Nothing of accounts\/0, webhooks\/0 was added: log corrupt: accounts\/0 batch 3: /m);
  t.match(
    out,
    /^Nothing of accounts\/1 was added: accounts\/1: the log has another batch 3 than the backup/m,
  );
});

t.test('a backup is of one log: another is refused, also where that has more partitions', async (t) => {
  const [data, other, to] = [next(), next(), next()];
  await write(data, 2);
  await tool('export', '--data', data, '--to', to, '--group', 'accounts', '--partition', '1');
  await write(other, 4, { atMs: 1 });
  const before = readdirSync(to);
  t.match(await tool('backup', '--data', other, '--to', to), {
    status: 1,
    err: /^backup: accounts\/1: the backup is of another log\n$/,
  });
  // A shorter one, which looks as if it had lost its end.
  const shorter = next();
  await write(shorter, 1, { atMs: 1 });
  t.match(await tool('backup', '--data', shorter, '--to', to), {
    status: 1,
    err: /^backup: log corrupt: accounts\/1 batch 3 .*: its end is lost, or the backup is of another log\n$/,
  });
  t.strictSame(readdirSync(to), before);
});

t.test('a log that began anew behind its backup keeps its partition out of it, and no other', async (t) => {
  const [data, to, late] = [next(), next(), next()];
  await write(data, 2);
  await tool('backup', '--data', data, '--to', to);
  const log = WriteAheadLog.open({
    directory: data,
    now: Date.now,
    onFailure: (error) => t.fail(error.message),
  });
  // As a node of a cluster does whose stream was trimmed meanwhile, and one that gets a partition.
  const snapshot = { batch: 99, sequence: 99, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) };
  await log.clear('accounts', 1);
  await log.startAt('accounts', 1, snapshot);
  await log.startAt('accounts', 2, snapshot);
  await log.close();
  await write(data, 1, { epoch: 2 });
  const { status, out } = await tool('backup', '--data', data, '--to', to);
  t.equal(status, 1);
  t.match(
    out,
    /Nothing of accounts\/1 was added: accounts\/1: the backup ends at batch 3, .* begin a new directory/,
  );
  t.match(
    out,
    /Nothing of accounts\/2 was added: accounts\/2: batches up to 99 were trimmed, .* a new directory/,
  );
  t.match(out, /^4 batches, 6 records added/m, 'of the other two');
  t.match(await tool('backup', '--data', data, '--to', late), {
    status: 1,
    err: /copy the archive that has/,
  });
});

t.test('a backup that a trim has left behind says how to begin the next', async (t) => {
  const [data, archive, to] = [next(), next(), next()];
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 2, { atMs });
  await tool('backup', '--data', data, '--to', to);
  await write(data, 8, { epoch: 2, atMs: atMs + 60_000 });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive, '--before', '2026-02-01');
  await tool('trim', '--data', data, '--archive', archive, '--yes');
  t.match(await tool('backup', '--data', data, '--to', to), {
    status: 1,
    err: /ends at batch \d+, .* were trimmed: begin a new directory as a copy of the archive that has them\n$/,
  });
  t.match(await tool('backup', '--data', data, '--to', archive), { status: 0 }, 'which goes on');
  t.match(await tool('restore', '--from', archive, '--rehearse'), { status: 0 }, 'and is whole');
});

t.test(
  'what has read more of another log than is restored is cut off, in whatever order they were copied',
  async (t) => {
    const [data, to, restored] = [next(), next(), next()];
    await write(data, 3, { atMs: Date.parse('2026-01-01T00:00:00Z') });
    await tool('archive', '--data', data, '--to', to, '--group', 'webhooks');
    await tool('archive', '--data', data, '--to', to);
    // Each record of webhooks has read as many of accounts.
    const reading = {
      group: 'webhooks',
      of: 'accounts',
      readTo: (record: string): number => JSON.parse(record).sequence,
    };
    const place = ['--group', 'accounts', '--partition', '0', '--until-sequence', '5'];
    const args = ['--from', to, '--to', restored, ...place];
    t.match(await runTool([restoreTool(reading)], 'restore', ...args), { status: 0 });
    t.hasStrict(await tips(restored), [
      { tip: { sequence: 5 } },
      { tip: { sequence: 9 } },
      { tip: { sequence: 3 } },
    ]);
  },
);

t.test('and where the backup itself ends so; what comes after can be imported', async (t) => {
  const [data, to, restored] = [next(), next(), next()];
  await write(data, 3, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  const one = ['--group', 'accounts', '--partition', '0', '--to-sequence', '6'];
  await tool('export', '--data', data, '--to', to, ...one);
  await tool('archive', '--data', data, '--to', to, '--group', 'webhooks');
  // The last record but one of a batch of webhooks says how far they are.
  const readTo = (record: string): number | null => {
    const { sequence } = JSON.parse(record);
    return sequence % 3 === 2 ? sequence + 1 : null;
  };
  const reading = { group: 'webhooks', of: 'accounts', readTo };
  const args = ['restore', '--from', to, '--to', restored, '--json'] as const;
  const { status, out } = await runTool([restoreTool(reading)], ...args);
  t.match(
    { status, ...JSON.parse(out) },
    {
      status: 0,
      sound: true,
      cuts: [
        'webhooks/0 is cut off after sequence 6: what follows had read accounts/0 up to 9, which is restored up to 6',
      ],
    },
  );
  t.hasStrict(await tips(restored), [{ tip: { sequence: 6 } }, { tip: { sequence: 6 } }]);
  const whole = next();
  await tool('export', '--data', data, '--to', whole);
  t.match(await tool('import', '--data', restored, '--from', whole), { status: 0 });
  t.strictSame(await tips(restored), await tips(data));

  // Who has the accounts elsewhere imports them.
  const alone = next();
  await tool('export', '--data', data, '--to', alone, '--group', 'webhooks');
  const there = ['restore', '--from', alone, '--rehearse', '--json'] as const;
  t.match(JSON.parse((await runTool([restoreTool(reading)], ...there)).out), {
    cuts: [],
    partitions: [{ sequence: 9 }],
  });
});

t.test(
  'what a restore reads no further is closed: of every partition that it cuts it would keep a file open',
  async (t) => {
    const [data, to] = [next(), next()];
    let nowMs = Date.parse('2026-01-01T00:00:00Z');
    const onFailure = (error: Error): void => void t.fail(error.message);
    const log = WriteAheadLog.open({ directory: data, now: () => nowMs, onFailure, batchRecordsMax: 1 });
    const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable() {} });
    for (let n = 0; n < 20; n += 1) {
      nowMs += 1_000;
      // Too much for what streams hold, and not to be compressed.
      partition.append(randomBytes(30_000).toString('base64'));
      await partition.drained();
    }
    await log.close();
    await tool('backup', '--data', data, '--to', to);
    const until = ['--until', '2026-01-01T00:00:03Z'];
    t.match(await tool('restore', '--from', to, '--rehearse', ...until), { status: 0, out: /3 {2}records/ });
    const file = segmentIn(to, 'accounts-0');
    const isOpen = (): boolean =>
      readdirSync('/proc/self/fd').some((fd) => linkOrNull(`/proc/self/fd/${fd}`) === file);
    await waitUntil(() => !isOpen());
    t.notOk(isOpen());
  },
);

t.test('a backup with records of a newer version is refused before anything is restored', async (t) => {
  const [data, to, restored] = [next(), next(), next()];
  const here = (name: string, ...args: string[]) => runTool([...logTools], name, ...args);
  const note = (records: number): void =>
    writeFileSync(join(data, 'daftari.json'), JSON.stringify({ records }));
  await write(data, 2);
  note(RECORD_FORMATS.newest);
  t.match(await here('backup', '--data', data, '--to', to), { status: 0 });
  t.match(await here('restore', '--from', to, '--rehearse'), { status: 0 });
  note(RECORD_FORMATS.newest + 1);
  await write(data, 2, { epoch: 2, atMs: Date.parse('2026-11-22T09:00:00Z') });
  growManifest(to);
  t.match(
    await here('backup', '--data', data, '--to', to),
    { status: 0 },
    'which it may have of any version',
  );
  // Of one whose note is gone, or is an older copy of it, the manifest still says so.
  for (const noted of [RECORD_FORMATS.newest, 0]) {
    note(noted);
    t.match(await here('backup', '--data', data, '--to', to), { status: 0 });
  }
  for (const args of [['--to', restored], ['--rehearse']]) {
    const refused = await here('restore', '--from', to, ...args);
    t.match(refused, {
      status: 2,
      err: / has records of format \d+; this version reads them up to format \d+: restore with/,
    });
  }
  t.notOk(existsSync(restored), 'not even made');
  // Records of accounts and webhooks would be looked into.
  const unlooked = [restoreTool(null, RECORD_FORMATS.newest)];
  const before = ['--from', to, '--to', restored, '--until', '2026-11-21T23:59:59Z'];
  t.match(
    await runTool(unlooked, 'restore', ...before),
    { status: 0 },
    'what was there before may be of an older one',
  );
});

/** Null: it is closed by now. */
function linkOrNull(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

t.test('a restore that cannot read back what it wrote has made no log, and begins anew', async (t) => {
  const [data, to, restored] = [next(), next(), next()];
  await write(data, 2);
  await tool('backup', '--data', data, '--to', to);
  const file = join(restored, 'log', 'data.mdb');
  /** The disk does not keep a record of each partition. */
  class Forgetting extends Progress {
    override start(what: string, total: number): void {
      super.start(what, total);
      if (what !== 'verify') return;
      const content = readFileSync(file);
      const word = '"sequence":6';
      const disk = openSync(file, 'r+');
      for (let at = content.indexOf(word); at >= 0; at = content.indexOf(word, at + 1)) {
        writeSync(disk, '7', at + word.length - 1);
      }
      closeSync(disk);
    }
  }
  const progress = new Forgetting({ write: () => {}, shown: false, overwrites: false });
  const values = { from: to, to: restored };
  t.match(await restoreTool(null).run({ directory: '', values, progress }), {
    sound: false,
    report: { faults: [{ batch: 3, problem: /CRC32C/ }, {}, {}] },
  });
  const refused = { status: 1, err: /the restore .* did not come to its end: run it again/ };
  t.match(await tool('verify', '--data', restored), refused);
  t.match(await tool('restore', '--from', to, '--to', restored), { status: 0, out: /^Begun anew/ });
  t.strictSame(await tips(restored), await tips(data));
});
