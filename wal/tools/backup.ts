// `backup`: copies what the log has gained since the last time, while the service runs. restore.ts makes a log of it.
import { LogCorruption, LogRewritten } from '../batch.ts';
import { type LogReader, untilUnchanged } from '../log-reader.ts';
import { nameOf, type PartitionName, storedTip, type Tip, tipFrom } from '../types.ts';
import { type Checkpoints, lookAtCheckpoints, unlookedLines } from './checkpoints.ts';
import type { Point, RecordsOf, Segment } from './manifest.ts';
import { timeText, withOthers, withReader } from './partitions.ts';
import { batchesUpTo, begunLines, removedLines, SegmentDirectory } from './segment.ts';
import { targetOf } from './tool.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';

/** `recordsOf`: null where nobody knows what records are. */
export function backupTool(recordsOf: RecordsOf | null): Tool {
  return {
    ...backup,
    run: (input) =>
      withReader(input.directory, (reader) =>
        SegmentDirectory.extend(targetOf(input, 'to'), async (target) =>
          runBackup(reader, target, await lookAtCheckpoints(reader, input.directory), input, recordsOf),
        ),
      ),
  };
}

const backup: Omit<Tool, 'run'> = {
  name: 'backup',
  summary: 'Copy what the log has gained since the last backup, while the service runs.',
  help: `
Adds segments to a directory that only backups of this log go to. All partitions are taken as they were at one moment (but
those whose log a node of a cluster cuts off and writes anew meanwhile: they are taken as they are then).
Every batch is proven on its way, so a damaged log does not become a backup: what is damaged keeps its partition, and
those of the same number in the other groups, as the last backup has them; all others are copied, and the exit status is 1.
So it is where the log was cut off and written anew behind what the backup has, or begins later, and where a checkpoint reaches
further than the log: its end is lost.

The views are not copied: they are rebuilt from the log. The other files of the data directory (keys and tokens) are not
copied either: keep them apart from the log, or whoever finds the backup can read its secrets.

  backup --data ./data --to /mnt/backup/daftari`,
  options: { to: { type: 'string', value: 'directory', help: 'where the backups of this log are' } },
};

async function runBackup(
  reader: LogReader,
  target: SegmentDirectory,
  checkpoints: Checkpoints,
  input: ToolInput,
  recordsOf: RecordsOf | null,
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
  await target.add(segments, point, recordsOf?.(input.directory) ?? null);

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

/** Partitions of one number go together: one group reads the log of another, and must not have read what is not there. Throws when
 *  the backup is of another log, or cannot begin with this one. */
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
      if (error instanceof OtherHistory && !error.isOfBackup) throw error;
      faults.push({ names, problem: problemIn(error) });
    }
  }
  const [fault] = faults;
  const begins = plans.flat().some((name) => target.endOf(name) === null);
  // What begins here could be added to the backup of another log.
  if (fault !== undefined && begins && !target.isNew && !isOf(reader, target)) {
    throw new Error(`${fault.problem}, or the backup is of another log`);
  }
  return { plans, faults };
}

/** The log of a partition does not go on from where the backup has it. */
class OtherHistory extends Error {
  /** Whether anything of the backup is this log's. */
  readonly isOfBackup: boolean;

  constructor(isOfBackup: boolean, problem: string) {
    super(problem);
    this.isOfBackup = isOfBackup;
  }
}

/** What keeps some partitions out; anything else is thrown on. */
function problemIn(error: unknown): string {
  if (error instanceof LogCorruption || error instanceof OtherHistory) return error.message;
  throw error;
}

function workOf(reader: LogReader, target: SegmentDirectory, { group, partition }: PartitionName): Work {
  const name = { group, partition };
  const tip = reader.tip(group, partition);
  const begins = reader.startOf(group, partition);
  const start = target.endOf(name) ?? begins;
  if (target.endOf(name) === null && start.batch > 0) {
    const mend = target.isNew
      ? 'copy the archive that has them to --to first, the backup goes on from there'
      : 'begin a new directory as a copy of the archive that has them';
    throw new OtherHistory(
      isOf(reader, target),
      `${nameOf(name)}: batches up to ${start.batch} were trimmed, and without them nothing can be restored: ${mend}`,
    );
  }
  if (start.batch > tip.batch) {
    const problem = `the backup has batch ${start.batch}, but the log ends at ${tip.batch}: its end is lost`;
    throw new LogCorruption({ ...name, batch: tip.batch + 1, sequence: tip.sequence + 1 }, problem);
  }
  if (start.batch < begins.batch) {
    throw new OtherHistory(
      isOf(reader, target),
      `${nameOf(name)}: the backup ends at batch ${start.batch}, or is of another log, and batches up to ${begins.batch} were ` +
        'trimmed: begin a new directory as a copy of the archive that has them',
    );
  }
  if (!reader.holds(group, partition, start)) {
    const isOfBackup = isOf(reader, target);
    throw new OtherHistory(
      isOfBackup,
      isOfBackup
        ? `${nameOf(name)}: the log has another batch ${start.batch} than the backup: its end was cut off since, as a node of a ` +
            'cluster does with what no other has, and written anew. The backup keeps its own; begin a new directory for the rest'
        : `${nameOf(name)}: the backup is of another log`,
    );
  }
  return { ...name, start, tip };
}

/** True when some segment of some partition begins or ends with a batch that the log has. */
function isOf(reader: LogReader, target: SegmentDirectory): boolean {
  return target.partitions().some((name) => {
    const tips = target.segmentsOf(name).flatMap(({ start, end }) => [start, end]);
    return tips.some((tip) => tip.batch > 0 && hasBatch(reader, name, tipFrom(tip)));
  });
}

function hasBatch(reader: LogReader, { group, partition }: PartitionName, tip: Tip): boolean {
  try {
    return reader.holds(group, partition, tip);
  } catch (error) {
    // Its own partition's trouble, and told as that.
    if (error instanceof LogCorruption) return false;
    throw error;
  }
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
