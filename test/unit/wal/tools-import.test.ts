// An import that has not come to its end: nobody takes what it has appended by then for the log, and running it again ends it.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { readConfig } from '../../../src/config.ts';
import { openDataDirectory } from '../../../src/data-directory/data-directory.ts';
import { RECORD_FORMATS } from '../../../src/domain/record-format.ts';
import { logTools } from '../../../src/log-tools/commands.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { walTools } from '../../../wal/tools/all.ts';
import { runTool } from './run-tool.ts';
import { checkpointAll, next, segmentIn, tips, tool, write } from './tool-logs.ts';

const SPACE = { onChange() {}, onError() {} };
const told =
  /the import of accounts-0, accounts-1, webhooks-0 into \S+ did not come to its end: run it again/;

function serve(directory: string) {
  const config = readConfig({ DATA_DIR: directory, DISK_RESERVE_MB: '0' });
  return openDataDirectory(config, SPACE);
}

/** Of the same, but its last partition is another's: what follows is proven as it is read. */
function withoutItsLast(copy: string): string {
  const broken = next();
  cpSync(copy, broken, { recursive: true });
  cpSync(segmentIn(broken, 'accounts-0'), segmentIn(broken, 'webhooks-0'));
  return broken;
}

async function isNobodys(t: Test, directory: string, source: string, sentence: RegExp): Promise<void> {
  await t.rejects(serve(directory), { name: 'DataDirectoryError', message: sentence });
  t.throws(() => WriteAheadLog.open({ directory, now: Date.now, onFailure: () => {} }), {
    message: sentence,
  });
  const tools = [['verify'], ['inspect'], ['backup', '--to', next()], ['trim', '--archive', source, '--yes']];
  for (const [name = '', ...args] of tools) {
    t.match(await tool(name, '--data', directory, ...args), { status: 1, err: sentence }, name);
  }
  t.match(await tool('restore', '--from', source, '--to', directory), { status: 2, err: /is not empty/ });
}

t.test('of a whole log, into nothing and behind what is there', async (t) => {
  const [data, older, copy] = [next(), next(), next()];
  await write(data, 2);
  cpSync(data, older, { recursive: true });
  await write(data, 2, { epoch: 2 });
  await tool('export', '--data', data, '--to', copy);
  const broken = withoutItsLast(copy);
  for (const to of [next(), older]) {
    const failed = await tool('import', '--data', to, '--from', broken);
    t.match(failed, { status: 1, err: /webhooks-0\S+ has changed/ });
    await isNobodys(t, to, copy, told);

    const one = ['--group', 'accounts', '--partition', '0'];
    t.match(await tool('import', '--data', to, '--from', copy, ...one), { status: 0 });
    await isNobodys(t, to, copy, /the import of accounts-1, webhooks-0 into/);

    t.match(await tool('import', '--data', to, '--from', copy), { status: 0, out: /^sound/ });
    t.strictSame(await tips(to), await tips(data));
    t.strictSame(readdirSync(join(to, 'log')), ['data.mdb', 'lock.mdb']);
  }
});

t.test('what a killed one was to bring is not there with an import of less of it', async (t) => {
  const [data, less, copy, to] = [next(), next(), next(), next()];
  await write(data, 2);
  await tool('export', '--data', data, '--to', less);
  await write(data, 2, { epoch: 2 });
  await tool('export', '--data', data, '--to', copy);
  t.match(await tool('import', '--data', to, '--from', withoutItsLast(copy)), { status: 1 });
  for (const batches of [3, 0]) {
    t.match(await tool('import', '--data', to, '--from', less), {
      status: 1,
      out: new RegExp(
        `^webhooks-0: an import that did not come to its end was to bring batches up to 6: run that again\n` +
          `NOT SOUND: ${batches} batches imported`,
      ),
    });
    await isNobodys(t, to, copy, /the import of webhooks-0 into/);
  }
  t.match(await tool('import', '--data', to, '--from', copy), { status: 0, out: /^sound/ });
  t.strictSame(await tips(to), await tips(data));
  t.match(await tool('verify', '--data', to), { status: 0 });
});

t.test('a mark of a version that did not say what is to come goes with the next one', async (t) => {
  const [data, copy, to] = [next(), next(), next()];
  await write(data, 2);
  await tool('export', '--data', data, '--to', copy);
  cpSync(data, to, { recursive: true });
  writeFileSync(join(to, 'log', 'unfinished-import-accounts-0'), '');
  await isNobodys(t, to, copy, /the import of accounts-0 into/);
  t.match(await tool('import', '--data', to, '--from', copy), { status: 0, out: /^sound/ });
  t.match(await tool('verify', '--data', to), { status: 0 });
});

