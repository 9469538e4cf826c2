// What a node of the cluster has of NATS: the connection, the table of who owns what, and both sides of the bus.

import type { GroupName } from '../bus/bus.ts';
import type { Config } from '../config.ts';
import { RECORD_FORMATS } from '../domain/record-format.ts';
import { type Identity, isMasterKeyNoted, joinCluster } from '../nats/cluster-identity.ts';
import { connectNats } from '../nats/connection.ts';
import type { NatsLink } from '../nats/connection.ts';
import { ClusterIdentityError } from '../nats/errors.ts';
import { LeaseTable } from '../nats/leases/lease-table.ts';
import { joining, natsProblem } from '../nats/nats-problem.ts';
import { NatsBusServer } from '../nats/bus/nats-bus-server.ts';
import { NatsBus } from '../nats/bus/nats-bus.ts';
import { persist } from '../nats/persist.ts';
import { StreamFaults } from '../nats/stream-faults.ts';
import { StreamPublisher } from '../nats/stream-publisher.ts';
import { ensureLeaseBucket, hasStream } from '../nats/streams.ts';
import { CLUSTER_STREAM } from '../nats/subjects.ts';
import { WriteFormat } from '../nats/write-format.ts';
import type { Log } from '../observability/log.ts';
import type { Secrets } from '../secrets.ts';
import { isMasterKeyKnown } from '../data-directory/data-directory.ts';

export interface ClusterNats {
  readonly link: NatsLink;
  readonly publisher: StreamPublisher;
  /** Null: a front, which neither writes records nor reads them. */
  readonly writeFormat: WriteFormat | null;
  readonly table: LeaseTable;
  /** What is wrong with the settings of streams. */
  readonly faults: StreamFaults;
  readonly bus: NatsBus;
  readonly server: NatsBusServer;
  /** Of each group. */
  readonly counts: Record<GroupName, number>;
  /** Of a front, in a cluster that did not say its master key: whether that is this one. To be called now and then. */
  readonly proveKey: () => void;
  /** Sends what stands ready and closes. */
  close(): Promise<void>;
}

export async function joinNats(
  config: Config,
  secrets: Secrets,
  log: Log,
  onFailure: (error: Error) => void,
): Promise<ClusterNats> {
  // First: a cluster that it creates says for ever that this is its key.
  const isKeyUnproven = usesDataDirectory(config) && !isMasterKeyKnown(config.dataDir, secrets);
  const { fingerprint } = secrets;
  // Permissions name roles (deploy/nats/permissions.conf): what a node listens to for itself begins with its own.
  const caller = `${[...config.roles].join('_')}.${config.nodeName}`;
  const onProblem = (problem: string): void => log.warn({ problem }, 'NATS complains');
  const link = await connectNats(
    {
      url: (config.natsServers ?? []).join(','),
      name: config.nodeName,
      inboxPrefix: `_INBOX.${caller}`,
      caFile: config.natsCaFile ?? undefined,
      certFile: config.natsCertFile ?? undefined,
      keyFile: config.natsKeyFile ?? undefined,
      credentialsFile: config.natsCredentialsFile ?? undefined,
    },
    { onProblem, onEnd: onFailure },
  );
  // A front may not make anything: it waits for a node that may.
  const mayMake = [...config.roles].some((role) => role !== 'front');
  const { newest } = RECORD_FORMATS;
  const own = { partitions: config.partitions, masterKey: fingerprint, isKeyUnproven };
  const replicas = mayMake ? config.natsReplicas : null;
  const identity = await joining(() =>
    joinCluster(link, own, replicas, newest, (error) =>
      onProblem(`not in the cluster yet: ${natsProblem(error)}`),
    ),
  );
  const writeFormat = mayMake
    ? await joining(() => followFormat(link, identity, fingerprint, log, onFailure))
    : null;
  const faults = new StreamFaults(link, replicas);
  await joining(async () => {
    await ensureLeaseBucket(link.manager, replicas);
    await persist(() => faults.lookAtLeases());
  });

  const publisher = new StreamPublisher(link);
  const remake = replicas === null ? null : () => remakeLeases(link, replicas);
  const table = new LeaseTable(link, publisher, onFailure, onProblem, remake);
  await joining(() => table.ready());
  const { partitions } = config;
  const counts = { accounts: partitions, webhooks: partitions, pollers: partitions, platform: 1 };
  const server = new NatsBusServer(link.connection, onProblem);
  const bus = new NatsBus({
    connection: link.connection,
    caller,
    routes: table,
    partitions: counts,
    server,
  });
  link.onReconnect(() => bus.reconnected());
  return {
    link,
    publisher,
    writeFormat,
    table,
    faults,
    bus,
    server,
    counts,
    proveKey: writeFormat === null ? frontKeyProof(link, identity, fingerprint, onFailure) : () => {},
    async close() {
      await writeFormat?.close();
      await table.close();
      server.flush();
      bus.close();
      publisher.close();
      await link.drain();
    },
  };
}

/** Whoever lives knows what stood there. Where the cluster's identity is gone, too, all that NATS had is lost: what is left of the
 *  logs has to be put back first, by a person. */
async function remakeLeases({ manager }: NatsLink, replicas: number): Promise<void> {
  if (!(await hasStream(manager, CLUSTER_STREAM))) throw new Error('all streams are lost');
  await ensureLeaseBucket(manager, replicas);
}

/** All other nodes follow what the cluster says. The front ends where it has another key: what it seals nobody could open. */
function frontKeyProof(
  link: NatsLink,
  identity: Identity,
  masterKey: string,
  onFailure: (error: Error) => void,
): () => void {
  let isDone = identity.masterKey !== undefined;
  let isAsking = false;
  const ask = async (): Promise<void> => {
    isAsking = true;
    try {
      isDone = await isMasterKeyNoted(link, masterKey);
    } catch (error) {
      // Where nobody can say, it asks again.
      if (error instanceof ClusterIdentityError) onFailure(error);
    }
    isAsking = false;
  };
  return () => {
    if (!isDone && !isAsking) void ask();
  };
}

/** What it owns has a log. */
export function usesDataDirectory({ roles }: Config): boolean {
  return roles.has('ledger') || roles.has('webhooks');
}

function followFormat(
  link: NatsLink,
  identity: Identity,
  masterKey: string,
  log: Log,
  onFailure: (error: Error) => void,
): Promise<WriteFormat> {
  return WriteFormat.follow({
    link,
    identity,
    formats: RECORD_FORMATS,
    masterKey,
    onRaised: (format) => log.info({ format }, 'records are written in a newer format'),
    onError: onFailure,
  });
}
