// What operators get back. The bodies are rendered by the domain (src/domain/render) and by the groups that are asked
// (actors/*/query.ts); tests hold every answer of the operator API against these (test/api/openapi-check.ts).

import { Type } from '../http/json-schema.ts';
import type { TSchema } from '../http/json-schema.ts';
import { RECONCILIATION_KINDS } from '../domain/account-event.ts';
import { CURRENCIES } from '../domain/country.ts';
import { LEDGER_ACCOUNTS } from '../domain/ledger.ts';
import { AUDIT_OUTCOMES } from '../domain/platform-message.ts';
import { FEE_TYPES } from '../domain/policy-file.ts';
import { CREATABLE_TYPES } from '../domain/transaction.ts';
import {
  approvalStatus,
  Balance,
  country,
  currency,
  errorCode,
  idSchema,
  list,
  MINOR_UNITS_PATTERN,
  minorUnits,
  nullable,
  object,
  oneOf,
  pageOf,
  PayoutDestination,
  some,
  status,
  time,
  timeOrNull,
  TransactionId,
  wholeOrNull,
} from '../http/schemas.ts';
import { deliveryStatus, role } from './schemas.ts';

function count(description: string) {
  return Type.Integer({ minimum: 0, description });
}
const accountId = idSchema('account', 'Prefix `acc_`.');

function page(title: string, item: TSchema) {
  return object(title, { object: Type.Literal('list'), ...pageOf(item) });
}

// ---- Accounts, members, apps

const amountOrNull = nullable({
  pattern: MINOR_UNITS_PATTERN,
  description: 'Integer minor units; null: none.',
});
const fee = object(
  'Fee',
  {
    fixed: minorUnits,
    basis_points: count('Hundredths of a percent.'),
    floor: amountOrNull,
    cap: amountOrNull,
  },
  '`fixed` and `basis_points` of the amount, rounded half up; then `floor` and `cap`.',
);
const limit = object(
  'Limit',
  { maximum: amountOrNull, daily: amountOrNull, monthly: amountOrNull },
  'Of one, of a UTC day, of a UTC month.',
);
/** Of an account's own terms. */
const OWN = "What is its own: of what it lacks the service's own holds.";

export const User = object('User', {
  id: idSchema('user', 'Prefix `usr_`.'),
  object: Type.Literal('user'),
  email: Type.String({ description: 'E-mail address, as added.' }),
  role,
  created_at: time,
  removed_at: timeOrNull('Null: a member.'),
});
export const UserList = list('UserList', User);

