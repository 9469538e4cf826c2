// `verify`: reads every byte of the log and proves it. Goes on past what it finds, so that one run tells everything.
import {
  type BatchPlace,
  checkFollows,
  decodeBatch,
  emptyHash,
  emptyTip,
  LogCorruption,
  type LogPlace,
  LogRewritten,
  tipAt,
} from '../batch.ts';
import { WAL_LIMITS } from '../limits.ts';
import { type LogReader, untilUnchanged } from '../log-reader.ts';
import { type Batch, nameOf, type PartitionName, type Tip, type ViewPosition } from '../types.ts';
import type { ViewStore } from '../views.ts';
import {
  batchesIn,
  chosen,
  partitionOptions,
  tipReport,
  withOthers,
  withReader,
  withViews,
} from './partitions.ts';
import { BATCHES_A_BREATH, breathe } from './priority.ts';
import type { Tool, ToolInput, ToolResult } from './tool.ts';

export interface Fault extends LogPlace {
  readonly problem: string;
}

/** Of a checkpoint, whose place the fault has: the log's own batch of that number is sound. */
export const OF_ANOTHER_LOG = 'the checkpoint was made from another log than this one';

/** Batches and sequences count from 1. 0: what found the damage does not know it. */
export function faultLine({ group, partition, batch, sequence, problem }: Fault): string {
  const batchShown = batch === 0 ? '' : ` batch ${batch}`;
  const sequenceShown = sequence === 0 ? '' : ` sequence ${sequence}`;
  return `${nameOf({ group, partition })}${batchShown}${sequenceShown}: ${problem}`;
}

/** Of a batch that is missing: no hash, and told apart from that of one that is damaged. */
const goneHash = Buffer.alloc(emptyHash.length);

export interface VerifiedPartition extends PartitionName {
  readonly batches: number;
  readonly records: number;
  readonly bytes: number;
  readonly tip: Tip;
  readonly faults: readonly Fault[];
  /** The batch from which on it was not read, after as many faults as are told; null: all of it was. */
  readonly unreadFrom: number | null;
}

export const verify: Tool = {
  name: 'verify',
  summary: 'Prove the log: every CRC, the hash chain, the sequences, and the checkpoints.',
  help: `
Reads every batch. Finds any changed bit, a batch that is missing, moved or from elsewhere, and an end that is lost: a
checkpoint reaches further than the log, or was made from another one. Works on a live directory.

Each fault names partition, batch and sequence. Restore from a backup what it names; nothing is repaired here. A partition
with very many faults is not read to its end, and named.`,
  options: partitionOptions,
  run: (input) => verifyLog(input, true),
};

/** `readsViews` false: as if there were none. */
export function verifyLog(input: ToolInput, readsViews: boolean): Promise<ToolResult> {
  const { directory } = input;
  return withReader(directory, (reader) =>
    withViews(directory, (views) => run(reader, views, input), readsViews),
  );
}

async function run(reader: LogReader, views: ViewStore | null, input: ToolInput): Promise<ToolResult> {
  const startedMs = performance.now();
  const names = chosen(allPartitions(reader, views), input.values);
  const verified = await verifyPartitions(reader, names, input.progress);
  const checked = verified.map((one) => {
    const fault =
      one.faults.length > 0 ? lostBehindDamage(reader, views, one) : checkpointFault(reader, views, one);
    return fault === null ? one : { ...one, faults: [...one.faults, fault] };
  });
  return resultOf(checked, performance.now() - startedMs);
}

/** Those of the log, and those that the log has lost altogether: their checkpoint reaches further than it. */
export function allPartitions(reader: LogReader, views: ViewStore | null): PartitionName[] {
  return withOthers(reader.partitionNames(), views?.partitionNames() ?? []);
}

/** Reads and proves all of it. Other tools prove with this what they have made. */
export async function verifyPartitions(
  reader: LogReader,
  names: readonly PartitionName[],
  progress: ToolInput['progress'],
): Promise<VerifiedPartition[]> {
  progress.start('verify', batchesIn(reader, names));
  const verified: VerifiedPartition[] = [];
  for (const name of names) {
    verified.push(await verifyOrFault(reader, name, progress));
  }
  return verified;
}

async function verifyOrFault(
  reader: LogReader,
  { group, partition }: PartitionName,
  progress: ToolInput['progress'],
): Promise<VerifiedPartition> {
  const verified = await orFault(() =>
    untilUnchanged(() => verifyPartition(reader, { group, partition }, progress)),
  );
  if (!('problem' in verified)) return verified;
  // Where it begins or ends cannot be found.
  return {
    group,
    partition,
    batches: 0,
    records: 0,
    bytes: 0,
    tip: emptyTip,
    faults: [verified],
    unreadFrom: null,
  };
}

