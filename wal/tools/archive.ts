// `archive`: old batches into segments, each once. `trim`: removes from a stopped log what is archived, proven to be the
// same, and needed by nobody.
import { emptyTip, LogCorruption, tipAt } from '../batch.ts';
import { WriteAheadLog } from '../log.ts';
import { type LogReader, untilUnchanged } from '../log-reader.ts';
import type { RecordsOf, Segment } from './manifest.ts';
import {
  assertHasLog,
  chosen,
  partitionOptions,
  table,
  timeText,
  withOthers,
  withReader,
  withViews,
} from './partitions.ts';
import { letServicesGoFirst } from './priority.ts';
import { batchesUpTo, begunLines, removedLines, SegmentDirectory, sequencesText } from './segment.ts';
import { whileStopped } from './stopped.ts';
import { directoryOf, numberOf, targetOf, timeOf } from './tool.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';
import { nameOf, type PartitionName, type Tip, tipFrom } from '../types.ts';
import type { ViewStore } from '../views.ts';

const dayMs = 24 * 60 * 60 * 1000;
const daysKept = 30;

/** What an archive of anything takes: from a log here, from streams in deploy/stream-tools.ts. */
export const archiveOptions: Tool['options'] = {
  ...partitionOptions,
  to: { type: 'string', value: 'directory', help: 'the archive, which nothing else goes to' },
  before: {
    type: 'string',
    value: 'time',
    help: `archive what was written before it (default: ${daysKept} days ago)`,
  },
};

export const archiveExamples = `
  archive --to /mnt/archive/daftari                         what is older than ${daysKept} days
  archive --to /mnt/archive/daftari --before 2026-10-01`;

/** Milliseconds since 1970. */
export function archiveBeforeOf(values: ToolInput['values']): number {
  return timeOf(values, 'before') ?? Date.now() - daysKept * dayMs;
}

/** A partition of which nothing was added, and why. */
export interface ArchiveFault extends PartitionName {
  readonly problem: string;
}

/** Names the segments in the manifest, and says what was done. `records`: as `add` takes it. */
export async function finishArchive(
  target: SegmentDirectory,
  beforeMs: number,
  segments: readonly Segment[],
  faults: readonly ArchiveFault[],
  records: number | null,
): Promise<ToolResult> {
  if (segments.length > 0) await target.add(segments, null, records);
  const lines = segments.map((one) => `${nameOf(one)}: ${sequencesText(one)}, ${one.fileBytes} bytes`);
  const nothing = `Nothing to archive that is older than ${timeText(beforeMs)} (--before).`;
  return {
    sound: faults.length === 0,
    report: {
      to: target.path,
      before: new Date(beforeMs).toISOString(),
      begun: target.isNew,
      removed: target.removed,
      segments,
      faults,
    },
    lines: [
      ...(segments.length > 0 ? begunLines(target) : []),
      ...removedLines(target),
      ...(lines.length === 0 && faults.length === 0 ? [nothing] : lines),
      ...faults.map((fault) => `${nameOf(fault)}: nothing was added: ${fault.problem}`),
    ],
  };
}

/** `recordsOf`: null where nobody knows what records are. */
export function archiveTool(recordsOf: RecordsOf | null): Tool {
  return {
    ...archive,
    run: (input) =>
      withReader(input.directory, (reader) => {
        letServicesGoFirst();
        return SegmentDirectory.extend(targetOf(input, 'to'), (target) =>
          runArchive(reader, target, input, recordsOf),
        );
      }),
  };
}

const archive: Omit<Tool, 'run'> = {
  name: 'archive',
  summary: 'Write old batches to compressed segments, each once, with their hashes recorded.',
  help: `
Adds to an archive what is older than --before and not in it yet. The log keeps it: trim removes it. Works on a live
directory. Where a partition is damaged, or does not go on from where the archive has it, it says so, with status 1, and adds the
others.
${archiveExamples}`,
  options: archiveOptions,
};

