// A real cluster for a test: nats-servers, fronts, ledgers, pollers and webhooks as processes, with callers and a checker.

import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkJournal } from '../../deploy/journal-check.ts';
import type { Service } from '../../deploy/journal-check.ts';
import { checkReplicas } from '../../deploy/log-comparison.ts';
import { startNode, untilReady } from '../../deploy/cluster-processes.ts';
import type { ClusterSettings, NodeProcess } from '../../deploy/cluster-processes.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import type { NatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { Snapshots } from '../../src/nats/snapshots/snapshots.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { ViewStore } from '../../wal/views.ts';
import { link } from './adapters.ts';
import { Load, makeAccounts } from './load.ts';
import type { Account, LoadReport } from './load.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

export interface ClusterShape {
  readonly natsServers: 1 | 3;
  readonly fronts: number;
  readonly ledgers: number;
  readonly webhooks: number;
  readonly pollers: number;
  /** With all roles but the front's. */
  readonly together?: number;
  readonly environment?: Readonly<Record<string, string>>;
}

export const SMALL: ClusterShape = { natsServers: 1, fronts: 1, ledgers: 2, webhooks: 0, pollers: 1 };

export const TOGETHER = 'ledger,webhooks,poller';

const COMPLAINTS_MAX = 10;

/** Until all of them are ready: they start at once, on two cores perhaps, and a slow machine is no fault. */
const START_MS = 120_000;

/** As Cluster sets it, unless the test asks for others. */
export const PARTITIONS = 6;

/** As the operator's map has it. */
export interface MappedPartition {
  readonly group: string;
  readonly partition: number;
  readonly node: string | null;
  readonly epoch: number;
  readonly damaged_on: readonly string[];
  readonly unproven_on: readonly string[];
}

export class Cluster {
  readonly directory: string;
  readonly nats: NatsServers;
  readonly settings: ClusterSettings;
  readonly nodes: NodeProcess[] = [];
  accounts: Account[] = [];
  readonly #loads: Load[] = [];

  private constructor(directory: string, nats: NatsServers, settings: ClusterSettings) {
    this.directory = directory;
    this.nats = nats;
    this.settings = settings;
  }

