// Every partition of a standalone process: recovered, served by the bus, and refused when its log is damaged. A damaged
// partition answers 503 to its accounts; the others are served.

import type { GroupName } from '../bus/bus.ts';
import type { LocalBus } from '../bus/local-bus.ts';
import type { Config } from '../config.ts';
import { LIMITS } from '../limits.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { LogCorruption } from '../../wal/batch.ts';
import type { LogReader } from '../../wal/log-reader.ts';
import type { PartitionName } from '../../wal/types.ts';
import { catchUp } from '../storage/catch-up.ts';
import { recordsOf, threadsFor } from '../storage/view-threads.ts';
import { corruptionOf } from '../damage/damage.ts';
import { DamagedPartitions } from '../damage/damaged-partitions.ts';
import { checkMoney, type DataDirectory } from '../data-directory/data-directory.ts';
import { DataDirectoryError, partitionsProblem } from '../data-directory/identity.ts';
import { type GroupPolicies, webhooksLogicOf } from '../storage/groups.ts';
import { Jobs } from '../jobs.ts';
import { Scrub } from '../damage/scrub.ts';
import { type OnFailure, Storage } from '../storage/storage.ts';
import { watchStorage } from './metrics.ts';

export interface LedgerOptions {
  readonly config: Config;
  readonly directory: Pick<DataDirectory, 'path' | 'identity' | 'space'>;
  readonly policies: GroupPolicies;
  readonly bus: LocalBus;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Of the process. */
  readonly clock: () => number;
  /** Newest format of records that may be written. */
  readonly writeFormat: () => number;
  /** Nothing may be acknowledged any more: the process must end. */
  readonly onFailure: OnFailure;
}

type OnRefused = (group: GroupName, number: number) => void;

export interface Ledger {
  readonly storage: Storage;
  readonly damaged: DamagedPartitions;
  readonly jobs: Jobs;
  /** From now on `listener` is told of each partition that is no longer served. */
  onRefused(listener: OnRefused): void;
  /** Checks what was there at the start and it did not need to read, behind the callers' backs. */
  scrub(): void;
  /** Everything accepted is flushed, and the next start is short. */
  close(): Promise<void>;
}

/** Throws DataDirectoryError, having written nothing, where the directory says that it has fewer partitions than are in its log, or that
 *  other money than that of RAILS has moved in it. */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  const { config, policies, bus, log, metrics, clock, writeFormat } = options;
  const { identity, space } = options.directory;
  checkMoney(options.directory, config.rails);
  const damaged = new DamagedPartitions(log, metrics);
  let onRefused: OnRefused = () => {};
  const refuse = (group: GroupName, number: number, error: Error): void => {
    if (!damaged.add(group, number, error)) return;
    bus.attach(group, number, undefined);
    onRefused(group, number);
  };
  const storage = new Storage({
    directory: config.dataDir,
    policies,
    observer: metrics,
    clock,
    deadlineClock: () => Date.now(),
    writeFormat,
    onFlush: (flush) => metrics.flushed(flush),
    isDiskShort: () => space.isShort,
    onDamage: refuse,
    onFailure: (error, part) => {
      storage.abandon();
      options.onFailure(error, part);
    },
  });
  const logged = storage.log.partitionNames();
  const problem = partitionsProblem(config.dataDir, identity, storage.log);
  if (problem !== null) {
    await storage.close();
    throw new DataDirectoryError(`${problem}.`);
  }
  const recovery = { storage, bus, refuse, hadRecords: hasRecords(storage.log, logged) };
  for (const group of ['platform', 'accounts', 'webhooks'] as const) {
    const from = performance.now();
    await catchUpFirst(storage, options, group);
    // All at once: the checkpoint thread bounds how many it works on.
    const numbers = Array.from({ length: bus.partitions(group) }, (_, number) => number);
    await Promise.all(numbers.map((number) => recover(recovery, group, number)));
    metrics.recovered(group, performance.now() - from);
  }
  for (let number = 0; number < bus.partitions('webhooks'); number++) {
    const ahead = webhooksAhead(storage, number);
    if (ahead === null) continue;
    storage.partition('webhooks', number)?.abandon();
    refuse('webhooks', number, ahead);
  }
  watchStorage(metrics, storage, space);

  const scrub = new Scrub(config.dataDir, (damage) => {
    const { group, partition } = damage;
    storage.partition(group, partition)?.abandon();
    refuse(group, partition, corruptionOf(damage));
  });
  const jobs = new Jobs();
  storage.schedule(jobs);
  const check = (): Promise<void> =>
    scrub.run().catch((error: unknown) => log.error({ err: error }, 'the log could not be checked'));
  jobs.everyDay(check);

  return {
    storage,
    damaged,
    jobs,
    onRefused(listener) {
      onRefused = listener;
    },
    scrub() {
      if (logged.length > 0) void check();
    },
    async close() {
      jobs.stop();
      await scrub.stop();
      await storage.close();
    },
  };
}

