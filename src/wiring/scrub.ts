// The main thread's end of the scrub threads.

import { Worker } from 'node:worker_threads';
import type { GroupName } from '../bus/bus.ts';
import type { Damage } from './damage.ts';
import { asError } from '../../wal/thrown.ts';
import type { ScrubbedPartition, ScrubThreadData } from './scrub-thread.ts';

export class Scrub {
  readonly #directory: string;
  readonly #onDamage: (damage: Damage) => void;
  /** Shared with the threads. */
  readonly #stopping = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  #running: Promise<void> | null = null;
  #checking: Promise<void> | null = null;
  /** To be checked when what is checked now is done. */
  readonly #asked = new Map<string, ScrubbedPartition>();

  constructor(directory: string, onDamage: (damage: Damage) => void) {
    this.#directory = directory;
    this.#onDamage = onDamage;
  }

  /** Checks the whole log once; resolves when done. One at a time: asked for again meanwhile, it is the same. */
  run(): Promise<void> {
    this.#running ??= this.#read(null).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Checks one partition without waiting for a check of them all; resolves when done. */
  check(group: GroupName, partition: number): Promise<void> {
    this.#asked.set(`${group}/${partition}`, { group, partition });
    this.#checking ??= this.#checkAsked().finally(() => {
      this.#checking = null;
    });
    return this.#checking;
  }

  /** Each thread ends by itself: one that is ended in LMDB's native code, its loading included, aborts the whole process. */
  async stop(): Promise<void> {
    this.#asked.clear();
    Atomics.store(this.#stopping, 0, 1);
    await Promise.allSettled([this.#running, this.#checking]);
  }

  async #checkAsked(): Promise<void> {
    while (this.#asked.size > 0) {
      const partitions = [...this.#asked.values()];
      this.#asked.clear();
      await this.#read(partitions);
    }
  }

  /** Null: all. */
  #read(partitions: readonly ScrubbedPartition[] | null): Promise<void> {
    const workerData: ScrubThreadData = { directory: this.#directory, partitions, stopping: this.#stopping };
    const worker = new Worker(new URL('scrub-thread.ts', import.meta.url), { workerData });
    worker.on('message', (damage: Damage) => this.#onDamage(damage));
    return new Promise((resolve, reject) => {
      let failure: Error | null = null;
      worker.once('error', (error) => {
        failure = asError(error);
      });
      worker.once('exit', () => {
        if (failure === null) resolve();
        else reject(failure);
      });
    });
  }
}
