// Examples of the operators' document: the shop of the merchants' examples, seen by who runs the service. Tests hold each against
// its schema.

import * as merchants from '../http/examples.ts';

const ids = {
  account: 'acc_01KAG000000A1B2C3D4E5F6G00',
  owner: 'usr_01KAG000010A1B2C3D4E5F6G00',
  clerk: 'usr_01KAG000020A1B2C3D4E5F6G00',
  app: 'app_01KAG000030A1B2C3D4E5F6G00',
};
/** The account's id, and what is random of a real one. */
const KEY_BODY = `${ids.account.slice(4)}${'0'.repeat(32)}`;
const created_at = '2026-11-20T08:00:00.000Z';
const later = '2026-11-21T10:00:00.000Z';

export function list(...data: readonly unknown[]) {
  return { object: 'list', data };
}
/** The first of several. */
export function page(item: { readonly id: string }) {
  return { object: 'list', ...merchants.page(item) };
}

// ---- Accounts, members, apps

export const createAccount = {
  name: 'Kampala Coffee',
  country: 'UG',
  live: true,
  payouts_enabled: true,
  withdrawals_enabled: true,
  idempotency_key: 'kampala-coffee-2026',
};
export const accountEntry = {
  id: ids.account,
  object: 'account',
  name: 'Kampala Coffee',
  country: 'UG',
  opened: true,
  created_at,
};
export const goLive = { live: true, payouts_enabled: true };
export const ownTerms = {
  approval_thresholds: { UGX: '10000000' },
  fees: { CHARGE: { UGX: { basis_points: 200, cap: '50000' } } },
  limits: { PAYOUT: { UGX: { maximum: '2000000', daily: '20000000' }, KES: null } },
};

export const addUser = { email: 'owner@coffee.test', role: 'OWNER' };
export const user = { id: ids.owner, object: 'user', ...addUser, created_at, removed_at: null };
export const changeUser = { role: 'ADMIN', by: ids.owner };
export const clerk = { ...user, id: ids.clerk, email: 'clerk@coffee.test', role: 'ADMIN' };
export const clerkRemoved = { ...clerk, removed_at: later };

const webhook_url = 'https://coffee.test/webhooks';
export const connectApp = {
  name: 'Shop',
  domain: 'coffee.test',
  webhook_url,
  idempotency_key: 'kampala-coffee-shop',
};
export const changeApp = { webhook_url };
export const app = {
  id: ids.app,
  object: 'app',
  name: 'Shop',
  domain: 'coffee.test',
  publishable_key: `pk_live_${KEY_BODY}`,
  webhook_url,
  created_at,
  removed_at: null,
};
export const appRemoved = { ...app, removed_at: later };
const signing_secret = `whsec_${'0'.repeat(43)}`;
export const connectedApp = { ...app, secret_key: `sk_live_${KEY_BODY}`, signing_secret };
export const signingSecret = { id: ids.app, signing_secret };

// ---- Money

export const by = { by: ids.owner };
const till = { label: 'Till float', network: 'MTN', country: 'UG' };
export const addWallet = { ...till, msisdn: '+256772123456', ...by };
export const [wallet] = merchants.payoutDestinations.data;
export const walletPending = { ...wallet, status: 'PENDING_APPROVAL', active_at: null };
export const walletCoolingOff = { ...wallet, status: 'COOLING_OFF' };
export const walletRevoked = { ...wallet, status: 'REVOKED' };

const { id, object } = merchants.withdrawal;
export const approved = { id, object, status: 'PENDING_PROVIDER', approval_status: 'APPROVED' };
export const rejected = { id, object, status: 'FAILED', approval_status: 'REJECTED' };
const statement = 'J. Okello of MTN, by e-mail of 2026-11-21, ticket 4711.';
export const settlePaid = { outcome: 'SUCCESSFUL', statement, provider_transaction_id: '8245671123' };
export const settleFailed = { outcome: 'FAILED', statement, failure_code: 'wallet_not_found' };
export const settled = { id: merchants.payout.id, object: 'payout', status: 'SUCCESSFUL' };

