// Makes the streams and buckets that the cluster needs, and checks what is fixed when a cluster is created.

import { DiscardPolicy, nanos, RetentionPolicy, StorageType } from 'nats';
import type { JetStreamManager, MsgRequest, StoredMsg, StreamState } from 'nats';
import type { GroupName, PartitionPlace } from '../bus/bus.ts';
import { messageOf } from '../../wal/thrown.ts';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from './connection.ts';
import { CannotJoin } from './errors.ts';
import { persist } from './persist.ts';
import {
  LEASE_BUCKET,
  LEASE_STREAM,
  logStream,
  logSubject,
  partitionOfStream,
  SNAPSHOT_BUCKET,
  SNAPSHOT_STREAM,
} from './subjects.ts';

/** Idempotent: several nodes may do it at once. */
export async function ensureLogStream(
  manager: JetStreamManager,
  group: GroupName,
  partition: number,
  replicas: number,
): Promise<void> {
  const name = logStream(group, partition);
  await persist(() => makeStream(manager, name, logSettings(group, partition, replicas)));
}

/** What is wrong with the settings of a stream that somebody has made, or changed, by hand: by which messages are dropped, or are kept
 *  less safely than they should be. Null: nothing. */
export async function faultOfLogStream(
  manager: JetStreamManager,
  group: GroupName,
  partition: number,
  replicas: number | null,
): Promise<string | null> {
  return faultOf(manager, logStream(group, partition), logSettings(group, partition, replicas));
}

function logSettings(group: GroupName, partition: number, replicas: number | null): StreamSettings {
  return {
    subjects: [logSubject(group, partition)],
    num_replicas: replicas ?? 0,
    duplicate_window: nanos(LIMITS.streamDuplicateWindowMs),
    // A record of money is never dropped to make room, nor deleted one by one.
    discard: DiscardPolicy.New,
    deny_delete: true,
  };
}

/** Every partition that has a log, in order. */
export async function logPartitions(manager: JetStreamManager): Promise<PartitionPlace[]> {
  const found: PartitionPlace[] = [];
  for await (const { config } of manager.streams.list()) {
    const partition = partitionOfStream(config.name);
    if (partition !== null) found.push(partition);
  }
  return found.toSorted((a, b) => a.group.localeCompare(b.group) || a.partition - b.partition);
}

/** The bucket of leases, as a stream: the KV layout, so that `nats kv` reads it. `replicas` null: this node may not make
 *  it, and waits until another has. */
export async function ensureLeaseBucket(manager: JetStreamManager, replicas: number | null): Promise<void> {
  await persist(() => makeStream(manager, LEASE_STREAM, leaseSettings(replicas)));
}

/** As faultOfLogStream. */
export async function faultOfLeaseBucket(
  manager: JetStreamManager,
  replicas: number | null,
): Promise<string | null> {
  return faultOf(manager, LEASE_STREAM, leaseSettings(replicas));
}

function leaseSettings(replicas: number | null): StreamSettings {
  return {
    subjects: [`$KV.${LEASE_BUCKET}.>`],
    num_replicas: replicas ?? 0,
    max_msgs_per_subject: 1,
    discard: DiscardPolicy.New,
    deny_delete: true,
    allow_rollup_hdrs: true,
    duplicate_window: nanos(LIMITS.streamDuplicateWindowMs),
  };
}

/** The object store of snapshots, as a stream: the layout of object stores, so that `nats object` reads it. The client's own
 *  request for one has a field that nats-server refuses since 2.12, which takes no field it does not know. Tried once. */
export async function makeSnapshotBucket(manager: JetStreamManager, replicas: number): Promise<void> {
  await makeStream(manager, SNAPSHOT_STREAM, {
    subjects: [`$O.${SNAPSHOT_BUCKET}.C.>`, `$O.${SNAPSHOT_BUCKET}.M.>`],
    num_replicas: replicas,
    discard: DiscardPolicy.New,
    allow_rollup_hdrs: true,
  });
}

/** The stream does not reach that far, or begins later. */
export class NothingThere extends Error {
  override readonly name: string = 'NothingThere';
}

/** It does not reach that far: a leader with a short copy says that, too, until another leads. */
export class NothingYet extends NothingThere {
  override readonly name = 'NothingYet';
}

/** What stands at a sequence; null: nothing, and it never will, since nats-server has taken out again what found no room in its
 *  account. Rejects with NothingThere, or when nobody can say. */
