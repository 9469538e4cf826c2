// What the tests of the tools share: places for logs, a writer that flushes turn by turn, and the tools run on them.
import { appendFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { groupOf } from '../../../src/log-tools/data.ts';
import { WAL_LIMITS } from '../../../wal/limits.ts';
import type { LogDatabase } from '../../../wal/lmdb.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import type { PartitionLog } from '../../../wal/partition-log.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { ViewStore } from '../../../wal/views.ts';
import { walTools } from '../../../wal/tools/all.ts';
import { runTool } from './run-tool.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

export const root = temporaryDirectory(t);
let made = 0;
/** A place that is not there yet. */
export const next = (): string => join(root, `${(made += 1)}`);

export function tool(name: string, ...args: string[]) {
  return runTool(walTools, name, ...args);
}

export async function toolJson(name: string, ...args: string[]) {
  const { status, out, err } = await tool(name, ...args, '--json');
  return { status, err, report: out === '' ? null : JSON.parse(out) };
}

/** A flush of its own for each turn, with the time it is given. */
export async function write(
  directory: string,
  turns: number,
  options: { atMs?: number; epoch?: number } = {},
): Promise<void> {
  let nowMs = options.atMs ?? Date.parse('2026-11-21T09:00:00Z');
  const log = WriteAheadLog.open({
    directory,
    now: () => nowMs,
    onFailure: (error) => t.fail(error.message),
  });
  const open = (group: string, partition: number): PartitionLog =>
    log.openPartition(group, partition, { epoch: options.epoch ?? 1, replica: null, onDurable: () => {} });
  const partitions = [open('accounts', 0), open('accounts', 1), open('webhooks', 0)];
  for (const partition of partitions) await partition.drained();
  for (let turn = 1; turn <= turns; turn += 1) {
    nowMs += 1000;
    for (const partition of partitions) {
      for (let n = 0; n < 3; n += 1) {
        partition.append(
          JSON.stringify({
            group: partition.group,
            sequence: partition.appended + 1,
            ü: 'x'.repeat(turn * 40),
          }),
        );
      }
    }
    await Promise.all(partitions.map((partition) => partition.drained()));
  }
  await log.close();
}

export function tips(directory: string): Promise<unknown> {
  const reader = LogReader.openReader({ directory });
  const found = reader.partitions();
  return reader.close().then(() => found);
}

/** So large that the next to add something begins another part: it means the same. */
export function growManifest(directory: string): void {
  appendFileSync(join(directory, 'manifest.json'), ' '.repeat(WAL_LIMITS.manifestBytes));
}

/** A batch of accounts/1. */
export const key = (batch: number): [string, number, number] => ['accounts', 1, batch];
export const bytesAt = (database: LogDatabase, batch: number): Buffer =>
  Buffer.from(database.getBinary(key(batch)) ?? []);

/** As this version makes them, but for the rows. */
export async function checkpointAll(directory: string): Promise<void> {
  const reader = LogReader.openReader({ directory });
  const views = ViewStore.open({ directory });
  for (const { group, partition, tip } of reader.partitions()) {
    const value = String(groupOf(group).viewsFormat);
    await views.commit(group, partition, tip, [{ table: 'format', key: '', value }]);
  }
  await views.close();
  await reader.close();
}

export function segmentIn(directory: string, partition: string): string {
  return join(directory, readdirSync(directory).find((name) => name.startsWith(partition)) ?? '');
}
