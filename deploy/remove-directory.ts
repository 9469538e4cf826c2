// The end of a directory that a service had which was killed.

import { rmSync } from 'node:fs';
import { waitFor } from './wait-for.ts';

/** What a killed process has started ends within seconds, however slow the machine. */
const GONE_MS = 60_000;

/** What a killed service has started to read its log ends by itself, a moment later, and may make a file there meanwhile, or the
 *  directory anew. */
export async function removeDirectory(directory: string): Promise<void> {
  await waitFor(`${directory} is gone`, GONE_MS, () => isRemoved(directory));
}

function isRemoved(directory: string): boolean {
  try {
    rmSync(directory, { recursive: true, force: true });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
    return false;
  }
}
