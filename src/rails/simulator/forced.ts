// What a test makes the simulator do instead of what it would: an answer word for word, a hanging call, or an outcome.
// Each applies a number of times to the calls that match it. With none, a call costs one comparison.

import { LIMITS } from '../../limits.ts';
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
  /** Of the header: seconds or a date. */
  readonly retryAfter?: string;
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

/** What each field takes. A control comes from outside: one that is wrong is to fail, and not the call that it is for. */
type Fields<Forced> = { readonly [Name in keyof Required<Forced>]: (value: unknown) => boolean };

const isText = (value: unknown): boolean => typeof value === 'string';
const isHeader = (value: unknown): boolean => typeof value === 'string' && /^[\x20-\x7e]+$/.test(value);
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isWhole =
  (least: number, most: number) =>
  (value: unknown): boolean =>
    Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
const isOneOf =
  <Value>(...values: readonly Value[]) =>
  (value: unknown): boolean =>
    values.includes(value as Value);
const isProvider = isOneOf<Provider>('mtn', 'airtel');
const isTimes = isWhole(1, 1_000_000);

const ANSWER_FIELDS: Fields<ForcedAnswer> = {
  provider: isProvider,
  on: isOneOf<ForcedOn>('token', 'submit', 'enquiry', 'any'),
  msisdn: isText,
  status: isWhole(200, 599),
  contentType: isHeader,
  body: isText,
  retryAfter: isHeader,
  hang: isFlag,
  drop: isFlag,
  afterEffect: isFlag,
  times: isTimes,
};

const OUTCOME_FIELDS: Fields<ForcedOutcome> = {
  provider: isProvider,
  msisdn: isText,
  state: isOneOf<Payment['state']>('pending', 'succeeded', 'failed', 'expired', 'reversed'),
  code: isText,
  message: isText,
  settleAfterMs: isWhole(0, 86_400_000),
  callbacks: isWhole(0, 100),
  amount: isText,
  currency: isText,
  times: isTimes,
};

export class Forced {
  readonly #answers: ForcedAnswer[] = [];
  readonly #outcomes: ForcedOutcome[] = [];

  /** Null, or what is wrong with it. */
  addAnswer(body: Readonly<Record<string, unknown>>): string | null {
    return add(this.#answers, { times: 1, on: 'any', ...body }, ANSWER_FIELDS);
  }

  /** As above. */
  addOutcome(body: Readonly<Record<string, unknown>>): string | null {
    return add(this.#outcomes, { times: 1, msisdn: null, ...body }, OUTCOME_FIELDS);
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

function add<F>(list: F[], given: object, fields: Fields<F>): string | null {
  const known: Readonly<Record<string, (value: unknown) => boolean>> = fields;
  const wrong = Object.entries(given).find(
    ([name, value]) => !Object.hasOwn(known, name) || !known[name]!(value),
  );
  if (wrong !== undefined) return `${wrong[0]}: missing or wrong`;
  if (list.length >= LIMITS.simulatorForcedMax) return 'too many: DELETE /simulator/forced forgets them';
  list.push(given as F);
  return null;
}

export function asOutcome({ status, contentType, body, retryAfter, hang, drop }: ForcedAnswer): Outcome {
  if (hang === true) return 'hang';
  if (drop === true) return 'drop';
  const answer = { status: status ?? 200, contentType: contentType ?? 'application/json', body: body ?? '' };
  return retryAfter === undefined ? answer : { ...answer, retryAfter };
}

/** The number in a call's path, for forced answers to look-ups; null: none. */
export function numberInPath({ path }: Call): string | null {
  return /\/(\d{8,15})(?:\/|$)/.exec(path)?.[1] ?? null;
}
