// A node of the cluster: the stages of standalone.ts, those that its roles ask for, over NATS.
//
//   front    HTTP ─▶ bus
//   ledger   bus ─▶ accounts and platform ─▶ log and its stream
//   webhooks stream of the accounts ─▶ webhooks ─▶ own log and its stream
//   poller   stream of the accounts ─▶ pollers ─▶ rails

import { accountsGroup } from '../../actors/accounts/group.ts';
import { PollerGroup } from '../../actors/pollers/poller-group.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import { checkWebhookUrl } from '../../actors/webhooks/url-guard.ts';
import type { GroupName } from '../bus/bus.ts';
import type { Config } from '../config.ts';
import { callbackRoutes } from '../http/callbacks.ts';
import { merchantSurface } from '../http/routes.ts';
import { createServer } from '../http/server.ts';
import { assertLimits, LIMITS } from '../limits.ts';
import { joinCluster } from '../nats/cluster-identity.ts';
import { connectNats } from '../nats/connection.ts';
import { LeaseOwnership } from '../nats/lease-ownership.ts';
import { LeaseTable } from '../nats/lease-table.ts';
import { NatsBusServer } from '../nats/nats-bus-server.ts';
import { NatsBus } from '../nats/nats-bus.ts';
import { StreamFeed } from '../nats/stream-feed.ts';
import { StreamPublisher } from '../nats/stream-publisher.ts';
import { ensureLeaseBucket } from '../nats/streams.ts';
import { createHttpObserver } from '../observability/http-observer.ts';
import { Metrics } from '../observability/metrics.ts';
import { openRegisteredAccounts } from '../operator/account-actions.ts';
import type { OperatorContext } from '../operator/context.ts';
import { operatorSurface } from '../operator/surface.ts';
import { systemClock } from '../rails/system-clock.ts';
import { createSecrets } from '../secrets.ts';
import { callbackHandler, sendHint } from './callbacks.ts';
import { ClusterHost } from './cluster-host.ts';
import { openDataDirectory } from './data-directory.ts';
import { openRails } from './rails.ts';
import type { ServiceOptions } from './standalone.ts';
import { Jobs } from './jobs.ts';
import { Storage } from './storage.ts';
import { watchPollers, watchStorage, watchWebhooks, webhookMetrics } from './watch.ts';

const VERSION = '1';

export interface ClusterNode {
  /** Null: this node is no front. */
  readonly baseUrl: string | null;
  readonly operatorUrl: string;
  /** Hands everything over, finishes what was accepted, and resolves. */
  stop(): Promise<void>;
}