const app = {
  id: idSchema('app', 'Prefix `app_`.'),
  object: Type.Literal('app'),
  name: Type.String({ description: 'Name of the app.' }),
  domain: Type.String({ description: 'Domain of the app.' }),
  publishable_key: Type.String({
    description: 'Prefix `pk_live_`. No secret: every call of `/v1` refuses it.',
  }),
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

const merchantName = Type.String({ description: 'Name of the merchant.' });
export const Account = object('Account', {
  id: accountId,
  object: Type.Literal('account'),
  name: merchantName,
  country,
  live: Type.Boolean({ description: 'Live payments are on. Without it no API key works.' }),
  payouts_enabled: Type.Boolean({ description: 'Payouts may be created.' }),
  withdrawals_enabled: Type.Boolean({ description: 'Withdrawals may be created, and approved.' }),
  approval_thresholds: object(
    'ApprovalThresholds',
    some(CURRENCIES, minorUnits),
    `Withdrawals above it need an approval, by currency. ${OWN}`,
  ),
  cash_out_per_minute: wholeOrNull({
    description: "Payouts and withdrawals together that it may ask for in a minute; null: the service's own.",
  }),
  fees: object(
    'Fees',
    some(FEE_TYPES, object('FeesByCurrency', some(CURRENCIES, fee))),
    `By type and currency. ${OWN}`,
  ),
  limits: object(
    'Limits',
    some(CREATABLE_TYPES, object('LimitsByCurrency', some(CURRENCIES, limit))),
    `By type and currency. ${OWN}`,
  ),
  users: Type.Array(User, { description: 'In the order they were added; of those removed the newest.' }),
  apps: Type.Array(App, { description: 'In the order they were connected; of those removed the newest.' }),
  wallets: Type.Array(PayoutDestination, {
    description: 'In the order they were added; of those revoked the newest.',
  }),
  balances: Type.Array(Balance, { description: 'One for each currency it has transacted in.' }),
  created_at: time,
});
export const AccountPage = page(
  'AccountPage',
  object('AccountEntry', {
    id: accountId,
    object: Type.Literal('account'),
    name: merchantName,
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
  object: Type.Unsafe<string>({
    type: 'string',
    enum: ['payout', 'withdrawal'],
    description: 'What `id` is of.',
  }),
  status,
});
export const TrialBalance = object('TrialBalance', {
  object: Type.Literal('trial_balance'),
  account_id: accountId,
  balanced: Type.Boolean({ description: 'Every `sum` is 0.' }),
  data: Type.Array(
    object('TrialBalanceRow', {
      currency,
      accounts: object(
        'LedgerSums',
        Object.fromEntries(LEDGER_ACCOUNTS.map((name) => [name, minorUnits])),
        'The sum of the entries of each ledger account.',
      ),
      sum: minorUnits,
    }),
    { description: 'One for each currency transacted in.' },
  ),
});

export const ReconciliationItem = object('ReconciliationItem', {
  id: idSchema('reconciliation', 'Prefix `rec_`.'),
  object: Type.Literal('reconciliation'),
  account_id: accountId,
  kind: oneOf(RECONCILIATION_KINDS, 'ReconciliationKind', 'How the provider contradicts the ledger.'),
  transaction_id: nullable({ description: 'As the provider names it; null: it names none.' }),
  detail: Type.String({ description: 'What the provider said, and what we have.' }),
  raised_at: time,
  resolved_at: timeOrNull('Null: open.'),
  resolved_by: nullable({ description: 'Who resolved it; `daftari`: the service itself.' }),
  resolution: nullable({ description: 'What was found and done.' }),
});
export const ReconciliationPage = page('ReconciliationPage', ReconciliationItem);

// ---- Deliveries

export const Delivery = object('Delivery', {
  id: idSchema('delivery', 'Prefix `dlv_`.'),
  object: Type.Literal('delivery'),
  account_id: accountId,
  app_id: app.id,
  event_id: idSchema('event', 'Prefix `evt_`.'),
  event_type: Type.String({ description: 'As in `charge.successful`.' }),
  transaction_id: TransactionId,
  status: deliveryStatus,
  url: nullable({ description: 'Where the next attempt goes, or the last one went.' }),
  next_attempt_at: timeOrNull('Null: there is none.'),
  created_at: time,
  attempts: Type.Array(
    object('DeliveryAttempt', {
      at: time,
      status_code: wholeOrNull({ description: 'Null: no HTTP answer came.' }),
      error: nullable({ description: 'Null: a 2xx came in time. Otherwise a word for what went wrong.' }),
      duration_ms: Type.Number({ minimum: 0, description: 'How long it took.' }),
      excerpt: nullable({
        description: 'The first 2,000 characters of the answer; where there was none, what went wrong.',
      }),
    }),
    { description: 'Each that was made, in order.' },
  ),
});
export const DeliveryPage = page('DeliveryPage', Delivery);
export const Replayed = object('Replayed', {
  replayed: count('Deliveries that are sent again by this call.'),
  has_more: Type.Boolean({ description: 'True: others are left, call it again.' }),
});

// ---- The service

export const AuditPage = page(
  'AuditPage',
  object('AuditEntry', {
    id: idSchema('audit', 'Prefix `aud_`.'),
    object: Type.Literal('audit_entry'),
    operator: Type.String({ description: 'Who changed it: the `Operator` header, or `operator`.' }),
    action: Type.String({ description: 'Method and path, without ids.' }),
    target: Type.String({ description: 'The path.' }),
    body: Type.Unsafe<Record<string, unknown> | null>({
      title: 'AuditedBody',
      type: ['object', 'null'],
      additionalProperties: true,
      description:
        'As sent, secrets and numbers redacted: the body or, of a call without one, its query; null: nothing was.',
    }),
    outcome: nullable({
      title: 'AuditOutcome',
      enum: [...AUDIT_OUTCOMES, null],
      description:
        '`done`: it was changed. `refused`: it was not. `unknown`: nobody knows. Null: nobody saw the end of it.',
    }),
    status: wholeOrNull({ description: 'HTTP status that was answered; null: none.' }),
    code: Type.Unsafe<string | null>({
      anyOf: [errorCode, { type: 'null' }],
      description: 'Why it was refused; null: it was not.',
    }),
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
    id: Type.String({ description: 'As `provider` of a transaction has it, such as `mtn_ug`.' }),
    health: oneOf(
      ['OPERATIONAL', 'DEGRADED', 'DOWN'],
      'RailHealth',
      'Of this node’s calls. `DEGRADED`: too many fail, or too much waits for it. `DOWN`: it is not called for a while.',
    ),
    breaker: oneOf(
      ['closed', 'open', 'half_open'],
      'Breaker',
      '`open`: it is not called for a while; then it is tried again.',
    ),
    calling: count('Calls that wait for its answer now.'),
    submits_waiting: count('Payments that wait to be sent to it.'),
    enquiries_waiting: count('Payments whose fate it is to be asked for.'),
    submits: count('Payments sent to it since this node started.'),
    enquiries: count('Enquiries since this node started.'),
    failures: count('Calls without a usable answer.'),
    our_faults: count('Refusals of our configuration or our float.'),
    last_failure: nullable({ description: 'What went wrong the last time; null: nothing has.' }),
    last_failure_at: timeOrNull('Null: there was none.'),
  }),
);
const nodes = Type.Optional(Type.Array(Type.String(), { description: 'In a cluster: names of nodes.' }));
export const PartitionList = list(
  'PartitionList',
  object('Partition', {
    group: Type.String({ description: '`accounts`, `webhooks`, `pollers` or `platform`.' }),
    partition: count('Its number within the group, from 0.'),
    node: nullable({ description: 'Who writes it; null: nobody.' }),
    node_state: Type.Optional(
      nullable({ description: 'In a cluster: `live`, `draining` or `dead`; null: not known.' }),
    ),
    epoch: count('Of its writer: higher with each that took it over.'),
    damaged_on: nodes,
    unproven_on: nodes,
    failing_on: nodes,
    sequence: wholeOrNull({
      description: 'Of the last record of its log; null: it is written elsewhere.',
    }),
    checkpoint_lag: Type.Optional(
      wholeOrNull({
        description: 'In a cluster: records that its views do not have yet; null: it is written elsewhere.',
      }),
    ),
  }),
);
export const WriteFormat = object('WriteFormat', {
  object: Type.Literal('write_format'),
  format: count('The format that records are written in from now on.'),
  message: Type.String({ description: 'For people.' }),
});
export const Health = object('Health', { status: Type.String({ description: '`ok`, or `ready`.' }) });
