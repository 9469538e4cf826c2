// Ports for processes that are told theirs before they start: nobody else must take them in between.
//
// Not the system's own choice (port 0): it gives the same port to somebody's outgoing connection a moment later. These lie
// below the range of outgoing connections, in a block of this process, and none is given twice in one round of it. Who listens on the
// first port of a block has the others, until it ends.

import { createServer, type Server } from 'node:net';

/** Above 10080, the last port that fetch refuses to call, as one of another protocol. */
const FIRST = 10_100;
const BLOCK = 100;
/** FIRST + BLOCKS × BLOCK is below 32,768, where Linux begins to take ports for outgoing connections. */
const BLOCKS = 220;

let block: Promise<number> | null = null;
let next = Math.floor(Math.random() * BLOCK);

/** A port of 127.0.0.1 on which nobody listens. Rejects when the whole block is taken. */
export async function freePort(): Promise<number> {
  block ??= takeBlock();
  const base = await block;
  for (let tries = 1; tries < BLOCK; tries++) {
    const port = base + 1 + (next++ % (BLOCK - 1));
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${base + 1} to ${base + BLOCK - 1} is free`);
}

export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  return ports;
}

/** Resolves with its first port. */
async function takeBlock(): Promise<number> {
  for (let tries = 0; tries < BLOCKS; tries++) {
    const first = FIRST + ((process.pid + tries) % BLOCKS) * BLOCK;
    const server = await listen(first);
    if (server === null) continue;
    server.unref();
    return first;
  }
  throw new Error('each block of ports is taken');
}

async function isFree(port: number): Promise<boolean> {
  const server = await listen(port);
  if (server === null) return false;
  await new Promise((resolve) => server.close(resolve));
  return true;
}

/** Null: somebody does already. */
function listen(port: number): Promise<Server | null> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(null));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
