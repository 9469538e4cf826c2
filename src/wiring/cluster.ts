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
import { assertLimits } from '../limit-relations.ts';
import { LIMITS } from '../limits.ts';
import { LeaseOwnership } from '../nats/leases/lease-ownership.ts';
import { StreamFeed } from '../nats/log/stream-feed.ts';
import { raiseWriteFormat, tellRaised } from '../nats/write-format.ts';
import { createHttpObserver } from '../observability/http-observer.ts';
import type { Log } from '../observability/log.ts';
import { Metrics } from '../observability/metrics.ts';
import { Openings } from '../operator/account-actions.ts';
import type { OperatorContext, WriteFormatRaise } from '../operator/context.ts';
import { operatorSurface } from '../operator/surface.ts';
import { createProcessClock } from '../process-clock.ts';
import { createSecrets } from '../secrets.ts';
import { callbackHandler, sendHint } from './callbacks.ts';
import { ClusterHost } from '../cluster/cluster-host.ts';
import { joinNats, type ClusterNats } from './cluster-nats.ts';
import type { GroupPolicies } from '../storage/groups.ts';
import { Jobs } from '../jobs.ts';
import { openNodeDisk, type NodeDisk } from './node-disk.ts';
import { NodeFeed } from '../cluster/node-feed.ts';
import { notReady, partitionMap, unprovenElsewhere } from './node-status.ts';
import { NodeTerms, termsOf } from '../cluster/node-terms.ts';
import { createPollers, createWebhooks, guardOf, policiesOf } from './outbound.ts';
import { urlOf } from './url.ts';
import { openRails, type Rails } from './rails.ts';
import type { ServiceOptions } from './service-options.ts';
import type { Storage } from '../storage/storage.ts';
import { watchReadiness } from './metrics.ts';
import { WrittenLogs, type WrittenLogsOptions } from '../cluster/written-logs.ts';

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
  const common = { ...options, secrets, metrics, clock };

  // 1. NATS, and over it the bus and the table of who owns what.
  const nats = await joinNats(config, secrets, log, onFailure);
  const { bus, table } = nats;

  // 2. The rails: their routes are part of what the accounts decide by.
  const rails = await openRails({ ...common, onHint: (hint) => sendHint(bus, hint, log) });
  const policies = policiesOf(config, rails);

  // 3. The log of what this node may write, and who decides what that is. What is damaged here another node has whole.
  const disk = await openNodeDisk({
    ...common,
    policies,
    nats,
    othersHaveRoom: () => ownership.othersHaveRoom,
    isSettled: () => ownership.isSettled,
    onRefused: (group, partition) => void ownership.refuse(group, partition),
  });
  const storage = disk?.storage ?? null;
  const feed = nodeFeed(options, policies, nats, storage);

  // 4. Committed transactions go to the rails, final states to the merchants' endpoints.
  const outbound = { bus, feed, log, metrics, clock };
  const guard = guardOf(config);
  const pollers = roles.has('poller') ? createPollers(outbound, rails) : null;
  const webhooks = roles.has('webhooks') ? createWebhooks(outbound, guard, secrets) : null;

  // 5. What is owned here is served.
  const holds = (group: GroupName, partition: number): boolean => ownership.holds(group, partition);
  const onFenced = (group: GroupName, partition: number): void => void ownership.surrender(group, partition);
  const logs = disk === null ? null : writtenLogs(options, nats, disk, { feed, webhooks, holds, onFenced });
  const host: ClusterHost = new ClusterHost({
    server: nats.server,
    logs,
    pollers,
    log,
    holds,
    onServing: (group) => void (group === 'platform' ? openings.finish() : null),
  });
  const terms = new NodeTerms(termsOf(policies, groupsOf(config)), config.nodeName, table, log);
  const ownership: LeaseOwnership = new LeaseOwnership({
    table,
    host,
    node: config.nodeName,
    newestFormat: RECORD_FORMATS.newest,
    isShort: () => disk?.isShort ?? false,
    isDamaged: (group, partition) => disk?.damage.damaged.has(group, partition) ?? false,
    partitions: ownable(config, nats),
    terms: terms.own,
    onProblem: (problem, error) => log.warn(error === undefined ? {} : { err: error }, problem),
  });

  // 6. The edge: every node has the operator surface; only fronts serve merchants and providers.
  let state: 'starting' | 'started' | 'stopping' = 'starting';
  const operators: OperatorContext = {
    bus,
    log,
    secrets,
    token: operatorToken,
    checkWebhookUrl: (url) => checkWebhookUrl(url, guard),
    rails: () => pollers?.railHealth() ?? [],
    partitions: () => partitionMap(nats, storage),
    raiseWriteFormat: () => raiseFormat(nats, log),
    notReady: () =>
      state === 'started'
        ? notReady(roles, nats, { disk, logs, pollers, ownership })
        : `the node is ${state}`,
    metrics,
  };
  const openings = new Openings(operators);
  watchNode(metrics, operators, logs, terms);
  const { operatorServer, front } = edgeOf(options, operators, rails, metrics);

  // 7. Open for business.
  const jobs = startJobs(nats, { disk, logs, host, terms, openings });
  const { baseUrl, operatorUrl } = await listen(config, operatorServer, front, disk);
  const callbackBase = config.callbackBaseUrl ?? baseUrl;
  if (callbackBase !== null) await rails.setCallbackBase(callbackBase);
  await disk?.damage.checkKept();
  // A front owns nothing, and may write nothing.
  const isOwner = roles.size > 1 || front === null;
  if (isOwner) await ownership.start();
  state = 'started';
  disk?.started();
  log.info({ baseUrl, operatorUrl, roles: [...roles] }, 'started');

  /** From the outside inwards: each stage has finished before the one it feeds stops. */
  async function stop(): Promise<void> {
    state = 'stopping';
    await front?.stop();
    if (isOwner) await ownership.drain();
    await pollers?.stop();
    await webhooks?.close(LIMITS.webhookStopMs);
    await operatorServer.stop();
    jobs.stop();
    await ownership.close();
    await host.close();
    await nats.close();
    await disk?.close();
    await rails.close();
  }

  return { baseUrl, operatorUrl, stop };
}

