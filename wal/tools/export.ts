// `export`: batches out of the log into files, for another log or for people. `import`: batches into a stopped log, each
// proven to follow what is there.
import { existsSync, rmSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { type BatchPlace, emptyTip, tipAt } from '../batch.ts';
import { WriteAheadLog } from '../log.ts';
import { hasLog } from '../lmdb.ts';
import { LogReader, NotInLog, untilUnchanged } from '../log-reader.ts';
import type { RecordsOf, Segment } from './manifest.ts';
import { type Checkpoints, lookAtCheckpoints, unlookedLines } from './checkpoints.ts';
import { batchesIn, chosen, partitionOptions, timeText, withOthers, withReader } from './partitions.ts';
import { breathe } from './priority.ts';
import {
  aloneIn,
  batchesUpTo,
  filesOf,
  isLeftBehind,
  isLock,
  partial,
  removedLines,
  SegmentDirectory,
  sequencesText,
} from './segment.ts';
import { Portions } from './portions.ts';
import { whileStopped } from './stopped.ts';
import { directoryOf, numberOf, stringOf, targetOf, UsageError } from './tool.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';
import { syncDirectory } from '../sync-directory.ts';
import { naming } from '../thrown.ts';
import { type Batch, nameOf, type PartitionName, type Tip, tipFrom } from '../types.ts';
import { markImport, markImported, unfinishedProblem } from '../unfinished.ts';
import { type Fault, faultLine, verifyPartitions } from './verify.ts';

/** With what is not written to its end. */
const linesName = /^.+-\d+\.jsonl(\.part)?$/;

/** `recordsOf`: null where nobody knows what records are. */
export function exportTool(recordsOf: RecordsOf | null): Tool {
  return { ...exporting, run: (input) => runExport(input, recordsOf) };
}

const exporting: Omit<Tool, 'run'> = {
  name: 'export',
  summary: 'Write batches of the log to files: segments for import, or lines of JSON for people.',
  help: `
  export --to ./copy                                        all partitions, as segments with a manifest
  export --to ./copy --group accounts --partition 3         one partition
  export --to ./copy --group accounts --partition 3 --to-sequence 4211   what is whole of it before damage
  export --to ./lines --format jsonl --from-sequence 4000   one file a partition, one line a record

A line: {"group","partition","sequence","batch","epoch","time","record"}. Works on a live directory. Where a checkpoint reaches
further than the log, its end is lost: what there is of it is exported, and the exit status is 1.`,
  options: {
    ...partitionOptions,
    to: { type: 'string', value: 'directory', help: 'an empty directory, or one that is not there yet' },
    format: { type: 'string', value: 'format', help: 'segments (default) or jsonl' },
    'from-sequence': { type: 'string', value: 'number', help: 'jsonl: leave out earlier records' },
    'to-sequence': {
      type: 'string',
      value: 'number',
      help: 'leave out later records; of segments, batches that hold one',
    },
  },
};

function runExport(input: ToolInput, recordsOf: RecordsOf | null): Promise<ToolResult> {
  return withReader(input.directory, async (reader) => {
    const checkpoints = await lookAtCheckpoints(reader, input.directory);
    const names = chosen(withOthers(reader.partitionNames(), checkpoints.names), input.values);
    const result = await exportFrom(reader, names, input, recordsOf);
    return withLost(result, checkpoints, lostOf(names, checkpoints, input));
  });
}

/** What is missing of what was asked for. Damage, of which the sequence may not be known, ends whoever reads it. */
function lostOf(names: readonly PartitionName[], { faults }: Checkpoints, { values }: ToolInput): Fault[] {
  const last = numberOf(values, 'to-sequence') ?? Infinity;
  return names
    .flatMap((name) => faults.get(nameOf(name)) ?? [])
    .filter(({ sequence }) => sequence > 0 && sequence <= last);
}

function withLost(
  { report, lines }: ToolResult,
  checkpoints: Checkpoints,
  faults: readonly Fault[],
): ToolResult {
  const sound = faults.length === 0;
  return {
    sound,
    report: { sound, faults, views: checkpoints.problem, ...report },
    lines: [
      ...unlookedLines(checkpoints),
      ...faults.map(faultLine),
      ...lines,
      ...(sound ? [] : ['NOT SOUND: what the log has is exported, and what it has lost is not, see above']),
    ],
  };
}

async function exportFrom(
  reader: LogReader,
  names: readonly PartitionName[],
  input: ToolInput,
  recordsOf: RecordsOf | null,
): Promise<ToolResult> {
  const to = targetOf(input, 'to');
  const format = stringOf(input.values, 'format') ?? 'segments';
  if (!['segments', 'jsonl'].includes(format)) throw new UsageError('--format is segments or jsonl');
  if (input.values['from-sequence'] !== undefined && format !== 'jsonl') {
    throw new UsageError('--from-sequence goes with --format jsonl');
  }
  const [first, last] = ['from-sequence', 'to-sequence'].map((name) => numberOf(input.values, name));
  if (first !== undefined && last !== undefined && first > last) {
    throw new UsageError(`--from-sequence ${first} is behind --to-sequence ${last}`);
  }
  const files = existsSync(to) ? filesOf(to) : [];
  const mayBeLeftBehind = format === 'jsonl' ? files.some(isLock) : isLeftBehind(files);
  // Before a lock is made in it: one that is left by a tool that was killed says that what stands there was left behind, too.
  if (files.length > 0 && !mayBeLeftBehind) throw new UsageError(`${to} is not empty`);
  if (format === 'jsonl') return exportLines(reader, names, to, input);
  return SegmentDirectory.extend(to, (target) => exportSegments(reader, names, target, input, recordsOf));
}

async function exportSegments(
  reader: LogReader,
  names: readonly PartitionName[],
  target: SegmentDirectory,
  { directory, progress, values }: ToolInput,
  recordsOf: RecordsOf | null,
): Promise<ToolResult> {
  const sequence = numberOf(values, 'to-sequence');
  const ends = names.map((name) => ({ name, last: reader.lastBatchNumber(name.group, name.partition) }));
  progress.start('export', batchesIn(reader, names));
  const segments: Segment[] = [];
  for (const { name, last } of ends) {
    const write = async (): Promise<Segment | null> => {
      const end = Math.min(last, reader.lastBatchNumber(name.group, name.partition));
      if (end === 0) return null;
      const start = reader.startOf(name.group, name.partition);
      const batches =
        sequence === undefined
          ? batchesUpTo(reader, name, start, tipAt(reader.batch(name.group, name.partition, end)))
          : batchesEndingBy(reader, name, start, sequence);
      return target.write(name, start, batches, progress);
    };
    const segment = await untilUnchanged(() => target.attempt(write));
    if (segment !== null) segments.push(segment);
  }
  await target.add(segments, null, recordsOf?.(directory) ?? null);
  const written = new Set(segments.map(nameOf));
  return {
    sound: true,
    report: { to: target.path, removed: target.removed, segments },
    lines: [
      ...removedLines(target),
      ...segments.map((one) => `${nameOf(one)}: ${sequencesText(one)}, ${one.file}`),
      ...names
        .filter((name) => !written.has(nameOf(name)))
        .map(
          (name) =>
            `${nameOf(name)}: no whole batch${sequence === undefined ? '' : ` up to sequence ${sequence}`}`,
        ),
    ],
  };
}

/** Reads nothing behind the sequence: it may be damaged. */
function* batchesEndingBy(
  reader: LogReader,
  { group, partition }: PartitionName,
  start: Tip,
  sequence: number,
): Generator<Batch, void, undefined> {
  if (start.sequence >= sequence) return;
  reader.lookAgain(group, partition, start);
  for (const batch of reader.read(group, partition, { afterBatch: start.batch })) {
    const end = tipAt(batch);
    if (end.sequence > sequence) return;
    yield batch;
    if (end.sequence === sequence) return;
  }
}

/** One file a partition, each there whole or not at all. */
async function exportLines(
  reader: LogReader,
  names: readonly PartitionName[],
  to: string,
  { progress, values }: ToolInput,
): Promise<ToolResult> {
  const first = numberOf(values, 'from-sequence') ?? 1;
  const last = numberOf(values, 'to-sequence') ?? Infinity;
  return aloneIn(to, async (afterKilled) => {
    const present = filesOf(to).filter((file) => !isLock(file));
    const removed = afterKilled && present.every((file) => linesName.test(file)) ? present : [];
    if (present.length > removed.length) throw new UsageError(`${to} is not empty`);
    for (const file of removed) rmSync(join(to, file));
    progress.start('export', batchesIn(reader, names));
    const files: { file: string; records: number }[] = [];
    try {
      for (const { group, partition } of names) {
        const one = { file: join(to, `${group}-${partition}.jsonl`), records: 0 };
        files.push(one);
        const asked = { file: one.file, first, last };
        one.records = await untilUnchanged(() => writeLines(reader, { group, partition }, asked, progress));
      }
      await syncDirectory(to);
    } catch (error) {
      for (const { file } of files) {
        for (const name of [file, `${file}${partial}`]) rmSync(name, { force: true });
      }
      throw error;
    }
    return {
      sound: true,
      report: { to, removed, files },
      lines: [
        ...removedLines({ removed }),
        ...files.map(({ file, records }) => `${file}: ${records} records`),
      ],
    };
  });
}

async function writeLines(
  reader: LogReader,
  name: PartitionName,
  { file, first, last }: { file: string; first: number; last: number },
  progress: ToolInput['progress'],
): Promise<number> {
  const temporary = `${file}${partial}`;
  // Over what an attempt has written whose log was written anew under it.
  const handle = await open(temporary, 'w', 0o600);
  let written = 0;
  try {
    for (const { batch, lines } of linesOf(reader, name, first, last)) {
      await naming(temporary, () => handle.writeFile(lines.join('')));
      written += lines.length;
      progress.add(1, batch.bytes.length);
      await breathe();
    }
    await naming(temporary, () => handle.sync());
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  return written;
}

function* linesOf(
  reader: LogReader,
  { group, partition }: PartitionName,
  first: number,
  last: number,
): Generator<{ batch: Batch; lines: string[] }, void, undefined> {
  const from = Math.max(first, reader.startOf(group, partition).sequence + 1);
  if (from > last) return;
  for (const batch of batchesFrom(reader, { group, partition }, from)) {
    const lines: string[] = [];
    batch.records.forEach((record, index) => {
      const sequence = batch.firstSequence + index;
      if (sequence < from || sequence > last) return;
      const time = timeText(batch.timeMs);
      const place = { group, partition, sequence, batch: batch.batch, epoch: batch.epoch, time };
      lines.push(
        `${JSON.stringify(place).slice(0, -1)},"record":${isJson(record) ? record : JSON.stringify(record)}}\n`,
      );
    });
    yield { batch, lines };
    // What is behind it may be damaged.
    if (tipAt(batch).sequence >= last) return;
  }
}

/** None where the log ends before it. */
function* batchesFrom(
  reader: LogReader,
  { group, partition }: PartitionName,
  sequence: number,
): Generator<Batch, void, undefined> {
  try {
    yield* reader.read(group, partition, { fromSequence: sequence });
  } catch (error) {
    if (!(error instanceof NotInLog)) throw error;
  }
}

function isJson(record: string): boolean {
  try {
    JSON.parse(record);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

/** `newestRecords`: the newest format of records that this version reads; of a newer one nothing is imported. `placeProblem`: what a directory
 *  has no place for, and why, or null; absent where nobody knows. */
export function importTool(newestRecords = Infinity, placeProblem: PlaceProblem = () => null): Tool {
  return { ...importing, run: (input) => runImport(input, newestRecords, placeProblem) };
}

type PlaceProblem = (directory: string, names: readonly PartitionName[]) => string | null;

const importing: Omit<Tool, 'run'> = {
  name: 'import',
  summary:
    'Append exported batches to a stopped log, or put back what was trimmed, each proven to fit what is there.',
  help: `
  import --data ./data --from ./copy
  import --data ./data --from /mnt/archive/daftari          also puts back what was trimmed
  import … --group accounts                                 on a node of a cluster that has the accounts alone

Batches that the log has already are compared and skipped; a batch that differs, or a gap, stops the import before the
partition is touched further. What may have records of a newer format than this version reads is refused before that. A log that
begins late, after a trim or with a snapshot, begins with batch 1 again when the source has all that is missing. The service
that writes the directory must be stopped. Afterwards all partitions are verified. One that did not come to its end leaves what
it had appended by then, and nothing else opens that log: run it again.`,
  options: {
    ...partitionOptions,
    from: { type: 'string', value: 'directory', help: 'an export, backup or archive' },
  },
};

async function runImport(
  { directory, values, progress }: ToolInput,
  newestRecords: number,
  placeProblem: PlaceProblem,
): Promise<ToolResult> {
  const source = SegmentDirectory.open(directoryOf(values, 'from'));
  source.assertReadable(newestRecords, 'import');
  const names = chosen(source.partitions(), values);
  const problem = placeProblem(directory, names);
  if (problem !== null) throw new Error(problem);
  progress.start(
    'import',
    names
      .flatMap((name) => source.segmentsOf(name))
      .reduce((sum, { start, end }) => sum + end.batch - start.batch, 0),
  );
  return whileStopped(directory, () => importAll(source, names, directory, progress));
}

async function importAll(
  source: SegmentDirectory,
  names: readonly PartitionName[],
  directory: string,
  progress: ToolInput['progress'],
): Promise<ToolResult> {
  const problem = unfinishedProblem(directory, 'import');
  if (problem !== null) throw new Error(problem);
  const ends = new Map(names.map((name) => [markedName(name), source.endOf(name)?.batch ?? 0]));
  let isMarked = false;
  const mark = async (): Promise<void> => {
    if (!isMarked) await markImport(directory, ends);
    isMarked = true;
  };
  // What is put back before a log's beginning counts when it is whole: a log that is there is marked when it is appended to.
  if (!hasLog(directory)) await mark();
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure: () => {}, unfinished: 'import' });
  let imported = 0;
  try {
    for (const name of names) assertMeets(source, log, name);
    for (const name of names) {
      imported += await importPartition(source, log, name, mark, progress);
      ends.set(markedName(name), log.tip(name.group, name.partition).batch);
    }
  } finally {
    await log.close();
  }
  const short = await markImported(directory, ends);
  const reader = LogReader.openReader({ directory, unfinished: 'import' });
  try {
    const verified = await verifyPartitions(reader, names, progress);
    const faults = verified.flatMap((one) => one.faults);
    const sound = faults.length === 0 && short.size === 0;
    const late = (sound ? names : [])
      .map((name) => ({ name, ...reader.startOf(name.group, name.partition) }))
      .filter(({ batch }) => batch > 0);
    return {
      sound,
      report: { sound, imported, faults, short: Object.fromEntries(short) },
      lines: [
        ...Array.from(
          short,
          ([name, batch]) =>
            `${name}: an import that did not come to its end was to bring batches up to ${batch}: run that again`,
        ),
        ...faults.map((fault) => `${nameOf(fault)} batch ${fault.batch}: ${fault.problem}`),
        ...late.map(
          ({ name, sequence }) =>
            `${nameOf(name)} begins after sequence ${sequence}: ${source.path} has not all that is before`,
        ),
        `${sound ? 'sound' : 'NOT SOUND'}: ${imported} batches imported into ${directory}`,
      ],
    };
  } finally {
    await reader.close();
  }
}

function markedName({ group, partition }: PartitionName): string {
  return `${group}-${partition}`;
}

/** Throws where its first batch leaves a gap, or follows another than the log has: nothing is appended then. */
function assertMeets(source: SegmentDirectory, log: WriteAheadLog, name: PartitionName): void {
  const { group, partition } = name;
  const [first] = source.segmentsOf(name);
  const start = log.startOf(group, partition);
  const tip = log.tip(group, partition);
  // Into nothing, or from before the log's beginning.
  if (first === undefined || tip.batch === 0 || first.start.batch < start.batch) return;
  const before = tipFrom(first.start);
  if (before.batch > tip.batch) {
    throw new Error(
      `${nameOf(name)}: the log ends with batch ${tip.batch}, and ${source.path} begins after ${before.batch}: import what is ` +
        'between first',
    );
  }
  if (log.holds(group, partition, before)) return;
  throw differing(source, { ...name, batch: before.batch });
}

function differing({ path }: SegmentDirectory, place: BatchPlace): Error {
  return new Error(`${nameOf(place)}: batch ${place.batch} of ${path} differs from the log's`);
}

async function importPartition(
  source: SegmentDirectory,
  log: WriteAheadLog,
  name: PartitionName,
  mark: () => Promise<void>,
  progress: ToolInput['progress'],
): Promise<number> {
  const { group, partition } = name;
  const [first] = source.segmentsOf(name);
  if (first === undefined) return 0;
  const isNew = log.lastBatchNumber(group, partition) === 0 && log.startOf(group, partition).batch === 0;
  const start = isNew ? tipFrom(first.start) : log.startOf(group, partition);
  const tip = log.tip(group, partition);
  const putsBack = start.batch > 0 && first.start.batch === 0;
  const end = source.endOf(name)?.batch ?? 0;
  if (putsBack && end < start.batch) {
    throw new Error(
      `${nameOf(name)}: the log begins after batch ${start.batch}, and ${source.path} ends with ${end}: add what is between to ` +
        'the archive first',
    );
  }
  let putBack = emptyTip;
  const before = new Portions(async (batches) => {
    putBack = await log.prepend(group, partition, putBack, batches);
  });
  const after = new Portions(async (batches) => {
    await mark();
    // Of a log that begins late: noted when the batch is here that proves it.
    if (log.tip(group, partition).batch < start.batch) await log.startAt(group, partition, start);
    await log.appendForeign(group, partition, batches);
  });
  let imported = 0;
  for await (const batch of source.read(name)) {
    progress.add(1, batch.bytes.length);
    // Of what is before its beginning the log knows the last.
    if (batch.batch === start.batch && !batch.hash.equals(start.hash)) throw differing(source, batch);
    if (batch.batch <= start.batch) {
      if (!putsBack) continue;
      await before.add(batch);
      imported += 1;
      if (batch.batch === start.batch) await before.flush();
    } else if (batch.batch <= tip.batch) {
      if (log.holds(group, partition, tipAt(batch))) continue;
      throw differing(source, batch);
    } else {
      await after.add(batch);
      imported += 1;
    }
  }
  await after.flush();
  return imported;
}
