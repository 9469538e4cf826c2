// Starts a small real cluster on this machine, with the processes that deploy/ starts: nats-servers, fronts, and ledger
// nodes that also deliver and poll. Its merchants are made over the operator API, as in life.

import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startNode, untilReady, type NodeProcess } from '../../deploy/cluster-processes.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { severalAtOnce } from '../../src/several-at-once.ts';
import { operatorApi, type OperatorApi } from './operator-api.ts';
import type { Service } from './start-service.ts';

export interface ClusterOptions {
  readonly directory: string;
  readonly natsServers: 1 | 3;
  readonly ledgers: number;
  /** Of the checkout whose nodes they are. */
  readonly checkout: string;
  readonly partitions: number;
  readonly accounts: number;
  /** For Node itself, of every node. */
  readonly nodeArgs: readonly string[];
  /** Kills its nodes when it is aborted. */
  readonly signal: AbortSignal | undefined;
}

export interface Cluster extends Service {
  readonly keysFile: string;
  readonly ledgers: readonly NodeProcess[];
}

const SECRET_BYTES = 32;
const AT_ONCE = 8;

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { directory, checkout, natsServers, nodeArgs, partitions, signal } = options;
  mkdirSync(directory, { recursive: true });
  const startedAt = performance.now();
  const nats = await startNatsServers({
    count: natsServers,
    directory: join(directory, 'nats'),
  });
  const operatorToken = randomBytes(SECRET_BYTES).toString('hex');
  const settings = {
    natsUrl: nats.url,
    directory,
    checkout,
    nodeArgs,
    operatorToken,
    masterKey: randomBytes(SECRET_BYTES).toString('hex'),
    environment: {
      NATS_REPLICAS: String(natsServers),
      PARTITIONS: String(partitions),
      RAILS: 'loopback',
      CASH_OUT_PER_MINUTE: '100000',
    },
  };
  const nodes: NodeProcess[] = [];
  const kill = (): void => {
    for (const node of nodes) node.signal('SIGKILL');
  };
  signal?.addEventListener('abort', kill);
  const stop = async (): Promise<void> => {
    signal?.removeEventListener('abort', kill);
    for (const node of nodes) if (node.exitStatus() === null) node.signal('SIGTERM');
    await Promise.all(nodes.map((node) => node.exited()));
    await nats.stop();
  };
  try {
    signal?.throwIfAborted();
    const names = Array.from({ length: options.ledgers }, (_, n) => `ledger${n + 1}`);
    const front = await startNode(settings, 'front1', 'front');
    nodes.push(front);
    for (const name of names) nodes.push(await startNode(settings, name, 'ledger,webhooks,poller'));
    await untilReady(nodes);
    const { hostname, port } = new URL(front.baseUrl);
    const ledgers = nodes.slice(1);
    const api = operatorApi(front.operatorUrl, operatorToken);
    const keysFile = join(directory, 'keys');
    const logs = ledgers.map(({ operatorUrl }) => operatorApi(operatorUrl, operatorToken));
    writeFileSync(keysFile, `${(await makeMerchants(api, options.accounts)).join('\n')}\n`);
    return {
      name: 'cluster',
      host: hostname,
      port: Number(port),
      baseUrl: front.baseUrl,
      readyMs: performance.now() - startedAt,
      keysFile,
      ledgers,
      get processes() {
        return [
          ...nodes.map(({ roles, pid }) => ({ name: roles === 'front' ? 'front' : 'ledger', pid })),
          ...nats.pids().flatMap((pid) => (pid === undefined ? [] : [{ name: 'nats-server', pid }])),
        ];
      },
      ...api,
      readMetrics: async () => (await Promise.all(logs.map((log) => log.metrics()))).flat(),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function makeMerchants(api: OperatorApi, count: number): Promise<string[]> {
  const keys: string[] = [];
  const names = Array.from({ length: count }, (_, number) => `Bench ${number}`);
  await severalAtOnce(AT_ONCE, names, async (name) => {
    const account = { name, country: 'UG', live: true, payouts_enabled: true };
    const { id } = (await api.operator('POST', '/accounts', account)) as { id: string };
    const app = { name: 'Bench', domain: 'bench.test' };
    const made = (await api.operator('POST', `/accounts/${id}/apps`, app)) as { secret_key: string };
    keys.push(made.secret_key);
  });
  return keys;
}
