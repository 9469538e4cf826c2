// Who waits to hear that a callback was looked into, by transaction: fronts, which tell the provider. A front that is not told in time asks
// again, and then another process if this one has died.
//
// Invariants: each is answered once; with `done` only after an enquiry that began after it asked, when the account has its answer.

import { doneReply, type OnReply, type Reply, UNKNOWN } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Verdict } from './verdict.ts';

interface Waiter {
  readonly id: string;
  readonly onReply: OnReply;
  readonly until: number;
  /** An enquiry is made for it. */
  isAsked: boolean;
  /** What came of that is on its way to its account. One from before may be, too. */
  verdict: Verdict | null;
}

export const DONE = doneReply('{}');

export class Waiters {
  /** Who has waited longest comes first, here and there. */
  readonly #all = new Set<Waiter>();
  readonly #byId = new Map<string, Set<Waiter>>();

  /** One too many takes the place of the one that has waited longest. `now`: milliseconds, here and in `tick` since the same. */
  add(id: string, onReply: OnReply, now: number): void {
    for (const first of this.#all) {
      if (this.#all.size < LIMITS.pollerWaitersMax) break;
      this.#end(first, UNKNOWN);
    }
    const waiter = { id, onReply, until: now + LIMITS.commandDeadlineMs, isAsked: false, verdict: null };
    this.#all.add(waiter);
    const others = this.#byId.get(id);
    if (others === undefined) this.#byId.set(id, new Set([waiter]));
    else others.add(waiter);
  }

  /** An enquiry is about to be made. */
  asked(id: string): void {
    for (const waiter of this.#byId.get(id) ?? []) waiter.isAsked = true;
  }

  /** The last enquiry said nothing that its account has yet to hear. */
  answered(id: string): void {
    for (const waiter of this.#byId.get(id) ?? []) if (waiter.isAsked) this.#end(waiter, DONE);
  }

  /** The last enquiry said what its account is told now. */
  concluded(id: string, verdict: Verdict): void {
    for (const waiter of this.#byId.get(id) ?? []) if (waiter.isAsked) waiter.verdict = verdict;
  }

  /** Its account has it. */
  taken(id: string, verdict: Verdict): void {
    for (const waiter of this.#byId.get(id) ?? []) if (waiter.verdict === verdict) this.#end(waiter, DONE);
  }

  /** Whatever was asked. */
  end(id: string, reply: Reply): void {
    for (const waiter of this.#byId.get(id) ?? []) this.#end(waiter, reply);
  }

  endAll(): void {
    for (const waiter of this.#all) this.#end(waiter, UNKNOWN);
  }

  tick(now: number): void {
    for (const waiter of this.#all) {
      if (waiter.until > now) return;
      this.#end(waiter, UNKNOWN);
    }
  }

  #end(waiter: Waiter, reply: Reply): void {
    if (!this.#all.delete(waiter)) return;
    const { id, onReply } = waiter;
    const others = this.#byId.get(id);
    others?.delete(waiter);
    if (others?.size === 0) this.#byId.delete(id);
    onReply(reply);
  }
}
