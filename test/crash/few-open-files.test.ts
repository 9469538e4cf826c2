// A process that may have hardly any files open, or too little address space, says so before it opens one, and does not end of it
// later without a word.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { WAL_LIMITS } from '../../wal/limits.ts';
import { environmentOf } from './service-process.ts';

/** With fewer Node itself ends before it has read a line of ours. */
const NODE_NEEDS = 24;

const directory = mkdtempSync(join(tmpdir(), 'daftari-few-files-'));
t.teardown(() => rmSync(directory, { recursive: true }));

interface Ended {
  readonly status: number | null;
  readonly stderr: string;
}

function withOpenFiles(limit: number, ...args: string[]): Ended {
  return withLimit('ulimit -n "$0"', limit, ...args);
}

function withLimit(ulimit: string, limit: number, ...args: string[]): Ended {
  const shell = ['-c', `${ulimit}; exec "$@"`, String(limit), process.execPath, ...args];
  const env = environmentOf(directory, {});
  return spawnSync('sh', shell, { env, encoding: 'utf8', timeout: 120_000 });
}

function refusal(limit: number, who: string, least: number, again: string): string {
  return (
    `this process may have ${limit} files open at once, and ${who} needs ${least}: raise the limit (\`ulimit -n 65536\` in a ` +
    `shell, LimitNOFILE of systemd, nofile of a container), then ${again} again.\n`
  );
}

for (const limit of [NODE_NEEDS, 26, 36, LIMITS.openFilesMin - 1]) {
  t.test(`a service with ${limit} is not started`, (t) => {
    const { status, stderr } = withOpenFiles(limit, 'src/main.ts');
    t.equal(stderr, refusal(limit, 'the service', LIMITS.openFilesMin, 'start'));
    t.equal(status, 2);
    t.strictSame(readdirSync(directory), []);
    t.end();
  });
}

for (const limit of [NODE_NEEDS, 26, WAL_LIMITS.toolOpenFilesMin - 1]) {
  t.test(`a tool with ${limit} does not begin`, (t) => {
    const { status, stderr } = withOpenFiles(limit, 'wal/cli.ts', 'verify', '--data', directory);
    t.equal(stderr, refusal(limit, 'a tool of the log', WAL_LIMITS.toolOpenFilesMin, 'try'));
    t.equal(status, 2);
    t.end();
  });
}

t.test('with as many as are needed a tool does its work', (t) => {
  const { stderr } = withOpenFiles(WAL_LIMITS.toolOpenFilesMin, 'wal/cli.ts', 'verify', '--data', directory);
  t.match(stderr, /holds no log/);
  t.end();
});

/** Much for Node, and too little for LMDB's files. */
const SPACE_GIB = 100;

for (const [who, again, ...args] of [
  ['the service', 'start', 'src/main.ts'],
  ['a tool of the log', 'try', 'wal/cli.ts', 'verify', '--data', directory],
] as const) {
  t.test(`with too little address space ${who} says so: a sound log would look damaged`, (t) => {
    const { status, stderr } = withLimit('ulimit -v "$0"', SPACE_GIB * 1024 ** 2, ...args);
    t.equal(
      stderr,
      `this process may have ${SPACE_GIB} GiB of address space, and ${who} needs 512, of which little is memory: raise the limit ` +
        `(\`ulimit -v unlimited\` in a shell, LimitAS of systemd), then ${again} again.\n`,
    );
    t.equal(status, 2);
    t.end();
  });
}
