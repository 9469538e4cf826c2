// Starts the merchants' webhook endpoints.

import type { Server } from './server.ts';
import { startListening } from './start-listening.ts';

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
  stats(): Promise<ReceiverStats>;
}

/** `hangEvery`: accounts whose number it divides never get an answer; 0: none. */
export async function startReceiver(hangEvery: number): Promise<Receiver> {
  const server = await startListening('receiver', new URL('receiver.ts', import.meta.url), { hangEvery });
  const url = `http://${server.host}:${server.port}`;
  return {
    ...server,
    webhookUrl: `${url}/hook/#`,
    stats: async () => (await (await fetch(`${url}/stats`)).json()) as ReceiverStats,
  };
}

export function sinceAt(percentiles: ReceiverStats['sinceEvent'], percent: number): number {
  return percentiles.find(([at]) => at === percent)![1];
}
