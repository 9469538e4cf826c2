// A small file that is replaced as a whole: whoever reads it, also after a crash, finds what it was or what it is.

import { renameSync, writeFileSync } from 'node:fs';

/** For this user alone. */
export function writeWholeFile(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
}
