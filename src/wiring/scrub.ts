// The main thread's end of the scrub thread.

import { Worker } from 'node:worker_threads';
import type { Damage } from './damage.ts';
import type { ScrubThreadData } from './scrub-thread.ts';

export class Scrub {
  readonly #directory: string;
  readonly #onDamage: (damage: Damage) => void;
  #worker: Worker | null = null;

  constructor(directory: string, onDamage: (damage: Damage) => void) {
    this.#directory = directory;
    this.#onDamage = onDamage;
  }

  /** Checks the whole log once; resolves when done. Nothing when a check is under way. */
  run(): Promise<void> {
    if (this.#worker !== null) return Promise.resolve();
    const workerData: ScrubThreadData = { directory: this.#directory };
    const worker = new Worker(new URL('scrub-thread.ts', import.meta.url), { workerData });
    this.#worker = worker;
    worker.on('message', (damage: Damage) => this.#onDamage(damage));
    return new Promise((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', () => {
        this.#worker = null;
        resolve();
      });
    });
  }

  async stop(): Promise<void> {
    await this.#worker?.terminate();
  }
}
