// `npm run cluster -- archive` and `-- trim`: what is old leaves the streams, and the disks of the NATS servers, for an archive.
// The archive is that of `npm run wal -- archive`; `restore` and `import` there read it.
//
// Invariant: a batch leaves a stream only when the archive has it, whole from the first batch on, a snapshot of this stream from
// which an empty machine begins reaches well beyond it, and webhooks have read it.

import { NatsError } from 'nats';
import { decodeWebhookRecord } from '../actors/webhooks/record.ts';
import { withLink } from './operator-link.ts';
import { putBackTool } from './put-back.ts';
import type { PartitionPlace } from '../src/bus/bus.ts';
import type { NatsLink } from '../src/nats/connection.ts';
import { LIMITS } from '../src/limits.ts';
import { natsProblem } from '../src/nats/nats-problem.ts';
import { readSnapshot } from '../src/nats/snapshots/snapshots.ts';
import { LogChain } from '../src/nats/log/log-chain.ts';
import { batchesAfter, readWrong } from '../src/nats/log/stream-batches.ts';
import { batchAt, firstBatchOf, sequenceOf, type StreamPartition } from '../src/nats/log/stream-places.ts';
import { hasStream, logPartitions } from '../src/nats/streams.ts';
import { logStream } from '../src/nats/subjects.ts';
import { formatReached } from '../src/nats/write-format.ts';
import { emptyTip } from '../wal/batch.ts';
import {
  type ArchiveFault,
  archiveBeforeOf,
  archiveExamples,
  archiveOptions,
  finishArchive,
  trimmedText,
} from '../wal/tools/archive.ts';
import type { Segment } from '../wal/tools/manifest.ts';
import { chosen, partitionOptions, table, withOthers } from '../wal/tools/partitions.ts';
import { SegmentDirectory } from '../wal/tools/segment.ts';
import { directoryOf } from '../wal/tools/tool.ts';
import type { Tool, ToolInput, ToolResult } from '../wal/tools/tool.ts';
import { type Batch, nameOf, type PartitionName, type Tip, tipFrom } from '../wal/types.ts';

/** `connect` is called once, by the tool that is run. */
export function streamTools(connect: () => Promise<NatsLink>): readonly Tool[] {
  return [archiveTool(connect), trimTool(connect), putBackTool(connect)];
}

function archiveTool(connect: () => Promise<NatsLink>): Tool {
  return {
    name: 'archive',
    summary:
      'Write old batches of the streams to compressed segments, each once, with their hashes recorded.',
    help: `
Adds to an archive what is older than --before and not in it yet, every batch checked. The streams keep it: trim removes it.
The cluster goes on meanwhile. An archive that was begun from a node's log (npm run wal -- archive) goes on here. Where the
archive has a partition of which there is no stream, or that does not go on with its stream, it says so, with status 1, and
adds the others.
${archiveExamples}`,
    options: archiveOptions,
    data: false,
    run: (input) =>
      withLink(connect, (link) =>
        SegmentDirectory.extend(directoryOf(input.values, 'to'), (target) => runArchive(link, target, input)),
      ),
  };
}

async function runArchive(link: NatsLink, target: SegmentDirectory, input: ToolInput): Promise<ToolResult> {
  const beforeMs = archiveBeforeOf(input.values);
  const there = await partitionsThere(link);
  const asked = chosen(withOthers(there, target.partitions()), input.values);
  const known = new Set(there.map(nameOf));
  const names = there.filter((name) => asked.some((other) => nameOf(other) === nameOf(name)));
  const lost = asked.filter((name) => !known.has(nameOf(name)));
  const lengths = names.map(async ({ group, partition }) => {
    const { state } = await link.manager.streams.info(logStream(group, partition));
    return Math.max(0, state.last_seq - (target.endOf({ group, partition })?.batch ?? 0));
  });
  input.progress.start(
    'archive',
    (await Promise.all(lengths)).reduce((sum, length) => sum + length, 0),
  );
  const segments: Segment[] = [];
  const proven = new Set<string>();
  const failures = await failuresOf(names, async (name) => {
    const place = { link, ...name };
    const start = target.endOf(name) ?? emptyTip;
    const batches = olderThan(batchesFollowing(place, start, target), beforeMs);
    const segment = await target.attempt(async () => {
      const written = await target.write(name, start, batches, input.progress);
      if (written !== null) await assertStands(place, tipFrom(written.end));
      return written;
    });
    if (segment !== null) segments.push(segment);
    if (start.batch > 0) proven.add(nameOf(name));
  });
  if (proven.size === 0) await assertOfCluster(link, target, there, failures);
  const faults = faultsOf(failures);
  // Asked last: a format is raised before any record of it is written.
  const isAsked = segments.length > 0 && !failures.some(({ error }) => error instanceof NatsError);
  const records = isAsked ? await formatReached(link) : null;
  const { sound, report, lines } = await finishArchive(target, beforeMs, segments, faults, records);
  return {
    sound: sound && lost.length === 0,
    report: { ...report, lost },
    lines: [...lines, ...lostLines(lost, target)],
  };
}

