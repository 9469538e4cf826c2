// A worker thread that takes the lock of one directory after another, each at the same moment as the other takers, and says
// of which it has got it. It keeps all it gets.
import { parentPort, workerData } from 'node:worker_threads';
import { WriterLock } from '../../../wal/writer-lock.ts';

const { directories, arrived, takers } = workerData as {
  directories: string[];
  /** How many takers have come to each directory. */
  arrived: Int32Array;
  takers: number;
};
const taken = directories.map((directory, index) => {
  Atomics.add(arrived, index, 1);
  // Awake: whoever is woken comes too late.
  while (Atomics.load(arrived, index) < takers);
  try {
    WriterLock.take(directory);
    return true;
  } catch (error) {
    if (error instanceof Error && /is being written by process/.test(error.message)) return false;
    throw error;
  }
});
parentPort?.postMessage(taken);
