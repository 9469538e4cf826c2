// Loopback: a rail without a network, in this process and deterministic, for tests and for benchmarks of the ledger.
// It plays the provider: what it accepts it settles by its clock alone, with the numbers that misbehave doing so.
//
// Invariants: a reference is accepted once, however often it is submitted; what enquire says depends on the clock and
// on nothing else; memory is bounded (a number that never answers costs none); no timer per transaction: dues of one
// delay are in order anyway, so each delay has a queue, and one interval serves them all.
//
// It forgets everything when the process ends. After a restart it answers `not_found` for what it had accepted; the
// poller then submits the same reference again (Rail.forgetful), and the wait for the outcome starts anew.

import type { PendingTransaction } from '../domain/account-command.ts';
import { bodyOf } from '../domain/id.ts';
import { LIMITS } from '../limits.ts';
import { behaviourOf, type Behaviour } from './misbehaviour.ts';
import {
  type Clock,
  directionOf,
  type EnquiryResult,
  type OnHint,
  type Rail,
  type SubmitResult,
  type Terminal,
} from './rail.ts';

export interface LoopbackOptions {
  readonly id: string;
  readonly approveAfterMs: number;
  readonly clock: Clock;
  readonly onHint: OnHint;
}

/** What the provider knows of one transaction. */
interface Accepted {
  readonly id: string;
  readonly accountId: string;
  readonly behaviour: Behaviour;
  readonly acceptedAt: number;
  /** Answers the submit, for those answered late. */
  answer: ((result: SubmitResult) => void) | null;
}

type Act = 'settle' | 'reverse' | 'answer';

/** Things that happen one delay after they were accepted, so in the order they were accepted. */
interface Due {
  readonly afterMs: number;
  readonly act: Act;
  accepted: Accepted[];
  head: number;
}

const ACCEPTED: SubmitResult = { type: 'accepted', providerStatus: 'PENDING' };
const PENDING: EnquiryResult = { type: 'pending', providerStatus: 'PENDING' };
const NOT_FOUND: EnquiryResult = { type: 'not_found' };
const UNAVAILABLE = '503 Service Unavailable';
const HTML = 'an HTML page instead of JSON';

export class LoopbackRail implements Rail {
  readonly id: string;
  readonly maxConcurrency = LIMITS.loopbackCallsMax;
  readonly notFoundGraceMs = 0;
  readonly forgetful = true;
  readonly #approveAfterMs: number;
  readonly #clock: Clock;
  readonly #onHint: OnHint;
  readonly #stopTicking: () => void;
  readonly #accepted = new Map<string, Accepted>();
  /** Ids of what is settled for good, oldest first; beyond LIMITS.loopbackRememberedMax the oldest is forgotten. */
  #settled: string[] = [];
  #settledHead = 0;
  readonly #dues: Due[] = [];

  constructor({ id, approveAfterMs, clock, onHint }: LoopbackOptions) {
    this.id = id;
    this.#approveAfterMs = approveAfterMs;
    this.#clock = clock;
    this.#onHint = onHint;
    this.#stopTicking = clock.every(LIMITS.loopbackTickMs, () => this.#tick());
  }

