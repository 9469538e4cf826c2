// Which partitions this node has refused because its log of them is damaged, kept beside the log until a check finds them whole:
// a node that starts must not take such a partition until its check of everything comes to the damage again.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { PartitionPlace } from '../bus/bus.ts';
import { placesIn } from '../data-directory/identity.ts';
import { writeWholeFile } from '../data-directory/whole-file.ts';

const FILE = 'damaged.json';

/** Where the file has rotted, too: any partition may have been in it. */
export function readKept(directory: string): PartitionPlace[] {
  try {
    const kept: unknown = JSON.parse(readFileSync(join(directory, FILE), 'utf8'));
    if (Array.isArray(kept) && kept.every(isPlace)) return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    if (!(error instanceof SyntaxError)) throw error;
  }
  return placesIn(directory);
}

function isPlace(found: unknown): found is PartitionPlace {
  const { group, partition } = Object(found) as Record<string, unknown>;
  return typeof group === 'string' && Number.isInteger(partition);
}

export function keep(directory: string, partitions: readonly PartitionPlace[]): void {
  const file = join(directory, FILE);
  if (partitions.length === 0) return rmSync(file, { force: true });
  writeWholeFile(file, `${JSON.stringify(partitions)}\n`);
}
