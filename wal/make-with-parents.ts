// A directory, with those it lies in.
import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/** What is in it is money, or keys. */
const OWNERS_ALONE = 0o700;

/** The first that is missing by itself: where its parent takes no directory, and says ENOENT as /proc does, `recursive` tries for
 *  ever, and no signal is heard. */
export function makeWithParents(path: string, mode: number = OWNERS_ALONE): void {
  let first = path;
  while (!existsSync(dirname(first))) first = dirname(first);
  try {
    mkdirSync(first, { mode });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  mkdirSync(path, { recursive: true, mode });
}
