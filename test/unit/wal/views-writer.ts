// A worker thread that writes views, as a checkpoint does, and says what it has committed.
import { parentPort, workerData } from 'node:worker_threads';
import { ViewStore } from '../../../wal/views.ts';

const { directory, commits } = workerData as { directory: string; commits: number };
const store = ViewStore.open({ directory });
for (let sequence = 1; sequence <= commits; sequence += 1) {
  const rows = Array.from({ length: 100 }, (_, n) => ({ table: 't', key: `key ${n}`, value: `${sequence}` }));
  await store.commit('accounts', 0, { sequence, batch: sequence, hash: Buffer.alloc(32) }, rows);
  parentPort?.postMessage(sequence);
}
await store.close();
