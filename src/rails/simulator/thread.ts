// The simulator in a thread of its own, so that what plays the outside does not share the ledger's event loop.

import { Worker } from 'node:worker_threads';
import type { Simulator, SimulatorOptions } from './server.ts';

export type ThreadMessage =
  { readonly type: 'listening'; readonly url: string } | { readonly type: 'failed'; readonly reason: string };

export class SimulatorCannotStart extends Error {
  constructor(reason: string) {
    super(`the simulator cannot start: ${reason}; SIMULATOR_PORT chooses its port`);
    this.name = 'SimulatorCannotStart';
  }
}

/** Rejects when it cannot listen. `onDied`: the thread ended by itself, which is a bug of it. */
export function startSimulatorThread(
  options: SimulatorOptions,
  onDied: (error: Error) => void,
): Promise<Simulator> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: options });
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  let closing = false;

  return new Promise((resolve, reject) => {
    const died = (error: Error): void => {
      reject(error);
      if (!closing) onDied(error);
    };
    worker.on('error', died);
    worker.on('exit', (status) => {
      if (!closing) died(new Error(`the simulator's thread ended with status ${status}`));
    });
    worker.on('message', (message: ThreadMessage) => {
      if (message.type === 'failed') {
        closing = true;
        reject(new SimulatorCannotStart(message.reason));
        return;
      }
      resolve({
        url: message.url,
        close: () => {
          closing = true;
          worker.postMessage('close');
          return exited;
        },
      });
    });
  });
}
