// The network behind both protocols: payments, tills, customers who approve, and what the numbers that misbehave do.
// The protocols parse and answer; what happens, and when, is decided here.
//
// Invariants: a reference is accepted once per till and kind; a payment moves from pending to one final state, and only
// from succeeded to reversed; a till's balance is its start plus what succeeded; finished payments beyond
// LIMITS.simulatorFinishedMax are forgotten, oldest first, and so are those that stay pending for ever, where
// LIMITS.simulatorPendingMax would keep a new one out.

import { LIMITS } from '../../limits.ts';
import { type Outcome, FIREWALL_PAGE, json, type Respond } from './call.ts';
import { asOutcome, type ForcedOutcome, Forced } from './forced.ts';
import { ANSWERED_LATE_MS, behaviourOfNumber, type NumberBehaviour, REVERSED_MS } from './number-table.ts';
import {
  type Kind,
  parseHundredths,
  type Payment,
  type Provider,
  type Submission,
  type Till,
} from './payment.ts';
import { Schedule } from './schedule.ts';

export interface NetworkOptions {
  readonly approveAfterMs: number;
  /** How many times faster than real the times of the number table pass (delays of 5, 20, 30, 60 s). */
  readonly speed: number;
}

/** Sends the callback of a payment as its protocol has it; `onDone` after it was answered. */
export type SendCallback = (payment: Payment, onDone: (() => void) | null) => void;

export interface SubmitAnswers {
  /** Also for a payment that is settled by then. */
  readonly accepted: (payment: Payment) => Outcome;
  readonly refused: (payment: Payment) => Outcome;
  readonly full: () => Outcome;
}

export class Network {
  readonly forced = new Forced();
  readonly approveAfterMs: number;
  readonly #speed: number;
  readonly #schedule = new Schedule();
  readonly #senders = new Map<Provider, SendCallback>();
  readonly #payments = new Map<string, Payment>();
  readonly #byNumber = new Map<number, Payment>();
  /** Pending for ever, but for a person who settles one; in the order they were made. */
  readonly #silent = new Set<Payment>();
  /** In the order they finished, a ring. */
  readonly #finished: (Payment | undefined)[] = [];
  #finishedAt = 0;
  #nextNumber = 1;
  #pending = 0;

  constructor({ approveAfterMs, speed }: NetworkOptions) {
    this.approveAfterMs = approveAfterMs;
    this.#speed = speed;
  }

  onCallback(provider: Provider, send: SendCallback): void {
    this.#senders.set(provider, send);
  }

  find(till: Till, kind: Kind, reference: string): Payment | undefined {
    return this.#payments.get(keyOf(till, kind, reference));
  }

  /** Accepts it, or does not, as its number says, and answers when its number says. */
  submit(submission: Submission, answers: SubmitAnswers, respond: Respond): void {
    const { provider, kind, msisdn } = submission;
    const forced = this.forced.answerTo(provider, 'submit', msisdn);
    if (forced !== null && forced.afterEffect !== true) {
      respond(asOutcome(forced));
      return;
    }
    if (this.#pending >= LIMITS.simulatorPendingMax && !this.#forgetSilent()) {
      respond(answers.full());
      return;
    }
    const direction = kind === 'send' ? 'send' : 'collect';
    const outcome = this.forced.outcomeOf(provider, msisdn);
    const behaviour = withForced(behaviourOfNumber(msisdn, direction), outcome, provider);
    const payment = this.#add(submission, behaviour, outcome);
    if (forced === null) this.#answer(payment, answers, respond);
    else this.#answer(payment, answers, () => respond(asOutcome(forced)));
  }

  /** What is said of every call about this number, whatever it asks; null: nothing special. */
  outageOf(payment: Payment): Outcome | null {
    return outageAnswer(payment.behaviour);
  }

