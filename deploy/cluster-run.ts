// Runs the cluster of `npm run cluster` until it is asked to stop: nats-servers, the simulator and the nodes.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, watch } from 'node:fs';
import { join } from 'node:path';
import { directory, clusterFile, readCluster, startFileOf, writeCluster } from './cluster-file.ts';
import type { ClusterFile } from './cluster-file.ts';
import { printMap } from './cluster-map.ts';
import { startNode, untilReady } from './cluster-processes.ts';
import type { ClusterSettings, NodeProcess } from './cluster-processes.ts';
import { openDemoMerchant } from './demo-merchant.ts';
import { ENVIRONMENT } from './environment.ts';
import { freePort } from './free-ports.ts';
import { NATS_SERVER_MISSING, startNatsServers } from './nats-servers.ts';
import type { NatsServers } from './nats-servers.ts';
import { isInstalled } from './server-path.ts';
import { StartedProcesses } from './started-processes.ts';
import { stopSignal } from './stop-signal.ts';
import { answerAt, waitFor } from './wait-for.ts';
import { writeWholeFile } from '../src/data-directory/whole-file.ts';
import { demoCurl } from '../src/operator/demo.ts';
import { aliveIn } from '../wal/process-mark.ts';
import { messageOf } from '../wal/thrown.ts';
import { WriterLock } from '../wal/writer-lock.ts';

const NODES: readonly (readonly [name: string, roles: string])[] = [
  ['front1', 'front'],
  ['front2', 'front'],
  ['ledger1', 'ledger'],
  ['ledger2', 'ledger'],
  ['ledger3', 'ledger'],
  ['webhooks1', 'webhooks'],
  ['webhooks2', 'webhooks'],
  ['poller1', 'poller'],
  ['poller2', 'poller'],
];

const root = join(import.meta.dirname, '..');
const processes = new StartedProcesses(directory);

/** Resolves with an exit status. */
export async function run(): Promise<number> {
  if (!isInstalled('nats-server')) {
    console.error(NATS_SERVER_MISSING);
    return 1;
  }
  if (readCluster() !== null) {
    console.error(`A cluster runs in ${directory} already (npm run cluster -- map).`);
    return 1;
  }
  const stop = stopSignal();
  const started: Started = { lock: null, nats: null, simulator: null, nodes: [] };
  try {
    await serve(started, stop);
    console.log('Stopping …');
    return 0;
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  } finally {
    await stopAll(started);
  }
}

/** Whatever ends this, all of it is stopped: what ran on would write to the directory beside the next start. */
interface Started {
  /** Of two that start at once only one has it. */
  lock: WriterLock | null;
  nats: NatsServers | null;
  simulator: ChildProcess | null;
  readonly nodes: NodeProcess[];
}

/** Until it is asked to stop. */
async function serve(started: Started, stop: AbortSignal): Promise<void> {
  const stopped = once(stop, 'abort');
  started.lock = WriterLock.take(directory);
  processes.begin();
  const secrets = secretsOf(directory);
  const nats = await startNatsServers({
    count: 3,
    directory: join(directory, 'nats'),
    detached: true,
    onStart: (name, pid) => processes.note(`nats-server ${name}`, pid),
  });
  started.nats = nats;
  const simulator = startSimulator(await freePort());
  started.simulator = simulator.child;
  processes.note('simulator', simulator.child.pid);
  await simulator.listening;
  const frontPort = await freePort();
  const settings: ClusterSettings = {
    natsUrl: nats.url,
    directory,
    ...secrets,
    detached: true,
    environment: {
      NATS_REPLICAS: '3',
      PARTITIONS: process.env['PARTITIONS'] || '16',
      RAILS: 'simulator',
      SIMULATOR_URL: simulator.url,
      CALLBACK_BASE_URL: `http://127.0.0.1:${frontPort}`,
      WEBHOOK_ALLOW_PRIVATE: 'true',
    },
  };
  const start = (name: string, roles: string): Promise<NodeProcess> =>
    startNode(settings, name, roles, name === 'front1' ? { PORT: String(frontPort) } : {});
  const { nodes } = started;
  for (const [name, roles] of NODES) {
    const node = await start(name, roles);
    nodes.push(node);
    processes.note(name, node.pid);
  }
  const save = (): ClusterFile => writeCluster(settings, nats, simulator.url, nodes);
  const cluster = save();
  const noteEnd = (node: NodeProcess): void => void noted(node, stop, save);
  nodes.forEach(noteEnd);
  // Of an earlier cluster: a node that is drained would start again at once.
  for (const { name } of nodes) rmSync(startFileOf(name), { force: true });
  await Promise.race([untilReady(nodes), stopped]);
  if (stop.aborted) return;
  await Promise.race([greet(cluster), stopped]);
  if (stop.aborted) return;
  let starts = Promise.resolve();
  const lookForWanted = (): void => {
    // Who asked for one that does not start sees that it does not run; all others go on.
    starts = starts.then(() => startWanted(nodes, start, save, noteEnd));
  };
  const watcher = watch(directory, lookForWanted);
  // What was asked for before.
  lookForWanted();
  await stopped;
  watcher.close();
  // One that starts just now is to be stopped, too.
  await starts;
}

