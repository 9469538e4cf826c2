// Who starts nodes and nats-servers again and again keeps no file open for those that have ended; and what one has said last is
// told.

import { spawn } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { lastWords, startNode } from '../../deploy/cluster-processes.ts';
import { exitOf, startNatsServers, startWriting } from '../../deploy/nats-servers.ts';
import { isInstalled } from '../../deploy/server-path.ts';
import { LIMITS } from '../../src/limits.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { until } from '../until.ts';

const root = temporaryDirectory(t);
const here = '/proc/self/fd';

/** Files of that name that this process has open. */
function openOf(name: string): string[] {
  return readdirSync(here).flatMap((number) => {
    try {
      const file = readlinkSync(join(here, number));
      return file.startsWith(root) && file.endsWith(name) ? [file] : [];
    } catch {
      // That of the directory of them is closed by now.
      return [];
    }
  });
}

t.test('the log of a node is its own', async (t) => {
  const checkout = join(root, 'checkout');
  mkdirSync(join(checkout, 'src'), { recursive: true });
  writeFileSync(join(checkout, 'src/main.ts'), "console.log('started');\n");
  const settings = { natsUrl: '', directory: root, operatorToken: '', masterKey: '', checkout };
  for (const times of [1, 2]) {
    const node = await startNode(settings, 'ledger1', 'ledger');
    t.strictSame(openOf('node.log'), []);
    t.equal(await node.exited(), 0);
    t.equal(readFileSync(node.logFile, 'utf8'), 'started\n'.repeat(times));
  }
});

t.test('and that of a nats-server', { skip: !isInstalled('nats-server') }, async (t) => {
  const nats = await startNatsServers({ directory: root });
  t.teardown(() => nats.stop());
  await nats.kill(0, 'SIGKILL');
  await nats.restart(0);
  t.strictSame(openOf('server.log'), []);
});

t.test('what a log ends with is told, however long it is', (t) => {
  const logFile = join(root, 'long.log');
  writeFileSync(logFile, '');
  t.equal(lastWords({ logFile }), `\n(${logFile})`);
  // Longer than a text may be, and without a byte on the disk.
  truncateSync(logFile, 600_000_000);
  const words = 'é'.repeat(LIMITS.lastWordsMax);
  appendFileSync(logFile, `before ${words}\n`);
  t.equal(lastWords({ logFile }), `${words}\n(${logFile})`);
  t.end();
});

/** In the place of nats-server: what first asks it for its state it never answers. */
const SILENT_AT_FIRST = `#!${process.execPath}
const { readFileSync } = require('node:fs');
if (process.argv[2] === '-c') {
  const [, port] = /^http: 127.0.0.1:(\\d+)$/m.exec(readFileSync(process.argv[3], 'utf8'));
  let asked = 0;
  require('node:http').createServer((_, answer) => asked++ > 0 && answer.end('{}')).listen(port, '127.0.0.1');
}
`;

t.test('what cannot be started has ended, says why, and ends nobody else', async (t) => {
  const log = join(root, 'never.log');
  const child = startWriting(log, (output) =>
    spawn(join(root, 'nowhere'), { stdio: ['ignore', output, output] }),
  );
  t.not(await exitOf(child), 0);
  await until(() => readFileSync(log, 'utf8').includes('ENOENT'));
});

t.test('a server that takes a question and does not answer it is asked again', async (t) => {
  const path = process.env['PATH'];
  t.teardown(() => {
    process.env['PATH'] = path;
  });
  const programs = temporaryDirectory(t);
  writeFileSync(join(programs, 'nats-server'), SILENT_AT_FIRST, { mode: 0o700 });
  process.env['PATH'] = `${programs}:${path}`;
  const servers = await startNatsServers({ directory: temporaryDirectory(t) });
  await servers.stop();
});
