// Directories of segments: the parts of their manifest, and what is told of a file that cannot be read.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { emptyTip } from '../../../wal/batch.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { SegmentDirectory } from '../../../wal/tools/segment.ts';
import { lockFile } from '../../../wal/writer-lock.ts';
import { quiet } from './run-tool.ts';
import { namesSynced, traced } from '../../tracer.ts';
import { checkpointAll, growManifest, next, tips, tool, toolJson, write } from './tool-logs.ts';

const manifestsIn = (directory: string): string[] =>
  readdirSync(directory).filter((file) => file.startsWith('manifest'));

t.test(
  'a manifest that has grown large goes on in another part, and every tool reads all of them',
  async (t) => {
    const [data, to, imported, late] = [next(), next(), next(), next()];
    const atMs = Date.parse('2026-01-01T00:00:00Z');
    for (let epoch = 1; epoch <= 4; epoch += 1) {
      await write(data, 2, { epoch, atMs: atMs + epoch * 60_000 });
      t.match(await toolJson('backup', '--data', data, '--to', to), { status: 0, report: { batches: 9 } });
      t.ok(statSync(join(to, 'manifest.json')).size < WAL_LIMITS.manifestBytes);
      if (epoch > 2) continue;
      const before = readFileSync(join(to, 'manifest.json'));
      growManifest(to);
      t.match(await toolJson('backup', '--data', data, '--to', to), { status: 0, report: { batches: 0 } });
      t.ok(
        readFileSync(join(to, `manifest-00000${epoch}.json`))
          .subarray(0, before.length)
          .equals(before),
      );
    }
    t.strictSame(manifestsIn(to), ['manifest-000001.json', 'manifest-000002.json', 'manifest.json']);

    const whole = await tips(data);
    const restored = next();
    t.equal((await tool('restore', '--from', to, '--to', restored)).status, 0);
    t.strictSame(await tips(restored), whole);
    const at = ['--group', 'accounts', '--partition', '1', '--until-sequence', '5'];
    t.equal((await tool('restore', '--from', to, '--to', late, ...at)).status, 0);
    t.match(await tips(late), [
      { tip: { sequence: 24 } },
      { tip: { sequence: 5 } },
      { tip: { sequence: 24 } },
    ]);
    t.equal((await tool('import', '--data', imported, '--from', to)).status, 0);
    t.strictSame(await tips(imported), whole);

    // A backup is an archive, too, and goes on as one.
    await write(data, 2, { epoch: 5, atMs: atMs + 300_000 });
    t.match(await toolJson('archive', '--data', data, '--to', to), { report: { segments: [{}, {}, {}] } });
    await checkpointAll(data);
    t.match(await toolJson('trim', '--data', data, '--archive', to, '--yes'), {
      status: 0,
      report: { partitions: [{ from: 0, last: 14 }, { last: 14 }, { last: 14 }] },
    });
  },
);

t.test('a part of a manifest that is gone or has changed is named, and is not needed to go on', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 2);
  await tool('backup', '--data', data, '--to', to);
  growManifest(to);
  await write(data, 2, { epoch: 2 });
  await tool('backup', '--data', data, '--to', to);
  const file = join(to, 'manifest-000001.json');
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.trimEnd());
  const restore = ['restore', '--from', to, '--rehearse'] as const;
  t.match(await tool(...restore), { status: 1, err: new RegExp(`${file} has changed: its SHA-256`) });
  rmSync(file);
  t.match(await tool(...restore), { status: 1, err: new RegExp(file) });
  await write(data, 1, { epoch: 3 });
  t.equal((await tool('backup', '--data', data, '--to', to)).status, 0);
  writeFileSync(file, text);
  t.equal((await tool(...restore)).status, 0);
});

