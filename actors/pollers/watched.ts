// A transaction that a poller brings to a final state. While it only waits it is no object, but a row of `Parked`.
//
// Hot: at 40,000 charges a second one of these is made for each; every field is set at birth, in one order. A new field needs
// its place in parked.ts, unless nothing that waits has it.

import type { PendingTransaction } from '../../src/domain/account-command.ts';
import type { Country, Currency, Network } from '../../src/domain/country.ts';
import type { TransactionType } from '../../src/domain/transaction.ts';
import { NONE } from './id-index.ts';
import type { Port } from './rail-lane.ts';
import type { Verdict } from './verdict.ts';

/**
 *      ┌──────────────── no final answer ───────────────┐
 *      ▼                                                │
 *   waiting ──▶ beginning ──▶ queued ──────────────▶ calling
 *      │        (to submit a     │  (where its rail      │
 *      │         withdrawal)     │   is busy)            │ final
 *      └──────── expired ────────┴────▶ telling ◀────────┘
 *                                        ▲   │
 *                            untaken ◀───┴───┴──▶ taken ◀──▶ asking
 *
 * Until its end is known:
 *   waiting    for its next call, in the wheel
 *   beginning  its account is asked whether it may be submitted
 *   queued     in its rail's queue for `next`, and in the wheel if it can expire
 *   calling    the rail has it
 * From then on, until the feed says so too; or it waits again, because its account does not take that, or does not agree:
 *   telling    its account is told its verdict
 *   untaken    its account did not take it: in the wheel, to be told again
 *   taken      its account took it: in the wheel, for where the feed does not end it
 *   asking     its account is asked why it has not ended
 * The object is not it any more, and whatever still holds it lets go:
 *   parked     it waits, and `Parked` has what is in this object
 *   gone       final, or forgotten
 */
export type WatchState =
  | 'waiting'
  | 'beginning'
  | 'queued'
  | 'calling'
  | 'telling'
  | 'untaken'
  | 'taken'
  | 'asking'
  | 'parked'
  | 'gone';

/**
 * Why it is followed.
 *
 * in_flight  it is brought to its end
 * called     it has ended, and a callback came: its provider may say something else now
 * expired    it expired, or an operator said that it failed, and may be paid after all: it is looked at now and then
 */
export const PHASES = ['in_flight', 'called', 'expired'] as const;
export type Phase = (typeof PHASES)[number];

/**
 * What is known of its submits.
 *
 * none       none reached the provider, for certain: not sent, or not known to it after the grace
 * possible   one may have: its answer was lost, or the provider speaks of it
 * accepted   the provider said that it has it. Never unlearnt, for what it has is not sent again
 * forgotten  the same, and it has forgotten it since: it is one that does (`Rail.forgetful`)
 */
export const SUBMISSIONS = ['none', 'possible', 'accepted', 'forgotten'] as const;
export type Submission = (typeof SUBMISSIONS)[number];

export class Watched implements PendingTransaction {
  readonly id: string;
  readonly accountId: string;
  readonly type: TransactionType;
  readonly amount: number;
  readonly currency: Currency;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  readonly provider: string;
  readonly reference: string;
  readonly note: string | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly port: Port;

  /** In the wheel, and wherever it is parked; given by `Followed`. */
  number = NONE;
  phase: Phase = 'in_flight';
  state: WatchState = 'waiting';
  /** What its rail is called for. */
  next: 'submit' | 'enquire' = 'submit';

  // Submits: written in pursuit.ts, and `unsent` in withdrawal-submits.ts.
  submission: Submission;
  /** Its account records that it is submitted before it is, and may yet say that it is not to be. */
  unsent: boolean;
  submits = 0;
  /** Until then `not_found` says nothing, by `monotonic`. `unsent`: until then it is not begun while its rail is down; 0: it was not
   *  tried. */
  graceUntil = 0;

