// What the simulator does for a number, by its last two digits, on both networks. 50 to 64 as MTN's sandbox does for
// 467331234xx, 65 to 76 ours; every other number approves. The words are each network's own.
//
// Written from the public description of the sandbox and the design, not from the adapters: it shares nothing with them.

export type Direction = 'collect' | 'send';

export interface NetworkWord {
  readonly code: string;
  readonly message: string;
}

export interface NumberBehaviour {
  /** Shown on the page. */
  readonly name: string;
  /** How the submit is answered. 'unavailable' and 'html': so is every call about this number, nothing is accepted.
   *  'refused': at once, nothing is accepted. 'after_callback': the answer waits for the callback. */
  readonly answer:
    'accepted' | 'settled' | 'refused' | 'late' | 'dropped' | 'after_callback' | 'unavailable' | 'html';
  readonly outcome: 'succeeds' | 'fails' | 'expires' | 'never';
  /** From acceptance to the outcome; null: the server's approveAfterMs. */
  readonly settleAfterMs: number | null;
  readonly callbacks: number;
  /** From success to the network taking the money back; null: never. */
  readonly reversedAfterMs: number | null;
  /** Why, where it fails. */
  readonly mtn: NetworkWord;
  readonly airtel: NetworkWord;
}

const NO_WORD: NetworkWord = { code: '', message: '' };
const DELAYED_MS = 30_000;
const APPROVED_LATE_MS = 60_000;
/** How long after its success a payment is taken back. */
export const REVERSED_MS = 5_000;
/** How late an answer that is 'late' comes. */
export const ANSWERED_LATE_MS = 20_000;

const APPROVES: NumberBehaviour = {
  name: 'approves',
  answer: 'accepted',
  outcome: 'succeeds',
  settleAfterMs: null,
  callbacks: 1,
  reversedAfterMs: null,
  mtn: NO_WORD,
  airtel: NO_WORD,
};

function words(mtn: string, airtel: string, message: string): Pick<NumberBehaviour, 'mtn' | 'airtel'> {
  return { mtn: { code: mtn, message }, airtel: { code: airtel, message } };
}

function fails(name: string, mtn: string, airtel: string): NumberBehaviour {
  return { ...APPROVES, name, outcome: 'fails', ...words(mtn, airtel, name) };
}

function refused(name: string, mtn: string, airtel: string): NumberBehaviour {
  return { ...fails(name, mtn, airtel), answer: 'refused', callbacks: 0 };
}

const NEVER: NumberBehaviour = { ...APPROVES, name: 'stays pending', outcome: 'never', callbacks: 0 };

type Rows = Readonly<Record<number, NumberBehaviour>>;

// Airtel has no documented code for some rows. It then says the nearest of the other operation (51, 76), one that is in
// no list (50 and internal errors), or answers as a gateway would (configuration: ROUTER…).
const BOTH: Rows = {
  50: fails('failed', 'INTERNAL_PROCESSING_ERROR', 'DP00800001099'),
  51: fails('rejected by the customer', 'APPROVAL_REJECTED', 'DP00800001002'),
  52: { ...fails('expired', 'EXPIRED', 'DP00800001029'), outcome: 'expires' },
  53: { ...NEVER, name: 'ongoing' },
  54: { ...APPROVES, name: 'delayed', settleAfterMs: DELAYED_MS },
  65: { ...NEVER, name: 'silence' },
  66: { ...APPROVES, name: 'approves, callback three times', callbacks: 3 },
  67: { ...APPROVES, name: 'approves late, callback lost', settleAfterMs: APPROVED_LATE_MS, callbacks: 0 },
  68: { ...APPROVES, name: 'settles in the answer', answer: 'settled', callbacks: 0 },
  69: { ...APPROVES, name: 'answers late', answer: 'late' },
  71: { ...APPROVES, name: 'callback before the answer', answer: 'after_callback' },
  72: { ...APPROVES, name: 'drops the connection', answer: 'dropped' },
  73: { ...NEVER, name: '503', answer: 'unavailable' },
  74: { ...NEVER, name: 'an HTML page', answer: 'html' },
  76: fails('handset unreachable', 'HANDSET_UNREACHABLE', 'DP00800001005'),
};

const COLLECT: Rows = {
  ...BOTH,
  55: fails('payer not found', 'PAYER_NOT_FOUND', 'DP02200000002'),
  56: fails('payee not allowed to receive', 'PAYEE_NOT_ALLOWED_TO_RECEIVE', 'DP00800001008'),
  57: refused('not allowed', 'NOT_ALLOWED', 'ROUTER007'),
  58: refused('not allowed target environment', 'NOT_ALLOWED_TARGET_ENVIRONMENT', 'ROUTER005'),
  59: refused('invalid callback host', 'INVALID_CALLBACK_URL_HOST', 'ROUTER003'),
  60: refused('invalid currency', 'INVALID_CURRENCY', 'ROUTER112'),
  61: fails('internal processing error', 'INTERNAL_PROCESSING_ERROR', 'DP00800001098'),
  62: fails('service unavailable', 'SERVICE_UNAVAILABLE', 'ESB000503'),
  63: fails('could not perform transaction', 'COULD_NOT_PERFORM_TRANSACTION', 'DP00800001029'),
  64: fails('not enough funds', 'NOT_ENOUGH_FUNDS', 'DP00800001007'),
  70: { ...APPROVES, name: 'approves, then reversed', reversedAfterMs: REVERSED_MS },
  75: fails('wallet inactive', 'SENDER_ACCOUNT_NOT_ACTIVE', 'DP00800001010'),
};

const SEND: Rows = {
  ...BOTH,
  55: fails('not enough funds in the float', 'NOT_ENOUGH_FUNDS', 'DP00900001007'),
  56: fails('payer limit reached', 'PAYER_LIMIT_REACHED', 'DP00900001010'),
  57: fails('payee not found', 'PAYEE_NOT_FOUND', 'DP02200000002'),
  58: refused('not allowed', 'NOT_ALLOWED', 'ROUTER007'),
  59: refused('not allowed target environment', 'NOT_ALLOWED_TARGET_ENVIRONMENT', 'ROUTER005'),
  60: refused('invalid callback host', 'INVALID_CALLBACK_URL_HOST', 'ROUTER003'),
  61: refused('invalid currency', 'INVALID_CURRENCY', 'ROUTER112'),
  62: fails('internal processing error', 'INTERNAL_PROCESSING_ERROR', 'DP00900001098'),
  63: fails('service unavailable', 'SERVICE_UNAVAILABLE', 'ESB000503'),
  64: fails('wallet limit of the payee reached', 'PAYEE_LIMIT_REACHED', 'DP00900001003'),
  75: fails('wallet inactive', 'PAYEE_NOT_ALLOWED_TO_RECEIVE', 'DP00900001009'),
};

const TABLES = { collect: COLLECT, send: SEND };

export function behaviourOfNumber(msisdn: string, direction: Direction): NumberBehaviour {
  return TABLES[direction][Number(msisdn.slice(-2))] ?? APPROVES;
}
