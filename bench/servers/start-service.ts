// Starts the service as production starts it, `node src/main.ts`, over a data directory of the bench.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startChild } from './child.ts';
import { operatorApi, type OperatorApi } from './operator-api.ts';
import type { Server } from './server.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';

export interface ServiceOptions {
  readonly dataDir: string;
  /** Of the checkout whose service it is. */
  readonly checkout: string;
  readonly partitions: number;
  readonly env?: Readonly<Record<string, string>>;
  /** For Node itself: --cpu-prof. */
  readonly nodeArgs?: readonly string[];
  /** Kills it when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

export interface Service extends Server, OperatorApi {
  readonly baseUrl: string;
  /** From its start to its being ready to serve. */
  readonly readyMs: number;
}

const READY_MS = 1_800_000;

export async function startService(options: ServiceOptions): Promise<Service> {
  const { dataDir, checkout, partitions, env = {}, nodeArgs = [], signal } = options;
  const child = await startChild({
    command: process.execPath,
    args: [...nodeArgs, join(checkout, 'src/main.ts')],
    cwd: checkout,
    env: {
      ...ENVIRONMENT,
      PORT: '0',
      OPERATOR_PORT: '0',
      SIMULATOR_PORT: '0',
      RAILS: 'loopback',
      DEMO: 'false',
      PARTITIONS: String(partitions),
      CASH_OUT_PER_MINUTE: '100000',
      DATA_DIR: dataDir,
      ...env,
    },
    isReady: (line) => line.includes('"message":"ready"'),
    readyMs: READY_MS,
    signal,
  });
  const ready = JSON.parse(child.readyLine) as { baseUrl: string; operatorUrl: string };
  const { hostname, port } = new URL(ready.baseUrl);
  const token = readFileSync(join(dataDir, 'operator.token'), 'utf8').trim();
  const api = operatorApi(ready.operatorUrl, token);
  const metrics = (): ReturnType<typeof api.metrics> =>
    api.metrics().catch((error: unknown) => {
      const words = child.lastWords();
      throw words === null ? error : new Error(`the service ${words}`);
    });
  return {
    name: 'service',
    host: hostname,
    port: Number(port),
    baseUrl: ready.baseUrl,
    readyMs: child.readyMs,
    processes: [{ name: 'service', pid: child.pid }],
    ...api,
    metrics,
    readMetrics: metrics,
    stop: () => child.end(),
  };
}
