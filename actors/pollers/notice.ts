// What pollers tell operators about: each is a line of the log and a count.

import type { Terminal } from '../../src/rails/rail.ts';
import type { Timings } from './schedule.ts';
import type { Watched } from './watched.ts';

const HOUR_MS = 3_600_000;

export const NOTICES = [
  'our_fault',
  'no_rail',
  'not_taken',
  'provider_forgot',
  'never_accepted',
  'no_outcome',
  'wallet_revoked',
  'unknown_reference',
  'hint_lost',
  'follows_too_many',
] as const;

/** Something an operator should know. */
export interface Notice {
  readonly what: (typeof NOTICES)[number];
  readonly provider: string | null;
  readonly transactionId: string | null;
  readonly detail: string | null;
}

export function noticeOf(
  what: Notice['what'],
  { provider, id }: { readonly provider: string; readonly id: string },
  detail: string | null,
): Notice {
  return { what, provider, transactionId: id, detail };
}

/** With the provider's code and words; ours, where it was not even sent. */
export function ourFault(
  watched: Watched,
  { providerStatus, failureMessage }: Pick<Terminal, 'providerStatus' | 'failureMessage'>,
): Notice {
  const said = [providerStatus, failureMessage].filter((part) => part !== null);
  return noticeOf('our_fault', watched, said.length === 0 ? null : said.join(': '));
}

/** A payout goes on being submitted for as long as it takes. When a provider takes others and never this one, a person
 *  should look; when it takes none, the rail's health says so. Null: nothing to tell, or it was told. */
export function neverAccepted(watched: Watched, reason: string, { submitsTold }: Timings): Notice | null {
  if (watched.refusalsTold || watched.submits < submitsTold) return null;
  if (watched.port.lane.health().breaker !== 'closed') return null;
  watched.refusalsTold = true;
  const { provider, id: transactionId, submits } = watched;
  const detail = `${submits} submits, the last: ${reason}`;
  return { what: 'never_accepted', provider, transactionId, detail };
}

/** Its provider said that it had it. To send it again could pay twice: a person looks, and it is asked on. Null: it was told, or that
 *  its provider does not know it says nothing yet. `now`: monotonic. */
export function providerForgot(watched: Watched, now: number): Notice | null {
  const wasTold = watched.alarmed;
  watched.alarmed = now >= watched.graceUntil;
  return watched.alarmed && !wasTold ? noticeOf('provider_forgot', watched, null) : null;
}

/** Nobody else ends it, where its provider never had it: a person looks, and settles it. Null: it was told. */
export function sentNoMore(watched: Watched): Notice | null {
  if (watched.alarmed) return null;
  watched.alarmed = true;
  return noticeOf('wallet_revoked', watched, null);
}

/** What is in flight and cannot expire is asked about for as long as it takes, and its money is on hold: a person should look. Null: as above. */
export function waitsForLong(watched: Watched, now: number, answer: string, timings: Timings): Notice | null {
  const { enquiriesTold, waitToldMs } = timings;
  if (watched.waitTold || watched.expiresAt !== null) return null;
  const ageMs = now - watched.createdAt;
  if (ageMs < waitToldMs || watched.enquiries < enquiriesTold) return null;
  if (watched.port.lane.health().breaker !== 'closed') return null;
  watched.waitTold = true;
  const { provider, id: transactionId } = watched;
  const detail = `for ${Math.floor(ageMs / HOUR_MS)} h; the last answer: ${answer}`;
  return { what: 'no_outcome', provider, transactionId, detail };
}
