// The schemas of the public interface: what a merchant sends and what comes back. One schema gives the TypeScript type,
// the validation (validator.ts) and its part of the OpenAPI document (openapi.ts); nothing here is written twice.
//
// A schema with a `title` becomes a component of the document. Meaning (country rules, limits, balances) is not checked
// here: that is the domain's.

import { Type, type Static, type TProperties, type TSchema } from './json-schema.ts';
import type { CollectInput, PayoutInput, WithdrawalInput } from '../domain/account-command.ts';
import { WALLET_STATUSES } from '../domain/account.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../domain/country.ts';
import { ERROR_CODES, type ErrorCode } from '../domain/error-code.ts';
import { ID_PREFIXES, type IdKind } from '../domain/id.ts';
import { LEDGER_ACCOUNTS, REASONS, SIDES } from '../domain/ledger.ts';
import {
  APPROVAL_STATUSES,
  FAILURE_CODES,
  SOURCES,
  STATUSES,
  TRANSACTION_TYPES,
  type Metadata,
} from '../domain/transaction.ts';

const ID_BODY = '[0-9A-HJKMNP-TV-Z]{26}';

export function idSchema(kind: IdKind, description: string) {
  const prefix = ID_PREFIXES[kind];
  const pattern = `^${prefix}${ID_BODY}$`;
  return {
    ...Type.String({ description, pattern, 'x-rule': `must be an id: ${prefix} and 26 characters` }),
    pattern,
  };
}

const transactionIdPattern = `^(?:chg|pyt|dep|wdl|ref)_${ID_BODY}$`;
export const TransactionId = {
  ...Type.String({
    pattern: transactionIdPattern,
    description: 'Id of the charge, payout, deposit, withdrawal or refund.',
  }),
  pattern: transactionIdPattern,
};

export function oneOf<const Values extends readonly string[]>(
  values: Values,
  title: string,
  description: string,
) {
  return Type.Unsafe<Values[number]>({ type: 'string', enum: [...values], title, description });
}

/** Of a field that may be left out: null is as good as that, as libraries that write every field send it. */
function oneOfOrNull<const Values extends readonly string[]>(
  values: Values,
  title: string,
  description: string,
) {
  return Type.Unsafe<Values[number] | null>({
    type: ['string', 'null'],
    enum: [...values, null],
    title,
    description,
  });
}

export function nullable(schema: Record<string, unknown>) {
  return Type.Unsafe<string | null>({ type: ['string', 'null'], ...schema });
}

export function wholeOrNull(schema: Record<string, unknown> = {}) {
  return Type.Unsafe<number | null>({ type: ['integer', 'null'], ...schema });
}

/** No others are taken, or come back. */
export function fields<Properties extends TProperties>(properties: Properties) {
  return Type.Object(properties, { additionalProperties: false });
}

export function object<Properties extends TProperties>(
  title: string,
  properties: Properties,
  description?: string,
) {
  const said = description === undefined ? {} : { description };
  return Type.Object(properties, { title, ...said, additionalProperties: false });
}

/** Properties of one schema, none of which need be there. */
export function some(names: readonly string[], schema: TSchema): Record<string, TSchema> {
  return Object.fromEntries(names.map((name) => [name, Type.Optional(schema)]));
}

export const country = oneOf(COUNTRIES, 'Country', 'ISO 3166-1 code of the wallet’s country.');
export const currency = oneOf(CURRENCIES, 'Currency', 'ISO 4217 code.');
const network = oneOf(NETWORKS, 'Network', 'Mobile money network.');
export const status = oneOf(STATUSES, 'Status', '`SUCCESSFUL`, `FAILED` and `REVERSED` are final.');
export const approvalStatus = oneOf(
  APPROVAL_STATUSES,
  'ApprovalStatus',
  '`PENDING`: waits for a second team member.',
);
const transactionType = oneOf(TRANSACTION_TYPES, 'TransactionType', 'Kind of money movement.');