function writtenLogs(
  { config, log }: ServiceOptions,
  nats: ClusterNats,
  { storage, damage }: NodeDisk,
  parts: Pick<WrittenLogsOptions, 'feed' | 'webhooks' | 'holds' | 'onFenced'>,
): WrittenLogs {
  return new WrittenLogs({
    ...nats,
    ...parts,
    storage,
    replicas: config.natsReplicas,
    replication: config.replication,
    snapshotEveryBatches: config.snapshotEveryBatches,
    log,
    unprovenOn: (...place) => unprovenElsewhere(nats.table, config.nodeName, ...place),
    onUnreadable: (group, partition) => damage.check(group, partition),
  });
}

/** `front`: null where there is none. */
function edgeOf(
  { config, connectionsMax }: ServiceOptions,
  operators: OperatorContext,
  rails: Rails,
  metrics: Metrics,
): { readonly operatorServer: HttpServer; readonly front: HttpServer | null } {
  const { bus, log } = operators;
  const observer = createHttpObserver(metrics, log);
  const operatorServer = createServer({ surface: operatorSurface(operators), bus, observer });
  const callbacks = callbackRoutes(callbackHandler(bus, rails, log, metrics));
  const front = config.roles.has('front')
    ? createServer({ surface: merchantSurface(callbacks), bus, observer, connectionsMax })
    : null;
  return { operatorServer, front };
}

/** For operators and, at a front, for merchants. */
async function listen(
  config: Config,
  operatorServer: HttpServer,
  front: HttpServer | null,
  disk: NodeDisk | null,
): Promise<Pick<ClusterNode, 'baseUrl' | 'operatorUrl'>> {
  const { operatorHost, host } = config;
  try {
    const operatorPort = await operatorServer.listen(operatorHost, config.operatorPort);
    const port = await front?.listen(host, config.port);
    const baseUrl = port === undefined ? null : urlOf(host, port);
    return { baseUrl, operatorUrl: urlOf(operatorHost, operatorPort) };
  } catch (error) {
    disk?.endProof();
    throw error;
  }
}

