// From the provider's word to our failure code: one table per provider. Decided here and nowhere else.
//
// In a collect the payee is our till, in a send the payer is our float: trouble there is ours, never the customer's, so
// it is `provider_rejected`, and operators are alerted. A word that is in no table is `unknown`.

import type { FailureCode } from '../domain/transaction.ts';
import type { Direction } from './rail.ts';

type Row = readonly [collect: FailureCode, send: FailureCode];

function both(code: FailureCode): Row {
  return [code, code];
}

/** A map, not an object: a provider may say "constructor". */
function tableOf(rows: Readonly<Record<string, Row>>): ReadonlyMap<string, Row> {
  return new Map(Object.entries(rows));
}

/** In the case of the tables: a status word is the same in any, and so is the code beside it. */
function asListed(code: string): string {
  return code.toUpperCase();
}

// --- MTN ---------------------------------------------------------------------------------------------------------------

const MTN = tableOf({
  NOT_ENOUGH_FUNDS: ['insufficient_funds', 'provider_rejected'],
  LOW_BALANCE_OR_PAYEE_LIMIT_REACHED_OR_NOT_ALLOWED: ['insufficient_funds', 'provider_rejected'],
  APPROVAL_REJECTED: both('customer_declined'),
  REJECTED: both('customer_declined'),
  PAYMENT_NOT_APPROVED: both('customer_declined'),
  PAYER_NOT_FOUND: ['wallet_not_found', 'provider_rejected'],
  PAYEE_NOT_FOUND: ['provider_rejected', 'wallet_not_found'],
  PAYER_LIMIT_REACHED: ['wallet_limit_exceeded', 'provider_rejected'],
  PAYEE_LIMIT_REACHED: ['provider_rejected', 'wallet_limit_exceeded'],
  PAYEE_NOT_ALLOWED_TO_RECEIVE: ['provider_rejected', 'wallet_inactive'],
  SENDER_ACCOUNT_NOT_ACTIVE: ['wallet_inactive', 'provider_rejected'],
  EXPIRED: both('expired'),
  COULD_NOT_PERFORM_TRANSACTION: ['expired', 'unknown'],
  NOT_ALLOWED: both('provider_rejected'),
  NOT_ALLOWED_TARGET_ENVIRONMENT: both('provider_rejected'),
  INVALID_CALLBACK_URL_HOST: both('provider_rejected'),
  INVALID_CURRENCY: both('provider_rejected'),
  VALIDATION_ERROR: both('provider_rejected'),
  SERVICE_UNAVAILABLE: both('provider_unavailable'),
  INTERNAL_PROCESSING_ERROR: both('unknown'),
  TRANSACTION_CANCELED: both('unknown'),
  RESOURCE_NOT_FOUND: both('unknown'),
  TRANSACTION_NOT_FOUND: both('unknown'),
  RESOURCE_ALREADY_EXIST: both('unknown'),
  // The simulator's: MTN documents no word for it.
  HANDSET_UNREACHABLE: both('customer_unreachable'),
});

/** Configuration errors that MTN dresses as HTTP 500: they stop at once. Any other 5xx means "enquire". */
const MTN_CONFIGURATION: ReadonlySet<string> = new Set([
  'NOT_ALLOWED',
  'NOT_ALLOWED_TARGET_ENVIRONMENT',
  'INVALID_CURRENCY',
  'INVALID_CALLBACK_URL_HOST',
]);

export function isMtnConfigurationCode(code: string): boolean {
  return MTN_CONFIGURATION.has(asListed(code));
}

export function mtnFailure(code: string, message: string | null, direction: Direction): FailureCode {
  const known = asListed(code);
  if (known === 'VALIDATION_ERROR' && isAboutNumber(message)) return 'invalid_msisdn';
  const row = MTN.get(known);
  if (row !== undefined) return ofDirection(row, direction);
  return /^(?:NOT_ALLOWED|INVALID)_/.test(known) ? 'provider_rejected' : 'unknown';
}

/** What a submit that was refused with `code` fails with. Null: MTN may have taken it nonetheless, or the code is in no
 *  table. */
export function mtnRefusal(code: string, message: string | null, direction: Direction): FailureCode | null {
  const failure = mtnFailure(code, message, direction);
  return isVague(failure) ? null : failure;
}

/** Listed, and nothing that says that MTN did not take it. */
export function isMtnAmbiguous(code: string, direction: Direction): boolean {
  const row = MTN.get(asListed(code));
  return row !== undefined && isVague(ofDirection(row, direction));
}

/** No reason why the submit that it answers was not taken: enquire. */
export function isVague(failure: FailureCode): boolean {
  return failure === 'unknown' || failure === 'provider_unavailable';
}

/** MTN has it already: its fate is that of the first one. */
export function isMtnDuplicate(code: string): boolean {
  return asListed(code) === 'RESOURCE_ALREADY_EXIST';
}

