// What tests of a disk that is nearly full do to it.

import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Takes all but `mib` of the disk that `directory` is; returns how to give it back. */
export function leaveFree(directory: string, mib: number): () => void {
  const { bavail, bsize } = statfsSync(directory);
  const ballast = join(directory, 'ballast');
  writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - mib * 1024 * 1024)));
  return () => rmSync(ballast);
}