export async function messageAt(
  manager: JetStreamManager,
  name: string,
  sequence: number,
): Promise<Buffer | null> {
  const found = await storedAt(manager, name, sequence);
  if (found !== null) return found;
  // In this order: what was there when it was asked for, and has been purged since, is no such place.
  const { state } = await manager.streams.info(name);
  if (sequence > state.last_seq) throw new NothingYet(`${name} has nothing at ${sequence} yet`);
  const again = await storedAt(manager, name, sequence);
  if (again !== null) return again;
  const { state: then } = await manager.streams.info(name);
  if (sequence > then.last_seq) throw new NothingYet(`${name} has nothing at ${sequence} any more`);
  if (then.first_seq <= sequence) return null;
  throw new NothingThere(`${name} has nothing at ${sequence} any more`);
}

async function storedAt(manager: JetStreamManager, name: string, seq: number): Promise<Buffer | null> {
  const stored = await storedMessage(manager, name, { seq });
  return stored === null ? null : Buffer.from(stored.data);
}

/** Null: there is none. Rejects when there is no such stream, or nobody can say. */
export async function storedMessage(
  manager: JetStreamManager,
  name: string,
  query: MsgRequest,
): Promise<StoredMsg | null> {
  if (!(await hasMessages(manager, name))) return null;
  try {
    return await manager.streams.getMessage(name, query);
  } catch (error) {
    if (/no message found/i.test(String(error))) return null;
    throw error;
  }
}

/** Sequence of a stream's last message: after it may be places that are left empty. It is looked for from the end, since
 *  nats-server 2.9 says that there is none when it is asked for the newest of the subject. */
export async function lastSequenceOf(
  manager: JetStreamManager,
  name: string,
  { messages, last_seq: last, num_deleted: deleted }: StreamState,
): Promise<number> {
  let sequence = last;
  // The server leaves a count of 0 out, whatever its type says.
  const isAnyEmpty = messages > 0 && deleted > 0;
  if (!isAnyEmpty) return sequence;
  while ((await messageAt(manager, name, sequence)) === null) sequence--;
  return sequence;
}

/** To be asked before a message is (STREAM.MSG.GET, as storedMessage does): nats-server 2.9 dies of that question when the stream is
 *  being made by somebody else at the moment and has no store yet. Rejects when there is no such stream. */
export async function hasMessages(manager: JetStreamManager, name: string): Promise<boolean> {
  const { state } = await manager.streams.info(name);
  return state.messages > 0;
}

/** Has another of its servers lead a stream. Null: it is so decided, which one NATS draws. Otherwise why not: one server alone has the
 *  stream, say, or nobody answers in time. */
export async function leadElsewhere({ connection }: NatsLink, name: string): Promise<string | null> {
  try {
    const answer = await connection.request(`$JS.API.STREAM.LEADER.STEPDOWN.${name}`, '', {
      timeout: LIMITS.natsConnectMs,
    });
    const { success, error } = answer.json<{ success?: boolean; error?: { description?: string } }>();
    return success === true ? null : (error?.description ?? 'NATS does not say');
  } catch (error) {
    return messageOf(error);
  }
}

type StreamSettings = Omit<Parameters<JetStreamManager['streams']['add']>[0], 'name'> & {
  readonly num_replicas: number;
};

const KEPT_AS = { retention: RetentionPolicy.Limits, storage: StorageType.File } as const;

/** nats-server removes what is beyond a limit also where it is to refuse what is new: as soon as the limit is set. */
const UNLIMITED = { max_age: 0, max_bytes: -1, max_msgs: -1 } as const;

async function faultOf(
  manager: JetStreamManager,
  name: string,
  { num_replicas: replicas, discard, max_msgs_per_subject = -1 }: StreamSettings,
): Promise<string | null> {
  const { config } = await manager.streams.info(name);
  const kept = { ...UNLIMITED, ...KEPT_AS, max_msgs_per_subject, discard };
  const faults = (Object.keys(kept) as (keyof typeof kept)[])
    .filter((each) => config[each] !== kept[each])
    .map((each) => `${each} ${config[each]}, not ${kept[each]}`);
  if (config.num_replicas < replicas) {
    faults.push(`num_replicas ${config.num_replicas}, not NATS_REPLICAS=${replicas}`);
  }
  return faults.length === 0 ? null : `${name} does not keep what it should: it has ${faults.join('; ')}`;
}

async function makeStream(manager: JetStreamManager, name: string, settings: StreamSettings): Promise<void> {
  if (await hasStream(manager, name)) return;
  if (settings.num_replicas === 0) {
    throw new CannotJoin(
      `nobody has made the stream ${name} yet: start a node that has another role than front`,
    );
  }
  // Another node may be first: then it exists the next time.
  await manager.streams.add({ name, ...KEPT_AS, allow_direct: true, ...settings });
}

export async function hasStream(manager: JetStreamManager, name: string): Promise<boolean> {
  try {
    await manager.streams.info(name);
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** NATS says that it has no such stream. */
export function isNotFound(error: unknown): boolean {
  return /not found/i.test(String(error));
}
