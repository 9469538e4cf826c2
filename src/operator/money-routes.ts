// What members of an account do in the dashboard, and what operators see of its money: wallets, approvals, deposits, the
// trial balance, reconciliation. Who may do what is decided by the account (src/domain/decide/dashboard.ts), not here.

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
import * as examples from './examples.ts';
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
  const decide = (
    type: 'ApproveWallet' | 'RevokeWallet',
    verb: string,
    facts: { summary: string; description: string; who: string; examples: Record<string, unknown> },
  ): PlainRoute =>
    operatorRoute(context, {
      method: 'POST',
      path: `/accounts/:account_id/wallets/:wallet_id/${verb}`,
      operationId: `${verb}Wallet`,
      tag,
      ...facts,
      answers: 'The payout wallet.',
      body: schemas.ByBody,
      bodyExamples: { owner: examples.by },
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
      description:
        'A wallet of the merchant’s own, to which withdrawals may go once it is approved and has cooled off. The same number, ' +
        'network and label again answer the wallet that there is. Next: `approveWallet`.',
      who: 'an owner or an admin of the account, as `by`.',
      body: schemas.AddWalletBody,
      bodyExamples: { till: examples.addWallet },
      status: 201,
      answers: 'The payout wallet.',
      examples: { waits: examples.walletPending },
      errors: ['not_permitted', 'invalid_msisdn', 'network_required', 'conflict'],
      reply: PayoutDestination,
      handle: ({ body, operator, deadline }, accountId) => {
        const { label, msisdn, network = null, country = null, by } = body;
        const wallet = { label, msisdn, network, country, by };
        return askAccount(context, { type: 'AddWallet', accountId, ...wallet, operator, deadline });
      },
    }),
    partOfAccount(context, 'wallets'),
    decide('ApproveWallet', 'approve', {
      summary: 'Approve a payout wallet (owners; another than who added it)',
      description:
        'It is `COOLING_OFF`, and `ACTIVE` by itself at `active_at`, a day later (`WALLET_COOLING_OFF_SECONDS`): from then on ' +
        'withdrawals may go to it.',
      who: 'an owner of the account, as `by`; where it has several, another than who added the wallet.',
      examples: { coolingOff: examples.walletCoolingOff },
    }),
    decide('RevokeWallet', 'revoke', {
      summary: 'Revoke a payout wallet (owners and admins)',
      description:
        'For good: it is sent nothing more. Withdrawals to it that were certainly not sent fail, and their money returns; what ' +
        'may have been sent goes on. Those that wait for approval keep their money on hold: `rejectWithdrawal` returns it. The ' +
        'same number may be added again, as another wallet.',
      who: 'an owner or an admin of the account, as `by`.',
      examples: { revoked: examples.walletRevoked },
    }),
  ];
}

/** What may have been switched off, revoked or removed since it was requested. */
const APPROVAL_ERRORS = [
  'live_mode_not_enabled',
  'withdrawals_not_enabled_live',
  'destination_not_active',
  'network_not_supported',
] as const satisfies readonly ErrorCode[];

const VERDICTS = {
  ApproveWithdrawal: {
    description:
      'One above the threshold, which waits `INITIATED` and `PENDING` with its money on hold: it is sent. Only while it could be ' +
      'requested; otherwise it goes on waiting. Next: its outcome comes by webhook.',
    examples: { approved: examples.approved },
  },
  RejectWithdrawal: {
    description:
      'One above the threshold, which waits `INITIATED` and `PENDING`: it is `FAILED`, `approval_rejected`, its money and fee ' +
      'return to `available`, and the merchant is told by webhook.',
    examples: { rejected: examples.rejected },
  },
} as const;

function ofWithdrawals(context: OperatorContext): PlainRoute[] {
  const decide = (type: 'ApproveWithdrawal' | 'RejectWithdrawal', verb: string): PlainRoute =>
    operatorRoute(context, {
      method: 'POST',
      path: `/accounts/:account_id/withdrawals/:withdrawal_id/${verb}`,
      operationId: `${verb}Withdrawal`,
      tag: 'Withdrawals',
      summary: `${verb === 'approve' ? 'Approve' : 'Reject'} a withdrawal (any member but the requester)`,
      ...VERDICTS[type],
      who: 'any member of the account, as `by`, but who asked for it.',
      answers: 'The withdrawal, as it is by then.',
      body: schemas.ByBody,
      bodyExamples: { owner: examples.by },
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
    description:
      'Ends what is `PENDING_PROVIDER`, as if the provider had said it, with the source `DASHBOARD`: the hold is paid out, or ' +
      'returns. Ask the provider’s people first, and say `FAILED` only if they said that it will never be paid: said too early, it ' +
      'is paid twice. What is paid all the same within two days is a reconciliation item. The same again gets the same answer.',
    body: schemas.SettleBody,
    bodyExamples: { paid: examples.settlePaid, neverPaid: examples.settleFailed },
    answers: 'The payout or withdrawal, as it is by then.',
    examples: { paid: examples.settled },
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
      description:
        'Tops up the available balance from a wallet, whose owner gets a prompt: `amount` in full, no fee, available on success. ' +
        'The account has to be `live`. 201 means that it exists; its outcome goes to the webhooks of every app of the account.',
      who: 'an owner, an admin or a finance member of the account, as `by`.',
      body: schemas.DepositBody,
      bodyExamples: { float: examples.createDeposit },
      status: 201,
      answers: 'The deposit.',
      examples: { awaitingCustomer: examples.deposit },
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
      description:
        'Changes nothing. Each `sum` is debits minus credits over all accounts: where one is not 0, `balanced` is false, and the ' +
        'service is at fault.',
      answers: 'The trial balance.',
      examples: { balanced: examples.trialBalance },
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
      description:
        'Changes nothing. No item moves money. Next, for each that is open: look into the provider’s statement, put it right by ' +
        'money that moves (a deposit, a payout), then `resolveReconciliation`. What the service asks its provider about resolves itself.',
      answers: 'A page of items.',
      examples: { page: examples.page(examples.reconciliation) },
      query: schemas.ReconciliationQuery,
      errors: ['invalid_cursor', 'not_found'],
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
      description:
        'Closes the item, and moves no money. The same again gets the same answer; another resolution is 409. Another item is ' +
        'raised only if the provider says something new.',
      body: schemas.ResolveBody,
      bodyExamples: { returned: examples.resolve },
      answers: 'The item.',
      examples: { resolved: examples.reconciliationResolved },
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
