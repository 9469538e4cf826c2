// `replay`: what the log alone says, to the end or to any moment; and whether the checkpoint says the same.

import { isEmptyBucket } from '../../actors/accounts/rows.ts';
import { isOver } from '../../actors/runtime/retention.ts';
import { LIMITS } from '../limits.ts';
import { reportAccount } from './account-report.ts';
import { compareRows } from './compare.ts';
import {
  assertAccountId,
  type Data,
  groupOf,
  holdsCheckpoint,
  partitionOfAccount,
  uncountedViews,
  withData,
} from './data.ts';
import { auditLedger, type LedgerAudit } from './ledger-audit.ts';
import { lastSequence, lastSequenceAt } from './places.ts';
import { Rebuild } from './rebuild.ts';
import { accountResult, allResult, type Replayed, type VerifiedPartition, type Work } from './replay-text.ts';
import { nameOf, type PartitionName, type Row } from '../../wal/types.ts';
import { chosen, partitionOptions } from '../../wal/tools/partitions.ts';
import { breathe } from '../../wal/tools/priority.ts';
import {
  assertGoesBeside,
  assertGoesWith,
  ordinalOf,
  stringOf,
  timeOf,
  type Tool,
  type ToolInput,
  type ToolResult,
  UsageError,
} from '../../wal/tools/tool.ts';
import { allPartitions, type Fault, orFault } from '../../wal/tools/verify.ts';

export const replay: Tool = {
  name: 'replay',
  summary: 'Rebuild state from the log alone: to the end, to any moment, or to prove the checkpoint.',
  help: `
Applies every record, oldest first, as the service does, into views of its own in a temporary directory; what is there at
the end owes nothing to the checkpoint. Every posting is checked as it is applied, and in the end the money is added up a
second time from the journals. Works on a live directory. A trimmed log has no beginning: restore its archive first.

  replay                                                balances, all accounts
  replay --account acc_…                                one account, and its newest transactions
  replay --account acc_… --until 2026-11-20T23:59:59Z   as they were then
  replay --account acc_… --until 4211                   as they were after that record of the account's partition
  replay --verify                                       compare with the checkpoint, row by row; differences are shown`,
  options: {
    ...partitionOptions,
    until: { type: 'string', value: 'time or sequence', help: 'stop there' },
    account: { type: 'string', value: 'id', help: 'show this account with its transactions' },
    limit: { type: 'string', value: 'number', help: 'transactions to show (default: 20)' },
    verify: { type: 'boolean', help: 'compare with the checkpoint' },
    scratch: {
      type: 'string',
      value: 'directory',
      help: 'where to build; takes as much room as the views (default: TMPDIR)',
    },
  },
  run: (input) => withData(input.directory, (data) => run(data, input)),
};

interface Plan {
  readonly names: readonly PartitionName[];
  /** Of the log as it is when it is asked. */
  readonly upTo: (name: PartitionName) => number;
}

async function run(data: Data, input: ToolInput): Promise<ToolResult> {
  const { values } = input;
  const verify = values['verify'] === true;
  const accountId = stringOf(values, 'account');
  const limit = ordinalOf(values, 'limit') ?? LIMITS.logToolTransactionsShown;
  // Its id says by itself where it is.
  assertGoesWith(values, 'account', ['until', 'limit', 'scratch', 'verify']);
  assertGoesBeside(values, 'limit', ['account']);
  if (accountId !== undefined) assertAccountId(accountId);
  if (verify && (values['until'] !== undefined || accountId !== undefined)) {
    throw new UsageError('--verify goes with neither --until nor --account');
  }
  if (verify && data.views === null) {
    throw new UsageError(`${input.directory} has no checkpoint to compare with`);
  }
  const plan = planWork(data, values, accountId, verify);
  const rebuild = new Rebuild(data.log, stringOf(values, 'scratch') ?? null, input.progress);
  try {
    const replayed = await replayAll(data, input, rebuild, plan, verify);
    if (accountId === undefined) return allResult(rebuild.views, replayed, verify);
    const partition = partitionOfAccount(data, accountId);
    const report = reportAccount(rebuild.views, null, { partition, accountId }, limit);
    return accountResult(accountId, report, replayed, rebuild.views.position('accounts', partition));
  } finally {
    await rebuild.close();
  }
}

