// A small file that is replaced as a whole: a reader finds either the old text or the new, even after a crash or a power cut, and once
// this has returned only the new.

import { renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncDirectoryNow } from '../../wal/sync-directory.ts';
import { namingNow } from '../../wal/thrown.ts';

/** For this user alone. `draft`: where it is written first; its writer's own where several processes may write the file at once. */
export function writeWholeFile(file: string, text: string, draft = `${file}.new`): void {
  namingNow(draft, () => writeFileSync(draft, text, { mode: 0o600, flush: true }));
  renameSync(draft, file);
  syncDirectoryNow(dirname(file));
}
