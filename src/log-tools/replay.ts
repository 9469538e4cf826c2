// `replay`: what the log alone says, to the end or to any moment; and whether the checkpoint says the same.

import { LIMITS } from '../limits.ts';
import { threadsFor } from '../storage/view-threads.ts';
import { reportAccount } from './account-report.ts';
import { assertAccountId, type Data, partitionOfAccount, withData } from './data.ts';
import { endOf } from './places.ts';
import { Rebuild } from './rebuild.ts';
import { type PartitionReplayed, replayPartition, type Task, type Until } from './replay-partition.ts';
import { accountResult, allResult, type Replayed } from './replay-text.ts';
import { replayByThreads } from './replay-threads.ts';
import type { PartitionName } from '../../wal/types.ts';
import { batchesIn, chosen, partitionOptions } from '../../wal/tools/partitions.ts';
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
import { allPartitions, orFault } from '../../wal/tools/verify.ts';

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

async function run(data: Data, input: ToolInput): Promise<ToolResult> {
  const { values, progress } = input;
  const verify = values['verify'] === true;
  const accountId = stringOf(values, 'account');
  const limit = ordinalOf(values, 'limit') ?? LIMITS.logToolTransactionsShown;
  const scratch = stringOf(values, 'scratch') ?? null;
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
  const tasks = await planTasks(data, values, accountId, verify);
  const startedMs = performance.now();
  progress.start('replay', batchesIn(data.log, tasks));
  const threads = threadsFor(tasks);
  if (threads > 1) {
    const reading = { directory: input.directory, readsViews: verify };
    const partitions = await replayByThreads(tasks, threads, reading, scratch, progress);
    return allResult(together(partitions, startedMs), verify);
  }
  const rebuild = Rebuild.inScratch(data.log, scratch, progress);
  try {
    const partitions: PartitionReplayed[] = [];
    for (const task of tasks) partitions.push(await replayPartition(data, rebuild, task));
    const replayed = together(partitions, startedMs);
    if (accountId === undefined) return allResult(replayed, verify);
    const partition = partitionOfAccount(data, accountId);
    const report = reportAccount(rebuild.views, null, { partition, accountId }, limit);
    return accountResult(accountId, report, replayed, rebuild.views.position('accounts', partition));
  } finally {
    await rebuild.close();
  }
}

async function planTasks(
  data: Data,
  values: ToolInput['values'],
  accountId: string | undefined,
  verify: boolean,
): Promise<Task[]> {
  let names: PartitionName[] = chosen(allPartitions(data.log, verify ? data.views : null), values);
  if (accountId !== undefined) {
    const partition = partitionOfAccount(data, accountId);
    names = names.filter((name) => name.group === 'accounts' && name.partition === partition);
  } else if (!verify && values['group'] === undefined) {
    names = names.filter(({ group }) => group === 'accounts');
  }
  for (const { group, partition } of names) {
    const start = await orFault(() => data.log.startOf(group, partition));
    if ('problem' in start || start.batch === 0) continue;
    throw new UsageError(
      `${group}/${partition} was trimmed up to sequence ${start.sequence}: ` +
        `restore its archive and a backup into another directory, and replay that`,
    );
  }
  const until = untilOf(values);
  if (until !== null && 'sequence' in until && names.length !== 1) {
    throw new UsageError(
      'a sequence is one of a partition: give --account, or --group and --partition, with it',
    );
  }
  const ends = await Promise.all(names.map((name) => orFault(() => endOf(data.log, name))));
  return names.map(({ group, partition }, at) => {
    const end = ends[at];
    // Of one whose beginning or end cannot be read whoever replays it is told.
    const records = end === undefined || 'problem' in end ? 0 : end.sequence;
    return { group, partition, until, verify, records };
  });
}

function untilOf(values: ToolInput['values']): Until {
  const until = stringOf(values, 'until');
  if (until === undefined) return null;
  if (/^\d{1,12}$/.test(until)) return { sequence: Number(until) };
  return { atMs: timeOf(values, 'until') ?? 0 };
}

function together(partitions: readonly PartitionReplayed[], startedMs: number): Replayed {
  const sum = (of: (one: PartitionReplayed) => number): number =>
    partitions.reduce((total, one) => total + of(one), 0);
  return {
    work: partitions.flatMap(({ work }) => work ?? []),
    faults: partitions.flatMap(({ fault }) => fault ?? []),
    audits: partitions.flatMap(({ audit }) => audit ?? []),
    verified: partitions.flatMap(({ verified }) => verified ?? []),
    balances: partitions.flatMap(({ balances }) => balances).slice(0, LIMITS.logToolAccountsShownMax),
    records: sum(({ records }) => records),
    bytes: sum(({ bytes }) => bytes),
    durationMs: performance.now() - startedMs,
  };
}
