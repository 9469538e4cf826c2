// The first two pages of an LMDB file, looked at before LMDB is given the file: where they are damaged it should refuse, but
// lmdb-js ends the process (SIGSEGV, seen with 3.5.6) on its way out of an environment that did not open.
//
// A file is refused here only when LMDB would refuse it: mdb_env_read_header in mdb.c reads the same fields, in both pages.
import { closeSync, openSync, readSync } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Of a page: its header, then what a meta page says. MDB_metabuf has some more, all of it in the page. */
const headBytes = 256;
const flagsAt = 18;
const metaFlag = 0x08;
const magicAt = 24;
const magic = 0xbe_ef_c0_de;
/** Of the file's format; LMDB looks at these two bytes of it. */
const versionAt = 28;
const version = 2;
const pageSizeAt = 48;
const whatIsLost = 'its first two pages, without which nothing in it is found';

/** A file that LMDB is not given, since it would end the process, or find nothing. Says what to do about it. */
export class UnusableFile extends Error {
  /** LMDB's MDB_INVALID: whoever asks for the number of its errors finds it. */
  readonly code = -30_793;

  constructor(file: string, problem: string) {
    const mend = isOfViews(file)
      ? 'move it away, it is made anew from the log'
      : 'restore the log from a backup';
    super(`${file} ${problem}: ${mend}`);
  }
}

/** And not of the log. */
export function isOfViews(file: string): boolean {
  return basename(dirname(file)) === 'views';
}

/** Throws when the file cannot be opened as what it is. One without a byte is new: a process was killed as it made it. */
export function assertMetaPages(file: string): void {
  const descriptor = openSync(file, 'r');
  try {
    const first = headAt(descriptor, 0);
    if (first.length === 0) return;
    const problem = problemOf(first) ?? problemOf(headAt(descriptor, first.readUInt32LE(pageSizeAt)));
    if (problem !== null) throw new UnusableFile(file, `is damaged: ${problem}`);
  } finally {
    closeSync(descriptor);
  }
}

function headAt(descriptor: number, position: number): Buffer {
  const head = Buffer.alloc(headBytes);
  return head.subarray(0, readSync(descriptor, head, 0, headBytes, position));
}

function problemOf(head: Buffer): string | null {
  if (head.length < headBytes) return `it ends within ${whatIsLost}`;
  const isMeta =
    (head.readUInt16LE(flagsAt) & metaFlag) !== 0 &&
    head.readUInt32LE(magicAt) === magic &&
    head.readUInt16LE(versionAt) === version;
  return isMeta ? null : `something else was written over ${whatIsLost}`;
}