t.test('a directory with a manifest of version 1 is read, and goes on, small or large', async (t) => {
  const [data, small] = [next(), next()];
  for (const epoch of [1, 2]) {
    await write(data, 2, { epoch });
    await tool('backup', '--data', data, '--to', small);
  }
  const file = join(small, 'manifest.json');
  const { format, segments, points } = JSON.parse(readFileSync(file, 'utf8'));
  // In any order: it said nothing of it.
  const old = { format, version: 1, segments: segments.toReversed(), points };
  writeFileSync(file, JSON.stringify(old, null, 2));
  const large = next();
  cpSync(small, large, { recursive: true });
  growManifest(large);
  const before = await tips(data);
  await write(data, 2, { epoch: 3 });
  const after = await tips(data);
  for (const to of [small, large]) {
    const [then, now] = [next(), next()];
    t.equal((await tool('restore', '--from', to, '--to', then)).status, 0);
    t.strictSame(await tips(then), before);
    t.match(await toolJson('backup', '--data', data, '--to', to), { status: 0, report: { batches: 9 } });
    t.equal((await tool('restore', '--from', to, '--to', now)).status, 0);
    t.strictSame(await tips(now), after);
  }
  t.strictSame(manifestsIn(small), ['manifest.json']);
  t.strictSame(manifestsIn(large), ['manifest-000001.json', 'manifest.json']);
});

t.test('segments whose manifest is lost are not taken for what a killed tool had left', async (t) => {
  const [data, to, other] = [next(), next(), next()];
  await write(data, 3);
  await write(other, 5);
  await tool('backup', '--data', data, '--to', to);
  rmSync(join(to, 'manifest.json'));
  const before = readdirSync(to);
  for (const name of ['backup', 'archive']) {
    t.match(await tool(name, '--data', other, '--to', to), {
      status: 1,
      err: /has segments and no manifest\.json: put that back, or choose another directory/,
    });
  }
  t.match(await tool('export', '--data', other, '--to', to), { status: 2, err: /is not empty/ });
  t.strictSame(readdirSync(to), before);
});

/** As it is left where a tool was killed. */
function noteKilled(directory: string): string {
  const killed = spawnSync(process.execPath, ['-p', 'process.pid']).stdout.toString().trim();
  writeFileSync(join(directory, lockFile), killed);
  return killed;
}

t.test('nor where parts of it are left, though one was killed there', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  growManifest(to);
  await tool('backup', '--data', data, '--to', to);
  rmSync(join(to, 'manifest.json'));
  const killed = noteKilled(to);
  const before = readdirSync(to).filter((file) => file !== lockFile);
  for (const name of ['backup', 'archive']) {
    t.match(await tool(name, '--data', data, '--to', to), {
      status: 1,
      err: /has segments and no manifest\.json: put that back, or choose another directory/,
    });
    writeFileSync(join(to, lockFile), killed);
  }
  t.strictSame(
    readdirSync(to).filter((file) => file !== lockFile),
    before,
  );
});

t.test('one that fails after one that was killed leaves it to the next to go on', async (t) => {
  const data = next();
  await write(data, 3);
  for (const name of ['backup', 'export']) {
    const [to, restored] = [next(), next()];
    await tool(name, '--data', data, '--to', to);
    rmSync(join(to, 'manifest.json'));
    noteKilled(to);
    const failing = SegmentDirectory.extend(to, () => Promise.reject(new Error('the disk is full')));
    await t.rejects(failing, { message: 'the disk is full' });
    t.ok(readdirSync(to).includes(lockFile));
    t.match(await tool(name, '--data', data, '--to', to), { status: 0, err: '' }, name);
    t.notOk(readdirSync(to).includes(lockFile));
    t.equal((await tool('restore', '--from', to, '--to', restored)).status, 0);
    t.strictSame(await tips(restored), await tips(data));

    noteKilled(to);
    const another = SegmentDirectory.extend(to, () => Promise.reject(new Error('the disk is full')));
    await t.rejects(another, { message: 'the disk is full' });
    t.notOk(readdirSync(to).includes(lockFile), 'where there is a manifest, it says what is there');
  }
});

/** `manifest`: of the first time. */
async function backedUpTwice() {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  const manifest = readFileSync(join(to, 'manifest.json'));
  await write(data, 2, { epoch: 2 });
  await tool('backup', '--data', data, '--to', to);
  return { data, to, manifest };
}

