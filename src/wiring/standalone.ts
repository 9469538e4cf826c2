// The whole service in one process: the stages in the order data passes them. What a cluster does otherwise is in
// cluster.ts; the stages themselves are the same.
//
//   front ─▶ bus ─▶ accounts ─▶ log ─▶ feed ─▶ pollers ─▶ rails
//                                       └────▶ webhooks

import { schedule, type ScheduledTask } from 'node-cron';
import { PollerGroup } from '../../actors/pollers/poller-group.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import type { WebhooksLogic } from '../../actors/webhooks/group.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import { checkWebhookUrl } from '../../actors/webhooks/url-guard.ts';
import type { GroupName } from '../bus/bus.ts';
import { LocalBus } from '../bus/local-bus.ts';
import type { Config } from '../config.ts';
import type { PollerMessage } from '../domain/poller-message.ts';
import { callbackRoutes } from '../http/callbacks.ts';
import { merchantSurface } from '../http/routes.ts';
import { createServer } from '../http/server.ts';
import { assertLimits, LIMITS } from '../limits.ts';
import { createHttpObserver } from '../observability/http-observer.ts';
import type { Log } from '../observability/log.ts';
import { Metrics } from '../observability/metrics.ts';
import { openRegisteredAccounts } from '../operator/account-actions.ts';
import type { OperatorContext } from '../operator/context.ts';
import { type Demo, ensureDemo } from '../operator/demo.ts';
import { operatorSurface } from '../operator/surface.ts';
import { systemClock } from '../rails/system-clock.ts';
import { createSecrets, loadMasterKey, loadOperatorToken } from '../secrets.ts';
import { callbackHandler, sendHint } from './callbacks.ts';
import { openDataDirectory } from './data-directory.ts';
import { openRails } from './rails.ts';
import { Storage } from './storage.ts';
import { watchPollers, watchStorage, watchWebhooks, webhookMetrics } from './watch.ts';
import { watchTransactions } from './watch-transactions.ts';

export interface Service {
  readonly baseUrl: string;
  readonly operatorUrl: string;
  readonly simulatorUrl: string | null;
  readonly operatorToken: string;
  /** Null with DEMO=false. */
  readonly demo: Demo | null;
  /** Stops accepting, finishes and flushes what was accepted, and resolves. */
  stop(): Promise<void>;
}

export interface ServiceOptions {
  readonly config: Config;
  readonly log: Log;
  /** Nothing may be acknowledged any more: the process must end. */
  readonly onFailure: (error: Error) => void;
}

