// `replay` and a rehearsal interrupted: what they make meanwhile, as large as the log or its views, is not left behind.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { waitFor, waitForValue } from '../../deploy/wait-for.ts';
import { childrenOf } from '../../deploy/stop-signal.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { statOf } from '../../wal/process-mark.ts';
import { walTools } from '../../wal/tools/all.ts';
import { writeTransactions } from '../history.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const root = temporaryDirectory(t);
const data = join(root, 'data');
const backup = join(root, 'backup');
const CLI = join(import.meta.dirname, '../../wal/cli.ts');
/** A tool lets others go first: on a busy machine it has a processor now and then. */
const WAIT_MS = 240_000;
/** Rows of it are on disk, and far from all. */
const SOME_ROWS = 1024 * 1024;

t.before(async () => {
  await writeTransactions({
    dataDir: data,
    keysFile: join(root, 'keys'),
    partitions: 2,
    accounts: 4,
    transactions: 60_000,
    shape: 'charges',
  });
  t.equal((await runTool([...walTools, ...logTools], 'backup', '--data', data, '--to', backup)).status, 0);
});

// Each waits for a tool of its own.
t.jobs = 4;

const cases: [string[], string, number, NodeJS.Signals][] = [
  [['replay', '--data', data], 'daftari-replay-', SOME_ROWS, 'SIGINT'],
  [['replay', '--data', data], 'daftari-replay-', SOME_ROWS, 'SIGKILL'],
  [['restore', '--from', backup, '--rehearse'], 'daftari-rehearsal-', 1, 'SIGINT'],
  [['restore', '--from', backup, '--rehearse'], 'daftari-rehearsal-', 1, 'SIGTERM'],
  [['restore', '--from', backup, '--rehearse'], 'daftari-rehearsal-', 1, 'SIGHUP'],
];
for (const [args, prefix, bytes, signal] of cases) {
  t.test(`${args[0]}, ${signal}`, { skip: process.platform !== 'linux' }, async (t) => {
    const temporary = mkdtempSync(join(root, 'tmp-'));
    const env = { ...ENVIRONMENT, TMPDIR: temporary };
    const child = spawn(process.execPath, [CLI, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let told = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
    const ended = new Promise((resolve) => child.once('close', (code, by) => resolve(by ?? code)));
    await waitFor('it has written some of it', WAIT_MS, () => {
      if (child.exitCode !== null) throw new Error(`it has ended with ${child.exitCode}`);
      return childrenOf(child.pid ?? 0).some((pid) => writtenBy(pid, prefix) >= bytes);
    });
    child.kill(signal);
    // As one does who thinks it was not heard; npm does so, too.
    if (signal === 'SIGINT') child.kill(signal);
    t.equal(await ended, signal);
    t.strictSame(readdirSync(temporary), []);
    const left = 'what it wrote is no log, and nothing opens it: the same command begins anew';
    t.equal(told, args[0] === 'restore' ? `restore: interrupted by ${signal}: ${left}\n` : '');
  });
}

t.test(
  'restore, ended by what it reads or writes: no data directory is looked at for it',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const env = { ...ENVIRONMENT, DATA_DIR: data };
    const args = [CLI, 'restore', '--from', backup, '--to', join(root, 'died')];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let told = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
    const ended = new Promise((resolve) => child.once('close', resolve));
    const tool = await waitForValue('it is at work', WAIT_MS, () =>
      childrenOf(child.pid!).find((pid) => writtenBy(pid, '/died/log/data.mdb') >= 1),
    );
    // As LMDB where the disk has gone.
    process.kill(tool, 'SIGBUS');
    t.equal(await ended, 1);
    t.match(
      told,
      /^restore: it was ended by SIGBUS: .* disk that it writes to\? what it wrote is no log, .*\n$/,
    );
  },
);

t.test(
  'a rehearsal, ended by what it reads or writes, leaves nothing',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const temporary = mkdtempSync(join(root, 'tmp-'));
    const env = { ...ENVIRONMENT, TMPDIR: temporary };
    const args = [CLI, 'restore', '--from', backup, '--rehearse'];
    const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
    const ended = new Promise((resolve) => child.once('close', resolve));
    const tool = await waitForValue('it is at work', WAIT_MS, () =>
      childrenOf(child.pid!).find((pid) => writtenBy(pid, 'daftari-rehearsal-') >= 1),
    );
    process.kill(tool, 'SIGBUS');
    t.equal(await ended, 1);
    t.strictSame(readdirSync(temporary), []);
  },
);

