// Entry of the checkpoint thread: follows the log of this process and writes the views (actors/runtime/checkpointer.ts).
// While the commit of one partition is on its way to the disk, another one is applied. A partition that is asked for again meanwhile
// goes to the newest sequence asked for. Partitions that are to be served go first: behind a long log that is only prepared here, their
// callers would wait as long. But one of the others always has its turn, after each commit the next: where the views of long logs are
// made for minutes, those of what is served meanwhile would lag until its commands were refused.

import { parentPort, workerData } from 'node:worker_threads';
import { Checkpointer } from '../../actors/runtime/checkpointer.ts';
import { LogCorruption } from '../../wal/batch.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { nameOf } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import type {
  CheckpointThreadData,
  FromCheckpointThread,
  ToCheckpointThread,
} from './checkpoint-protocol.ts';
import { CheckpointRests } from './checkpoint-rests.ts';
import type { GroupName, PartitionPlace } from '../bus/bus.ts';
import { RecordUnreadable } from '../domain/event-codec.ts';
import { LIMITS } from '../limits.ts';
import { damageOf } from '../damage/damage.ts';
import { groupNamed, groupsWithLog } from './groups.ts';
import { lacksHistory } from './history.ts';

type Sweep = Extract<ToCheckpointThread, { type: 'sweep' }>;
type Advance = Extract<ToCheckpointThread, { type: 'advance' }>;

const { directory, policies } = workerData as CheckpointThreadData;
const port = parentPort!;
const log = LogReader.openReader({ directory });
const views = ViewStore.open({ directory });
const groups = groupsWithLog(policies);
const rests = new CheckpointRests();
const checkpointer = new Checkpointer(
  groups,
  {
    read: (group, partition, after) => log.read(group, partition, { afterBatch: after.batch }),
  },
  views,
  rests,
);

/** Newest wish of each partition, oldest partition first. */
const wishes = new Map<string, Advance>();
let sweeps: Sweep[] = [];
/** Partitions being advanced, and whether to serve them. */
const advancing = new Map<string, boolean>();
/** Releases that wait for the commit in progress. */
const releases = new Map<string, number>();
/** The partition whose rows are looked through. */
let sweeping: string | null = null;
/** Lets the sweep go on; null: it is at work, or there is none. */
let goOn: (() => void) | null = null;
/** How often partitions were advanced since the last portion of a sweep. */
let advances = 0;
let stopping = false;

port.on('message', (message: ToCheckpointThread) => {
  if (message.type === 'stop') {
    stopping = true;
    rests.hurry();
    wishes.clear();
    sweeps = [];
    checkpointer.endSweep();
  } else if (message.type === 'release') {
    const key = nameOf(message);
    wishes.delete(key);
    for (const each of sweeps) if (nameOf(each) === key) tellSwept(each);
    sweeps = sweeps.filter((each) => nameOf(each) !== key);
    checkpointer.release(message.group, message.partition);
    releases.set(key, (releases.get(key) ?? 0) + 1);
    if (!advancing.has(key) && sweeping !== key) tellReleased(message);
  } else if (message.type === 'sweep') {
    sweeps.push(message);
  } else {
    want(message);
  }
  startNext();
});
tell({ type: 'started' });

/** Together with what is wanted of the partition already. */
function want(wish: Advance): void {
  if (wish.toServe) rests.hurry();
  else if (wishes.size === 0 && advancing.size === 0) rests.beginRound();
  const key = nameOf(wish);
  const { upTo = 0, toServe = false } = wishes.get(key) ?? {};
  wishes.set(key, { ...wish, upTo: Math.max(upTo, wish.upTo), toServe: toServe || wish.toServe });
}

