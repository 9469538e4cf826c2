// Decisions on what falls due. Each command may come late or twice, and then changes nothing.

import type { ActivateWallet, ExpireTransaction, FixAnswer, ReleaseCharge } from '../account-command.ts';
import { assert } from '../assert.ts';
import { changed, type Decision, NOTHING_CHANGED } from './decision.ts';
import { type Context, findTransaction, type LedgerState } from '../state.ts';

/** By whom it waited for. If the network never answered, nobody knows whether the customer was asked. */
const EXPIRED_MESSAGES = {
  AWAITING_CUSTOMER: 'The customer did not answer in time.',
  PENDING_PROVIDER: 'The network did not answer in time.',
} as const;

export function decideExpiry(state: LedgerState, command: ExpireTransaction, context: Context): Decision {
  const transaction = findTransaction(state, command.accountId, command.transactionId);
  if (transaction === undefined) return NOTHING_CHANGED;
  const { id, status, expiresAt } = transaction;
  if (expiresAt === null || context.now < expiresAt) return NOTHING_CHANGED;
  if (status !== 'PENDING_PROVIDER' && status !== 'AWAITING_CUSTOMER') return NOTHING_CHANGED;
  return changed(command.accountId, context.now, {
    type: 'TransactionFailed',
    id,
    source: 'SYSTEM',
    failureCode: 'expired',
    failureMessage: EXPIRED_MESSAGES[status],
    providerStatus: null,
  });
}

export function decideFixAnswer(state: LedgerState, command: FixAnswer, context: Context): Decision {
  const transaction = findTransaction(state, command.accountId, command.transactionId);
  if (transaction === undefined || transaction.answeredAt !== null) return NOTHING_CHANGED;
  return changed(command.accountId, context.now, { type: 'AnswerFixed', id: transaction.id });
}

export function decideRelease(state: LedgerState, command: ReleaseCharge, context: Context): Decision {
  const transaction = findTransaction(state, command.accountId, command.transactionId);
  if (transaction === undefined) return NOTHING_CHANGED;
  const { id, status, released, releaseAt } = transaction;
  if (status !== 'SUCCESSFUL' || released) return NOTHING_CHANGED;
  if (releaseAt === null || context.now < releaseAt) return NOTHING_CHANGED;
  return changed(command.accountId, context.now, { type: 'ChargeReleased', id });
}

export function decideActivateWallet(
  state: LedgerState,
  command: ActivateWallet,
  context: Context,
): Decision {
  const wallet = state.account(command.accountId)?.wallets.get(command.walletId);
  if (wallet === undefined || wallet.status !== 'COOLING_OFF') return NOTHING_CHANGED;
  assert(wallet.activeAt !== null, 'a wallet that cools off knows until when');
  if (context.now < wallet.activeAt) return NOTHING_CHANGED;
  return changed(command.accountId, context.now, { type: 'WalletActivated', id: wallet.id });
}