/** How it ended, for who asked for it, and for the map. */
async function noted(node: NodeProcess, stop: AbortSignal, save: () => void): Promise<void> {
  const status = await node.exited();
  if (stop.aborted) return;
  if (status !== 0) console.error(`${node.name} has ended with ${status} (${node.logFile}).`);
  try {
    save();
  } catch (error) {
    console.error(messageOf(error));
  }
}

async function greet(cluster: ClusterFile): Promise<void> {
  await printMap(cluster);
  const [front] = cluster.nodes;
  if (front === undefined) return;
  const merchant = await openDemoMerchant(directory, {
    base_url: front.baseUrl,
    operator_url: front.operatorUrl,
    operator_token: cluster.operatorToken,
    simulator_url: cluster.simulatorUrl,
  });
  console.log(`\nCreate a charge:\n\n  ${demoCurl(merchant)}\n\nCtrl-C stops the cluster.`);
}

/** One that stands still (SIGSTOP) hears of the first when it goes on. */
const TO_END = ['SIGTERM', 'SIGCONT'] as const;

/** Fronts first: what they took is finished before what serves them goes. */
async function stopAll({ lock, nodes, nats, simulator }: Started): Promise<void> {
  const running = nodes.filter((each) => each.exitStatus() === null);
  for (const isFront of [true, false]) {
    const part = running.filter(({ roles }) => (roles === 'front') === isFront);
    for (const each of part) for (const signal of TO_END) each.signal(signal);
    await Promise.all(part.map((each) => each.exited()));
  }
  for (const signal of TO_END) simulator?.kill(signal);
  await nats?.stop();
  if (nodes.length > 0) rmSync(clusterFile, { force: true });
  lock?.release();
}

/** Those that another invocation wants started, one after the other. */
async function startWanted(
  nodes: NodeProcess[],
  start: (name: string, roles: string) => Promise<NodeProcess>,
  save: () => void,
  noteEnd: (node: NodeProcess) => void,
): Promise<void> {
  for (const [index, { name, roles, mark }] of nodes.entries()) {
    if (!existsSync(startFileOf(name))) continue;
    try {
      rmSync(startFileOf(name), { force: true });
      if (aliveIn(mark) !== null) continue;
      const node = await start(name, roles);
      nodes[index] = node;
      processes.note(name, node.pid);
      save();
      noteEnd(node);
      console.log(`${name} starts again.`);
    } catch (error) {
      console.error(messageOf(error));
    }
  }
}

function startSimulator(port: number): { url: string; child: ChildProcess; listening: Promise<void> } {
  const child = spawn(process.execPath, [join(root, 'src/rails/simulator/main.ts')], {
    cwd: root,
    detached: true,
    stdio: 'ignore',
    env: { ...ENVIRONMENT, SIMULATOR_PORT: String(port) },
  });
  // As what writes to a file (startWriting).
  child.on('error', (error) => console.error(error.message));
  const url = `http://127.0.0.1:${port}`;
  const listening = waitFor('the simulator listens', 20_000, async () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the simulator has ended');
    return (await answerAt(url)) !== null;
  });
  return { url, child, listening };
}

/** Made once: what is sealed in the logs must be opened after a restart. */
function secretsOf(path: string): { operatorToken: string; masterKey: string } {
  const file = join(path, 'secrets.json');
  if (!existsSync(file)) {
    const made = {
      operatorToken: randomBytes(18).toString('base64url'),
      masterKey: randomBytes(32).toString('hex'),
    };
    writeWholeFile(file, JSON.stringify(made));
  }
  return JSON.parse(readFileSync(file, 'utf8')) as { operatorToken: string; masterKey: string };
}
