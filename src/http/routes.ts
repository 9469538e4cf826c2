// The registry of the merchants' interface, part 4 of the specification: everything that a path accepts, answers and
// refuses is written here once. The order is the specification's.

import type { ErrorCode } from '../domain/error-code.ts';
import { parseLowerBound, parseUpperBound } from '../domain/time.ts';
import type { ByMerchant, TransactionFilter } from '../domain/account-command.ts';
import type { TransactionType } from '../domain/transaction.ts';
import type { Static, TSchema } from './json-schema.ts';
import { withOpenApi } from './openapi-route.ts';
import type { DocumentInfo } from './openapi.ts';
import * as examples from './examples.ts';
import {
  JSON_TYPE,
  readRoute,
  type CreateRoute,
  type PathParameter,
  type ReadCall,
  type ReadRoute,
  type Route,
  type Surface,
} from './route.ts';
import * as schemas from './schemas.ts';

// ---- Parts that routes share

/** What any create that names a wallet number may be refused for. */
export const walletErrors: readonly ErrorCode[] = [
  'invalid_msisdn',
  'network_required',
  'network_not_supported',
  'currency_mismatch',
];
export const limitErrors: readonly ErrorCode[] = [
  'amount_below_minimum',
  'amount_above_maximum',
  'daily_limit_exceeded',
  'monthly_limit_exceeded',
];
const CASH_OUT_RATE =
  'An account makes at most 60 payouts and withdrawals together in a minute, unless its operator has set another number.';
const cashOutErrors: readonly ErrorCode[] = ['insufficient_balance', 'rate_limit_exceeded'];

function reply(
  status: 200 | 201,
  description: string,
  schema: TSchema,
  shown: Readonly<Record<string, unknown>>,
): Route['reply'] {
  return { status, description, contentType: JSON_TYPE, schema, examples: shown };
}

function idParameter(
  kind: 'charge' | 'payout' | 'withdrawal' | 'deposit',
  notFound: ErrorCode,
): Record<'id', PathParameter> {
  const schema = schemas.idSchema(kind, `Id of the ${kind}.`);
  return { id: { schema, notFound } };
}

const noParameters: Readonly<Record<string, PathParameter>> = {};

/** What every message of a merchant has. */
function senderOf({ accountId, deadline, keyHash, problem }: ByMerchant): ByMerchant {
  return { accountId, deadline, keyHash, problem };
}

function getObject(
  type: TransactionType,
  view: 'object' | 'timeline',
): (call: ReadCall<unknown>) => ReturnType<ReadRoute['message']> {
  return (call) => ({
    ...senderOf(call),
    type: 'GetTransaction',
    id: call.id,
    view,
    kind: type,
  });
}

type ListQuery = Static<typeof schemas.ObjectListQuery>;

function listObjects(type: TransactionType): (call: ReadCall<ListQuery>) => ReturnType<ReadRoute['message']> {
  return (call) => ({
    ...senderOf(call),
    type: 'ListTransactions',
    filter: {
      type,
      status: call.query.status,
      reference: call.query.reference,
      country: call.query.country,
      network: call.query.network,
      createdAfter: timeOf(call.query.created_after, parseLowerBound),
      createdBefore: timeOf(call.query.created_before, parseUpperBound),
    },
    view: 'object',
    limit: limitOf(call.query.limit),
    startingAfter: call.query.starting_after ?? null,
  });
}

/** The schema has said that it parses. */
function timeOf(text: string | undefined, parse: (text: string) => number | null): number | undefined {
  return text === undefined ? undefined : (parse(text) ?? undefined);
}

function limitOf(limit: number | undefined): number {
  return limit ?? schemas.PAGE_LIMIT_DEFAULT;
}

// ---- Charges

