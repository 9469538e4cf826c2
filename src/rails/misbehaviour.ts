// What the numbers that misbehave do, by the last two digits of the msisdn: 50 to 64 as MTN's sandbox does for
// 467331234xx, 65 to 76 ours (README.md, The simulator). Pure data, the same for ever: merchants test against it.
//
// Words are MTN's; what each means to us is beside it, because loopback has no adapter in between.

import type { FailureCode } from '../domain/transaction.ts';
import type { Direction } from './rail.ts';

export interface Behaviour {
  /** How the submit is answered. 'accepted' at once; 'settled' at once, with the outcome; 'refused' at once;
   *  'late' `answerAfterMs` later; 'dropped': accepted, but the connection breaks; 'unavailable' (503) and 'html':
   *  so is every call, and nothing is accepted. */
  readonly answer: 'accepted' | 'settled' | 'refused' | 'late' | 'dropped' | 'unavailable' | 'html';
  /** With answer 'late'; null: `approveAfterMs`. */
  readonly answerAfterMs: number | null;
  readonly outcome: 'succeeds' | 'fails' | 'never';
  /** From acceptance to the outcome; null: `approveAfterMs`. With `answerAfterMs`: from the answer. */
  readonly settleAfterMs: number | null;
  readonly callbacks: number;
  /** From success to the network taking the money back, with one more callback; null: never. */
  readonly reversedAfterMs: number | null;
  /** The provider's word for the outcome. */
  readonly word: string;
  readonly failureCode: FailureCode | null;
  readonly ourFault: boolean;
}

const APPROVES: Behaviour = {
  answer: 'accepted',
  answerAfterMs: null,
  outcome: 'succeeds',
  settleAfterMs: null,
  callbacks: 1,
  reversedAfterMs: null,
  word: 'SUCCESSFUL',
  failureCode: null,
  ourFault: false,
};

const NEVER: Behaviour = { ...APPROVES, outcome: 'never', callbacks: 0, word: 'PENDING' };
const DELAYED_MS = 30_000;
const ANSWERED_LATE_MS = 20_000;

/** Accepted, then failed with a callback. */
function fails(word: string, failureCode: FailureCode): Behaviour {
  return { ...APPROVES, outcome: 'fails', word, failureCode };
}

/** Fails because of our configuration or our float. */
function failsByUs(word: string): Behaviour {
  return { ...fails(word, 'provider_rejected'), ourFault: true };
}

/** As `failsByUs`, in the answer to the submit. */
function refused(word: string): Behaviour {
  return { ...failsByUs(word), answer: 'refused', callbacks: 0 };
}

type Rows = Readonly<Record<number, Behaviour>>;

const BOTH: Rows = {
  50: fails('INTERNAL_PROCESSING_ERROR', 'unknown'),
  51: fails('APPROVAL_REJECTED', 'customer_declined'),
  52: fails('EXPIRED', 'expired'),
  53: NEVER,
  54: { ...APPROVES, settleAfterMs: DELAYED_MS },
  65: NEVER,
  66: { ...APPROVES, callbacks: 3 },
  67: { ...APPROVES, settleAfterMs: 60_000, callbacks: 0 },
  68: { ...APPROVES, answer: 'settled', callbacks: 0 },
  69: { ...APPROVES, answer: 'late', answerAfterMs: ANSWERED_LATE_MS },
  71: { ...APPROVES, answer: 'late' },
  72: { ...APPROVES, answer: 'dropped' },
  73: { ...NEVER, answer: 'unavailable', word: '503' },
  74: { ...NEVER, answer: 'html', word: 'HTML' },
  76: fails('HANDSET_UNREACHABLE', 'customer_unreachable'),
};

const COLLECT: Rows = {
  ...BOTH,
  55: fails('PAYER_NOT_FOUND', 'wallet_not_found'),
  56: failsByUs('PAYEE_NOT_ALLOWED_TO_RECEIVE'),
  57: refused('NOT_ALLOWED'),
  58: refused('NOT_ALLOWED_TARGET_ENVIRONMENT'),
  59: refused('INVALID_CALLBACK_URL_HOST'),
  60: refused('INVALID_CURRENCY'),
  61: fails('INTERNAL_PROCESSING_ERROR', 'unknown'),
  62: fails('SERVICE_UNAVAILABLE', 'provider_unavailable'),
  63: fails('COULD_NOT_PERFORM_TRANSACTION', 'expired'),
  64: fails('NOT_ENOUGH_FUNDS', 'insufficient_funds'),
  70: { ...APPROVES, reversedAfterMs: 5_000 },
  75: fails('SENDER_ACCOUNT_NOT_ACTIVE', 'wallet_inactive'),
};

const SEND: Rows = {
  ...BOTH,
  55: failsByUs('NOT_ENOUGH_FUNDS'),
  56: failsByUs('PAYER_LIMIT_REACHED'),
  57: fails('PAYEE_NOT_FOUND', 'wallet_not_found'),
  58: refused('NOT_ALLOWED'),
  59: refused('NOT_ALLOWED_TARGET_ENVIRONMENT'),
  60: refused('INVALID_CALLBACK_URL_HOST'),
  61: refused('INVALID_CURRENCY'),
  62: fails('INTERNAL_PROCESSING_ERROR', 'unknown'),
  63: fails('SERVICE_UNAVAILABLE', 'provider_unavailable'),
  64: fails('PAYEE_LIMIT_REACHED', 'wallet_limit_exceeded'),
  // Only what came in can be clawed back: a payout simply succeeds.
  70: APPROVES,
  75: fails('PAYEE_NOT_ALLOWED_TO_RECEIVE', 'wallet_inactive'),
};

const BY_DIGITS = { collect: byDigits(COLLECT), send: byDigits(SEND) };

/** `msisdn`: digits, at least two. */
export function behaviourOf(msisdn: string, direction: Direction): Behaviour {
  const { length } = msisdn;
  const digits = (msisdn.charCodeAt(length - 2) - 48) * 10 + (msisdn.charCodeAt(length - 1) - 48);
  return BY_DIGITS[direction][digits] ?? APPROVES;
}

function byDigits(rows: Rows): readonly Behaviour[] {
  return Array.from({ length: 100 }, (_, digits) => rows[digits] ?? APPROVES);
}