t.test('what a killed tool had left stays while nothing takes its place', async (t) => {
  const { data, to, manifest } = await backedUpTwice();
  // As one that was killed before the manifest was in place, or as a manifest of yesterday that was put back.
  writeFileSync(join(to, 'manifest.json'), manifest);
  writeFileSync(join(to, 'manifest.json.part'), manifest.subarray(0, 100));
  const files = readdirSync(to);
  const failing = SegmentDirectory.extend(to, async (target) => {
    const reader = LogReader.openReader({ directory: data });
    const name = { group: 'accounts', partition: 0 };
    const start = target.endOf(name)!;
    const all = [...reader.read(name.group, name.partition, { afterBatch: start.batch })];
    await reader.close();
    for (const batches of [all, all.slice(0, -1)]) await target.write(name, start, batches, quiet);
    throw new Error('the disk is full');
  });
  await t.rejects(failing, { message: 'the disk is full' });
  const segments = files.filter((file) => !file.endsWith('.part'));
  t.strictSame(readdirSync(to), segments, 'nor does what fails take its place');
  writeFileSync(join(to, 'manifest.json.part'), manifest.subarray(0, 100));

  const one = ['--group', 'accounts', '--partition', '1', '--before', '2999-01-01'];
  const first = await tool('archive', '--data', data, '--to', to, ...one);
  t.match(first, {
    status: 0,
    out: /^Removed what a run that was killed had left: manifest\.json\.part, acc/,
  });
  t.strictSame(readdirSync(to).toSorted(), files.filter((file) => !file.endsWith('.part')).toSorted());
  await write(data, 1, { epoch: 3 });
  const second = await toolJson('backup', '--data', data, '--to', to);
  t.match(second, { status: 0, report: { removed: [/^accounts-0-0{11}5-/, /^webhooks-0-0{11}5-/] } });
  const { removed } = second.report;
  t.notOk(
    readdirSync(to).some((file) => removed.includes(file)),
    'in its place there is a longer one',
  );
  t.strictSame((await toolJson('backup', '--data', data, '--to', to)).report.removed, []);
  const restored = next();
  t.equal((await tool('restore', '--from', to, '--to', restored)).status, 0);
  t.strictSame(await tips(restored), await tips(data));
});

t.test('nor does it go with a backup that leaves its partition out', async (t) => {
  const { data, to, manifest } = await backedUpTwice();
  writeFileSync(join(to, 'manifest.json'), manifest);
  await write(data, 1, { epoch: 3 });
  const left = readdirSync(to).filter((file) => /^(accounts|webhooks)-0-0{11}5-/.test(file));
  t.equal(left.length, 2);
  const database = openLogDatabase({ directory: data });
  // Found when the accounts that it reads have been written.
  const damaged: [string, number, number] = ['webhooks', 0, 6];
  await database.put(damaged, Buffer.from(database.getBinary(damaged)!).fill(0, 70, 80));
  await database.close();
  t.match(await toolJson('backup', '--data', data, '--to', to), {
    status: 1,
    report: { segments: [{ group: 'accounts', partition: 1 }], removed: [/^accounts-1-0{11}5-/] },
  });
  for (const file of left) t.ok(readdirSync(to).includes(file), file);
});

t.test('what a manifest names stays, though whoever added it fails afterwards', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  const reader = LogReader.openReader({ directory: data });
  const name = { group: 'accounts', partition: 0 };
  const adding = SegmentDirectory.extend(to, async (target) => {
    const batches = reader.read(name.group, name.partition, { afterBatch: 0 });
    const segment = await target.write(name, emptyTip, batches, quiet);
    await target.add([segment!], null);
    throw new Error('afterwards');
  });
  await t.rejects(adding, { message: 'afterwards' });
  await reader.close();
  t.match(await tool('restore', '--from', to, '--rehearse'), { status: 0 });
});

t.test('a file that cannot be read is named, also when that begins after its check', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  const file = join(to, readdirSync(to).find((name) => name.startsWith('accounts-1')) ?? '');

  const source = SegmentDirectory.open(to);
  const check = source.check.bind(source);
  source.check = async (segment) => {
    await check(segment);
    rmSync(file);
  };
  const batches = source.read({ group: 'accounts', partition: 1 });
  await t.rejects(batches.next(), new RegExp(`${file} cannot be read: ENOENT`));

  mkdirSync(file);
  t.match(await tool('restore', '--from', to, '--rehearse'), {
    status: 1,
    err: new RegExp(`${file} cannot be read: EISDIR`),
  });
});

