// What `replay` and its threads say to each other.

import { LogRewritten, type LogPlace } from '../../wal/batch.ts';
import { LogUnsearchable } from '../../wal/log-reader.ts';
import { asError } from '../../wal/thrown.ts';
import type { PartitionReplayed, Task } from './replay-partition.ts';

export interface ReplayReading {
  /** Open in the process already: its threads share what LMDB knows. */
  readonly directory: string;
  readonly readsViews: boolean;
}

export interface ReplayThreadData extends ReplayReading {
  /** For what it builds; nobody else's. */
  readonly scratch: string;
  /** While others are busy. */
  readonly rests: boolean;
}

export type ToReplayThread =
  | ({ readonly type: 'replay' } & Task)
  /** The task at work, if there is one, is given up. */
  | { readonly type: 'end' };

export type FromReplayThread =
  /** All its files are open: they need no name any more. */
  | { readonly type: 'opened' }
  | { readonly type: 'applied'; readonly batches: number; readonly bytes: number }
  | { readonly type: 'replayed'; readonly replayed: PartitionReplayed }
  | { readonly type: 'failed'; readonly failure: Failure };

/** An error on its way, where it would lose its class and its number. */
export type Failure =
  | { readonly kind: 'rewritten'; readonly at: LogPlace }
  | { readonly kind: 'unsearchable'; readonly message: string }
  | { readonly kind: 'other'; readonly error: Error; readonly code: unknown };

export function failureOf(error: unknown): Failure {
  if (error instanceof LogRewritten) {
    const { group, partition, batch, sequence } = error;
    return { kind: 'rewritten', at: { group, partition, batch, sequence } };
  }
  if (error instanceof LogUnsearchable) return { kind: 'unsearchable', message: error.message };
  return { kind: 'other', error: asError(error), code: Object(error).code };
}

export function errorOf(failure: Failure): Error {
  if (failure.kind === 'rewritten') return new LogRewritten(failure.at);
  if (failure.kind === 'unsearchable') return new LogUnsearchable(failure.message);
  const { error, code } = failure;
  return code === undefined ? error : Object.assign(error, { code });
}
