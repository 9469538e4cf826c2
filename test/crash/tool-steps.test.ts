// The log tools killed before each step that changes what is on the disk: every file they make, write, rename or remove. The
// same command again comes to its end, what it makes is whole, and nothing of the killed one is left.
//
// A first run tells which steps there are; then a run for each third of them (EVERY=1: for each) is ended just before it. strace counts
// the calls of a thread: Node is given one for files.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import type { Test } from 'tap';
import { unfinishedProblem } from '../../wal/unfinished.ts';
import { someOf } from '../seed.ts';
import { traced, tracer } from '../tracer.ts';
import { checkpointAll, next, tips, tool, write } from '../unit/wal/tool-logs.ts';

const CLI = join(import.meta.dirname, '../../wal/cli.ts');
/** That change what is on the disk. A kill before a sync is one before the change that follows it. */
const CALLS = 'openat,write,pwrite64,writev,ftruncate,mkdir,symlink,rename,unlink'.split(',');
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
  /** What nobody is kept from taking for a log, where it was killed. Absent: whatever it is. */
  readonly served?: (directory: string) => Promise<void>;
  /** What it made has all that it is to have. */
  readonly proven: (directory: string) => Promise<void>;
}

const [data, trimmed, archive, older, copy] = [next(), next(), next(), next(), next()];
const SEGMENTS = /^(manifest\.json|.*\.segment\.gz)$/;
const DATA = /^(log|views)(\/(data|lock)\.mdb)?$/;
let [whole, short, archived, before]: unknown[] = [];

