// The one table of error codes: HTTP status, what it means, how to mend it. The README, the OpenAPI document and
// the tests are proved against it; nothing else in the product spells a status for a code.

interface ErrorFacts {
  readonly status: number;
  readonly meaning: string;
  readonly mend: string;
}

export const ERROR_CODES = {
  invalid_json: {
    status: 400,
    meaning: 'The body is not a JSON object.',
    mend: 'Send a JSON object encoded as UTF-8.',
  },
  validation_failed: {
    status: 400,
    meaning: 'A field is missing, unknown or outside its rules; `param` names it.',
    mend: 'Correct the field that `param` names.',
  },
  unknown_parameter: {
    status: 400,
    meaning: 'The query has a parameter that this list does not take.',
    mend: 'Remove the parameter that `param` names.',
  },
  invalid_cursor: {
    status: 400,
    meaning: '`starting_after` is not a cursor of this list.',
    mend: 'Pass the `next_cursor` of the previous page unchanged.',
  },
  idempotency_key_required: {
    status: 400,
    meaning: 'The create call has no Idempotency-Key header with a printable ASCII character in it.',
    mend: 'Send a new unique Idempotency-Key for each object you mean to create.',
  },
  idempotency_key_invalid: {
    status: 400,
    meaning: 'The Idempotency-Key is not 8 to 255 characters.',
    mend: 'Use a UUID, for instance.',
  },
  idempotency_key_reused: {
    status: 422,
    meaning: 'The Idempotency-Key was used with another body or endpoint.',
    mend: 'Use a new key for a new request; repeat the same body to get the first answer again.',
  },
  authentication_required: {
    status: 401,
    meaning: 'There is no bearer key.',
    mend: 'Send `Authorization: Bearer sk_live_…`.',
  },
  invalid_api_key: {
    status: 401,
    meaning: 'The key is unknown or its app was removed.',
    mend: 'Use the secret key of a connected app.',
  },
  secret_key_required: {
    status: 403,
    meaning: 'A publishable key was used.',
    mend: 'Use the secret key (`sk_live_…`), from a server only.',
  },
  live_mode_not_enabled: {
    status: 403,
    meaning: 'Live payments are not switched on for the account.',
    mend: 'Wait for business verification, or ask the operator.',
  },
  payouts_not_enabled_live: {
    status: 403,
    meaning: 'Payouts are not switched on for the account.',
    mend: 'Ask the operator to enable payouts.',
  },
  withdrawals_not_enabled_live: {
    status: 403,
    meaning: 'Withdrawals are not switched on for the account.',
    mend: 'Ask the operator to enable withdrawals.',
  },
  not_permitted: {
    status: 403,
    meaning: 'The user named by `by` may not do this.',
    mend: 'Have a user with the right role do it.',
  },
  invalid_msisdn: {
    status: 400,
    meaning: 'The phone number is not a wallet number of UG, KE or GH.',
    mend: 'Send it in international format, e.g. +256772123456.',
  },
  network_required: {
    status: 400,
    meaning: 'The network cannot be worked out from the number.',
    mend: 'Retry with `network`.',
  },
  network_not_supported: {
    status: 400,
    meaning: 'No rail serves this network in this country, or none in this direction.',
    mend: 'Use a wallet on a supported network.',
  },
  currency_mismatch: {
    status: 400,
    meaning: "The currency is not that of the wallet's country.",
    mend: 'Send UGX for UG, KES for KE, GHS for GH.',
  },
  amount_below_minimum: {
    status: 400,
    meaning: 'The amount is below the country minimum.',
    mend: 'Send at least the minimum.',
  },
  amount_above_maximum: {
    status: 400,
    meaning: 'The amount is above the maximum of one transaction, or of what the account may take.',
    mend: 'Send less, or ask the operator to raise the limit.',
  },
  daily_limit_exceeded: {
    status: 400,
    meaning: "The account's daily limit would be exceeded.",
    mend: 'Send less, wait for the next UTC day, or ask the operator to raise the limit.',
  },
  monthly_limit_exceeded: {
    status: 400,
    meaning: "The account's monthly limit would be exceeded.",
    mend: 'Send less, wait for the next UTC month, or ask the operator to raise the limit.',
  },
  insufficient_balance: {
    status: 400,
    meaning: 'The available balance is less than amount plus fee.',
    mend: 'Deposit first, or send less.',
  },
  destination_not_active: {
    status: 400,
    meaning: 'The payout wallet is pending approval, cooling off or revoked.',
    mend: 'Use an ACTIVE payout wallet.',
  },
  destination_not_found: {
    status: 404,
    meaning: 'There is no such payout wallet on the account.',
    mend: 'List them with GET /v1/payout_destinations.',
  },
  charge_not_found: {
    status: 404,
    meaning: 'There is no such charge on the account.',
    mend: 'Check the id.',
  },
  payout_not_found: {
    status: 404,
    meaning: 'There is no such payout on the account.',
    mend: 'Check the id.',
  },
  withdrawal_not_found: {
    status: 404,
    meaning: 'There is no such withdrawal on the account.',
    mend: 'Check the id.',
  },
  deposit_not_found: {
    status: 404,
    meaning: 'There is no such deposit on the account.',
    mend: 'Check the id.',
  },
  transaction_not_found: {
    status: 404,
    meaning: 'There is no such transaction on the account.',
    mend: 'Check the id.',
  },
  not_found: {
    status: 404,
    meaning: 'There is nothing at this path.',
    mend: 'See GET /openapi.json for the paths.',
  },
  method_not_allowed: {
    status: 405,
    meaning: 'The path exists, but not with this method.',
    mend: 'Use a method named in the Allow header.',
  },
  conflict: {
    status: 409,
    meaning: 'The object is not in a state that allows this.',
    mend: 'Read the object and decide again.',
  },
  body_too_large: { status: 413, meaning: 'The body is over 64 KiB.', mend: 'Send a smaller body.' },
  unsupported_media_type: {
    status: 415,
    meaning: 'The Content-Type is not application/json.',
    mend: 'Send `Content-Type: application/json`.',
  },
  rate_limit_exceeded: {
    status: 429,
    meaning: 'More cash-out requests in a minute than the account may make.',
    mend: 'Wait for the seconds in Retry-After.',
  },
  service_unavailable: {
    status: 503,
    meaning: 'The service cannot take the request now; nothing was decided.',
    mend: 'Retry with the same Idempotency-Key after the seconds in Retry-After.',
  },
} as const satisfies Record<string, ErrorFacts>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** A refusal: the caller's doing, or ours when busy. Nothing was created. */
export interface Rejection {
  readonly code: ErrorCode;
  /** The field at fault, null where none applies. */
  readonly param: string | null;
  /** Says what was wrong with this very request; null: the table's `meaning` says enough. */
  readonly message: string | null;
  /** For Retry-After; null where it does not apply. */
  readonly retryAfterSeconds: number | null;
}

/** Of a function that answers with what was asked for or with why not: nothing else of ours has a `code`. */
export function isRejection(result: object): result is Rejection {
  return 'code' in result;
}

export function rejection(
  code: ErrorCode,
  message: string | null = null,
  param: string | null = null,
  retryAfterSeconds: number | null = null,
): Rejection {
  return { code, param, message, retryAfterSeconds };
}
