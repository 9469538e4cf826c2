// A replay of one partition: its log is applied as far as was asked, held against the checkpoint where that was asked, and its
// money added up. What it found is plain data, which goes from one thread to another.

import { decodeAccount, isEmptyBucket } from '../../actors/accounts/rows.ts';
import { isOver } from '../../actors/runtime/retention.ts';
import { LIMITS } from '../limits.ts';
import { compareRows } from './compare.ts';
import { type Data, groupOf, holdsCheckpoint, uncountedViews } from './data.ts';
import { auditLedger, type LedgerAudit } from './ledger-audit.ts';
import { endOf, lastSequenceAt } from './places.ts';
import type { Rebuild } from './rebuild.ts';
import type { BalanceRow, VerifiedPartition, Work } from './replay-text.ts';
import { breathe } from '../../wal/tools/priority.ts';
import { UsageError } from '../../wal/tools/tool.ts';
import { type Fault, orFault } from '../../wal/tools/verify.ts';
import { nameOf, type PartitionName, type Row } from '../../wal/types.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import type { ViewStore } from '../../wal/views.ts';

/** After that record; after the last one that is not later than `atMs`; null: where the log ends when it is asked. */
export type Until = { readonly sequence: number } | { readonly atMs: number } | null;

export interface Task extends PartitionName {
  readonly until: Until;
  /** Against the checkpoint, which is there. */
  readonly verify: boolean;
  /** That its log holds, or 0 where that cannot be told. */
  readonly records: number;
}

export interface PartitionReplayed {
  /** Null: the log does not say how far to go. */
  readonly work: Work | null;
  readonly fault: Fault | null;
  readonly audit: (LedgerAudit & PartitionName) | null;
  readonly verified: VerifiedPartition | null;
  /** Of its first accounts; of none where it was compared. */
  readonly balances: readonly BalanceRow[];
  readonly records: number;
  readonly bytes: number;
}

/** Rejects with LogRewritten when the log is not any more the one that was applied so far, and with UsageError when it ends before
 *  the sequence that was asked for. */
export async function replayPartition(
  data: Pick<Data, 'log' | 'views'>,
  rebuild: Rebuild,
  task: Task,
): Promise<PartitionReplayed> {
  const { group, partition, verify } = task;
  const name = { group, partition };
  const { records, bytes } = rebuild;
  const found = (of: Partial<PartitionReplayed>): PartitionReplayed => ({
    work: null,
    fault: null,
    audit: null,
    verified: null,
    balances: [],
    ...of,
    records: rebuild.records - records,
    bytes: rebuild.bytes - bytes,
  });
  const compared = verify ? await orFault(() => verifyPartition(data, rebuild, name)) : null;
  data.log.refresh();
  const upTo = await orFault(() => untilOf(data.log, task));
  if (typeof upTo !== 'number') return found({ fault: upTo });
  if (compared !== null && 'problem' in compared) return found({ fault: compared });
  const fault = await rebuild.advance(name, upTo);
  const { views } = rebuild;
  views.refresh();
  if (fault !== null) {
    const reached = views.position(group, partition)?.sequence ?? 0;
    return found({ work: { ...name, upTo: reached }, fault, verified: compared });
  }
  const isOfAccounts = group === 'accounts';
  const replayed = found({
    work: { ...name, upTo },
    verified: compared,
    audit: isOfAccounts ? { ...name, ...auditLedger(views.rows(group, partition)) } : null,
    balances: isOfAccounts && !verify ? balancesOf(views, name) : [],
  });
  await breathe();
  return replayed;
}

function untilOf(log: LogReader, { group, partition, until }: Task): number {
  const name = { group, partition };
  if (until !== null && 'atMs' in until) return lastSequenceAt(log, name, until.atMs);
  const end = endOf(log, name);
  if (until === null) return end.sequence;
  if (until.sequence <= end.sequence) return until.sequence;
  // It may be in a damaged batch: the damage is told, and not that there is no such record.
  if (!end.isKnown) return end.sequence;
  throw new UsageError(`${nameOf(name)} ends at sequence ${end.sequence}`);
}

function balancesOf(views: ViewStore, { group, partition }: PartitionName): BalanceRow[] {
  const rows: BalanceRow[] = [];
  for (const { table, value } of views.rows(group, partition)) {
    if (table > 'account' || rows.length >= LIMITS.logToolAccountsShownMax) break;
    const { id, balances } = decodeAccount(value ?? '');
    for (const [currency, amounts] of balances) rows.push({ id, currency, balances: amounts });
  }
  return rows;
}

/** The service goes on writing its checkpoint: it is read as of one moment, and the rebuilt views are brought there. */
async function verifyPartition(
  { log, views }: Pick<Data, 'log' | 'views'>,
  rebuild: Rebuild,
  name: PartitionName,
): Promise<VerifiedPartition | Fault> {
  if (views === null) throw new Error('there is no checkpoint');
  const { group, partition } = name;
  const place = { group, partition };
  // Most of the way first, so that the moment is not held for long.
  views.refresh();
  const before = views.position(group, partition);
  if (before !== null && holdsCheckpoint(log, views, group, partition, before)) {
    const early = await rebuild.advance(place, before.sequence);
    if (early !== null) return early;
  }
  views.refresh();
  const position = views.position(group, partition);
  const uncompared = uncountedViews(views, group, partition);
  // One that was only begun has no rows but what says of which form it is.
  if (position === null || position.sequence === 0 || uncompared !== null) {
    const nothing = { tables: [], differenceCount: 0, differences: [] };
    return { ...place, sequence: position?.sequence ?? 0, uncompared, ...nothing };
  }
  const rows = views.rows(group, partition)[Symbol.iterator]();
  const first = rows.next();
  try {
    if (!holdsCheckpoint(log, views, group, partition, position)) {
      const problem = 'the checkpoint was made from another log, or from one that went on further';
      return { ...place, batch: position.batch, sequence: position.sequence, problem };
    }
    const fault = await rebuild.advance(place, position.sequence);
    if (fault !== null) return fault;
    rebuild.views.refresh();
    const theirs = first.done === true ? [] : chained(first.value, rows);
    const compared = compareRows(rebuild.views.rows(group, partition), theirs, needlessIn(rebuild, name));
    return { ...place, sequence: position.sequence, uncompared, ...compared };
  } finally {
    rows.return?.(undefined);
  }
}

/** Whether a row that only one side has is no difference: the service may have let go of it by now, or nothing is found by it. */
function needlessIn(
  rebuild: Rebuild,
  { group, partition }: PartitionName,
): (row: Row, of: 'log' | 'checkpoint') => boolean {
  const rules = groupOf(group).retention ?? [];
  const views = rebuild.views.reader(group, partition);
  const now = Date.now();
  return ({ table, key, value }, of) => {
    if (table === 'bucket') return isEmptyBucket(key, views);
    if (of === 'checkpoint' || value === null) return false;
    const rule = rules.find((each) => each.table === table);
    return rule !== undefined && isOver(rule, { key, value }, now - rule.keptMs, views);
  };
}

/** Goes on with a generator of which the first was taken. */
function* chained<T>(first: T, rest: Iterator<T>): Generator<T, void, undefined> {
  yield first;
  for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value;
}