/** MTN does not know the reference. Once the grace is over, that means it never accepted it. */
export function isMtnNotFound(code: string | null): boolean {
  const known = asListed(code ?? '');
  return known === 'RESOURCE_NOT_FOUND' || known === 'TRANSACTION_NOT_FOUND';
}

function isAboutNumber(message: string | null): boolean {
  return message !== null && /msisdn|party_?id|phone|number/i.test(message);
}

// --- Airtel ------------------------------------------------------------------------------------------------------------

const COLLECTION = 'DP00800001';
const DISBURSEMENT = 'DP00900001';

const AIRTEL = tableOf({
  [`${COLLECTION}002`]: both('customer_declined'),
  [`${COLLECTION}003`]: both('wallet_limit_exceeded'),
  [`${COLLECTION}004`]: both('provider_rejected'),
  [`${COLLECTION}005`]: both('customer_unreachable'),
  [`${COLLECTION}007`]: both('insufficient_funds'),
  [`${COLLECTION}008`]: both('provider_rejected'),
  [`${COLLECTION}009`]: both('provider_rejected'),
  [`${COLLECTION}010`]: both('wallet_inactive'),
  // Terminal only in the answer to an enquiry, as is ESB000503: isAirtelAmbiguous.
  [`${COLLECTION}024`]: both('expired'),
  [`${COLLECTION}026`]: both('provider_rejected'),
  [`${COLLECTION}029`]: both('expired'),
  [`${DISBURSEMENT}003`]: both('wallet_limit_exceeded'),
  [`${DISBURSEMENT}004`]: both('provider_rejected'),
  [`${DISBURSEMENT}005`]: both('provider_rejected'),
  [`${DISBURSEMENT}007`]: both('provider_rejected'),
  [`${DISBURSEMENT}009`]: both('wallet_inactive'),
  [`${DISBURSEMENT}010`]: both('provider_rejected'),
  [`${DISBURSEMENT}012`]: both('invalid_msisdn'),
  [`${DISBURSEMENT}013`]: both('provider_rejected'),
  [`${DISBURSEMENT}016`]: both('provider_rejected'),
  DP02200000002: both('wallet_not_found'),
  ESB000033: both('invalid_msisdn'),
  ESB000036: both('invalid_msisdn'),
  ROUTER001: both('provider_rejected'),
  ROUTER002: both('provider_rejected'),
  ROUTER003: both('provider_rejected'),
  ROUTER004: both('provider_rejected'),
  ROUTER005: both('provider_rejected'),
  ROUTER006: both('provider_rejected'),
  ROUTER007: both('provider_rejected'),
  ROUTER112: both('provider_rejected'),
  ROUTER114: both('provider_rejected'),
  // A wrong PIN: the customer's on a collect, ours on a send.
  ROUTER115: ['customer_declined', 'provider_rejected'],
  ROUTER116: both('provider_rejected'),
  ROUTER119: both('provider_rejected'),
  // The simulator's: Airtel documents no final word for it.
  ESB000503: both('provider_unavailable'),
});

const AIRTEL_AMBIGUOUS: ReadonlySet<string> = new Set([
  ...['000', '006', '025'].map((end) => COLLECTION + end),
  ...['000', '006', '011', '014', '015', '017'].map((end) => DISBURSEMENT + end),
  ...['01', '04', '08', '14', '41', '45'].map((end) => `ESB0000${end}`),
  '0000900',
  'ROUTER117',
]);

/** Final in the answer to an enquiry that says it failed; ambiguous as the answer to a submit. */
const AIRTEL_FINAL_WHEN_ENQUIRED: ReadonlySet<string> = new Set([`${COLLECTION}024`, 'ESB000503']);

/** Codes that say nothing final: enquire. */
export function isAirtelAmbiguous(code: string, asked: 'submit' | 'enquiry'): boolean {
  const known = asListed(code);
  if (AIRTEL_FINAL_WHEN_ENQUIRED.has(known)) return asked === 'submit';
  return AIRTEL_AMBIGUOUS.has(known);
}

/** What Airtel says of a collection that it has accepted: in the answer to an enquiry also when that was paid since. */
export function isAirtelAccepted(code: string): boolean {
  return asListed(code) === `${COLLECTION}006`;
}

/** Airtel does not know the id. Once the grace is over, that means it never accepted it. */
export function isAirtelNotFound(code: string): boolean {
  const known = asListed(code);
  return known === `${COLLECTION}025` || known === `${DISBURSEMENT}015`;
}

/** Airtel has this id already: its fate is that of the first one. Not 011, "a transaction with similar information exists":
 *  that one may have another id. */
export function isAirtelDuplicate(code: string): boolean {
  return asListed(code) === `${DISBURSEMENT}017`;
}

/** Null: the code is in no table. */
export function airtelFailure(code: string, direction: Direction): FailureCode | null {
  const row = AIRTEL.get(asListed(code));
  return row === undefined ? null : ofDirection(row, direction);
}

function ofDirection([collect, send]: Row, direction: Direction): FailureCode {
  return direction === 'collect' ? collect : send;
}