  settle(payment: Payment, state: 'succeeded' | 'failed' | 'expired', reason: Payment['reason']): boolean {
    if (payment.state !== 'pending' || !payment.accepted) return false;
    const { till, kind } = payment;
    if (state === 'succeeded') {
      if (kind === 'send' && till.balance < payment.amount) {
        return this.settle(payment, 'failed', outOfFloat(payment));
      }
      till.balance += kind === 'collect' ? payment.amount : -payment.amount;
      payment.moneyId = moneyId(payment);
    }
    payment.state = state;
    payment.reason = reason;
    payment.finishedAt = Date.now();
    this.#pending--;
    this.#silent.delete(payment);
    this.#retire(payment);
    return true;
  }

  /** A person, or the network, takes the money back. */
  reverse(payment: Payment): boolean {
    if (payment.state !== 'succeeded') return false;
    payment.state = 'reversed';
    payment.reversedAt = Date.now();
    payment.till.balance += payment.kind === 'collect' ? -payment.amount : payment.amount;
    return true;
  }

  sendCallback(payment: Payment, onDone: (() => void) | null = null): void {
    const send = this.#senders.get(payment.provider);
    if (send === undefined) onDone?.();
    else send(payment, onDone);
  }

  byNumber(number: number): Payment | undefined {
    return this.#byNumber.get(number);
  }

  /** Newest first. */
  *newest(): Generator<Payment> {
    for (let number = this.#nextNumber - 1; number > 0; number--) {
      const payment = this.#byNumber.get(number);
      if (payment !== undefined) yield payment;
      else if (number < this.#nextNumber - LIMITS.simulatorFinishedMax - LIMITS.simulatorPendingMax) return;
    }
  }

  /** In the order they were made. */
  all(): IterableIterator<Payment> {
    return this.#byNumber.values();
  }

  counts(): { pending: number; kept: number; submitted: number } {
    return { pending: this.#pending, kept: this.#byNumber.size, submitted: this.#nextNumber - 1 };
  }

  close(): void {
    this.#schedule.close();
  }

  // --- Submit ----------------------------------------------------------------------------------------------------------

  #add(submission: Submission, behaviour: NumberBehaviour, forced: ForcedOutcome | null): Payment {
    const { answer } = behaviour;
    const accepted = answer !== 'unavailable' && answer !== 'html' && answer !== 'refused';
    const { amount, currency } = forced ?? {};
    const payment: Payment = {
      ...submission,
      number: this.#nextNumber++,
      createdAt: Date.now(),
      behaviour,
      accepted,
      state: 'pending',
      reason: null,
      moneyId: null,
      finishedAt: null,
      reversedAt: null,
      amountMoved: amount === undefined ? null : parseHundredths(amount),
      currencyMoved: currency ?? null,
    };
    this.#byNumber.set(payment.number, payment);
    if (answer === 'refused') {
      payment.state = 'failed';
      payment.reason = wordFor(payment);
    } else {
      this.#payments.set(keyOf(payment.till, payment.kind, payment.reference), payment);
    }
    if (accepted) {
      this.#pending++;
      this.#plan(payment);
    } else {
      this.#retire(payment);
    }
    return payment;
  }

  #answer(payment: Payment, answers: SubmitAnswers, respond: Respond): void {
    switch (payment.behaviour.answer) {
      case 'accepted':
      case 'settled':
        respond(answers.accepted(payment));
        break;
      case 'refused':
        respond(answers.refused(payment));
        break;
      case 'late':
        this.#schedule.after(this.#tableMs(ANSWERED_LATE_MS), () => respond(answers.accepted(payment)));
        break;
      case 'dropped':
        respond('drop');
        break;
      case 'after_callback':
        this.#settleAsPlanned(payment);
        this.sendCallback(payment, () => respond(answers.accepted(payment)));
        break;
      case 'unavailable':
      case 'html':
        respond(outageAnswer(payment.behaviour) ?? answers.full());
        break;
    }
  }

