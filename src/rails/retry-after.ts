// Retry-After (RFC 9110, 10.2.3): how long a provider asks to be left alone. Where it refuses a call for a passing reason, and
// nowhere else; whoever calls it waits at least as long as it would by itself.

import type { IncomingHttpHeaders } from 'node:http';
import { LIMITS } from '../limits.ts';

/** Part of an answer that is of no use. */
export interface Asked {
  /** For at least so long, bounded. Undefined: it did not say. */
  readonly retryAfterMs?: number | undefined;
}

/** Seconds, or an HTTP date; `now`, milliseconds since 1970, counts only where the answer does not say what its own clock shows. */
export function retryAfterMsOf(
  status: number,
  headers: IncomingHttpHeaders,
  now: number,
): number | undefined {
  if (status !== 429 && status !== 503) return undefined;
  // A header that is there twice is a list, whatever its type says.
  const said = String(headers['retry-after'] ?? '').trim();
  const sentAt = dateOf(headers.date) ?? now;
  const waitMs = /^\d+$/.test(said) ? Number(said) * 1_000 : (dateOf(said) ?? sentAt) - sentAt;
  return waitMs > 0 ? Math.min(waitMs, LIMITS.railRetryAfterMsMax) : undefined;
}

/** "Sun, 06 Nov 1994 08:49:37 GMT", and as it was written before RFC 2616, but for the form without a zone. */
function dateOf(text: string | undefined): number | null {
  const at = text !== undefined && /^[A-Z][a-z]+, .+ GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}
