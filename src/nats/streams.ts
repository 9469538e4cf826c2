// Makes the streams and buckets that the cluster needs, and checks what is fixed when a cluster is created.

import { DiscardPolicy, nanos, RetentionPolicy, StorageType } from 'nats';
import type { JetStreamManager, StreamInfo } from 'nats';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
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
import type { StreamOf } from './subjects.ts';

/** Idempotent: several nodes may do it at once. `complain` hears of a stream that somebody has made, or changed, so that what
 *  stands in it is dropped. */
export async function ensureLogStream(
  manager: JetStreamManager,
  group: GroupName,
  partition: number,
  replicas: number,
  complain?: Complain,
): Promise<void> {
  const settings = {
    subjects: [logSubject(group, partition)],
    num_replicas: replicas,
    duplicate_window: nanos(LIMITS.streamDuplicateWindowMs),
    // A record of money is never dropped to make room, nor deleted one by one.
    discard: DiscardPolicy.New,
    deny_delete: true,
  };
  await ensureStream(manager, logStream(group, partition), settings, complain);
}

/** Every partition that has a log, in order. */
export async function logPartitions(manager: JetStreamManager): Promise<StreamOf[]> {
  const found: StreamOf[] = [];
  for await (const { config } of manager.streams.list()) {
    const partition = partitionOfStream(config.name);
    if (partition !== null) found.push(partition);
  }
  return found.toSorted((a, b) => a.group.localeCompare(b.group) || a.partition - b.partition);
}

/** The bucket of leases, as a stream: the KV layout, so that `nats kv` reads it. `replicas` null: this node may not make
 *  it, and waits until another has. */
export async function ensureLeaseBucket(
  manager: JetStreamManager,
  replicas: number | null,
  complain?: Complain,
): Promise<void> {
  const settings = {
    subjects: [`$KV.${LEASE_BUCKET}.>`],
    num_replicas: replicas ?? 0,
    max_msgs_per_subject: 1,
    discard: DiscardPolicy.New,
    deny_delete: true,
    allow_rollup_hdrs: true,
    duplicate_window: nanos(LIMITS.streamDuplicateWindowMs),
  };
  await ensureStream(manager, LEASE_STREAM, settings, complain);
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

/** To be asked before a message is (STREAM.MSG.GET): nats-server 2.9 dies of that question when the stream is being made by
 *  somebody else at the moment and has no store yet. Rejects when there is no such stream. */
export async function hasMessages(manager: JetStreamManager, name: string): Promise<boolean> {
  const { state } = await manager.streams.info(name);
  return state.messages > 0;
}

type StreamSettings = Parameters<JetStreamManager['streams']['add']>[0];
type Complain = (problem: string) => void;

/** nats-server removes what is beyond a limit also where it is to refuse what is new: as soon as the limit is set. */
const UNLIMITED = { max_age: 0, max_bytes: -1, max_msgs: -1 } as const;

async function ensureStream(
  manager: JetStreamManager,
  name: string,
  settings: Omit<StreamSettings, 'name'>,
  complain?: Complain,
): Promise<void> {
  const { config } = await persist(() => makeStream(manager, name, settings));
  const { discard, max_msgs_per_subject = -1 } = settings;
  const kept = { ...UNLIMITED, max_msgs_per_subject, discard };
  const limits = (Object.keys(kept) as (keyof typeof kept)[])
    .filter((each) => config[each] !== kept[each])
    .map((each) => `${each} ${config[each]}, not ${kept[each]}`);
  if (limits.length > 0) complain?.(`${name} drops what is still needed: it has ${limits.join('; ')}`);
}

async function makeStream(
  manager: JetStreamManager,
  name: string,
  settings: Omit<StreamSettings, 'name'>,
): Promise<StreamInfo> {
  const existing = await infoOf(manager, name);
  if (existing !== null) return existing;
  if (settings.num_replicas === 0) throw new Error(`nobody has made the stream ${name}`);
  // Another node may be first: then it exists the next time.
  return manager.streams.add({
    name,
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    allow_direct: true,
    ...settings,
  });
}

export async function hasStream(manager: JetStreamManager, name: string): Promise<boolean> {
  return (await infoOf(manager, name)) !== null;
}

/** Null: there is none. */
async function infoOf(manager: JetStreamManager, name: string): Promise<StreamInfo | null> {
  try {
    return await manager.streams.info(name);
  } catch (error) {
    if (/not found/i.test(String(error))) return null;
    throw error;
  }
}