  /** Plans the outcome and its callbacks. */
  #plan(payment: Payment): void {
    const { answer, outcome, settleAfterMs, callbacks, reversedAfterMs } = payment.behaviour;
    if (outcome === 'never') {
      this.#silent.add(payment);
      return;
    }
    if (answer === 'after_callback') return;
    if (answer === 'settled') {
      this.#settleAsPlanned(payment);
      return;
    }
    const lateMs = answer === 'late' ? this.#tableMs(ANSWERED_LATE_MS) : 0;
    const afterMs = settleAfterMs === null ? this.approveAfterMs : this.#tableMs(settleAfterMs);
    this.#schedule.after(lateMs + afterMs, () => {
      if (!this.#settleAsPlanned(payment)) return;
      for (let i = 0; i < callbacks; i++) this.sendCallback(payment);
      if (reversedAfterMs === null) return;
      this.#schedule.after(this.#tableMs(reversedAfterMs), () => {
        if (this.reverse(payment)) this.sendCallback(payment);
      });
    });
  }

  #settleAsPlanned(payment: Payment): boolean {
    switch (payment.behaviour.outcome) {
      case 'succeeds':
        return this.settle(payment, 'succeeded', null);
      case 'fails':
        return this.settle(payment, 'failed', wordFor(payment));
      case 'expires':
        return this.settle(payment, 'expired', wordFor(payment));
      case 'never':
        return false;
    }
  }

  #tableMs(ms: number): number {
    return ms / this.#speed;
  }

  #retire(payment: Payment): void {
    const oldest = this.#finished[this.#finishedAt];
    if (oldest !== undefined) this.#forget(oldest);
    this.#finished[this.#finishedAt] = payment;
    this.#finishedAt = (this.#finishedAt + 1) % LIMITS.simulatorFinishedMax;
  }

  /** The oldest of those that nothing would ever end. False: there is none. */
  #forgetSilent(): boolean {
    for (const oldest of this.#silent) {
      this.#silent.delete(oldest);
      this.#pending--;
      this.#forget(oldest);
      return true;
    }
    return false;
  }

  #forget(payment: Payment): void {
    this.#byNumber.delete(payment.number);
    const key = keyOf(payment.till, payment.kind, payment.reference);
    if (this.#payments.get(key) === payment) this.#payments.delete(key);
  }
}

function keyOf(till: Till, kind: Kind, reference: string): string {
  return `${till.id}\n${kind}\n${reference}`;
}

function wordFor({ provider, behaviour }: Payment): { code: string; message: string } {
  return provider === 'mtn' ? behaviour.mtn : behaviour.airtel;
}

function outOfFloat({ provider }: Payment): { code: string; message: string } {
  const code = provider === 'mtn' ? 'NOT_ENOUGH_FUNDS' : 'DP00900001007';
  return { code, message: 'not enough funds' };
}

function outageAnswer({ answer }: NumberBehaviour): Outcome | null {
  if (answer === 'html') return FIREWALL_PAGE;
  if (answer === 'unavailable') return json(503, { statusCode: 503, message: 'Service Unavailable' });
  return null;
}

function withForced(
  behaviour: NumberBehaviour,
  forced: ForcedOutcome | null,
  provider: Provider,
): NumberBehaviour {
  if (forced === null) return behaviour;
  const { state, code, message, settleAfterMs, callbacks } = forced;
  const word = { code: code ?? '', message: message ?? '' };
  return {
    ...behaviour,
    name: 'forced by a test',
    outcome: state === undefined ? behaviour.outcome : OUTCOMES[state],
    settleAfterMs: settleAfterMs ?? behaviour.settleAfterMs,
    callbacks: callbacks ?? behaviour.callbacks,
    reversedAfterMs: state === 'reversed' ? REVERSED_MS : behaviour.reversedAfterMs,
    [provider]: code === undefined ? behaviour[provider] : word,
  };
}

const OUTCOMES = {
  pending: 'never',
  succeeded: 'succeeds',
  failed: 'fails',
  expired: 'expires',
  reversed: 'succeeds',
} as const satisfies Record<Payment['state'], NumberBehaviour['outcome']>;

/** Letters, digits and dots, as the networks' own ids are. */
function moneyId({ provider, number, createdAt }: Payment): string {
  const day = new Date(createdAt).toISOString().slice(2, 10).replaceAll('-', '');
  return provider === 'mtn' ? `${day}${number}` : `CI${day}.${number}`;
}

/** True when the amount, in hundredths, has more decimals than the till takes. */
export function tooPrecise(amount: number, { amountDecimals }: Till): boolean {
  return amount % 10 ** (2 - amountDecimals) !== 0;
}
