// Examples of the OpenAPI document: one consistent little story, so that ids and amounts agree across pages. Tests
// check each against its schema, and its fee against the default policy.

const chargeId = 'chg_01KAJ3W8Q07M4R2N9X5T6V1B00';
const payoutId = 'pyt_01KAJ41M2G0C8K3H7P4S9D2E00';
const withdrawalId = 'wdl_01KAJ46ZT00A1B2C3D4E5F6G00';
const depositId = 'dep_01KAJ4A9XW0J5K6M7N8P9Q1R00';
const walletId = 'wal_01KAG00000S2T3V4W5X6Y7Z800';
// Others of the same kinds: what has failed is not what has succeeded.
const failedChargeId = 'chg_01KAJ3Z1F05K8Q3W6E9R2T4Y00';
const failedPayoutId = 'pyt_01KAJ42C700D9F5H1J3K7M2N00';
const failedWithdrawalId = 'wdl_01KAJ48E2H0P6R1S4T8V3W5X00';
const failedDepositId = 'dep_01KAJ4B3RM0Y7Z2A5B9C4D6E00';

const created_at = '2026-11-21T09:30:00.000Z';
/** In the status that it was created with. */
const unchangedTimes = { created_at, updated_at: created_at };
/** The rail has answered. */
const times = { created_at, updated_at: '2026-11-21T09:30:00.412Z' };
const settledTimes = { created_at, updated_at: '2026-11-21T09:30:21.007Z' };
const expiredTimes = { created_at, updated_at: '2026-11-21T10:00:00.018Z' };
const reversedTimes = { created_at, updated_at: '2026-11-21T16:12:40.118Z' };
const toWallet = {
  currency: 'UGX',
  country: 'UG',
  network: 'MTN',
  msisdn_masked: '25677****456',
};
const noFailure = { failure_code: null, failure_message: null };

export const chargeBody = {
  amount: '50000',
  currency: 'UGX',
  msisdn: '+256772123456',
  reference: 'order-1042',
  description: 'Order 1042',
  metadata: { basket: 3, gift: false },
};
export const charge = {
  id: chargeId,
  object: 'charge',
  status: 'AWAITING_CUSTOMER',
  amount: '50000',
  ...toWallet,
  reference: 'order-1042',
  description: 'Order 1042',
  fee: '0',
  net: '50000',
  provider: 'mtn_ug',
  ...noFailure,
  metadata: { basket: 3, gift: false },
  ...times,
};
export const chargeSuccessful = {
  ...charge,
  status: 'SUCCESSFUL',
  fee: '1250',
  net: '48750',
  ...settledTimes,
};
export const chargeFailed = {
  ...charge,
  id: failedChargeId,
  status: 'FAILED',
  failure_code: 'customer_declined',
  failure_message: 'The customer declined the prompt.',
  ...settledTimes,
};
/** By the rail, before any prompt. */
export const chargeRefused = {
  ...charge,
  status: 'FAILED',
  failure_code: 'wallet_not_found',
  failure_message: 'There is no wallet on that number.',
};
export const chargeReversed = { ...chargeSuccessful, status: 'REVERSED', ...reversedTimes };

export const payoutBody = {
  amount: '20000',
  currency: 'UGX',
  msisdn: '+256772123456',
  reference: 'salary-77',
  narration: 'November salary',
};
export const payout = {
  id: payoutId,
  object: 'payout',
  status: 'PENDING_PROVIDER',
  amount: '20000',
  ...toWallet,
  reference: 'salary-77',
  fee: '0',
  total_debited: '20000',
  provider: 'mtn_ug',
  approval_status: 'NOT_REQUIRED',
  ...noFailure,
  metadata: null,
  ...unchangedTimes,
};
export const payoutSuccessful = {
  ...payout,
  status: 'SUCCESSFUL',
  fee: '500',
  total_debited: '20500',
  ...settledTimes,
};
export const payoutFailed = {
  ...payout,
  id: failedPayoutId,
  status: 'FAILED',
  failure_code: 'wallet_not_found',
  failure_message: 'There is no wallet on that number.',
  ...settledTimes,
};

