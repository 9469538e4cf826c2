// A program of end-process.test.ts: serves, and once it is told to has a thread in `fdatasync` and ends.

import { fdatasync, openSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { endProcess } from '../../src/end-process.ts';

/** Its number, by architecture. */
const FDATASYNC = process.arch === 'x64' ? '75' : '83';

function isSyncing(): boolean {
  const calls = readdirSync('/proc/self/task').map((id) =>
    readFileSync(`/proc/self/task/${id}/syscall`, 'utf8'),
  );
  return calls.some((call) => call.startsWith(`${FDATASYNC} `));
}

const file = openSync(join(process.argv[2]!, 'file'), 'w');
const server = createServer().listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
process.stdin.once('data', () => {
  fdatasync(file, () => {});
  setInterval(() => {
    if (isSyncing()) endProcess(3);
  }, 5);
});
