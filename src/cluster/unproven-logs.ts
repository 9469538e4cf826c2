// Partitions whose log this process could not prove to be the stream's when it last read it: another node has them, if its
// log is proven, and only a person can make them servable here.

import { LogCorruption } from '../../wal/batch.ts';
import type { GroupName } from '../bus/bus.ts';
import { LogDiverged } from '../nats/log/log-follower.ts';

export class UnprovenLogs {
  /** Why: "accounts/3" → for a person. */
  readonly #whys = new Map<string, string>();
  readonly #onUnreadable: (group: GroupName, partition: number) => void;

  /** `onUnreadable`: the local log of that partition could not be read as it should. */
  constructor(onUnreadable: (group: GroupName, partition: number) => void) {
    this.#onUnreadable = onUnreadable;
  }

  get count(): number {
    return this.#whys.size;
  }

  has(group: GroupName, partition: number): boolean {
    return this.#whys.has(`${group}/${partition}`);
  }

  /** For /readyz; null: there are none. */
  get problem(): string | null {
    return this.#whys.size === 0 ? null : `not proven, not served: ${[...this.#whys.values()].join('; ')}`;
  }

  /** Notes what `read` says of the partition's log. Rejects as it does. */
  async during<T>(group: GroupName, partition: number, read: () => Promise<T>): Promise<T> {
    try {
      const result = await read();
      this.#whys.delete(`${group}/${partition}`);
      return result;
    } catch (error) {
      if (error instanceof LogDiverged) this.#whys.set(`${group}/${partition}`, error.message);
      // It may be another's: webhooks are proven by their accounts.
      if (error instanceof LogCorruption) this.#onUnreadable(error.group as GroupName, error.partition);
      throw error;
    }
  }
}
