// Pages of a log's file, overwritten so that LMDB ends the process which looks for something in one: it asserts that a page which leads
// to others does lead to some.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Of LMDB. */
const PAGE_BYTES = 4096;
const FLAGS_AT = 18;
const BRANCH = 1;
const LEAF = 2;
/** Where its offsets end: twice the number of what is in the page. */
const LOWER_AT = 20;

/** `text`: what the pages hold that are overwritten; null: all of them, but for the first two. */
export function overwritePages(directory: string, text: string | null): void {
  const file = join(directory, 'log', 'data.mdb');
  const pages = readFileSync(file);
  for (let at = 2 * PAGE_BYTES; at < pages.length; at += PAGE_BYTES) {
    const page = pages.subarray(at, at + PAGE_BYTES);
    // A page that leads to others may hold what a leaf held that was there before it.
    if (text !== null && (page.readUInt16LE(FLAGS_AT) !== LEAF || !page.includes(text))) continue;
    page.writeUInt16LE(BRANCH, FLAGS_AT);
    page.writeUInt16LE(0, LOWER_AT);
  }
  writeFileSync(file, pages);
}
