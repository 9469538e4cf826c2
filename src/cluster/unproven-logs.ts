// Partitions whose log this process could not prove to be the stream's when it last read it: another node has them, if its
// log is proven, and only a person can make them servable here. Unless this one has all that the stream has, and more: another
// would write in its place.

import { LogCorruption } from '../../wal/batch.ts';
import type { GroupName } from '../bus/bus.ts';
import { LogDiverged, StreamLacks } from '../nats/log/log-follower.ts';

/** Nothing but what another node says of its own log is against it. */
export class DoubtedElsewhere extends LogDiverged {}

export class UnprovenLogs {
  /** Why: by "accounts/3". */
  readonly #whys = new Map<string, LogDiverged>();
  readonly #onUnreadable: (group: GroupName, partition: number) => void;

  /** `onUnreadable`: the local log of that partition could not be read as it should. */
  constructor(onUnreadable: (group: GroupName, partition: number) => void) {
    this.#onUnreadable = onUnreadable;
  }

  get count(): number {
    return this.#whys.size;
  }

  /** And others may have it. */
  has(group: GroupName, partition: number): boolean {
    const why = this.#whys.get(`${group}/${partition}`);
    return why !== undefined && !(why instanceof StreamLacks && why.isAhead);
  }

  isDoubtedElsewhere(group: GroupName, partition: number): boolean {
    return this.#whys.get(`${group}/${partition}`) instanceof DoubtedElsewhere;
  }

  /** For /readyz; null: there are none. */
  get problem(): string | null {
    if (this.#whys.size === 0) return null;
    const whys = [...this.#whys.values()].map(({ message }) => message);
    return `not proven, not served: ${whys.join('; ')}`;
  }

  /** Notes what `read` says of the partition's log. Rejects as it does. */
  async during<T>(group: GroupName, partition: number, read: () => Promise<T>): Promise<T> {
    try {
      const result = await read();
      this.#whys.delete(`${group}/${partition}`);
      return result;
    } catch (error) {
      if (error instanceof LogDiverged) this.#whys.set(`${group}/${partition}`, error);
      // It may be another's: webhooks are proven by their accounts.
      if (error instanceof LogCorruption) this.#onUnreadable(error.group as GroupName, error.partition);
      throw error;
    }
  }
}
