// When a failed delivery is tried again: a list of waits, each ±10 %. Pure: the random part comes from outside and what
// is decided with it is logged.

import { LIMITS } from '../../src/limits.ts';

/**
 * Milliseconds to wait after the attempt that made it `made` attempts (1, 2, …); null: none is left, it is dead-lettered.
 * `random` is at least 0 and below 1.
 */
export function retryDelayMs(retryMs: readonly number[], made: number, random: number): number | null {
  const waitMs = retryMs[made - 1];
  if (waitMs === undefined) return null;
  const jitter = LIMITS.webhookRetryJitterMax;
  return Math.round(waitMs * (1 - jitter + 2 * jitter * random));
}
