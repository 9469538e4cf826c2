// Starts the merchants' webhook endpoints.

import type { Server } from './server.ts';
import { startListening } from './start-listening.ts';

export interface ReceiverStats {
  readonly deliveries: number;
  /** Different event ids. */
  readonly events: number;
  /** Those of them of which the times are told. */
  readonly timed: number;
  /** When the first and the last of these came, milliseconds since 1970. */
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
  /** Of what was created before now the times are not told: it belongs to the warm-up. */
  begin(): Promise<void>;
  stats(): Promise<ReceiverStats>;
}

/** `hangEvery`: accounts whose number it divides never get an answer; 0: none. */
export async function startReceiver(hangEvery: number): Promise<Receiver> {
  const server = await startListening('receiver', new URL('receiver.ts', import.meta.url), { hangEvery });
  const url = `http://${server.host}:${server.port}`;
  return {
    ...server,
    webhookUrl: `${url}/hook/#`,
    begin: async () => {
      const { status } = await fetch(`${url}/begin/${Date.now()}`, { method: 'POST' });
      if (status !== 200) throw new Error(`the receiver answers ${status}`);
    },
    stats: async () => (await (await fetch(`${url}/stats`)).json()) as ReceiverStats,
  };
}

export function sinceAt(percentiles: ReceiverStats['sinceEvent'], percent: number): number {
  return percentiles.find(([at]) => at === percent)![1];
}
