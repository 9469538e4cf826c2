// What a test makes the simulator do instead of what it would: an answer word for word, a hanging call, or an outcome.
// Each applies a number of times to the calls that match it. With none, a call costs one comparison.

import type { Call, Outcome } from './call.ts';
import type { Payment, Provider } from './payment.ts';

export type ForcedOn = 'token' | 'submit' | 'enquiry' | 'any';

export interface ForcedAnswer {
  readonly provider?: Provider;
  readonly on: ForcedOn;
  /** Digits the number ends in; absent: any, or a call without a number. */
  readonly msisdn?: string;
  readonly status?: number;
  readonly contentType?: string;
  readonly body?: string;
  readonly hang?: boolean;
  readonly drop?: boolean;
  /** True: the call has its effect, and only its answer is replaced. */
  readonly afterEffect?: boolean;
  times: number;
}

export interface ForcedOutcome {
  readonly provider?: Provider;
  readonly msisdn: string;
  readonly state?: Payment['state'];
  readonly code?: string;
  readonly message?: string;
  readonly settleAfterMs?: number;
  readonly callbacks?: number;
  /** Major units and currency that the network says were moved. */
  readonly amount?: string;
  readonly currency?: string;
  times: number;
}

export class Forced {
  readonly #answers: ForcedAnswer[] = [];
  readonly #outcomes: ForcedOutcome[] = [];

  addAnswer(answer: ForcedAnswer): void {
    this.#answers.push(answer);
  }

  addOutcome(outcome: ForcedOutcome): void {
    this.#outcomes.push(outcome);
  }

  clear(): void {
    this.#answers.length = 0;
    this.#outcomes.length = 0;
  }

  /** The answer forced on this call, used up by one; null: none. */
  answerTo(provider: Provider, on: ForcedOn, msisdn: string | null): ForcedAnswer | null {
    if (this.#answers.length === 0) return null;
    const index = this.#answers.findIndex(
      (answer) =>
        (answer.provider === undefined || answer.provider === provider) &&
        (answer.on === 'any' || answer.on === on) &&
        (answer.msisdn === undefined || (msisdn?.endsWith(answer.msisdn) ?? false)),
    );
    return this.#use(this.#answers, index);
  }

  outcomeOf(provider: Provider, msisdn: string): ForcedOutcome | null {
    if (this.#outcomes.length === 0) return null;
    const index = this.#outcomes.findIndex(
      (outcome) =>
        (outcome.provider === undefined || outcome.provider === provider) && msisdn.endsWith(outcome.msisdn),
    );
    return this.#use(this.#outcomes, index);
  }

  #use<F extends { times: number }>(list: F[], index: number): F | null {
    const found = list[index];
    if (found === undefined) return null;
    found.times--;
    if (found.times <= 0) list.splice(index, 1);
    return found;
  }
}

export function asOutcome({ status, contentType, body, hang, drop }: ForcedAnswer): Outcome {
  if (hang === true) return 'hang';
  if (drop === true) return 'drop';
  return { status: status ?? 200, contentType: contentType ?? 'application/json', body: body ?? '' };
}

/** The number in a call's path, for forced answers to look-ups; null: none. */
export function numberInPath({ path }: Call): string | null {
  return /\/(\d{8,15})(?:\/|$)/.exec(path)?.[1] ?? null;
}
