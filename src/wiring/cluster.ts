// A node of the cluster: the stages of standalone.ts, those that its roles ask for, over NATS.
//
//   front    HTTP ─▶ bus
//   ledger   bus ─▶ accounts and platform ─▶ log and its stream
//   webhooks stream of the accounts ─▶ webhooks ─▶ own log and its stream
//   poller   stream of the accounts ─▶ pollers ─▶ rails

import { accountsGroup } from '../../actors/accounts/group.ts';
import { checkWebhookUrl } from '../../actors/webhooks/url-guard.ts';
import type { GroupName } from '../bus/bus.ts';
import type { Config, Role } from '../config.ts';
import { RECORD_FORMATS } from '../domain/record-format.ts';
import { callbackRoutes } from '../http/callbacks.ts';
import { merchantSurface } from '../http/routes.ts';
import { createServer } from '../http/server.ts';
import type { HttpServer } from '../http/server.ts';
import { assertLimits, LIMITS } from '../limits.ts';
import { noteClusterKey } from '../nats/cluster-identity.ts';
import { LeaseOwnership } from '../nats/lease-ownership.ts';
import { StreamFeed } from '../nats/stream-feed.ts';
import { partitionKey } from '../nats/subjects.ts';
import { raiseWriteFormat, tellRaised } from '../nats/write-format.ts';
import { createHttpObserver } from '../observability/http-observer.ts';
import type { Log } from '../observability/log.ts';
import { Metrics } from '../observability/metrics.ts';
import { finishOpenings } from '../operator/account-actions.ts';
import type { OperatorContext, WriteFormatRaise } from '../operator/context.ts';
import { operatorSurface } from '../operator/surface.ts';
import { createProcessClock } from '../process-clock.ts';
import { createSecrets, type Secrets } from '../secrets.ts';
import { callbackHandler, sendHint } from './callbacks.ts';
import { ClusterHost } from './cluster-host.ts';
import { joinNats, usesDataDirectory, type ClusterNats } from './cluster-nats.ts';
import { noteMasterKey, openDataDirectory, tellIfEmpty } from '../data-directory/data-directory.ts';
import type { GroupPolicies } from './groups.ts';
import { Jobs } from './jobs.ts';
import { type DiskSpace, tellDiskSpace } from '../data-directory/disk-space.ts';
import { clusterKeyProof } from './master-key-proof.ts';
import { NodeDamage, type NodeDamageOptions } from '../damage/node-damage.ts';
import { NodeFeed } from './node-feed.ts';
import { createPollers, createWebhooks, guardOf, policiesOf } from './outbound.ts';
import { urlOf } from './url.ts';
import { openRails } from './rails.ts';
import type { ServiceOptions } from './service-options.ts';
import { Storage } from './storage.ts';
import { proveStart } from '../damage/start-proof.ts';
import { watchDisk, watchReadiness, watchStorage, watchTransactions } from './watch.ts';

const GROUPS_OF: Record<Role, readonly GroupName[]> = {
  front: [],
  ledger: ['platform', 'accounts'],
  webhooks: ['webhooks'],
  poller: ['pollers'],
};

export interface ClusterNode {
  /** Null: this node is no front. */
  readonly baseUrl: string | null;
  readonly operatorUrl: string;
  /** Hands everything over, finishes what was accepted, and resolves. */
  stop(): Promise<void>;
}

