// A start that is told to stop, and one that is told what it does not take.

import { spawn, spawnSync, type ChildProcessByStdio, type SpawnSyncReturns } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { WriteAheadLog } from '../../wal/log.ts';
import { merchant } from '../unit/domain/scenario.ts';
import { environmentOf } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { traced, tracer } from '../tracer.ts';

/** A service without a demo account over a directory of its own, until the test ends. */
function start(t: Test): {
  readonly dataDir: string;
  readonly child: ChildProcessByStdio<null, Readable, null>;
} {
  const dataDir = temporaryDirectory(t);
  const child = spawn(process.execPath, ['src/main.ts'], {
    env: environmentOf(dataDir, { DEMO: 'false' }),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  return { dataDir, child };
}

/** What others than its user may read, write, or, of the socket, ask. */
function openToOthers(dataDir: string): string[] {
  const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => (statSync(join(dataDir, file)).mode & 0o077) !== 0);
}

t.test(
  'a stop while it starts: it ends as it should, and the next start need not prove the views',
  async (t) => {
    const { dataDir, child } = start(t);
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
    const mark = join(dataDir, 'starting');
    while (!existsSync(mark)) await new Promise((resolve) => setTimeout(resolve, 1));
    child.kill('SIGTERM');
    t.equal(await closed, 0);
    t.match(said, /"message":"stopped"/);
    t.notOk(existsSync(mark));
  },
);

t.test(
  'without a demo account all that it says is log lines, and nobody else gets at what it makes',
  async (t) => {
    const umask = process.umask(0);
    const { child, dataDir } = start(t);
    process.umask(umask);
    chmodSync(dataDir, 0o755);
    let said = '';
    let open: string[] | null = null;
    for await (const text of child.stdout.setEncoding('utf8')) {
      said += String(text);
      if (!said.includes('"message":"ready"')) continue;
      open ??= openToOthers(dataDir);
      child.kill('SIGTERM');
    }
    t.strictSame(open, [], 'whatever umask it was started with');
    t.match(said, /"message":"ready"/);
    for (const line of said.trimEnd().split('\n')) t.doesNotThrow(() => JSON.parse(line), line);
  },
);

/** A start, to its end, in which system calls fail as strace is told by `failing`. */
function startFailing(dataDir: string, failing: readonly string[]): SpawnSyncReturns<string> {
  const args = ['-f', '-qq', '-o', '/dev/null', ...failing, process.execPath, 'src/main.ts'];
  return spawnSync(tracer, args, {
    env: environmentOf(dataDir, {}),
    encoding: 'utf8',
    timeout: 120_000,
  });
}

t.test('a start whose first commit fails says that, and not that it is ready', traced, (t) => {
  const fails = ['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:error=EIO'];
  const main = startFailing(temporaryDirectory(t), fails);
  t.equal(main.status, 1);
  t.match(main.stdout, /"level":"fatal".*"message":"the log has failed; stopping"/);
  t.notMatch(main.stdout, /"message":"ready"/);
  t.notMatch(main.stdout, /Daftari serves/);
  t.end();
});

t.test(
  'a start that may not write a file of its own says so, and the next one need not read all',
  traced,
  (t) => {
    const dataDir = temporaryDirectory(t);
    const claim = join(dataDir, 'log/writer.lock.claim');
    const refused = [
      '-P',
      claim,
      '-e',
      'trace=symlink,symlinkat',
      '-e',
      'inject=symlink,symlinkat:error=EACCES',
    ];
    const main = startFailing(dataDir, refused);
    t.equal(main.status, 1);
    t.match(
      main.stderr,
      /^EACCES: .*writer\.lock\.claim': give it to the service's user, then start again\.\n$/,
    );
    t.notOk(existsSync(join(dataDir, 'starting')));
    t.end();
  },
);

t.test('an argument is refused: what it was to set would be left at its default', async (t) => {
  const cwd = temporaryDirectory(t);
  const main = join(import.meta.dirname, '../../src/main.ts');
  const { status, stderr } = spawnSync(process.execPath, [main, '--data-dir', '/srv'], {
    cwd,
    encoding: 'utf8',
  });
  t.equal(status, 2);
  t.equal(stderr, 'npm start takes no arguments: settings are environment variables; --help lists them.\n');
  t.strictSame(readdirSync(cwd), []);
});

t.test('a key that is none is told in words, and not tried again', async (t) => {
  const dataDir = temporaryDirectory(t);
  writeFileSync(join(dataDir, 'master.key'), 'none');
  const env = environmentOf(dataDir, {});
  const main = spawnSync(process.execPath, ['src/main.ts'], { env, encoding: 'utf8', timeout: 120_000 });
  t.equal(main.status, 2);
  t.match(main.stderr, /^.*master\.key does not hold 32 bytes in hex; restore it, or set MASTER_KEY\n$/);
});

t.test(
  'a log with a record of a newer version, as of a backup that was restored, says what reads it',
  async (t) => {
    const dataDir = temporaryDirectory(t);
    const log = WriteAheadLog.open({
      directory: dataDir,
      now: Date.now,
      onFailure: (error) => t.fail(error),
    });
    const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
    const [opened = ''] = merchant().lines;
    const newer = JSON.parse(opened) as [string, number, unknown[]];
    newer[2][0] = 999;
    partition.append(JSON.stringify(newer));
    await partition.drained();
    await log.close();
    writeFileSync(join(dataDir, 'daftari.json'), '{"format":1,"partitions":16}');
    writeFileSync(join(dataDir, 'master.key'), 'ab'.repeat(32));
    const env = environmentOf(dataDir, {});
    const main = spawnSync(process.execPath, ['src/main.ts'], { env, encoding: 'utf8', timeout: 120_000 });
    t.equal(main.status, 2);
    t.match(
      main.stderr,
      /^the log of accounts\/0 has a record .*event code 999.* Start the version .*, or a newer one\.\n$/,
    );
    t.notMatch(main.stdout, /the log has failed/);
  },
);

t.test('the settings may be read by who has read enough of them', (t) => {
  const shell = ['-c', '{ "$0" src/main.ts --help; echo "status $?" >&2; } | true', process.execPath];
  t.equal(spawnSync('sh', shell, { encoding: 'utf8' }).stderr, 'status 0\n');
  t.end();
});
