// The processes of a small cluster on one machine: nodes as `node src/main.ts`, as they run in production, on free
// loopback ports. For `npm run cluster` and for the tests.

import { spawn } from 'node:child_process';
import { closeSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS } from '../src/limits.ts';
import { freePorts } from './free-ports.ts';
import { exitOf, startWriting } from './nats-servers.ts';
import { nextLook } from './wait-for.ts';
import { ENVIRONMENT } from './environment.ts';
import { markOf } from '../wal/process-mark.ts';

/** A node that is asked to stop has ended by then: it hands over, and all that it serves waits for its own. */
export const STOP_MS_MAX = 177_000;

export interface ClusterSettings {
  readonly natsUrl: string;
  /** Each node keeps its data and its log in a folder of its own here. */
  readonly directory: string;
  readonly operatorToken: string;
  /** Hex. */
  readonly masterKey: string;
  /** Whose nodes they are; absent: this one. */
  readonly checkout?: string;
  /** For Node itself. */
  readonly nodeArgs?: readonly string[];
  /** In process groups of their own: Ctrl-C at a terminal asks who has started them alone, which stops them in their order. */
  readonly detached?: boolean;
  /** Added to every node's environment. */
  readonly environment?: Readonly<Record<string, string>>;
}

export interface NodeProcess {
  readonly name: string;
  readonly roles: string;
  /** Fronts serve merchants here. */
  readonly baseUrl: string;
  readonly operatorUrl: string;
  readonly logFile: string;
  readonly dataDir: string;
  readonly pid: number;
  /** By which other processes know it (wal/process-mark.ts). */
  readonly mark: string;
  /** Null while it runs. */
  exitStatus(): number | string | null;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with the exit status, or the name of the signal that ended it. */
  exited(): Promise<number | string>;
}

const here = join(import.meta.dirname, '..');

export async function startNode(
  settings: ClusterSettings,
  name: string,
  roles: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<NodeProcess> {
  const [port, operatorPort] = await freePorts(2);
  const directory = join(settings.directory, name);
  const dataDir = environment['DATA_DIR'] ?? join(directory, 'data');
  mkdirSync(directory, { recursive: true });
  const logFile = join(directory, 'node.log');
  const checkout = settings.checkout ?? here;
  const child = startWriting(logFile, (output) =>
    spawn(process.execPath, [...(settings.nodeArgs ?? []), join(checkout, 'src/main.ts')], {
      cwd: checkout,
      detached: settings.detached ?? false,
      stdio: ['ignore', output, output],
      env: {
        ...ENVIRONMENT,
        NODE_NAME: name,
        ROLES: roles,
        NATS_URL: settings.natsUrl,
        DATA_DIR: dataDir,
        OPERATOR_TOKEN: settings.operatorToken,
        MASTER_KEY: settings.masterKey,
        PORT: String(port),
        OPERATOR_PORT: String(operatorPort),
        RAILS: 'loopback',
        ...settings.environment,
        ...environment,
      },
    }),
  );
  return {
    name,
    roles,
    baseUrl: `http://127.0.0.1:${environment['PORT'] ?? port}`,
    operatorUrl: `http://127.0.0.1:${operatorPort}`,
    logFile,
    dataDir,
    pid: child.pid ?? 0,
    mark: markOf(child.pid ?? 0),
    exitStatus: () => child.exitCode ?? child.signalCode,
    signal: (signal) => {
      child.kill(signal);
    },
    exited: () => exitOf(child),
  };
}

/** Of a node that somebody may have started in another process. */
interface AwaitedNode extends Pick<NodeProcess, 'name' | 'operatorUrl' | 'logFile'> {
  exitStatus(): ReturnType<NodeProcess['exitStatus']> | Promise<number | string>;
}

/** Resolves when every node says that it can serve. Rejects when one has ended, or says why it cannot for too long. */
export async function untilReady(nodes: readonly AwaitedNode[], timeoutMs = 60_000): Promise<void> {
  const since = performance.now();
  for (;;) {
    for (const node of nodes) {
      const status = await node.exitStatus();
      if (status !== null) throw new Error(`${node.name} has ended with ${status}: ${lastWords(node)}`);
    }
    const reasons = await Promise.all(nodes.map(whyNotReady));
    const waiting = nodes.flatMap(({ name }, index) =>
      reasons[index] === null ? [] : `${name}: ${reasons[index]}`,
    );
    const first = nodes.find((_, index) => reasons[index] !== null);
    if (first === undefined) return;
    if (performance.now() > since + timeoutMs) {
      throw new Error(`not ready within ${timeoutMs} ms: ${waiting.join('; ')}\n${lastWords(first)}`);
    }
    await nextLook(since);
  }
}

/** What its log ends with, and where the rest is. */
export function lastWords({ logFile }: Pick<NodeProcess, 'logFile'>): string {
  return `${endOf(logFile).trimEnd().slice(-LIMITS.lastWordsMax)}\n(${logFile})`;
}

/** Enough for so many characters: all of it may be more than fits a text. */
function endOf(path: string): string {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const bytes = Buffer.alloc(Math.min(size, 4 * LIMITS.lastWordsMax));
    return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, size - bytes.length));
  } finally {
    closeSync(file);
  }
}

/** What it says itself, or why it says nothing; null: it is ready. */
export async function whyNotReady({ operatorUrl }: Pick<NodeProcess, 'operatorUrl'>): Promise<string | null> {
  try {
    const answer = await fetch(`${operatorUrl}/readyz`, { signal: AbortSignal.timeout(1_000) });
    return answer.status === 200 ? null : await answer.text();
  } catch (error) {
    return String(error);
  }
}