export async function startClusterNode(options: ServiceOptions): Promise<ClusterNode> {
  assertLimits();
  const { config, log, onFailure } = options;
  const { masterKey, operatorToken, roles } = config;
  if (masterKey === null || operatorToken === null) throw new Error('config.ts requires both in a cluster');
  const secrets = createSecrets(masterKey);
  const metrics = new Metrics();
  const clock = createProcessClock();

  // 1. NATS, and over it the bus and the table of who owns what.
  const nats = await joinNats(config, secrets, log, onFailure);
  const { bus, table } = nats;

  // 2. The rails: their routes are part of what the accounts decide by.
  const rails = await openRails({ config, log, secrets, clock, onHint: (hint) => sendHint(bus, hint, log) });
  const policies = policiesOf(config, rails);

  // 3. The log of what this node may write, and who decides what that is. What is damaged here another node has whole.
  const disk = await openDisk({ ...options, secrets }, policies, metrics, clock, nats, {
    othersHaveRoom: () => ownership.othersHaveRoom,
    isSettled: () => ownership.isSettled,
    onRefused: (group, partition) => void ownership.refuse(group, partition),
  });
  const feed = nodeFeed(options, policies, nats, disk?.storage ?? null);
  const host: ClusterHost = new ClusterHost({
    ...nats,
    feed,
    storage: disk?.storage ?? null,
    replicas: config.natsReplicas,
    replication: config.replication,
    snapshotEveryBatches: config.snapshotEveryBatches,
    log,
    holds: (group, partition) => ownership.holds(group, partition),
    unprovenOn: (...place) => unprovenElsewhere(table, config.nodeName, ...place),
    onUnreadable: (group, partition) => disk?.damage.check(group, partition),
    onFenced: (group, partition) => void ownership.surrender(group, partition),
    onServing: (group) => void (group === 'platform' ? finishOpenings(operators) : null),
  });
  const ownership: LeaseOwnership = new LeaseOwnership({
    table,
    host,
    node: config.nodeName,
    newestFormat: RECORD_FORMATS.newest,
    isShort: () => disk !== null && (disk.space.isShort || disk.storage.stall !== null),
    isDamaged: (group, partition) => disk?.damage.damaged.has(group, partition) ?? false,
    partitions: ownable(config, nats),
    onProblem: (problem, error) => log.warn(error === undefined ? {} : { err: error }, problem),
  });

  // 4. Committed transactions go to the rails, final states to the merchants' endpoints.
  const outbound = { bus, feed, log, metrics, clock };
  const guard = guardOf(config);
  host.pollers = roles.has('poller') ? createPollers(outbound, rails) : null;
  host.webhooks = roles.has('webhooks') ? createWebhooks(outbound, guard, secrets) : null;

  // 5. The edge: every node has the operator surface; only fronts serve merchants and providers.
  let state: 'starting' | 'started' | 'stopping' = 'starting';
  const operators: OperatorContext = {
    bus,
    log,
    secrets,
    token: operatorToken,
    checkWebhookUrl: (url) => checkWebhookUrl(url, guard),
    rails: () => host.pollers?.railHealth() ?? [],
    partitions: () => partitionMap(nats, disk?.storage ?? null),
    raiseWriteFormat: () => raiseFormat(nats, log),
    notReady: () => {
      if (state !== 'started') return `the node is ${state}`;
      return problemOf(disk) ?? notReady(config, nats, ownership, host);
    },
    metrics: { text: () => metrics.text(), contentType: metrics.contentType },
  };
  watchNode(metrics, operators, disk === null ? null : host);
  const observer = createHttpObserver(metrics, log);
  const operatorServer = createServer({ surface: operatorSurface(operators), bus, observer });
  const callbacks = callbackRoutes(callbackHandler(bus, rails, log, metrics));
  const front: HttpServer | null = roles.has('front')
    ? createServer({ surface: merchantSurface(callbacks), bus, observer })
    : null;

  // 6. Open for business.
  const stopJobs = startJobs(options, nats, disk, host);
  const [operatorPort, port] = await listen(config, operatorServer, front).catch((error: unknown) => {
    disk?.clearViews();
    throw error;
  });
  const baseUrl = port === undefined ? null : urlOf(config.host, port);
  const operatorUrl = urlOf(config.operatorHost, operatorPort);
  const callbackBase = config.callbackBaseUrl ?? baseUrl;
  if (callbackBase !== null) await rails.setCallbackBase(callbackBase);
  await disk?.damage.checkKept();
  // A front owns nothing, and may write nothing.
  const isOwner = roles.size > 1 || front === null;
  if (isOwner) await ownership.start();
  state = 'started';
  void disk?.damage.checkAll();
  log.info({ baseUrl, operatorUrl, roles: [...roles] }, 'started');

  /** From the outside inwards: each stage has finished before the one it feeds stops. */
  async function stop(): Promise<void> {
    state = 'stopping';
    await front?.stop();
    if (isOwner) await ownership.drain();
    await host.pollers?.stop();
    await host.webhooks?.close(LIMITS.webhookStopMs);
    await operatorServer.stop();
    stopJobs();
    await ownership.close();
    await host.close();
    await nats.close();
    await disk?.close();
    await rails.close();
  }

  return { baseUrl, operatorUrl, stop };
}

/** The ports of operators and, of a front, of merchants. */
async function listen(
  { operatorHost, operatorPort, host, port }: Config,
  operatorServer: HttpServer,
  front: HttpServer | null,
): Promise<readonly [number, number | undefined]> {
  return [await operatorServer.listen(operatorHost, operatorPort), await front?.listen(host, port)];
}

interface DiskOptions {
  readonly othersHaveRoom: () => boolean;
  /** It has all partitions that it is to have. */
  readonly isSettled: () => boolean;
  readonly onRefused: NodeDamageOptions['onRefused'];
}

interface Disk {
  readonly storage: Storage;
  readonly space: DiskSpace;
  readonly damage: NodeDamage;
  /** A disk that does not answer keeps its partitions from nodes whose disks do. To be called now and then. */
  yieldIfLost(): void;
  /** Whether the master key is that of what is here, once all of it is. To be called now and then. */
  readonly proveKey: () => void;
  /** The start ends for a reason that is no fault of the views: the next one need not read them first. */
  clearViews(): void;
  close(): Promise<void>;
}

