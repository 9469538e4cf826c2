// What members of an account do in the dashboard, and what operators see of its money: wallets, approvals, deposits, the
// trial balance, reconciliation. Who may do what is decided by the account (decide-dashboard.ts), not here.

import { rejectedReply, type Reply } from '../bus/bus.ts';
import type { ListReconciliation } from '../domain/account-command.ts';
import { rejection } from '../domain/error-code.ts';
import type { ErrorCode } from '../domain/error-code.ts';
import { isId } from '../domain/id.ts';
import type { PlainRoute } from '../http/route.ts';
import { limitErrors, walletErrors } from '../http/routes.ts';
import { Deposit, PayoutDestination } from '../http/schemas.ts';
import { partOfAccount } from './account-routes.ts';
import { askAccount, askEveryPartition } from './context.ts';
import type { OperatorContext } from './context.ts';
import { done, operatorRoute, pageOf, repeatableOf } from './route.ts';
import * as replies from './reply-schemas.ts';
import * as schemas from './schemas.ts';

export function moneyRoutes(context: OperatorContext): readonly PlainRoute[] {
  return [
    ...ofWallets(context),
    ...ofWithdrawals(context),
    settlement(context),
    ...ofBooks(context),
    ...ofReconciliation(context),
  ];
}

function ofWallets(context: OperatorContext): PlainRoute[] {
  const tag = 'Payout wallets';
  const decide = (type: 'ApproveWallet' | 'RevokeWallet', verb: string, summary: string): PlainRoute =>
    operatorRoute(context, {
      method: 'POST',
      path: `/accounts/:account_id/wallets/:wallet_id/${verb}`,
      operationId: `${verb}Wallet`,
      tag,
      summary,
      body: schemas.ByBody,
      errors: ['not_permitted', 'destination_not_found', 'conflict'],
      reply: PayoutDestination,
      handle: ({ body, operator, deadline, parameters }, accountId) =>
        askAccount(context, {
          type,
          accountId,
          walletId: parameters.wallet_id,
          by: body.by,
          operator,
          deadline,
        }),
    });
  return [
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts/:account_id/wallets',
      operationId: 'addWallet',
      tag,
      summary: 'Add a payout wallet (owners and admins)',
      body: schemas.AddWalletBody,
      status: 201,
      errors: ['not_permitted', 'invalid_msisdn', 'network_required', 'conflict'],
      reply: PayoutDestination,
      handle: ({ body, operator, deadline }, accountId) => {
        const { label, msisdn, network = null, country = null, by } = body;
        const wallet = { label, msisdn, network, country, by };
        return askAccount(context, { type: 'AddWallet', accountId, ...wallet, operator, deadline });
      },
    }),
    partOfAccount(context, 'wallets'),
    decide('ApproveWallet', 'approve', 'Approve a payout wallet (owners; another than who added it)'),
    decide('RevokeWallet', 'revoke', 'Revoke a payout wallet (owners and admins)'),
  ];
}

/** What may have been switched off, revoked or removed since it was requested. */
const APPROVAL_ERRORS = [
  'live_mode_not_enabled',
  'withdrawals_not_enabled_live',
  'destination_not_active',
  'network_not_supported',
] as const satisfies readonly ErrorCode[];

function ofWithdrawals(context: OperatorContext): PlainRoute[] {
  const decide = (type: 'ApproveWithdrawal' | 'RejectWithdrawal', verb: string): PlainRoute =>
    operatorRoute(context, {
      method: 'POST',
      path: `/accounts/:account_id/withdrawals/:withdrawal_id/${verb}`,
      operationId: `${verb}Withdrawal`,
      tag: 'Withdrawals',
      summary: `${verb === 'approve' ? 'Approve' : 'Reject'} a withdrawal (any member but the requester)`,
      body: schemas.ByBody,
      errors: [
        'not_permitted',
        'withdrawal_not_found',
        'conflict',
        ...(verb === 'approve' ? APPROVAL_ERRORS : []),
      ],
      reply: replies.Verdict,
      handle: ({ body, operator, deadline, parameters }, accountId) => {
        const transactionId = parameters.withdrawal_id;
        const { by } = body;
        return askAccount(context, { type, accountId, transactionId, by, operator, deadline });
      },
    });
  return [decide('ApproveWithdrawal', 'approve'), decide('RejectWithdrawal', 'reject')];
}

function settlement(context: OperatorContext): PlainRoute {
  return operatorRoute(context, {
    method: 'POST',
    path: '/accounts/:account_id/transactions/:transaction_id/settle',
    operationId: 'settleCashOut',
    tag: 'Reconciliation',
    summary: 'Say what became of a payout or withdrawal of which its provider says nothing final',
    body: schemas.SettleBody,
    errors: ['transaction_not_found', 'conflict'],
    reply: replies.Settlement,
    handle: async ({ body, operator, deadline, parameters }, accountId) => {
      const { outcome } = body;
      // A person who says both may mean the other outcome, and money that was settled stays so.
      const foreign = outcome === 'FAILED' ? 'provider_transaction_id' : 'failure_code';
      if (body[foreign] !== undefined) {
        const message = `\`${foreign}\` does not go with the outcome ${outcome}.`;
        return rejectedReply(rejection('validation_failed', message, foreign));
      }
      return askAccount(context, {
        type: 'SettleCashOut',
        accountId,
        transactionId: parameters.transaction_id,
        outcome,
        failureCode: body.failure_code ?? 'unknown',
        providerTransactionId: body.provider_transaction_id ?? null,
        operator,
        deadline,
      });
    },
  });
}

