// A process that may have hardly any files open, or too little address space, says so before it opens one, and does not end of it
// later without a word.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { WAL_LIMITS } from '../../wal/limits.ts';
import { until } from '../until.ts';
import { environmentOf, startProcess } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

/** With fewer Node itself ends before it has read a line of ours. */
const NODE_NEEDS = 24;

const directory = temporaryDirectory(t);

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

t.test('connections that say nothing leave operators and the rest of the service theirs', async (t) => {
  const data = join(directory, 'crowded');
  const service = await startProcess(data, {}, LIMITS.openFilesMin);
  const { hostname, port } = new URL(service.demo.base_url);
  const kept = new Agent({ keepAlive: true, maxSockets: 1 });
  const asked = (): Promise<number | undefined> => statusOf(`${service.demo.base_url}/openapi.json`, kept);
  t.equal(await asked(), 200);
  const silent = Array.from({ length: LIMITS.openFilesMin }, () => connect(Number(port), hostname));
  t.teardown(() => {
    for (const socket of silent) socket.destroy();
    kept.destroy();
  });
  await Promise.all(silent.map((socket) => once(socket, 'connect')));
  await until(() => service.printed.some((line) => line.includes('as many connections open as they may')));
  // So a rail may be as busy as it may beside them.
  const merchantsMax = LIMITS.openFilesMin - LIMITS.railConcurrencyDefault - 48;
  await until(
    () => silent.filter(({ closed }) => !closed).length,
    (kept) => kept < merchantsMax,
    5_000,
  );
  t.equal(await statusOf(`${service.demo.operator_url}/readyz`), 200);
  t.notOk(silent[0]!.closed, 'and not when silence is over, after 8 s');
  t.equal(await asked(), 200, 'whoever is connected is served on');
  t.equal(await service.end('SIGTERM'), 0);
});

async function statusOf(url: string, agent?: Agent): Promise<number | undefined> {
  const [response] = (await once(get(url, { agent }), 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  return response.statusCode;
}

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
