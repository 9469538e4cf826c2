// `backup`: copies what the log has gained since the last time, while the service runs. `restore`: makes a log of it in
// another directory, up to a point in time or a sequence, and proves that log before it says it is done.
import { encodeBatch, LogCorruption, LogRewritten, tipAt } from '../batch.ts';
import { WriteAheadLog } from '../log.ts';
import { LogReader, untilUnchanged } from '../log-reader.ts';
import { type Batch, nameOf, type PartitionName, type Tip } from '../types.ts';
import { socketFile } from '../directory-socket.ts';
import { type Checkpoints, lookAtCheckpoints, unlookedLines } from './checkpoints.ts';
import { isUnfinished, markFinished, markUnfinished } from '../unfinished.ts';
import { storedTip, tipFrom } from './manifest.ts';
import type { Point, Segment } from './manifest.ts';
import { table, timeText, tipReport, withOthers, withReader } from './partitions.ts';
import { Portions } from './portions.ts';
import { letServicesGoFirst } from './priority.ts';
import { batchesUpTo, begunLines, filesOf, holding, removedLines, SegmentDirectory } from './segment.ts';
import { withTemporary } from './temporary.ts';
import { directoryOf, numberOf, stringOf, targetOf, timeOf, UsageError } from './tool.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';
import { verifyPartitions } from './verify.ts';

export const backup: Tool = {
  name: 'backup',
  summary: 'Copy what the log has gained since the last backup, while the service runs.',
  help: `
Adds segments to a directory that only backups of this log go to. All partitions are taken as they were at one moment (but
those whose log a node of a cluster cuts off and writes anew meanwhile: they are taken as they are then).
Every batch is proven on its way, so a damaged log does not become a backup: what is damaged keeps its partition, and
those of the same number in the other groups, as the last backup has them; all others are copied, and the exit status is 1.
So it is where the log was cut off and written anew behind what the backup has, and where a checkpoint reaches further than
the log: its end is lost.

The views are not copied: they are rebuilt from the log. The other files of the data directory (keys and tokens) are not
copied either: keep them apart from the log, or whoever finds the backup can read its secrets.

  backup --data ./data --to /mnt/backup/daftari`,
  options: { to: { type: 'string', value: 'directory', help: 'where the backups of this log are' } },
  run: (input) =>
    withReader(input.directory, (reader) =>
      SegmentDirectory.extend(targetOf(input, 'to'), async (target) =>
        runBackup(reader, target, await lookAtCheckpoints(reader, input.directory), input),
      ),
    ),
};

async function runBackup(
  reader: LogReader,
  target: SegmentDirectory,
  checkpoints: Checkpoints,
  input: ToolInput,
): Promise<ToolResult> {
  // One turn of the event loop is one read transaction: all that is planned in it is of one moment.
  const { plans, faults } = plan(reader, target, checkpoints);
  input.progress.start(
    'backup',
    plans.flat().reduce((sum, { tip, start }) => sum + tip.batch - start.batch, 0),
  );
  const segments: Segment[] = [];
  const tips: Point['tips'][number][] = [];
  for (const planned of plans) {
    try {
      const { works, written } = await copyOut(reader, target, planned, input.progress);
      segments.push(...written);
      tips.push(...works.map(({ group, partition, tip }) => ({ group, partition, ...storedTip(tip) })));
    } catch (error) {
      faults.push({ names: planned, problem: problemIn(error) });
    }
  }
  const point = { timeMs: Math.max(0, ...tips.map(({ timeMs }) => timeMs)), tips };
  await target.add(segments, point);

  const batches = segments.reduce((sum, { start, end }) => sum + end.batch - start.batch, 0);
  const records = segments.reduce((sum, { start, end }) => sum + end.sequence - start.sequence, 0);
  const fileBytes = segments.reduce((sum, segment) => sum + segment.fileBytes, 0);
  const sound = faults.length === 0;
  return {
    sound,
    report: {
      sound,
      to: target.path,
      batches,
      records,
      fileBytes,
      time: timeText(point.timeMs),
      begun: target.isNew,
      faults,
      views: checkpoints.problem,
      removed: target.removed,
      segments,
    },
    lines: [
      ...begunLines(target),
      ...removedLines(target),
      ...unlookedLines(checkpoints),
      ...faults.map(
        ({ names, problem }) => `Nothing of ${names.map(nameOf).join(', ')} was added: ${problem}`,
      ),
      `${batches} batches, ${records} records added (${fileBytes} bytes) to ${target.path}, up to ${timeText(point.timeMs)}`,
      `Not in it: the other files of ${input.directory} (keys and tokens). Keep them apart.`,
      ...(sound ? [] : ['NOT SOUND: not all of the log was added, see above and verify']),
    ],
  };
}