// ---- What a merchant sends

const REFERENCE_PATTERN = '^[A-Za-z0-9._:-]{1,128}$';
const referenceRule = 'must be 1 to 128 characters from A-Z a-z 0-9 . _ : -';

const amountInput = Type.String({
  title: 'AmountInput',
  format: 'amount',
  pattern: '^(?:0|[1-9][0-9]{0,15})$',
  description: 'Integer minor units as a string; at least the country minimum, at most 9007199254740991.',
  'x-rule':
    'must be integer minor units as a string: digits without sign, leading zero or decimals, at most 9007199254740991',
});
const msisdnInput = Type.String({
  minLength: 1,
  maxLength: 32,
  description:
    'Wallet number. International format is safest; a local format is read against `country`, or the account’s ' +
    'country when `country` is absent.',
});
const referenceInput = Type.String({
  pattern: REFERENCE_PATTERN,
  description: 'Your own reference, returned unchanged everywhere.',
  'x-rule': referenceRule,
});
const metadataInput = Type.Unsafe<Metadata | null>({
  title: 'MetadataInput',
  type: ['object', 'null'],
  description:
    'Up to 20 keys; values are strings (at most 512 characters), numbers, booleans or null. Numbers are IEEE doubles: ' +
    'one that would come back with another value (0.10000000000000001 as 0.1) is refused; send it as a string.',
  maxProperties: 20,
  propertyNames: { not: { const: '__proto__' } },
  additionalProperties: { type: ['string', 'number', 'boolean', 'null'], maxLength: 512 },
});
const networkInput = Type.Optional(
  oneOfOrNull(
    NETWORKS,
    'NetworkInput',
    'Normally worked out from the number: send it when known, or after `network_required`. It always wins over the ' +
      'number’s prefix.',
  ),
);
const countryInput = Type.Optional(
  oneOfOrNull(
    COUNTRIES,
    'CountryInput',
    'What a number in local format is read against; the account’s country when absent. An international number says ' +
      'its country itself.',
  ),
);
const description = Type.Optional(
  nullable({ maxLength: 255, description: 'Up to 255 characters. Returned as sent.' }),
);
const narration = Type.Optional(
  nullable({ maxLength: 100, description: 'Shown to the recipient where the network supports it.' }),
);
const metadata = Type.Optional(metadataInput);

const collectFields = {
  amount: amountInput,
  currency,
  msisdn: msisdnInput,
  reference: referenceInput,
  network: networkInput,
  country: countryInput,
  description,
  metadata,
};
export const CreateChargeBody = object('CreateCharge', collectFields);
export const CreateDepositBody = object('CreateDeposit', collectFields);
export const CreatePayoutBody = object('CreatePayout', {
  amount: amountInput,
  currency,
  msisdn: msisdnInput,
  reference: referenceInput,
  network: networkInput,
  country: countryInput,
  narration,
  metadata,
});
export const CreateWithdrawalBody = object('CreateWithdrawal', {
  amount: amountInput,
  currency,
  destination: Type.String({
    minLength: 1,
    maxLength: 64,
    description: 'Id of one of your own approved payout wallets, from GET /v1/payout_destinations.',
  }),
  reference: referenceInput,
  narration,
  metadata,
});

/** Does not compile when a schema and the domain's input type part ways: a field of one alone would be dropped unsaid. */
type Fits<Input, Schema extends TSchema> = [Static<Schema>, keyof Input, keyof Static<Schema>] extends [
  Input,
  keyof Static<Schema>,
  keyof Input,
]
  ? true
  : never;
const fits: [
  Fits<CollectInput, typeof CreateChargeBody>,
  Fits<CollectInput, typeof CreateDepositBody>,
  Fits<PayoutInput, typeof CreatePayoutBody>,
  Fits<WithdrawalInput, typeof CreateWithdrawalBody>,
] = [true, true, true, true];
void fits;

