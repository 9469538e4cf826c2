// The operator surface on a real socket over a real log, without the parts that the operator API does not touch: no rails,
// no merchants' port. Restarts on the same data directory.

import { request as httpRequest } from 'node:http';
import type { RailHealth } from '../../actors/pollers/rail-lane.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { createServer } from '../../src/http/server.ts';
import { createHttpObserver } from '../../src/observability/http-observer.ts';
import { createLog } from '../../src/observability/log.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import type { OperatorContext } from '../../src/operator/context.ts';
import { operatorSurface } from '../../src/operator/surface.ts';
import { createSecrets } from '../../src/secrets.ts';
import { Storage } from '../../src/storage/storage.ts';
import { watchTransactions } from '../../src/wiring/metrics.ts';
import { assertMatchesOperatorApi, type OpenApiDocument } from './openapi-check.ts';

export const TOKEN = 'operator-token-of-the-tests';
const PARTITIONS = 4;
const LOOPBACK: RailHealth = {
  id: 'loopback',
  health: 'OPERATIONAL',
  breaker: 'closed',
  calling: 0,
  submitsWaiting: 0,
  enquiriesWaiting: 0,
  submits: 5,
  enquiries: 1,
  failures: 2,
  ourFaults: 2,
  lastFailure: 'HTTP 503',
  lastFailureAt: 0,
};

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The text as JSON; undefined when it is none. */
  readonly body: any;
}

export interface Operator {
  readonly context: OperatorContext;
  readonly bus: LocalBus;
  readonly port: number;
  /** As it is served. */
  readonly document: OpenApiDocument;
  /** Log lines so far. */
  readonly lines: readonly string[];
  /** `path`: below /operator/v1, or a whole one with "//" in front. `body` undefined: none. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>;
  /** Lets another process write a partition of accounts. */
  handOver(partition: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startOperator(directory: string): Promise<Operator> {
  const lines: string[] = [];
  const log = createLog({ level: 'debug', node: 'test', stream: { write: (line) => lines.push(line) } });
  const metrics = new Metrics();
  const storage = new Storage({
    directory,
    policies: {
      accounts: DEFAULT_POLICY,
      webhooks: { retryMs: [1_000], retentionMs: 32 * 86_400_000 },
    },
    observer: metrics,
    clock: Date.now,
    onFailure: (error) => {
      throw error;
    },
    onFlush: (flush) => metrics.flushed(flush),
    onDamage: (_group, _partition, error) => {
      throw error;
    },
  });
  watchTransactions(metrics, storage);
  const bus = new LocalBus({ accounts: PARTITIONS, webhooks: PARTITIONS, pollers: PARTITIONS, platform: 1 });
  const numbers = [...Array(PARTITIONS).keys()];
  const accounts = numbers.map((number) => ['accounts', number] as const);
  const webhooks = numbers.map((number) => ['webhooks', number] as const);
  for (const [group, number] of [...accounts, ...webhooks, ['platform', 0] as const]) {
    await storage.openPartition(group, number, { epoch: 1, replica: null, onFenced: null });
    bus.attach(group, number, storage.inbox(group, number));
  }
  const context: OperatorContext = {
    bus,
    log,
    secrets: createSecrets(Buffer.alloc(32, 5)),
    token: TOKEN,
    checkWebhookUrl: (url) => (url.startsWith('https://') ? null : 'must start with https://'),
    rails: () => [LOOPBACK],
    partitions: () => [{ group: 'accounts', partition: 0, node: 'here', epoch: 1, sequence: 3 }],
    raiseWriteFormat: async () => ({ type: 'refused', reason: 'Not every node reads format 2.' }),
    notReady: () => null,
    metrics: { text: () => metrics.text(), contentType: metrics.contentType },
  };
  const observer = createHttpObserver(metrics, log);
  const server = createServer({ surface: operatorSurface(context), bus, observer });
  const port = await server.listen('127.0.0.1', 0);
  const served = await send(port, 'GET', '//openapi.json', undefined, { authorization: '' });
  const document = served.body as OpenApiDocument;
  return {
    context,
    bus,
    port,
    document,
    lines,
    call: async (method, path, body, headers = {}) => {
      const reply = await send(port, method, path, body, headers);
      assertMatchesOperatorApi(document, method, wholeOf(path), body, reply);
      return reply;
    },
    handOver: (partition) => storage.closePartition('accounts', partition),
    stop: async () => {
      await server.stop();
      await storage.close();
    },
  };
}

function send(
  port: number,
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Reply> {
  const text = body === undefined ? null : JSON.stringify(body);
  const whole = wholeOf(path);
  const type = text === null ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port,
        method,
        path: whole,
        agent: false,
        headers: { authorization: `Bearer ${TOKEN}`, ...type, ...headers },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const received = Buffer.concat(chunks).toString();
          const status = response.statusCode ?? 0;
          resolve({ status, headers: response.headers, text: received, body: jsonOf(received) });
        });
      },
    );
    request.on('error', reject);
    request.end(text ?? undefined);
  });
}

function wholeOf(path: string): string {
  return path.startsWith('//') ? path.slice(1) : `/operator/v1${path}`;
}

function jsonOf(text: string): unknown {
  return text.startsWith('{') ? JSON.parse(text) : undefined;
}
