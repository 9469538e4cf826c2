// What a node of the cluster says of itself and of the others: whether it is ready, who has each partition, and which nodes cannot
// prove their copy of one.

import type { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { GroupName } from '../bus/bus.ts';
import type { Config } from '../config.ts';
import { LIMITS } from '../limits.ts';
import type { LeaseOwnership } from '../nats/leases/lease-ownership.ts';
import type { LeaseTable } from '../nats/leases/lease-table.ts';
import { partitionKey } from '../nats/subjects.ts';
import type { ClusterNats } from './cluster-nats.ts';
import type { NodeDisk } from './node-disk.ts';
import type { Storage } from '../storage/storage.ts';
import type { WrittenLogs } from '../cluster/written-logs.ts';

/** Null: it has none. */
export interface NodeParts {
  readonly disk: NodeDisk | null;
  readonly logs: WrittenLogs | null;
  readonly pollers: PollerGroup | null;
  readonly ownership: LeaseOwnership;
}

/** Null: this node can do all that its roles promise. */
export function notReady(
  roles: Config['roles'],
  { link, table, counts }: ClusterNats,
  { disk, logs, pollers, ownership }: NodeParts,
): string | null {
  const diskProblem = disk?.problem ?? null;
  if (diskProblem !== null) return diskProblem;
  if (link.connection.isClosed()) return 'not connected to NATS';
  if (roles.has('front')) {
    for (let partition = 0; partition < counts.accounts; partition++) {
      const lease = table.lease('accounts', partition);
      if (lease === undefined || !table.isHeld(lease.value)) return 'some accounts have no owner';
      const silentMs = table.silentMs(lease.value);
      if (silentMs > LIMITS.ownerSilentMs) {
        return `nothing has been heard of ${lease.value.node} for ${Math.floor(silentMs / 1_000)} s`;
      }
    }
    if (roles.size === 1) return null;
  }
  const { rival } = ownership;
  if (rival !== null) return rival;
  if (!ownership.isSettled) {
    const { unanswered } = table;
    if (unanswered !== null) return `NATS does not take what this node writes: ${unanswered}`;
    return logs?.problem ?? 'partitions are being taken over';
  }
  const stall = logs?.stall ?? null;
  if (stall !== null) return stall;
  return pollers === null || pollers.isFollowing ? null : 'pollers look for what is in flight';
}

/** Every partition of the cluster, its owner, and, of those written here, where the log stands. */
export function partitionMap({ table, counts }: ClusterNats, storage: Storage | null): object[] {
  const hosted = new Map(
    [...(storage?.hosted() ?? [])].map((each) => [partitionKey(each.group, each.number), each] as const),
  );
  return (Object.entries(counts) as [GroupName, number][]).flatMap(([group, count]) =>
    Array.from({ length: count }, (_, partition) => {
      const lease = table.lease(group, partition)?.value;
      const here = hosted.get(partitionKey(group, partition));
      return {
        group,
        partition,
        node: lease?.node ?? null,
        node_state: table.nodes.get(lease?.node ?? '')?.value.state ?? null,
        epoch: lease?.epoch ?? 0,
        damaged_on: nodesThatSay(table, 'damaged', group, partition),
        unproven_on: nodesThatSay(table, 'unproven', group, partition),
        failing_on: nodesThatSay(table, 'failing', group, partition),
        sequence: here?.log.durable ?? null,
        checkpoint_lag: here?.partition.checkpointLag ?? null,
      };
    }),
  );
}

/** Live nodes that say it of the partition: their copy is damaged, they cannot prove it, be it for no reason of their own, or they have
 *  failed to take it over for long. */
function nodesThatSay(
  { nodes }: Pick<LeaseTable, 'nodes'>,
  what: 'damaged' | 'unproven' | 'doubtedElsewhere' | 'failing',
  group: GroupName,
  partition: number,
): string[] {
  const key = partitionKey(group, partition);
  return [...nodes].flatMap(([name, { value }]) => {
    return value.state !== 'dead' && value[what]?.includes(key) === true ? [name] : [];
  });
}

/** A node but this one that for reasons of its own cannot prove its log of the partition; null: none says so. */
export function unprovenElsewhere(
  table: Pick<LeaseTable, 'nodes'>,
  node: string,
  group: GroupName,
  partition: number,
): string | null {
  const repeating = new Set(nodesThatSay(table, 'doubtedElsewhere', group, partition));
  const unproven = nodesThatSay(table, 'unproven', group, partition);
  return unproven.find((name) => name !== node && !repeating.has(name)) ?? null;
}
