// One account as a set of views, and the records after them, have it: what merchants and operators would have been shown.

import { listPage } from '../../actors/accounts/listing.ts';
import { Memory } from '../../actors/accounts/memory.ts';
import type { AccountRecord } from '../domain/account-event.ts';
import { evolve } from '../domain/evolve.ts';
import { renderAccount, renderTrialBalance } from '../domain/render/account.ts';
import { renderTransaction } from '../domain/render/render.ts';
import { groupOf, holdsCheckpoint, uncountedViews } from './data.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import { UsageError } from '../../wal/tools/tool.ts';
import type { ViewStore } from '../../wal/views.ts';

export interface AccountReport {
  /** As the operator API gives it. */
  readonly account: AccountJson;
  readonly trialBalance: TrialBalanceJson;
  /** As GET /v1/transactions gives them, newest first. */
  readonly transactions: readonly TransactionJson[];
  readonly hasMore: boolean;
  /** Of the last record that touched the account. */
  readonly sequence: number;
}

interface AccountJson {
  readonly id: string;
  readonly name: string;
  readonly country: string;
  readonly created_at: string;
}
interface TrialBalanceJson {
  readonly data: readonly {
    readonly currency: string;
    readonly accounts: Readonly<Record<string, string>>;
    readonly sum: string;
  }[];
}
interface TransactionJson {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly amount: string;
  readonly fee: string;
  readonly currency: string;
  readonly reference: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Null: there is no such account. Reads in one turn of the event loop, so it is of one moment on a live directory, too.
 *  `log`: apply what it has beyond the views; null: the views are all there is. */
export function reportAccount(
  views: ViewStore,
  log: LogReader | null,
  place: { readonly partition: number; readonly accountId: string },
  limit: number,
): AccountReport | null {
  const { partition, accountId } = place;
  views.refresh();
  const reader = views.reader('accounts', partition);
  const position = views.position('accounts', partition);
  const sequence = position?.sequence ?? 0;
  const uncounted = log === null ? null : uncountedBeside(log, views, partition);
  if (uncounted !== null) throw new UsageError(`accounts/${partition}: ${uncounted}: use replay --account`);
  const memory = new Memory(reader, { sequence, writesRows: false });
  if (log !== null) applyTail(memory, log, partition, sequence);
  const account = memory.account(accountId);
  if (account === undefined) return null;
  const bounds = { limit, charactersMax: Infinity, skippedMax: Infinity };
  const page = listPage(memory, reader, accountId, {}, null, bounds);
  return {
    account: JSON.parse(renderAccount(account)) as AccountJson,
    trialBalance: JSON.parse(renderTrialBalance(account)) as TrialBalanceJson,
    transactions: page.transactions.map(
      (transaction) => JSON.parse(renderTransaction(transaction)) as TransactionJson,
    ),
    hasMore: page.nextCursor !== null,
    sequence: account.sequence,
  };
}

/** As `uncountedViews`, and where the log has another history than they: of what was cut off nothing has happened. */
function uncountedBeside(log: LogReader, views: ViewStore, partition: number): string | null {
  const position = views.position('accounts', partition);
  const uncounted = uncountedViews(views, 'accounts', partition);
  if (uncounted !== null || position === null) return uncounted;
  if (holdsCheckpoint(log, views, 'accounts', partition, position)) return null;
  return 'its checkpoint was made from another log, or from one that went on further';
}

function applyTail(memory: Memory, log: LogReader, partition: number, after: number): void {
  const group = groupOf('accounts');
  let sequence = after;
  // A checkpoint that the log holds ends where a batch does.
  for (const { records } of log.read('accounts', partition, { fromSequence: after + 1 })) {
    for (const line of records) {
      sequence += 1;
      memory.beginRecord(sequence);
      evolve(memory, group.decode(line) as AccountRecord, sequence);
    }
  }
}

export function accountLines({ account, trialBalance, transactions, hasMore }: AccountReport): string[] {
  const balances = trialBalance.data.flatMap(({ currency, accounts, sum }) => [
    `  ${currency}  available ${accounts['MERCHANT_AVAILABLE']}  pending ${accounts['MERCHANT_PENDING']}  ` +
      `on its way out ${accounts['SETTLEMENT_CLEARING']}  fees ${accounts['FEES_REVENUE']}  ` +
      `float ${accounts['PROVIDER_FLOAT']}  sum ${sum}`,
  ]);
  const rows = transactions.map(
    ({ id, type, status, amount, fee, currency, reference, created_at, updated_at }) =>
      `  ${id}  ${type.padEnd(10)}  ${status.padEnd(17)}  ${amount.padStart(10)} ${currency}  fee ${fee.padStart(6)}  ` +
      `created ${created_at}  since ${updated_at}  ${reference}`,
  );
  return [
    `${account.id}  ${account.name}  ${account.country}  opened ${account.created_at}`,
    ...(balances.length === 0 ? ['  no money moved yet'] : balances),
    '',
    ...(rows.length === 0 ? ['  no transactions'] : rows),
    ...(hasMore ? ['  … and older ones: --limit shows more'] : []),
  ];
}