/** What is damaged where it is looked for, when it cannot be told. Rejects with LogRewritten as with anything else that is no damage. */
export async function orFault<T>(tell: () => T | Promise<T>): Promise<T | Fault> {
  try {
    return await tell();
  } catch (error) {
    if (error instanceof LogRewritten) throw error;
    return faultFrom(error);
  }
}

async function verifyPartition(
  reader: LogReader,
  { group, partition }: PartitionName,
  progress: ToolInput['progress'],
): Promise<VerifiedPartition> {
  const faults: Fault[] = [];
  reader.refresh();
  const start = startOrFault(reader, { group, partition }, faults);
  const last = reader.lastBatchNumber(group, partition);
  let previous = start;
  let batches = 0;
  let bytes = 0;
  let unreadFrom: number | null = null;
  for (let number = start.batch + 1; number <= last; number += 1) {
    if (faults.length >= WAL_LIMITS.faultsShownMax) {
      unreadFrom = number;
      break;
    }
    const checked = checkBatch(reader, { group, partition }, number, previous, faults);
    previous = checked.tip;
    batches += 1;
    bytes += checked.bytes;
    progress.add(1, checked.bytes);
    if (batches % BATCHES_A_BREATH === 0) await breathe();
  }
  const records = previous.sequence - start.sequence;
  return { group, partition, batches, records, bytes, tip: previous, faults, unreadFrom };
}

function startOrFault(reader: LogReader, { group, partition }: PartitionName, faults: Fault[]): Tip {
  try {
    return reader.startOf(group, partition);
  } catch (error) {
    faults.push(faultFrom(error));
    // What the first batch follows is not known; from it on, the chain is.
    return { ...emptyTip, batch: Math.max(0, reader.firstBatchNumber(group, partition) - 1) };
  }
}

/** The tip after the batch; after a damaged one, what the next must follow as far as it can be guessed. */
function checkBatch(
  reader: LogReader,
  name: PartitionName,
  number: number,
  previous: Tip,
  faults: Fault[],
): { tip: Tip; bytes: number } {
  const checked = lookAt(reader, name, number, previous);
  if (checked.problem === null) return checked;
  const { group, partition } = name;
  if (isKnown(previous)) reader.lookAgain(group, partition, previous);
  else reader.refresh();
  if (reader.lastBatchNumber(group, partition) < number) {
    // The last batch was a later one when this began.
    throw new LogRewritten({ group, partition, batch: number, sequence: previous.sequence + 1 });
  }
  const again = lookAt(reader, name, number, previous);
  // Of batches that are gone in a row the first is told, and with it all that is lost.
  const isTold = previous.hash === goneHash && again.tip.hash === goneHash;
  if (again.problem !== null && !isTold) faults.push(faultFrom(again.problem, previous.sequence + 1));
  return again;
}

function lookAt(
  reader: LogReader,
  { group, partition }: PartitionName,
  number: number,
  previous: Tip,
): { tip: Tip; bytes: number; problem: unknown } {
  const place = { group, partition, batch: number };
  let bytes: Buffer | undefined;
  let batch: Batch;
  let hash = emptyHash;
  try {
    bytes = reader.bytesOf(group, partition, number);
    if (bytes === undefined) hash = goneHash;
    batch = decodeBatch(assertThere(bytes, place, previous), place);
  } catch (problem) {
    return { tip: { ...previous, batch: number, hash }, bytes: bytes?.length ?? 0, problem };
  }
  const checked = { tip: tipAt(batch), bytes: batch.bytes.length };
  try {
    // After a batch that is lost or damaged, the chain is known to be broken: it is told once.
    if (isKnown(previous)) checkFollows(batch, previous);
    return { ...checked, problem: null };
  } catch (problem) {
    return { ...checked, problem };
  }
}

function assertThere(bytes: Buffer | undefined, place: BatchPlace, { sequence }: Tip): Buffer {
  if (bytes !== undefined) return bytes;
  throw new LogCorruption({ ...place, sequence: sequence + 1 }, 'the batch is missing');
}

/** What the next batch must follow was read, not guessed. */
function isKnown(tip: Tip): boolean {
  return tip === emptyTip || (tip.hash !== emptyHash && tip.hash !== goneHash);
}

