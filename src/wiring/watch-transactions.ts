// Transactions by state and money on hold for /metrics: what the views say was in flight, then every committed record.

import { decodeOpen } from '../../actors/accounts/rows.ts';
import { decodeTransaction } from '../../actors/accounts/transaction-row.ts';
import type { AccountRecord } from '../domain/account-event.ts';
import type { Metrics } from '../observability/metrics.ts';
import { TransactionCounts } from '../observability/transaction-counts.ts';
import type { Storage } from './storage.ts';

/** Called once the accounts are recovered, before they get commands. */
export function watchTransactions(metrics: Metrics, storage: Storage, partitions: number): void {
  const counts = new TransactionCounts(metrics);
  for (let partition = 0; partition < partitions; partition++) {
    seed(counts, storage, partition);
    const after = storage.views.position('accounts', partition)?.sequence ?? 0;
    storage.feed.subscribe<AccountRecord>('accounts', partition, after, ({ records }) =>
      counts.follow(records),
    );
  }
}

function seed(counts: TransactionCounts, storage: Storage, partition: number): void {
  const views = storage.views.reader('accounts', partition);
  for (const { key, value } of views.range('open', { start: '', end: '~' })) {
    const { kind, id } = decodeOpen(key, value);
    const row = kind === 'provider' || kind === 'approval' ? views.get('transaction', id) : undefined;
    if (row === undefined) continue;
    const { status, currency, type, amount, fee } = decodeTransaction(row);
    if (status !== 'INITIATED' && status !== 'PENDING_PROVIDER' && status !== 'AWAITING_CUSTOMER') continue;
    const held = type === 'PAYOUT' || type === 'WITHDRAWAL' ? amount + fee : 0;
    counts.seed(id, { status, currency, held });
  }
}
