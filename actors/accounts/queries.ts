// Reads of one accounts partition: merchants' (with a key, checked here) and those of operators and other groups. Every answer
// names the sequence it depends on, so that the runtime can hold it back until that is durable.

import type {
  AccountQuery,
  GetTransaction,
  GetWebhookEndpoint,
  GetWebhookObject,
  ListTransactions,
  MerchantQuery,
} from '../../src/domain/account-command.ts';
import type { Account } from '../../src/domain/account.ts';
import { authoriseQuery } from '../../src/domain/decide/authorisation.ts';
import { NO_APP } from '../../src/domain/decide/operator.ts';
import { NO_ACCOUNT } from '../../src/domain/decide/decision.ts';
import type { ErrorCode } from '../../src/domain/error-code.ts';
import { deriveId } from '../../src/domain/id.ts';
import {
  renderAccount,
  renderBalances,
  renderPayoutDestinations,
  renderTrialBalance,
} from '../../src/domain/render/account.ts';
import {
  renderCurrent,
  renderDetail,
  renderObject,
  renderPage,
  renderTimeline,
  renderTransaction,
} from '../../src/domain/render/render.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { findTransaction } from '../../src/domain/state.ts';
import { formatTime } from '../../src/domain/time.ts';
import type { Transaction, TransactionType } from '../../src/domain/transaction.ts';
import type { Views } from '../../wal/types.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Answered } from '../runtime/group.ts';
import { firstThatFit } from '../runtime/page.ts';
import { done, refuse, refuseWith } from './answers.ts';
import { getPending, listExpired, listPending } from './for-pollers.ts';
import { listPage } from './listing.ts';
import type { Memory } from './memory.ts';
import { listReconciliation } from './reconciliation-list.ts';

export function answerQuery(
  memory: Memory,
  views: Views,
  query: AccountQuery,
  { policy, now }: { readonly policy: Policy; readonly now: number },
): Answered {
  switch (query.type) {
    case 'GetTransaction':
    case 'ListTransactions':
    case 'GetBalances':
    case 'ListPayoutDestinations':
      return answerMerchant(memory, views, query, now);
    case 'GetAccount':
      return ofAccount(memory, query.accountId, (account) =>
        renderAccount(account, LIMITS.accountListBytesMax),
      );
    case 'GetTrialBalance':
      return ofAccount(memory, query.accountId, renderTrialBalance);
    case 'GetWebhookObject':
      return webhookObject(memory, query);
    case 'GetWebhookEndpoint':
      return webhookEndpoint(memory, query);
    case 'ListPending':
      return listPending(memory, views, query);
    case 'GetPending':
      return getPending(memory, query);
    case 'ListExpired':
      return listExpired(memory, views, query, policy.chargeExpiryMs);
    case 'ListReconciliation':
      // Of a mistyped id an empty list would read as nothing to look into.
      if (query.accountId !== '' && memory.account(query.accountId) === undefined) {
        return refuseWith(NO_ACCOUNT, 0);
      }
      return listReconciliation(memory, views, query);
  }
}

// --- Merchants ---------------------------------------------------------------------------------------------------------

function answerMerchant(memory: Memory, views: Views, query: MerchantQuery, now: number): Answered {
  const access = authoriseQuery(memory, query, now);
  // Its key may just have been removed, or the account switched off.
  if (access.type === 'refused') {
    return refuseWith(access.rejection, memory.account(query.accountId)?.sequence ?? 0);
  }
  const { account } = access;
  switch (query.type) {
    case 'GetTransaction':
      return getTransaction(memory, account, query);
    case 'ListTransactions':
      return listTransactions(memory, views, account, query);
    case 'GetBalances':
      return done(renderBalances(account), account.sequence);
    case 'ListPayoutDestinations':
      return done(renderPayoutDestinations(account, LIMITS.accountListBytesMax), account.sequence);
  }
}

const NOT_FOUND = {
  CHARGE: 'charge_not_found',
  PAYOUT: 'payout_not_found',
  DEPOSIT: 'deposit_not_found',
  WITHDRAWAL: 'withdrawal_not_found',
  REFUND: 'transaction_not_found',
} as const satisfies Record<TransactionType, ErrorCode>;

function getTransaction(memory: Memory, account: Account, query: GetTransaction): Answered {
  const transaction = findTransaction(memory, account.id, query.id);
  if (transaction === undefined || (query.kind !== null && transaction.type !== query.kind)) {
    return refuse(query.kind === null ? 'transaction_not_found' : NOT_FOUND[query.kind]);
  }
  return done(renderView(transaction, query.view), transaction.sequence);
}

function renderView(transaction: Transaction, view: GetTransaction['view']): string {
  switch (view) {
    case 'object':
      return renderCurrent(transaction);
    case 'timeline':
      return renderTimeline(transaction);
    case 'detail':
      return renderDetail(transaction);
  }
}

function listTransactions(memory: Memory, views: Views, account: Account, query: ListTransactions): Answered {
  const { startingAfter } = query;
  if (startingAfter !== null && findTransaction(memory, account.id, startingAfter) === undefined) {
    return refuse('invalid_cursor', 'starting_after');
  }
  const bounds = {
    limit: query.limit,
    charactersMax: LIMITS.listCharactersReadMax,
    skippedMax: LIMITS.listRowsScannedMax,
  };
  const page = listPage(memory, views, account.id, query.filter, startingAfter, bounds);
  const { transactions } = page;
  const render = query.view === 'object' ? renderCurrent : renderTransaction;
  const rows = firstThatFit(transactions, render);
  const nextCursor = rows.length < transactions.length ? transactions[rows.length - 1]!.id : page.nextCursor;
  return done(renderPage(rows, nextCursor), page.sequence);
}

// --- Operators and other groups ---------------------------------------------------------------------------------------

function ofAccount(memory: Memory, accountId: string, render: (account: Account) => string): Answered {
  const account = memory.account(accountId);
  return account === undefined ? refuseWith(NO_ACCOUNT, 0) : done(render(account), account.sequence);
}

function webhookObject(memory: Memory, query: GetWebhookObject): Answered {
  const transaction = memory.transaction(query.transactionId);
  const account = memory.account(query.accountId);
  if (transaction === undefined || account === undefined) return refuse('transaction_not_found');
  const index = transaction.events.findIndex((event) => event.status === query.status);
  if (index === -1) return refuse('transaction_not_found');
  const apps = [...account.apps.values()]
    .filter((app) => app.removedAt === null)
    .filter((app) => transaction.appId === null || app.id === transaction.appId)
    .map(({ id }) => ({ id }));
  const eventId = deriveId('event', transaction.id, index);
  const at = formatTime(transaction.events[index]!.at);
  const body = `{"event_id":"${eventId}","created_at":"${at}","object":${renderObject(transaction, index)},"apps":${JSON.stringify(apps)}}`;
  return done(body, Math.max(transaction.sequence, account.sequence));
}

function webhookEndpoint(memory: Memory, query: GetWebhookEndpoint): Answered {
  const account = memory.account(query.accountId);
  const app = account?.apps.get(query.appId);
  if (account === undefined || app === undefined) return refuseWith(NO_APP, 0);
  if (app.removedAt !== null) return refuseWith(NO_APP, account.sequence);
  return done(JSON.stringify({ signingSecretSealed: app.signingSecretSealed }), account.sequence);
}