/** Where the log has lost its end, or is another one, as its checkpoint tells; null: it has what that was made from. Reads no more
 *  of the log than its last batches, and what is wrong with these is told. */
export function checkpointFault(
  reader: LogReader,
  views: ViewStore | null,
  { group, partition }: PartitionName,
): Fault | null {
  try {
    const position = views === null ? null : strayPosition(reader, views, { group, partition });
    if (position === null) return null;
    const tip = reader.tip(group, partition);
    if (position.batch <= tip.batch) {
      const { batch, sequence } = position;
      return { group, partition, batch, sequence, problem: OF_ANOTHER_LOG };
    }
    return lostEnd({ group, partition }, tip, position);
  } catch (error) {
    return faultFrom(error);
  }
}

/** What a log that is damaged before has also lost from its end; null: nothing, or where it ends cannot be read. */
function lostBehindDamage(
  reader: LogReader,
  views: ViewStore | null,
  { group, partition, tip }: VerifiedPartition,
): Fault | null {
  try {
    const position = views === null ? null : strayPosition(reader, views, { group, partition });
    const last = reader.lastBatchNumber(group, partition);
    if (position === null || position.batch <= last || tip.batch !== last) return null;
    // Of one whose end ends the process, that is where reading stopped.
    reader.bytesOf(group, partition, last);
    return lostEnd({ group, partition }, tip, position);
  } catch (error) {
    // Throws what is no damage; that is told already.
    faultFrom(error);
    return null;
  }
}

function lostEnd({ group, partition }: PartitionName, tip: Tip, checkpoint: ViewPosition): Fault {
  const problem = `the log ends at batch ${tip.batch}, but its checkpoint was made from batch ${checkpoint.batch}: the end of the log is lost, or an older log was put in its place`;
  // What is lost begins behind what is there.
  return { group, partition, batch: tip.batch + 1, sequence: tip.sequence + 1, problem };
}

/** The place that the checkpoint reaches, which the log does not have; null: it has. */
function strayPosition(
  reader: LogReader,
  views: ViewStore,
  { group, partition }: PartitionName,
): ViewPosition | null {
  let position = views.position(group, partition);
  for (let again = 0; again <= WAL_LIMITS.rereadsMax; again += 1) {
    // A live service has gone on since: the log is looked at as of a moment after that of the checkpoint.
    reader.refresh();
    if (position === null || reader.holds(group, partition, position)) return null;
    views.refresh();
    const now = views.position(group, partition);
    // One that was removed or made anew meanwhile says nothing of the log as it was looked at; one that still stands does.
    if (now?.hash.equals(position.hash) === true) break;
    position = now;
  }
  return position;
}

/** `firstSequence`: for damage that does not know its own. Throws what is no damage. */
export function faultFrom(error: unknown, firstSequence = 0): Fault {
  if (!(error instanceof LogCorruption)) throw error;
  const { group, partition, batch, sequence, problem } = error;
  return { group, partition, batch, sequence: sequence === 0 ? firstSequence : sequence, problem };
}

function resultOf(verified: readonly VerifiedPartition[], durationMs: number): ToolResult {
  const faults = verified.flatMap((one) => one.faults);
  const sum = (of: (one: VerifiedPartition) => number): number =>
    verified.reduce((total, one) => total + of(one), 0);
  const [batches, records, bytes] = [
    sum((one) => one.batches),
    sum((one) => one.records),
    sum((one) => one.bytes),
  ];
  const sound = faults.length === 0;
  const unread = verified.flatMap(({ group, partition, unreadFrom }) =>
    unreadFrom === null ? [] : [{ group, partition, batch: unreadFrom }],
  );
  const seconds = durationMs / 1000;
  const what = `${verified.length} partitions, ${batches} batches, ${records} records, ${bytes} bytes`;
  return {
    sound,
    report: {
      sound,
      batches,
      records,
      bytes,
      durationMs: Math.round(durationMs),
      faults,
      unread,
      partitions: verified.map(({ group, partition, tip }) => ({ group, partition, ...tipReport(tip) })),
    },
    lines: [
      ...faults.map(faultLine),
      ...unread.map(
        (one) =>
          `${nameOf(one)}: so many faults that it was not read from batch ${one.batch} on: there may be more`,
      ),
      `${sound ? 'sound' : 'NOT SOUND'}: ${what} in ${seconds.toFixed(1)} s (${(bytes / seconds / 1e6).toFixed(0)} MB/s)`,
    ],
  };
}