function nodeFeed(
  { config, onFailure }: ServiceOptions,
  policies: GroupPolicies,
  { link, table }: ClusterNats,
  storage: Storage | null,
): NodeFeed {
  const accounts = accountsGroup(policies.accounts);
  const stream = new StreamFeed({
    link,
    decode: (_, line) => accounts.decode(line),
    epochOf: (group, partition) => table.lease(group, partition)?.value.epoch ?? 0,
    onError: onFailure,
  });
  // With async replication the own log may hold what is lost with this machine: nobody is paid by that.
  if (config.replication === 'async' || storage === null) return new NodeFeed({ stream, own: null });
  const { feed, log } = storage;
  const beginsAfter = (group: GroupName, partition: number): number => log.startOf(group, partition).sequence;
  return new NodeFeed({ stream, own: { feed, beginsAfter } });
}

/** `logs`: null where there are none. */
function watchNode(
  metrics: Metrics,
  { notReady }: OperatorContext,
  logs: WrittenLogs | null,
  terms: NodeTerms,
): void {
  watchReadiness(metrics, notReady);
  if (logs === null) return;
  const unproven =
    'Partitions that this node last failed to bring to the end of their streams: a person must see to them.';
  metrics.gauge('daftari_partitions_unproven', unproven, () => logs.unprovenCount);
  const otherTerms = 'Live nodes that decide by other fees, limits, routes or durations than this one.';
  metrics.gauge('daftari_nodes_with_other_terms', otherTerms, () => terms.others.length);
}

interface Working {
  readonly disk: NodeDisk | null;
  /** Null where there is no disk. */
  readonly logs: WrittenLogs | null;
  readonly host: ClusterHost;
  readonly terms: NodeTerms;
  readonly openings: Openings;
}

function startJobs(nats: ClusterNats, { disk, logs, host, terms, openings }: Working): Jobs {
  const jobs = new Jobs();
  watchStreams(jobs, nats, logs);
  jobs.everySecond(nats.proveKey);
  jobs.everySecond(() => terms.look());
  jobs.oneAtATime(LIMITS.unopenedLookMs, async () => {
    if (host.isServing('platform', 0)) await openings.retry();
  });
  if (disk !== null) {
    disk.storage.schedule(jobs);
    jobs.everySecond(() => disk.yieldIfLost());
    jobs.everySecond(disk.proveKey);
    jobs.everyDay(() => disk.damage.checkAll());
  }
  if (logs !== null) {
    jobs.oneAtATime(LIMITS.followedViewsEveryMs, () => logs.keepViewsUp());
    jobs.oneAtATime(LIMITS.streamsStalledLookMs, () => logs.lookAtStalled());
    jobs.oneAtATime(LIMITS.snapshotLookMs, () => logs.snapshots.save());
    jobs.everyDay(() => logs.snapshots.removeAbandoned());
  }
  return jobs;
}

/** Whether somebody has changed or removed streams that are in use: each minute. And whether NATS has forgotten what it had taken: where its
 *  servers died, a connection was lost. */
function watchStreams(jobs: Jobs, nats: ClusterNats, logs: WrittenLogs | null): void {
  let isDue = false;
  const becomeDue = (): void => {
    isDue = true;
  };
  jobs.everyMinute(async () => becomeDue());
  nats.link.onReconnect(becomeDue);
  jobs.oneAtATime(LIMITS.streamsLookMs, async () => {
    if (!isDue) return;
    isDue = false;
    try {
      await lookAtStreams(nats, logs);
    } catch {
      // That NATS does not answer is told elsewhere.
      becomeDue();
    }
  });
}

async function lookAtStreams(
  { table, faults, writeFormat }: ClusterNats,
  logs: WrittenLogs | null,
): Promise<void> {
  await table.noteDropped();
  table.doubtUnheld();
  await writeFormat?.sayIfLost();
  await faults.lookAtLeases();
  await logs?.lookAtStreams();
}

function groupsOf({ roles }: Config): readonly GroupName[] {
  return [...roles].flatMap((role) => GROUPS_OF[role]);
}

function ownable(config: Config, { counts }: ClusterNats): Partial<Record<GroupName, number>> {
  return Object.fromEntries(groupsOf(config).map((group) => [group, counts[group]]));
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
