// What tests of a disk that is nearly full do to it.

import { spawnSync } from 'node:child_process';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Of so many MiB, in memory, there. False: who runs the tests may not mount it; root of many a container may not, either. */
export function mountSmallDisk(directory: string, mib: number): boolean {
  return spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', directory]).status === 0;
}

/** Takes all but `mib` of the disk that `directory` is; returns how to give it back. */
export function leaveFree(directory: string, mib: number): () => void {
  const { bavail, bsize } = statfsSync(directory);
  const ballast = join(directory, 'ballast');
  writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - mib * 1024 * 1024)));
  return () => rmSync(ballast);
}
