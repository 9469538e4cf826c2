// The whole service in one process: the stages in the order data passes them. What a cluster does otherwise is in
// cluster.ts; the stages themselves are the same.
//
//   front ─▶ bus ─▶ accounts ─▶ log ─▶ feed ─▶ pollers ─▶ rails
//                                       └────▶ webhooks

import type { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { checkWebhookUrl } from '../../actors/webhooks/url-guard.ts';
import { LocalBus } from '../bus/local-bus.ts';
import type { Config } from '../config.ts';
import { RECORD_FORMATS } from '../domain/record-format.ts';
import { callbackRoutes } from '../http/callbacks.ts';
import { merchantSurface } from '../http/routes.ts';
import { createServer } from '../http/server.ts';
import { assertLimits } from '../limit-relations.ts';
import { LIMITS } from '../limits.ts';
import { createHttpObserver } from '../observability/http-observer.ts';
import { Metrics } from '../observability/metrics.ts';
import { Openings } from '../operator/account-actions.ts';
import type { OperatorContext } from '../operator/context.ts';
import { type Demo, offerDemo } from '../operator/demo.ts';
import { operatorSurface } from '../operator/surface.ts';
import { createProcessClock } from '../process-clock.ts';
import { createSecrets, loadMasterKey, loadOperatorToken } from '../secrets.ts';
import { callbackHandler, sendHint } from './callbacks.ts';
import {
  checkAlone,
  checkLog,
  checkMasterKey,
  type DataDirectory,
  notingFormat,
  openDataDirectory,
} from '../data-directory/data-directory.ts';
import { DataDirectoryError } from '../data-directory/identity.ts';
import { tellDiskSpace } from '../data-directory/disk-space.ts';
import { webhooksLogicOf } from '../storage/groups.ts';
import { type Ledger, openLedger } from './ledger.ts';
import { createPollers, createWebhooks, guardOf, policiesOf } from './outbound.ts';
import { proveOwnKey } from './master-key-proof.ts';
import { openRails, type Rails } from './rails.ts';
import type { ServiceOptions } from './service-options.ts';
import { urlOf } from './url.ts';
import { proveStart, type StartProof } from '../damage/start-proof.ts';
import { watchReadiness } from './metrics.ts';

/** Nobody else reads the log. */
const OWN_FORMAT = {
  type: 'done',
  format: RECORD_FORMATS.newest,
  message: `Records are written in format ${RECORD_FORMATS.newest}, the newest of this version.`,
} as const;

export interface Service {
  readonly baseUrl: string;
  readonly operatorUrl: string;
  readonly simulatorUrl: string | null;
  readonly operatorToken: string;
  /** Null with DEMO=false, and where it could not be made. */
  readonly demo: Demo | null;
  /** Stops accepting, finishes and flushes what was accepted, and resolves. */
  stop(): Promise<void>;
}

type State = 'starting' | 'ready' | 'stopping' | 'failed';

export async function startStandalone(options: ServiceOptions): Promise<Service> {
  assertLimits();
  const { config, log, onFailure, connectionsMax } = options;
  const startedAt = performance.now();
  const clock = createProcessClock();
  let state: State = 'starting';

  // 1. The data directory, and what standalone makes for itself.
  const said = { short: 'changes are refused until there is room', roomy: 'changes are taken' };
  const directory = await openDataDirectory(config, tellDiskSpace(log, said));
  await checkAlone(directory);
  await checkLog(directory, log);
  const { space } = directory;
  const secrets = createSecrets(loadMasterKey(config.dataDir, config.masterKey));
  const isKeyKnown = await checkMasterKey(directory, secrets);
  const operatorToken = loadOperatorToken(config.dataDir, config.operatorToken);
  const metrics = new Metrics();

  // 2. The bus, to whoever is attached below.
  const { partitions } = config;
  const bus = new LocalBus({ accounts: partitions, webhooks: partitions, pollers: partitions, platform: 1 });

  // 3. The rails: their routes are part of what the accounts decide by.
  const rails = await openRails({
    config,
    log,
    secrets,
    clock,
    onHint: (hint) => sendHint(bus, hint, log),
  });

  // 4. The log, and the partitions that write it, recovered. From here on, if a start does not come through, the views may be at fault.
  const proof = await proveStart(config.dataDir, log);
  const ledger = await openLedger({
    config,
    directory,
    policies: policiesOf(config, rails),
    bus,
    log,
    metrics,
    clock,
    writeFormat: notingFormat(directory, () => OWN_FORMAT.format),
    onFailure: (error, part) => {
      state = 'failed';
      onFailure(error, part);
    },
  }).catch((error: unknown) => letGo(error, { proof, rails, directory }));
  const { storage, damaged } = ledger;
  const closeAll = async (): Promise<void> => {
    await ledger.close();
    await rails.close();
    proof.end();
    await directory.release();
  };
  if (!isKeyKnown) await proveOwnKey(directory, secrets, ledger, log, closeAll);

  // 5. Committed transactions go to the rails, final states to the merchants' endpoints.
  const outbound = { bus, feed: storage.feed, log, metrics, clock };
  const pollers = createPollers(outbound, rails);
  const guard = guardOf(config);
  const executor = createWebhooks(outbound, guard, secrets);

  // 6. The edge: merchants and providers on one port, operators on another.
  const observer = createHttpObserver(metrics, log);
  const callbacks = callbackRoutes(callbackHandler(bus, rails, log, metrics));
  const front = createServer({ surface: merchantSurface(callbacks), bus, observer, connectionsMax });
  const operators: OperatorContext = {
    bus,
    log,
    secrets,
    token: operatorToken,
    checkWebhookUrl: (url) => checkWebhookUrl(url, guard),
    rails: () => pollers.railHealth(),
    partitions: () => partitionMap(config, ledger),
    raiseWriteFormat: async () => OWN_FORMAT,
    notReady: () =>
      state === 'ready' ? (storage.stall ?? space.shortage ?? damaged.problem) : `the service is ${state}`,
    metrics,
  };
  watchReadiness(metrics, operators.notReady);
  const operatorServer = createServer({ surface: operatorSurface(operators), bus, observer });

  // 7. Open for business.
  await openRegistered(operators, ledger);
  await serveOutbound(config, bus, ledger, pollers, executor);
  const listening = async (): Promise<readonly [number, number]> => {
    const operatorPort = await operatorServer.listen(config.operatorHost, config.operatorPort);
    return [operatorPort, await front.listen(config.host, config.port)];
  };
  const [operatorPort, port] = await listening().catch((error: unknown) => {
    // A port that is taken is no fault of the views: the next start, which may be one of many, need not read them first.
    proof.end();
    throw error;
  });
  const urls = {
    baseUrl: urlOf(config.host, port),
    operatorUrl: urlOf(config.operatorHost, operatorPort),
    simulatorUrl: rails.simulatorUrl,
  };
  await rails.setCallbackBase(config.callbackBaseUrl ?? urls.baseUrl);
  const demo = config.demo && damaged.size === 0 ? await offerDemo(operators, config.dataDir, urls) : null;
  state = readyAfter(state);
  proof.cameThrough();
  ledger.scrub();
  log.info({ ...urls, partitions, ms: Math.round(performance.now() - startedAt) }, 'ready');

  /** From the outside inwards: each stage has finished before the one it feeds stops. */
  async function stop(): Promise<void> {
    state = 'stopping';
    await front.stop();
    await pollers.stop();
    await executor.close(LIMITS.webhookStopMs);
    await operatorServer.stop();
    await closeAll();
  }

  return { ...urls, operatorToken, demo, stop };
}

/** Where something waited for a commit that has failed, the start goes on without it: that is told already, and the process about to
 *  end. */
function readyAfter(state: State): State {
  if (state === 'failed') throw new Error('the service has failed while it started');
  return 'ready';
}

/** Of a directory that is refused: it may be mended and tried again. */
async function letGo(
  error: unknown,
  { proof, rails, directory }: { proof: StartProof; rails: Rails; directory: DataDirectory },
): Promise<never> {
  proof.endBy(error);
  if (error instanceof DataDirectoryError) {
    await rails.close();
    await directory.release();
  }
  throw error;
}

async function openRegistered(operators: OperatorContext, { damaged, jobs }: Ledger): Promise<void> {
  const openings = new Openings(operators);
  if (damaged.size === 0) await openings.finish();
  jobs.oneAtATime(LIMITS.unopenedLookMs, () => openings.retry());
}

/** Pollers and webhooks of every partition that is served. If a partition is refused later, as its log is read, its own are let go:
 *  otherwise they would ask until somebody answers, and each attempt that cannot be recorded would keep its place. */
async function serveOutbound(
  { partitions }: Config,
  bus: LocalBus,
  ledger: Ledger,
  pollers: PollerGroup,
  executor: WebhookExecutor,
): Promise<void> {
  const { storage, damaged } = ledger;
  ledger.onRefused((group, number) => {
    if (group === 'accounts') void pollers.lose(number);
    if (group !== 'platform') void executor.release(number);
  });
  const starting: Promise<void>[] = [];
  for (let number = 0; number < partitions; number++) {
    const accounts = storage.partition('accounts', number);
    if (accounts === undefined || damaged.has('accounts', number)) continue;
    bus.attach('pollers', number, (message, onReply) => pollers.send(number, message, onReply));
    starting.push(pollers.start(number, { now: () => accounts.now() }));
    const webhooks = storage.partition('webhooks', number);
    if (webhooks === undefined || damaged.has('webhooks', number)) continue;
    executor.host(number, webhooksLogicOf(webhooks), { clock: () => webhooks.now() });
  }
  await Promise.all(starting);
}

function partitionMap({ nodeName }: Config, { storage }: Ledger): object[] {
  return storage.hosted().map(({ group, number, log: { tip, durable } }) => {
    return { group, partition: number, node: nodeName, epoch: tip.epoch, sequence: durable };
  });
}
