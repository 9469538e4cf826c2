// Starts the merchants' webhook endpoints.

import { fileURLToPath } from 'node:url';
import { startChild } from './child.ts';
import type { Server } from './server.ts';

export interface ReceiverStats {
  readonly deliveries: number;
  /** Different event ids. */
  readonly events: number;
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** [percent, ms] from the event to its first delivery. */
  readonly sinceEvent: readonly (readonly [number, number])[];
  /** The same from the creation of its object. */
  readonly sinceCreate: readonly (readonly [number, number])[];
}

export interface Receiver extends Server {
  /** For prepare: # is the number of the account. */
  readonly webhookUrl: string;
  stats(reset?: boolean): Promise<ReceiverStats>;
}

const PROGRAM = fileURLToPath(new URL('receiver.ts', import.meta.url));
const READY_MS = 20_000;

/** `hangEvery`: accounts whose number it divides never get an answer; 0: none. */
export async function startReceiver(hangEvery: number): Promise<Receiver> {
  const child = await startChild({
    command: process.execPath,
    args: [PROGRAM, JSON.stringify({ hangEvery })],
    env: process.env,
    cwd: process.cwd(),
    isReady: (line) => line.startsWith('listening '),
    readyMs: READY_MS,
  });
  const port = Number(child.readyLine.split(' ')[1]);
  const url = `http://127.0.0.1:${port}`;
  return {
    name: 'receiver',
    host: '127.0.0.1',
    port,
    webhookUrl: `${url}/hook/#`,
    processes: [{ name: 'receiver', pid: child.pid }],
    readLog: null,
    stats: async (reset = false) =>
      (await (await fetch(`${url}/stats${reset ? '?reset' : ''}`)).json()) as ReceiverStats,
    stop: () => child.end(),
  };
}

export function sinceAt(percentiles: ReceiverStats['sinceEvent'], percent: number): number {
  return percentiles.find(([at]) => at === percent)![1];
}