export async function startStandalone({ config, log, onFailure }: ServiceOptions): Promise<Service> {
  assertLimits();
  const startedAt = performance.now();

  // 1. The data directory, and what standalone makes for itself.
  const directory = await openDataDirectory(config.dataDir, config.partitions);
  const secrets = createSecrets(loadMasterKey(config.dataDir, config.masterKey));
  const operatorToken = loadOperatorToken(config.dataDir, config.operatorToken);
  const metrics = new Metrics();

  // 2. The bus, to whoever is attached below.
  const partitions = config.partitions;
  const bus = new LocalBus({ accounts: partitions, webhooks: partitions, pollers: partitions, platform: 1 });

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

  // 4. The log, and the partitions that write it, recovered.
  let failed = false;
  const storage = new Storage({
    directory: config.dataDir,
    policies,
    observer: metrics,
    clock: Date.now,
    onFlush: (flush) => metrics.flushed(flush),
    onFailure: (error) => {
      failed = true;
      storage.abandon();
      onFailure(error);
    },
  });
  const open = async (group: GroupName, count: number): Promise<void> => {
    const from = performance.now();
    for (let number = 0; number < count; number++) {
      const epoch = Math.max(1, storage.log.tip(group, number).epoch);
      await storage.openPartition(group, number, { epoch, replica: null, onFenced: null });
      bus.attach(group, number, storage.inbox(group, number));
    }
    metrics.recovered(group, performance.now() - from);
  };
  await open('platform', 1);
  await open('accounts', partitions);
  await open('webhooks', partitions);
  watchStorage(metrics, storage);
  watchTransactions(metrics, storage, partitions);

  // 5. What drives them: due timers every tick, checkpoints every second.
  const ticking = setInterval(() => storage.tick(), LIMITS.timerTickMs);
  const checkpointing: ScheduledTask = schedule('* * * * * *', () => storage.checkpoint());

  // 6. Pollers: committed transactions go to the rails, outcomes come back as commands.
  const pollers = new PollerGroup({
    bus,
    feed: storage.feed,
    rails: [...rails.rails.values()],
    clock: systemClock,
    random: Math.random,
    onNotice: (notice) => log.warn({ ...notice }, 'poller notice'),
    onFault: (error) => log.error({ err: error }, 'a rail threw'),
  });
  for (let number = 0; number < partitions; number++) {
    bus.attach('pollers', number, (message, onReply) =>
      pollers.send(number, message as PollerMessage, onReply),
    );
  }
  watchPollers(metrics, pollers);

  // 7. Webhooks: final states go to the merchants' endpoints.
  const guard = { allowPrivate: config.webhookAllowPrivate, ports: [] };
  if (guard.allowPrivate)
    log.warn({}, 'WEBHOOK_ALLOW_PRIVATE: webhooks may go to private addresses and over http');
  const executor = new WebhookExecutor({
    bus,
    feed: storage.feed,
    sender: new Sender({ guard, clock: Date.now }),
    openSecret: (sealed) => secrets.open('signing-secret', sealed),
    clock: Date.now,
    random: Math.random,
    metrics: webhookMetrics(metrics),
  });
  watchWebhooks(metrics, executor);

  // 8. The edge: merchants and providers on one port, operators on another.
  const observer = createHttpObserver(metrics, log);
  const front = createServer({
    surface: merchantSurface(callbackRoutes(callbackHandler(bus, rails, log))),
    bus,
    observer,
  });
  let ready = false;
  const operators: OperatorContext = {
    bus,
    log,
    secrets,
    token: operatorToken,
    checkWebhookUrl: (url) => checkWebhookUrl(url, guard),
    rails: () => pollers.railHealth(),
    partitions: () =>
      [...storage.hosted()].map(({ group, number, log: { tip, durable } }) => {
        return { group, partition: number, node: config.nodeName, epoch: tip.epoch, sequence: durable };
      }),
    notReady: () => (failed ? 'the log has failed' : ready ? null : 'starting'),
    metrics: { text: () => metrics.text(), contentType: metrics.contentType },
  };
  const operatorServer = createServer({ surface: operatorSurface(operators), bus, observer });

  // 9. Open for business.
  await openRegisteredAccounts(operators);
  await Promise.all(Array.from({ length: partitions }, (_, number) => pollers.start(number)));
  for (let number = 0; number < partitions; number++) {
    executor.host(number, storage.partition('webhooks', number)!.logic as unknown as WebhooksLogic);
  }
  const operatorPort = await operatorServer.listen(config.operatorHost, config.operatorPort);
  const port = await front.listen(config.host, config.port);
  const urls = {
    baseUrl: urlOf(config.host, port),
    operatorUrl: urlOf(config.operatorHost, operatorPort),
    simulatorUrl: rails.simulatorUrl,
  };
  await rails.setCallbackBase(urls.baseUrl);
  const demo = config.demo ? await ensureDemo(operators, config.dataDir, urls) : null;
  ready = true;
  log.info({ ...urls, partitions, ms: Math.round(performance.now() - startedAt) }, 'ready');

  /** From the outside inwards: each stage has finished before the one it feeds stops. */
  async function stop(): Promise<void> {
    ready = false;
    await front.stop();
    await pollers.stop();
    await executor.close(LIMITS.webhookStopMs);
    await operatorServer.stop();
    clearInterval(ticking);
    await checkpointing.destroy();
    await storage.close();
    await rails.close();
    await directory.release();
  }

  return { ...urls, operatorToken, demo, stop };
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
