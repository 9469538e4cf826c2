// What operators send: bodies, queries and path parameters. Meaning (who may do what, limits, states) is the domain's.

import { Type } from '../http/json-schema.ts';
import { ROLES } from '../domain/account.ts';
import { COUNTRIES } from '../domain/country.ts';
import { FAILURE_CODES, type FailureCode } from '../domain/transaction.ts';
import { DELIVERY_STATUSES } from '../domain/webhook-message.ts';
import type { PathParameter } from '../http/route.ts';
import {
  CreateDepositBody,
  fields,
  idSchema,
  IdempotencyKey,
  nullable,
  TransactionId,
  wholeOrNull,
} from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';

/** Ours: nobody approved it, or it took too long. */
const OWN_FAILURE_CODES: readonly FailureCode[] = ['approval_rejected', 'expired'];
const PROVIDER_FAILURE_CODES = FAILURE_CODES.filter((code) => !OWN_FAILURE_CODES.includes(code));

function oneOf<const Values extends readonly string[]>(values: Values, description: string) {
  return Type.Unsafe<Values[number]>({ type: 'string', enum: [...values], description });
}

function words(maxLength: number, description: string) {
  return Type.String({
    minLength: 1,
    maxLength,
    pattern: '\\S',
    description,
    'x-rule': 'must have a character that is not a blank',
  });
}

const country = oneOf(COUNTRIES, 'ISO 3166-1 code.');
const by = idSchema('user', 'Id of the member who acts.');
const webhookUrl = nullable({ maxLength: 2_048, description: 'Where events go; null: nowhere.' });
const terms = (description: string) =>
  Type.Unknown({
    description: `${description} As in a policy file (deploy/policy.json): what is given for one replaces all of it, null gives the service's own back.`,
  });

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

export const CreateAccountBody = fields({
  name: words(128, 'Name of the merchant.'),
  country,
  live: Type.Optional(Type.Boolean({ description: 'Live payments are on. Default false.' })),
  payouts_enabled: Type.Optional(Type.Boolean({ description: 'Default false.' })),
  withdrawals_enabled: Type.Optional(Type.Boolean({ description: 'Default false.' })),
  idempotency_key: idempotencyKey('account', SAME_ANSWER),
});
export const ChangeAccountBody = fields({
  live: Type.Optional(Type.Boolean()),
  payouts_enabled: Type.Optional(Type.Boolean()),
  withdrawals_enabled: Type.Optional(Type.Boolean()),
  approval_thresholds: Type.Optional(terms('Withdrawals above it need an approval, by currency.')),
  cash_out_per_minute: Type.Optional(wholeOrNull({ minimum: 1, maximum: LIMITS.cashOutPerMinuteMax })),
  fees: Type.Optional(
    terms('By type and currency; what is said of `PAYOUT` alone holds for withdrawals, too.'),
  ),
  limits: Type.Optional(terms('By type and currency.')),
});
export const AddUserBody = fields({
  email: Type.String({
    maxLength: 254,
    pattern: '^[^@\\s]+@[^@\\s]+$',
    description: 'E-mail address.',
    'x-rule': 'must be an e-mail address',
  }),
  role: oneOf(ROLES, 'What the member may do.'),
});
const owner = Type.Optional(
  idSchema('user', 'Id of the owner who acts; of an owner, themselves alone. Default: the operator.'),
);
export const ChangeUserBody = fields({
  role: oneOf(ROLES, 'What the member may do from now on.'),
  by: owner,
});
export const RemoveUserQuery = fields({ by: owner });
export const ConnectAppBody = fields({
  name: words(128, 'Name of the app.'),
  domain: words(253, 'Domain of the app.'),
  webhook_url: Type.Optional(webhookUrl),
  idempotency_key: idempotencyKey(
    'app',
    'The same key again is refused, and the refusal names the app: its secret key is told once.',
  ),
});
export const ChangeAppBody = fields({ webhook_url: webhookUrl });
export const AddWalletBody = fields({
  label: words(64, 'What members call it.'),
  msisdn: words(32, 'Wallet number.'),
  network: CreateDepositBody.properties.network,
  country: CreateDepositBody.properties.country,
  by,
});
export const ByBody = fields({ by });
export const DepositBody = fields({
  ...CreateDepositBody.properties,
  by,
  idempotency_key: idempotencyKey('deposit', SAME_ANSWER),
});
export const ReplayFailedBody = fields({
  since: Type.String({
    format: 'date-time',
    description:
      'Deliveries with a `created_at` since then: that of the event is earlier where the service was down meanwhile.',
    'x-rule': 'must be a time in ISO 8601',
  }),
});
export const SettleBody = fields({
  outcome: oneOf(['SUCCESSFUL', 'FAILED'], 'What became of it, as the provider says.'),
  statement: words(500, 'Who of the provider said so, and how: kept in the audit log.'),
  failure_code: Type.Optional(
    oneOf(
      PROVIDER_FAILURE_CODES,
      'Of one that failed, and no other: what the merchant is told. Default `unknown`.',
    ),
  ),
  provider_transaction_id: Type.Optional(
    words(64, "Of one that succeeded, and no other: the provider's id of it."),
  ),
});
export const ResolveBody = fields({
  account_id: idSchema('account', 'The account of the item.'),
  by: Type.Optional(words(64, 'Who resolved it. Default: the Operator header.')),
  resolution: words(500, 'What was found and done.'),
});

const page = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LIMITS.operatorPageMax, default: LIMITS.operatorPageDefault }),
  ),
  starting_after: Type.Optional(Type.String({ description: '`next_cursor` of the previous page.' })),
};
export const PageQuery = fields(page);
export const DeliveriesQuery = fields({
  app: Type.Optional(idSchema('app', 'Only deliveries of this app.')),
  status: Type.Optional(oneOf(DELIVERY_STATUSES, 'Only deliveries in this state.')),
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
