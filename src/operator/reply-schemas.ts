// What operators get back. The bodies are rendered by the domain (render-account.ts, render.ts) and by the groups that are asked
// (actors/*/query.ts); tests hold every answer of the operator API against these (test/api/openapi-check.ts).

import { Type } from '../http/json-schema.ts';
import type { TSchema } from '../http/json-schema.ts';
import { ROLES } from '../domain/account.ts';
import { RECONCILIATION_KINDS } from '../domain/account-event.ts';
import { CURRENCIES } from '../domain/country.ts';
import { ERROR_CODES } from '../domain/error-code.ts';
import { LEDGER_ACCOUNTS } from '../domain/ledger.ts';
import { AUDIT_OUTCOMES } from '../domain/platform-message.ts';
import { FEE_TYPES } from '../domain/policy-file.ts';
import { CREATABLE_TYPES } from '../domain/transaction.ts';
import { DELIVERY_STATUSES } from '../domain/webhook-message.ts';
import {
  approvalStatus,
  Balance,
  country,
  currency,
  fields,
  idSchema,
  list,
  MINOR_UNITS_PATTERN,
  minorUnits,
  nullable,
  object,
  oneOf,
  pageOf,
  PayoutDestination,
  status,
  time,
  timeOrNull,
  TransactionId,
  wholeOrNull,
} from '../http/schemas.ts';

const count = Type.Integer({ minimum: 0 });
const textOrNull = nullable({});

function page(title: string, item: TSchema) {
  return object(title, { object: Type.Literal('list'), ...pageOf(item) });
}

/** The same for each of `names`, none of which need be there. */
function some(names: readonly string[], schema: TSchema) {
  return fields(Object.fromEntries(names.map((name) => [name, Type.Optional(schema)])));
}

// ---- Accounts, members, apps

const amountOrNull = nullable({ pattern: MINOR_UNITS_PATTERN });
const fee = fields({ fixed: minorUnits, basis_points: count, floor: amountOrNull, cap: amountOrNull });
const limit = fields({ maximum: amountOrNull, daily: amountOrNull, monthly: amountOrNull });

export const User = object('User', {
  id: idSchema('user', 'Prefix `usr_`.'),
  object: Type.Literal('user'),
  email: Type.String(),
  role: oneOf(ROLES, 'Role', 'What the member may do.'),
  created_at: time,
  removed_at: timeOrNull('Null: a member.'),
});
export const UserList = list('UserList', User);

const app = {
  id: idSchema('app', 'Prefix `app_`.'),
  object: Type.Literal('app'),
  name: Type.String(),
  domain: Type.String(),
  publishable_key: Type.String(),
  webhook_url: nullable({ description: 'Where events go; null: nowhere.' }),
  created_at: time,
  removed_at: timeOrNull('Null: connected.'),
};
const signingSecret = Type.String({ description: 'Signs webhook deliveries. Prefix `whsec_`.' });
export const App = object('App', app);
export const AppList = list('AppList', App);
export const ConnectedApp = object('ConnectedApp', {
  ...app,
  secret_key: Type.String({ description: 'Shown this once: only its hash is kept.' }),
  signing_secret: signingSecret,
});
export const SigningSecret = object('SigningSecret', { id: app.id, signing_secret: signingSecret });

export const Account = object('Account', {
  id: idSchema('account', 'Prefix `acc_`.'),
  object: Type.Literal('account'),
  name: Type.String(),
  country,
  live: Type.Boolean(),
  payouts_enabled: Type.Boolean(),
  withdrawals_enabled: Type.Boolean(),
  approval_thresholds: some(CURRENCIES, minorUnits),
  cash_out_per_minute: wholeOrNull(),
  fees: some(FEE_TYPES, some(CURRENCIES, fee)),
  limits: some(CREATABLE_TYPES, some(CURRENCIES, limit)),
  users: Type.Array(User),
  apps: Type.Array(App),
  wallets: Type.Array(PayoutDestination),
  balances: Type.Array(Balance),
  created_at: time,
});
export const AccountPage = page(
  'AccountPage',
  object('AccountEntry', {
    id: idSchema('account', 'Prefix `acc_`.'),
    object: Type.Literal('account'),
    name: Type.String(),
    country,
    opened: Type.Boolean({ description: 'False: registered only, for as long as its partition is away.' }),
    created_at: time,
  }),
);

// ---- Money

export const Verdict = object('Verdict', {
  id: idSchema('withdrawal', 'Prefix `wdl_`.'),
  object: Type.Literal('withdrawal'),
  status,
  approval_status: approvalStatus,
});
export const Settlement = object('Settlement', {
  id: TransactionId,
  object: Type.Unsafe<string>({ type: 'string', enum: ['payout', 'withdrawal'] }),
  status,
});
export const TrialBalance = object('TrialBalance', {
  object: Type.Literal('trial_balance'),
  account_id: idSchema('account', 'Prefix `acc_`.'),
  balanced: Type.Boolean({ description: 'Every `sum` is 0.' }),
  data: Type.Array(
    fields({
      currency,
      accounts: fields(Object.fromEntries(LEDGER_ACCOUNTS.map((name) => [name, minorUnits]))),
      sum: minorUnits,
    }),
  ),
});