export const withdrawalBody = {
  amount: '6000000',
  currency: 'UGX',
  destination: walletId,
  reference: 'sweep-2026-11',
};
export const withdrawal = {
  id: withdrawalId,
  object: 'withdrawal',
  status: 'INITIATED',
  amount: '6000000',
  currency: 'UGX',
  country: 'UG',
  network: 'MTN',
  destination: walletId,
  msisdn_masked: '25677****456',
  reference: 'sweep-2026-11',
  fee: '10000',
  total_debited: '6010000',
  provider: 'mtn_ug',
  approval_status: 'PENDING',
  ...noFailure,
  metadata: null,
  ...unchangedTimes,
};
export const withdrawalSuccessful = {
  ...withdrawal,
  status: 'SUCCESSFUL',
  approval_status: 'APPROVED',
  ...settledTimes,
};
export const withdrawalFailed = {
  ...withdrawal,
  id: failedWithdrawalId,
  status: 'FAILED',
  approval_status: 'REJECTED',
  failure_code: 'approval_rejected',
  failure_message: 'A team member rejected the withdrawal.',
  ...settledTimes,
};

export const depositBody = {
  amount: '100000',
  currency: 'UGX',
  msisdn: '+256772123456',
  reference: 'topup-9',
};
export const deposit = {
  id: depositId,
  object: 'deposit',
  status: 'AWAITING_CUSTOMER',
  amount: '100000',
  ...toWallet,
  reference: 'topup-9',
  description: null,
  provider: 'mtn_ug',
  ...noFailure,
  metadata: null,
  ...times,
};
export const depositSuccessful = { ...deposit, status: 'SUCCESSFUL', ...settledTimes };
export const depositFailed = {
  ...deposit,
  id: failedDepositId,
  status: 'FAILED',
  failure_code: 'expired',
  failure_message: 'The customer did not answer in time.',
  ...expiredTimes,
};

export const transaction = {
  id: chargeId,
  object: 'transaction',
  type: 'CHARGE',
  approval_status: 'NOT_REQUIRED',
  status: 'SUCCESSFUL',
  amount: '50000',
  ...toWallet,
  reference: 'order-1042',
  fee: '1250',
  net: '48750',
  provider: 'mtn_ug',
  metadata: { basket: 3, gift: false },
  ...settledTimes,
};

function statusEvent(
  suffix: string,
  status: string,
  source: string,
  provider_status: string | null,
  at: string,
) {
  return {
    id: chargeId.replace('chg_', 'evt_').replace(/00$/, suffix),
    status,
    source,
    provider_status,
    message: null,
    created_at: at,
  };
}
function ledgerEntry(suffix: string, account: string, side: string, amount: string) {
  return {
    id: chargeId.replace('chg_', 'ent_').replace(/00$/, suffix),
    journal_id: chargeId.replace('chg_', 'jrn_').replace(/00$/, '01'),
    account,
    side,
    amount,
    currency: 'UGX',
    reason: 'CHARGE_SETTLED',
    created_at: settledTimes.updated_at,
  };
}
export const history = {
  events: [
    statusEvent('01', 'INITIATED', 'API', null, created_at),
    statusEvent('02', 'PENDING_PROVIDER', 'API', null, created_at),
    statusEvent('03', 'AWAITING_CUSTOMER', 'API', 'PENDING', times.updated_at),
    statusEvent('04', 'SUCCESSFUL', 'PROVIDER_CALLBACK', 'SUCCESSFUL', settledTimes.updated_at),
  ],
  ledger: [
    ledgerEntry('01', 'PROVIDER_FLOAT', 'DEBIT', '50000'),
    ledgerEntry('02', 'MERCHANT_PENDING', 'CREDIT', '48750'),
    ledgerEntry('03', 'FEES_REVENUE', 'CREDIT', '1250'),
  ],
};

export const balances = {
  object: 'list',
  data: [{ currency: 'UGX', available: '1250000', pending: '48750' }],
};
export const payoutDestinations = {
  object: 'list',
  data: [
    {
      id: walletId,
      object: 'payout_destination',
      label: 'Till float',
      status: 'ACTIVE',
      country: 'UG',
      network: 'MTN',
      currency: 'UGX',
      msisdn_masked: '25677****456',
      created_at: '2026-11-20T08:00:00.000Z',
      active_at: '2026-11-21T08:05:00.000Z',
    },
  ],
};

export function page(item: { readonly id: string }) {
  return { data: [item], has_more: true, next_cursor: item.id };
}
