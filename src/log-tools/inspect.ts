// `inspect` with the domain in it: a transaction's whole story, an account as it is now, and batches with their records
// decoded. What the log knows without the domain (ranges, raw records) is wal's own inspect.

import { LIMITS } from '../limits.ts';
import { isId } from '../domain/id.ts';
import { maskMsisdn } from '../domain/msisdn.ts';
import { accountLines, reportAccount } from './account-report.ts';
import { assertAccountId, type Data, groupOf, groups, partitionOfAccount, withData } from './data.ts';
import { storyOf } from './story.ts';
import { storyLines } from './story-text.ts';
import {
  assertShownAlone,
  batchAt,
  batchWith,
  headerOf,
  inspect as inspectLog,
} from '../../wal/tools/inspect.ts';
import { chosen, timeText } from '../../wal/tools/partitions.ts';
import {
  assertGoesBeside,
  assertGoesWith,
  ordinalOf,
  type Tool,
  type ToolInput,
  type ToolResult,
  UsageError,
} from '../../wal/tools/tool.ts';

export const inspect: Tool = {
  name: 'inspect',
  summary: 'Show what is in the log: a transaction’s whole story, an account, a batch, or the ranges.',
  help: `
Without more, one line for each partition: batches, sequences, epoch, times, and how far its checkpoint has got. Only the
ends are read: use verify for the whole. A checkpoint that reaches further than the log tells that its end is lost. Works on a
live directory. Full phone numbers are shown with --raw only.

  inspect --transaction chg_…                                every record of it: events, journals, provider, webhooks
  inspect --account acc_…                                    as it is now, and its newest transactions
  inspect --group accounts --partition 3 --batch 17          a batch, its header and its records
  inspect --group accounts --partition 3 --sequence 4211     a record`,
  options: {
    transaction: { type: 'string', value: 'id', help: 'tell its whole story' },
    account: { type: 'string', value: 'id', help: 'show this account' },
    limit: { type: 'string', value: 'number', help: 'transactions of the account to show (default: 20)' },
    ...inspectLog.options,
    raw: { type: 'boolean', help: 'show records of a batch as they are stored' },
  },
  run: (input) => {
    assertTogether(input.values);
    const { transaction, account, batch, sequence, raw } = input.values;
    if (typeof transaction === 'string') {
      return withData(input.directory, (data) => story(data, transaction, input), false);
    }
    if (typeof account === 'string') {
      return withData(input.directory, (data) => showAccount(data, account, input));
    }
    if (raw === true || (batch === undefined && sequence === undefined)) return inspectLog.run(input);
    return withData(input.directory, (data) => showRecords(data, input), false);
  },
};

/** An id says by itself where it is. */
function assertTogether(values: ToolInput['values']): void {
  assertGoesWith(values, 'transaction', []);
  assertGoesWith(values, 'account', ['limit']);
  assertShownAlone(values);
  assertGoesBeside(values, 'limit', ['account']);
  assertGoesBeside(values, 'raw', ['batch', 'sequence']);
}

async function story(data: Data, id: string, input: ToolInput): Promise<ToolResult> {
  const kinds = ['charge', 'payout', 'withdrawal', 'deposit'] as const;
  if (!kinds.some((kind) => isId(kind, id))) throw new UsageError(`${id} is not the id of a transaction`);
  const told = await storyOf(data, id, input.progress);
  if (told === null) {
    const lines = [
      `No record of ${id} is in this log. Trimmed batches are in their archive: restore it to look there.`,
    ];
    return { sound: false, report: { transactionId: id, found: false }, lines };
  }
  const chapters = told.chapters.map((chapter) => ({ ...chapter, at: timeText(chapter.at) }));
  const sound = told.faults.length === 0;
  return { sound, report: { found: true, ...told, chapters }, lines: storyLines(told) };
}

async function showAccount(data: Data, accountId: string, input: ToolInput): Promise<ToolResult> {
  assertAccountId(accountId);
  if (data.views === null) throw new UsageError('there is no checkpoint: use replay --account');
  const partition = partitionOfAccount(data, accountId);
  const limit = ordinalOf(input.values, 'limit') ?? LIMITS.logToolTransactionsShown;
  const report = reportAccount(data.views, data.log, { partition, accountId }, limit);
  if (report === null) {
    const lines = [`${accountId} is not in this data directory`];
    return { sound: false, report: { accountId, found: false }, lines };
  }
  const place = `accounts/${partition}, last changed by sequence ${report.sequence}`;
  return {
    sound: true,
    report: { found: true, partition, ...report },
    lines: [...accountLines(report), '', place],
  };
}

async function showRecords(data: Data, input: ToolInput): Promise<ToolResult> {
  const { values } = input;
  const [name, ...others] = chosen(data.log.partitionNames(), values);
  if (name === undefined || others.length > 0) throw new UsageError('give --group and --partition with it');
  const sequence = ordinalOf(values, 'sequence');
  const number = ordinalOf(values, 'batch');
  const batch =
    number === undefined ? batchWith(data.log, name, sequence ?? 0) : batchAt(data.log, name, number);
  const decoded = batch.records
    .map((line, index) => ({ sequence: batch.firstSequence + index, record: recordOf(name.group, line) }))
    .filter((one) => sequence === undefined || one.sequence === sequence);
  const header = headerOf(batch);
  return {
    sound: true,
    report: { ...header, records: decoded },
    lines: [
      ...Object.entries(header).map(([field, value]) => `${field.padEnd(13)} ${value}`),
      '',
      ...decoded.map((one) => `${one.sequence}  ${JSON.stringify(one.record, null, 2)}`),
    ],
  };
}

/** As its group reads it; full phone numbers masked. */
function recordOf(group: string, line: string): unknown {
  if (!groups.some(({ name }) => name === group)) return line;
  const json = JSON.stringify(groupOf(group).decode(line), (name, value: unknown) =>
    name === 'msisdn' && typeof value === 'string' ? maskMsisdn(value) : value,
  );
  return JSON.parse(json) as unknown;
}
