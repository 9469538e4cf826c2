// What is fixed when a cluster is created: the number of partitions. The first node writes it; every other one must agree.

import type { KV } from 'nats';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from './connection.ts';
import { CLUSTER_BUCKET } from './subjects.ts';

interface Identity {
  readonly format: number;
  readonly partitions: number;
}

const FORMAT = 1;
const KEY = 'identity';

/** Throws when the cluster was created with another number of partitions. `replicas` null: this node may not create it, and
 *  waits until another has. */
export async function joinCluster(
  link: NatsLink,
  partitions: number,
  replicas: number | null,
): Promise<void> {
  const bucket = replicas === null ? null : await openBucket(link, replicas);
  if (bucket !== null) await createIdentity(bucket, { format: FORMAT, partitions });
  const theirs = await readIdentity(link);
  if (theirs.format !== FORMAT) {
    throw new Error(`the cluster has format ${theirs.format}; this version reads format ${FORMAT}`);
  }
  if (theirs.partitions !== partitions) {
    throw new Error(
      `the cluster was created with PARTITIONS=${theirs.partitions} and cannot be joined with ${partitions}: an account's ` +
        `partition never changes. Set PARTITIONS=${theirs.partitions}.`,
    );
  }
}

/** Servers that come up have no leader yet, or fewer peers than replicas. */
async function openBucket(link: NatsLink, replicas: number): Promise<KV> {
  return persist(() => link.connection.jetstream().views.kv(CLUSTER_BUCKET, { history: 1, replicas }));
}

async function createIdentity(bucket: KV, identity: Identity): Promise<void> {
  await persist(async () => {
    try {
      await bucket.create(KEY, JSON.stringify(identity));
    } catch (error) {
      if (!/wrong last sequence/i.test(String(error))) throw error;
    }
  });
}

async function readIdentity({ manager }: NatsLink): Promise<Identity> {
  return persist(async () => {
    const stored = await manager.streams.getMessage(`KV_${CLUSTER_BUCKET}`, {
      last_by_subj: `$KV.${CLUSTER_BUCKET}.${KEY}`,
    });
    return JSON.parse(Buffer.from(stored.data).toString()) as Identity;
  });
}

/** Until it works, for as long as servers may take to elect a leader. */
async function persist<Result>(act: () => Promise<Result>): Promise<Result> {
  const until = performance.now() + LIMITS.clusterJoinMs;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (performance.now() > until) throw error;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, LIMITS.natsReconnectMs);
    });
  }
}