function planWork(
  data: Data,
  values: ToolInput['values'],
  accountId: string | undefined,
  verify: boolean,
): Plan {
  let names: PartitionName[] = chosen(allPartitions(data.log, verify ? data.views : null), values);
  if (accountId !== undefined) {
    const partition = partitionOfAccount(data, accountId);
    names = names.filter((name) => name.group === 'accounts' && name.partition === partition);
  } else if (!verify && values['group'] === undefined) {
    names = names.filter(({ group }) => group === 'accounts');
  }
  for (const { group, partition } of names) {
    const start = data.log.startOf(group, partition);
    if (start.batch === 0) continue;
    throw new UsageError(
      `${group}/${partition} was trimmed up to sequence ${start.sequence}: ` +
        `restore its archive and a backup into another directory, and replay that`,
    );
  }
  return { names, upTo: untilOf(data, values, names) };
}

function untilOf(
  data: Data,
  values: ToolInput['values'],
  names: readonly PartitionName[],
): (name: PartitionName) => number {
  const until = stringOf(values, 'until');
  const lastOf = (name: PartitionName): number => lastSequence(data.log, name);
  if (until === undefined) return lastOf;
  if (!/^\d{1,12}$/.test(until)) {
    const atMs = timeOf(values, 'until') ?? 0;
    return (name) => lastSequenceAt(data.log, name, atMs);
  }
  if (names.length !== 1) {
    throw new UsageError(
      'a sequence is one of a partition: give --account, or --group and --partition, with it',
    );
  }
  return (name) => {
    const last = lastOf(name);
    if (Number(until) <= last) return Number(until);
    throw new UsageError(`${nameOf(name)} ends at sequence ${last}`);
  };
}

async function replayAll(
  data: Data,
  input: ToolInput,
  rebuild: Rebuild,
  { names, upTo }: Plan,
  verify: boolean,
): Promise<Replayed> {
  const startedMs = performance.now();
  const batches = names.map(({ group, partition }) => data.log.lastBatchNumber(group, partition));
  input.progress.start(
    'replay',
    batches.reduce((sum, count) => sum + count, 0),
  );
  const work: Work[] = [];
  const faults: Fault[] = [];
  const audits: (LedgerAudit & PartitionName)[] = [];
  const verified: VerifiedPartition[] = [];
  for (const name of names) {
    const { group, partition } = name;
    const compared = verify ? await orFault(() => verifyPartition(data, rebuild, name)) : null;
    data.log.refresh();
    const reach = await orFault(() => upTo(name));
    if (typeof reach !== 'number') {
      faults.push(reach);
      continue;
    }
    if (compared !== null && 'problem' in compared) {
      faults.push(compared);
      continue;
    }
    if (compared !== null) verified.push(compared);
    const fault = await rebuild.advance({ group, partition }, reach);
    rebuild.views.refresh();
    if (fault !== null) {
      faults.push(fault);
      work.push({ group, partition, upTo: rebuild.views.position(group, partition)?.sequence ?? 0 });
      continue;
    }
    work.push({ group, partition, upTo: reach });
    if (group === 'accounts') {
      audits.push({ group, partition, ...auditLedger(rebuild.views.rows(group, partition)) });
    }
    await breathe();
  }
  const durationMs = performance.now() - startedMs;
  return { work, faults, audits, verified, records: rebuild.records, bytes: rebuild.bytes, durationMs };
}

/** The service goes on writing its checkpoint: it is read as of one moment, and the rebuilt views are brought there. */
async function verifyPartition(
  { log, views }: Data,
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
  if (position === null || uncompared !== null) {
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
