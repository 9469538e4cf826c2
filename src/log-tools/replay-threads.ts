// Replays many partitions at once, by a thread for each core.

import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { asError } from '../../wal/thrown.ts';
import { letsOthersGoFirst } from '../../wal/tools/priority.ts';
import type { Progress } from '../../wal/tools/progress.ts';
import { withTemporary } from '../../wal/tools/temporary.ts';
import { LIMITS } from '../limits.ts';
import { SCRATCH_PREFIX } from './rebuild.ts';
import type { PartitionReplayed, Task } from './replay-partition.ts';
import {
  errorOf,
  type FromReplayThread,
  type ReplayReading,
  type ReplayThreadData,
  type ToReplayThread,
} from './replay-protocol.ts';

/** What was found of each task, in their order. `scratch`: where the threads build; null: the system's temporary directory. Rejects with
 *  the first error; then nothing is at work any more. */
export async function replayByThreads(
  tasks: readonly Task[],
  count: number,
  reading: ReplayReading,
  scratch: string | null,
  progress: Pick<Progress, 'add'>,
): Promise<PartitionReplayed[]> {
  const replayed: PartitionReplayed[] = [];
  const threads: ReplayThread[] = [];
  // The longest first, so that the threads end together.
  const left = [...tasks.entries()].toSorted(([, one], [, other]) => other.records - one.records);
  const work = async (thread: ReplayThread): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [at, task] = next;
      replayed[at] = await thread.replay(task);
    }
  };
  const open = async (directory: string): Promise<void> => {
    for (let n = 0; n < count; n++) {
      const data = { ...reading, scratch: join(directory, String(n)), rests: letsOthersGoFirst() };
      threads.push(new ReplayThread(data, progress));
    }
    await Promise.all(threads.map(({ opened }) => opened));
  };
  try {
    // Open files need no name: before any of them grows, all of their names are gone.
    await withTemporary(SCRATCH_PREFIX, open, scratch ?? undefined);
    await Promise.all(threads.map(work));
  } finally {
    await Promise.all(threads.map((thread) => thread.end()));
  }
  return replayed;
}

class ReplayThread {
  /** Rejects when the thread ends before. */
  readonly opened: Promise<void>;
  readonly #opening = Promise.withResolvers<void>();
  readonly #worker: Worker;
  readonly #progress: Pick<Progress, 'add'>;
  readonly #exited: Promise<void>;
  /** The task at work. */
  #task: PromiseWithResolvers<PartitionReplayed> | null = null;
  /** Why it has ended. */
  #failure: Error | null = null;

  constructor(workerData: ReplayThreadData, progress: Pick<Progress, 'add'>) {
    this.#progress = progress;
    this.opened = this.#opening.promise;
    this.#worker = new Worker(new URL('replay-thread.ts', import.meta.url), {
      workerData,
      // As the checkpoint thread's, for the same work.
      resourceLimits: { maxYoungGenerationSizeMb: LIMITS.checkpointYoungGenerationMb },
    });
    this.#worker.on('message', (message: FromReplayThread) => this.#hear(message));
    this.#worker.on('error', (error) => this.#fail(asError(error)));
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', () => {
        this.#fail(new Error('a thread of the replay has ended'));
        resolve();
      });
    });
  }

  /** One at a time. */
  replay(task: Task): Promise<PartitionReplayed> {
    this.#task = Promise.withResolvers();
    const { promise } = this.#task;
    if (this.#failure === null) this.#tell({ type: 'replay', ...task });
    else this.#task.reject(this.#failure);
    return promise;
  }

  /** What it is at is given up, once what it writes has ended. */
  async end(): Promise<void> {
    this.#tell({ type: 'end' });
    await this.#exited;
  }

  #hear(message: FromReplayThread): void {
    if (message.type === 'opened') this.#opening.resolve();
    else if (message.type === 'applied') this.#progress.add(message.batches, message.bytes);
    else if (message.type === 'failed') this.#task?.reject(errorOf(message.failure));
    else this.#task?.resolve(message.replayed);
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#opening.reject(this.#failure);
    this.#task?.reject(this.#failure);
  }

  #tell(message: ToReplayThread): void {
    this.#worker.postMessage(message);
  }
}
