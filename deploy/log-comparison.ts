// Whether the logs of several nodes are one: whoever has the same batch of a partition has the same bytes.

import { LogReader } from '../wal/log-reader.ts';
import { type Batch, nameOf, type PartitionName, type Tip } from '../wal/types.ts';

/** Compares the logs of stopped or running nodes, partition by partition. */
export async function checkReplicas(directories: readonly string[]): Promise<string[]> {
  const findings: string[] = [];
  const readers = await Promise.all(
    directories.map(async (directory) => ({ directory, log: await LogReader.openBeside({ directory }) })),
  );
  const names = new Map(
    readers.flatMap(({ log }) => log.partitionNames()).map((name) => [nameOf(name), name]),
  );
  for (const [key, name] of names) {
    // Every log is read and proved by its own chain; where two have the same batch it must be the same batch.
    const seen = new Map<number, Seen>();
    for (const reader of readers) {
      const finding = compareLog(reader, name, seen);
      if (finding !== null) findings.push(`${key}: ${finding}`);
    }
  }
  for (const { log } of readers) await log.close();
  return findings;
}

interface Seen {
  readonly hash: string;
  readonly directory: string;
}

/** Proven batch by batch. What the log begins after is of the chain, too: from a snapshot on, two logs may have nothing else
 *  in common. */
function* chainOf(
  log: LogReader,
  { group, partition }: PartitionName,
): Generator<Pick<Tip, 'batch' | 'hash'>> {
  const start = log.startOf(group, partition);
  if (start.batch > 0) yield start;
  let last: Batch | null = null;
  for (const batch of log.read(group, partition, { afterBatch: start.batch })) {
    if (last !== null) yield last;
    last = batch;
  }
  // A node that lost the partition as it opened an epoch has that batch alone, until it follows again: nothing is in it.
  if (last !== null && last.records.length > 0) yield last;
}

function compareLog(
  { directory, log }: { readonly directory: string; readonly log: LogReader },
  name: PartitionName,
  seen: Map<number, Seen>,
): string | null {
  try {
    for (const { batch, hash } of chainOf(log, name)) {
      const own = { hash: hash.toString('hex'), directory };
      const other = seen.get(batch) ?? own;
      if (other.hash !== own.hash) {
        return `batch ${batch} differs between ${other.directory} and ${directory}`;
      }
      seen.set(batch, other);
    }
    return null;
  } catch (error) {
    return `${directory}: ${(error as Error).message}`;
  }
}