async function runArchive(
  reader: LogReader,
  target: SegmentDirectory,
  input: ToolInput,
  recordsOf: RecordsOf | null,
): Promise<ToolResult> {
  const beforeMs = archiveBeforeOf(input.values);
  // What the log has lost altogether is known to the archive.
  const names = chosen(withOthers(reader.partitionNames(), target.partitions()), input.values);
  const faults: ArchiveFault[] = [];
  const orFault = async (name: PartitionName, work: () => void | Promise<void>): Promise<void> => {
    try {
      await untilUnchanged(async () => work());
    } catch (error) {
      faults.push({ ...name, problem: problemIn(error) });
    }
  };
  const works: Work[] = [];
  for (const name of names) {
    await orFault(name, () => void works.push(workOf(reader, target, name, beforeMs)));
  }
  assertOfLog(reader, target, faults);
  input.progress.start(
    'archive',
    works.reduce((sum, { start, last }) => sum + last - start.batch, 0),
  );
  const segments: Segment[] = [];
  for (const { name } of works) {
    await orFault(name, async () => {
      // Looked at again: it may have been cut off, and written anew, since.
      const { start, last } = workOf(reader, target, name, beforeMs);
      if (last === start.batch) return;
      const end = tipAt(reader.batch(name.group, name.partition, last));
      const batches = batchesUpTo(reader, name, start, end);
      const segment = await target.attempt(() => target.write(name, start, batches, input.progress));
      if (segment !== null) segments.push(segment);
    });
  }
  return finishArchive(target, beforeMs, segments, faults, recordsOf?.(input.directory) ?? null);
}

/** Whatever is asked for: what begins here could be added to the archive of another log. */
function assertOfLog(reader: LogReader, target: SegmentDirectory, faults: readonly ArchiveFault[]): void {
  const names = target.partitions();
  const problems = faults.map((fault) => `${nameOf(fault)}: ${fault.problem}`);
  for (const name of names) {
    try {
      assertGoesOn(reader, name, target.endOf(name) ?? emptyTip);
      return;
    } catch (error) {
      problems.push(`${nameOf(name)}: ${problemIn(error)}`);
    }
  }
  if (names.length > 0) throw new Error(problems[0]);
}

interface Work {
  readonly name: PartitionName;
  readonly start: Tip;
  readonly last: number;
}

/** Throws OtherHistory, and LogCorruption. */
function workOf(
  reader: LogReader,
  target: SegmentDirectory,
  { group, partition }: PartitionName,
  beforeMs: number,
): Work {
  const name = { group, partition };
  const start = target.endOf(name) ?? reader.startOf(group, partition);
  assertGoesOn(reader, name, start);
  return { name, start, last: Math.max(start.batch, lastBefore(reader, name, beforeMs)) };
}

function assertGoesOn(reader: LogReader, name: PartitionName, end: Tip): void {
  if (!reader.holds(name.group, name.partition, end)) throw otherHistory(reader, name, end);
}

/** The archive has what the log does not go on from. */
class OtherHistory extends Error {}

/** What keeps one partition out; anything else is thrown on. */
function problemIn(error: unknown): string {
  if (error instanceof LogCorruption || error instanceof OtherHistory) return error.message;
  throw error;
}

/** Of an archive whose end is not in the log. Also where the log has nothing old enough to go on with: the archive may have what
 *  nobody else has any more, and none of what the log comes to have. */
function otherHistory(reader: LogReader, name: PartitionName, { batch }: Tip): OtherHistory {
  const begins = reader.startOf(name.group, name.partition).batch;
  const last = reader.lastBatchNumber(name.group, name.partition);
  if (batch < begins) {
    return new OtherHistory('the archive is of another log, or what follows it was trimmed');
  }
  const differs =
    batch > last
      ? `the archive ends with batch ${batch}, the log with batch ${last}`
      : `the log has another batch ${batch} than the archive`;
  return new OtherHistory(
    `${differs}: the archive is of another log, or this one has lost its end or was restored to before that. ` +
      'Keep the archive, and begin another directory for this log',
  );
}

