// What the main thread and the checkpoint thread say to each other.

import type { PartitionPlace } from '../bus/bus.ts';
import type { Damage } from '../damage/damage.ts';
import type { GroupPolicies } from './groups.ts';

export interface CheckpointThreadData {
  readonly directory: string;
  readonly policies: GroupPolicies;
}

export type ToCheckpointThread =
  /** Bring the views up to `upTo`, a durable batch's last sequence. `toServe`: callers wait for it, so it goes before
   *  what is only kept up. */
  | ({ readonly type: 'advance'; readonly upTo: number; readonly toServe: boolean } & PartitionPlace)
  /** Another node writes this partition now. Answered when nothing is written for it any more. */
  | ({ readonly type: 'release' } & PartitionPlace)
  /** Remove the rows whose time is over at `now`. */
  | ({ readonly type: 'sweep'; readonly now: number } & PartitionPlace)
  | { readonly type: 'stop' };

export type FromCheckpointThread =
  /** It has all that it needs to work: program, log and views. */
  | { readonly type: 'started' }
  | ({ readonly type: 'reached'; readonly sequence: number } & PartitionPlace)
  | ({ readonly type: 'released' } & PartitionPlace)
  | ({ readonly type: 'swept' } & PartitionPlace)
  /** The partition's log cannot be followed. The thread goes on with the others. */
  | ({ readonly type: 'damaged' } & Damage)
  /** Its log has a record that a newer version made. */
  | ({ readonly type: 'unreadable'; readonly why: string } & PartitionPlace)
  /** The views could not be written. */
  | ({ readonly type: 'failed'; readonly error: Error } & PartitionPlace);
