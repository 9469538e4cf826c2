// What a poller remembers of what is over: so much, and what was remembered first makes way.

import { LIMITS } from '../../src/limits.ts';

/** After one was added. */
export function keepRecent(all: Set<string> | Map<string, unknown>): void {
  if (all.size <= LIMITS.pollerRecentMax) return;
  for (const oldest of all.keys()) {
    all.delete(oldest);
    break;
  }
}
