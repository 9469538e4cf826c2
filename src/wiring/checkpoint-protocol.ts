// What the main thread and the checkpoint thread say to each other.

import type { GroupName } from '../bus/bus.ts';
import type { Damage } from '../damage/damage.ts';
import type { GroupPolicies } from './groups.ts';

export interface CheckpointThreadData {
  readonly directory: string;
  readonly policies: GroupPolicies;
}

export type ToCheckpointThread =
  /** Bring the views up to `upTo`, a durable batch's last sequence. `toServe`: callers wait for it, so it goes before
   *  what is only kept up. */
  | {
      readonly type: 'advance';
      readonly group: GroupName;
      readonly partition: number;
      readonly upTo: number;
      readonly toServe: boolean;
    }
  /** Another node writes this partition now. Answered when nothing is written for it any more. */
  | { readonly type: 'release'; readonly group: GroupName; readonly partition: number }
  /** Remove the rows whose time is over at `now`. */
  | { readonly type: 'sweep'; readonly group: GroupName; readonly partition: number; readonly now: number }
  | { readonly type: 'stop' };

export type FromCheckpointThread =
  /** It has all that it needs to work: program, log and views. */
  | { readonly type: 'started' }
  | {
      readonly type: 'reached';
      readonly group: GroupName;
      readonly partition: number;
      readonly sequence: number;
    }
  | { readonly type: 'released'; readonly group: GroupName; readonly partition: number }
  | { readonly type: 'swept'; readonly group: GroupName; readonly partition: number }
  /** The partition's log cannot be followed. The thread goes on with the others. */
  | ({ readonly type: 'damaged' } & Damage)
  /** The views could not be written. */
  | { readonly type: 'failed'; readonly group: GroupName; readonly partition: number; readonly error: Error };