export async function startClusterNode({ config, log, onFailure }: ServiceOptions): Promise<ClusterNode> {
  assertLimits();
  const startedAt = performance.now();
  const { roles, nodeName } = config;
  const metrics = new Metrics();
  const { masterKey, operatorToken } = config;
  if (masterKey === null || operatorToken === null) throw new Error('config.ts requires both in a cluster');
  const secrets = createSecrets(masterKey);
  const writes = roles.has('ledger') || roles.has('webhooks');
  const counts = partitionCounts(config);

  // 1. NATS, the cluster's identity, and the table of who owns what.
  let bus: NatsBus | null = null;
  const link = await connectNats(
    {
      url: (config.natsServers ?? []).join(','),
      name: nodeName,
      inboxPrefix: `_INBOX.${nodeName}`,
      caFile: config.natsCaFile ?? undefined,
      certFile: config.natsCertFile ?? undefined,
      keyFile: config.natsKeyFile ?? undefined,
      credentialsFile: config.natsCredentialsFile ?? undefined,
    },
    {
      onReconnect: () => bus?.reconnected(),
      onProblem: (problem) => log.warn({ problem }, 'NATS complains'),
    },
  );
  await joinCluster(link, config.partitions, config.natsReplicas);
  await ensureLeaseBucket(link.manager, config.natsReplicas);
  const publisher = new StreamPublisher(link);
  const table = new LeaseTable(link, publisher, onFailure);
  await table.ready();

  // 2. The bus, both sides, and the feed.
  bus = new NatsBus({ connection: link.connection, caller: nodeName, routes: table, partitions: counts });
  const server = new NatsBusServer(link.connection);

  // 3. The rails: their routes are part of what the accounts decide by.
  const rails = await openRails({
    config,
    log,
    secrets,
    onHint: (hint) => sendHint(bus, hint),
  });
  const policies = {
    accounts: { ...config.policy, routes: rails.routes },
    webhooks: {
      retryMs: config.webhookRetryMs,
      retentionMs: LIMITS.webhookRetentionMs,
    },
  };
  const accounts = accountsGroup(policies.accounts);
  const feed = new StreamFeed({ link, decode: (_, line) => accounts.decode(line), onError: onFailure });

  // 4. The log of what this node may write.
  let failed = false;
  const directory = writes ? await openDataDirectory(config.dataDir, config.partitions) : null;
  const storage = writes
    ? new Storage({
        directory: config.dataDir,
        policies,
        observer: metrics,
        clock: Date.now,
        onFlush: (flush) => metrics.flushed(flush),
        // Another node has a copy that is whole: this one must not stay the owner.
        onDamage: (_group, _partition, error) => onFailure(error),
        onFailure: (error) => {
          failed = true;
          storage?.abandon();
          onFailure(error);
        },
      })
    : null;
  if (storage !== null) watchStorage(metrics, storage);

  // 5. Who owns what, and what is done about it.
  const host = new ClusterHost({
    link,
    publisher,
    server,
    storage,
    replicas: config.natsReplicas,
    replication: config.replication,
    log,
    holds: (group, partition) => ownership.holds(group, partition),
    onFenced: (group, partition) => void ownership.surrender(group, partition),
    onServing: (group) => {
      if (group === 'platform') void finishOpenings();
    },
  });
  const ownership = new LeaseOwnership({
    table,
    host,
    node: nodeName,
    version: VERSION,
    operatorUrl: null,
    partitions: ownable(config, counts),
    onProblem: (problem, error) => log.warn(error === undefined ? {} : { err: error }, problem),
  });

  // 6. What drives them.
  const ticking = storage === null ? null : setInterval(() => storage.tick(), LIMITS.timerTickMs);
  const jobs = new Jobs();
  if (storage !== null) {
    jobs.everySecond(() => storage.checkpoint());
    const snapshot = (): Promise<void> =>
      host.snapshot().catch((error: unknown) => log.warn({ err: error }, 'no snapshot was saved'));
    jobs.everyMinute(snapshot);
  }

  // 7. Pollers and webhooks.
  const guard = { allowPrivate: config.webhookAllowPrivate, ports: [] };
  const pollers = roles.has('poller')
    ? new PollerGroup({
        bus,
        feed,
        rails: [...rails.rails.values()],
        clock: systemClock,
        random: Math.random,
        onNotice: (notice) => log.warn({ ...notice }, 'poller notice'),
        onFault: (error) => log.error({ err: error }, 'a rail threw'),
      })
    : null;
  if (pollers !== null) watchPollers(metrics, pollers);
  const webhooks = roles.has('webhooks')
    ? new WebhookExecutor({
        bus,
        feed,
        sender: new Sender({ guard, clock: Date.now }),
        openSecret: (sealed) => secrets.open('signing-secret', sealed),
        clock: Date.now,
        random: Math.random,
        metrics: webhookMetrics(metrics),
      })
    : null;
  if (webhooks !== null) watchWebhooks(metrics, webhooks);
  host.pollers = pollers;
  host.webhooks = webhooks;

  // 8. The edge. Every node has the operator surface; only fronts serve merchants and providers.
  const observer = createHttpObserver(metrics, log);
  let ready = false;
  const operators: OperatorContext = {
    bus,
    log,
    secrets,
    token: operatorToken,
    checkWebhookUrl: (url) => checkWebhookUrl(url, guard),
    rails: () => pollers?.railHealth() ?? [],
    partitions: () => partitionMap(table, counts, storage),
    notReady: () => notReady(),
    metrics: { text: () => metrics.text(), contentType: metrics.contentType },
  };
  const front = roles.has('front')
    ? createServer({
        surface: merchantSurface(callbackRoutes(callbackHandler(bus, rails, log))),
        bus,
        observer,
      })
    : null;
  const operatorServer = createServer({ surface: operatorSurface(operators), bus, observer });

  // 9. Open for business.
  const operatorPort = await operatorServer.listen(config.operatorHost, config.operatorPort);
  const port = front === null ? null : await front.listen(config.host, config.port);
  const urls = {
    baseUrl: port === null ? null : urlOf(config.host, port),
    operatorUrl: urlOf(config.operatorHost, operatorPort),
    simulatorUrl: rails.simulatorUrl,
  };
  if (urls.baseUrl !== null) await rails.setCallbackBase(urls.baseUrl);
  await ownership.start();
  ready = true;
  log.info({ ...urls, roles: [...roles], ms: Math.round(performance.now() - startedAt) }, 'started');

  /** Accounts that were registered and not opened when their maker died. */
  async function finishOpenings(): Promise<void> {
    try {
      const count = await openRegisteredAccounts(operators);
      if (count > 0) log.info({ count }, 'opened accounts that were registered only');
    } catch (error) {
      log.warn({ err: error }, 'registered accounts could not be opened; the next owner tries again');
    }
  }

  function notReady(): string | null {
    if (failed) return 'the log has failed';
    if (!ready) return 'starting';
    if (link.connection.isClosed()) return 'not connected to NATS';
    if (front !== null && !isWholeServed(table, counts.accounts)) return 'some accounts have no owner';
    return ownership.isSettled ? null : 'partitions are being taken over';
  }

  /** From the outside inwards, so that each stage has finished before the one it feeds stops. */
  async function stop(): Promise<void> {
    ready = false;
    await front?.stop();
    await ownership.drain();
    await pollers?.stop();
    await webhooks?.close(LIMITS.webhookStopMs);
    await operatorServer.stop();
    if (ticking !== null) clearInterval(ticking);
    await jobs.stop();
    await ownership.close();
    await host.close();
    await table.close();
    server.flush();
    bus?.close();
    publisher.close();
    await storage?.close();
    await rails.close();
    await directory?.release();
    await link.connection.drain();
  }

  return { baseUrl: urls.baseUrl, operatorUrl: urls.operatorUrl, stop };
}

