// The partition, as a pursuit sees it: who follows transactions, and lets go of them; and what it is given to work with.

import type { Bus } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Notice } from './notice.ts';
import type { Port } from './rail-lane.ts';
import type { Random, Timings } from './schedule.ts';
import type { Verdict } from './verdict.ts';
import type { Watched } from './watched.ts';

export interface Keeper {
  /** It follows more than it may, and those of this rail are to go. */
  isFull(port: Port): boolean;
  /** The one that has this number. */
  at(number: number): Watched;
  /** The one that has this id, if it is in flight. */
  find(id: string): Watched | undefined;
  /** Parks it if it only waits; whoever calls is done with the object. */
  park(watched: Watched): void;
  /** Follows it no more. */
  forget(watched: Watched): void;
  /** Follows it no more although it is in flight; to be found again by a scan. */
  letGo(watched: Watched): void;
  /** Lets go of the one that has this id, if it only waits. */
  letGoWaiting(id: string): void;
  /** A callback, or as good as one, about a transaction it does not follow. Where too many are looked into operators are told. */
  lookInto(accountId: string, transactionId: string): void;
  readonly callbacks: CallbackKeeper;
}

/** Whoever waits for what callbacks are about. */
export interface CallbackKeeper {
  /** An enquiry about it is about to be made. */
  asked(id: string): void;
  /** The last enquiry about it said nothing that its account has yet to hear. */
  answered(id: string): void;
  /** The last enquiry about it said what its account is told now. */
  concluded(id: string, verdict: Verdict): void;
  /** Its account has that. */
  taken(id: string, verdict: Verdict): void;
  /** Nobody will find out what a callback was about. */
  gaveUp(id: string): void;
  /** For `times` as many as are looked into: what has ended, and what callbacks are about that is not known yet. */
  hasRoom(times: number): boolean;
}

/** A callback that nobody has looked into. */
export interface LeftCallback {
  readonly accountId: string;
  readonly transactionId: string;
  /** The next owner finds it at its account. */
  readonly isNoted: boolean;
}

export interface PursuitOptions {
  readonly partition: number;
  readonly bus: Bus;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Milliseconds since anything, none longer than another: for what is to have passed in truth. `now` leaps where accounts are heard of
   *  whose time is ahead of it. */
  readonly monotonic: () => number;
  /** By which deadlines of messages are set, ours and those to us; `now` may be ahead of it or behind. */
  readonly deadlineClock: () => number;
  /** False: another process may have the partition by now, or this one is to let go of it. */
  readonly holds: () => boolean;
  readonly random: Random;
  readonly timings: Timings;
  readonly onNotice: (notice: Notice) => void;
}

/** Of a message to an account that is sent now. */
export function messageDeadline({ deadlineClock }: Pick<PursuitOptions, 'deadlineClock'>): number {
  return deadlineClock() + LIMITS.pollerCommandDeadlineMs;
}