t.before(async () => {
  const atMs = Date.parse('2026-01-01T00:00:00Z');
  await write(data, 1, { atMs });
  cpSync(data, older, { recursive: true });
  await write(data, 1, { atMs: atMs + 60_000 });
  await tool('export', '--data', data, '--to', copy);
  await checkpointAll(data);
  // Of one partition: a step of LMDB is as good as another.
  await tool('archive', '--data', data, '--to', archive, '--group', 'webhooks');
  cpSync(data, trimmed, { recursive: true });
  await tool('trim', '--data', trimmed, '--archive', archive, '--yes');
  const all = (await tips(data)) as { group: string }[];
  [whole, short, archived] = [all, await tips(trimmed), all.filter(({ group }) => group === 'webhooks')];
  before = await tips(older);
  t.notSame(short, whole);
  t.notSame(before, whole);
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
  {
    name: 'export of lines',
    from: null,
    args: (directory) => ['export', '--format', 'jsonl', '--data', data, '--to', directory],
    refused: (directory) => (readdirSync(directory).length === 3 ? /is not empty/ : /^$/),
    files: /^\w+-\d\.jsonl$/,
    proven: async (directory) => {
      const lines = readdirSync(directory).flatMap((file) =>
        readFileSync(join(directory, file), 'utf8').split('\n'),
      );
      t.equal(lines.filter((line) => line !== '').length, 18);
    },
  },
  { ...adds('export'), refused: (directory) => (isWhole(directory) ? /is not empty/ : /^$/) },
  {
    name: 'trim',
    from: data,
    args: (directory) => ['trim', '--data', directory, '--archive', archive, '--yes'],
    files: DATA,
    proven: (directory) => holds(directory, short),
  },
  {
    name: 'import of what follows',
    from: older,
    args: (directory) => ['import', '--data', directory, '--from', copy],
    files: DATA,
    served: async (directory) => {
      const found = await tips(directory);
      t.strictSame(found, isDeepStrictEqual(found, whole) ? whole : before);
    },
    proven: (directory) => holds(directory, whole),
  },
  {
    name: 'import of what was trimmed',
    from: trimmed,
    args: (directory) => ['import', '--data', directory, '--from', archive],
    files: DATA,
    proven: (directory) => holds(directory, whole),
  },
  {
    name: 'restore',
    from: null,
    args: (directory) => ['restore', '--from', archive, '--to', directory],
    refused: (directory) => (existsSync(join(directory, 'log', 'unfinished')) ? /^$/ : /is not empty/),
    files: DATA,
    proven: (directory) => holds(directory, archived),
  },
];

for (const each of cases) {
  t.test(`${each.name}, killed before each of its steps`, traced, async (t) => {
    const directory = next();
    begin(each, directory);
    const all = stepsOf(each, directory);
    t.ok(all.length >= 5, `${all.length} steps`);
    const steps = someOf(t, all, 3);
    await each.proven(directory);
    const left = steps.values();
    let kills = 0;
    const tryThem = async (own: string): Promise<void> => {
      for (const step of left) {
        if (!(await isKilled(each, own, step))) continue;
        kills += 1;
        await goesOn(t, each, own, `${step.call} ${step.nth} of ${step.path}`);
      }
    };
    await Promise.all(Array.from({ length: CORES }, () => tryThem(next())));
    // What LMDB writes at once is a little different each time.
    t.ok(kills >= Math.max(1, steps.length - 2), `${kills} times of ${steps.length}`);
  });
}

function begin({ from }: Case, directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  if (from !== null) cpSync(from, directory, { recursive: true });
}

/** Made for Node to have one thread for files. */
const env = { ...process.env, UV_THREADPOOL_SIZE: '1' };

interface Step {
  readonly call: string;
  /** In the directory; empty: itself. */
  readonly path: string;
  /** Of these calls of its thread on this path. */
  readonly nth: number;
}

function stepsOf({ args }: Case, directory: string): Step[] {
  const given = ['-f', '--seccomp-bpf', '-qq', '-y', '-s', '4096', '-e', `trace=${CALLS.join(',')}`];
  const command = [...given, process.execPath, CLI, ...args(directory), '--full-speed'];
  const { status, stderr } = spawnSync(tracer, command, { encoding: 'utf8', env });
  t.equal(status, 0, `${args(directory)[0]}, traced`);
  const counts = new Map<string, number>();
  const made = new Set<string>();
  const steps: Step[] = [];
  for (const line of stderr.split('\n')) {
    const [, thread = '', call = '', rest = ''] = /^(?:\[pid +(\d+)\] )?(\w+)\((.*)$/.exec(line) ?? [];
    // Its first path: of a file that is open, behind its number; of a link, behind what the link says.
    const [, named] = /^(?:AT_FDCWD<[^>]*>, |"[^"/]*", )?(?:\d+<|")([^">]*)[">]/.exec(rest) ?? [];
    if (named === undefined || (named !== directory && !named.startsWith(`${directory}/`))) continue;
    const path = named.slice(directory.length);
    const key = `${thread} ${call} ${path}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    const isChange = call !== 'openat' || (rest.includes('O_CREAT') && !made.has(path));
    if (call === 'openat') made.add(path);
    if (isChange && !/ = -1 E/.test(rest)) steps.push({ call, path, nth });
  }
  return steps;
}

async function isKilled(each: Case, own: string, { call, path, nth }: Step): Promise<boolean> {
  begin(each, own);
  const given = ['-f', '-qq', '-o', '/dev/null', '-P', own + path, '-e', `trace=${call}`];
  const kill = ['-e', `inject=${call}:signal=KILL:when=${nth}`, process.execPath, CLI];
  const child = spawn(tracer, [...given, ...kill, ...each.args(own), '--full-speed'], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const words = text(child.stderr);
  const [status, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.once('close', (code, by) => resolve([code, by]));
  });
  if (signal === null) t.equal(status, 0, `${each.name}, ${call} ${nth} of ${path}: ${await words}`);
  return signal !== null;
}

async function goesOn(t: Test, each: Case, directory: string, step: string): Promise<void> {
  const args = each.args(directory) as [string, ...string[]];
  if (unfinishedProblem(directory) === null) await each.served?.(directory);
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