// ---- Query parameters of the lists

const referenceFilter = Type.String({
  pattern: REFERENCE_PATTERN,
  description: 'Exact match.',
  'x-rule': referenceRule,
});
export const PAGE_LIMIT_DEFAULT = 25;
/**
 * As parseTime takes them; the space is the `+` of an offset that nobody percent-encoded. In the document there is no
 * `date-time` beside it: validators and clients that go by that refuse the dates that the description offers.
 */
const MOMENT_PATTERN =
  '^\\d{4}-\\d{2}-\\d{2}(?:[Tt]\\d{2}:\\d{2}(?::\\d{2}(?:[.,]\\d+)?)?(?:[Zz]|[+ -]\\d{2}(?::?\\d{2})?)?)?$';
function moment(description: string) {
  return Type.Optional(
    Type.String({
      format: 'moment',
      pattern: MOMENT_PATTERN,
      description: `ISO 8601, inclusive. ${description}`,
      'x-rule': 'must be an ISO 8601 date-time, e.g. 2026-03-01T09:30:00.000Z',
    }),
  );
}
const paging = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 100,
      default: PAGE_LIMIT_DEFAULT,
      description: 'Objects per page, at most: `has_more` says whether there are others.',
    }),
  ),
  starting_after: Type.Optional(
    Type.String({ format: 'cursor', description: 'The `next_cursor` of the previous page.' }),
  ),
};

export const ObjectListQuery = Type.Object({
  status: Type.Optional(status),
  reference: Type.Optional(referenceFilter),
  country: Type.Optional(country),
  network: Type.Optional(network),
  created_after: moment('A date alone is its first millisecond, in UTC.'),
  created_before: moment('A date alone is its last millisecond, in UTC: the whole day is in.'),
  ...paging,
});
export const TransactionListQuery = Type.Object({
  type: Type.Optional(transactionType),
  status: Type.Optional(status),
  approval_status: Type.Optional(approvalStatus),
  reference: Type.Optional(referenceFilter),
  currency: Type.Optional(currency),
  ...paging,
});
export const NoQuery = Type.Object({});

// ---- What comes back