/** The last batch written before a time; times do not fall, but for a clock set back: then fewer are archived. */
function lastBefore(reader: LogReader, { group, partition }: PartitionName, timeMs: number): number {
  let low = reader.startOf(group, partition).batch;
  let high = reader.lastBatchNumber(group, partition);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (reader.batch(group, partition, middle).timeMs < timeMs) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The lowest sequence of a partition that something still needs; null: nothing that is known. */
export type NeededFrom = (name: PartitionName) => number | null;

/** Whether a start goes on from the views of a partition; false: it makes them again. */
export type GoesOnFrom = (views: ViewStore, name: PartitionName) => boolean;

/** `neededFrom` says what cursors of other parts still need; null: they are not known here, and the result says so. The
 *  checkpoint is looked at in any case. */
export function trimTool(
  neededFrom: ((directory: string) => Promise<NeededFrom>) | null,
  goesOnFrom: GoesOnFrom = () => true,
): Tool {
  return {
    name: 'trim',
    summary: 'Remove from a stopped log what is archived and needed by nobody.',
    help: `
Without --yes it says what it would remove. Removes only batches that are in the archive (whose files are checked against
their hashes, and their chain against the log's), below the checkpoint, and below every cursor that needs them. The hash of
the last batch removed stays: the rest of the log is still proven. What an import that did not come to its end had put back
before the log's beginning goes, too. Of a partition that is damaged it removes nothing, and says so, with status 1. The service that
writes the directory must be stopped.

  trim --archive /mnt/archive/daftari
  trim --archive /mnt/archive/daftari --yes`,
    options: {
      ...partitionOptions,
      archive: { type: 'string', value: 'directory', help: 'where archive has written' },
      'keep-sequence': {
        type: 'string',
        value: 'number',
        help: 'keep this record and all after it, in every partition',
      },
      yes: { type: 'boolean', help: 'remove it' },
    },
    run: (input) => runTrim(input, neededFrom, goesOnFrom),
  };
}

const cursorsUnknown =
  'Cursors are not known to this tool: be sure that webhooks have read past it, or give --keep-sequence.';

interface Trim extends PartitionName {
  /** Batches up to this one go; `from` when none does. */
  readonly last: number;
  readonly from: number;
  /** Before `from`, of an import that did not come to its end: they never counted. */
  readonly left: number;
  readonly why: string;
}

async function runTrim(
  input: ToolInput,
  neededFrom: ((directory: string) => Promise<NeededFrom>) | null,
  goesOnFrom: GoesOnFrom,
): Promise<ToolResult> {
  const { directory } = input;
  const source = SegmentDirectory.open(directoryOf(input.values, 'archive'));
  const look = async (): Promise<Trims> => {
    const needed = (await neededFrom?.(directory)) ?? (() => null);
    return withReader(directory, (reader) => plan(reader, source, input, needed, goesOnFrom));
  };
  const yes = input.values['yes'] === true;
  // Otherwise it would be made, to be held.
  assertHasLog(directory);
  // Looked at while it is held: a start in between may make views anew that had reached further, and read all again.
  const { trims, faults } = yes
    ? await whileStopped(directory, async () => {
        const planned = await look();
        await remove(directory, planned.trims);
        return planned;
      })
    : await look();
  const rows = trims.map(({ group, partition, from, last, left, why }) => {
    const leftText = left === 0 ? '' : ` and ${left} that an import had left`;
    return [nameOf({ group, partition }), `${last - from} batches${leftText} to remove`, `kept: ${why}`];
  });
  const count = trims.reduce((sum, { from, last, left }) => sum + last - from + left, 0);
  return {
    sound: faults.length === 0,
    report: { removed: yes, partitions: trims, faults },
    lines: [
      ...table(rows),
      ...faults.map((fault) => `${nameOf(fault)}: nothing to remove: ${fault.problem}`),
      ...(neededFrom === null ? [cursorsUnknown] : []),
      trimmedText(count, yes),
    ],
  };
}

/** What a trim has done: `count` batches are, or would be, removed. */
export function trimmedText(count: number, yes: boolean): string {
  if (count === 0) return 'There is nothing to remove.';
  return yes ? `Removed ${count} batches.` : 'Nothing was removed: add --yes to remove this.';
}

async function remove(directory: string, trims: readonly Trim[]): Promise<void> {
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure: () => {} });
  try {
    for (const { group, partition, from, last, left } of trims) {
      if (left > 0) await log.removePrepended(group, partition);
      if (last > from) await log.trimBefore(group, partition, last + 1);
    }
  } finally {
    await log.close();
  }
}

