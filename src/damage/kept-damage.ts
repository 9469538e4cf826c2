// Which partitions this node has refused because its log of them is damaged, kept beside the log until a check finds them whole:
// a node that starts must not take such a partition until its check of everything comes to the damage again.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { GroupName } from '../bus/bus.ts';
import { writeWholeFile } from '../data-directory/whole-file.ts';

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

export function keep(directory: string, partitions: readonly KeptPartition[]): void {
  const file = join(directory, FILE);
  if (partitions.length === 0) return rmSync(file, { force: true });
  writeWholeFile(file, `${JSON.stringify(partitions)}\n`);
}
