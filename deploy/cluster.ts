// `npm run cluster`: a small real cluster on this machine, for development and for trying what happens when parts of it go.
// Data is in ./data/cluster; a second start goes on where the first ended.

import { existsSync, readFileSync, rmSync, watch } from 'node:fs';
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { lastWords, startNode, STOP_MS_MAX, untilReady } from './cluster-processes.ts';
import type { ClusterSettings, NodeProcess } from './cluster-processes.ts';
import { openDemoMerchant } from './demo-merchant.ts';
import { freePort } from './free-ports.ts';
import { StartedProcesses } from './started-processes.ts';
import { NATS_SERVER_MISSING, startNatsServers } from './nats-servers.ts';
import { waitFor, waitForValue } from './wait-for.ts';
import type { NatsServers } from './nats-servers.ts';
import { linkForOperator, natsOf } from './operator-link.ts';
import type { Nats } from './operator-link.ts';
import { isInstalled } from './server-path.ts';
import { stopSignal } from './stop-signal.ts';
import { streamTools } from './stream-tools.ts';
import { upgrade } from './upgrade.ts';
import type { NatsLink } from '../src/nats/connection.ts';
import { endBySignals } from '../src/end-process.ts';
import { demoCurl } from '../src/operator/demo.ts';
import { aliveIn, ownMark } from '../wal/process-mark.ts';
import { messageOf } from '../wal/thrown.ts';
import { WriterLock } from '../wal/writer-lock.ts';
import { writeWholeFile } from '../src/data-directory/whole-file.ts';
import { ownTerminal, runTools, UsageError } from '../wal/tools/tool.ts';
import { ENVIRONMENT } from './environment.ts';

/** What other invocations need to know of the running one. */
interface ClusterFile {
  /** Of the process that runs it, as wal/process-mark.ts has it. Absent: in the file of a version from before. */
  readonly mark?: string;
  readonly operatorToken: string;
  readonly natsUrls: readonly string[];
  readonly simulatorUrl: string;
  readonly nodes: readonly {
    readonly name: string;
    readonly roles: string;
    readonly mark: string;
    /** Its exit status, or the signal that ended it; null: it runs. Absent: as `mark` above. */
    readonly ended?: number | string | null;
    readonly baseUrl: string;
    readonly operatorUrl: string;
  }[];
}

type ClusterNode = ClusterFile['nodes'][number];

const USAGE = `npm run cluster                    starts a small real cluster on this machine, prints its map, stops it on Ctrl-C
npm run cluster -- drain <node>    has a node of the running cluster hand over what it has, and stops it
npm run cluster -- start <node>    starts it again
npm run cluster -- map             prints the map again
npm run cluster -- upgrade         has it write the newest format that all nodes read
npm run cluster -- archive --help  copies what is old from the streams to an archive
npm run cluster -- trim --help     removes from the streams what is archived and needed by nobody
npm run cluster -- put-back --help gives streams that were lost, or purged empty, a node's log back

CLUSTER_DIR   where its data is (data/cluster)
PARTITIONS    of a new cluster (16)
NATS_URL      for upgrade, archive, trim and put-back: the NATS of another cluster, with NATS_CA_FILE and the like as nodes have them

It needs nats-server on the path. Exit status: 0 done, 1 failed, 2 wrongly asked.`;

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

/** How long a node may take to say who has what, and to be noted as ended once it has. */
const MAP_MS = 2_000;
const NOTED_MS = 10_000;

const root = join(import.meta.dirname, '..');
const directory = resolve(process.env['CLUSTER_DIR'] || 'data/cluster');
const NONE_RUNS = `No cluster runs in ${directory}. Start one with: npm run cluster`;
const NO_NATS = `No cluster runs in ${directory}. For another one set NATS_URL, and NATS_CA_FILE where its NATS has TLS`;
const clusterFile = join(directory, 'cluster.json');
/** Of each node one: of two that are asked for at once neither is forgotten. */
const startFileOf = (name: string): string => join(directory, `start-${name}`);
/** That of any node, for who runs a cluster since before 2026-11-27. */
const oldStartFile = join(directory, 'start');
const processes = new StartedProcesses(directory);
/** From the start on: whoever reads no further ends neither a command nor the cluster. */
const terminal = ownTerminal();

process.exitCode = await obey(process.argv.slice(2));

