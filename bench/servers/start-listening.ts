// Starts a program of the bench that listens on a free port of loopback and says so: "listening <port>".

import { fileURLToPath } from 'node:url';
import { startChild } from './child.ts';
import type { Server } from './server.ts';

const READY_MS = 20_000;

/** `argument`: told to it as JSON. */
export async function startListening(name: string, program: URL, argument: object): Promise<Server> {
  const child = await startChild({
    command: process.execPath,
    args: [fileURLToPath(program), JSON.stringify(argument)],
    env: process.env,
    cwd: process.cwd(),
    isReady: (line) => line.startsWith('listening '),
    readyMs: READY_MS,
  });
  return {
    name,
    host: '127.0.0.1',
    port: Number(child.readyLine.split(' ')[1]),
    processes: [{ name, pid: child.pid }],
    readMetrics: null,
    stop: () => child.end(),
  };
}