/** Null: this node owns nothing that has a log. */
async function openDisk(
  { config, log, onFailure, secrets }: ServiceOptions & { readonly secrets: Secrets },
  policies: GroupPolicies,
  metrics: Metrics,
  clock: () => number,
  nats: ClusterNats,
  { othersHaveRoom, isSettled, onRefused }: DiskOptions,
): Promise<Disk | null> {
  const { writeFormat } = nats;
  if (writeFormat === null || !usesDataDirectory(config)) return null;
  const directory = await openDataDirectory(
    config,
    tellDiskSpace(log, {
      short: 'partitions go to nodes that have room; without one changes are refused',
      roomy: 'partitions are taken',
    }),
  );
  tellIfEmpty(directory, log);
  // Of a directory whose cluster does not say its key this node may have the wrong one.
  if (writeFormat.isMasterKeyNoted) noteMasterKey(directory, secrets);
  const { space } = directory;
  const damage = new NodeDamage({ directory: config.dataDir, log, metrics, onRefused });
  const proof = await proveStart(config.dataDir, log);
  const fail = (error: Error): void => {
    storage.abandon();
    onFailure(error);
  };
  const storage = new Storage({
    directory: config.dataDir,
    policies,
    observer: metrics,
    clock,
    // Callers are on other machines.
    deadlineClock: () => Date.now(),
    writeFormat: () => writeFormat.current,
    onFlush: (flush) => metrics.flushed(flush),
    // What is on its way to others goes on meanwhile.
    isDiskShort: () => space.isShort && (space.isNearlyFull || !othersHaveRoom()),
    onDamage: (group, partition, error) => damage.refuse(group, partition, error),
    onFailure: fail,
  });
  watchStorage(metrics, storage);
  watchTransactions(metrics, storage);
  watchDisk(metrics, space);
  return {
    storage,
    space,
    damage,
    proveKey: clusterKeyProof(nats, secrets, storage, {
      isSettled,
      noteKey: (fingerprint) => noteClusterKey(nats.link, fingerprint),
      log,
      onFailure: fail,
    }),
    yieldIfLost() {
      const isLost = storage.flushingMs >= LIMITS.diskLostMs && othersHaveRoom();
      if (isLost) fail(new Error(`${storage.stall}; other nodes take what is here`));
    },
    clearViews: () => proof.end(),
    async close() {
      await damage.stop();
      await storage.close();
      proof.end();
      await directory.release();
    },
  };
}

function nodeFeed(
  { config, onFailure }: ServiceOptions,
  policies: GroupPolicies,
  { link }: ClusterNats,
  storage: Storage | null,
): NodeFeed {
  const accounts = accountsGroup(policies.accounts);
  const stream = new StreamFeed({
    link,
    decode: (_, line) => accounts.decode(line),
    onError: onFailure,
  });
  // With async replication the own log may hold what is lost with this machine: nobody is paid by that.
  if (config.replication === 'async' || storage === null) return new NodeFeed({ stream, own: null });
  const { feed, log } = storage;
  const beginsAfter = (group: GroupName, partition: number): number => log.startOf(group, partition).sequence;
  return new NodeFeed({ stream, own: { feed, beginsAfter } });
}

/** `host`: null where there is no log. */
function watchNode(metrics: Metrics, { notReady }: OperatorContext, host: ClusterHost | null): void {
  watchReadiness(metrics, notReady);
  if (host === null) return;
  const unproven =
    'Partitions that this node last failed to bring to the end of their streams: a person must see to them.';
  metrics.gauge('daftari_partitions_unproven', unproven, () => host.unprovenCount);
}

/** Returns how to stop them. */
function startJobs(
  { log }: ServiceOptions,
  nats: ClusterNats,
  disk: Disk | null,
  host: ClusterHost,
): () => void {
  const jobs = new Jobs();
  jobs.everyMinute(() => lookAtStreams(nats, host));
  jobs.everySecond(nats.proveKey);
  if (disk === null) return () => jobs.stop();
  const { storage, damage } = disk;
  const ticking = setInterval(() => storage.tick(), LIMITS.timerTickMs);
  const checkpointing = setInterval(() => storage.checkpoint(), LIMITS.checkpointEveryMs);
  jobs.everySecond(() => void host.keepViewsUp());
  jobs.everySecond(() => disk.yieldIfLost());
  jobs.everySecond(disk.proveKey);
  jobs.everyMinute(() => host.snapshot());
  jobs.everyDay(() => storage.sweep());
  jobs.everyDay(() => damage.checkAll());
  jobs.everyDay(() => {
    return host.removeAbandonedSnapshots().catch((error: unknown) => {
      log.warn({ err: error }, 'what was left of unfinished snapshots could not be removed');
    });
  });
  return () => {
    clearInterval(ticking);
    clearInterval(checkpointing);
    jobs.stop();
  };
}