async function obey(args: readonly string[]): Promise<number> {
  const [command = 'run', ...words] = args;
  if (command !== 'run') endBySignals();
  if (['archive', 'trim', 'put-back'].includes(command)) {
    return runTools('npm run cluster --', streamTools(connect), args, terminal);
  }
  if ([command, ...words].some((word) => word === '--help' || word === '-h')) {
    console.log(USAGE);
    return 0;
  }
  const [node, ...more] = words;
  const act = actOf(command, node);
  if (act === null) return wronglyAsked(`There is no "${command}".`);
  // Nothing is done before every word is understood: an upgrade cannot be taken back.
  const unknown = command === 'drain' || command === 'start' ? more[0] : node;
  return unknown === undefined ? told(command, act) : wronglyAsked(`${command} takes no "${unknown}".`);
}

/** Why it could not be done is told in a line. */
async function told(command: string, act: () => Promise<number>): Promise<number> {
  try {
    return await act();
  } catch (error) {
    console.error(`${command}: ${messageOf(error)}`);
    return 1;
  }
}

/** Null: there is no such command. */
function actOf(command: string, node: string | undefined): (() => Promise<number>) | null {
  switch (command) {
    case 'run':
      return run;
    case 'map':
      return () => withRunning(printMap);
    case 'drain':
      return () => withRunning((cluster) => drain(cluster, node));
    case 'start':
      return () => withRunning((cluster) => startAgain(cluster, node));
    case 'upgrade':
      return upgradeCluster;
    default:
      return null;
  }
}

function wronglyAsked(problem: string): number {
  console.error(`${problem}\n\n${USAGE}`);
  return 2;
}

