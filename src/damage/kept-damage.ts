// Which partitions this node has refused because its log of them is damaged, kept beside the log until a check finds them whole:
// a node that starts must not take such a partition until its check of everything comes to the damage again.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { nameOf } from '../../wal/types.ts';
import type { PartitionPlace } from '../bus/bus.ts';
import { placesIn } from '../data-directory/identity.ts';
import { writeWholeFile } from '../data-directory/whole-file.ts';

const FILE = 'damaged.json';

/** Where the file has rotted, too: any partition may have been in it. */
export function readKept(directory: string): PartitionPlace[] {
  const places = placesIn(directory);
  const names = new Set(places.map(nameOf));
  const isPlace = (found: unknown): found is PartitionPlace => names.has(nameIn(found));
  try {
    const kept: unknown = JSON.parse(readFileSync(join(directory, FILE), 'utf8'));
    if (Array.isArray(kept) && kept.every(isPlace)) return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    if (!(error instanceof SyntaxError)) throw error;
  }
  return places;
}

function nameIn(found: unknown): string {
  const { group, partition } = Object(found) as Record<string, unknown>;
  return typeof group === 'string' && typeof partition === 'number' ? nameOf({ group, partition }) : '';
}

export function keep(directory: string, partitions: readonly PartitionPlace[]): void {
  const file = join(directory, FILE);
  if (partitions.length === 0) return rmSync(file, { force: true });
  writeWholeFile(file, `${JSON.stringify(partitions)}\n`);
}
