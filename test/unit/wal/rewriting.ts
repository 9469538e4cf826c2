// A log whose end is cut off and written anew, as a take-over does beside whoever reads it.
import t from 'tap';
import { emptyTip, encodeBatch, tipAt } from '../../../wal/batch.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import type { Tip } from '../../../wal/types.ts';
import { next } from './tool-logs.ts';

export const PLACE = { group: 'accounts', partition: 0 } as const;
const { group, partition } = PLACE;
/** Some turns of the event loop for who reads it. */
export const BATCHES = 1_000;
/** Cut off each time. */
export const CUT = 300;

/** Records of a batch in a history. */
export type RecordsOf = (history: number, batch: number) => readonly string[];
const padded: RecordsOf = (history) => [JSON.stringify({ history, padding: 'x'.repeat(200) })];

let histories = 0;
/** Batches that follow `after`, of a history that no other has. */
function history(after: Tip, count: number, recordsOf: RecordsOf): Buffer[] {
  histories += 1;
  let previous = after;
  return Array.from({ length: count }, () => {
    const records = recordsOf(histories, previous.batch + 1);
    const batch = encodeBatch({
      ...PLACE,
      batch: previous.batch + 1,
      epoch: 1,
      firstSequence: previous.sequence + 1,
      records,
      recordsBytes: records.reduce((sum, record) => sum + Buffer.byteLength(record), 0),
      timeMs: 1,
      previousHash: previous.hash,
    });
    previous = tipAt(batch);
    return batch.bytes;
  });
}

export async function written(
  count: number,
  recordsOf = padded,
): Promise<{ directory: string; log: WriteAheadLog }> {
  const directory = next();
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => t.fail(error.message) });
  await log.appendForeign(group, partition, history(emptyTip, count, recordsOf));
  log.refresh();
  return { directory, log };
}

/** Puts another history in the place of the newest `cut` batches. */
export async function rewrite(
  log: WriteAheadLog,
  cut: number,
  count: number,
  recordsOf = padded,
): Promise<void> {
  log.refresh();
  const kept = log.lastBatchNumber(group, partition) - cut;
  const after = kept === 0 ? emptyTip : tipAt(log.batch(group, partition, kept));
  await log.truncateAfter(group, partition, kept);
  log.refresh();
  await log.appendForeign(group, partition, history(after, count, recordsOf));
}

/** Another history in the place of the newest batches, `turns` of the event loop after `act` has begun. */
export async function rewrittenDuring<T>(
  log: WriteAheadLog,
  turns: number,
  act: () => Promise<T>,
  recordsOf = padded,
): Promise<T> {
  const rewriting = (async () => {
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    // Of another length: the end that a reader knows is the end no longer.
    await rewrite(log, CUT, CUT - 3, recordsOf);
    await rewrite(log, CUT - 3, CUT, recordsOf);
  })();
  const result = await act();
  await rewriting;
  return result;
}

/** While nobody writes in this process: a second handle waits, with the thread, for a transaction that waits for the thread. */
export async function damage(directory: string, batch: number): Promise<void> {
  const database = openLogDatabase({ directory });
  const bytes = Buffer.from(database.getBinary([group, partition, batch]) ?? []);
  bytes[80]! ^= 4;
  await database.put([group, partition, batch], bytes);
  await database.close();
}