t.test('one that could not be marked has appended nothing, and the log is served as it was', async (t) => {
  const [data, copy, to] = [next(), next(), next()];
  await write(data, 2);
  cpSync(data, to, { recursive: true });
  await write(data, 1, { epoch: 2 });
  await tool('export', '--data', data, '--to', copy);
  const mark = join(to, 'log', 'unfinished-import-accounts-1');
  mkdirSync(mark);
  const before = await tips(data);
  const failed = await tool('import', '--data', to, '--from', copy);
  t.match(failed, { status: 1, err: /^import: EISDIR\S*: .*unfinished-import-accounts-1/ });
  rmdirSync(mark);
  t.strictSame(readdirSync(join(to, 'log')), ['data.mdb', 'lock.mdb']);
  t.match(await tool('verify', '--data', to), { status: 0 });
  t.match(await tool('import', '--data', to, '--from', copy), { status: 0 });
  t.strictSame(await tips(to), before);
});

t.test('of nothing yet, into nothing: an empty log is not served as the whole one', async (t) => {
  const [data, copy, to] = [next(), next(), next()];
  await write(data, 2);
  await tool('export', '--data', data, '--to', copy);
  const broken = next();
  cpSync(copy, broken, { recursive: true });
  cpSync(segmentIn(broken, 'webhooks-0'), segmentIn(broken, 'accounts-0'));
  t.match(await tool('import', '--data', to, '--from', broken), {
    status: 1,
    err: /accounts-0\S+ has changed/,
  });
  await isNobodys(t, to, copy, told);
});

