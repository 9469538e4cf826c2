// Starts the bare server with answers as long as the service's.

import type { Server } from './server.ts';
import { startListening } from './start-listening.ts';

/** Bodies of about the service's answers, when nothing has asked it for one. */
export const TYPICAL_BODY = 'x'.repeat(480);

export function startBare(bodies: { postBody: string; getBody: string }): Promise<Server> {
  return startListening('bare', new URL('bare.ts', import.meta.url), bodies);
}
