// A data directory with many transactions in it, written by the bench's history writer.

import { type Written, writeHistory } from '../bench/history/write-history.ts';
import type { HistoryJob } from '../bench/history/job.ts';

type Wanted = Pick<
  HistoryJob,
  'dataDir' | 'keysFile' | 'partitions' | 'accounts' | 'transactions' | 'shape'
> &
  Partial<Pick<HistoryJob, 'deposits'>>;

/** Spread over all of its accounts. */
export function writeTransactions(wanted: Wanted): Promise<Written> {
  const nothingElse = { deposits: 0, firstNumber: 0, idsFile: null, idsKept: 0, webhookUrl: null };
  return writeHistory({ ...nothingElse, historyAccounts: wanted.accounts, ...wanted }, () => {});
}