  static async start(shape: ClusterShape, accounts = 6): Promise<Cluster> {
    const directory = mkdtempSync(join(tmpdir(), 'daftari-cluster-'));
    const nats = await startNatsServers({ count: shape.natsServers, directory });
    const settings: ClusterSettings = {
      natsUrl: nats.url,
      directory,
      operatorToken: 'an-operator-token',
      masterKey: '5e'.repeat(32),
      environment: {
        NATS_REPLICAS: String(shape.natsServers),
        PARTITIONS: String(PARTITIONS),
        LOG_LEVEL: 'info',
        PROVIDER_ANSWER_WAIT_MS: '0',
        SIMULATOR_APPROVE_AFTER_MS: '50',
        ...shape.environment,
      },
    };
    const cluster = new Cluster(directory, nats, settings);
    try {
      const starting: Promise<NodeProcess>[] = [];
      for (const [role, count] of [
        ['front', shape.fronts],
        ['ledger', shape.ledgers],
        ['webhooks', shape.webhooks],
        ['poller', shape.pollers],
        [TOGETHER, shape.together ?? 0],
      ] as const) {
        for (let i = 1; i <= count; i++) {
          starting.push(cluster.add(`${role === TOGETHER ? 'node' : role}${i}`, role));
        }
      }
      await untilReady(await Promise.all(starting), START_MS);
      cluster.accounts = await makeAccounts(cluster.service, accounts);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  async add(
    name: string,
    roles: string,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<NodeProcess> {
    const node = await startNode(this.settings, name, roles, environment);
    this.nodes.push(node);
    return node;
  }

  /** The newest process of that name. */
  node(name: string): NodeProcess {
    const node = this.nodes.findLast((each) => each.name === name);
    if (node === undefined) throw new Error(`no node ${name}`);
    return node;
  }

  get running(): NodeProcess[] {
    return this.nodes.filter((node) => node.exitStatus() === null);
  }

  get fronts(): NodeProcess[] {
    return this.running.filter(({ roles }) => roles.includes('front'));
  }

  get service(): Service {
    const [front] = this.fronts;
    if (front === undefined) throw new Error('no front is left');
    return {
      baseUrl: front.baseUrl,
      operatorUrl: front.operatorUrl,
      operatorToken: this.settings.operatorToken,
    };
  }

  load(callers: number, pauseMs: number): Load {
    const baseUrls = (): string[] => this.fronts.map(({ baseUrl }) => baseUrl);
    const load = new Load({ accounts: this.accounts, baseUrls, callers, pauseMs });
    this.#loads.push(load);
    return load;
  }

  async partitions(): Promise<MappedPartition[]> {
    const { operatorUrl, operatorToken } = this.service;
    const answer = await fetch(`${operatorUrl}/operator/v1/partitions`, {
      headers: { authorization: `Bearer ${operatorToken}` },
    });
    return ((await answer.json()) as { data: MappedPartition[] }).data;
  }

  /** A ledger has every partition of the accounts. */
  async ownsAll(name: string): Promise<boolean> {
    const owners = (await this.partitions()).filter(({ group }) => group === 'accounts');
    return owners.every(({ node }) => node === name);
  }

  async ownsSome(name: string): Promise<boolean> {
    const all = await this.partitions();
    return all.some(({ group, node }) => group === 'accounts' && node === name);
  }

  /** Adds a ledger; resolves when it owns partitions. */
  async addOwner(name: string, environment: Readonly<Record<string, string>> = {}): Promise<NodeProcess> {
    const node = await this.add(name, 'ledger', environment);
    await untilReady([node]);
    await waitFor(`${name} owns partitions`, 60_000, () => this.ownsSome(name));
    return node;
  }

  /** Findings of the checker: callers' journal against the service, then the logs of all ledgers, or of these nodes, against each
   *  other. */
  async check(
    report: LoadReport,
    nodes: readonly NodeProcess[] = this.nodes.filter(({ roles }) => roles.includes('ledger')),
  ): Promise<string[]> {
    const findings = await checkJournal(report.journal, this.service);
    const directories = new Set(nodes.map(({ dataDir }) => dataDir));
    return [...findings, ...(await checkReplicas([...directories]))];
  }

  async stop(keepDirectory = false): Promise<void> {
    if (this.#loads.some((load) => !load.hasEnded)) this.#tellWhatTheyComplainedOf();
    for (const load of this.#loads) load.abandon();
    for (const node of this.running) {
      node.signal('SIGCONT');
      node.signal('SIGKILL');
    }
    await Promise.all(this.nodes.map((node) => node.exited()));
    await this.nats.stop();
    if (!keepDirectory) await removeDirectory(this.directory);
  }

  /** The test ended before its load did: it has failed. */
  #tellWhatTheyComplainedOf(): void {
    for (const node of this.nodes) {
      const lines = readFileSync(node.logFile, 'utf8').split('\n');
      const complaints = lines.filter((line) => line !== '' && !line.includes('"level":"info"'));
      process.stderr.write(
        `${node.name}, ${node.exitStatus() ?? 'running'}:\n${complaints.slice(-COMPLAINTS_MAX).join('\n')}\n`,
      );
    }
  }
}

/** Batches of the accounts' logs that a node began after, because a snapshot had what was before. */
export async function startsOf({ dataDir: directory }: NodeProcess): Promise<number[]> {
  const log = await LogReader.openBeside({ directory });
  const starts = Array.from({ length: PARTITIONS }, () => 0);
  for (const { group, partition } of log.partitionNames()) {
    if (group === 'accounts') starts[partition] = log.startOf(group, partition).batch;
  }
  await log.close();
  return starts;
}

/** Snapshots of what a node that has ended left on its disk, saved as an owner does; the batch that each reaches, 0: none. */
export async function saveSnapshots(
  cluster: Cluster,
  { dataDir: directory }: NodeProcess,
): Promise<number[]> {
  const nats = await link(cluster.nats.url, 'snapshots');
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure: fail });
  const views = ViewStore.open({ directory });
  const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
  const batches = Array.from({ length: PARTITIONS }, () => 0);
  for (const { partition } of log.partitionNames().filter(({ group }) => group === 'accounts')) {
    batches[partition] = await snapshots.save('accounts', partition);
  }
  await Promise.all([views.close(), log.close(), nats.close()]);
  return batches;
}

function fail(error: Error): never {
  throw error;
}
