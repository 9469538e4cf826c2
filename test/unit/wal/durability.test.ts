// An acknowledgement comes after the disk has confirmed, and a disk that fails is never taken for one that works; nor does a
// backup name what is not on disk. The log runs in a process of its own whose system calls are traced, delayed or made to
// fail by strace; without strace (or the right to trace) those tests are skipped, and group-commit.test.ts proves the gate
// with a disk held back by hand.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Test } from 'tap';
import { LogReader } from '../../../wal/log-reader.ts';
import { recordAt } from '../../crash/wal-record.ts';
import { someOf } from '../../seed.ts';
import { traced, tracer } from '../../tracer.ts';
import { growManifest, next, tips, tool, toolJson } from './tool-logs.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

const root = temporaryDirectory(t);
const writer = fileURLToPath(new URL('../../crash/wal-writer.ts', import.meta.url));
const cli = fileURLToPath(new URL('../../../wal/cli.ts', import.meta.url));
/** It makes the calls, so that a trace has them in order and strace counts them together. */
const oneThread = { ...process.env, UV_THREADPOOL_SIZE: '1' };
const CALLS = 'trace=openat,fdatasync,pwrite64,write';
let runs = 0;

interface Run {
  readonly directory: string;
  readonly lines: string[];
  readonly code: number | null;
}

async function run(
  before: readonly string[],
  args: readonly number[],
  directory: string = join(root, `${(runs += 1)}`),
): Promise<Run> {
  const [command = process.execPath, ...rest] = [
    ...before,
    process.execPath,
    writer,
    directory,
    ...args.map(String),
  ];
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'ignore'] });
  const lines: string[] = [];
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    const whole = text.split('\n');
    text = whole.pop() ?? '';
    lines.push(...whole);
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { directory, lines, code };
}

/** The log is sound, and everything acknowledged is in it. */
async function checkKept(t: Test, { directory, lines }: Run): Promise<void> {
  const reader = LogReader.openReader({ directory });
  const kept = new Map<number, number>();
  for (const { group, partition } of reader.partitionNames()) {
    for (const batch of reader.read(group, partition, { afterBatch: 0 })) {
      batch.records.forEach((record, index) => {
        if (record !== recordAt(partition, batch.firstSequence + index)) t.fail('a record has changed');
      });
      kept.set(partition, batch.firstSequence + batch.records.length - 1);
    }
  }
  await reader.close();
  for (const line of lines.filter((text) => text.startsWith('acked'))) {
    const [, partition, sequence] = line.split(' ').map(Number);
    if (!((kept.get(partition ?? -1) ?? 0) >= (sequence ?? 0))) t.fail(`lost: ${line}`);
  }
}

t.test('an acknowledgement follows fdatasync and a synchronous write of the meta page', traced, async (t) => {
  const trace = join(root, 'trace.txt');
  const result = await run([tracer, '-f', '-qq', '-o', trace, '-e', CALLS], [1, 1, 8, 400]);
  t.equal(result.lines.at(-1), 'done');
  const { acknowledgements, early } = readTrace(readFileSync(trace, 'utf8'));
  t.ok(acknowledgements > 10);
  t.equal(early, 0, 'none came before its commit was on disk');
  await checkKept(t, result);
});

