// A small file that is replaced as a whole: whoever reads it, also after a crash, finds what it was or what it is.

import { renameSync, writeFileSync } from 'node:fs';
import { namingNow } from '../../wal/thrown.ts';

/** For this user alone. */
export function writeWholeFile(file: string, text: string): void {
  const draft = `${file}.new`;
  namingNow(draft, () => writeFileSync(draft, text, { mode: 0o600, flush: true }));
  renameSync(draft, file);
}
