// Starts the bare server with answers as long as the service's.

import { fileURLToPath } from 'node:url';
import { startChild } from './child.ts';
import type { Server } from './server.ts';

const PROGRAM = fileURLToPath(new URL('bare.ts', import.meta.url));
const READY_MS = 20_000;

/** Bodies of about the service's answers, when nothing has asked it for one. */
export const TYPICAL_BODY = 'x'.repeat(480);

export async function startBare(bodies: { postBody: string; getBody: string }): Promise<Server> {
  const child = await startChild({
    command: process.execPath,
    args: [PROGRAM, JSON.stringify(bodies)],
    env: process.env,
    cwd: process.cwd(),
    isReady: (line) => line.startsWith('listening '),
    readyMs: READY_MS,
  });
  return {
    name: 'bare',
    host: '127.0.0.1',
    port: Number(child.readyLine.split(' ')[1]),
    processes: [{ name: 'bare', pid: child.pid }],
    readLog: null,
    stop: () => child.end(),
  };
}
