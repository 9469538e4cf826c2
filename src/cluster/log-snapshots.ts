// When a node saves snapshots: of what it serves, each as its log has grown enough since the last one.

import type { GroupName } from '../bus/bus.ts';
import type { Snapshots } from '../nats/snapshots/snapshots.ts';
import type { LogReplica } from '../nats/log/stream-replica.ts';
import type { Log } from '../observability/log.ts';
import type { HostedLog, Storage } from '../storage/storage.ts';

export interface LogSnapshotsOptions {
  readonly snapshots: Snapshots;
  readonly storage: Pick<Storage, 'hosted'>;
  /** Of a partition that is served here; null: it is not. */
  readonly replicaOf: (group: GroupName, partition: number) => LogReplica | null;
  readonly holds: (group: GroupName, partition: number) => boolean;
  /** Batches from one snapshot of a partition to the next. */
  readonly everyBatches: number;
  readonly log: Log;
}

export class LogSnapshots {
  readonly #options: LogSnapshotsOptions;

  constructor(options: LogSnapshotsOptions) {
    this.#options = options;
  }

  /** One that fails holds up no other. */
  async save(): Promise<void> {
    const { storage, log } = this.#options;
    for (const hosted of storage.hosted()) {
      try {
        await this.#saveOne(hosted);
      } catch (error) {
        const { group, number: partition } = hosted;
        log.warn({ group, partition, err: error }, 'no snapshot was saved');
      }
    }
  }

  /** What was left of snapshots by processes that died while they saved them. */
  async removeAbandoned(): Promise<void> {
    const { snapshots, log } = this.#options;
    try {
      const count = await snapshots.removeAbandoned();
      if (count > 0) log.info({ count }, 'removed what was left of snapshots that were never finished');
    } catch (error) {
      log.warn({ err: error }, 'what was left of unfinished snapshots could not be removed');
    }
  }

  async #saveOne({ group, number, log }: HostedLog): Promise<void> {
    const { snapshots, replicaOf, holds, everyBatches } = this.#options;
    if (log.tip.batch < everyBatches || !holds(group, number)) return;
    // Asked each time: somebody may have removed it.
    const stored = await snapshots.batchOf(group, number);
    if (stored <= log.tip.batch && log.tip.batch - stored < everyBatches) return;
    const replica = replicaOf(group, number);
    if (replica === null || !holds(group, number)) return;
    const held = (): boolean => holds(group, number);
    const batch = await snapshots.save(group, number, () => replica.settled(), held);
    // `save` may have had nothing new: views lag, and never reach a batch that only opens an epoch.
    if (batch !== stored) this.#options.log.info({ group, partition: number, batch }, 'snapshot saved');
  }
}
