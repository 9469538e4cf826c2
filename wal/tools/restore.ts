// `restore`: makes a log of a backup in another directory, up to a point in time or a sequence, and proves that log before it
// says it is done.
import { encodeBatch, tipAt } from '../batch.ts';
import { socketFile } from '../directory-socket.ts';
import { WriteAheadLog } from '../log.ts';
import { LogReader } from '../log-reader.ts';
import { type Batch, nameOf, type PartitionName, type Tip, tipFrom } from '../types.ts';
import { isUnfinished, markFinished, markUnfinished } from '../unfinished.ts';
import { table, timeText, tipReport } from './partitions.ts';
import { Portions } from './portions.ts';
import { letServicesGoFirst } from './priority.ts';
import { filesOf, holding, SegmentDirectory } from './segment.ts';
import { withTemporary } from './temporary.ts';
import { directoryOf, numberOf, paceOption, stringOf, timeOf, UsageError } from './tool.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';
import { verifyPartitions } from './verify.ts';

/** A group whose partitions each read the log of another group's partition of their number, and note how far in their own. */
export interface Reading {
  readonly group: string;
  /** Whose log it reads. */
  readonly of: string;
  /** How far it had read by this record; null: the record does not say. */
  readTo(record: string): number | null;
}

/** `newestRecords`: the newest format of records that this version reads; of a newer one nothing is restored.
 *  `reading`: what it has taken of records that are left out of the log it reads is left out, too; null: it is not known here. */
export function restoreTool(reading: Reading | null, newestRecords = Infinity): Tool {
  return { ...restore, run: (input) => runRestore(input, reading, newestRecords) };
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
are cut off before the batch with which they had read more of their accounts than is restored, also where the backup itself ends so,
which is said: what they sent of it goes out again when it happens again.`,
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
    ...paceOption,
  },
};

interface Until {
  readonly timeMs: number;
  readonly at: (PartitionName & { readonly sequence: number }) | null;
  readonly reading: Reading | null;
}

async function runRestore(
  { values, progress }: ToolInput,
  reading: Reading | null,
  newestRecords: number,
): Promise<ToolResult> {
  const source = SegmentDirectory.open(directoryOf(values, 'from'));
  const until = { ...untilOf(values, source), reading };
  // What was written up to a time may all be of an older format.
  if (until.timeMs === Infinity) source.assertReadable(newestRecords, 'restore');
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
  await markUnfinished(to);
  const log = WriteAheadLog.open({
    directory: to,
    now: Date.now,
    onFailure: () => {},
    unfinished: 'restore',
  });
  const cuts: string[] = [];
  try {
    for (const name of names) {
      const cut = await copyPartition(source, log, name, until, progress);
      if (cut !== null) cuts.push(cut);
    }
  } finally {
    await log.close();
  }
  const { sound, report, lines } = await proveRestored(source, to, until, rehearse, progress);
  return { sound, report: { ...report, cuts }, lines: [...cuts, ...lines] };
}

/** Reads it back from the disk by a reader that knows nothing of what was written. */
async function proveRestored(
  source: SegmentDirectory,
  to: string,
  until: Until,
  rehearse: boolean,
  progress: ToolInput['progress'],
): Promise<ToolResult> {
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
        ...(sound && !rehearse
          ? ['Next: put the kept files of the old data directory beside it, and start the service on it.']
          : []),
      ],
    };
  } finally {
    await reader.close();
  }
}

/** Why it ends before the backup does, where nobody asked for that; null: it does not. */
async function copyPartition(
  source: SegmentDirectory,
  log: WriteAheadLog,
  name: PartitionName,
  until: Until,
  progress: ToolInput['progress'],
): Promise<string | null> {
  const { group, partition } = name;
  const [first] = source.segmentsOf(name);
  if (first === undefined) return null;
  let tip = tipFrom(first.start);
  if (tip.batch > 0) await log.startAt(group, partition, tip);
  const portions = new Portions((batches) => log.appendForeign(group, partition, batches));
  const last = until.at?.group === group && until.at.partition === partition ? until.at.sequence : Infinity;
  const read = readOf(source, log, name, until.reading);
  let problem: string | null = null;
  for await (const batch of source.read(name)) {
    progress.add(1, batch.bytes.length);
    if (batch.timeMs > until.timeMs) break;
    problem = read === null ? null : problemOf(batch, read);
    // Not within it: what comes after could not be imported any more.
    if (problem !== null) break;
    const kept = cut(batch, tip, last);
    if (kept === null) break;
    await portions.add(kept);
    if (kept !== batch) break;
    tip = tipAt(batch);
  }
  await portions.flush();
  return problem === null ? null : `${nameOf(name)} is cut off after sequence ${tip.sequence}: ${problem}`;
}

/** What a reader reads: the log of another partition, up to where it is restored. */
interface Read extends PartitionName {
  readonly end: number;
  readonly readTo: (record: string) => number | null;
}

/** Null: it reads none, or one that is not there: who is to have that, imports it. */
function readOf(
  source: SegmentDirectory,
  log: WriteAheadLog,
  { group, partition }: PartitionName,
  reading: Reading | null,
): Read | null {
  if (reading === null || reading.group !== group) return null;
  const name = { group: reading.of, partition };
  if (source.endOf(name) === null) return null;
  return {
    ...name,
    end: log.tip(reading.of, partition).sequence,
    readTo: (record) => reading.readTo(record),
  };
}

/** Null: with this batch, no more had been read than there is. How far that was never falls, so its last word of it says so. */
function problemOf({ records }: Batch, { end, readTo, ...name }: Read): string | null {
  for (const record of records.toReversed()) {
    const sequence = readTo(record);
    if (sequence === null) continue;
    if (sequence <= end) return null;
    return `what follows had read ${nameOf(name)} up to ${sequence}, which is restored up to ${end}`;
  }
  return null;
}

/** The batch, what remains of it up to a sequence, or null when nothing does. */
function cut(batch: Batch, previous: Tip, last: number): Batch | null {
  if (tipAt(batch).sequence <= last) return batch;
  const records = batch.records.slice(0, Math.max(0, last + 1 - batch.firstSequence));
  if (records.length === 0) return null;
  const recordsBytes = records.reduce((sum, record) => sum + Buffer.byteLength(record), 0);
  return encodeBatch({ ...batch, records, recordsBytes, previousHash: previous.hash });
}

/** What is asked of a partition, a sequence or a time that the backup does not have is refused: more would be restored. */
function untilOf(values: ToolInput['values'], source: SegmentDirectory): Omit<Until, 'reading'> {
  const timeMs = timeOf(values, 'until') ?? Infinity;
  for (const name of source.partitions()) {
    const begun = source.segmentsOf(name)[0]?.start.timeMs ?? 0;
    if (begun <= timeMs) continue;
    throw new UsageError(`${nameOf(name)} begins after ${timeText(begun)} in ${source.path}`);
  }
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
