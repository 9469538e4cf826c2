// A directory, with those it lies in, or without them.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { syncDirectoryNow } from './sync-directory.ts';

/** What is in it is money, or keys. */
const OWNERS_ALONE = 0o700;

/** Each by itself: where its parent takes no directory, and says ENOENT as /proc does, `recursive` tries for ever, and no signal is
 *  heard. A power cut takes none of their names once this returns. */
export function makeWithParents(path: string, mode: number = OWNERS_ALONE): void {
  const parent = dirname(path);
  if (!existsSync(parent)) makeWithParents(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' && statSync(path).isDirectory()) return;
    throw error;
  }
  syncDirectoryNow(parent);
}

/** For what a person names to be written to: where its volume is not mounted, it would fill the disk that has the mount point. */
export function makeWithoutParents(path: string): void {
  const parent = dirname(resolve(path));
  if (!existsSync(parent)) {
    throw new Error(
      `${parent} is not there: mount its volume, or make it; only ${path} itself would be made`,
    );
  }
  makeWithParents(path);
}
