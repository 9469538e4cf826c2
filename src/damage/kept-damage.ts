// Which partitions this node has refused because its log of them is damaged, kept beside the log until a check finds them whole:
// a node that starts must not take such a partition until its check of everything comes to the damage again.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { PartitionPlace } from '../bus/bus.ts';
import { writeWholeFile } from '../data-directory/whole-file.ts';

const FILE = 'damaged.json';

export function readKept(directory: string): PartitionPlace[] {
  try {
    return JSON.parse(readFileSync(join(directory, FILE), 'utf8')) as PartitionPlace[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

export function keep(directory: string, partitions: readonly PartitionPlace[]): void {
  const file = join(directory, FILE);
  if (partitions.length === 0) return rmSync(file, { force: true });
  writeWholeFile(file, `${JSON.stringify(partitions)}\n`);
}