/** What somebody may have done to the streams while they are in use. Where nobody can say, that is told elsewhere. */
async function lookAtStreams({ table, faults }: ClusterNats, host: ClusterHost): Promise<void> {
  try {
    await table.noteDropped();
    await faults.lookAtLeases();
    await host.lookAtStreams();
  } catch {
    // The next minute asks again.
  }
}

function ownable({ roles }: Config, { counts }: ClusterNats): Partial<Record<GroupName, number>> {
  const groups = [...roles].flatMap((role) => GROUPS_OF[role]);
  return Object.fromEntries(groups.map((group) => [group, counts[group]]));
}

function problemOf(disk: Disk | null): string | null {
  return disk === null ? null : (disk.storage.stall ?? disk.space.shortage ?? disk.damage.damaged.problem);
}

/** Null: this node can do all that its roles promise. */
function notReady(
  config: Config,
  { link, table, counts }: ClusterNats,
  ownership: LeaseOwnership,
  host: ClusterHost,
): string | null {
  if (link.connection.isClosed()) return 'not connected to NATS';
  if (config.roles.has('front')) {
    for (let partition = 0; partition < counts.accounts; partition++) {
      const lease = table.lease('accounts', partition);
      if (lease === undefined || !table.isHeld(lease.value)) return 'some accounts have no owner';
      const silentMs = table.silentMs(lease.value);
      if (silentMs > LIMITS.ownerSilentMs) {
        return `nothing has been heard of ${lease.value.node} for ${Math.floor(silentMs / 1_000)} s`;
      }
    }
    if (config.roles.size === 1) return null;
  }
  const { rival } = ownership;
  if (rival !== null) return rival;
  if (!ownership.isSettled) {
    const { unanswered } = table;
    if (unanswered !== null) return `NATS does not take what this node writes: ${unanswered}`;
    return host.problem ?? host.stall ?? 'partitions are being taken over';
  }
  const { stall } = host;
  if (stall !== null) return stall;
  const { pollers } = host;
  return pollers === null || pollers.isFollowing ? null : 'pollers look for what is in flight';
}

async function raiseFormat(
  { link, publisher, table, writeFormat }: ClusterNats,
  log: Log,
): Promise<WriteFormatRaise> {
  if (writeFormat === null) {
    return { type: 'refused', reason: 'A front may not change the cluster: ask a node with another role.' };
  }
  try {
    const raised = await raiseWriteFormat(link, publisher, table);
    const message = tellRaised(raised);
    if (raised.type === 'raised' || raised.type === 'newest') {
      return { type: 'done', format: raised.format, message };
    }
    return { type: 'refused', reason: message };
  } catch (error) {
    log.warn({ err: error }, 'nobody knows whether the format of records was raised');
    return { type: 'unknown' };
  }
}

/** Every partition of the cluster, its owner, and, of those written here, where the log stands. */
function partitionMap({ table, counts }: ClusterNats, storage: Storage | null): object[] {
  const hosted = new Map(
    [...(storage?.hosted() ?? [])].map((each) => [partitionKey(each.group, each.number), each] as const),
  );
  return (Object.entries(counts) as [GroupName, number][]).flatMap(([group, count]) =>
    Array.from({ length: count }, (_, partition) => {
      const lease = table.lease(group, partition)?.value;
      const here = hosted.get(partitionKey(group, partition));
      return {
        group,
        partition,
        node: lease?.node ?? null,
        node_state: table.nodes.get(lease?.node ?? '')?.value.state ?? null,
        epoch: lease?.epoch ?? 0,
        damaged_on: nodesThatSay(table, 'damaged', group, partition),
        unproven_on: nodesThatSay(table, 'unproven', group, partition),
        sequence: here?.log.durable ?? null,
        checkpoint_lag: here?.partition.checkpointLag ?? null,
      };
    }),
  );
}

/** Live nodes that say it of the partition: their copy is damaged, or they cannot prove it. */
function nodesThatSay(
  { nodes }: ClusterNats['table'],
  what: 'damaged' | 'unproven',
  group: GroupName,
  partition: number,
): string[] {
  const key = partitionKey(group, partition);
  return [...nodes].flatMap(([name, { value }]) => {
    return value.state !== 'dead' && value[what]?.includes(key) === true ? [name] : [];
  });
}

/** A node but this one that cannot prove its log of the partition; null: none says so. */
function unprovenElsewhere(
  table: ClusterNats['table'],
  node: string,
  group: GroupName,
  partition: number,
): string | null {
  return nodesThatSay(table, 'unproven', group, partition).find((name) => name !== node) ?? null;
}
