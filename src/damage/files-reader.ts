// Reads the log or the views to the end, as a process of its own that may end of it: node files-reader.ts <data directory>
// <log | views> <partition> …. Before each step it says on standard output what it is about to read; what it dies of is what it said
// last (files-proof.ts). What is damaged and can be told as an error is none of its business, in the log: whoever reads that is
// told. Views are not proven by anything, so theirs is.

import { messageOf } from '../../wal/thrown.ts';
import { LogCorruption } from '../../wal/batch.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { placeOf } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import type { Place } from './files-proof.ts';
import { say, sayReady, UNREADABLE } from './reader-process.ts';

const [directory = '', which, ...names] = process.argv.slice(2);
sayReady();

if (which === 'log') await readLog();
else await readViews();

async function readLog(): Promise<void> {
  const log = await LogReader.openBeside({ directory });
  // Those that are not there are found empty: to search for them may end this, too.
  for (const { group, partition } of names.map(placeOf)) readPartition(log, group, partition);
  await log.close();
}

function readPartition(log: LogReader, group: string, partition: number): void {
  const about = (batch: number): void => say({ group, partition, batch } satisfies Place);
  about(0);
  const start = orDamaged(() => log.startOf(group, partition));
  let batch = (start?.batch ?? 0) + 1;
  const isThere = (): boolean => {
    about(batch);
    return orDamaged(() => log.bytesOf(group, partition, batch)) !== undefined;
  };
  while (isThere()) batch += 1;
  // Searches, which look at the pages beside, too.
  orDamaged(() => log.firstBatchNumber(group, partition));
  orDamaged(() => log.lastBatchNumber(group, partition));
}

/** undefined: whoever reads it is told that it is damaged. */
function orDamaged<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof LogCorruption) return undefined;
    throw error;
  }
}

async function readViews(): Promise<void> {
  try {
    const views = await ViewStore.openBeside(directory);
    views.readAll();
    // How far each reaches.
    views.partitionNames();
    await views.close();
  } catch (error) {
    // LMDB's own errors have a number. Another one is a bug of ours, which says nothing about the file.
    if (typeof (error as { code?: unknown }).code !== 'number') throw error;
    process.stderr.write(`${messageOf(error)}\n`);
    process.exitCode = UNREADABLE;
  }
}
