// What operators send: bodies, queries and path parameters. Meaning (who may do what, limits, states) is the domain's.

import { Type } from '../http/json-schema.ts';
import { ROLES } from '../domain/account.ts';
import { CURRENCIES } from '../domain/country.ts';
import { FEE_TYPES } from '../domain/policy-file.ts';
import { CREATABLE_TYPES, FAILURE_CODES, type FailureCode } from '../domain/transaction.ts';
import { DELIVERY_STATUSES } from '../domain/webhook-message.ts';
import type { PathParameter } from '../http/route.ts';
import type { TSchema } from '../http/json-schema.ts';
import {
  country,
  CreateDepositBody,
  fields,
  idSchema,
  IdempotencyKey,
  MINOR_UNITS_PATTERN,
  nullable,
  object,
  oneOf,
  some,
  TransactionId,
  wholeOrNull,
} from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';

/** Ours: nobody approved it, or it took too long. */
const OWN_FAILURE_CODES: readonly FailureCode[] = ['approval_rejected', 'expired'];
const PROVIDER_FAILURE_CODES = FAILURE_CODES.filter((code) => !OWN_FAILURE_CODES.includes(code));

function words(maxLength: number, description: string) {
  return Type.String({
    minLength: 1,
    maxLength,
    pattern: '\\S',
    description,
    'x-rule': 'must have a character that is not a blank',
  });
}

const by = idSchema('user', 'Id of the member who acts.');
const webhookUrl = nullable({ maxLength: 2_048, description: 'Where events go; null: nowhere.' });
export const role = oneOf(
  ROLES,
  'Role',
  'What a member may do. `OWNER`: everything; owners alone approve payout wallets, and change other members. `ADMIN`: add and revoke ' +
    'payout wallets, deposit. `FINANCE`: deposit. Every member: approve and reject the withdrawals that others asked for.',
);
export const deliveryStatus = oneOf(
  DELIVERY_STATUSES,
  'DeliveryStatus',
  '`PENDING`: waits for its first attempt. `RETRYING`: failed, another attempt is due. `DELIVERED`: a 2xx came in time. ' +
    '`DEAD_LETTERED`: no attempt is left. `CANCELLED`: the app was removed, or has no webhook URL any more.',
);

// ---- Terms of an account, as the document shows them: the domain reads them (parseAccountTerms), and tells of all that is wrong at once

const TERMS_RULE =
  "As in a policy file (deploy/policy.json): what is given for one replaces all of it, null gives the service's own back.";
const ownAmount = nullable({ pattern: MINOR_UNITS_PATTERN, description: 'Integer minor units; null: none.' });

function orNull(schema: TSchema): TSchema {
  return Type.Unsafe({ anyOf: [schema, { type: 'null' }] });
}

/** `title`: of the whole. */
function byTypeAndCurrency(title: string, types: readonly string[], row: TSchema, description: string) {
  const byCurrency = object(`${title}ByCurrencyInput`, some(CURRENCIES, orNull(row)));
  return object(`${title}Input`, some(types, byCurrency), `${description} ${TERMS_RULE}`);
}

const feeInput = object(
  'FeeInput',
  {
    fixed: Type.Optional(ownAmount),
    basis_points: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 10_000, description: 'Hundredths of a percent. Default 0.' }),
    ),
    floor: Type.Optional(ownAmount),
    cap: Type.Optional(ownAmount),
  },
  'What is left out is 0, or none.',
);
const limitInput = object(
  'LimitInput',
  { maximum: Type.Optional(ownAmount), daily: Type.Optional(ownAmount), monthly: Type.Optional(ownAmount) },
  'Of one, of a UTC day, of a UTC month. What is left out is no limit.',
);
const shown = (schema: TSchema) => Type.Optional(Type.Unknown({ 'x-shown': schema }));

const idempotencyKey = (noun: string, again: string) =>
  Type.Optional(
    Type.String({
      ...IdempotencyKey,
      description: `New and unique for each ${noun} you mean to make. ${again}`,
      'x-rule': 'must be 8 to 255 printable ASCII characters',
    }),
  );
/** Of what was parsed: spaces do not count here, as they do for merchants. */
const SAME_ANSWER = 'The same key with the same fields in the same order gives the original answer.';

