// Partitions that this process does not serve because its log of them is damaged; said once in the log, and by a metric and
// /readyz until the process ends.

import type { GroupName } from '../bus/bus.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';

export class DamagedPartitions {
  readonly #log: Log;
  /** "accounts/3" → what is wrong with its log. */
  readonly #problems = new Map<string, string>();

  constructor(log: Log, metrics: Metrics) {
    this.#log = log;
    const help = 'Partitions that are not served because their log is damaged.';
    metrics.gauge('daftari_partitions_damaged', help, () => this.#problems.size);
  }

  /** False: it is known. */
  add(group: GroupName, partition: number, error: Error): boolean {
    if (this.has(group, partition)) return false;
    this.#problems.set(`${group}/${partition}`, error.message);
    this.#log.fatal(
      { group, partition, err: error },
      'the log is damaged: this partition is not served here',
    );
    return true;
  }

  has(group: GroupName, partition: number): boolean {
    return this.#problems.has(`${group}/${partition}`);
  }

  get size(): number {
    return this.#problems.size;
  }

  partitions(): { group: GroupName; partition: number }[] {
    return [...this.#problems.keys()].map((name) => {
      const [group, partition] = name.split('/') as [GroupName, string];
      return { group, partition: Number(partition) };
    });
  }

  /** For /readyz; null: there are none. */
  get problem(): string | null {
    return this.size === 0 ? null : `damaged, not served: ${[...this.#problems.values()].join('; ')}`;
  }
}