interface Failure extends PartitionName {
  readonly error: unknown;
}

/** Whatever is asked for: what begins here could be added to the archive of another cluster. */
async function assertOfCluster(
  link: NatsLink,
  target: SegmentDirectory,
  there: readonly PartitionPlace[],
  failures: readonly Failure[],
): Promise<void> {
  const archived = target.partitions();
  const problems = failures.map(({ error }) => error);
  for (const name of archived) {
    if (failures.some((failure) => nameOf(failure) === nameOf(name))) continue;
    const place = there.find((each) => nameOf(each) === nameOf(name));
    try {
      if (place === undefined) throw new Error(`${nameOf(name)}: there is no stream of it`);
      await assertGoesOn({ link, ...place }, target);
      return;
    } catch (error) {
      problems.push(error);
    }
  }
  if (archived.length > 0) throw problems[0];
}

async function assertGoesOn(place: StreamPartition, archive: SegmentDirectory): Promise<void> {
  const following = batchesFollowing(place, archive.endOf(place) ?? emptyTip, archive);
  await following.next();
  await following.return(undefined);
}

/** One of which `work` fails keeps nothing from the others. */
async function failuresOf(
  names: readonly PartitionPlace[],
  work: (name: PartitionPlace) => Promise<void>,
): Promise<Failure[]> {
  const failures: Failure[] = [];
  for (const [index, name] of names.entries()) {
    try {
      await work(name);
    } catch (error) {
      failures.push({ ...name, error });
      if (!(error instanceof NatsError)) continue;
      // Nor would NATS answer for the others, of which nothing else tells that they are as they were.
      const untried = new Error('it was not tried: NATS had just not answered');
      for (const other of names.slice(index + 1)) failures.push({ ...other, error: untried });
      break;
    }
  }
  return failures;
}

function faultsOf(failures: readonly Failure[]): ArchiveFault[] {
  return failures.map(({ error, ...name }) => ({ ...name, problem: natsProblem(error) }));
}

/** What the archive has alone: a stream that is gone takes nothing with it in silence. */
function lostLines(lost: readonly PartitionName[], target: SegmentDirectory): string[] {
  return lost.map(
    (name) =>
      `${nameOf(name)}: nothing was added: there is no stream of it, and the archive has it up to batch ${target.endOf(name)?.batch}`,
  );
}

/** Throws where there is none: another NATS than was meant has nothing that is old, either. */
async function partitionsThere({ manager }: NatsLink): Promise<PartitionPlace[]> {
  const names = await logPartitions(manager);
  if (names.length > 0) return names;
  throw new Error('this NATS has no log of a cluster: it is another one, or its streams are lost');
}

/** Those that follow the archive's end, which must be the stream's: what follows proves it, by its hash, or it stands there. */
async function* batchesFollowing(
  place: StreamPartition,
  end: Tip,
  archive: SegmentDirectory,
): AsyncGenerator<Batch> {
  let isProven = end.batch === 0;
  for await (const batch of batchesAfter(place, end)) {
    isProven = true;
    yield batch;
  }
  if (!isProven && (await sequenceOf(place, end)) === null) throw notTheStreams(place, end, archive);
}

/** What one server alone has would be in the archive for good: it could not be gone on with, and what is restored of it never was. */
async function assertStands(place: StreamPartition, end: Tip): Promise<void> {
  if ((await sequenceOf(place, end)) === null) throw readWrong(place, end);
}

async function* olderThan(batches: AsyncIterable<Batch>, timeMs: number): AsyncGenerator<Batch> {
  for await (const batch of batches) {
    if (batch.timeMs >= timeMs) return;
    yield batch;
  }
}

function trimTool(connect: () => Promise<NatsLink>): Tool {
  return {
    name: 'trim',
    summary: 'Remove from the streams what is archived and needed by nobody.',
    help: `
Without --yes it says what it would remove. Removes whole segments of the archive (whose files are checked against their
hashes, and their chain against the stream's), of which the archive has all that is before too; which end well before the
newest snapshot, which is read through; and which webhooks have read past. The cluster goes on meanwhile. A node whose log
ends before what is left begins anew with the snapshot. A stream of which nothing can be removed keeps nothing from the
others: it is named, with status 1.

  trim --archive /mnt/archive/daftari
  trim --archive /mnt/archive/daftari --yes`,
    options: {
      ...partitionOptions,
      archive: { type: 'string', value: 'directory', help: 'where archive has written' },
      yes: { type: 'boolean', help: 'remove it' },
    },
    data: false,
    run: (input) => withLink(connect, (link) => runTrim(link, input)),
  };
}

interface Trim {
  readonly group: string;
  readonly partition: number;
  /** The stream begins with it now. */
  readonly first: number;
  /** Batches up to this one go; `first` - 1 when none does. */
  readonly last: number;
  readonly why: string;
}