  // Enquiries: written in pursuit.ts.
  enquiries = 0;
  enquiredAt = 0;
  /** Unusable answers one after the other: since it expired; `isLate`: to a callback. */
  unanswered = 0;
  /** It has expired, and until then its provider is asked on; 0: it has not. */
  lastUntil = 0;

  // Callbacks: written in pursuit.ts.
  /** One came, and no enquiry was made for it yet; or none had a usable answer. */
  hinted = false;
  /** The enquiry that is made, or was made last, is for one. */
  byHint = false;

  // Its account: written in telling.ts.
  /** It has yet to be told of the acceptance. */
  acceptanceUntold = false;
  /** What it has yet to take: `telling` or `untaken`. */
  verdict: Verdict | null = null;
  /** Times it was told and did not answer. */
  tells = 0;

  // Its rail: written in rail-lane.ts.
  /** The last call had no usable answer. */
  failing = false;

  // What operators were told: written in notice.ts.
  /** That the provider no longer knows it; of one that it has not accepted, that its wallet was revoked. */
  alarmed = false;
  /** That the provider never takes it. */
  refusalsTold = false;
  /** That the provider does not say what became of it. */
  waitTold = false;

  constructor(transaction: PendingTransaction, port: Port) {
    this.id = transaction.id;
    this.accountId = transaction.accountId;
    this.type = transaction.type;
    this.amount = transaction.amount;
    this.currency = transaction.currency;
    this.country = transaction.country;
    this.network = transaction.network;
    this.msisdn = transaction.msisdn;
    this.provider = transaction.provider;
    this.reference = transaction.reference;
    this.note = transaction.note;
    this.createdAt = transaction.createdAt;
    this.expiresAt = transaction.expiresAt;
    this.port = port;
    this.submission = transaction.submitted ? 'accepted' : 'none';
    this.unsent = transaction.unsent === true;
  }

  /** Its provider has accepted it, whatever became of that. */
  get submitted(): boolean {
    return this.submission === 'accepted' || this.submission === 'forgotten';
  }

  /** Its provider may have it. */
  get mayBeThere(): boolean {
    return this.submission === 'possible' || this.submission === 'accepted';
  }

  /** It has ended, and is followed all the same. */
  get isLate(): boolean {
    return this.phase !== 'in_flight';
  }

  /** How it ended is known. */
  get isConcluded(): boolean {
    const { state } = this;
    return state === 'telling' || state === 'untaken' || state === 'taken' || state === 'asking';
  }

  /** A callback came that no enquiry was made for since, nor is being made. */
  get isOwed(): boolean {
    return this.hinted || (this.byHint && this.isQueuedToEnquire);
  }

  /** Nobody has found it in flight, nor lost an answer: after that it is enquired about before it is submitted. And no submit was
   *  taken, for certain. */
  get wasNeverTaken(): boolean {
    return this.submission === 'none' && !this.hinted && this.enquiries === 0;
  }

  get isQueuedToEnquire(): boolean {
    return this.state === 'queued' && this.next === 'enquire';
  }

  /** Its enquiry goes before those that find nothing new most of the time: a callback came, or it is to expire. */
  get isUrgent(): boolean {
    return this.byHint || this.lastUntil !== 0;
  }

  /** The provider says that it has it: that is news to its account, unless it was said before. */
  hasArrived(): void {
    this.acceptanceUntold ||= !this.submitted;
    this.submission = 'accepted';
  }

  /** A submit of it may have reached the provider. */
  mayHaveArrived(): void {
    this.submission = this.submitted ? 'accepted' : 'possible';
  }

  /** The provider does not know it, and that counts. */
  hasNotArrived(): void {
    this.submission = this.submitted ? 'forgotten' : 'none';
  }

  /** Nothing was done about it yet. */
  beLate(phase: Exclude<Phase, 'in_flight'>, enquiredAt: number): void {
    this.phase = phase;
    this.enquiredAt = enquiredAt;
    this.next = 'enquire';
    this.mayHaveArrived();
  }
}