const createCharge: CreateRoute = {
  type: 'create',
  creates: 'CreateCharge',
  method: 'POST',
  path: '/v1/charges',
  operationId: 'createCharge',
  tag: 'Charges',
  summary: 'Create a charge',
  description:
    'Collects money from a wallet into your pending balance. The owner gets a prompt and approves it with a PIN; the ' +
    'outcome arrives by webhook. 201 means that the charge exists, even when its status is already `FAILED`.',
  parameters: noParameters,
  body: schemas.CreateChargeBody,
  bodyExamples: { charge: examples.chargeBody },
  reply: reply(201, 'The charge.', schemas.Charge, {
    awaitingCustomer: examples.charge,
    refusedOutright: examples.chargeRefused,
  }),
  errors: [...walletErrors, ...limitErrors],
};
const getCharge = readRoute({
  method: 'GET',
  path: '/v1/charges/:id',
  operationId: 'getCharge',
  tag: 'Charges',
  summary: 'Get a charge',
  description: 'The authoritative state of a charge. Poll no more often than every 10 to 15 seconds.',
  parameters: idParameter('charge', 'charge_not_found'),
  query: null,
  reply: reply(200, 'The charge.', schemas.Charge, { successful: examples.chargeSuccessful }),
  errors: ['charge_not_found'],
  message: getObject('CHARGE', 'object'),
});
const listCharges = readRoute({
  method: 'GET',
  path: '/v1/charges',
  operationId: 'listCharges',
  tag: 'Charges',
  summary: 'List charges',
  description: 'Newest first.',
  parameters: noParameters,
  query: schemas.ObjectListQuery,
  reply: reply(200, 'A page of charges.', schemas.ChargePage, { page: examples.page(examples.charge) }),
  errors: [],
  isList: true,
  message: listObjects('CHARGE'),
});
const getChargeTimeline = readRoute({
  method: 'GET',
  path: '/v1/charges/:id/timeline',
  operationId: 'getChargeTimeline',
  tag: 'Charges',
  summary: 'Get a charge with its history',
  description: 'The charge, its status events in order and its ledger entries.',
  parameters: idParameter('charge', 'charge_not_found'),
  query: null,
  reply: reply(200, 'The charge, its events and its ledger entries.', schemas.ChargeTimeline, {
    successful: { charge: examples.chargeSuccessful, ...examples.history },
  }),
  errors: ['charge_not_found'],
  message: getObject('CHARGE', 'timeline'),
});

// ---- Payouts

const createPayout: CreateRoute = {
  type: 'create',
  creates: 'CreatePayout',
  method: 'POST',
  path: '/v1/payouts',
  operationId: 'createPayout',
  tag: 'Payouts',
  summary: 'Create a payout',
  description:
    'Sends `amount` from your available balance to any wallet. `amount` + fee is held at once and returned in full if ' +
    'the payout fails. While it is in flight `fee` is 0 and `total_debited` shows only the amount. ' +
    CASH_OUT_RATE,
  parameters: noParameters,
  body: schemas.CreatePayoutBody,
  bodyExamples: { payout: examples.payoutBody },
  reply: reply(201, 'The payout.', schemas.Payout, { inFlight: examples.payout }),
  errors: ['payouts_not_enabled_live', ...walletErrors, ...limitErrors, ...cashOutErrors],
};
const getPayout = readRoute({
  method: 'GET',
  path: '/v1/payouts/:id',
  operationId: 'getPayout',
  tag: 'Payouts',
  summary: 'Get a payout',
  description: 'The authoritative state of a payout.',
  parameters: idParameter('payout', 'payout_not_found'),
  query: null,
  reply: reply(200, 'The payout.', schemas.Payout, { successful: examples.payoutSuccessful }),
  errors: ['payout_not_found'],
  message: getObject('PAYOUT', 'object'),
});
const listPayouts = readRoute({
  method: 'GET',
  path: '/v1/payouts',
  operationId: 'listPayouts',
  tag: 'Payouts',
  summary: 'List payouts',
  description: 'Newest first.',
  parameters: noParameters,
  query: schemas.ObjectListQuery,
  reply: reply(200, 'A page of payouts.', schemas.PayoutPage, { page: examples.page(examples.payout) }),
  errors: [],
  isList: true,
  message: listObjects('PAYOUT'),
});