t.test('of what was trimmed, which counts when it is whole: the log is served as it was', async (t) => {
  const [data, archive] = [next(), next()];
  await write(data, 4, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  await tool('archive', '--data', data, '--to', archive);
  await tool('trim', '--data', data, '--archive', archive, '--yes');
  const trimmed = await tips(data);
  t.match(await tool('import', '--data', data, '--from', withoutItsLast(archive)), { status: 1 });
  t.strictSame(((await tips(data)) as unknown[]).at(-1), (trimmed as unknown[]).at(-1));
  t.match(await tool('verify', '--data', data), { status: 0 });
  t.match(await tool('import', '--data', data, '--from', archive), { status: 0 });
});

/** A log, and an archive of what was trimmed of it, but for its beginning. */
async function trimmedTwice(epoch: number): Promise<[string, string]> {
  const [data, first, second] = [next(), next(), next()];
  await write(data, 8, { epoch, atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  for (const [archive, before] of [
    [first, '2026-01-01T00:00:06Z'],
    [second, '2026-01-01T00:01:00Z'],
  ] as const) {
    await tool('archive', '--data', data, '--to', archive, '--before', before);
    await tool('trim', '--data', data, '--archive', archive, '--yes');
  }
  return [data, second];
}

t.test('of what was trimmed, but for its beginning: that nothing is put back is said', async (t) => {
  const [data, second] = await trimmedTwice(1);
  const trimmed = await tips(data);
  t.match(await tool('import', '--data', data, '--from', second), {
    status: 0,
    out: /^accounts\/0 begins after sequence 21: \S+ has not all that is before\n[^]*sound: 0 batches/,
  });
  t.strictSame(await tips(data), trimmed);
});

t.test('of what was exported of before a log begins, which is said to be nothing', async (t) => {
  const [data] = await trimmedTwice(1);
  const args = ['--data', data, '--group', 'accounts', '--partition', '0', '--to-sequence', '20'];
  t.match(await tool('export', ...args, '--to', next()), {
    status: 0,
    out: 'accounts/0: no whole batch up to sequence 20\n',
  });
});

t.test('of what ends where the log begins, otherwise: that it is of another log is said', async (t) => {
  const [[data], [, archive]] = [await trimmedTwice(1), await trimmedTwice(2)];
  const before = await tips(data);
  t.match(await tool('import', '--data', data, '--from', archive), {
    status: 1,
    err: /^import: accounts\/0: batch 8 of \S+ differs from the log's\n$/,
  });
  t.strictSame(await tips(data), before);
});

t.test('of records of a newer version: refused before anything is written, with what to do', async (t) => {
  const [data, older] = [next(), next()];
  const here = (name: string, ...args: string[]) => runTool([...walTools, ...logTools], name, ...args);
  const note = (records: number): void =>
    writeFileSync(join(data, 'daftari.json'), JSON.stringify({ records }));
  const { newest } = RECORD_FORMATS;
  const copies = {
    export: ['export'],
    backup: ['backup'],
    archive: ['archive', '--before', '2999-01-01'],
  };
  await write(data, 2, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  cpSync(data, older, { recursive: true });
  await write(data, 2, { epoch: 2, atMs: Date.parse('2026-01-02T00:00:00Z') });
  const before = await tips(older);
  for (const [what, [name = '', ...args]] of Object.entries(copies)) {
    const copyOf = async (records: number): Promise<string> => {
      const to = next();
      note(records);
      t.match(await here(name, '--data', data, ...args, '--to', to), { status: 0 }, what);
      return to;
    };
    const later = await copyOf(newest + 1);
    for (const to of [older, next()]) {
      t.match(
        await here('import', '--data', to, '--from', later),
        {
          status: 2,
          err: new RegExp(
            `^import: ${later} has records of format ${newest + 1}; this version reads them up to format ${newest}: import with the ` +
              'version that wrote them, or a newer one, and start that one\n',
          ),
        },
        what,
      );
      if (to !== older) t.notOk(existsSync(to), 'not even made');
    }
    t.strictSame(await tips(older), before, what);
    t.match(await here('verify', '--data', older), { status: 0 }, 'and it is served as before');
    const known = await copyOf(newest);
    t.match(await here('import', '--data', next(), '--from', known), { status: 0 }, what);
  }
});

t.test(
  'of a log that begins late, by a manifest that is put back: nothing was taken from the damaged one',
  async (t) => {
    const [data] = await trimmedTwice(1);
    const copy = next();
    await tool('export', '--data', data, '--to', copy);
    const file = join(copy, 'manifest.json');
    const whole = readFileSync(file, 'utf8');
    const { segments, ...manifest } = JSON.parse(whole);
    const { start } = segments[0];
    for (const turned of [
      { ...start, batch: start.batch + 1 },
      { ...start, sequence: start.sequence + 1 },
      { ...start, hash: start.hash.replace(/^./, 'x') },
    ]) {
      const told = /does not begin as manifest\.json says, after batch \d: that is damaged/;
      const to = next();
      writeFileSync(
        file,
        JSON.stringify({ ...manifest, segments: segments.with(0, { ...segments[0], start: turned }) }),
      );
      t.match(await tool('import', '--data', to, '--from', copy), { status: 1, err: told });
      writeFileSync(file, whole);
      t.match(await tool('import', '--data', to, '--from', copy), { status: 0 });
      t.strictSame(await tips(to), await tips(data));
    }
  },
);

t.test('where a restore has not come to its end, nothing is imported', async (t) => {
  const [data, copy, to] = [next(), next(), next()];
  await write(data, 2);
  await tool('export', '--data', data, '--to', copy);
  t.equal((await tool('restore', '--from', withoutItsLast(copy), '--to', to)).status, 1);
  const refused = { status: 1, err: /the restore into \S+ did not come to its end: run it again/ };
  t.match(await tool('import', '--data', to, '--from', copy), refused);
  t.match(await tool('restore', '--from', copy, '--to', to), { status: 0, out: /^Begun anew/ });
  await t.rejects(serve(to), { message: /daftari\.json is missing/ }, 'it is a log');
});

t.test(
  'of what leaves a gap, or follows another end: nothing is touched, and the log stays served',
  async (t) => {
    const [data, shorter, other, archive, late] = [next(), next(), next(), next(), next()];
    const atMs = Date.parse('2026-01-01T00:00:00Z');
    await write(data, 2, { atMs });
    cpSync(data, shorter, { recursive: true });
    cpSync(data, other, { recursive: true });
    await write(other, 0, { epoch: 3, atMs });
    await write(data, 1, { epoch: 2, atMs: atMs + 60_000 });
    await checkpointAll(data);
    await tool('archive', '--data', data, '--to', archive);
    await tool('trim', '--data', data, '--archive', archive, '--yes');
    await tool('export', '--data', data, '--to', late);
    const cases: [string, RegExp][] = [
      [
        shorter,
        /^import: accounts\/0: the log ends with batch 3, and \S+ begins after 4: import what is between first\n$/,
      ],
      [other, /^import: accounts\/0: batch 4 of \S+ differs from the log's\n$/],
    ];
    for (const [directory, problem] of cases) {
      const before = await tips(directory);
      t.match(await tool('import', '--data', directory, '--from', late), { status: 1, err: problem });
      t.strictSame(await tips(directory), before);
      t.match(await tool('verify', '--data', directory), { status: 0 });
    }
  },
);
