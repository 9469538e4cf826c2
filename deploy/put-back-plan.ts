// What `put-back` would write of a partition: which batches of a node's log, where in the stream, or why none.
//
// Invariants: a stream that has anything is never touched, unless a put-back has begun it (its lease says so) and what stands
// there is this log's. Of a stream that was purged it puts back nothing that the stream never had.

import { LIMITS } from '../src/limits.ts';
import type { LeaseEntry } from '../src/nats/leases/lease-table.ts';
import { batchAt, type StreamPartition } from '../src/nats/log/stream-places.ts';
import { hasStream } from '../src/nats/streams.ts';
import { logStream } from '../src/nats/subjects.ts';
import { tipAt } from '../wal/batch.ts';
import type { LogReader } from '../wal/log-reader.ts';
import type { Tip } from '../wal/types.ts';
import { compareEnds } from './log-ends.ts';

export interface Writing {
  readonly type: 'writing';
  /** whole: all that the log has; end: the last batches that the stream had before it was purged. */
  readonly what: NonNullable<LeaseEntry['puttingBack']>;
  /** Batches after this one are written, up to and with `last`. */
  readonly after: number;
  readonly last: number;
  /** Stream sequence minus batch number. */
  readonly offset: number;
  /** The stream's first message is to take another place than the first. */
  readonly isMoved: boolean;
}

export type Plan =
  | Writing
  /** Nothing is to be written. */
  | { readonly type: 'kept'; readonly why: string }
  /** A person must see to it. */
  | { readonly type: 'refused'; readonly why: string };

/** `lease`: undefined where there is none. */
export async function planOf(
  log: LogReader,
  place: StreamPartition,
  lease: LeaseEntry | undefined,
): Promise<Plan> {
  const { link, group, partition } = place;
  const stream = logStream(group, partition);
  const state = (await hasStream(link.manager, stream))
    ? (await link.manager.streams.info(stream)).state
    : null;
  const [messages, had] = [state?.messages ?? 0, state?.last_seq ?? 0];
  const start = log.startOf(group, partition).batch;
  const tip = log.tip(group, partition).batch;
  const begun = lease?.puttingBack;
  if (messages > 0) {
    if (begun === undefined) return besideStream(log, place, state!);
    return goingOn(log, place, begun, state!);
  }
  if (tip === start) {
    const why = 'this log has no batch of it';
    if (start === 0) return { type: 'kept', why };
    return { type: 'refused', why: `${why} behind the snapshot that it begins with` };
  }
  if (had === 0 || (begun === 'whole' && had === start)) {
    return { type: 'writing', what: 'whole', after: start, last: tip, offset: 0, isMoved: start > 0 };
  }
  if (begun === 'whole') return anotherLogs(stream);
  // A batch stands at its number or later: what is numbered above the stream's last message it never had.
  const last = Math.min(tip, had);
  if (last <= start) return { type: 'refused', why: 'the stream has had nothing of this log' };
  const after = Math.max(start, last - LIMITS.streamWarmUpMessages);
  return { type: 'writing', what: 'end', after, last, offset: had - after, isMoved: false };
}

/** What the stream has is the log, but where this one goes on behind all that it has: then a shorter log was put back by who did not know
 *  of this one, and what this one has more was acknowledged. A few batches more its next owner gives back itself. */
async function besideStream(
  log: LogReader,
  place: StreamPartition,
  { first_seq: first, last_seq: last }: { readonly first_seq: number; readonly last_seq: number },
): Promise<Plan> {
  const kept: Plan = { type: 'kept', why: 'the stream is not empty: it says what the log is' };
  const { group, partition } = place;
  const tip = log.tip(group, partition);
  let end: Tip | null = null;
  // Of a replaced writer the last ones may be leftovers.
  for (let at = last; at >= Math.max(first, last - LIMITS.streamWarmUpMessages); at--) {
    const batch = await batchAt(place, at);
    if (batch === null) continue;
    const found = tipAt(batch);
    if (compareEnds(found, tip) >= 0) return kept;
    if (end === null || compareEnds(found, end) > 0) end = found;
  }
  if (end === null) return kept;
  const isThisLogs = end.batch > log.startOf(group, partition).batch && log.holds(group, partition, end);
  if (isThisLogs && tip.batch - end.batch <= LIMITS.streamAsyncOutstandingMax) return kept;
  return {
    type: 'refused',
    why:
      `this log ends later than its stream, which has epoch ${end.epoch}, sequence ${end.sequence}, batch ${end.batch}: a shorter ` +
      'one was put back. Start no node, have the files of all nodes with --ends, remove that ' +
      `(nats stream rm ${logStream(group, partition)}), and run this again`,
  };
}

/** A put-back did not come to its end. */
async function goingOn(
  log: LogReader,
  place: StreamPartition,
  what: Writing['what'],
  { first_seq: first, last_seq: reached }: { readonly first_seq: number; readonly last_seq: number },
): Promise<Plan> {
  const { group, partition } = place;
  const there = await batchAt(place, reached);
  const tip = log.lastBatchNumber(group, partition);
  const isThisLogs =
    there !== null &&
    there.batch > log.startOf(group, partition).batch &&
    there.batch <= tip &&
    log.batch(group, partition, there.batch).hash.equals(there.hash);
  if (!isThisLogs) return anotherLogs(logStream(group, partition));
  const last = what === 'whole' ? tip : Math.min(tip, first - 1);
  return { type: 'writing', what, after: there.batch, last, offset: reached - there.batch, isMoved: false };
}

function anotherLogs(stream: string): Plan {
  return {
    type: 'refused',
    why: `another log was put back and not to its end: go on with that one, or remove what there is (nats stream rm ${stream})`,
  };
}
