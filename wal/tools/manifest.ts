// The manifest of a directory of segments: what its files are, and where partitions ended when they were added.
//
// `manifest.json` is the newest part of it. A part that has grown large is kept under a number, never written again, and
// the next one names it with its hash: what one backup reads and writes does not grow with the age of the directory.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isPlace } from '../batch.ts';
import { nameOf, type PartitionName, type StoredTip } from '../types.ts';
import { messageOf, namingNow } from '../thrown.ts';

export interface Segment extends PartitionName {
  /** In the directory of the manifest. */
  readonly file: string;
  readonly start: StoredTip;
  readonly end: StoredTip;
  readonly fileBytes: number;
  readonly sha256: string;
}

type End = PartitionName & StoredTip;

/** Where the partitions ended, all at one moment, when segments were added. */
export interface Point {
  readonly timeMs: number;
  readonly tips: readonly End[];
}

/** Version 1 has neither `earlier` nor `ends`: it is the whole manifest, and is read as the first part of one. */
export interface Manifest {
  readonly format: 'daftari-segments';
  readonly version: 2;
  /** The part before this one; null: there is none. */
  readonly earlier: { readonly number: number; readonly sha256: string } | null;
  /** Of every partition, whichever part names its last segment. */
  readonly ends: readonly End[];
  readonly segments: readonly Segment[];
  readonly points: readonly Point[];
  /** The newest format that its batches may have records of, as who added them noted. Absent: nobody did. */
  readonly records?: number;
}

export const manifestFile = 'manifest.json';

export const emptyManifest: Manifest = {
  format: 'daftari-segments',
  version: 2,
  earlier: null,
  ends: [],
  segments: [],
  points: [],
};

/** The name of a part that is not written again. */
export function partFile(number: number): string {
  return `manifest-${String(number).padStart(6, '0')}.json`;
}

export const partName = /^manifest-\d{6,}\.json$/;

/** The newest part. */
export function readManifest(directory: string): Manifest {
  const file = join(directory, manifestFile);
  return manifestIn(file, bytesOf(file));
}

/** What all parts name. Throws when a part is not the one that the next names, or the ends are not those of the
 *  segments: a partition, or the end of one, would be left out without a word. */
export function allSegments(directory: string, newest: Manifest): Segment[] {
  const parts = [newest.segments];
  for (let { earlier } = newest; earlier !== null;) {
    const file = join(directory, partFile(earlier.number));
    const bytes = bytesOf(file);
    if (sha256(bytes) !== earlier.sha256) {
      throw new Error(`${file} has changed: its SHA-256 is not the one that the manifest after it names`);
    }
    const part = manifestIn(file, bytes);
    parts.push(part.segments);
    ({ earlier } = part);
  }
  const segments = parts.flat();
  const named = new Set(segments.map(nameOf));
  if (!areEndsOf(newest.ends, segments) || newest.ends.some((end) => !named.has(nameOf(end)))) {
    throw damaged(join(directory, manifestFile), endsDiffer);
  }
  return segments;
}

/** Of a data directory: the newest format that its log may have records of; null: it does not say. A tool that copies its log asks last:
 *  a service notes a format before it writes any record of it. */
export type RecordsOf = (directory: string) => number | null;

export function withAdded(
  manifest: Manifest,
  segments: readonly Segment[],
  point: Point | null,
  records: number | null,
): Manifest {
  const newest = Math.max(manifest.records ?? 0, records ?? 0);
  return {
    ...manifest,
    ...(newest === 0 ? {} : { records: newest }),
    ends: endsOf(manifest.ends, segments),
    segments: [...manifest.segments, ...segments],
    points: point === null ? manifest.points : [...manifest.points, point],
  };
}

/** A segment that is added begins where the partition's last ended, so its end is the partition's. */
function endsOf(ends: readonly End[], segments: readonly Segment[]): End[] {
  const byName = new Map(ends.map((end) => [nameOf(end), end]));
  for (const { group, partition, end } of segments) {
    byName.set(nameOf({ group, partition }), { group, partition, ...end });
  }
  return [...byName.values()];
}

const endsDiffer = 'partitions do not end where their segments do';

/** Where the ends of these partitions are said a second time; there may be others. */
function areEndsOf(ends: readonly End[], segments: readonly Segment[]): boolean {
  const said = new Map(ends.map((end) => [nameOf(end), textOf(end)]));
  const inOrder = segments.toSorted((a, b) => a.start.batch - b.start.batch);
  return endsOf([], inOrder).every((end) => said.get(nameOf(end)) === textOf(end));
}

/** Of two that are the same, the same. */
export function textOf({ batch, sequence, epoch, timeMs, hash }: StoredTip): string {
  return [batch, sequence, epoch, timeMs, hash].join(' ');
}

function bytesOf(file: string): Buffer {
  return namingNow(file, () => readFileSync(file));
}

function manifestIn(file: string, bytes: Buffer): Manifest {
  const stored = storedIn(file, bytes);
  if (stored.version === 2) return stored;
  const inOrder = stored.segments.toSorted((a, b) => a.start.batch - b.start.batch);
  return { ...stored, version: 2, earlier: null, ends: endsOf([], inOrder) };
}

type Stored = Manifest | (Omit<Manifest, 'version' | 'earlier' | 'ends'> & { version: 1 });

function storedIn(file: string, bytes: Buffer): Stored {
  const stored = parsed(file, bytes);
  const fields = Object(stored) as Record<string, unknown>;
  const { format, version, segments, points, ends, earlier = null, records = 0 } = fields;
  if (typeof format === 'string' && typeof version === 'number') {
    const isKnown = format === 'daftari-segments' && (version === 1 || version === 2);
    if (!isKnown) throw new Error(`${file}: format ${format} ${version} is not known`);
    const isWhole =
      areAll(segments, isSegment) && Array.isArray(points) && Number.isInteger(records) && isPart(earlier);
    if (isWhole && version === 1) return stored as Stored;
    if (isWhole && areAll(ends, isEnd) && 'earlier' in fields) {
      if (!areEndsOf(ends, segments)) throw damaged(file, endsDiffer);
      return stored as Stored;
    }
  }
  throw damaged(file, 'it is no manifest');
}

function areAll<T>(list: unknown, isOne: (found: unknown) => found is T): list is T[] {
  return Array.isArray(list) && list.every(isOne);
}

function isSegment(found: unknown): found is Segment {
  const { group, partition, file, sha256: hash, start, end } = Object(found) as Record<string, unknown>;
  const areTexts = typeof file === 'string' && typeof hash === 'string';
  return areTexts && isPlace(String(group), Number(partition)) && isTip(start) && isTip(end);
}

function isEnd(found: unknown): found is End {
  const { group, partition } = Object(found) as Record<string, unknown>;
  return isPlace(String(group), Number(partition)) && isTip(found);
}

function isTip(found: unknown): found is StoredTip {
  const { batch, sequence, epoch, timeMs, hash } = Object(found) as Record<string, unknown>;
  const numbers = [batch, sequence, epoch, timeMs];
  return numbers.every(Number.isSafeInteger) && typeof hash === 'string';
}

function isPart(found: unknown): boolean {
  const { number, sha256: hash } = Object(found) as Record<string, unknown>;
  return found === null || (Number.isSafeInteger(number) && typeof hash === 'string');
}

function parsed(file: string, bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw damaged(file, messageOf(error));
  }
}

/** Segments prove themselves, and which there are says the manifest alone. */
function damaged(file: string, reason: string): Error {
  return new Error(
    `${file} is damaged (${reason}): put back a copy of it, or go to another backup; the segments beside it may be whole`,
  );
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
