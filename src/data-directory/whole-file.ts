// A small file that is replaced as a whole: whoever reads it, also after a crash or a power cut, finds what it was or what it is,
// and once this returns what it is.

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