function startNext(): void {
  // Whoever let go of its partition waits for its end, and is not to wait for the views of others.
  if (goOn !== null && !checkpointer.isSweeping) endRest(goOn);
  if (sweeping !== null && goOn === null) return;
  // Where checkpoints never end, old rows would never go. The others are waited for: a portion has the views to itself.
  const isSweepsTurn = advances >= LIMITS.checkpointsPerSweepPortion && (goOn !== null || sweeps.length > 0);
  for (const toServe of isSweepsTurn ? [true] : [true, false]) {
    for (const [key, wish] of wishes) {
      if (isFull(toServe)) break;
      if (wish.toServe === toServe && !advancing.has(key)) start(key, wish);
    }
  }
  if (advancing.size > 0 || (wishes.size > 0 && !isSweepsTurn)) return;
  // One sweep at a time, and a portion of it when nobody waits for a checkpoint, or many have had theirs.
  advances = 0;
  if (goOn !== null) endRest(goOn);
  else if (stopping) void close();
  else if (sweeps.length > 0) void sweep(sweeps.shift()!);
}

function isFull(toServe: boolean): boolean {
  if (toServe) return underWay(true) >= LIMITS.checkpointsAtOnce;
  return advancing.size >= LIMITS.checkpointsAtOnce && underWay(false) > 0;
}

function underWay(toServe: boolean): number {
  return [...advancing.values()].filter((each) => each === toServe).length;
}

function start(key: string, wish: Advance): void {
  wishes.delete(key);
  advances += 1;
  advancing.set(key, wish.toServe);
  log.refresh();
  // The main thread may have dropped them since this one read last, in the same turn of its event loop.
  views.refresh();
  void advance(wish).then((isThere) => {
    advancing.delete(key);
    tellReleased(wish);
    // Behind those that wait.
    if (!isThere && !stopping) want(wish);
    startNext();
  });
}

function tellReleased({ group, partition }: PartitionPlace): void {
  const key = nameOf({ group, partition });
  for (let left = releases.get(key) ?? 0; left > 0; left--) tell({ type: 'released', group, partition });
  releases.delete(key);
}

async function sweep(asked: Sweep): Promise<void> {
  sweeping = nameOf(asked);
  await checkpointer.sweep(asked.group, asked.partition, asked.now, rest);
  tellSwept(asked);
  // Advanced while the sweep rested, it may be written yet: the end of that is told.
  if (!advancing.has(sweeping)) tellReleased(asked);
  sweeping = null;
  startNext();
}

/** Of a sweep: what has been asked for meanwhile is heard, and done first. */
function rest(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(() => {
      goOn = resolve;
      startNext();
    });
  });
}

function endRest(resume: () => void): void {
  goOn = null;
  resume();
}

function tellSwept({ group, partition }: PartitionPlace): void {
  tell({ type: 'swept', group, partition });
}

async function close(): Promise<void> {
  await views.close();
  await log.close();
  port.close();
}

/** Resolves with false where a rest was left for later, or for the next start. */
async function advance({ group, partition, upTo, toServe }: Advance): Promise<boolean> {
  const onReached = (sequence: number): void => tell({ type: 'reached', group, partition, sequence });
  const mustWait = (): boolean => stopping || (!toServe && wishes.size > 0);
  try {
    if (!checkpointer.follows(group, partition)) assertHistory(group, partition);
    return await checkpointer.advance(group, partition, upTo, onReached, mustWait);
  } catch (error) {
    tell(whatEnded({ group, partition }, error));
    return true;
  }
}

function whatEnded(place: PartitionPlace, error: unknown): FromCheckpointThread {
  const damage = damageOf(error);
  if (damage !== null) return { type: 'damaged', ...damage };
  if (error instanceof RecordUnreadable) return { type: 'unreadable', ...place, why: error.message };
  return { type: 'failed', ...place, error: error as Error };
}

/** Views that cannot be made anew are not dropped: after a trim they are the only copy of what was before. */
function assertHistory(group: GroupName, partition: number): void {
  if (!lacksHistory(log, views, groupNamed(groups, group), partition)) return;
  const { batch, sequence } = log.startOf(group, partition);
  throw new LogCorruption(
    { group, partition, batch, sequence },
    'what was before was trimmed, and its views are gone or of another version: put it back with "npm run wal -- import ' +
      '--from <archive>" while the service is stopped',
  );
}

function tell(message: FromCheckpointThread): void {
  port.postMessage(message);
}
