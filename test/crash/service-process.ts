// The service as a child process: started, killed, started again over the same data directory.

import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Demo } from '../../src/operator/demo.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';

export interface ServiceProcess {
  readonly demo: Demo;
  readonly pid: number;
  /** True when it has ended. */
  readonly gone: boolean;
  /** Its last lines. */
  readonly printed: readonly string[];
  /** Its exit status, when it ends by itself or otherwise; null when a signal ended it. */
  readonly ended: Promise<number | null>;
  /** Ends it with the signal; resolves with its exit status, null when a signal ended it. */
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>;
}

const READY_MS = 90_000;

/** Resolves when the process says that it is ready; rejects with what it printed when it ends before. `openFiles`: at once; 0: as many as
 *  this process. */
export async function startProcess(
  dataDir: string,
  environment: Record<string, string> = {},
  openFiles = 0,
): Promise<ServiceProcess> {
  const shell = openFiles === 0 ? [] : ['sh', '-c', 'ulimit -n "$0"; exec "$@"', String(openFiles)];
  const [program, ...args] = [...shell, process.execPath, 'src/main.ts'];
  const child = spawn(program, args, {
    env: environmentOf(dataDir, {
      PARTITIONS: '4',
      SIMULATOR_APPROVE_AFTER_MS: '20',
      CASH_OUT_PER_MINUTE: '100000',
      ...environment,
    }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', (status) => resolve(status)));
  const printed: string[] = [];
  await untilReady(child, printed);
  return {
    demo: JSON.parse(readFileSync(join(dataDir, 'demo.json'), 'utf8')) as Demo,
    pid: child.pid!,
    get gone() {
      return child.exitCode !== null || child.signalCode !== null;
    },
    ended: exited,
    printed,
    end: (signal) => {
      child.kill(signal);
      return exited;
    },
  };
}

function untilReady(child: ChildProcess, printed: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const give = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`not ready after ${READY_MS} ms:\n${printed.join('\n')}`));
    }, READY_MS);
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on('line', (line) => {
        printed.push(line);
        if (printed.length > 1_000) printed.shift();
        if (line.includes('"message":"ready"')) {
          clearTimeout(give);
          resolve();
        }
      });
    }
    child.once('exit', () => {
      clearTimeout(give);
      reject(new Error(`ended before it was ready:\n${printed.join('\n')}`));
    });
  });
}

/** Of a service over `dataDir` on ports of its own, with `more` settings. */
export function environmentOf(dataDir: string, more: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return {
    ...ENVIRONMENT,
    PORT: '0',
    OPERATOR_PORT: '0',
    SIMULATOR_PORT: '0',
    RAILS: 'loopback',
    DATA_DIR: dataDir,
    ...more,
  };
}

/** As the demo merchant, under an idempotency key. */
export function post({ demo }: ServiceProcess, path: string, key: string, body: string): Promise<Response> {
  return fetch(demo.base_url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${demo.secret_key}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    },
    body,
  });
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** It is the first answer to this key once more. */
  readonly replayed: boolean;
}

/** `post`, with the answer read to its end. */
export async function answerTo(
  service: ServiceProcess,
  path: string,
  key: string,
  body: string,
): Promise<Answer> {
  const response = await post(service, path, key, body);
  const replayed = response.headers.get('idempotent-replayed') === 'true';
  return { status: response.status, text: await response.text(), replayed };
}

export function get({ demo }: ServiceProcess, path: string): Promise<Response> {
  return fetch(demo.base_url + path, { headers: { authorization: `Bearer ${demo.secret_key}` } });
}