interface Work extends PartitionName {
  readonly start: Tip;
  readonly tip: Tip;
}

/** Partitions of one number, of which nothing is copied, because one of them is damaged or goes on otherwise. */
interface Passed {
  readonly names: readonly PartitionName[];
  readonly problem: string;
}

/** Partitions of one number go together: one group reads the log of another, and must not have read what is not there. */
function plan(
  reader: LogReader,
  target: SegmentDirectory,
  checkpoints: Checkpoints,
): { plans: Work[][]; faults: Passed[] } {
  // What the log has lost altogether is known to the backup, or to a checkpoint.
  const all = withOthers(withOthers(reader.partitionNames(), target.partitions()), checkpoints.names);
  const plans: Work[][] = [];
  const faults: Passed[] = [];
  for (const names of Map.groupBy(all, ({ partition }) => partition).values()) {
    try {
      for (const name of names) {
        const fault = checkpoints.faults.get(nameOf(name));
        if (fault !== undefined) throw new LogCorruption(fault, fault.problem);
      }
      plans.push(names.map((name) => workOf(reader, target, name)));
    } catch (error) {
      faults.push({ names, problem: problemIn(error) });
    }
  }
  return { plans, faults };
}

/** Log and backup were one and are not any more. */
class OtherEnd extends Error {}

/** What keeps some partitions out; anything else is thrown on. */
function problemIn(error: unknown): string {
  if (error instanceof LogCorruption || error instanceof OtherEnd) return error.message;
  throw error;
}

/** Throws when the backup is of another log, or cannot begin with this one. */
function workOf(reader: LogReader, target: SegmentDirectory, { group, partition }: PartitionName): Work {
  const name = { group, partition };
  const tip = reader.tip(group, partition);
  const start = target.endOf(name) ?? reader.startOf(group, partition);
  if (target.endOf(name) === null && start.batch > 0) {
    throw new Error(
      `${nameOf(name)}: batches up to ${start.batch} were trimmed, and without them nothing can be restored: copy the ` +
        'archive that has them to --to first, the backup goes on from there',
    );
  }
  if (start.batch > tip.batch) {
    const problem = `the backup has batch ${start.batch}, but the log ends at ${tip.batch}: its end is lost`;
    throw new LogCorruption({ ...name, batch: tip.batch + 1, sequence: tip.sequence + 1 }, problem);
  }
  if (!reader.holds(group, partition, start)) {
    if (!hasCommonPart(reader, target, name)) {
      const trimmed = reader.startOf(group, partition).batch;
      throw new Error(
        start.batch < trimmed
          ? `${nameOf(name)}: the backup ends at batch ${start.batch}, or is of another log, and batches up to ${trimmed} were ` +
              'trimmed: begin a new directory as a copy of the archive that has them'
          : `${nameOf(name)}: the backup is of another log`,
      );
    }
    throw new OtherEnd(
      `the log has another batch ${start.batch} than the backup: its end was cut off since, as a node of a cluster does ` +
        'with what no other has, and written anew. The backup keeps its own; begin a new directory for the rest',
    );
  }
  return { ...name, start, tip };
}

/** True when some segment begins or ends with a batch that the log has. */
function hasCommonPart(
  reader: LogReader,
  target: SegmentDirectory,
  { group, partition }: PartitionName,
): boolean {
  return target
    .segmentsOf({ group, partition })
    .flatMap(({ start, end }) => [start, end])
    .some((tip) => tip.batch > 0 && reader.holds(group, partition, tipFrom(tip)));
}

/** Partitions of one number, planned anew when the log of one was cut off and written anew before it was read. */
async function copyOut(
  reader: LogReader,
  target: SegmentDirectory,
  planned: readonly Work[],
  progress: ToolInput['progress'],
): Promise<{ works: readonly Work[]; written: Segment[] }> {
  let works = planned;
  return untilUnchanged(async () => {
    try {
      return { works, written: await target.attempt(() => write(reader, target, works, progress)) };
    } catch (error) {
      if (error instanceof LogRewritten) works = planned.map((name) => workOf(reader, target, name));
      throw error;
    }
  });
}

async function write(
  reader: LogReader,
  target: SegmentDirectory,
  works: readonly Work[],
  progress: ToolInput['progress'],
): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (const { start, tip, ...name } of works) {
    const segment = await target.write(name, start, batchesUpTo(reader, name, start, tip), progress);
    if (segment !== null) segments.push(segment);
  }
  return segments;
}

/** A group whose partitions each read the log of another group's partition of their number, and note how far in their own. */
export interface Reading {
  readonly group: string;
  /** Whose log it reads. */
  readonly of: string;
  /** How far it had read by this record; null: the record does not say. */
  readTo(record: string): number | null;
}

