// When a poller asks, submits again, and gives up waiting: delays as pure functions of how often it has been tried.
// Randomness comes in as `random` (0 to 1), so that tests can seed it.

import { LIMITS } from '../../src/limits.ts';
import type { Watched } from './watched.ts';

export type Random = () => number;

export interface Timings {
  /** From acceptance to the first enquiry, where no callback comes before. */
  readonly firstEnquiryMs: number;
  /** From a submit whose answer was lost to the first enquiry. */
  readonly enquiryAfterLossMs: number;
  /** Between enquiries: doubles from the first to the second of these, so that an outcome whose callback is lost is found within
   *  about a minute; to the third while others wait for the rail, which cannot take as many. */
  readonly enquiryGapMs: number;
  readonly enquiryGapSlowestMs: number;
  readonly enquiryGapBusyMs: number;
  /** Between enquiries that callbacks cause: a storm of them costs one enquiry each this long. */
  readonly hintGapMs: number;
  /** Between submits that were not accepted, and between commands that were not answered: doubles likewise. */
  readonly retryMs: number;
  readonly retrySlowestMs: number;
  /** Submits without acceptance, in one life of the process, before an operator is told: a quarter of an hour, or longer
   *  where its provider asks to be left alone. */
  readonly submitsTold: number;
  /** When a payout or withdrawal is so old, counted from its approval where it had one, and was asked about so often in one life of the
   *  process, an operator is told that it has no outcome. Age alone would tell of each whose outcome waits for this process to ask. */
  readonly waitToldMs: number;
  readonly enquiriesTold: number;
  /** At recovery, enquiries are spread over this. */
  readonly recoverySpreadMs: number;
  /** Unusable answers to the last enquiry before a transaction is let expire, and the longest that may take: less than
   *  the minute after which its account does so by itself. */
  readonly lastEnquiries: number;
  readonly lastEnquiriesMs: number;
  /** The longest the last enquiry may take, usable answers or not, about what expired while nobody was there: less than the time for which
   *  its account leaves it to the pollers. All of that is asked about at once, and what cut us off may last a while longer. */
  readonly lastEnquiriesMissedMs: number;
  /** How often a final transaction is asked about again without a final answer. */
  readonly lateEnquiries: number;
  /** What came after the end of its transaction was answered, and the payment stands: to the first further look, each of the others after
   *  ten times as long, and how many there are. */
  readonly calledAgainMs: number;
  readonly calledAgainLooks: number;
  /** Unusable answers in a row after which a callback about one is given up: two to three days. */
  readonly hintEnquiries: number;
  /** From expiry to the first look whether the customer paid after all; each further one after four times as long. */
  readonly afterExpiryMs: number;
  /** At recovery, looks that make up for missed ones are spread over this. Even a process that is started every minute then makes about one
   *  look at each transaction in this time. */
  readonly makeUpSpreadMs: number;
  /** What most payers need to approve; of what expires in less than 30 minutes, a fifteenth of that. */
  readonly approvalMs: number;
  /** Tries to read a transaction's details from its account. */
  readonly fetches: number;
}

export const TIMINGS: Timings = {
  firstEnquiryMs: 10_000,
  enquiryAfterLossMs: 3_000,
  enquiryGapMs: 10_000,
  enquiryGapSlowestMs: 50_000,
  enquiryGapBusyMs: 300_000,
  hintGapMs: 2_000,
  retryMs: 1_000,
  retrySlowestMs: 60_000,
  submitsTold: 20,
  waitToldMs: 86_400_000,
  enquiriesTold: 12,
  recoverySpreadMs: 10_000,
  lastEnquiries: 3,
  lastEnquiriesMs: 40_000,
  lastEnquiriesMissedMs: 480_000,
  lateEnquiries: 5,
  calledAgainMs: 30_000,
  calledAgainLooks: 3,
  hintEnquiries: 4_000,
  afterExpiryMs: 600_000,
  makeUpSpreadMs: 3_600_000,
  approvalMs: 120_000,
  fetches: 8,
};

/** Up to a fifth later, never earlier: transactions that began together do not stay together. */
export function jittered(delayMs: number, random: Random): number {
  return delayMs + Math.floor(delayMs * 0.2 * random());
}

/** What would be done after `gapMs`, where the provider asks to be left alone for a while. */
export function notBeforeAskedMs(gapMs: number, retryAfterMs: number | undefined, random: Random): number {
  return retryAfterMs === undefined ? gapMs : Math.max(gapMs, jittered(retryAfterMs, random));
}

/** After `enquiries` enquiries without a final answer. `isBusy`: others wait for the rail. */
export function enquiryGapMs(timings: Timings, enquiries: number, isBusy: boolean, random: Random): number {
  const slowestMs = isBusy ? timings.enquiryGapBusyMs : timings.enquiryGapSlowestMs;
  return jittered(doubled(timings.enquiryGapMs, slowestMs, enquiries), random);
}

/** When it is given up; null: never. If its provider certainly never had it, that is a while before it expires: nobody should be asked to
 *  approve a charge that fails meanwhile. */
export function endsAt(
  timings: Timings,
  { createdAt, expiresAt, submission }: Pick<Watched, 'createdAt' | 'expiresAt' | 'submission'>,
): number | null {
  if (expiresAt === null || submission !== 'none') return expiresAt;
  return expiresAt - Math.min(timings.approvalMs, (expiresAt - createdAt) / 15);
}

/** How long the last enquiry may take of what expired `lateMs` ago. */
export function lastEnquiriesMsAt(timings: Timings, lateMs: number): number {
  return lateMs > timings.lastEnquiriesMs ? timings.lastEnquiriesMissedMs : timings.lastEnquiriesMs;
}

/** After `enquiries` looks at an expired transaction. */
export function afterExpiryGapMs(timings: Timings, enquiries: number, random: Random): number {
  return jittered(timings.afterExpiryMs * 4 ** enquiries, random);
}

/** From expiry to the last look, at the most. */
export function afterExpiryMsMax(timings: Timings): number {
  let sum = 0;
  for (let looks = 0; looks < timings.lateEnquiries; looks++) {
    sum += afterExpiryGapMs(timings, looks, () => 1);
  }
  return sum;
}

/** After `tries` tries that failed, from 1. */
export function retryGapMs(timings: Timings, tries: number, random: Random): number {
  return jittered(doubled(timings.retryMs, timings.retrySlowestMs, tries - 1), random);
}

/** After `enquiries` answers to a callback, from 1, that the payment stands. */
export function calledAgainGapMs(timings: Timings, enquiries: number, random: Random): number {
  return jittered(timings.calledAgainMs * 10 ** (enquiries - 1), random);
}

/** Of what finds no place in its rail's queue. `followed`: as many of its partition may. */
export function noPlaceGapMs(timings: Timings, followed: number, random: Random): number {
  const inTurnMs = jittered((followed * 1000) / LIMITS.pollerNoPlacePerSecondMax, random);
  return Math.max(retryGapMs(timings, 3, random), inTurnMs);
}

function doubled(firstMs: number, slowestMs: number, times: number): number {
  return Math.min(slowestMs, firstMs * 2 ** Math.min(times, 30));
}
