// Directories of tests, which go after what runs in them. `t.testdir()` goes before what was told to `t.teardown` after it, and has a path
// that may be too long for a data directory.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from '../deploy/wait-for.ts';

/** What a killed process has started ends within seconds, however slow the machine. */
const GONE_MS = 60_000;

interface Ends {
  teardown(end: () => Promise<void>): void;
}

/** One that goes when `t` has ended all that was started in it: what is to be ended before it goes is told to `t` later. */
export function temporaryDirectory(t: Ends): string {
  const directory = mkdtempSync(join(tmpdir(), 'daftari-'));
  t.teardown(() => removeDirectory(directory));
  return directory;
}

/** What a killed service has started to read its log ends by itself, a moment later, and may make a file there meanwhile, or the
 *  directory anew. */
export async function removeDirectory(directory: string): Promise<void> {
  await waitFor(`${directory} is gone`, GONE_MS, () => isRemoved(directory));
}

function isRemoved(directory: string): boolean {
  try {
    rmSync(directory, { recursive: true });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
    return false;
  }
}
