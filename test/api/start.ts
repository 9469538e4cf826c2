// Starts the real service in this process, on free ports and in a directory of its own, and gives a merchant's and an
// operator's view of it. Everything goes over real sockets.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/observability/log.ts';
import type { Demo } from '../../src/operator/demo.ts';
import { startStandalone } from '../../src/wiring/standalone.ts';
import { until } from '../until.ts';
import {
  assertHeadersMatchOpenApi,
  assertMatchesOpenApi,
  assertMatchesOperatorApi,
  type OpenApiDocument,
} from './openapi-check.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON; null when it is something else. */
  readonly body: any;
  readonly text: string;
}

export interface Running {
  readonly demo: Demo;
  readonly dataDir: string;
  /** As the demo merchant, or with another key. Throws when the answer is not what the OpenAPI document says. */
  merchant(method: string, path: string, options?: CallOptions): Promise<Answer>;
  operator(method: string, path: string, body?: object): Promise<Answer>;
  readonly until: typeof until;
  stop(): Promise<void>;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly key?: string | null;
  /** For creates; absent: a fresh one. */
  readonly idempotencyKey?: string;
  readonly headers?: Record<string, string>;
}

let keys = 0;

/** `environment` adds to RAILS=loopback on free ports. `dataDir`: one that stays; absent: one that goes with `stop`.
 *  `onLogLine`: gets what would go to stdout. */
export async function startService(
  environment: Record<string, string> = {},
  dataDir: string | null = null,
  onLogLine: ((line: string) => void) | null = null,
): Promise<Running> {
  const directory = dataDir ?? mkdtempSync(join(tmpdir(), 'daftari-'));
  const config = readConfig({
    PORT: '0',
    OPERATOR_PORT: '0',
    SIMULATOR_PORT: '0',
    RAILS: 'loopback',
    SIMULATOR_APPROVE_AFTER_MS: '50',
    PARTITIONS: '4',
    LOG_LEVEL: 'error',
    DATA_DIR: directory,
    ...environment,
  });
  const service = await startStandalone({
    config,
    log: createLog({
      level: config.logLevel,
      node: config.nodeName,
      ...(onLogLine === null ? {} : { stream: { write: onLogLine } }),
    }),
    onFailure: (error) => {
      throw error;
    },
  });
  const demo = service.demo!;
  let operatorApi: OpenApiDocument | null = null;

  return {
    demo,
    dataDir: directory,
    merchant: async (method, path, options = {}) => {
      const key = options.key === undefined ? demo.secret_key : options.key;
      const answer = await call(service.baseUrl + path, method, options.body, {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(method === 'POST' ? { 'idempotency-key': options.idempotencyKey ?? `test-key-${++keys}` } : {}),
        ...options.headers,
      });
      assertPromised(method, path, answer);
      return answer;
    },
    operator: async (method, path, body) => {
      const authorization = `Bearer ${service.operatorToken}`;
      const answer = await call(service.operatorUrl + path, method, body, { authorization });
      operatorApi ??= (await call(`${service.operatorUrl}/openapi.json`, 'GET', undefined, {})).body;
      assertMatchesOperatorApi(operatorApi!, method, path, body, answer);
      return answer;
    },
    until,
    async stop() {
      await service.stop();
      if (dataDir === null) await removeDirectory(directory);
    },
  };
}

/** What holds for every reply of `/v1`. */
function assertPromised(method: string, path: string, { status, headers, body }: Answer): void {
  const requestId = headers.get('request-id');
  if (requestId === null) throw new Error(`${method} ${path}: no Request-Id`);
  if (!path.startsWith('/v1/')) return;
  assertMatchesOpenApi(method, path, status, body);
  assertHeadersMatchOpenApi(method, path, status, headers);
  if (status >= 400 && body.error.request_id !== requestId) {
    throw new Error(`${method} ${path}: ${body.error.request_id} is not the request's id ${requestId}`);
  }
}

async function call(
  url: string,
  method: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: response.headers.get('content-type')?.includes('json') === true ? JSON.parse(text) : null,
    text,
  };
}
