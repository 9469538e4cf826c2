// Ownership of one process: everything is its own. The lock on the data directory keeps a second process out.

import type { GroupName } from './bus.ts';
import type { Ownership, PartitionHost } from './ownership.ts';

interface LocalOwnershipOptions {
  readonly host: PartitionHost;
  /** Number of partitions of each group that this process serves. */
  readonly partitions: Partial<Record<GroupName, number>>;
  /** Epoch of the last batch of the partition's log, 0 when it is empty. */
  readonly lastEpoch: (group: GroupName, partition: number) => number;
}

export class LocalOwnership implements Ownership {
  readonly #options: LocalOwnershipOptions;
  #held: { readonly group: GroupName; readonly partition: number }[] = [];

  constructor(options: LocalOwnershipOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { host, partitions, lastEpoch } = this.#options;
    for (const [group, count] of Object.entries(partitions) as [GroupName, number][]) {
      for (let partition = 0; partition < count; partition++) {
        await host.acquire(group, partition, lastEpoch(group, partition) + 1);
        this.#held.push({ group, partition });
      }
    }
  }

  holds(): boolean {
    return true;
  }

  async drain(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    await Promise.all(held.map(({ group, partition }) => this.#options.host.release(group, partition)));
  }

  async close(): Promise<void> {}
}