function partitionCounts({ partitions }: Config): Record<GroupName, number> {
  return { accounts: partitions, webhooks: partitions, pollers: partitions, platform: 1 };
}

function ownable({ roles }: Config, counts: Record<GroupName, number>): Partial<Record<GroupName, number>> {
  const groups: GroupName[] = [];
  if (roles.has('ledger')) groups.push('platform', 'accounts');
  if (roles.has('webhooks')) groups.push('webhooks');
  if (roles.has('poller')) groups.push('pollers');
  return Object.fromEntries(groups.map((group) => [group, counts[group]]));
}

function isWholeServed(table: LeaseTable, count: number): boolean {
  for (let partition = 0; partition < count; partition++) {
    const lease = table.lease('accounts', partition);
    if (lease === undefined || !table.isHeld(lease.value)) return false;
  }
  return true;
}

/** Every partition of the cluster, its owner, and, of those written here, where the log stands. */
function partitionMap(
  table: LeaseTable,
  counts: Record<GroupName, number>,
  storage: Storage | null,
): readonly object[] {
  const hosted = new Map(
    [...(storage?.hosted() ?? [])].map((each) => [`${each.group}.${each.number}`, each] as const),
  );
  return (Object.entries(counts) as [GroupName, number][]).flatMap(([group, count]) =>
    Array.from({ length: count }, (_, partition) => {
      const lease = table.lease(group, partition)?.value;
      const here = hosted.get(`${group}.${partition}`);
      return {
        group,
        partition,
        node: lease?.node ?? null,
        node_state: table.nodes.get(lease?.node ?? '')?.value.state ?? null,
        epoch: lease?.epoch ?? 0,
        sequence: here?.log.durable ?? null,
        checkpoint_lag: here?.partition.checkpointLag ?? null,
      };
    }),
  );
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