/** `reading`: what it has taken of records that are left out of the log it reads is left out, too; null: it is not known here. */
export function restoreTool(reading: Reading | null): Tool {
  return { ...restore, run: (input) => runRestore(input, reading) };
}

const restore: Omit<Tool, 'run'> = {
  name: 'restore',
  data: false,
  summary: 'Make a log from a backup in another directory, up to any time or sequence, and prove it.',
  help: `
Reads a backup (or an archive or export) into an empty directory, then verifies every batch of what it wrote. Nothing
that exists is changed. What a restore leaves that did not come to its end is no log: nothing opens it, and the same
command begins anew there. Put the kept files of the old data directory beside the restored log, and start the service on it: the views are rebuilt
from the log.

  restore --from /mnt/backup/daftari --to ./restored
  restore --from /mnt/backup/daftari --rehearse              restores into a temporary directory, proves it, removes it
  restore --from … --to … --until 2026-11-20T23:59:59Z       every partition as it was then
  restore --from … --to … --group accounts --partition 3 --until-sequence 4211   one partition up to a record

A batch is cut where the sequence falls within it: what remains of it is sealed anew with the same epoch and time. Webhooks
are cut off where they had read more of their accounts than is restored: what they sent of it goes out again when it happens again.`,
  options: {
    from: { type: 'string', value: 'directory', help: 'a backup' },
    to: { type: 'string', value: 'directory', help: 'an empty directory, or one that is not there yet' },
    rehearse: { type: 'boolean', help: 'restore into a temporary directory (in TMPDIR) and remove it' },
    until: { type: 'string', value: 'time', help: 'leave out what was written after it' },
    'until-sequence': {
      type: 'string',
      value: 'number',
      help: 'leave out later records of --group and --partition',
    },
    group: { type: 'string', value: 'name', help: 'with --until-sequence' },
    partition: { type: 'string', value: 'number', help: 'with --until-sequence' },
  },
};

interface Until {
  readonly timeMs: number;
  readonly at: (PartitionName & { readonly sequence: number }) | null;
  readonly reading: Reading | null;
}

async function runRestore({ values, progress }: ToolInput, reading: Reading | null): Promise<ToolResult> {
  const source = SegmentDirectory.open(directoryOf(values, 'from'));
  const until = { ...untilOf(values, source), reading };
  const rehearse = values['rehearse'] === true;
  if (rehearse && values['to'] !== undefined) throw new UsageError('--rehearse goes without --to');
  letServicesGoFirst();
  const restored = (to: string): Promise<ToolResult> => restoreInto(source, to, until, rehearse, progress);
  return rehearse
    ? withTemporary('daftari-rehearsal-', restored)
    : restoreAlone(directoryOf(values, 'to'), restored);
}

function restoreAlone(to: string, restored: (to: string) => Promise<ToolResult>): Promise<ToolResult> {
  return holding(to, async () => {
    const files = filesOf(to).filter((file) => file !== socketFile);
    const goesOn = isUnfinished(to, files);
    if (files.length > 0 && !goesOn) {
      throw new UsageError(`${to} is not empty: restore changes nothing that exists`);
    }
    const { sound, report, lines } = await restored(to);
    const begun = goesOn ? ['Begun anew: a restore into it before did not come to its end.'] : [];
    return { sound, report, lines: [...begun, ...lines] };
  });
}

async function restoreInto(
  source: SegmentDirectory,
  to: string,
  until: Until,
  rehearse: boolean,
  progress: ToolInput['progress'],
): Promise<ToolResult> {
  const readers = until.reading?.group;
  // Those after the logs that they read.
  const names = source
    .partitions()
    .toSorted((a, b) => Number(a.group === readers) - Number(b.group === readers));
  const total = names
    .flatMap((name) => source.segmentsOf(name))
    .reduce((sum, { start, end }) => sum + end.batch - start.batch, 0);
  progress.start('restore', total);
  markUnfinished(to);
  const log = WriteAheadLog.open({
    directory: to,
    now: Date.now,
    onFailure: () => {},
    unfinished: 'restore',
  });
  try {
    for (const name of names) await copyPartition(source, log, name, until, progress);
  } finally {
    await log.close();
  }
  // Read back from the disk by a reader that knows nothing of what was written.
  const reader = LogReader.openReader({ directory: to, unfinished: 'restore' });
  try {
    const verified = await verifyPartitions(reader, reader.partitionNames(), progress);
    if (verified.length === 0) {
      const before = until.timeMs === Infinity ? '' : ` from before ${timeText(until.timeMs)}`;
      throw new UsageError(`${source.path} has nothing to restore${before}`);
    }
    const faults = verified.flatMap((one) => one.faults);
    const sound = faults.length === 0;
    if (sound) await markFinished(to);
    const rows = verified.map(({ group, partition, records, tip }) => {
      return [nameOf({ group, partition }), records, 'records to', tip.sequence, timeText(tip.timeMs)];
    });
    const lateOnes = sound ? reader.partitions().filter(({ start }) => start.batch > 0) : [];
    const partitions = verified.map(({ group, partition, tip }) => ({ group, partition, ...tipReport(tip) }));
    return {
      sound,
      report: { sound, to: rehearse ? null : to, faults, partitions },
      lines: [
        ...table(rows),
        ...faults.map((fault) => `${nameOf(fault)} batch ${fault.batch}: ${fault.problem}`),
        ...lateOnes.map(
          (one) =>
            `${nameOf(one)} begins after sequence ${one.start.sequence}: import what is before, or it is not served`,
        ),
        `${sound ? 'sound' : 'NOT SOUND'}: ${rehearse ? 'the rehearsal' : to}`,
      ],
    };
  } finally {
    await reader.close();
  }
}