/** If webhooks have read further than their accounts' log now reaches, they would never hear of what is written there now. */
function webhooksAhead(storage: Storage, number: number): LogCorruption | null {
  const webhooks = storage.partition('webhooks', number);
  if (webhooks === undefined || storage.partition('accounts', number) === undefined) return null;
  const { cursor } = webhooksLogicOf(webhooks);
  const { sequence: end } = storage.log.tip('accounts', number);
  if (cursor <= end) return null;
  return new LogCorruption(
    { group: 'webhooks', partition: number, batch: 0, sequence: 0 },
    `it has read its accounts up to ${cursor}, and their log ends at ${end}: an older one was put back, or an archive, which is ` +
      'not of one moment: import what comes after it, or restore both to a time before either ends (wal restore --until)',
  );
}

/** Makes the views by threads of their own, if they are so far behind that it is worth it. It may take minutes, so it says how far it
 *  has come. */
async function catchUpFirst(
  storage: Storage,
  { config, policies, bus, log }: LedgerOptions,
  group: GroupName,
): Promise<void> {
  const lags = storage.lags(group, bus.partitions(group));
  const records = recordsOf(lags);
  if (records < LIMITS.viewThreadRecordsMin) return;
  const threads = threadsFor(lags);
  const from = performance.now();
  let done = 0;
  const say = (message: string): void => {
    const seconds = (performance.now() - from) / 1_000;
    const secondsLeft = Math.round((seconds * (records - done)) / Math.max(1, done));
    log.info({ group, threads, records, done, seconds: Math.round(seconds), secondsLeft }, message);
  };
  log.info({ group, threads, records }, 'making the views from the log');
  const saying = setInterval(() => say('still making the views'), LIMITS.catchUpSayEveryMs);
  try {
    await catchUp({
      directory: config.dataDir,
      policies,
      lags,
      threads,
      onProgress(more) {
        done += more;
      },
    });
  } finally {
    clearInterval(saying);
  }
  say('the views are made');
}

interface Recovery {
  readonly storage: Storage;
  readonly bus: LocalBus;
  readonly refuse: (group: GroupName, number: number, error: Error) => void;
  /** The log, of any partition. */
  readonly hadRecords: boolean;
}

async function recover(
  { storage, bus, refuse, hadRecords }: Recovery,
  group: GroupName,
  number: number,
): Promise<void> {
  try {
    const { batch, epoch } = storage.log.tip(group, number);
    if (batch === 0 && hadRecords) throw missing(group, number);
    await storage.openPartition(group, number, { epoch: Math.max(1, epoch), replica: null, onFenced: null });
    bus.attach(group, number, storage.inbox(group, number));
  } catch (error) {
    if (!(error instanceof LogCorruption)) throw error;
    refuse(group, number, error);
  }
}

/** A start opens every partition, each with a batch of its own, before anybody can ask anything of one, and what is opened first is on
 *  disk first: where there is a record there is a batch of every partition, wherever a crash fell. */
function hasRecords(log: LogReader, logged: readonly PartitionName[]): boolean {
  return logged.some(({ group, partition }) => {
    try {
      return log.tip(group, partition).sequence > 0;
    } catch (error) {
      // What of it is left cannot be told.
      if (error instanceof LogCorruption) return true;
      throw error;
    }
  });
}

/** Begun anew, whoever has an account there would find nothing of it. */
function missing(group: GroupName, partition: number): LogCorruption {
  return new LogCorruption(
    { group, partition, batch: 1, sequence: 1 },
    'nothing of it is in the log, and others have records: it was lost, or left out of what was restored. See "The log is ' +
      'damaged" in deploy/README.md',
  );
}