// ---- Withdrawals

const createWithdrawal: CreateRoute = {
  type: 'create',
  creates: 'CreateWithdrawal',
  method: 'POST',
  path: '/v1/withdrawals',
  operationId: 'createWithdrawal',
  tag: 'Withdrawals',
  summary: 'Create a withdrawal',
  description:
    'Sends `amount` from your available balance to one of your own approved payout wallets. Above the account’s ' +
    'approval threshold it waits, `INITIATED` and `PENDING`, until a team member approves it in the dashboard. ' +
    CASH_OUT_RATE,
  parameters: noParameters,
  body: schemas.CreateWithdrawalBody,
  bodyExamples: { withdrawal: examples.withdrawalBody },
  reply: reply(201, 'The withdrawal.', schemas.Withdrawal, { waitsForApproval: examples.withdrawal }),
  errors: [
    'withdrawals_not_enabled_live',
    'destination_not_found',
    'destination_not_active',
    'currency_mismatch',
    'network_not_supported',
    ...limitErrors,
    ...cashOutErrors,
  ],
};
const getWithdrawal = readRoute({
  method: 'GET',
  path: '/v1/withdrawals/:id',
  operationId: 'getWithdrawal',
  tag: 'Withdrawals',
  summary: 'Get a withdrawal',
  description: 'The authoritative state of a withdrawal. To list them: GET /v1/transactions?type=WITHDRAWAL.',
  parameters: idParameter('withdrawal', 'withdrawal_not_found'),
  query: null,
  reply: reply(200, 'The withdrawal.', schemas.Withdrawal, { successful: examples.withdrawalSuccessful }),
  errors: ['withdrawal_not_found'],
  message: getObject('WITHDRAWAL', 'object'),
});

// ---- Deposits

const createDeposit: CreateRoute = {
  type: 'create',
  creates: 'CreateDeposit',
  method: 'POST',
  path: '/v1/deposits',
  operationId: 'createDeposit',
  tag: 'Deposits',
  summary: 'Create a deposit',
  description:
    'Tops up your available balance from your own wallet: `amount` in full, no fee, available immediately on success.',
  parameters: noParameters,
  body: schemas.CreateDepositBody,
  bodyExamples: { deposit: examples.depositBody },
  reply: reply(201, 'The deposit.', schemas.Deposit, { awaitingCustomer: examples.deposit }),
  errors: [...walletErrors, ...limitErrors],
};
const getDeposit = readRoute({
  method: 'GET',
  path: '/v1/deposits/:id',
  operationId: 'getDeposit',
  tag: 'Deposits',
  summary: 'Get a deposit',
  description: 'The authoritative state of a deposit. To list them: GET /v1/transactions?type=DEPOSIT.',
  parameters: idParameter('deposit', 'deposit_not_found'),
  query: null,
  reply: reply(200, 'The deposit.', schemas.Deposit, { successful: examples.depositSuccessful }),
  errors: ['deposit_not_found'],
  message: getObject('DEPOSIT', 'object'),
});

// ---- Transactions

