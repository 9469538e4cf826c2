// A transaction that a poller brings to a final state, and the heap of when each is looked at next. The heap knows each
// transaction's place, so that one that finishes leaves at once and costs no memory until it would have been due.
//
// Hot: at 40,000 charges a second one of these is made for each; every field is set at birth, in one order.

import type {
  ExpireTransaction,
  PendingTransaction,
  RecordOutcome,
} from '../../src/domain/account-command.ts';
import type { Country, Currency, Network } from '../../src/domain/country.ts';
import type { TransactionType } from '../../src/domain/transaction.ts';
import type { Port } from './rail-lane.ts';

/**
 * waiting    in the heap; what happens when it falls due follows from the other fields
 * queued     in its rail's queue for `next`, and in the heap if it can expire
 * calling    the rail has it
 * telling    its account has a command or a query about it
 * gone       final, or forgotten: whatever still holds it lets go
 */
export type WatchState = 'waiting' | 'queued' | 'calling' | 'telling' | 'gone';

/** What an account is to be told about the end of a transaction. */
export type Verdict = RecordOutcome | ExpireTransaction;

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
  /** The provider has it. */
  submitted: boolean;

  readonly port: Port;
  state: WatchState = 'waiting';
  next: 'submit' | 'enquire' = 'submit';
  /** Place in the heap; -1: not in it. */
  place = -1;
  /** Some submit may have reached the provider; false only when it is certain that none did: not sent, or not known to it
   *  after the grace. */
  maybeSent = false;
  /** The account has yet to be told of its acceptance. */
  acceptanceUntold = false;
  /** A callback came that no enquiry has answered yet. */
  hinted = false;
  /** The enquiry in progress was caused by a callback. */
  byHint = false;
  /** It was final already when a callback came. */
  late = false;
  /** `late`, and looked at now and then without a callback: it expired, and might be paid after all. */
  expired = false;
  /** An account took a verdict; if it stays in flight nonetheless, the account did not agree. */
  told = false;
  /** An account did not agree with a final answer: for another amount, for instance. */
  disputed = false;
  /** An operator was told that the provider no longer knows it. */
  alarmed = false;
  /** An operator was told that the provider never takes it. */
  refusalsTold = false;
  submits = 0;
  enquiries = 0;
  /** Unusable answers since it expired, and until when more are asked for; 0: it has not expired. */
  lastEnquiries = 0;
  lastUntil = 0;
  enquiredAt = 0;
  /** Until then `not_found` says nothing. */
  graceUntil = 0;
  /** Held until the account has taken it. */
  verdict: Verdict | null = null;
  /** Times the account was told and did not answer. */
  tells = 0;

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
    this.submitted = transaction.submitted;
    this.port = port;
  }

  /** It is final; the provider may say otherwise now. */
  beLate(enquiredAt: number): void {
    this.late = true;
    this.enquiredAt = enquiredAt;
    this.next = 'enquire';
    this.maybeSent = true;
  }
}

/** Binary min-heap by due time, in milliseconds since 1970. */
export class WatchHeap {
  readonly #dues: number[] = [];
  readonly #watched: Watched[] = [];

  get size(): number {
    return this.#dues.length;
  }

  /** Puts it in, or moves it. */
  set(watched: Watched, dueAt: number): void {
    if (watched.place === -1) {
      this.#dues.push(dueAt);
      this.#watched.push(watched);
      this.#rise(this.#dues.length - 1, watched, dueAt);
      return;
    }
    const before = this.#dues[watched.place] ?? dueAt;
    if (dueAt < before) this.#rise(watched.place, watched, dueAt);
    else this.#sink(watched.place, watched, dueAt);
  }

  /** Puts it in, or moves it forward, never back. */
  setBy(watched: Watched, dueAt: number): void {
    const before = watched.place === -1 ? Infinity : (this.#dues[watched.place] ?? Infinity);
    if (dueAt < before) this.set(watched, dueAt);
  }

  remove(watched: Watched): void {
    const { place } = watched;
    if (place === -1) return;
    watched.place = -1;
    const lastDue = this.#dues.pop();
    const last = this.#watched.pop();
    if (last === undefined || lastDue === undefined || last === watched) return;
    const parent = this.#dues[(place - 1) >> 1];
    if (place > 0 && parent !== undefined && parent > lastDue) this.#rise(place, last, lastDue);
    else this.#sink(place, last, lastDue);
  }

  /** Removes and returns the earliest if it is due. */
  takeDue(now: number): Watched | undefined {
    const due = this.#dues[0];
    if (due === undefined || due > now) return undefined;
    const first = this.#watched[0];
    if (first !== undefined) this.remove(first);
    return first;
  }

  #rise(from: number, watched: Watched, dueAt: number): void {
    let at = from;
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parentDue = this.#dues[up];
      const parent = this.#watched[up];
      if (parent === undefined || parentDue === undefined || parentDue <= dueAt) break;
      this.#put(at, parent, parentDue);
      at = up;
    }
    this.#put(at, watched, dueAt);
  }

  #sink(from: number, watched: Watched, dueAt: number): void {
    let at = from;
    for (;;) {
      const left = 2 * at + 1;
      const leftDue = this.#dues[left] ?? Infinity;
      const rightDue = this.#dues[left + 1] ?? Infinity;
      const down = rightDue < leftDue ? left + 1 : left;
      const childDue = Math.min(leftDue, rightDue);
      const child = this.#watched[down];
      if (child === undefined || childDue >= dueAt) break;
      this.#put(at, child, childDue);
      at = down;
    }
    this.#put(at, watched, dueAt);
  }

  #put(at: number, watched: Watched, dueAt: number): void {
    this.#dues[at] = dueAt;
    this.#watched[at] = watched;
    watched.place = at;
  }
}