/** A partition that is damaged keeps nothing from the others: where the disk is full, they may have the only room there is to make. */
interface Trims {
  readonly trims: readonly Trim[];
  readonly faults: readonly ArchiveFault[];
}

async function plan(
  reader: LogReader,
  source: SegmentDirectory,
  input: ToolInput,
  neededFrom: NeededFrom,
  goesOnFrom: GoesOnFrom,
): Promise<Trims> {
  const names = chosen(reader.partitionNames(), input.values);
  const keepSequence = numberOf(input.values, 'keep-sequence') ?? Infinity;
  return withViews(input.directory, async (views) => {
    const trims: Trim[] = [];
    const faults: ArchiveFault[] = [];
    for (const name of names) {
      const needed = Math.min(keepSequence, neededFrom(name) ?? Infinity);
      const position =
        views !== null && goesOnFrom(views, name) ? views.position(name.group, name.partition) : null;
      try {
        // From views of another log, or of another version, nothing starts: they are made again, from this log's first batch.
        const isOfThis = position !== null && reader.holds(name.group, name.partition, position);
        const checkpoint = isOfThis ? position.batch : 0;
        trims.push(await planPartition(reader, source, name, { needed, checkpoint }));
      } catch (error) {
        faults.push({ ...name, problem: problemIn(error) });
      }
    }
    return { trims, faults };
  });
}

async function planPartition(
  reader: LogReader,
  source: SegmentDirectory,
  name: PartitionName,
  { needed, checkpoint }: { needed: number; checkpoint: number },
): Promise<Trim> {
  const { group, partition } = name;
  const from = reader.startOf(group, partition).batch;
  const first = reader.firstBatchNumber(group, partition);
  const left = first > 0 && first <= from ? leftBefore(reader, name, first, from) : 0;
  const bounds: [number, string][] = [
    // The last batch stays: it says where the log ends.
    [reader.lastBatchNumber(group, partition) - 1, 'the last batch'],
    [checkpoint, 'what the checkpoint does not reach'],
    [archivedUpTo(source, name, from), 'what is not archived'],
    [
      needed === Infinity ? Infinity : lastBelow(reader, name, needed),
      `from sequence ${needed}, which is needed`,
    ],
  ];
  const [last, why] = bounds.reduce((least, bound) => (bound[0] < least[0] ? bound : least));
  if (last <= from) return { group, partition, from, last: from, left, why };
  // Found only when it is removed, damage there would keep the others' batches, too.
  reader.portionsBefore(group, partition, last + 1);
  for (const segment of source.segmentsOf(name)) {
    if (segment.end.batch <= from || segment.start.batch >= last) continue;
    await source.check(segment);
    const end = tipFrom(segment.end);
    if (!reader.holds(group, partition, end)) throw new Error(`${segment.file} is not of this log`);
  }
  return { group, partition, from, last, left, why };
}

/** How many of the batches up to `last` are there, from `first` on without a gap. */
function leftBefore(
  reader: LogReader,
  { group, partition }: PartitionName,
  first: number,
  last: number,
): number {
  let low = first;
  let high = last;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (reader.bytesOf(group, partition, middle) === undefined) high = middle - 1;
    else low = middle;
  }
  return low - first + 1;
}

/** The last batch of which the archive has all from the log's beginning on: an archive may begin later than the log, when it
 *  was made of a trimmed one. */
function archivedUpTo(source: SegmentDirectory, name: PartitionName, from: number): number {
  let end = from;
  for (const segment of source.segmentsOf(name)) {
    if (segment.start.batch > end) break;
    end = Math.max(end, segment.end.batch);
  }
  return end;
}

function lastBelow(reader: LogReader, { group, partition }: PartitionName, sequence: number): number {
  if (sequence <= reader.startOf(group, partition).sequence) return 0;
  const tip = reader.tip(group, partition);
  // One sequence is asked of all partitions, and some are shorter.
  if (sequence > tip.sequence) return tip.batch;
  const [batch] = reader.read(group, partition, { fromSequence: sequence });
  return (batch?.batch ?? tip.batch) - 1;
}