const listTransactions = readRoute({
  method: 'GET',
  path: '/v1/transactions',
  operationId: 'listTransactions',
  tag: 'Transactions',
  summary: 'List all money movements',
  description:
    'Newest first. `type=WITHDRAWAL&approval_status=PENDING` shows what waits for a second approver.',
  parameters: noParameters,
  query: schemas.TransactionListQuery,
  reply: reply(200, 'A page of transactions.', schemas.TransactionPage, {
    page: examples.page(examples.transaction),
  }),
  errors: [],
  isList: true,
  message: (call) => {
    const filter: TransactionFilter = {
      type: call.query.type,
      status: call.query.status,
      approvalStatus: call.query.approval_status,
      reference: call.query.reference,
      currency: call.query.currency,
    };
    return {
      ...senderOf(call),
      type: 'ListTransactions',
      filter,
      view: 'transaction',
      limit: limitOf(call.query.limit),
      startingAfter: call.query.starting_after ?? null,
    };
  },
});
const getTransaction = readRoute({
  method: 'GET',
  path: '/v1/transactions/:id',
  operationId: 'getTransaction',
  tag: 'Transactions',
  summary: 'Get any money movement with its history',
  description: 'Any transaction id works. Status events in order, and ledger entries.',
  parameters: { id: { schema: schemas.TransactionId, notFound: 'transaction_not_found' } },
  query: null,
  reply: reply(200, 'The transaction, its events and its ledger entries.', schemas.TransactionDetail, {
    charge: { transaction: examples.transaction, ...examples.history },
  }),
  errors: ['transaction_not_found'],
  message: (call) => ({
    ...senderOf(call),
    type: 'GetTransaction',
    id: call.id,
    view: 'detail',
    kind: null,
  }),
});

// ---- Balances and payout wallets

const getBalances = readRoute({
  method: 'GET',
  path: '/v1/balances',
  operationId: 'getBalances',
  tag: 'Balances',
  summary: 'Get balances',
  description:
    'One row per currency you have transacted in. Held money is already excluded from `available`.',
  parameters: noParameters,
  query: schemas.NoQuery,
  reply: reply(200, 'The balances.', schemas.BalanceList, { balances: examples.balances }),
  errors: [],
  message: (call) => ({
    ...senderOf(call),
    type: 'GetBalances',
  }),
});
const listPayoutDestinations = readRoute({
  method: 'GET',
  path: '/v1/payout_destinations',
  operationId: 'listPayoutDestinations',
  tag: 'Payout wallets',
  summary: 'List payout wallets',
  description:
    'Your own wallets that withdrawals may go to. They are added and approved in the dashboard only.',
  parameters: noParameters,
  query: schemas.NoQuery,
  reply: reply(200, 'The payout wallets.', schemas.PayoutDestinationList, {
    wallets: examples.payoutDestinations,
  }),
  errors: [],
  isList: true,
  message: (call) => ({
    ...senderOf(call),
    type: 'ListPayoutDestinations',
  }),
});

const merchantRoutes: readonly Route[] = [
  createCharge,
  getCharge,
  listCharges,
  getChargeTimeline,
  createPayout,
  getPayout,
  listPayouts,
  createWithdrawal,
  getWithdrawal,
  createDeposit,
  getDeposit,
  listTransactions,
  getTransaction,
  getBalances,
  listPayoutDestinations,
];

const documentInfo: DocumentInfo = {
  title: 'Daftari',
  description:
    'Moves money between a merchant’s balance and mobile money wallets: MTN and Airtel in Uganda, Kenya and Ghana. ' +
    'A 4xx or 5xx answer means that nothing was created. Money is in integer minor units, as strings. Answers and events may ' +
    'get more fields within this version: pass over those that you do not know. A body with a field that is not here is refused.',
  token: 'A secret key, `sk_live_…`. From a server only, never from a browser.',
  tags: {
    Charges: 'Collect from a wallet into your pending balance.',
    Payouts: 'Send from your available balance to any wallet.',
    Withdrawals: 'Send from your available balance to one of your own approved wallets.',
    Deposits: 'Top up your available balance from your own wallet.',
    Transactions: 'All money movements in one view.',
    Balances: 'Pending and available, per currency.',
    'Payout wallets': 'Your own wallets that withdrawals may go to.',
    Webhooks: 'What is sent to your webhook URL.',
    Document: 'This document.',
  },
  hasWebhooks: true,
};

/** `/v1` and its document; `extra`: routes on the same host that are not part of it. */
export function merchantSurface(extra: readonly Route[]): Surface {
  const v1: Surface = { name: 'v1', routes: merchantRoutes, authorise: null };
  const { routes } = withOpenApi(v1, documentInfo);
  return { ...v1, routes: [...routes, ...extra] };
}
