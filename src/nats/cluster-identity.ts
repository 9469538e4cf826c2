// What is fixed when a cluster is created: the number of partitions. The first node writes it; every other one must agree.

import type { NatsLink } from './connection.ts';
import { CLUSTER_BUCKET } from './subjects.ts';

interface Identity {
  readonly format: number;
  readonly partitions: number;
}

const FORMAT = 1;
const KEY = 'identity';

/** Throws when the cluster was created with another number of partitions. */
export async function joinCluster(link: NatsLink, partitions: number, replicas: number): Promise<void> {
  const bucket = await link.connection.jetstream().views.kv(CLUSTER_BUCKET, { history: 1, replicas });
  const mine: Identity = { format: FORMAT, partitions };
  try {
    await bucket.create(KEY, JSON.stringify(mine));
    return;
  } catch (error) {
    if (!/wrong last sequence/i.test(String(error))) throw error;
  }
  const entry = await bucket.get(KEY);
  if (entry === null) throw new Error('the identity of the cluster was there a moment ago');
  const theirs = entry.json<Identity>();
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
