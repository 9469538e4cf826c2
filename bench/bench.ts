// What every scenario works with: the options, a directory for its data, servers that are stopped whatever happens, and a
// way to say how far it is. When the bench is asked to stop, whatever a scenario next asks of it throws.

import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryJob } from './history/job.ts';
import { writeHistory, type Written } from './history/write-history.ts';
import { drive, type Driven, type DriveOptions } from './load/drive.ts';
import type { Kind } from './load/work.ts';
import { sumOf } from './measure/metrics.ts';
import type { RunOptions } from './options.ts';
import type { Repeat } from './result.ts';
import { type Cluster, startCluster } from './servers/start-cluster.ts';
import { startService, type Service } from './servers/start-service.ts';
import { removeDirectory } from '../deploy/remove-directory.ts';
import { pause } from '../src/pause.ts';

/** Work of some kinds on one service. */
export interface Peak {
  readonly kinds: readonly Kind[];
  /** What lies in its data directory before. */
  readonly history: (options: RunOptions) => HistoryWishes;
}

export interface Scenario {
  readonly name: string;
  readonly summary: string;
  /** What two checkouts can also take side by side; absent: it is no load on one service. */
  readonly peak?: Peak;
  /** It can also be measured against a peer. */
  readonly hasPeer?: boolean;
  /** What it needs that npm does not install; it is left out of a run that names no scenarios. */
  readonly needs: string | null;
  /** `repeat` counts from 0. */
  run(bench: Bench, repeat: number): Promise<Repeat>;
}

/** A data directory with accounts, and perhaps a history, that a service can be started on. */
export interface Prepared extends Written {
  readonly dataDir: string;
  readonly keysFile: string;
  readonly idsFile: string;
}

export type HistoryWishes = Partial<Omit<HistoryJob, 'dataDir' | 'partitions' | 'keysFile' | 'idsFile'>>;

const LOOK_MS = 200;

interface Stoppable {
  stop(): Promise<void>;
}

export class Bench {
  readonly options: RunOptions;
  /** Folder of the checkout whose service is measured. */
  readonly checkout: string;
  /** Aborted when all is to end. */
  readonly signal: AbortSignal | undefined;
  readonly #root: string;
  readonly #onProgress: (text: string) => void;
  readonly #running: Stoppable[] = [];
  #directories: string[] = [];
  #prefixes = 0;

  /** `root`: on the disk that is to be measured. */
  constructor(
    options: RunOptions,
    checkout: string,
    root: string,
    onProgress: (text: string) => void,
    signal?: AbortSignal,
  ) {
    this.options = options;
    this.checkout = checkout;
    this.#root = root;
    this.#onProgress = onProgress;
    this.signal = signal;
  }

  /** Options of Node for whatever is a service, and for every node of a cluster. */
  get nodeArgs(): readonly string[] {
    const { nodeArgs, profile } = this.options;
    return profile === null ? nodeArgs : [...nodeArgs, '--cpu-prof', `--cpu-prof-dir=${profile}`];
  }

  /** Every long wait says how far it is, so it ends here. */
  progress(text: string): void {
    this.signal?.throwIfAborted();
    this.#onProgress(text);
  }

  /** Another for each load, so that no idempotency key is used twice. All of one length. */
  nextPrefix(): string {
    return `bench-${String(++this.#prefixes).padStart(4, '0')}`;
  }

  directory(): string {
    const path = mkdtempSync(join(this.#root, 'data-'));
    this.#directories.push(path);
    return path;
  }

  /** A new data directory, or with `at` one that is continued. */
  async prepare(wishes: HistoryWishes = {}, at: string | null = null): Promise<Prepared> {
    const directory = at ?? this.directory();
    const files = {
      dataDir: join(directory, 'data'),
      keysFile: join(directory, 'keys'),
      idsFile: join(directory, 'ids'),
    };
    const job: HistoryJob = {
      ...files,
      partitions: this.options.partitions,
      accounts: this.options.accounts,
      deposits: 0,
      transactions: 0,
      historyAccounts: 1,
      shape: 'charges',
      firstNumber: 0,
      idsKept: 100_000,
      webhookUrl: null,
      ...wishes,
    };
    this.signal?.throwIfAborted();
    const written = await writeHistory(job, this.#onProgress, this.signal);
    return { ...files, ...written };
  }

  async service(prepared: Prepared, env: Readonly<Record<string, string>> = {}): Promise<Service> {
    const { checkout } = this;
    const { partitions } = this.options;
    const { dataDir } = prepared;
    const { nodeArgs, signal } = this;
    signal?.throwIfAborted();
    return this.keep(await startService({ dataDir, checkout, partitions, env, nodeArgs, signal }));
  }

  /** One that does nothing but answer: a written history has no webhooks, and a service just started looks for them. */
  async serviceAtRest(prepared: Prepared, env: Readonly<Record<string, string>> = {}): Promise<Service> {
    const service = await this.service(prepared, env);
    for (;;) {
      const metrics = await service.metrics();
      const read = sumOf(metrics, 'daftari_webhook_feed_sequence');
      const written = sumOf(metrics, 'daftari_log_sequence', { group: 'accounts' });
      if (read >= written) return service;
      this.progress(`the history is read for webhooks: ${read} of ${written} records`);
      await pause(LOOK_MS);
    }
  }

  /** A cluster without a history, and what a load on it needs to know. */
  async cluster(
    natsServers: 1 | 3,
    ledgers: number,
  ): Promise<{ readonly server: Cluster; readonly prepared: Prepared }> {
    const { checkout, nodeArgs, signal } = this;
    const { partitions, accounts } = this.options;
    const directory = this.directory();
    this.progress(`starting a cluster with ${natsServers} nats-servers`);
    const server = this.keep(
      await startCluster({
        directory,
        checkout,
        natsServers,
        ledgers,
        partitions,
        accounts,
        nodeArgs,
        signal,
      }),
    );
    const files = {
      dataDir: join(directory, 'data'),
      keysFile: server.keysFile,
      idsFile: join(directory, 'ids'),
    };
    return { server, prepared: { ...files, seconds: 0, records: 0 } };
  }

  /** To be stopped when the repeat ends. */
  keep<Kept extends Stoppable>(kept: Kept): Kept {
    this.#running.push(kept);
    this.signal?.throwIfAborted();
    return kept;
  }

  /** Before the repeat ends. */
  async stop(kept: Stoppable): Promise<void> {
    const place = this.#running.indexOf(kept);
    if (place >= 0) this.#running.splice(place, 1);
    await kept.stop();
  }

  async drive(
    options: Pick<DriveOptions, 'label' | 'server' | 'work'> & Partial<DriveOptions>,
  ): Promise<Driven> {
    const { connections, seconds, warmUpSeconds, wrk } = this.options;
    this.signal?.throwIfAborted();
    return drive({
      connections,
      seconds,
      warmUpSeconds,
      wrk,
      ratePerSecond: null,
      onProgress: this.#onProgress,
      signal: this.signal,
      ...options,
    });
  }

  /** After each repeat: nothing runs on, nothing stays. Rejects with the first that could not be stopped, when all others are. */
  async clear(): Promise<void> {
    const failures: unknown[] = [];
    while (this.#running.length > 0) {
      await this.#running
        .pop()!
        .stop()
        .catch((error: unknown) => failures.push(error));
    }
    for (const directory of this.#directories) await removeDirectory(directory);
    this.#directories = [];
    if (failures.length > 0) throw failures[0];
  }
}
