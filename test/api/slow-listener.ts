// An HTTP server that is slow to accept: its thread is blocked and its queue of connections full until it is let go.
// Who tries meanwhile is accepted when their system asks again, a second later (RFC 6298).

import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type { Test } from 'tap';

/** The server's address, and one at which nobody listens. */
export const SLOW_AND_REFUSED: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/** Connections a queue of one holds on Linux. */
const QUEUED = 2;

/** `letGo`: from now on it accepts. */
export async function listenSlowly(t: Test): Promise<{ port: number; letGo: () => void }> {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const letGo = (): void => {
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
  };
  const worker = new Worker(new URL(import.meta.url), { workerData: gate });
  const [port] = (await once(worker, 'message')) as [number];
  const queued = Array.from({ length: QUEUED }, () => connect(port, '127.0.0.1'));
  await Promise.all(queued.map((socket) => once(socket, 'connect')));
  t.teardown(async () => {
    letGo();
    for (const socket of queued) socket.destroy();
    await worker.terminate();
  });
  return { port, letGo };
}

/** The result of the first of three tries that is so, or of the last: how long an address may take is soon over on a machine that
 *  stands still for a moment, but not each time. */
export async function inThreeTries<T>(attempt: () => Promise<T>, isSo: (result: T) => boolean): Promise<T> {
  for (let tries = 1; ; tries++) {
    const result = await attempt();
    if (isSo(result) || tries === 3) return result;
  }
}

if (!isMainThread) {
  const server = createServer((_request, response) => response.end('ok'));
  server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
    parentPort!.postMessage((server.address() as AddressInfo).port);
    Atomics.wait(workerData as Int32Array, 0, 0);
  });
}
