// A LogCorruption on its way between threads, where an error would lose its class.

import { LogCorruption, type LogPlace } from '../../wal/batch.ts';
import type { GroupName, PartitionPlace } from '../bus/bus.ts';

export interface Damage extends LogPlace, PartitionPlace {
  readonly group: GroupName;
  readonly problem: string;
}

/** Null: another error, which says nothing of the log. */
export function damageOf(error: unknown): Damage | null {
  if (!(error instanceof LogCorruption)) return null;
  const { group, partition, batch, sequence, problem } = error;
  return { group: group as GroupName, partition, batch, sequence, problem };
}

export function corruptionOf(damage: Damage): LogCorruption {
  return new LogCorruption(damage, damage.problem);
}
