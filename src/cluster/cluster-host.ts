// The partitions that ownership gives this process, on the bus.
//
//   acquire: subscribe (messages wait) ─▶ open
//   serve:   answer what waited, and what comes
//   release: turn messages away ─▶ finish ─▶ the next owner acquires
//   lose:    say nothing more
//
// What a partition does behind its subject its runner knows (partition-runner.ts).

import type { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { GroupName } from '../bus/bus.ts';
import type { PartitionHost } from '../bus/ownership.ts';
import { LIMITS } from '../limits.ts';
import type { NatsBusServer, Served, ServedPartition } from '../nats/bus/nats-bus-server.ts';
import type { Log } from '../observability/log.ts';
import { type PartitionRunner, runnerOfPollers } from './partition-runner.ts';
import type { WrittenLogs } from './written-logs.ts';

export interface ClusterHostOptions {
  readonly server: NatsBusServer;
  /** Null: this process owns no partition that has a log. */
  readonly logs: WrittenLogs | null;
  /** Null: this process has no pollers. */
  readonly pollers: PollerGroup | null;
  readonly log: Log;
  readonly holds: (group: GroupName, partition: number) => boolean;
  readonly onServing: (group: GroupName, partition: number) => void;
}

interface Hosted {
  readonly epoch: number;
  readonly startedAt: number;
  /** Messages wait in it until it is served. */
  readonly subject: ServedPartition;
  /** Null: it is not open yet, or is served. */
  begin: (() => Served | null) | null;
  isServed: boolean;
}

export class ClusterHost implements PartitionHost {
  readonly #options: ClusterHostOptions;
  readonly #pollers: PartitionRunner | null;
  readonly #hosted = new Map<string, Hosted>();

  constructor(options: ClusterHostOptions) {
    const { pollers, holds } = options;
    this.#options = options;
    this.#pollers = pollers === null ? null : runnerOfPollers(pollers, holds);
  }

  isServing(group: GroupName, partition: number): boolean {
    return this.#hosted.get(`${group}/${partition}`)?.isServed ?? false;
  }

  isUnproven(group: GroupName, partition: number): boolean {
    return this.#options.logs?.isUnproven(group, partition) ?? false;
  }

  isDoubtedElsewhere(group: GroupName, partition: number): boolean {
    return this.#options.logs?.isDoubtedElsewhere(group, partition) ?? false;
  }

  isEmpty(group: GroupName, partition: number): boolean {
    return group !== 'pollers' && (this.#options.logs?.isEmpty(group, partition) ?? false);
  }

  isLeftBehind(group: GroupName, partition: number): boolean {
    return this.#options.logs?.isLeftBehind(group, partition) ?? false;
  }

  async prepare(group: GroupName, partition: number): Promise<void> {
    await this.#runnerOf(group).prepare(group, partition);
  }

  async forget(group: GroupName, partition: number): Promise<void> {
    await this.#runnerOf(group).forget(group, partition);
  }

  async acquire(group: GroupName, partition: number, epoch: number): Promise<void> {
    const startedAt = performance.now();
    const subject = this.#options.server.serve(group, partition, epoch);
    const hosted: Hosted = { epoch, startedAt, subject, begin: null, isServed: false };
    this.#hosted.set(`${group}/${partition}`, hosted);
    hosted.begin = await this.#runnerOf(group).open(group, partition, epoch);
  }

  serve(group: GroupName, partition: number): void {
    const { log, onServing } = this.#options;
    const hosted = this.#hosted.get(`${group}/${partition}`);
    if (hosted === undefined || hosted.begin === null) return;
    const { epoch, startedAt, subject, begin } = hosted;
    hosted.begin = null;
    hosted.isServed = true;
    const served = begin();
    // It has been lost within.
    if (served === null) return;
    subject.open(served);
    onServing(group, partition);
    log.info({ group, partition, epoch, ms: Math.round(performance.now() - startedAt) }, 'serving');
  }

  async release(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    const { server, log } = this.#options;
    const subject = this.#hosted.get(key)?.subject;
    this.#hosted.delete(key);
    await this.#runnerOf(group).release(group, partition, () => subject?.close());
    server.flush();
    // Callers who have not heard of the next owner are told for a while to ask again.
    if (subject !== undefined) setTimeout(() => subject.stop(), LIMITS.leaseMs).unref();
    log.info({ group, partition }, 'handed over');
  }

  async lose(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    const hosted = this.#hosted.get(key);
    hosted?.subject.stop();
    this.#hosted.delete(key);
    await this.#runnerOf(group).lose(group, partition);
    if (hosted?.isServed === true) this.#options.log.warn({ group, partition }, 'lost');
  }

  async close(): Promise<void> {
    await this.#options.logs?.close();
    for (const { subject } of this.#hosted.values()) subject.stop();
  }

  #runnerOf(group: GroupName): PartitionRunner {
    const runner = group === 'pollers' ? this.#pollers : this.#options.logs;
    if (runner === null) throw new Error(`this process has no ${group}`);
    return runner;
  }
}
