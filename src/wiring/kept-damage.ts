// Which partitions this node has refused because its log of them is damaged, kept beside the log until a check finds them whole:
// a node that starts must not take such a partition until its check of everything comes to the damage again.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GroupName } from '../bus/bus.ts';

export interface KeptPartition {
  readonly group: GroupName;
  readonly partition: number;
}

const FILE = 'damaged.json';

export function readKept(directory: string): KeptPartition[] {
  try {
    return JSON.parse(readFileSync(join(directory, FILE), 'utf8')) as KeptPartition[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** On disk when it returns: whole, or not at all. */
export function keep(directory: string, partitions: readonly KeptPartition[]): void {
  const file = join(directory, FILE);
  if (partitions.length === 0) return rmSync(file, { force: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(partitions)}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
}
