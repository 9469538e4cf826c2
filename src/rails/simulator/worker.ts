// The thread that thread.ts starts: runs the simulator until it is told to close.

import { parentPort, workerData } from 'node:worker_threads';
import { type SimulatorOptions, startSimulator } from './server.ts';
import type { ThreadMessage } from './thread.ts';

const port = parentPort;
if (port === null) throw new Error('worker.ts runs as a thread of thread.ts');
const say = (message: ThreadMessage): void => port.postMessage(message);

try {
  const simulator = await startSimulator(workerData as SimulatorOptions);
  say({ type: 'listening', url: simulator.url });
  port.once('message', () => {
    void simulator.close().then(() => port.close());
  });
} catch (error) {
  say({ type: 'failed', reason: (error as Error).message });
  port.close();
}
