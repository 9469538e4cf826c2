// What a partition does behind its subject on the bus, once it is given to this process. Those with a log: written-logs.ts.

import type { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { GroupName } from '../bus/bus.ts';
import type { PartitionHost } from '../bus/ownership.ts';
import type { Served } from '../nats/bus/nats-bus-server.ts';

/** Runs partitions of some groups, as PartitionHost has it. */
export interface PartitionRunner extends Pick<PartitionHost, 'prepare' | 'forget' | 'lose'> {
  /** Resolves with how to begin when the partition is held; that returns null when it was refused meanwhile. Rejects as
   *  PartitionHost's `acquire`. */
  open(group: GroupName, partition: number, epoch: number): Promise<() => Served | null>;
  /** Finishes what was taken. Calls `turnAway` when nothing more may be taken. */
  release(group: GroupName, partition: number, turnAway: () => void): Promise<void>;
}

/** They have no log. What is in flight is found in the background; hints are taken at once. The accounts partition may be elsewhere:
 *  its time is what its log says. */
export function runnerOfPollers(
  pollers: PollerGroup,
  holdsPlace: (group: GroupName, partition: number) => boolean,
): PartitionRunner {
  return {
    async prepare() {},
    async forget() {},
    async open(group, partition) {
      const holds = (): boolean => holdsPlace(group, partition);
      return () => {
        void pollers.start(partition, { holds });
        return { inbox: (message, onReply) => pollers.send(partition, message, onReply), holds };
      };
    },
    async release(_, partition, turnAway) {
      turnAway();
      await pollers.release(partition);
    },
    lose: (_, partition) => pollers.lose(partition),
  };
}
