// Transactions by state and money on hold, as /metrics shows them while records are committed.
import t from 'tap';
import { Metrics } from '../../src/observability/metrics.ts';
import { TransactionCounts } from '../../src/observability/transaction-counts.ts';

async function shown(metrics: Metrics, name: string): Promise<string[]> {
  const text = await metrics.text();
  return text.split('\n').filter((line) => line.startsWith(`${name}{`));
}

const money = { amount: 1_000, fee: 50, currency: 'UGX' };

t.test('a state is left when the next is entered; a hold lasts until the end', async (t) => {
  const metrics = new Metrics();
  const counts = new TransactionCounts(metrics);
  counts.follow([
    {
      events: [
        { type: 'ChargeCreated', id: 'chg_1', ...money },
        { type: 'SubmissionAccepted', id: 'chg_1' },
      ],
    },
    { events: [{ type: 'PayoutCreated', id: 'pyt_1', ...money }] },
    { events: [{ type: 'WithdrawalCreated', id: 'wdl_1', ...money, approvalRequired: true }] },
    { events: [{ type: 'UserAdded', id: 'usr_1' }] },
  ]);
  t.strictSame(await shown(metrics, 'daftari_transactions_open'), [
    'daftari_transactions_open{status="PENDING_PROVIDER"} 1',
    'daftari_transactions_open{status="AWAITING_CUSTOMER"} 1',
    'daftari_transactions_open{status="INITIATED"} 1',
  ]);
  t.strictSame(await shown(metrics, 'daftari_open_holds'), ['daftari_open_holds{currency="UGX"} 2']);
  t.strictSame(await shown(metrics, 'daftari_open_holds_amount'), [
    'daftari_open_holds_amount{currency="UGX"} 2100',
  ]);

  counts.follow([
    {
      events: [
        { type: 'TransactionSucceeded', id: 'chg_1' },
        { type: 'ChargeReversed', id: 'chg_1' },
      ],
    },
    {
      events: [
        { type: 'SubmissionAccepted', id: 'pyt_1' },
        { type: 'TransactionFailed', id: 'pyt_1' },
      ],
    },
    { events: [{ type: 'WithdrawalApproved', id: 'wdl_1' }] },
  ]);
  t.strictSame(await shown(metrics, 'daftari_transactions_open'), [
    'daftari_transactions_open{status="PENDING_PROVIDER"} 1',
    'daftari_transactions_open{status="AWAITING_CUSTOMER"} 0',
    'daftari_transactions_open{status="INITIATED"} 0',
  ]);
  t.strictSame(await shown(metrics, 'daftari_open_holds'), ['daftari_open_holds{currency="UGX"} 1']);
  t.strictSame(await shown(metrics, 'daftari_transactions_total'), [
    'daftari_transactions_total{type="CHARGE",status="PENDING_PROVIDER"} 1',
    'daftari_transactions_total{type="CHARGE",status="AWAITING_CUSTOMER"} 1',
    'daftari_transactions_total{type="CHARGE",status="SUCCESSFUL"} 1',
    'daftari_transactions_total{type="CHARGE",status="REVERSED"} 1',
    'daftari_transactions_total{type="PAYOUT",status="PENDING_PROVIDER"} 1',
    'daftari_transactions_total{type="PAYOUT",status="FAILED"} 1',
    'daftari_transactions_total{type="WITHDRAWAL",status="INITIATED"} 1',
    'daftari_transactions_total{type="WITHDRAWAL",status="PENDING_PROVIDER"} 1',
  ]);
});

t.test('what was in flight before a restart is seeded, once', async (t) => {
  const metrics = new Metrics();
  const counts = new TransactionCounts(metrics);
  const seeded = { status: 'PENDING_PROVIDER', currency: 'KES', held: 70 } as const;
  counts.seed('pyt_1', seeded);
  counts.seed('pyt_1', seeded);
  t.strictSame(await shown(metrics, 'daftari_open_holds'), ['daftari_open_holds{currency="KES"} 1']);
  counts.follow([{ events: [{ type: 'TransactionSucceeded', id: 'pyt_1' }] }]);
  counts.follow([{ events: [{ type: 'TransactionSucceeded', id: 'pyt_9' }] }]);
  t.strictSame(await shown(metrics, 'daftari_open_holds'), ['daftari_open_holds{currency="KES"} 0']);
  t.strictSame(await shown(metrics, 'daftari_transactions_open'), [
    'daftari_transactions_open{status="PENDING_PROVIDER"} 0',
  ]);
});
