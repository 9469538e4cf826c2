// Asks again for what a node needs of NATS to begin: servers that come up may not listen yet, or have no leader, or fewer peers than
// replicas.

import { LIMITS } from '../limits.ts';
import { pause } from '../pause.ts';

export interface Persistence {
  /** No waiting mends it. */
  readonly isFinal?: (error: unknown) => boolean;
  /** The first time that it did not work. */
  readonly onWaiting?: (error: unknown) => void;
}

/** Until it works, for as long as servers may take to be able to serve; then rejects with the last error. */
export async function persist<Result>(
  act: () => Promise<Result>,
  { isFinal, onWaiting }: Persistence = {},
): Promise<Result> {
  const until = performance.now() + LIMITS.clusterJoinMs;
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (performance.now() > until || isFinal?.(error) === true) throw error;
      if (attempt === 1) onWaiting?.(error);
    }
    await pause(LIMITS.natsReconnectMs);
  }
}
