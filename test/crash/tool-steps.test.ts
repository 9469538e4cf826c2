// The log tools killed before each step that they take on the disk: every file they make, write, rename, sync or remove. The
// same command again comes to its end, what it makes is whole, and nothing of the killed one is left.
//
// A first run tells which files there are; then, of each system call, the first on one of them ends the process, then the
// second, until the command comes to its end by itself. strace counts each thread's: Node is given one for files.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { traced, tracer } from '../tracer.ts';
import { checkpointAll, next, tips, tool, write } from '../unit/wal/tool-logs.ts';

const CLI = join(import.meta.dirname, '../../wal/cli.ts');
const CALLS = 'openat,write,pwrite64,writev,fsync,fdatasync,ftruncate,mkdir,symlink,rename,unlink'.split(',');
/** Of the machine. */
const CORES = 2;

interface Case {
  readonly name: string;
  /** What it begins with; null: nothing. */
  readonly from: string | null;
  readonly args: (directory: string) => string[];
  /** How the command again is refused where the first was killed; what it left is to be removed. Absent: it is not. */
  readonly refused?: (directory: string) => RegExp;
  readonly files: RegExp;
  /** What it made has all that it is to have. */
  readonly proven: (directory: string) => Promise<void>;
}

const [data, trimmed, archive] = [next(), next(), next()];
const SEGMENTS = /^(manifest\.json|.*\.segment\.gz)$/;
const DATA = /^(log|views)(\/(data|lock)\.mdb)?$/;
let [whole, short, archived]: unknown[] = [];

t.before(async () => {
  await write(data, 2, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(data);
  // Of one partition: a step of LMDB is as good as another.
  await tool('archive', '--data', data, '--to', archive, '--group', 'webhooks');
  cpSync(data, trimmed, { recursive: true });
  await tool('trim', '--data', trimmed, '--archive', archive, '--yes');
  const all = (await tips(data)) as { group: string }[];
  [whole, short, archived] = [all, await tips(trimmed), all.filter(({ group }) => group === 'webhooks')];
  t.notSame(short, whole);
});

async function holds(directory: string, log: unknown): Promise<void> {
  const { status, out, err } = await tool('verify', '--data', directory);
  t.equal(status, 0, out + err);
  t.strictSame(await tips(directory), log);
}

async function restores(directory: string): Promise<void> {
  const restored = next();
  t.equal((await tool('restore', '--from', directory, '--to', restored)).status, 0);
  t.strictSame(await tips(restored), whole);
  rmSync(restored, { recursive: true });
}

function isWhole(directory: string): boolean {
  return existsSync(join(directory, 'manifest.json'));
}

const adds = (name: string): Case => ({
  name,
  from: null,
  args: (directory) => [name, '--data', data, '--to', directory],
  files: SEGMENTS,
  proven: restores,
});
const cases: Case[] = [
  adds('backup'),
  { ...adds('export'), refused: (directory) => (isWhole(directory) ? /is not empty/ : /^$/) },
  {
    name: 'trim',
    from: data,
    args: (directory) => ['trim', '--data', directory, '--archive', archive, '--yes'],
    files: DATA,
    proven: (directory) => holds(directory, short),
  },
  {
    name: 'import',
    from: trimmed,
    args: (directory) => ['import', '--data', directory, '--from', archive],
    files: DATA,
    proven: (directory) => holds(directory, whole),
  },
  {
    name: 'restore',
    from: null,
    args: (directory) => ['restore', '--from', archive, '--to', directory],
    refused: () => /did not come to its end: remove the directory|is not empty/,
    files: DATA,
    proven: (directory) => holds(directory, archived),
  },
];

for (const each of cases) {
  t.test(`${each.name}, killed before each of its steps`, traced, async (t) => {
    const directory = next();
    begin(each, directory);
    const paths = filesOf(each, directory);
    await each.proven(directory);
    const calls = [...CALLS];
    let kills = 0;
    const tryThem = async (own: string): Promise<void> => {
      for (let call = calls.shift(); call !== undefined; call = calls.shift()) {
        for (let nth = 1; await isKilled(each, { own, paths, directory, call, nth }); nth += 1) {
          kills += 1;
          await goesOn(t, each, own, `${call} ${nth}`);
        }
      }
    };
    await Promise.all(Array.from({ length: CORES }, () => tryThem(next())));
    t.ok(kills > 10, `${kills} times`);
  });
}

function begin({ from }: Case, directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  if (from !== null) cpSync(from, directory, { recursive: true });
}

/** Of the directory, and itself: those that come and go, too. */
function filesOf({ args }: Case, directory: string): string[] {
  const given = [
    '-f',
    '--seccomp-bpf',
    '-qq',
    '-s',
    '4096',
    '-e',
    `trace=${CALLS.join(',')}`,
    process.execPath,
    CLI,
  ];
  const { status, stderr } = spawnSync(tracer, [...given, ...args(directory)], { encoding: 'utf8' });
  t.equal(status, 0, `${args(directory)[0]}, traced`);
  const named = [...stderr.matchAll(/"([^"]+)"/g)].map(([, path = '']) => path);
  return [...new Set([directory, ...named.filter((path) => path.startsWith(`${directory}/`))])];
}

interface Step {
  /** Where this is tried, in the place of `directory`, of which `paths` are. */
  readonly own: string;
  readonly directory: string;
  readonly paths: readonly string[];
  readonly call: string;
  readonly nth: number;
}

async function isKilled(each: Case, { own, directory, paths, call, nth }: Step): Promise<boolean> {
  begin(each, own);
  const ofThese = paths.flatMap((path) => ['-P', own + path.slice(directory.length)]);
  const given = ['-f', '-qq', '-o', '/dev/null', ...ofThese, '-e', `trace=${call}`];
  const kill = ['-e', `inject=${call}:signal=KILL:when=${nth}`, process.execPath, CLI];
  const env = { ...process.env, UV_THREADPOOL_SIZE: '1' };
  const child = spawn(tracer, [...given, ...kill, ...each.args(own)], { env, stdio: 'ignore' });
  const [status, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.once('exit', (code, by) => resolve([code, by]));
  });
  if (signal === null) t.equal(status, 0, `${each.name}, ${call} ${nth}`);
  return signal !== null;
}

async function goesOn(t: Test, each: Case, directory: string, step: string): Promise<void> {
  const args = each.args(directory) as [string, ...string[]];
  let again = await tool(...args);
  if (each.refused !== undefined && again.status === 2) {
    t.match(again.err, each.refused(directory), step);
    rmSync(directory, { recursive: true });
    again = await tool(...args);
  }
  t.equal(again.status, 0, `${step}: ${again.err}`);
  await each.proven(directory);
  const left = (readdirSync(directory, { recursive: true }) as string[]).filter(
    (file) => !each.files.test(file),
  );
  t.strictSame(left, [], step);
}