export const ReconciliationItem = object('ReconciliationItem', {
  id: idSchema('reconciliation', 'Prefix `rec_`.'),
  object: Type.Literal('reconciliation'),
  account_id: idSchema('account', 'Prefix `acc_`.'),
  kind: oneOf(RECONCILIATION_KINDS, 'ReconciliationKind', 'How the provider contradicts the ledger.'),
  transaction_id: nullable({ description: 'As the provider names it; null: it names none.' }),
  detail: Type.String({ description: 'What the provider said, and what we have.' }),
  raised_at: time,
  resolved_at: timeOrNull('Null: open.'),
  resolved_by: textOrNull,
  resolution: textOrNull,
});
export const ReconciliationPage = page('ReconciliationPage', ReconciliationItem);

// ---- Deliveries

export const Delivery = object('Delivery', {
  id: idSchema('delivery', 'Prefix `dlv_`.'),
  object: Type.Literal('delivery'),
  account_id: idSchema('account', 'Prefix `acc_`.'),
  app_id: app.id,
  event_id: idSchema('event', 'Prefix `evt_`.'),
  event_type: Type.String(),
  transaction_id: TransactionId,
  status: oneOf(DELIVERY_STATUSES, 'DeliveryStatus', 'Where it stands.'),
  url: nullable({ description: 'Where the next attempt goes, or the last one went.' }),
  next_attempt_at: timeOrNull('Null: there is none.'),
  created_at: time,
  attempts: Type.Array(
    fields({
      at: time,
      status_code: wholeOrNull({ description: 'Null: no HTTP answer came.' }),
      error: nullable({ description: 'Null: a 2xx came in time. Otherwise a word for what went wrong.' }),
      duration_ms: Type.Number({ minimum: 0 }),
      excerpt: nullable({
        description: 'The first 2,000 characters of the answer; where there was none, what went wrong.',
      }),
    }),
  ),
});
export const DeliveryPage = page('DeliveryPage', Delivery);
export const Replayed = object('Replayed', { replayed: count, has_more: Type.Boolean() });

// ---- The service

export const AuditPage = page(
  'AuditPage',
  object('AuditEntry', {
    id: idSchema('audit', 'Prefix `aud_`.'),
    object: Type.Literal('audit_entry'),
    operator: Type.String(),
    action: Type.String({ description: 'Method and path, without ids.' }),
    target: Type.String({ description: 'The path.' }),
    body: Type.Unknown({ description: 'As sent, secrets and numbers redacted; null: nothing was.' }),
    outcome: nullable({
      enum: [...AUDIT_OUTCOMES, null],
      description: 'Null: nobody saw the end of it.',
    }),
    status: wholeOrNull(),
    code: nullable({ enum: [...Object.keys(ERROR_CODES), null] }),
    object_id: nullable({
      description: 'Of what was made, with its prefix; null: nothing was, or by a version before 2026-11-27.',
    }),
    created_at: time,
    ended_at: timeOrNull('Null: nobody saw the end of it.'),
  }),
);
export const RailList = list(
  'RailList',
  object('Rail', {
    id: Type.String(),
    health: oneOf(['OPERATIONAL', 'DEGRADED', 'DOWN'], 'RailHealth', 'Of this node’s calls.'),
    breaker: oneOf(['closed', 'open', 'half_open'], 'Breaker', '`open`: it is not called for a while.'),
    calling: count,
    submits_waiting: count,
    enquiries_waiting: count,
    submits: count,
    enquiries: count,
    failures: Type.Integer({ minimum: 0, description: 'Calls without a usable answer.' }),
    our_faults: Type.Integer({ minimum: 0, description: 'Refusals of our configuration or our float.' }),
    last_failure: textOrNull,
    last_failure_at: timeOrNull('Null: there was none.'),
  }),
);
const nodes = Type.Optional(Type.Array(Type.String(), { description: 'In a cluster: names of nodes.' }));
export const PartitionList = list(
  'PartitionList',
  object('Partition', {
    group: Type.String(),
    partition: count,
    node: nullable({ description: 'Who writes it; null: nobody.' }),
    node_state: Type.Optional(textOrNull),
    epoch: count,
    damaged_on: nodes,
    unproven_on: nodes,
    sequence: wholeOrNull({
      description: 'Of the last record of its log; null: it is written elsewhere.',
    }),
    checkpoint_lag: Type.Optional(wholeOrNull()),
  }),
);
export const WriteFormat = object('WriteFormat', {
  object: Type.Literal('write_format'),
  format: count,
  message: Type.String(),
});
export const Health = object('Health', { status: Type.String() });