  submit(transaction: PendingTransaction): SubmitResult | Promise<SubmitResult> {
    const behaviour = behaviourOf(transaction.msisdn, directionOf(transaction));
    switch (behaviour.answer) {
      case 'unavailable':
        return { type: 'not_accepted', reason: UNAVAILABLE };
      case 'html':
        return { type: 'unknown', reason: HTML };
      case 'refused':
        return terminal(transaction, behaviour, 'failed');
      case 'accepted':
      case 'settled':
      case 'late':
      case 'dropped':
        break;
    }
    if (behaviour.outcome === 'never' || this.#accepted.has(transaction.id)) return ACCEPTED;
    if (this.#accepted.size >= LIMITS.loopbackAcceptedMax) {
      return { type: 'not_accepted', reason: 'loopback is full' };
    }
    return this.#accept(transaction, behaviour);
  }

  enquire(transaction: PendingTransaction): EnquiryResult {
    const behaviour = behaviourOf(transaction.msisdn, directionOf(transaction));
    if (behaviour.answer === 'unavailable') return { type: 'unknown', reason: UNAVAILABLE };
    if (behaviour.answer === 'html') return { type: 'unknown', reason: HTML };
    // It keeps nothing of these: it would for ever.
    if (behaviour.outcome === 'never') return PENDING;

    const accepted = this.#accepted.get(transaction.id);
    if (accepted === undefined) return NOT_FOUND;
    const sinceMs = this.#clock.now() - accepted.acceptedAt;
    const settleAfterMs = this.#settleAfterMs(behaviour);
    if (sinceMs < settleAfterMs) return PENDING;
    if (behaviour.outcome === 'fails') return terminal(transaction, behaviour, 'failed');
    const { reversedAfterMs } = behaviour;
    const reversed = reversedAfterMs !== null && sinceMs >= settleAfterMs + reversedAfterMs;
    return terminal(transaction, behaviour, reversed ? 'reversed' : 'succeeded');
  }

  close(): Promise<void> {
    this.#stopTicking();
    const closed: SubmitResult = { type: 'unknown', reason: 'loopback is closed' };
    for (const { answer } of this.#accepted.values()) answer?.(closed);
    this.#accepted.clear();
    return Promise.resolve();
  }

  #accept(transaction: PendingTransaction, behaviour: Behaviour): SubmitResult | Promise<SubmitResult> {
    const { id, accountId } = transaction;
    const accepted: Accepted = { id, accountId, behaviour, acceptedAt: this.#clock.now(), answer: null };
    this.#accepted.set(id, accepted);
    const settleAfterMs = this.#settleAfterMs(behaviour);
    this.#later(settleAfterMs, 'settle', accepted);
    const { reversedAfterMs } = behaviour;
    if (reversedAfterMs !== null) this.#later(settleAfterMs + reversedAfterMs, 'reverse', accepted);

    if (behaviour.answer === 'settled') return terminal(transaction, behaviour, 'succeeded');
    if (behaviour.answer === 'dropped') return { type: 'unknown', reason: 'the connection dropped' };
    if (behaviour.answer !== 'late') return ACCEPTED;
    this.#later(behaviour.answerAfterMs ?? this.#approveAfterMs, 'answer', accepted);
    return new Promise((resolve) => {
      accepted.answer = resolve;
    });
  }

  /** For a submit answered late with its own delay, the customer approves only after that. */
  #settleAfterMs({ answer, answerAfterMs, settleAfterMs }: Behaviour): number {
    if (answer === 'settled') return 0;
    if (answer === 'late' && answerAfterMs !== null) return answerAfterMs + this.#approveAfterMs;
    return settleAfterMs ?? this.#approveAfterMs;
  }

  #later(afterMs: number, act: Act, accepted: Accepted): void {
    let due = this.#dues.find((candidate) => candidate.afterMs === afterMs && candidate.act === act);
    if (due === undefined) {
      due = { afterMs, act, accepted: [], head: 0 };
      this.#dues.push(due);
      // In time order, and a callback before the answer that falls due with it (the number ending in 71).
      this.#dues.sort((a, b) => a.afterMs - b.afterMs || ACT_ORDER[a.act] - ACT_ORDER[b.act]);
    }
    due.accepted.push(accepted);
  }

  #tick(): void {
    const now = this.#clock.now();
    for (const due of this.#dues.slice()) {
      while (due.head < due.accepted.length) {
        const accepted = due.accepted[due.head];
        if (accepted === undefined || accepted.acceptedAt + due.afterMs > now) break;
        due.head++;
        this.#act(due.act, accepted);
      }
      if (due.head > due.accepted.length / 2) {
        due.accepted = due.accepted.slice(due.head);
        due.head = 0;
      }
    }
  }

  #act(act: Act, accepted: Accepted): void {
    const { id, accountId, behaviour, answer } = accepted;
    const hint = { accountId, transactionId: id };
    switch (act) {
      case 'settle':
        for (let i = 0; i < behaviour.callbacks; i++) this.#onHint(hint);
        if (behaviour.reversedAfterMs === null) this.#remember(id);
        break;
      case 'reverse':
        this.#onHint(hint);
        this.#remember(id);
        break;
      case 'answer':
        accepted.answer = null;
        answer?.(ACCEPTED);
        break;
    }
  }

  #remember(id: string): void {
    this.#settled.push(id);
    if (this.#settled.length - this.#settledHead <= LIMITS.loopbackRememberedMax) return;
    const oldest = this.#settled[this.#settledHead++];
    if (oldest !== undefined) this.#accepted.delete(oldest);
    if (this.#settledHead > this.#settled.length / 2) {
      this.#settled = this.#settled.slice(this.#settledHead);
      this.#settledHead = 0;
    }
  }
}

const ACT_ORDER: Readonly<Record<Act, number>> = { settle: 0, reverse: 1, answer: 2 };

function terminal(transaction: PendingTransaction, behaviour: Behaviour, type: Terminal['type']): Terminal {
  const failed = type === 'failed';
  return {
    type,
    failureCode: failed ? behaviour.failureCode : null,
    failureMessage: failed ? `The network answered ${behaviour.word}.` : null,
    providerStatus: type === 'reversed' ? 'REVERSED' : behaviour.word,
    providerTransactionId: failed ? null : `LOOPBACK${bodyOf(transaction.id)}`,
    amount: failed ? null : transaction.amount,
    currency: failed ? null : transaction.currency,
    ourFault: failed && behaviour.ourFault,
  };
}
