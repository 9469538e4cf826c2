// What a node of the cluster does about rot in its own log: another node has the partition whole, so this one refuses it from
// then on, whatever came upon the damage, and goes on with the others; a restart checks these first, and forgets nothing. Only a
// scrub says that a log which could not be read is damaged: a take-over may just have cut it off and written it anew.

import { nameOf } from '../../wal/types.ts';
import type { GroupName } from '../bus/bus.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { corruptionOf } from './damage.ts';
import { DamagedPartitions } from './damaged-partitions.ts';
import { keep, readKept } from './kept-damage.ts';
import { Scrub } from './scrub.ts';

export interface NodeDamageOptions {
  readonly directory: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Once for each partition. */
  readonly onRefused: (group: GroupName, partition: number) => void;
}

export class NodeDamage {
  readonly damaged: DamagedPartitions;
  readonly #options: NodeDamageOptions;
  readonly #scrub: Scrub;

  constructor(options: NodeDamageOptions) {
    this.#options = options;
    this.damaged = new DamagedPartitions(options.log, options.metrics);
    this.#scrub = new Scrub(options.directory, (damage) => {
      this.refuse(damage.group, damage.partition, corruptionOf(damage));
    });
  }

  /** What was refused before this process began: checked before anything is taken, and refused where it is not whole. */
  async checkKept(): Promise<void> {
    const { directory, log } = this.#options;
    const kept = readKept(directory);
    if (kept.length === 0) return;
    log.info({ partitions: kept }, 'what was damaged is checked first');
    const scrub = new Scrub(directory, (damage) => {
      this.damaged.add(damage.group, damage.partition, corruptionOf(damage));
    });
    try {
      await Promise.all(kept.map(({ group, partition }) => scrub.check(group, partition)));
    } catch (error) {
      this.#sayUnchecked(error);
      for (const { group, partition } of kept) {
        const problem = `${nameOf({ group, partition })} was damaged, and could not be checked`;
        this.damaged.add(group, partition, new Error(problem));
      }
    }
    this.#keep();
    const whole = kept.filter(({ group, partition }) => !this.damaged.has(group, partition));
    if (whole.length > 0) log.warn({ partitions: whole }, 'what was damaged is whole, and is served again');
  }

  refuse(group: GroupName, partition: number, error: Error): void {
    if (!this.damaged.add(group, partition, error)) return;
    this.#keep();
    this.#options.onRefused(group, partition);
  }

  /** Of a partition whose log could not be read. */
  check(group: GroupName, partition: number): void {
    this.#scrub.check(group, partition).catch((error: unknown) => this.#sayUnchecked(error));
  }

  /** Resolves when the whole log has been checked, or it has been said why it could not be. */
  async checkAll(): Promise<void> {
    try {
      await this.#scrub.run();
    } catch (error) {
      this.#sayUnchecked(error);
    }
  }

  async stop(): Promise<void> {
    await this.#scrub.stop();
  }

  #keep(): void {
    try {
      keep(this.#options.directory, this.damaged.partitions());
    } catch (error) {
      this.#options.log.error({ err: error }, 'a restart will not know what is damaged');
    }
  }

  #sayUnchecked(error: unknown): void {
    this.#options.log.error({ err: error }, 'the log could not be checked');
  }
}