t.test('a manifest that is damaged is told by name, with what can be done', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 2);
  await tool('backup', '--data', data, '--to', to);
  const file = join(to, 'manifest.json');
  const whole = readFileSync(file, 'utf8');
  const { ends, ...endless } = JSON.parse(whole);
  t.equal(ends.length, 3);
  // Of a name or a number one bit has turned over: half of the backup would be restored, and be sound.
  const turned = ['"earlier"', '"partition": 1', '"batch": 3', '"start"', '"sha256"'].flatMap((word) => {
    const found = [whole.indexOf(word), whole.lastIndexOf(word, whole.indexOf('"points"'))];
    return found.map((at) => {
      const bytes = Buffer.from(whole);
      const last = at + word.length - (word.endsWith('"') ? 2 : 1);
      return bytes.fill(bytes[last]! ^ 2, last, last + 1).toString();
    });
  });
  for (const text of ['', whole.slice(0, 300), 'null', '{}', JSON.stringify(endless), ...turned]) {
    writeFileSync(file, text);
    for (const [name, ...args] of [
      ['restore', '--from', to, '--rehearse'],
      ['backup', '--data', data, '--to', to],
    ] as const) {
      t.match(
        await tool(name, ...args),
        { status: 1, err: new RegExp(`^${name}: ${file} is damaged \\(.+\\): put back a copy of it, or go`) },
        `${name}, ${text.slice(0, 20)}`,
      );
    }
  }
  // Of segments that another part names.
  writeFileSync(file, whole);
  growManifest(to);
  t.match(await tool('backup', '--data', data, '--to', to), { status: 0 });
  const later = readFileSync(file, 'utf8');
  for (const [said, turnedOver] of [
    ['"partition": 1', '"partition": 3'],
    ['"batch": 3', '"batch": 2'],
  ] as const) {
    writeFileSync(file, later.replace(said, turnedOver));
    t.match(await tool('restore', '--from', to, '--rehearse'), { status: 1, err: `${file} is damaged (` });
  }
  // Of the part before it: the next one would be kept in its place.
  for (const word of ['"number"', '"sha256"']) {
    writeFileSync(file, later.replace(word, word.replace('"', '"x')));
    t.match(await tool('backup', '--data', data, '--to', to), { status: 1, err: `${file} is damaged (` });
  }
  rmSync(file);
  mkdirSync(file);
  t.match(await tool('restore', '--from', to, '--rehearse'), { status: 1, err: `EISDIR: illegal operation` });
  t.match(await tool('restore', '--from', to, '--rehearse'), { err: `'${file}'` });
});

t.test(
  'a segment and its name are on the disk before the manifest names it, and that before it is said',
  traced,
  async (t) => {
    const [data, at] = [next(), t.testdir()];
    await write(data, 2);
    const programOf = (path: string): string => new URL(`../../../wal/tools/${path}`, import.meta.url).href;
    const adds = (...group: string[]): string[] => {
      const to = ['--to', join(at, 'to'), '--before', '2999-01-01', '--full-speed'];
      const args = ['archive', '--data', data, ...to, ...group];
      const program = `import { runTools } from '${programOf('tool.ts')}'; import { walTools } from '${programOf('all.ts')}';
      const terminal = { out() {}, err: (text) => process.stderr.write(text), errIsTty: false, env: {} };
      process.exitCode = await runTools('wal', walTools, ${JSON.stringify(args)}, terminal);`;
      return namesSynced(at, program).filter((call) => /\/to[/>]/.test(call));
    };
    const [named, segment] = [/^fsync\(\d+<\/to>/, '\\/to\\/webhooks-0-0{11}1'];
    t.match(adds('--group', 'webhooks'), [
      new RegExp(`^fsync\\(\\d+<${segment}\\.part>`),
      new RegExp(`^rename\\("${segment}\\.part", "${segment}-0{11}3\\.segment\\.gz"\\) = 0`),
      named,
      /^fsync\(\d+<\/to\/manifest\.json\.part>/,
      /^rename\("\/to\/manifest\.json\.part", "\/to\/manifest\.json"\) = 0/,
      named,
    ]);
    growManifest(join(at, 'to'));
    t.match(
      adds('--group', 'accounts', '--partition', '0').filter((call) => !call.includes('/to/accounts-0-')),
      [
        /^fsync\(\d+<\/to\/manifest-000001\.json\.part>/,
        /^rename\("\/to\/manifest-000001\.json\.part", "\/to\/manifest-000001\.json"\) = 0/,
        named,
        /^fsync\(\d+<\/to\/manifest\.json\.part>/,
        /^rename\("\/to\/manifest\.json\.part", "\/to\/manifest\.json"\) = 0/,
        named,
      ],
      'what the next part names is there before it',
    );
  },
);
