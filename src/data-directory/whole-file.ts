// A small file that is replaced as a whole: a reader finds either the old text or the new, even after a crash or a power cut, and once
// this has returned only the new.

import { renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncDirectoryNow } from '../../wal/sync-directory.ts';
import { namingNow } from '../../wal/thrown.ts';

/** For this user alone. */
export function writeWholeFile(file: string, text: string): void {
  const draft = `${file}.new`;
  namingNow(draft, () => writeFileSync(draft, text, { mode: 0o600, flush: true }));
  renameSync(draft, file);
  syncDirectoryNow(dirname(file));
}