async function run(): Promise<number> {
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
  await greet(cluster);
  let starts = Promise.resolve();
  const watcher = watch(directory, () => {
    // Who asked for one that does not start sees that it does not run; all others go on.
    starts = starts.then(() => startWanted(nodes, start, save, noteEnd));
  });
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

/** Fronts first: what they took is finished before what serves them goes. */
async function stopAll({ lock, nodes, nats, simulator }: Started): Promise<void> {
  const running = nodes.filter((each) => each.exitStatus() === null);
  for (const isFront of [true, false]) {
    const part = running.filter(({ roles }) => (roles === 'front') === isFront);
    for (const each of part) each.signal('SIGTERM');
    await Promise.all(part.map((each) => each.exited()));
  }
  simulator?.kill('SIGTERM');
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

async function drain(cluster: ClusterFile, name: string | undefined): Promise<number> {
  const target = cluster.nodes.find((each) => each.name === name);
  const pid = target === undefined ? null : aliveIn(target.mark);
  if (target === undefined || pid === null) {
    const running = cluster.nodes.filter(({ mark }) => aliveIn(mark) !== null).map((each) => each.name);
    console.error(`No running node "${name ?? ''}". Running: ${running.join(', ')}`);
    return 2;
  }
  const startedAt = performance.now();
  process.kill(Number(pid), 'SIGTERM');
  await waitFor(`${target.name} has ended`, STOP_MS_MAX, () => aliveIn(target.mark) === null);
  const elapsedMs = Math.round(performance.now() - startedAt);
  const status = await endOf(target);
  if (status !== 0) {
    throw new Error(
      `${target.name} ended with ${status}, before it had handed over all that it had: ${lastWords({ logFile: logFileOf(target) })}`,
    );
  }
  console.log(`${target.name} has handed over and ended, after ${elapsedMs} ms.`);
  await printMap(readCluster() ?? cluster);
  return 0;
}

/** Of a process that has ended: as who started it saw it. */
async function endOf({ name, mark }: ClusterNode): Promise<number | string> {
  return waitForValue(
    `${name} is noted as ended`,
    NOTED_MS,
    () => readCluster()?.nodes.find((each) => each.mark === mark)?.ended ?? undefined,
  );
}

function logFileOf({ name }: ClusterNode): string {
  return join(directory, name, 'node.log');
}

async function startAgain(cluster: ClusterFile, name: string | undefined): Promise<number> {
  const target = cluster.nodes.find((each) => each.name === name);
  if (target === undefined || aliveIn(target.mark) !== null) {
    console.error(`"${name ?? ''}" is not a node that has ended.`);
    return 2;
  }
  const node = await wanted(target);
  const exitStatus = () => (aliveIn(node.mark) === null ? endOf(node) : null);
  await untilReady([{ ...node, logFile: logFileOf(node), exitStatus }]);
  console.log(`${target.name} runs again.`);
  return 0;
}

/** Resolves with it as whoever runs the cluster has started it. */
async function wanted({ name, mark }: ClusterNode): Promise<ClusterNode> {
  writeWholeFile(startFileOf(name), '');
  writeWholeFile(oldStartFile, name);
  try {
    return await waitForValue(`${name} runs`, 30_000, () =>
      readCluster()?.nodes.find((each) => each.name === name && each.mark !== mark),
    );
  } finally {
    rmSync(startFileOf(name), { force: true });
    rmSync(oldStartFile, { force: true });
  }
}

async function upgradeCluster(): Promise<number> {
  const nats = natsOfCluster();
  if (nats === null) return noneRuns(NO_NATS);
  return report(await upgrade(nats, console.error));
}

async function connect(): Promise<NatsLink> {
  const nats = natsOfCluster();
  if (nats === null) throw new UsageError(NO_NATS);
  return linkForOperator('streams', nats, console.error);
}

/** Of the cluster that NATS_URL names, otherwise of the one on this machine; null: none runs here. */
function natsOfCluster(): Nats | null {
  const running = readCluster();
  return natsOf(process.env) ?? (running === null ? null : { url: running.natsUrls.join(',') });
}

function report({ done, said }: { done: boolean; said: string }): number {
  console.log(said);
  return done ? 0 : 1;
}

async function printMap(cluster: ClusterFile): Promise<number> {
  console.log(`\nNATS        ${cluster.natsUrls.join('  ')}`);
  console.log(`simulator   ${cluster.simulatorUrl}`);
  for (const node of cluster.nodes) {
    const { name, roles, baseUrl, operatorUrl } = node;
    const merchants = roles === 'front' ? `merchants ${baseUrl}  ` : '';
    console.log(`${name.padEnd(11)} ${merchants}operators ${operatorUrl}  ${stateOf(node)}`);
  }
  console.log(`operator token  ${cluster.operatorToken}\n`);
  const running = cluster.nodes.filter(({ mark }) => aliveIn(mark) !== null);
  if (running.length === 0) return 0;
  try {
    // Each knows: one that is stopped, or cannot, is not waited for.
    printPartitions(await Promise.any(running.map((node) => partitionsOf(node, cluster.operatorToken))));
    return 0;
  } catch (error) {
    const whys = (error as AggregateError).errors.map(
      (why: Error, index) => `${running[index]?.name}: ${why.message}`,
    );
    console.error(`Nobody says who has what: ${whys.join('; ')}`);
    return 1;
  }
}

function stateOf({ mark, ended }: ClusterNode): string {
  const pid = aliveIn(mark);
  if (pid !== null) return `pid ${pid}`;
  return (ended ?? 0) === 0 ? 'ended' : `ended with ${ended}`;
}

interface OwnedPartition {
  readonly group: string;
  readonly partition: number;
  readonly node: string | null;
  readonly epoch: number;
}

async function partitionsOf({ operatorUrl }: ClusterNode, token: string): Promise<readonly OwnedPartition[]> {
  const answer = await fetch(`${operatorUrl}/operator/v1/partitions`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(MAP_MS),
  });
  const body = await answer.text();
  if (answer.status !== 200) throw new Error(`${answer.status} ${body}`);
  return (JSON.parse(body) as { readonly data: readonly OwnedPartition[] }).data;
}

function printPartitions(all: readonly OwnedPartition[]): void {
  for (const [group, partitions] of Map.groupBy(all, (each) => each.group)) {
    console.log(group);
    for (const [owner, own] of Map.groupBy(partitions, (each) => each.node ?? 'nobody')) {
      console.log(
        `  ${owner.padEnd(10)} ${own.map(({ partition, epoch }) => `${partition} (epoch ${epoch})`).join(', ')}`,
      );
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
  const url = `http://127.0.0.1:${port}`;
  const listening = waitFor('the simulator listens', 20_000, async () => {
    if (child.exitCode !== null) throw new Error('the simulator has ended');
    return (await fetch(url).catch(() => null)) !== null;
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

function writeCluster(
  { operatorToken }: ClusterSettings,
  nats: NatsServers,
  simulatorUrl: string,
  nodes: readonly NodeProcess[],
): ClusterFile {
  const content: ClusterFile = {
    mark: ownMark(),
    operatorToken,
    natsUrls: nats.urls,
    simulatorUrl,
    nodes: nodes.map((each) => ({
      name: each.name,
      roles: each.roles,
      mark: each.mark,
      ended: each.exitStatus(),
      baseUrl: each.baseUrl,
      operatorUrl: each.operatorUrl,
    })),
  };
  writeWholeFile(clusterFile, JSON.stringify(content, null, 2));
  return content;
}

function readCluster(): ClusterFile | null {
  if (!existsSync(clusterFile)) return null;
  const cluster = JSON.parse(readFileSync(clusterFile, 'utf8')) as ClusterFile;
  return cluster.mark !== undefined && aliveIn(cluster.mark) !== null ? cluster : null;
}

async function withRunning(act: (cluster: ClusterFile) => Promise<number>): Promise<number> {
  const cluster = readCluster();
  return cluster === null ? noneRuns() : act(cluster);
}

function noneRuns(why = NONE_RUNS): number {
  console.error(why);
  return 1;
}
