// Starts the bare server with the log behind it.

import type { Server } from './server.ts';
import { startListening } from './start-listening.ts';

export interface FloorOptions {
  readonly postBody: string;
  /** Of its log. */
  readonly directory: string;
  readonly partitions: number;
  /** Of a create, before it is answered. */
  readonly records: 1 | 2;
}

export function startFloor(options: FloorOptions): Promise<Server> {
  return startListening('floor', new URL('floor.ts', import.meta.url), options);
}