async function copyPartition(
  source: SegmentDirectory,
  log: WriteAheadLog,
  name: PartitionName,
  until: Until,
  progress: ToolInput['progress'],
): Promise<void> {
  const { group, partition } = name;
  const [first] = source.segmentsOf(name);
  if (first === undefined) return;
  let tip = tipFrom(first.start);
  if (tip.batch > 0) await log.startAt(group, partition, tip);
  const portions = new Portions((batches) => log.appendForeign(group, partition, batches));
  const isKept = keeps(source, log, name, until);
  for await (const batch of source.read(name)) {
    const kept = batch.timeMs > until.timeMs ? null : cut(batch, tip, isKept);
    progress.add(1, batch.bytes.length);
    if (kept === null) break;
    await portions.add(kept);
    if (kept !== batch) break;
    tip = tipAt(batch);
  }
  await portions.flush();
}

/** Whether a record goes with those before it. */
function keeps(
  source: SegmentDirectory,
  log: WriteAheadLog,
  { group, partition }: PartitionName,
  { at, reading }: Until,
): (sequence: number, record: string) => boolean {
  const isCut = at?.group === group && at.partition === partition;
  const last = isCut ? at.sequence : Infinity;
  const readable = reading?.group === group ? endOfCut(source, log, { group: reading.of, partition }) : null;
  return (sequence, record) =>
    sequence <= last && (readable === null || (reading?.readTo(record) ?? 0) <= readable);
}

/** Where the log of a partition ends that was restored in part; null: it was restored as far as it is there. */
function endOfCut(
  source: SegmentDirectory,
  log: WriteAheadLog,
  { group, partition }: PartitionName,
): number | null {
  const { sequence } = log.tip(group, partition);
  const whole = source.endOf({ group, partition })?.sequence ?? 0;
  return sequence < whole ? sequence : null;
}

/** The batch, what remains of it, or null when nothing does. */
function cut(
  batch: Batch,
  previous: Tip,
  isKept: (sequence: number, record: string) => boolean,
): Batch | null {
  const keep = batch.records.findIndex((record, index) => !isKept(batch.firstSequence + index, record));
  if (keep < 0) return batch;
  if (keep === 0) return null;
  const records = batch.records.slice(0, keep);
  const recordsBytes = records.reduce((sum, record) => sum + Buffer.byteLength(record), 0);
  return encodeBatch({ ...batch, records, recordsBytes, previousHash: previous.hash });
}

/** What is asked of a partition or a sequence that the backup does not have is refused: the whole would be restored. */
function untilOf(values: ToolInput['values'], source: SegmentDirectory): Omit<Until, 'reading'> {
  const timeMs = timeOf(values, 'until') ?? Infinity;
  const sequence = numberOf(values, 'until-sequence');
  const group = stringOf(values, 'group');
  const partition = numberOf(values, 'partition');
  if (sequence === undefined && group === undefined && partition === undefined) return { timeMs, at: null };
  if (sequence === undefined || group === undefined || partition === undefined) {
    throw new UsageError('--until-sequence, --group and --partition go together');
  }
  const [first] = source.segmentsOf({ group, partition });
  const end = source.endOf({ group, partition });
  if (first === undefined || end === null) {
    throw new UsageError(`${source.path} has no partition ${group}/${partition}`);
  }
  if (sequence < first.start.sequence) {
    throw new UsageError(
      `${group}/${partition} begins after sequence ${first.start.sequence} in ${source.path}`,
    );
  }
  if (sequence > end.sequence) {
    throw new UsageError(`${group}/${partition} ends at sequence ${end.sequence} in ${source.path}`);
  }
  return { timeMs, at: { group, partition, sequence } };
}
