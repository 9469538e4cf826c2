// Starts real nats-servers with JetStream on free loopback ports, for tests and for `npm run cluster`. They keep their
// data in a directory that is removed at the end, unless one was given.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { appendFile, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from './free-ports.ts';
import { isInstalled, withServers } from './server-path.ts';
import { answerAt, waitFor } from './wait-for.ts';

/** `all`: its streams, too. `member` of several: not them, of which under load one or another is behind at nearly every look. */
type Ready = 'all' | 'member';

export interface NatsServers {
  /** Comma-separated, as NATS_URL. */
  readonly url: string;
  readonly urls: readonly string[];
  readonly monitorUrls: readonly string[];
  readonly pids: () => readonly (number | undefined)[];
  kill(index: number, signal: NodeJS.Signals): Promise<void>;
  /** Resolves when it is ready again. Default: `all`. */
  restart(index: number, until?: Ready): Promise<void>;
  stop(): Promise<void>;
}

interface NatsServersOptions {
  readonly count?: 1 | 3;
  /** Kept when given. */
  readonly directory?: string;
  /** As ClusterSettings.detached. */
  readonly detached?: boolean;
  readonly onStart?: (name: string, pid: number | undefined) => void;
  /** Added to every server's configuration. */
  readonly configuration?: string;
}

export const NATS_SERVER_MISSING =
  'nats-server is not installed. Install it with: apt-get update && apt-get install -y nats-server';

export async function startNatsServers(options: NatsServersOptions = {}): Promise<NatsServers> {
  if (!isInstalled('nats-server')) throw new Error(NATS_SERVER_MISSING);
  const count = options.count ?? 1;
  const root = options.directory ?? mkdtempSync(join(tmpdir(), 'daftari-nats-'));
  const ports = await freePorts(count * 3);
  const client = (i: number): number => ports[i * 3]!;
  const monitor = (i: number): number => ports[i * 3 + 1]!;
  const route = (i: number): number => ports[i * 3 + 2]!;
  const routes = Array.from({ length: count }, (_, i) => `nats://127.0.0.1:${route(i)}`).join(', ');
  const children: (ChildProcess | undefined)[] = [];

  const start = (i: number): void => {
    const directory = join(root, `n${i + 1}`);
    mkdirSync(directory, { recursive: true });
    const file = join(directory, 'server.conf');
    writeFileSync(
      file,
      `server_name: n${i + 1}
host: 127.0.0.1
port: ${client(i)}
http: 127.0.0.1:${monitor(i)}
jetstream { store_dir: "${directory}", max_mem: 256MB, max_file: 8GB }
${count === 1 ? '' : `cluster { name: daftari, host: 127.0.0.1, port: ${route(i)}, routes: [${routes}] }`}
${options.configuration ?? ''}
`,
    );
    children[i] = startWriting(join(directory, 'server.log'), (log) =>
      spawn('nats-server', ['-c', file], {
        detached: options.detached ?? false,
        stdio: ['ignore', log, log],
        env: withServers(),
      }),
    );
    options.onStart?.(`n${i + 1}`, children[i]?.pid);
  };

  const monitorUrls = Array.from({ length: count }, (_, i) => `http://127.0.0.1:${monitor(i)}`);
  const untilReady = (i: number, until: Ready = 'all'): Promise<void> =>
    ready(monitorUrls[i]!, count, children[i]!, until);
  const stop = async (): Promise<void> => {
    await Promise.all(
      children.map(async (child) => {
        if (child === undefined) return;
        child.kill('SIGCONT');
        child.kill('SIGKILL');
        await exitOf(child);
      }),
    );
    if (options.directory === undefined) rmSync(root, { recursive: true, force: true });
  };

  try {
    for (let i = 0; i < count; i++) start(i);
    await Promise.all(children.map((_, i) => untilReady(i)));
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    url: Array.from({ length: count }, (_, i) => `nats://127.0.0.1:${client(i)}`).join(','),
    urls: Array.from({ length: count }, (_, i) => `nats://127.0.0.1:${client(i)}`),
    monitorUrls,
    pids: () => children.map((child) => child?.pid),
    async kill(index, signal) {
      const child = children[index];
      child?.kill(signal);
      if (child !== undefined && signal !== 'SIGSTOP' && signal !== 'SIGCONT') await exitOf(child);
    },
    async restart(index, until) {
      start(index);
      await untilReady(index, until);
    },
    stop,
  };
}

/** Ready: the server answers, JetStream is enabled, and with several the meta group has a leader that knows all. */
async function ready(monitorUrl: string, count: number, child: ChildProcess, until: Ready): Promise<void> {
  const asked = until === 'all' ? 'healthz' : 'healthz?js-server-only=true';
  await waitFor(`nats-server at ${monitorUrl} is ready`, 30_000, async () => {
    if (hasExited(child)) throw new Error(`nats-server at ${monitorUrl} has ended`);
    const health = await answerAt(`${monitorUrl}/${asked}`);
    if (health?.status !== 200) return false;
    if (count === 1) return true;
    const answer = await answerAt(`${monitorUrl}/jsz`);
    if (answer === null) return false;
    const jsz = JSON.parse(answer.text) as { meta_cluster?: { leader?: string; cluster_size?: number } };
    return jsz.meta_cluster?.leader !== undefined && jsz.meta_cluster.cluster_size === count;
  });
}

/** What `start` gives `output` to has it for itself: here it is closed, for many may be started one after the other. */
export function startWriting(file: string, start: (output: number) => ChildProcess): ChildProcess {
  const output = openSync(file, 'a');
  try {
    const child = start(output);
    // It could not be started. Heard of by nobody, that would end this process, and what it has started would run on.
    child.on('error', ({ message }) => appendFile(file, `${message}\n`, () => {}));
    return child;
  } finally {
    closeSync(output);
  }
}

/** Resolves with its exit status, below 0 where it could not be started, or the name of the signal that ended it. */
export function exitOf(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (hasExited(child)) resolve(child.exitCode ?? child.signalCode ?? 'unknown');
    };
    child.once('exit', look).once('error', look);
    look();
  });
}

function hasExited({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
