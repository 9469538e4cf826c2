// Entry of a thread of `replay`: rebuilds one partition after the other, in views of its own.

import { parentPort, workerData } from 'node:worker_threads';
import { LogReader } from '../../wal/log-reader.ts';
import { restBesideOthers } from '../../wal/tools/priority.ts';
import { ViewStore } from '../../wal/views.ts';
import { LIMITS } from '../limits.ts';
import { Rebuild } from './rebuild.ts';
import { replayPartition, type Task } from './replay-partition.ts';
import {
  failureOf,
  type FromReplayThread,
  type ReplayThreadData,
  type ToReplayThread,
} from './replay-protocol.ts';

const { directory, scratch, readsViews, rests } = workerData as ReplayThreadData;
const port = parentPort!;
let isBusy = false;
let isEnding = false;
/** Not told yet. */
let applied = { batches: 0, bytes: 0 };
let toldAtMs = 0;

if (rests) restBesideOthers();
const log = LogReader.openReader({ directory });
const views = readsViews ? ViewStore.open({ directory, readOnly: true }) : null;
const built = ViewStore.open({ directory: scratch, temporary: true });
const rebuild = new Rebuild(log, built, { add: onApplied });

port.on('message', (message: ToReplayThread) => {
  if (message.type === 'replay') void replay(message);
  else if (isBusy) isEnding = true;
  else void close();
});
tell({ type: 'opened' });

async function replay(task: Task): Promise<void> {
  isBusy = true;
  try {
    const replayed = await replayPartition({ log, views }, rebuild, task);
    tellApplied();
    tell({ type: 'replayed', replayed });
  } catch (error) {
    tell({ type: 'failed', failure: failureOf(error) });
  }
  isBusy = false;
  if (isEnding) await close();
}

/** Between two batches: here a task is given up of which nobody hears the end. */
function onApplied(batches: number, bytes: number): void {
  if (isEnding) throw new Error('the replay has ended');
  applied = { batches: applied.batches + batches, bytes: applied.bytes + bytes };
  if (performance.now() - toldAtMs >= LIMITS.logToolThreadTellsMs) tellApplied();
}

function tellApplied(): void {
  tell({ type: 'applied', ...applied });
  applied = { batches: 0, bytes: 0 };
  toldAtMs = performance.now();
}

async function close(): Promise<void> {
  await rebuild.close();
  await views?.close();
  await log.close();
  port.close();
}

function tell(message: FromReplayThread): void {
  port.postMessage(message);
}
