// From the event that created a transaction to what a poller needs of it.

import type { PendingTransaction } from '../../src/domain/account-command.ts';
import {
  type AccountRecord,
  CREATED_TYPES,
  type TransactionCreated,
} from '../../src/domain/account-event.ts';

export function pendingOf(event: TransactionCreated, { accountId, at }: AccountRecord): PendingTransaction {
  const collects = event.type === 'ChargeCreated' || event.type === 'DepositCreated';
  return {
    id: event.id,
    accountId,
    type: CREATED_TYPES[event.type],
    amount: event.amount,
    currency: event.currency,
    country: event.country,
    network: event.network,
    msisdn: event.msisdn,
    provider: event.provider,
    reference: event.reference,
    note: collects ? event.description : event.narration,
    createdAt: at,
    expiresAt: collects ? event.expiresAt : null,
    submitted: false,
    unsent: event.type === 'WithdrawalCreated' && event.unsent,
  };
}