t.test(
  'a log that was just made has its name on the disk before anything is acknowledged',
  traced,
  async (t) => {
    const trace = join(root, 'names.txt');
    const calls = ['-f', '-y', '-qq', '-o', trace, '-e', 'trace=fsync,write'];
    const { directory } = await run([tracer, ...calls], [1, 0, 1, 3]);
    const [before = '', ...acknowledged] = readFileSync(trace, 'utf8').split('"acked');
    t.equal(acknowledged.length, 3);
    const synced = Array.from(before.matchAll(/ fsync\(\d+<(.+?)>/g), ([, path]) => path);
    const log = join(directory, 'log');
    t.strictSame(
      synced,
      [dirname(directory), directory, log, directory],
      'as they are made, and again by the log',
    );
  },
);

/** One partition, one batch a flush: the nth acknowledgement needs n commits, each fdatasync and then the meta page. */
function readTrace(trace: string): { acknowledgements: number; early: number } {
  let metaFd = 'none';
  let synced = false;
  let commits = 0;
  let acknowledgements = 0;
  let early = 0;
  const unfinished = new Map<string, string>();
  for (const line of trace.split('\n')) {
    const [pid = '', rest = ''] = line.split(/ +(.*)/);
    if (rest.startsWith('write(1, "ready')) commits = 0;
    if (rest.startsWith('write(1, "acked')) {
      acknowledgements += 1;
      if (acknowledgements > commits) early += 1;
    }
    if (rest.endsWith('<unfinished ...>')) {
      unfinished.set(pid, rest);
      continue;
    }
    const call = rest.startsWith('<...') ? `${unfinished.get(pid)}${rest}` : rest;
    metaFd = /^openat\(.*data\.mdb".*O_DSYNC.*= (\d+)$/.exec(call)?.[1] ?? metaFd;
    if (/^fdatasync.*= 0(?: \(DELAYED\))?$/.test(call)) synced = true;
    if (synced && call.startsWith(`pwrite64(${metaFd},`)) {
      commits += 1;
      synced = false;
    }
  }
  return { acknowledgements, early };
}

t.test('a slow disk is waited for', traced, async (t) => {
  const trace = join(root, 'slow.txt');
  const slowly = ['-e', CALLS, '-e', 'inject=fdatasync:delay_enter=300000'];
  await run([tracer, '-f', '-qq', '-o', trace, ...slowly], [1, 0, 1, 3]);
  t.strictSame(readTrace(readFileSync(trace, 'utf8')), { acknowledgements: 3, early: 0 });
});

t.test('a failing fdatasync stops the log, and nothing acknowledged is lost', traced, async (t) => {
  const result = await run(
    [
      tracer,
      '-f',
      '-qq',
      '-o',
      '/dev/null',
      '-e',
      'trace=fdatasync',
      '-e',
      'inject=fdatasync:error=EIO:when=25+',
    ],
    [2, 1, 8, 100_000],
  );
  t.equal(result.code, 3);
  t.match(result.lines.at(-1), /^failed LMDB did not commit to \S+\/log\/data\.mdb: Input\/output error/);
  t.ok(result.lines.filter((line) => line.startsWith('acked')).length > 10);
  t.notOk(result.lines.includes('late'));
  await checkKept(t, result);
});

t.test('a disk that hangs is given up', traced, async (t) => {
  const delay = 'inject=fdatasync:delay_enter=3000000:when=10+';
  const result = await run(
    [tracer, '-f', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync', '-e', delay],
    [1, 1, 8, 100_000, 500],
  );
  t.match(result.lines.at(-1), /^failed LMDB did not commit to \S+: the commit has not ended in \d+ ms/);
});

t.test('a file that cannot grow stops the log, and nothing acknowledged is lost', async (t) => {
  // 4 MiB in blocks of 512 or 1,024 bytes, whichever the shell counts in.
  const result = await run(['sh', '-c', 'ulimit -f 4096; exec "$@"', 'sh'], [2, 1, 64, 1_000_000]);
  t.equal(result.code, 3);
  t.match(result.lines.at(-1), /^failed LMDB did not commit/);
  t.notOk(result.lines.includes('late'));
  t.ok(result.lines.length > 10);
  await checkKept(t, result);
  t.equal(
    (await run([], [2, 2, 64, 1000], result.directory)).lines.at(-1),
    'done',
    'with room again, it goes on',
  );
});

t.test('the map grows far beyond what was reserved', async (t) => {
  // The writer reserves 1 MiB.
  const result = await run([], [4, 1, 256, 60_000]);
  t.equal(result.lines.at(-1), 'done');
  await checkKept(t, result);
});

t.test('a manifest is on disk only after the files it names, under the names it gives', traced, async (t) => {
  const { directory } = await run([], [2, 1, 8, 40]);
  const to = join(root, 'backup');
  const stepsOfBackup = (): string[] => {
    const trace = join(root, 'backup-trace.txt');
    t.equal(backup(directory, to, ['-y', '-o', trace, '-e', 'trace=fsync,rename']), 0);
    const calls = readFileSync(trace, 'utf8').matchAll(/(fsync|rename)\(.*[<"](.+)[>"]\) += 0/g);
    return Array.from(calls, ([, call, path = '']) => `${call} ${relative(to, path) || '.'}`);
  };
  const segmentsIn = (): string[] => readdirSync(to).filter((file) => file.endsWith('.gz'));
  const added = (files: readonly string[]): string[] =>
    files.flatMap((file) => [`fsync ${file.replace(/-\d+\.segment\.gz$/, '.part')}`, `rename ${file}`]);
  const named = ['fsync .', 'fsync manifest.json.part', 'rename manifest.json', 'fsync .'];

  const first = stepsOfBackup();
  const before = segmentsIn();
  t.equal(before.length, 2);
  // As it is made, and again: whoever made it may have been killed before.
  t.strictSame(first, ['fsync ..', 'fsync ..', ...added(before), ...named]);

  growManifest(to);
  await run([], [2, 2, 8, 40], directory);
  const part = ['fsync manifest-000001.json.part', 'rename manifest-000001.json'];
  const second = stepsOfBackup();
  const fresh = segmentsIn().filter((file) => !before.includes(file));
  t.strictSame(second, [...added(fresh), ...part, ...named]);
});

t.test(
  'a backup that is killed or fails at any step leaves one that is restored and goes on',
  traced,
  async (t) => {
    const { directory } = await run([], [2, 1, 8, 40]);
    const base = join(root, 'killed');
    t.equal(backup(directory, base), 0);
    growManifest(base);
    const before = await tips(directory);
    await run([], [2, 2, 8, 40], directory);
    const after = await tips(directory);
    const restoredFrom = async (to: string): Promise<unknown> => {
      const restored = next();
      t.equal((await tool('restore', '--from', to, '--to', restored)).status, 0);
      return tips(restored);
    };
    const isKilledAt = (call: string, at: number, to: string): boolean => {
      cpSync(base, to, { recursive: true });
      const kill = `inject=${call}:signal=KILL:when=${at}`;
      return backup(directory, to, ['-e', `trace=${call}`, '-e', kill]) === null;
    };
    for (const [call, calls] of Object.entries({ fsync: 6, rename: 4 })) {
      t.notOk(isKilledAt(call, calls + 1, next()), `${call} is called ${calls} times`);
      const all = Array.from({ length: calls }, (_, index) => index + 1);
      for (const at of someOf(t, all, 2)) {
        const to = next();
        t.ok(isKilledAt(call, at, to));
        const restored = JSON.stringify(await restoredFrom(to));
        const isWhole = [before, after].some((whole) => JSON.stringify(whole) === restored);
        t.ok(isWhole, `${call} ${at}: as it was before, or all of it`);
        t.equal((await tool('backup', '--data', directory, '--to', to)).status, 0);
        t.strictSame(await restoredFrom(to), after);
        t.notOk(readdirSync(to).some((file) => file.endsWith('.part')));
      }
    }

    const failed = next();
    cpSync(base, failed, { recursive: true });
    const lastRename = ['-o', '/dev/null', '-e', 'trace=rename', '-e', 'inject=rename:error=ENOSPC:when=4'];
    t.equal(backup(directory, failed, lastRename), 1);
    t.strictSame(
      readdirSync(failed),
      readdirSync(base),
      'one that fails leaves nothing, nor a part of a manifest',
    );
  },
);

t.test(
  'what a tool that was killed had left whole, and no manifest names, is replaced by the next run, which says so',
  traced,
  async (t) => {
    const { directory } = await run([], [2, 1, 8, 40]);
    const segmentsIn = (to: string): string[] => readdirSync(to).filter((file) => file.endsWith('.gz'));
    const manifestOf = (to: string): { segments: { file: string }[] } =>
      JSON.parse(readFileSync(join(to, 'manifest.json'), 'utf8'));
    const archiveAll = ['archive', '--before', '2999-01-01'];
    for (const [name = '', ...options] of [['backup'], archiveAll, ['export']]) {
      const to = join(root, `left-by-${name}`);
      const args = [name, '--data', directory, '--to', to, ...options];
      // Both segments have their names by then; the third is the manifest's.
      const atManifest = ['-e', 'trace=rename', '-e', 'inject=rename:signal=KILL:when=3'];
      t.equal(traceTool(args, ['-o', '/dev/null', ...atManifest]), null);
      const left = segmentsIn(to);
      t.notOk(existsSync(join(to, 'manifest.json')), name);
      t.equal(left.length, 2, name);

      // They end elsewhere now, and so have other names.
      await run([], [2, 2, 8, 40], directory);
      const { status, report } = await toolJson(name, ...args.slice(1));
      t.equal(status, 0, name);
      t.strictSame(report.removed.filter((file: string) => file.endsWith('.gz')).toSorted(), left, name);
      const named = manifestOf(to).segments.map(({ file }) => file);
      t.strictSame(segmentsIn(to), named.toSorted(), `${name}: nothing is there but what the manifest names`);
      t.notOk(named.some((file) => left.includes(file)));
      const restored = next();
      t.equal((await tool('restore', '--from', to, '--to', restored)).status, 0);
      t.strictSame(await tips(restored), await tips(directory), name);
    }
  },
);

t.test(
  'what the disk does not take is told with its file, and nothing half made is left that keeps the next run from its end',
  traced,
  async (t) => {
    const { directory } = await run([], [2, 1, 8, 40]);
    const backed = next();
    t.equal(backup(directory, backed), 0);
    const log = ['--data', directory];
    const fails: [file: string, call: string, args: [string, ...string[]], left: string[], when?: string][] =
      [
        ['writer.lock', 'write', ['backup', ...log], []],
        ['accounts-0-000000000001.part', 'write', ['backup', ...log], []],
        ['accounts-0-000000000001.part', 'fsync', ['archive', ...log, '--before', '2999-01-01'], []],
        ['manifest.json.part', 'write', ['export', ...log], []],
        // Before the manifest is written, and when it is there.
        ['', 'fsync', ['export', ...log], [], ':when=1'],
        ['', 'fsync', ['export', ...log], [], ':when=2'],
        ['', 'fsync', ['backup', ...log], [], ':when=2'],
        ['accounts-0.jsonl.part', 'write', ['export', ...log, '--format', 'jsonl'], []],
        ['accounts-1.jsonl.part', 'fsync', ['export', ...log, '--format', 'jsonl'], []],
        ['log/unfinished', 'fsync', ['restore', '--from', backed], ['log']],
        ['log', 'fsync', ['restore', '--from', backed], ['log']],
        // The mark is gone by then: a power cut would bring it back to a log that is served.
        ['log', 'fsync', ['restore', '--from', backed], ['log'], ':when=2'],
        ['log/data.mdb', 'fdatasync', ['restore', '--from', backed], ['log']],
      ];
    for (const [file, call, args, left, when = ''] of fails) {
      const to = next();
      const path = join(to, file);
      const fault = ['-P', path, '-e', `trace=${call}`, '-e', `inject=${call}:error=ENOSPC${when}`];
      const traced = [
        '-f',
        '-qq',
        '-o',
        '/dev/null',
        ...fault,
        process.execPath,
        cli,
        ...args,
        '--to',
        to,
        '--full-speed',
      ];
      const { status, stderr } = spawnSync(tracer, traced, { encoding: 'utf8', env: oneThread });
      t.equal(status, 1, `${args[0]}: ${call} of ${file}`);
      const said = stderr.trimEnd().split('\n').at(-1) ?? '';
      t.match(said, /no space left on device/i);
      t.ok(said.includes(path), said);
      t.strictSame(readdirSync(to), left);
      t.match(await tool(...args, '--to', to), { status: 0, err: '' }, `${args[0]} after ${call} of ${file}`);
    }
  },
);

t.test(
  'of a write that is cut short it is told how full the disk is: LMDB says EIO of it',
  traced,
  async (t) => {
    const { directory } = await run([], [2, 1, 8, 40]);
    const [backed, to] = [next(), next()];
    t.equal(backup(directory, backed), 0);
    const file = join(to, 'log', 'data.mdb');
    const short = ['-P', file, '-e', 'trace=pwrite64', '-e', 'inject=pwrite64:retval=100:when=2'];
    const args = ['-f', '-qq', '-o', '/dev/null', ...short, process.execPath, cli];
    const restore = ['restore', '--from', backed, '--to', to, '--full-speed'];
    const { status, stderr } = spawnSync(tracer, [...args, ...restore], { encoding: 'utf8', env: oneThread });
    t.equal(status, 1, stderr);
    t.match(
      stderr,
      /^restore: LMDB did not commit to .*: Input\/output error \(its disk has \d+ MiB free\)$/m,
    );
  },
);

/** The exit status; null: it was killed. */
function backup(directory: string, to: string, traceArgs?: readonly string[]): number | null {
  return traceTool(['backup', '--data', directory, '--to', to], traceArgs);
}

function traceTool(toolArgs: readonly string[], traceArgs?: readonly string[]): number | null {
  const tracing = traceArgs === undefined ? [] : [tracer, '-f', '-qq', ...traceArgs];
  const [command, ...args] = [...tracing, process.execPath, cli, ...toolArgs, '--full-speed'];
  return spawnSync(command, args, { env: oneThread }).status;
}
