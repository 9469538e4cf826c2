// The program of end-process.test.ts: ends while a thread of it stands in the middle of a batch, and another one, of lmdb-js,
// waits for the rest: as it does by itself, if not told to begin when a batch is whole (wal/lmdb.ts).

import { open } from 'lmdb';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { endProcess } from '../../src/end-process.ts';

if (isMainThread) {
  const directory = process.argv[2]!;
  process.on('exit', (status) => writeFileSync(join(directory, 'status'), String(status)));
  const worker = new Worker(new URL(import.meta.url), { workerData: directory });
  worker.on('message', () => endProcess(3));
} else {
  const path = join(workerData as string, 'log');
  const database = open<string, string>({ path, overlappingSync: false, eventTurnBatching: false });
  void database.batch(() => {
    // More than lmdb-js keeps before it begins to write.
    for (let n = 0; n < 10_000; n++) void database.put(`key ${n}`, 'value');
    parentPort!.postMessage('in the batch');
    for (;;);
  });
}