export const createDeposit = { ...merchants.depositBody, ...by, idempotency_key: 'topup-9-of-2026-11-21' };
export const { deposit } = merchants;
export const trialBalance = {
  object: 'trial_balance',
  account_id: ids.account,
  balanced: true,
  data: [
    {
      currency: 'UGX',
      accounts: {
        MERCHANT_PENDING: '48750',
        MERCHANT_AVAILABLE: '1250000',
        FEES_REVENUE: '1250',
        PROVIDER_FLOAT: '1300000',
        SETTLEMENT_CLEARING: '0',
      },
      sum: '0',
    },
  ],
};
export const account = {
  id: ids.account,
  object: 'account',
  name: 'Kampala Coffee',
  country: 'UG',
  live: true,
  payouts_enabled: true,
  withdrawals_enabled: true,
  approval_thresholds: { UGX: '10000000' },
  cash_out_per_minute: null,
  fees: { CHARGE: { UGX: { fixed: '0', basis_points: 200, floor: null, cap: '50000' } } },
  limits: { PAYOUT: { UGX: { maximum: '2000000', daily: '20000000', monthly: null } } },
  users: [user],
  apps: [app],
  wallets: [wallet],
  balances: merchants.balances.data,
  created_at,
};
export const accountOpened = {
  ...account,
  approval_thresholds: {},
  fees: {},
  limits: {},
  users: [],
  apps: [],
  wallets: [],
  balances: [],
};

export const reconciliation = {
  id: 'rec_01KAJ4B3RM0Y7Z2A5B9C4D6EZ9',
  object: 'reconciliation',
  account_id: ids.account,
  kind: 'SUCCESS_AFTER_FINAL',
  transaction_id: merchants.depositFailed.id,
  detail:
    'The provider says SUCCESSFUL (SUCCESSFUL), 100000 UGX, its id 8245671124. Ours: FAILED (expired), 100000 UGX.',
  raised_at: '2026-11-21T10:03:12.540Z',
  resolved_at: null,
  resolved_by: null,
  resolution: null,
};
export const resolve = {
  account_id: ids.account,
  resolution: 'MTN returned it to the customer on 2026-11-22, ticket 4712.',
};
export const reconciliationResolved = {
  ...reconciliation,
  resolved_at: '2026-11-22T09:00:00.000Z',
  resolved_by: 'amina',
  resolution: resolve.resolution,
};

// ---- Deliveries

export const delivery = {
  id: 'dlv_01KAJ3W8Q07M4R2N9X5T6V1B04',
  object: 'delivery',
  account_id: ids.account,
  app_id: ids.app,
  event_id: 'evt_01KAJ3W8Q07M4R2N9X5T6V1B04',
  event_type: 'charge.successful',
  transaction_id: merchants.charge.id,
  status: 'RETRYING',
  url: webhook_url,
  next_attempt_at: '2026-11-21T09:30:52.000Z',
  created_at: '2026-11-21T09:30:21.007Z',
  attempts: [
    {
      at: '2026-11-21T09:30:21.310Z',
      status_code: 503,
      error: 'http_status',
      duration_ms: 84,
      excerpt: 'Down for maintenance',
    },
  ],
};
export const deliveryReplayed = { ...delivery, status: 'PENDING', next_attempt_at: later };
export const replayFailed = { since: '2026-11-21T12:00:00Z' };
export const replayed = { replayed: 37, has_more: false };

// ---- The service

export const auditEntry = {
  id: 'aud_01KAG000000A1B2C3D4E5F6G00',
  object: 'audit_entry',
  operator: 'amina',
  action: 'POST /operator/v1/accounts',
  target: '/operator/v1/accounts',
  body: createAccount,
  outcome: 'done',
  status: 201,
  code: null,
  object_id: ids.account,
  created_at,
  ended_at: '2026-11-20T08:00:00.021Z',
};
export const rail = {
  id: 'mtn_ug',
  health: 'OPERATIONAL',
  breaker: 'closed',
  calling: 3,
  submits_waiting: 0,
  enquiries_waiting: 12,
  submits: 48_210,
  enquiries: 61_034,
  failures: 17,
  our_faults: 0,
  last_failure: 'HTTP 503',
  last_failure_at: '2026-11-21T07:12:44.000Z',
};
export const partition = { group: 'accounts', partition: 0, node: 'ledger-1', epoch: 4, sequence: 918_273 };
export const writeFormat = {
  object: 'write_format',
  format: 4,
  message: 'Records are written in format 4, the newest of this version.',
};
