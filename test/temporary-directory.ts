// Directories of tests, which go after what runs in them. `t.testdir()` goes before what was told to `t.teardown` after it, and has a path
// that may be too long for a data directory.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeDirectory } from '../deploy/remove-directory.ts';

interface Ends {
  teardown(end: () => Promise<void>): void;
}

/** One that goes when `t` has ended all that was started in it: what is to be ended before it goes is told to `t` later. */
export function temporaryDirectory(t: Ends): string {
  const directory = mkdtempSync(join(tmpdir(), 'daftari-'));
  t.teardown(() => removeDirectory(directory));
  return directory;
}