export const CreateAccountBody = object('CreateAccount', {
  name: words(128, 'Name of the merchant.'),
  country,
  live: Type.Optional(Type.Boolean({ description: 'Live payments are on. Default false.' })),
  payouts_enabled: Type.Optional(Type.Boolean({ description: 'Default false.' })),
  withdrawals_enabled: Type.Optional(Type.Boolean({ description: 'Default false.' })),
  idempotency_key: idempotencyKey('account', SAME_ANSWER),
});
export const ChangeAccountBody = object('ChangeAccount', {
  live: Type.Optional(Type.Boolean({ description: 'Live payments are on. Without it no API key works.' })),
  payouts_enabled: Type.Optional(Type.Boolean({ description: 'Payouts may be created.' })),
  withdrawals_enabled: Type.Optional(
    Type.Boolean({ description: 'Withdrawals may be created, and approved.' }),
  ),
  approval_thresholds: shown(
    object(
      'ApprovalThresholdsInput',
      some(CURRENCIES, ownAmount),
      `Withdrawals above it need an approval, by currency. ${TERMS_RULE}`,
    ),
  ),
  cash_out_per_minute: Type.Optional(
    wholeOrNull({
      minimum: 1,
      maximum: LIMITS.cashOutPerMinuteMax,
      description:
        "Payouts and withdrawals together that may be asked for in a minute; null: the service's own.",
    }),
  ),
  fees: shown(
    byTypeAndCurrency(
      'Fees',
      FEE_TYPES,
      feeInput,
      'By type and currency; what is said of `PAYOUT` alone holds for withdrawals, too.',
    ),
  ),
  limits: shown(byTypeAndCurrency('Limits', CREATABLE_TYPES, limitInput, 'By type and currency.')),
});
export const AddUserBody = object('AddUser', {
  email: Type.String({
    maxLength: 254,
    pattern: '^[^@\\s]+@[^@\\s]+$',
    description: 'E-mail address. Those that differ only in capitals are of one person.',
    'x-rule': 'must be an e-mail address',
  }),
  role,
});
const owner = Type.Optional(
  idSchema('user', 'Id of the owner who acts; of an owner, themselves alone. Default: the operator.'),
);
export const ChangeUserBody = object('ChangeUser', { role, by: owner });
export const RemoveUserQuery = fields({ by: owner });
export const ConnectAppBody = object('ConnectApp', {
  name: words(128, 'Name of the app.'),
  domain: words(253, 'Domain of the app.'),
  webhook_url: Type.Optional(webhookUrl),
  idempotency_key: idempotencyKey(
    'app',
    'The same key again is refused, and the refusal names the app: its secret key is told once.',
  ),
});
export const ChangeAppBody = object('ChangeApp', { webhook_url: webhookUrl });
export const AddWalletBody = object('AddWallet', {
  label: words(64, 'What members call it.'),
  msisdn: words(
    32,
    'Wallet number. International format is safest; a local one is read against `country`, or the account’s country.',
  ),
  network: CreateDepositBody.properties.network,
  country: CreateDepositBody.properties.country,
  by,
});
export const ByBody = object('ActingMember', { by });
export const DepositBody = object('CreateDashboardDeposit', {
  ...CreateDepositBody.properties,
  by,
  idempotency_key: idempotencyKey('deposit', SAME_ANSWER),
});
export const ReplayFailedBody = object('ReplayFailed', {
  since: Type.String({
    format: 'date-time',
    description:
      'Deliveries with a `created_at` since then: that of the event is earlier where the service was down meanwhile.',
    'x-rule': 'must be a time in ISO 8601',
  }),
});
export const SettleBody = object('SettleCashOut', {
  outcome: oneOf(['SUCCESSFUL', 'FAILED'], 'SettledOutcome', 'What became of it, as the provider says.'),
  statement: words(500, 'Who of the provider said so, and how: kept in the audit log.'),
  failure_code: Type.Optional(
    oneOf(
      PROVIDER_FAILURE_CODES,
      'ProviderFailureCode',
      'Of one that failed, and no other: what the merchant is told. Default `unknown`.',
    ),
  ),
  provider_transaction_id: Type.Optional(
    words(64, "Of one that succeeded, and no other: the provider's id of it."),
  ),
});
export const ResolveBody = object('ResolveReconciliation', {
  account_id: idSchema('account', 'The account of the item.'),
  by: Type.Optional(words(64, 'Who resolved it. Default: the Operator header.')),
  resolution: words(500, 'What was found and done.'),
});

const page = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.operatorPageMax,
      default: LIMITS.operatorPageDefault,
      description: 'Objects per page, at most: `has_more` says whether there are others.',
    }),
  ),
  starting_after: Type.Optional(Type.String({ description: '`next_cursor` of the previous page.' })),
};
export const PageQuery = fields(page);
export const DeliveriesQuery = fields({
  app: Type.Optional(idSchema('app', 'Only deliveries of this app.')),
  status: Type.Optional(deliveryStatus),
  ...page,
});
export const ReconciliationQuery = fields({
  account: Type.Optional(idSchema('account', 'Only items of this account.')),
  open: Type.Optional(Type.Boolean({ description: 'true: only what is not resolved.' })),
  ...page,
});

/** By the names used in paths. */
export const PATH_PARAMETERS = {
  account_id: { schema: idSchema('account', 'Id of the account.'), notFound: 'not_found' },
  user_id: { schema: idSchema('user', 'Id of the user.'), notFound: 'not_found' },
  app_id: { schema: idSchema('app', 'Id of the app.'), notFound: 'not_found' },
  wallet_id: { schema: idSchema('wallet', 'Id of the payout wallet.'), notFound: 'destination_not_found' },
  withdrawal_id: {
    schema: idSchema('withdrawal', 'Id of the withdrawal.'),
    notFound: 'withdrawal_not_found',
  },
  transaction_id: { schema: TransactionId, notFound: 'transaction_not_found' },
  delivery_id: { schema: idSchema('delivery', 'Id of the delivery.'), notFound: 'not_found' },
  reconciliation_id: { schema: idSchema('reconciliation', 'Id of the item.'), notFound: 'not_found' },
} as const satisfies Record<string, PathParameter>;
