// `inspect`: what is in the log. Ranges and counts in an instant, one batch, or one record.
import { decodeBatch } from '../batch.ts';
import { type LogReader, NotInLog } from '../log-reader.ts';
import { type Batch, nameOf, type PartitionName } from '../types.ts';
import {
  chosen,
  partitionOptions,
  table,
  timeText,
  tipReport,
  ViewsUnreadable,
  withReader,
  withViews,
} from './partitions.ts';
import { assertGoesWith, ordinalOf, UsageError } from './tool.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';
import { isPageFault } from '../lmdb.ts';
import { messageOf } from '../thrown.ts';
import type { ViewStore } from '../views.ts';
import { allPartitions, checkpointFault, faultLine } from './verify.ts';

export const inspect: Tool = {
  name: 'inspect',
  summary: 'Show what is in the log: ranges, counts, one batch or one record.',
  help: `
Without more, one line for each partition: batches, sequences, epoch, times, and how far its checkpoint has got. Only the
ends are read: use verify for the whole. A checkpoint that reaches further than the log tells that its end is lost.

  inspect --group accounts --partition 3 --batch 17       the batch, its header and its records
  inspect --group accounts --partition 3 --sequence 4211  the record`,
  options: {
    ...partitionOptions,
    batch: { type: 'string', value: 'number', help: 'show this batch' },
    sequence: { type: 'string', value: 'number', help: 'show this record' },
  },
  run: (input) => withReader(input.directory, (reader) => run(reader, input)),
};

async function run(reader: LogReader, input: ToolInput): Promise<ToolResult> {
  assertShownAlone(input.values);
  const batch = ordinalOf(input.values, 'batch');
  const sequence = ordinalOf(input.values, 'sequence');
  if (batch === undefined && sequence === undefined) return ranges(reader, input);
  const names = chosen(reader.partitionNames(), input.values);
  const [name, ...others] = names;
  if (name === undefined || others.length > 0) throw new UsageError('give --group and --partition with it');
  return batch === undefined ? showRecord(reader, name, sequence ?? 0) : showBatch(reader, name, batch);
}

/** A batch or a record: of both, one would be passed over. */
export function assertShownAlone(values: ToolInput['values']): void {
  for (const name of ['batch', 'sequence']) assertGoesWith(values, name, ['group', 'partition', 'raw']);
}

async function ranges(reader: LogReader, { directory, values }: ToolInput): Promise<ToolResult> {
  const rangesBeside = (views: ViewStore | null, problems: string[]): ToolResult =>
    rangesWith(reader, chosen(allPartitions(reader, views), values), views, problems);
  try {
    return await withViews(directory, async (views) => rangesBeside(views, []));
  } catch (error) {
    if (!(error instanceof ViewsUnreadable)) throw error;
    return rangesBeside(null, [error.message]);
  }
}

/** `problems`: what is wrong besides. */
function rangesWith(
  reader: LogReader,
  names: PartitionName[],
  views: ViewStore | null,
  problems: string[],
): ToolResult {
  const rows: (string | number)[][] = [
    ['partition', 'batches', 'records', 'first', 'last', 'epoch', 'last written', 'checkpoint'],
  ];
  const partitions: object[] = [];
  for (const { group, partition } of names) {
    const name = nameOf({ group, partition });
    try {
      const start = reader.startOf(group, partition);
      const tip = reader.tip(group, partition);
      const checkpoint = views?.position(group, partition)?.sequence ?? 0;
      const batches = tip.batch - start.batch;
      const records = tip.sequence - start.sequence;
      partitions.push({
        group,
        partition,
        batches,
        records,
        start: tipReport(start),
        tip: tipReport(tip),
        checkpoint,
      });
      rows.push([
        name,
        batches,
        records,
        start.sequence + 1,
        tip.sequence,
        tip.epoch,
        timeText(tip.timeMs),
        checkpoint,
      ]);
      const fault = checkpointFault(reader, views, { group, partition });
      if (fault !== null) problems.push(faultLine(fault));
    } catch (error) {
      if (isPageFault(error)) throw error;
      const problem = messageOf(error);
      problems.push(problem);
      partitions.push({ group, partition, problem });
    }
  }
  return {
    sound: problems.length === 0,
    report: { partitions, problems },
    lines: [...table(rows), ...problems],
  };
}

function showBatch(reader: LogReader, name: PartitionName, number: number): ToolResult {
  const batch = batchAt(reader, name, number);
  const header = headerOf(batch);
  return {
    sound: true,
    report: { ...header, records: batch.records.map((record, index) => recordReport(batch, record, index)) },
    lines: [
      ...table(Object.entries(header).map(([name, value]) => [name, String(value)])),
      '',
      ...batch.records.map((record, index) => `${batch.firstSequence + index}  ${record}`),
    ],
  };
}

function showRecord(reader: LogReader, { group, partition }: PartitionName, sequence: number): ToolResult {
  const batch = batchWith(reader, { group, partition }, sequence);
  const index = sequence - batch.firstSequence;
  const report = {
    group,
    partition,
    batch: batch.batch,
    time: timeText(batch.timeMs),
    ...recordReport(batch, batch.records[index] ?? '', index),
  };
  return { sound: true, report, lines: [JSON.stringify(report, null, 2)] };
}

export function batchAt(reader: LogReader, { group, partition }: PartitionName, number: number): Batch {
  const bytes = reader.bytesOf(group, partition, number);
  if (bytes === undefined) throw absent({ group, partition }, `batch ${number}`);
  return decodeBatch(bytes, { group, partition, batch: number });
}

/** That holds the record. */
export function batchWith(reader: LogReader, { group, partition }: PartitionName, sequence: number): Batch {
  try {
    for (const batch of reader.read(group, partition, { fromSequence: sequence })) {
      // One that only opens an epoch has none.
      if (batch.firstSequence + batch.records.length > sequence) return batch;
    }
  } catch (error) {
    if (!(error instanceof NotInLog)) throw error;
  }
  throw absent({ group, partition }, `sequence ${sequence}`);
}

function absent({ group, partition }: PartitionName, what: string): UsageError {
  const place = `--group ${group} --partition ${partition}`;
  return new UsageError(`${nameOf({ group, partition })} has no ${what}: inspect ${place} says what it has`);
}

export function headerOf(batch: Batch) {
  return {
    group: batch.group,
    partition: batch.partition,
    batch: batch.batch,
    epoch: batch.epoch,
    firstSequence: batch.firstSequence,
    count: batch.records.length,
    time: timeText(batch.timeMs),
    bytes: batch.bytes.length,
    hash: batch.hash.toString('hex'),
  };
}

function recordReport(batch: Batch, record: string, index: number): { sequence: number; record: unknown } {
  return { sequence: batch.firstSequence + index, record: parsed(record) };
}

/** Records are JSON as a rule; what is not is shown as it is. */
function parsed(record: string): unknown {
  try {
    return JSON.parse(record);
  } catch (error) {
    if (error instanceof SyntaxError) return record;
    throw error;
  }
}
