// What is fixed when a cluster is created: the number of partitions, the master key, and the format of records it began with.
// The first node writes it; every other one must agree.

import type { KV } from 'nats';
import type { NatsLink } from './connection.ts';
import { CannotJoin, ClusterIdentityError } from './errors.ts';
import { fieldsIn } from './fields-in.ts';
import { persist } from './persist.ts';
import { hasMessages, hasStream } from './streams.ts';
import { CLUSTER_BUCKET, CLUSTER_STREAM, IDENTITY_KEY, IDENTITY_SUBJECT, LEASE_STREAM } from './subjects.ts';

export interface Identity {
  readonly format: number;
  readonly partitions: number;
  /** Of records; absent in clusters made before it could differ: 1. */
  readonly firstFormat?: number;
  /** Fingerprint of the key that secrets are sealed with; absent in clusters made before it was noted. */
  readonly masterKey?: string;
}

const FORMAT = 1;
/** A front may make nothing. */
const NOBODY_YET = 'nobody has created the cluster yet: start a node that has another role than front';

export interface Joining {
  readonly partitions: number;
  /** Fingerprint of the master key. */
  readonly masterKey: string;
  /** What this node has may be sealed with another: a cluster that it creates does not say which is its own. */
  readonly isKeyUnproven?: boolean;
}

/** Resolves with what the cluster says of itself. Throws ClusterIdentityError when it was created with another number of
 *  partitions or another master key. `replicas` null: this node may not create it, and waits until another has. A cluster
 *  begins with the newest format of the node that creates it: nobody reads an older one. `onWaiting` hears once why it takes
 *  long. */
export async function joinCluster(
  link: NatsLink,
  { partitions, masterKey, isKeyUnproven = false }: Joining,
  replicas: number | null,
  firstFormat: number,
  onWaiting: (error: unknown) => void = () => {},
): Promise<Identity> {
  const bucket = replicas === null ? null : await openBucket(link, replicas, onWaiting);
  if (bucket !== null) {
    const key = isKeyUnproven ? {} : { masterKey };
    await createIdentity(bucket, { format: FORMAT, partitions, firstFormat, ...key });
  }
  // A front may ask only after the leases; where there are some, their node has joined.
  const theirs = await readIdentity(link, replicas === null ? LEASE_STREAM : CLUSTER_STREAM, onWaiting);
  if (theirs.format !== FORMAT) {
    throw new ClusterIdentityError(
      `the cluster has format ${theirs.format}; this version reads format ${FORMAT}`,
    );
  }
  if (theirs.partitions !== partitions) {
    throw new ClusterIdentityError(
      `the cluster was created with PARTITIONS=${theirs.partitions} and cannot be joined with ${partitions}: an account's ` +
        `partition never changes. Set PARTITIONS=${theirs.partitions}.`,
    );
  }
  checkMasterKey(theirs, masterKey);
  return theirs;
}

/** Throws ClusterIdentityError when the cluster says that another is its own. */
export function checkMasterKey(theirs: Identity, masterKey: string): void {
  if (theirs.masterKey === undefined || theirs.masterKey === masterKey) return;
  throw new ClusterIdentityError(
    'MASTER_KEY is not the one of the cluster: the other nodes could not open what this one seals, nor it what they have. ' +
      'Set that of the other nodes. If it is lost for ever, stop all nodes, put ' +
      `${JSON.stringify({ ...theirs, masterKey })} under ${IDENTITY_KEY} in the bucket ${CLUSTER_BUCKET}, and connect each ` +
      'app anew.',
  );
}

/** For who does not follow what the cluster says of itself. False: it does not say its master key yet. Throws as checkMasterKey. */
export async function isMasterKeyNoted({ manager }: NatsLink, masterKey: string): Promise<boolean> {
  const { identity } = await storedIdentity(manager);
  checkMasterKey(identity, masterKey);
  return identity.masterKey !== undefined;
}

/** In a cluster that does not say its master key: this is the one. Where another node was first, what it said stands. */
export async function noteClusterKey({ connection, manager }: NatsLink, masterKey: string): Promise<void> {
  await persist(
    async () => {
      const { identity, sequence: lastSubjectSequence } = await storedIdentity(manager);
      if (identity.masterKey !== undefined) return;
      const noted = JSON.stringify({ ...identity, masterKey });
      await connection.jetstream().publish(IDENTITY_SUBJECT, noted, { expect: { lastSubjectSequence } });
    },
    { isFinal: () => connection.isClosed() },
  );
}

async function openBucket(
  link: NatsLink,
  replicas: number,
  onWaiting: (error: unknown) => void,
): Promise<KV> {
  const open = (): Promise<KV> =>
    link.connection.jetstream().views.kv(CLUSTER_BUCKET, { history: 1, replicas });
  return persist(open, { onWaiting });
}

async function createIdentity(bucket: KV, identity: Identity): Promise<void> {
  await persist(async () => {
    try {
      await bucket.create(IDENTITY_KEY, JSON.stringify(identity));
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  });
}

/** Of records, while nobody has raised it. */
export async function firstFormatOf(link: NatsLink): Promise<number> {
  return firstFormatIn(await readIdentity(link, CLUSTER_STREAM));
}

export function firstFormatIn({ firstFormat }: Identity): number {
  return firstFormat ?? 1;
}

/** Somebody else was first. */
export function isConflict(error: unknown): boolean {
  return /wrong last sequence/i.test(String(error));
}

/** Null: no cluster says anything of itself there. */
export async function identityIfAny({ manager }: NatsLink): Promise<Identity | null> {
  const isThere = (await hasStream(manager, CLUSTER_STREAM)) && (await hasMessages(manager, CLUSTER_STREAM));
  return isThere ? (await storedIdentity(manager)).identity : null;
}

/** `witness`: a stream that has no message before there is an identity. */
async function readIdentity(
  { manager }: NatsLink,
  witness: string,
  onWaiting: (error: unknown) => void = () => {},
): Promise<Identity> {
  const read = async (): Promise<Identity> => {
    if (!(await hasMessages(manager, witness))) throw new CannotJoin(NOBODY_YET);
    return (await storedIdentity(manager)).identity;
  };
  return persist(read, { onWaiting });
}

async function storedIdentity(
  manager: NatsLink['manager'],
): Promise<{ readonly identity: Identity; readonly sequence: number }> {
  const stored = await manager.streams.getMessage(CLUSTER_STREAM, { last_by_subj: IDENTITY_SUBJECT });
  const identity = identityIn(stored.data);
  if (identity !== null) return { identity, sequence: stored.seq };
  throw new Error(
    `${IDENTITY_SUBJECT} holds what is no identity, and no node lives that knows it: put ` +
      `{"format":${FORMAT},"partitions":<PARTITIONS of the nodes>} there`,
  );
}

/** Null: it is none. */
export function identityIn(data: Uint8Array): Identity | null {
  const identity = fieldsIn<Identity>(data);
  const isIdentity = Number.isSafeInteger(identity.format) && Number.isSafeInteger(identity.partitions);
  return isIdentity ? (identity as Identity) : null;
}
