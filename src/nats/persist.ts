// Asks again for what a node needs of NATS to begin: servers that come up may not listen yet, or have no leader, or fewer peers than
// replicas.

import { LIMITS } from '../limits.ts';
import { pause } from '../pause.ts';

export interface Persistence {
  /** Absent: for as long as servers may take to be able to serve. */
  readonly forMs?: number;
  /** No waiting mends it. */
  readonly isFinal?: (error: unknown) => boolean;
  /** The first time that it did not work. */
  readonly onWaiting?: (error: unknown) => void;
}

/** Until it works, or for so long; then rejects with the last error. */
export async function persist<Result>(
  act: () => Promise<Result>,
  { forMs = LIMITS.clusterJoinMs, isFinal, onWaiting }: Persistence = {},
): Promise<Result> {
  const until = performance.now() + forMs;
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      const nextAt = performance.now() + LIMITS.natsReconnectMs;
      if (nextAt > until || isFinal?.(error) === true) throw error;
      if (attempt === 1) onWaiting?.(error);
    }
    await pause(LIMITS.natsReconnectMs);
  }
}