export const MINOR_UNITS_PATTERN = '^-?[0-9]{1,16}$';
export const minorUnits = Type.String({
  title: 'Amount',
  pattern: MINOR_UNITS_PATTERN,
  description: 'Integer minor units.',
});
/** Of which the name alone does not say what it is. */
function minorUnitsOf(description: string) {
  return Type.String({ pattern: MINOR_UNITS_PATTERN, description: `Integer minor units. ${description}` });
}
/** The format is for generators, which make dates of it where they are told to; the pattern says it exactly. */
const timeForm = { format: 'date-time', pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$' };
export const time = Type.String({
  title: 'Time',
  ...timeForm,
  description: 'ISO 8601, UTC, with milliseconds.',
});
export function timeOrNull(description: string) {
  return nullable({ ...timeForm, description });
}
const msisdnMasked = Type.String({
  pattern: '^\\d{3}\\d{2}\\*{4}\\d{3}$',
  description: 'Country code, two digits, `****`, last three digits.',
});
const reference = Type.String({ pattern: REFERENCE_PATTERN, description: 'As sent.' });
const provider = nullable({ description: 'Rail identifier, for information: logic must not depend on it.' });
const failureCode = nullable({
  title: 'FailureCode',
  enum: [...FAILURE_CODES, null],
  description: 'Set exactly when `status` is `FAILED`. `approval_rejected`: withdrawals only.',
});
const failureMessage = nullable({ description: 'For people; must not be parsed.' });
const metadataOutput = Type.Unsafe<Metadata | null>({
  title: 'Metadata',
  type: ['object', 'null'],
  description: 'As sent.',
  additionalProperties: { type: ['string', 'number', 'boolean', 'null'] },
});
const times = { created_at: time, updated_at: time };

const wallet = { amount: minorUnits, currency, country, network, msisdn_masked: msisdnMasked, reference };
const outcome = { failure_code: failureCode, failure_message: failureMessage, metadata: metadataOutput };

export const Charge = object('Charge', {
  id: idSchema('charge', 'Prefix `chg_`.'),
  object: Type.Literal('charge'),
  status,
  ...wallet,
  description: nullable({ description: 'As sent.' }),
  fee: minorUnitsOf('0 until the charge succeeds.'),
  net: minorUnitsOf('`amount` minus `fee`: what you are credited.'),
  provider,
  ...outcome,
  ...times,
});
export const Payout = object('Payout', {
  id: idSchema('payout', 'Prefix `pyt_`.'),
  object: Type.Literal('payout'),
  status,
  ...wallet,
  fee: minorUnitsOf('On top of `amount`; 0 until the payout succeeds, though it is held from the start.'),
  total_debited: minorUnitsOf('`amount` plus `fee`: in flight `amount` alone.'),
  provider,
  approval_status: approvalStatus,
  ...outcome,
  ...times,
});
export const Withdrawal = object('Withdrawal', {
  id: idSchema('withdrawal', 'Prefix `wdl_`.'),
  object: Type.Literal('withdrawal'),
  status,
  ...wallet,
  destination: idSchema('wallet', 'Payout wallet, prefix `wal_`.'),
  fee: minorUnitsOf('On top of `amount`; shown from the start, as it is held.'),
  total_debited: minorUnitsOf('`amount` plus `fee`: held at once, released on failure.'),
  provider,
  approval_status: approvalStatus,
  ...outcome,
  ...times,
});
export const Deposit = object('Deposit', {
  id: idSchema('deposit', 'Prefix `dep_`.'),
  object: Type.Literal('deposit'),
  status,
  ...wallet,
  description: nullable({ description: 'As sent.' }),
  provider,
  ...outcome,
  ...times,
});
const Transaction = object('Transaction', {
  id: TransactionId,
  object: Type.Literal('transaction'),
  type: transactionType,
  approval_status: approvalStatus,
  status,
  ...wallet,
  fee: minorUnitsOf('Booked so far: 0 until the transaction succeeds.'),
  net: minorUnitsOf('Money in: `amount` minus `fee`. Money out: `amount` plus `fee`, what you are debited.'),
  provider,
  metadata: metadataOutput,
  ...times,
});
const StatusEvent = object('StatusEvent', {
  id: idSchema('event', 'Prefix `evt_`.'),
  status,
  source: oneOf(SOURCES, 'Source', 'What caused it.'),
  provider_status: nullable({
    description: 'The network’s own word, kept for audit: branch on `status` only.',
  }),
  message: nullable({ description: 'For people.' }),
  created_at: time,
});
const LedgerEntry = object('LedgerEntry', {
  id: idSchema('entry', 'Prefix `ent_`.'),
  journal_id: idSchema('journal', 'Entries of one journal: debits equal credits. Prefix `jrn_`.'),
  account: oneOf(
    LEDGER_ACCOUNTS,
    'LedgerAccount',
    'A credit to a `MERCHANT_*` account increases your balance.',
  ),
  side: oneOf(SIDES, 'Side', 'Side of the entry.'),
  amount: minorUnits,
  currency,
  reason: oneOf(REASONS, 'Reason', 'Why money moved.'),
  created_at: time,
});
const history = {
  events: Type.Array(StatusEvent, { description: 'Each status that it came to, in order.' }),
  ledger: Type.Array(LedgerEntry, { description: 'What it has moved so far, in order.' }),
};
export const ChargeTimeline = object('ChargeTimeline', { charge: Charge, ...history });
export const TransactionDetail = object('TransactionDetail', { transaction: Transaction, ...history });

export function pageOf(item: TSchema) {
  return {
    data: Type.Array(item),
    has_more: Type.Boolean({ description: 'False on the last page.' }),
    next_cursor: nullable({ description: 'Pass it as `starting_after`; null on the last page.' }),
  };
}
function page(title: string, item: TSchema) {
  return object(title, pageOf(item));
}
/** All there is. */
export function list(title: string, item: TSchema) {
  return object(title, { object: Type.Literal('list'), data: Type.Array(item) });
}
export const ChargePage = page('ChargePage', Charge);
export const PayoutPage = page('PayoutPage', Payout);
export const TransactionPage = page('TransactionPage', Transaction);

export const Balance = object('Balance', {
  currency,
  available: minorUnitsOf('Spendable now: held money is already excluded. Below zero only after a reversal.'),
  pending: minorUnitsOf('From charges: the net of each moves to `available` one day after it succeeds.'),
});
export const BalanceList = list('BalanceList', Balance);
export const PayoutDestination = object('PayoutDestination', {
  id: idSchema('wallet', 'Pass it as `destination` of a withdrawal. Prefix `wal_`.'),
  object: Type.Literal('payout_destination'),
  label: Type.String({ description: 'What your team calls it.' }),
  status: oneOf(WALLET_STATUSES, 'WalletStatus', 'Only an `ACTIVE` wallet can receive withdrawals.'),
  country,
  network,
  currency,
  msisdn_masked: msisdnMasked,
  created_at: time,
  active_at: timeOrNull('When cooling-off ends or ended; null before approval.'),
});
export const PayoutDestinationList = list('PayoutDestinationList', PayoutDestination);

export const errorCode = oneOf(Object.keys(ERROR_CODES) as ErrorCode[], 'ErrorCode', 'Branch on this.');
// What stands inside another object has a name of its own, too: of one without, generators for Go, Python and PHP make no type.
export const ErrorReply = object('ErrorReply', {
  error: object('ErrorDetail', {
    code: errorCode,
    message: Type.String({ description: 'For people; must not be parsed.' }),
    param: nullable({ description: 'The field or parameter at fault.' }),
    request_id: Type.String({ description: 'Also in the `Request-Id` header. Quote it to support.' }),
  }),
});

export const IdempotencyKey = Type.String({
  minLength: 8,
  maxLength: 255,
  // Without spaces at its ends: HTTP takes them off, and what is left counts.
  pattern: '^[\\x21-\\x7e][\\x20-\\x7e]*[\\x21-\\x7e]$',
  description:
    'New and unique for each object you mean to create. The same key with the same body gives the original answer. ' +
    'The same body is the same bytes: other whitespace or another order of names is another body, `idempotency_key_reused`. ' +
    'Without an answer (the connection was reset or closed, or you stopped waiting) it may exist or not: send the same again ' +
    'with the same key. It is kept for 30 days, and for as long as the object is not final. Send the header once: of two the first counts.',
});

// ---- Webhooks

const EVENT_OBJECTS = { charge: Charge, deposit: Deposit, payout: Payout, withdrawal: Withdrawal } as const;

/** `type`: e.g. "charge.successful", whose schema is `ChargeSuccessfulEvent`: many generators pass over `webhooks`. */
export function eventSchema(type: string): TSchema {
  const [kind = ''] = type.split('.');
  return object(`${pascalCase(type)}Event`, {
    id: idSchema('event', 'The same on every redelivery and replay. Prefix `evt_`.'),
    object: Type.Literal('event'),
    type: Type.Literal(type),
    created_at: time,
    data: object(`${pascalCase(kind)}EventData`, {
      object: EVENT_OBJECTS[kind as keyof typeof EVENT_OBJECTS],
    }),
  });
}

/** "ChargeSuccessful" of "charge.successful". */
export function pascalCase(type: string): string {
  return type.replaceAll(/(?:^|\.)(.)/g, (_, letter: string) => letter.toUpperCase());
}
