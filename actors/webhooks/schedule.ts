// When a failed delivery is tried again: a list of waits, each ±10 %. Pure: the random part comes from outside and what
// is decided with it is logged.

import { LIMITS } from '../../src/limits.ts';

/** Specification part 6: after attempt 1, 2, … 7; then it is dead-lettered. */
export const DEFAULT_RETRY_MS: readonly number[] = [30, 120, 600, 1_800, 7_200, 21_600, 57_600].map(
  (seconds) => seconds * 1000,
);

/**
 * Milliseconds to wait after the attempt that made it `made` attempts (1, 2, …); null: no attempt is left.
 * `random` is at least 0 and below 1.
 */
export function retryDelayMs(retryMs: readonly number[], made: number, random: number): number | null {
  const waitMs = retryMs[made - 1];
  if (waitMs === undefined) return null;
  const jitter = LIMITS.webhookRetryJitterMax;
  return Math.round(waitMs * (1 - jitter + 2 * jitter * random));
}
