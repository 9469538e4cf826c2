// Partitions that this process does not serve because its log of them is damaged; said once in the log, and by a metric and
// /readyz until the process ends.

import { nameOf } from '../../wal/types.ts';
import type { GroupName, PartitionPlace } from '../bus/bus.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';

export class DamagedPartitions {
  readonly #log: Log;
  /** By name; `problem`: what is wrong with its log. */
  readonly #damaged = new Map<string, PartitionPlace & { readonly problem: string }>();

  constructor(log: Log, metrics: Metrics) {
    this.#log = log;
    const help = 'Partitions that are not served because their log is damaged.';
    metrics.gauge('daftari_partitions_damaged', help, () => this.size);
  }

  /** False: it is known. */
  add(group: GroupName, partition: number, error: Error): boolean {
    if (this.has(group, partition)) return false;
    this.#damaged.set(nameOf({ group, partition }), { group, partition, problem: error.message });
    this.#log.fatal(
      { group, partition, err: error },
      'the log is damaged: this partition is not served here',
    );
    return true;
  }

  has(group: GroupName, partition: number): boolean {
    return this.#damaged.has(nameOf({ group, partition }));
  }

  get size(): number {
    return this.#damaged.size;
  }

  partitions(): PartitionPlace[] {
    return Array.from(this.#damaged.values(), ({ group, partition }) => ({ group, partition }));
  }

  /** For /readyz; null: there are none. */
  get problem(): string | null {
    const problems = Array.from(this.#damaged.values(), ({ problem }) => problem);
    return problems.length === 0 ? null : `damaged, not served: ${problems.join('; ')}`;
  }
}