async function runTrim(link: NatsLink, input: ToolInput): Promise<ToolResult> {
  const source = SegmentDirectory.open(directoryOf(input.values, 'archive'));
  const yes = input.values['yes'] === true;
  const names = chosen(await partitionsThere(link), input.values);
  input.progress.start('trim', names.length, 'partitions');
  const trims: Trim[] = [];
  const failures = await failuresOf(names, async (name) => {
    try {
      trims.push(await trimStream({ link, ...name }, source, yes));
    } finally {
      input.progress.add(1, 0);
    }
  });
  const [failure] = failures;
  // Of another cluster's archive that is all there is to say.
  if (failure !== undefined && trims.length === 0) throw failure.error;
  const rows = trims.map(({ group, partition, first, last, why }) => {
    return [nameOf({ group, partition }), `${last - first + 1} batches`, `kept: ${why}`];
  });
  const count = trims.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  const faults = faultsOf(failures);
  return {
    sound: faults.length === 0,
    report: { removed: yes, partitions: trims, faults },
    lines: [
      ...table(rows),
      ...faults.map((fault) => `${nameOf(fault)}: ${fault.problem}`),
      trimmedText(count, yes),
    ],
  };
}

async function trimStream(place: StreamPartition, source: SegmentDirectory, yes: boolean): Promise<Trim> {
  const { group, partition } = place;
  const first = await firstBatchOf(place);
  const { end, why } = await trimmable(place, source);
  const last = Math.max(first - 1, end?.batch ?? -1);
  if (end !== null && last >= first) {
    const sequence = await proveArchived(place, source, first, end);
    if (yes) await removeUpTo(place, sequence, end);
  }
  return { group, partition, first, last, why };
}

/** The end of the last segment that is needed nowhere else, null when there is none; and why the rest is kept. */
async function trimmable(
  place: StreamPartition,
  source: SegmentDirectory,
): Promise<{ readonly end: Tip | null; readonly why: string }> {
  const snapshot = await readSnapshot(place, () => {});
  if (snapshot === null) return { end: null, why: 'there is no snapshot for an empty machine to begin with' };
  if ((await sequenceOf(place, snapshot)) === null) {
    const why = `batch ${snapshot.batch}, which the snapshot reaches, is not the stream's: remove it, and another is saved`;
    return { end: null, why };
  }
  const wanted = snapshot.batch - LIMITS.streamWarmUpMessages;
  const cursor = place.group === 'accounts' ? await cursorOfWebhooks(place) : Infinity;
  let end: Tip | null = null;
  for (const segment of source.segmentsOf(place)) {
    if (segment.start.batch !== (end?.batch ?? 0)) {
      return {
        end,
        why: `the archive lacks what is between batches ${end?.batch ?? 0} and ${segment.start.batch}`,
      };
    }
    if (segment.end.batch > wanted) return { end, why: `the snapshot reaches batch ${snapshot.batch}` };
    if (segment.end.sequence > cursor) return { end, why: `webhooks have read up to sequence ${cursor}` };
    end = tipFrom(segment.end);
  }
  return { end, why: 'what is not archived' };
}

/** The accounts' sequence up to which webhooks have taken what there is to deliver. */
async function cursorOfWebhooks({ link, partition }: StreamPartition): Promise<number> {
  if (!(await hasStream(link.manager, logStream('webhooks', partition)))) return 0;
  const place: StreamPartition = { link, group: 'webhooks', partition };
  let cursor = 0;
  const snapshot = await readSnapshot(place, (rows) => {
    for (const row of rows) if (row.table === 'cursor' && row.key === 'upstream') cursor = Number(row.value);
  });
  let isOfStream = snapshot === null || (await sequenceOf(place, snapshot)) !== null;
  for await (const { records } of batchesAfter(place, snapshot ?? emptyTip)) {
    isOfStream = true;
    for (const line of records) {
      const record = decodeWebhookRecord(line);
      if (record.type === 'EventsTaken') cursor = record.upstreamSequence;
    }
  }
  return isOfStream ? cursor : 0;
}

/** The archive's files are whole and its chain is the stream's; returns where the last batch stands in the stream. */
async function proveArchived(
  place: StreamPartition,
  source: SegmentDirectory,
  first: number,
  end: Tip,
): Promise<number> {
  for (const segment of source.segmentsOf(place)) {
    if (segment.end.batch >= first && segment.end.batch <= end.batch) await source.check(segment);
  }
  const sequence = await sequenceOf(place, end);
  if (sequence !== null) return sequence;
  throw notTheStreams(place, end, source);
}

function notTheStreams(place: StreamPartition, { batch }: Tip, { path }: SegmentDirectory): Error {
  return new Error(
    `${nameOf(place)}: batch ${batch} of ${path} is not the stream's: it is of another cluster`,
  );
}

/** For good: `end`, which stands there, and what is before it. What a replaced writer left after it goes too: it may follow what `end`
 *  follows, and whoever has the log up to there would take what begins the stream for its next batch. */
async function removeUpTo(place: StreamPartition, sequence: number, end: Tip): Promise<void> {
  const { link, group, partition } = place;
  const chain = new LogChain(end);
  let next = sequence + 1;
  // The snapshot's batch comes after it, so this ends.
  while (!chain.take(await batchAt(place, next))) next++;
  await link.manager.streams.purge(logStream(group, partition), { seq: next });
}