function ofBooks(context: OperatorContext): PlainRoute[] {
  return [
    operatorRoute(context, {
      method: 'POST',
      path: '/accounts/:account_id/deposits',
      operationId: 'createDashboardDeposit',
      tag: 'Deposits',
      summary: 'Deposit from the dashboard (owners, admins, finance)',
      body: schemas.DepositBody,
      status: 201,
      errors: [
        'not_permitted',
        'live_mode_not_enabled',
        'idempotency_key_reused',
        ...walletErrors,
        ...limitErrors,
      ],
      reply: Deposit,
      handle: ({ body, operator, deadline }, accountId) => {
        const { by, idempotency_key: _, ...input } = body;
        return askAccount(context, {
          type: 'CreateDashboardDeposit',
          accountId,
          input,
          by,
          repeatable: repeatableOf(body),
          operator,
          deadline,
        });
      },
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/accounts/:account_id/trial_balance',
      operationId: 'getTrialBalance',
      tag: 'Ledger',
      summary: 'Sums of every ledger account per currency',
      reply: replies.TrialBalance,
      handle: (_, accountId) => askAccount(context, { type: 'GetTrialBalance', accountId }),
    }),
  ];
}

function ofReconciliation(context: OperatorContext): PlainRoute[] {
  const tag = 'Reconciliation';
  return [
    operatorRoute(context, {
      method: 'GET',
      path: '/reconciliation',
      operationId: 'listReconciliation',
      tag,
      summary: 'Where a provider contradicts the ledger, newest transactions first',
      query: schemas.ReconciliationQuery,
      errors: ['invalid_cursor'],
      reply: replies.ReconciliationPage,
      handle: ({ query }) => {
        const { account: accountId = '', open = false } = query;
        return listReconciliation(context, { type: 'ListReconciliation', accountId, open, ...pageOf(query) });
      },
    }),
    operatorRoute(context, {
      method: 'POST',
      path: '/reconciliation/:reconciliation_id/resolve',
      operationId: 'resolveReconciliation',
      tag,
      summary: 'Say what was found and done about an item',
      body: schemas.ResolveBody,
      errors: ['conflict'],
      reply: replies.ReconciliationItem,
      handle: ({ body, operator, deadline, parameters }) =>
        askAccount(context, {
          type: 'ResolveReconciliation',
          accountId: body.account_id,
          reconciliationId: parameters.reconciliation_id,
          resolution: body.resolution,
          operator: body.by ?? operator,
          deadline,
        }),
    }),
  ];
}

interface ReconciliationPage {
  readonly data: readonly { readonly id: string }[];
  /** Absent: from a version that had no pages. */
  readonly next?: string | null;
}

async function listReconciliation(
  context: OperatorContext,
  query: Omit<ListReconciliation, 'deadline'>,
): Promise<Reply> {
  const { startingAfter = null } = query;
  if (startingAfter !== null && !isId('reconciliation', startingAfter)) {
    return rejectedReply(rejection('invalid_cursor', null, 'starting_after'));
  }
  if (query.accountId !== '') {
    const reply = await askAccount(context, query);
    return reply.type === 'done' ? pageOfAll([reply], query.limit) : reply;
  }
  const replies = await askEveryPartition(context, query);
  const pages = replies.filter((reply) => reply.type === 'done');
  if (pages.length < replies.length) return rejectedReply(SOME_UNAVAILABLE);
  return pageOfAll(pages, query.limit);
}

/** As far down as every partition has looked. Ids sort by the creation of the transactions that the items are about. */
function pageOfAll(replies: readonly { readonly body: string }[], limit: number): Reply {
  const pages = replies.map(({ body }) => JSON.parse(body) as ReconciliationPage);
  const ends = pages.map(({ next }) => next ?? '');
  const lookedTo = ends.reduce((highest, end) => (end > highest ? end : highest), '');
  const known = pages
    .flatMap(({ data }) => data)
    .filter(({ id }) => id >= lookedTo)
    .sort((a, b) => (a.id < b.id ? 1 : -1));
  const data = known.slice(0, limit);
  const next = data.length < known.length ? data.at(-1)!.id : lookedTo;
  return done({ object: 'list', data, has_more: next !== '', next_cursor: next === '' ? null : next });
}

const SOME_UNAVAILABLE = rejection(
  'service_unavailable',
  'Some partitions do not answer: `account` asks for the items of one account alone.',
  null,
  1,
);
