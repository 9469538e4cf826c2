// Every name that this product uses in NATS: subjects, streams, buckets. deploy/nats/*.conf grants permissions on
// exactly these; nothing else spells one.

import { randomBytes } from 'node:crypto';
import type { GroupName, PartitionPlace } from '../bus/bus.ts';

/** Commands to the owner of a partition at an epoch. One epoch has one subscriber, so "no responders" and "not the
 *  owner" are said by the only process that could have decided. */
export function commandSubject(group: GroupName, partition: number, epoch: number): string {
  return `daftari.cmd.${group}.${partition}.${epoch}`;
}

/** Replies to one front (or other caller) in one session; another token after it tells its messages apart. Requests are
 *  numbered in each session anew: a late reply to a process that is gone must not reach the next one of its name. */
export function replyPrefix(caller: string, session: string): string {
  return REPLIES + `${caller}.${session}`;
}
const REPLIES = 'daftari.reply.';

/** False: it is none that a caller listens to. */
export function isReplySubject(subject: string): boolean {
  return subject.startsWith(REPLIES);
}

/** Names one life of a process. */
export function newSession(): string {
  return randomBytes(9).toString('base64url');
}

/** Where a caller's replies go, whichever of its messages they answer. */
export function callerSubject(prefix: string): string {
  return `${prefix}.0`;
}

/** Log of a partition. */
export function logStream(group: GroupName, partition: number): string {
  return `DAFTARI_${group}_${partition}`;
}
/** Null: it holds no log. */
export function partitionOfStream(name: string): PartitionPlace | null {
  const [, group, partition] = /^DAFTARI_(accounts|webhooks|platform)_(\d+)$/.exec(name) ?? [];
  return group === undefined ? null : { group: group as GroupName, partition: Number(partition) };
}
export function logSubject(group: GroupName, partition: number): string {
  return `daftari.log.${group}.${partition}`;
}

/** How keys of the buckets and names of snapshots say a partition. */
export function partitionKey(group: GroupName, partition: number): string {
  return `${group}.${partition}`;
}

/** Of a partition's lease in its bucket. */
export function leaseKey(group: GroupName, partition: number): string {
  return `lease.${partitionKey(group, partition)}`;
}

/** KV bucket of node sessions and partition leases. */
export const LEASE_BUCKET = 'daftari_leases';
export const LEASE_STREAM = `KV_${LEASE_BUCKET}`;
export const LEASE_SUBJECT_PREFIX = `$KV.${LEASE_BUCKET}.`;
/** KV bucket of what holds for the whole cluster: what is fixed when it is created, and the format it writes. */
export const CLUSTER_BUCKET = 'daftari_cluster';
export const CLUSTER_STREAM = `KV_${CLUSTER_BUCKET}`;
export const CLUSTER_SUBJECT_PREFIX = `$KV.${CLUSTER_BUCKET}.`;
export const IDENTITY_KEY = 'identity';
export const IDENTITY_SUBJECT = CLUSTER_SUBJECT_PREFIX + IDENTITY_KEY;
export const WRITE_FORMAT_SUBJECT = `${CLUSTER_SUBJECT_PREFIX}write_format`;
/** Object store of snapshots. */
export const SNAPSHOT_BUCKET = 'daftari_snapshots';
export const SNAPSHOT_STREAM = `OBJ_${SNAPSHOT_BUCKET}`;

/** A name that can be one token of a subject. */
export function assertToken(name: string): string {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw new Error(`"${name}" cannot name a node: 1 to 64 letters, digits, "_" and "-"`);
  }
  return name;
}
