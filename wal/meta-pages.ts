// The first two pages of an LMDB file, looked at before LMDB is given the file: where they are damaged it should refuse, but
// lmdb-js ends the process (SIGSEGV, seen with 3.5.6) on its way out of an environment that did not open.
//
// A file is refused here when LMDB would refuse it (mdb_env_read_header in mdb.c reads the same fields, in both pages), and when it
// would go on from another transaction than the last: what that wrote, acknowledged or not, would be gone without a word.
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
/** The page where a search for any key begins. */
const rootAt = 136;
/** Of the transaction that a meta page is of, and of the one that wrote any other page. */
const transactionAt = 152;
const writtenByAt = 8;
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
    let problem = problemIn(descriptor);
    // Read again: another thread may have committed between one page and the next.
    for (let before = ''; problem !== null && problem !== before; problem = problemIn(descriptor)) {
      before = problem;
    }
    if (problem !== null) throw new UnusableFile(file, `is damaged: ${problem}`);
  } finally {
    closeSync(descriptor);
  }
}

function problemIn(descriptor: number): string | null {
  const first = headAt(descriptor, 0);
  if (first.length === 0) return null;
  const problem = problemOf(first);
  if (problem !== null) return problem;
  const pageSize = first.readUInt32LE(pageSizeAt);
  const second = headAt(descriptor, pageSize);
  return problemOf(second) ?? newestProblem(descriptor, pageSize, first, second);
}

/** LMDB goes on from the later of the two, whatever it was that made it the later: with one bit turned over in these numbers, from what
 *  was there before the last transaction. */
function newestProblem(descriptor: number, pageSize: number, first: Buffer, second: Buffer): string | null {
  const [even, odd] = [first, second].map((head) => head.readBigUInt64LE(transactionAt)) as [bigint, bigint];
  if (even === 0n && odd === 0n) return null;
  const areInTurn = even % 2n === 0n && (odd === even + 1n || odd === even - 1n);
  const [newest, number] = odd > even ? [second, odd] : [first, even];
  const writer = writerOf(descriptor, newest.readBigUInt64LE(rootAt), pageSize);
  if (areInTurn && (writer === null || writer === number)) return null;
  return `its first two pages (of transactions ${even} and ${odd}) do not say which was the last`;
}

/** The transaction that wrote a page; null: there is none, or what is there is damaged, which whoever looks for something there is told. */
function writerOf(descriptor: number, page: bigint, pageSize: number): bigint | null {
  const position = page * BigInt(pageSize);
  if (position > BigInt(Number.MAX_SAFE_INTEGER)) return null;
  const head = headAt(descriptor, Number(position));
  const isWhole = head.length === headBytes && head.readBigUInt64LE(0) === page;
  return isWhole ? head.readBigUInt64LE(writtenByAt) : null;
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
