// Which partitions a tool is asked to look at, and the words it says of them.
import { join } from 'node:path';
import { LogCorruption } from '../batch.ts';
import { isHeld } from '../directory-socket.ts';
import { hasLog, hasViews, isLogUnlocked, isPageFault, pageFaultText } from '../lmdb.ts';
import { LogReader } from '../log-reader.ts';
import { messageOf } from '../thrown.ts';
import { nameOf, type PartitionName, type Tip } from '../types.ts';
import { unreadableIn } from '../unreadable.ts';
import { ViewStore } from '../views.ts';
import { letServicesGoFirst } from './priority.ts';
import { numberOf, stringOf, UsageError } from './tool.ts';
import type { ToolInput, ToolOption } from './tool.ts';

export const partitionOptions: Readonly<Record<string, ToolOption>> = {
  group: { type: 'string', value: 'name', help: 'only this group, such as accounts' },
  partition: { type: 'string', value: 'number', help: 'only this partition' },
};

export function assertHasLog(directory: string): void {
  if (hasLog(directory)) return;
  throw new UsageError(`${directory} holds no log: give the data directory with --data`);
}

/** A tool that opens no views after it is to let services go first itself. */
export async function withReader<T>(directory: string, use: (reader: LogReader) => Promise<T>): Promise<T> {
  assertHasLog(directory);
  if (isLogUnlocked(directory) && (await isHeld(directory))) {
    throw new Error(
      `${directory} is mounted read-only and in use by a service: what is read beside it here would not hold. Read it where ` +
        'the service does, or stop that first',
    );
  }
  const reader = await LogReader.openBeside({ directory });
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** Those of `names`, and those that only `others` know. */
export function withOthers(
  names: readonly PartitionName[],
  others: readonly PartitionName[],
): PartitionName[] {
  const known = new Set(names.map(nameOf));
  return [...names, ...others.filter((name) => !known.has(nameOf(name)))];
}

/** How many batches a tool has before it that reads all of these: what was trimmed is not among them. */
export function batchesIn(reader: LogReader, names: readonly PartitionName[]): number {
  return names.reduce((sum, name) => sum + batchesOf(reader, name), 0);
}

function batchesOf(reader: LogReader, { group, partition }: PartitionName): number {
  try {
    const last = reader.lastBatchNumber(group, partition);
    return last === 0 ? 0 : last + 1 - reader.firstBatchNumber(group, partition);
  } catch (error) {
    // Whoever reads it is told.
    if (error instanceof LogCorruption) return 0;
    throw error;
  }
}

/** Of views, which are no loss. */
export class ViewsUnreadable extends Error {
  constructor(directory: string, reason: string) {
    const views = join(directory, 'views');
    super(
      `${views} cannot be read (${reason}): move it away while the service is stopped, the next start makes it anew from the log`,
    );
  }
}

/** `null`: there are no views; they will be rebuilt. Rejects with ViewsUnreadable when they are damaged. The last that a tool
 *  opens: from then on it lets services go first. `readsViews` false: as if there were none. */
export async function withViews<T>(
  directory: string,
  use: (views: ViewStore | null) => Promise<T>,
  readsViews = true,
): Promise<T> {
  let views: ViewStore | null = null;
  try {
    if (readsViews && hasViews(directory)) views = await openViews(directory);
  } finally {
    letServicesGoFirst();
  }
  if (views === null) return use(null);
  try {
    return await use(views);
  } catch (error) {
    // The log's are told as its own.
    if (isPageFault(error)) throw new ViewsUnreadable(directory, pageFaultText(error));
    throw error;
  } finally {
    await views.close();
  }
}

async function openViews(directory: string): Promise<ViewStore> {
  const ending = unreadableIn(directory)?.views ?? null;
  if (ending !== null) throw new ViewsUnreadable(directory, ending);
  try {
    return await ViewStore.openBeside(directory);
  } catch (error) {
    // LMDB's own errors have a number.
    if (typeof Object(error).code !== 'number') throw error;
    throw new ViewsUnreadable(directory, messageOf(error));
  }
}

export function chosen<T extends PartitionName>(all: readonly T[], values: ToolInput['values']): T[] {
  const found = all.filter(isChosenBy(values));
  const group = stringOf(values, 'group');
  const partition = numberOf(values, 'partition');
  if (found.length === 0 && (group !== undefined || partition !== undefined)) {
    throw new UsageError(`there is no partition ${group ?? '*'}/${partition ?? '*'}`);
  }
  return found;
}

export function isChosenBy(values: ToolInput['values']): (name: PartitionName) => boolean {
  const group = stringOf(values, 'group');
  const partition = numberOf(values, 'partition');
  return (one) => (group ?? one.group) === one.group && (partition ?? one.partition) === one.partition;
}

export function timeText(timeMs: number): string {
  return timeMs === 0 ? '-' : new Date(timeMs).toISOString();
}

/** A tip in JSON. */
export function tipReport({ batch, sequence, epoch, timeMs, hash }: Tip): object {
  return { batch, sequence, epoch, time: timeText(timeMs), hash: hash.toString('hex') };
}

export function table(rows: readonly (readonly (string | number | bigint)[])[]): string[] {
  // Not `Math.max(...)`: there may be more rows than a call takes arguments.
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((width, row) => Math.max(width, String(row[column]).length), 0),
  );
  return rows.map((row) =>
    row
      .map((cell, column) =>
        typeof cell === 'string'
          ? cell.padEnd(widths[column] ?? 0)
          : String(cell).padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  );
}