t.test('replay, Ctrl-Z, and on', { skip: process.platform !== 'linux' }, async (t) => {
  const child = spawn(process.execPath, [CLI, 'replay', '--data', data], { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('close', (code, by) => resolve(by ?? code)));
  const [pid, tools] = [child.pid!, (): number[] => childrenOf(child.pid!)];
  await waitFor('it is at work', WAIT_MS, () =>
    tools().some((tool) => writtenBy(tool, 'daftari-replay-') >= SOME_ROWS),
  );
  const all = [pid, ...tools()];
  t.equal(all.length, 2);
  // The terminal asks the first alone: the tool is of another session.
  process.kill(pid, 'SIGTSTP');
  await waitFor('both stand still', WAIT_MS, () => all.every(isStopped));
  process.kill(pid, 'SIGCONT');
  await waitFor('both go on', WAIT_MS, () => !all.some(isStopped));
  process.kill(pid, 'SIGTERM');
  t.equal(await ended, 'SIGTERM');
});

/** As in a container, whose first process is given no signal that it does not hear. */
const asFirst = ['--pid', '--fork', '--kill-child', process.execPath, CLI];
const mayBeFirst = spawnSync('unshare', [...asFirst, '--help']).status === 0;
for (const [written, tool, ...args] of [
  // Before its views have no name any more, it has only opened the log.
  ['/data.mdb (deleted)', 'replay', '--data', data],
  ['/data.mdb', 'restore', '--from', backup, '--rehearse'],
  ['/data.mdb', 'restore', '--from', backup, '--to', join(root, 'restored')],
] as const) {
  const skip = mayBeFirst ? false : 'needs the right to make a PID namespace';
  t.test(`${tool} ${args.at(-2)}, the first process of a container, SIGTERM`, { skip }, async (t) => {
    const temporary = mkdtempSync(join(root, 'tmp-'));
    const env = { ...ENVIRONMENT, TMPDIR: temporary };
    const child = spawn('unshare', [...asFirst, tool, ...args], { env, stdio: 'ignore' });
    const ended = new Promise((resolve) => child.once('exit', (code, by) => resolve(by ?? code)));
    await waitFor('it is at work', WAIT_MS, () => {
      if (child.exitCode !== null) throw new Error(`it has ended with ${child.exitCode}`);
      const tools = childrenOf(child.pid ?? 0).flatMap(childrenOf);
      return tools.some((pid) => writtenBy(pid, written) >= 1);
    });
    for (const pid of childrenOf(child.pid ?? 0)) process.kill(pid, 'SIGTERM');
    t.equal(await ended, 143);
    t.strictSame(readdirSync(temporary), []);
  });
}

function isStopped(pid: number): boolean {
  return statOf(pid)?.[0] === 'T';
}

/** Bytes of the largest open file whose path has it, gone or not. */
function writtenBy(pid: number, prefix: string): number {
  const files = `/proc/${pid}/fd`;
  return Math.max(0, ...readdirSync(files).map((name) => bytesOf(join(files, name), prefix)));
}

function bytesOf(file: string, prefix: string): number {
  try {
    return readlinkSync(file).includes(prefix) ? statSync(file).size : 0;
  } catch {
    // Closed meanwhile.
    return 0;
  }
}
