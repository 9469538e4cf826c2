// Ports for processes that are told theirs before they start: nobody else must take them in between.
//
// Not the system's own choice (port 0): it gives the same port to somebody's outgoing connection a moment later. These lie
// below the range of outgoing connections, in a block of this process, and none is given twice in one round of it.

import { createServer } from 'node:net';

/** Above 10080, the last port that fetch refuses to call, as one of another protocol. */
const FIRST = 10_100;
const BLOCK = 100;
/** FIRST + BLOCKS × BLOCK is below 32,768, where Linux begins to take ports for outgoing connections. */
const BLOCKS = 220;

const base = FIRST + (process.pid % BLOCKS) * BLOCK;
let next = Math.floor(Math.random() * BLOCK);

/** A port of 127.0.0.1 on which nobody listens. Rejects when the whole block is taken. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < BLOCK; tries++) {
    const port = base + (next++ % BLOCK);
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${base} to ${base + BLOCK - 1} is free`);
}

export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  return ports;
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
