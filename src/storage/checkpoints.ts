// The main thread's end of the checkpoint thread: asks for sequences, and tells who waits that they are reached.

import { Worker } from 'node:worker_threads';
import type { LogCorruption } from '../../wal/batch.ts';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
import type {
  CheckpointThreadData,
  FromCheckpointThread,
  ToCheckpointThread,
} from './checkpoint-protocol.ts';
import { OtherFormatError } from '../data-directory/identity.ts';
import { corruptionOf } from '../damage/damage.ts';
import type { GroupPolicies } from './groups.ts';
import { asError } from '../../wal/thrown.ts';

interface Waiting {
  readonly upTo: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export interface Follower {
  reached(sequence: number): void;
  /** The partition's log cannot be followed any further. */
  damaged(error: LogCorruption): void;
}

export class Checkpoints {
  readonly #worker: Worker;
  /** Resolves when the thread is at work, or has ended. Before that it opens files, which callers may leave it none for. */
  readonly started: Promise<void>;
  readonly #onStarted: () => void;
  readonly #exited: Promise<void>;
  readonly #followers = new Map<string, Follower>();
  readonly #sweeping = new Map<string, ((isAlive: boolean) => void)[]>();
  readonly #releasing = new Map<string, (() => void)[]>();
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #onFailure: (error: Error) => void;
  #stopping = false;
  #hasEnded = false;

  /** `onFailure`: the thread died, or cannot write; memory would grow for ever, so the process must stop. */
  constructor(directory: string, policies: GroupPolicies, onFailure: (error: Error) => void) {
    this.#onFailure = onFailure;
    const { promise, resolve: onStarted } = Promise.withResolvers<void>();
    this.started = promise;
    this.#onStarted = onStarted;
    const workerData: CheckpointThreadData = { directory, policies };
    this.#worker = new Worker(new URL('checkpoint-thread.ts', import.meta.url), {
      workerData,
      // Rows live for a whole commit: a small young generation would copy each of them twice.
      resourceLimits: { maxYoungGenerationSizeMb: LIMITS.checkpointYoungGenerationMb },
    });
    this.#worker.on('message', (message: FromCheckpointThread) => this.#hear(message));
    this.#worker.on('error', (error) => {
      this.#fail(asError(error));
    });
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', () => {
        this.#hasEnded = true;
        this.#fail(hasEnded());
        resolve();
      });
    });
  }

  /** From now on `follower` hears of every checkpoint of this partition. */
  follow(group: GroupName, partition: number, follower: Follower): void {
    this.#followers.set(`${group}/${partition}`, follower);
  }

  /** Resolves when the thread writes nothing more for it. */
  release(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    this.#followers.delete(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#hasEnded) resolve();
    else this.#releasing.set(key, [...(this.#releasing.get(key) ?? []), resolve]);
    this.#tell({ type: 'release', group, partition });
    // The thread forgets what was asked of it.
    const waiting = this.#waiting.get(key) ?? [];
    this.#waiting.delete(key);
    for (const { reject } of waiting) reject(new Error(`${key} was let go before its views were there`));
    return promise;
  }

  request(group: GroupName, partition: number, upTo: number): void {
    this.#tell({ type: 'advance', group, partition, upTo, toServe: false });
  }

  /** Resolves when the rows whose time is over at `now` are gone, or the rest is left for another time; with false where the thread has
   *  ended: the views may be closed by then. */
  sweep(group: GroupName, partition: number, now: number): Promise<boolean> {
    if (this.#hasEnded) return Promise.resolve(false);
    return new Promise((resolve) => {
      const key = `${group}/${partition}`;
      this.#sweeping.set(key, [...(this.#sweeping.get(key) ?? []), resolve]);
      this.#tell({ type: 'sweep', group, partition, now });
    });
  }

  /** Resolves when the views have reached `upTo`; rejects when the log up to there is damaged, or the thread has ended. `toServe`: not
   *  after what is only kept up. */
  advance(group: GroupName, partition: number, upTo: number, toServe: boolean): Promise<void> {
    if (this.#hasEnded) return Promise.reject(hasEnded());
    return new Promise((resolve, reject) => {
      const key = `${group}/${partition}`;
      const waiting = this.#waiting.get(key) ?? [];
      waiting.push({ upTo, resolve, reject });
      this.#waiting.set(key, waiting);
      this.#tell({ type: 'advance', group, partition, upTo, toServe });
    });
  }

  /** Finishes the commit in progress. */
  async close(): Promise<void> {
    this.#stopping = true;
    this.#tell({ type: 'stop' });
    await this.#exited;
  }

  #tell(message: ToCheckpointThread): void {
    this.#worker.postMessage(message);
  }

  #hear(message: FromCheckpointThread): void {
    if (message.type === 'started') return this.#onStarted();
    const key = `${message.group}/${message.partition}`;
    if (message.type === 'swept') {
      this.#sweeping.get(key)?.shift()?.(true);
    } else if (message.type === 'released') {
      this.#releasing.get(key)?.shift()?.();
    } else if (message.type === 'damaged') {
      const error = corruptionOf(message);
      for (const each of this.#waiting.get(key) ?? []) each.reject(error);
      this.#waiting.delete(key);
      this.#followers.get(key)?.damaged(error);
    } else if (message.type === 'unreadable') {
      const said = `the log of ${key} has a record that this version cannot read: ${message.why}`;
      this.#fail(new OtherFormatError(`${said}. Start the version that wrote it, or a newer one.`));
    } else if (message.type === 'failed') {
      this.#fail(message.error);
    } else {
      this.#followers.get(key)?.reached(message.sequence);
      this.#resolve(key, message.sequence);
    }
  }

  #fail(error: Error): void {
    for (const waiting of [...this.#waiting.values()].flat()) waiting.reject(error);
    this.#waiting.clear();
    for (const resolve of [...this.#releasing.values()].flat()) resolve();
    this.#releasing.clear();
    for (const resolve of [...this.#sweeping.values()].flat()) resolve(false);
    this.#sweeping.clear();
    this.#onStarted();
    if (!this.#stopping) this.#onFailure(error);
  }

  #resolve(key: string, sequence: number): void {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return;
    const left = waiting.filter((each) => each.upTo > sequence);
    for (const each of waiting) if (each.upTo <= sequence) each.resolve();
    if (left.length === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, left);
  }
}

function hasEnded(): Error {
  return new Error('the checkpoint thread has ended');
}
