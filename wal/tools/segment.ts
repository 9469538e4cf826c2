// A directory of segments (segment-file.ts) with a manifest. Export, archive and backup write it; import and restore read it.
//
// The manifest holds the SHA-256 of each file; the batches prove themselves besides.
// A segment is complete on disk, under its name, before the manifest names it: what a killed tool leaves behind is not in
// the manifest. One that it left whole goes when the manifest is to name another that begins with the same batch, and not
// before: where it is the manifest that was lost, or an older one was put back, it may be all that is left of the log.
// One process adds to a directory at a time: of two, one would go on from where the manifest ended before the other, and
// take what the other has told out of it again. In another container, too, it is known by its socket (directory-socket.ts).
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { checkFollows, decodeBatch, LogRewritten, tipAt } from '../batch.ts';
import { WAL_LIMITS } from '../limits.ts';
import type { LogReader } from '../log-reader.ts';
import { type Batch, nameOf, type PartitionName, storedTip, type Tip, tipFrom } from '../types.ts';
import { holdDirectory, socketFile, type HeldDirectory } from '../directory-socket.ts';
import { makeWithoutParents } from '../make-with-parents.ts';
import { claimFile, lockFile, WriterLock } from '../writer-lock.ts';
import {
  allSegments,
  emptyManifest,
  manifestFile,
  partFile,
  partName,
  readManifest,
  sha256,
  textOf,
  withAdded,
} from './manifest.ts';
import type { Manifest, Point, Segment } from './manifest.ts';
import type { Progress } from './progress.ts';
import { batchesIn, sha256Of, startIn, writeSegmentFile } from './segment-file.ts';
import { UsageError } from './tool.ts';
import { syncDirectory } from '../sync-directory.ts';
import { naming } from '../thrown.ts';

/** What is not written to its end. */
export const partial = '.part';
/** Partition, first and last batch. */
const segmentName = /^(.+)-(\d{12,})-\d{12,}\.segment\.gz$/;

export class SegmentDirectory {
  readonly path: string;
  /** Its newest part. */
  #manifest: Manifest;
  /** What all parts name, by partition, in the order of the log; null: not read yet. */
  #segments: Map<string, Segment[]> | null = null;
  /** Files of segments that the manifest does not name yet. */
  #written: string[] = [];
  /** Files that the manifest does not name, in whose place it will name what was written. */
  #replaced: string[] = [];
  /** Files of whole segments that begin after all that the manifest names. */
  readonly #unnamed: readonly string[];
  readonly #removed: string[];
  /** It had no manifest: nothing goes on here. */
  readonly isNew: boolean;

  private constructor(path: string, manifest: Manifest, files: readonly string[], removed: string[]) {
    this.path = path;
    this.isNew = manifest === emptyManifest;
    this.#manifest = manifest;
    this.#unnamed = unnamedIn(files, manifest);
    this.#removed = removed;
  }

  /** For a tool that adds segments; makes the directory when it is not there. Refused while another process adds to it.
   *  What `use` wrote and did not `add` is removed when it fails: tried again on a disk that is full, it must not fill it. */
  static async extend<T>(path: string, use: (directory: SegmentDirectory) => Promise<T>): Promise<T> {
    return aloneIn(path, async (afterKilled) => {
      const files = readdirSync(path);
      const isNew = !files.includes(manifestFile);
      // One that was killed leaves segments before it has written a manifest, and parts of one only after.
      const isLost = files.some((file) => partName.test(file) || (!afterKilled && segmentName.test(file)));
      if (isNew && isLost) {
        throw new Error(
          `${path} has segments and no ${manifestFile}: put that back, or choose another directory`,
        );
      }
      const halves = files.filter((file) => file.endsWith(partial));
      for (const file of halves) rmSync(join(path, file));
      if (isNew) await syncDirectory(dirname(resolve(path)));
      const manifest = isNew ? emptyManifest : readManifest(path);
      const directory = new SegmentDirectory(path, manifest, files, halves);
      return directory.attempt(() => use(directory));
    });
  }

  /** What `use` wrote and did not `add` is removed when it fails; what was written before it stays. */
  async attempt<T>(use: () => Promise<T>): Promise<T> {
    const [written, replaced] = [this.#written.length, this.#replaced.length];
    try {
      return await use();
    } catch (error) {
      this.#replaced.splice(replaced);
      for (const file of this.#written.splice(written)) rmSync(join(this.path, file), { force: true });
      throw error;
    }
  }

  static open(path: string): SegmentDirectory {
    if (statSync(join(path, manifestFile), { throwIfNoEntry: false }) === undefined) {
      // An archive's volume that is not mounted looks like one to which nothing was old enough yet: who asks has to look.
      const isEmpty = existsSync(path) && readdirSync(path).length === 0;
      const what = isEmpty
        ? 'nothing has been written there yet, or it is not mounted'
        : 'no backup, archive or export';
      throw new UsageError(`${path} has no ${manifestFile}: ${what}`);
    }
    return new SegmentDirectory(path, readManifest(path), [], []);
  }

  /** What a tool that was killed had left behind, and is gone. */
  get removed(): readonly string[] {
    return this.#removed;
  }

  partitions(): PartitionName[] {
    return this.#manifest.ends.map(({ group, partition }) => ({ group, partition }));
  }

  /** In the order of the log. */
  segmentsOf(name: PartitionName): readonly Segment[] {
    this.#segments ??= Map.groupBy(
      allSegments(this.path, this.#manifest).toSorted((a, b) => a.start.batch - b.start.batch),
      nameOf,
    );
    return this.#segments.get(nameOf(name)) ?? [];
  }

  /** Where the segments of a partition end; null: there are none. */
  endOf(name: PartitionName): Tip | null {
    const end = this.#manifest.ends.find((one) => nameOf(one) === nameOf(name));
    return end === undefined ? null : tipFrom(end);
  }

  /** Writes batches that follow `start`, in order; null when there are none. The manifest does not name the segment yet:
   *  see `add`. */
  async write(
    name: PartitionName,
    start: Tip,
    batches: Iterable<Batch> | AsyncIterable<Batch>,
    progress: Progress,
  ): Promise<Segment | null> {
    const { group, partition } = name;
    const unnamed = `${group}-${partition}-${digits(start.batch + 1)}${partial}`;
    const temporary = join(this.path, unnamed);
    this.#written.push(unnamed);
    const {
      end,
      fileBytes,
      sha256: hash,
    } = await writeSegmentFile(temporary, name, start, batches, progress);
    if (end === start) {
      rmSync(temporary);
      return null;
    }
    const beginning = `${group}-${partition}-${digits(start.batch + 1)}-`;
    const file = `${beginning}${digits(end.batch)}.segment.gz`;
    const replaced = this.#unnamed.filter((name) => name.startsWith(beginning));
    // Of the same batches: it stays as one that was there before.
    if (!replaced.includes(file)) this.#written.push(file);
    await rename(temporary, join(this.path, file));
    this.#replaced.push(...replaced);
    return {
      group,
      partition,
      file,
      start: storedTip(start),
      end: storedTip(end),
      fileBytes,
      sha256: hash,
    };
  }

  /** The newest format that it may have records of; null: it does not say. */
  get records(): number | null {
    return this.#manifest.records ?? null;
  }

  /** `toDo`: what is refused. Throws UsageError where it may have records of a newer format than `newest`, with which this version does
   *  not start; before anything of it is written. */
  assertReadable(newest: number, toDo: 'restore' | 'import'): void {
    const records = this.records ?? 0;
    if (records <= newest) return;
    throw new UsageError(
      `${this.path} has records of format ${records}; this version reads them up to format ${newest}: ${toDo} with the version ` +
        'that wrote them, or a newer one, and start that one',
    );
  }

  /** Names segments, and the point they reach, in the manifest: all or none. `records`: the newest format that the log may have records
   *  of; null: it is not known. */
  async add(segments: readonly Segment[], point: Point | null, records: number | null = null): Promise<void> {
    const part = await this.#roomy();
    const begins = part === emptyManifest;
    // The names of files: after a power cut the manifest must name none that has lost its own.
    await syncDirectory(this.path);
    this.#manifest = withAdded(part, segments, point, records);
    this.#segments = null;
    const named = new Set(segments.map(({ file }) => file));
    await this.#put(manifestFile, `${JSON.stringify(this.#manifest, null, 2)}\n`, () => {
      const replaced = this.#replaced.splice(0);
      for (const file of replaced) if (!named.has(file)) rmSync(join(this.path, file));
      this.#removed.push(...replaced);
    });
    // Where nothing was before it fails as if it had written none: an export that is tried again must find nothing there.
    this.#written = begins ? [manifestFile, ...this.#written] : [];
    await syncDirectory(this.path);
    this.#written = [];
  }

  /** The newest part, or, once that is large and kept under its number, the one that follows it. */
  async #roomy(): Promise<Manifest> {
    const file = join(this.path, manifestFile);
    const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
    if (size < WAL_LIMITS.manifestBytes) return this.#manifest;
    const bytes = readFileSync(file);
    const earlier = { number: (this.#manifest.earlier?.number ?? 0) + 1, sha256: sha256(bytes) };
    this.#written.push(partFile(earlier.number));
    await this.#put(partFile(earlier.number), bytes);
    return { ...this.#manifest, earlier, segments: [], points: [] };
  }

  /** A file that is there whole or not at all. `onWritten`: on the disk, and not there yet. */
  async #put(file: string, content: string | Buffer, onWritten = (): void => {}): Promise<void> {
    const temporary = `${file}${partial}`;
    this.#written.push(temporary);
    const path = join(this.path, temporary);
    const handle = await open(path, 'wx', 0o600);
    await naming(path, async () => {
      try {
        await handle.writeFile(content);
        await handle.sync();
      } finally {
        await handle.close();
      }
    });
    onWritten();
    await rename(path, join(this.path, file));
  }

  /** The batches of a partition over all its segments, each checked: the file's SHA-256, the batch, and the chain. */
  async *read(name: PartitionName): AsyncGenerator<Batch> {
    let previous: Tip | null = null;
    for (const segment of this.segmentsOf(name)) {
      if (previous !== null && segment.start.batch !== previous.batch) {
        throw new Error(
          `${this.path}: ${segment.file} does not follow batch ${previous.batch}: a segment is missing`,
        );
      }
      let tip: Tip = previous ?? tipFrom(segment.start);
      // First the whole file against the manifest: gzip tells damage late and in words of its own.
      await this.check(segment);
      for await (const bytes of batchesIn(join(this.path, segment.file))) {
        const batch = decodeBatch(bytes, { ...name, batch: tip.batch + 1 });
        checkFollows(batch, tip);
        tip = tipAt(batch);
        yield batch;
      }
      if (tip.batch !== segment.end.batch) throw new Error(`${segment.file} ends at batch ${tip.batch}`);
      previous = tip;
    }
  }

  /** Throws when the file of a segment is not the one the manifest names, or begins otherwise: it would be taken for all of what is
   *  before its beginning, or for what was there by an earlier time. */
  async check({ file, sha256: hash, start }: Segment): Promise<void> {
    const path = join(this.path, file);
    if ((await sha256Of(path)) !== hash) {
      throw new Error(`${path} has changed: its SHA-256 is not the manifest's`);
    }
    if (textOf(await startIn(path)) !== textOf(start)) {
      throw new Error(
        `${path} does not begin as ${manifestFile} says, after batch ${start.batch}: that is damaged`,
      );
    }
  }
}

/** Makes the directory when it is not there, and none that it is in. Refused while another process writes in it. `afterKilled`: the one before was. */
export function aloneIn<T>(path: string, use: (afterKilled: boolean) => Promise<T>): Promise<T> {
  return holding(path, async () => {
    const lock = WriterLock.take(path);
    try {
      const used = await use(lock.afterKilled);
      lock.release();
      return used;
    } catch (error) {
      // Without one, what was killed before is the next one's to go on from, as it was this one's.
      if (existsSync(join(path, manifestFile))) lock.release();
      else lock.giveUp();
      throw error;
    }
  });
}

/** The same, where it is a data directory, and its log has the lock. */
export async function holding<T>(path: string, use: () => Promise<T>): Promise<T> {
  makeWithoutParents(path);
  const held = await hold(path);
  try {
    return await use();
  } finally {
    await held?.release();
  }
}

/** Null: a file system that takes no sockets, as many a network's; processes are told apart by their numbers alone there. */
async function hold(path: string): Promise<HeldDirectory | null> {
  try {
    const held = await holdDirectory(path);
    if (held !== null) return held;
  } catch (error) {
    if (['EPERM', 'ENOTSUP', 'ENOSYS'].includes(Object(error).code)) return null;
    throw error;
  }
  throw new Error(`${path} is being written by another process`);
}

/** But for what ext4 has at the top of each volume. */
export function filesOf(directory: string): string[] {
  return readdirSync(directory).filter((file) => file !== 'lost+found');
}

function unnamedIn(files: readonly string[], { ends }: Manifest): string[] {
  const lastBatches = new Map(ends.map(({ group, partition, batch }) => [`${group}-${partition}`, batch]));
  return files.filter((file) => {
    const [, name = '', first] = segmentName.exec(file) ?? [];
    return Number(first) > (lastBatches.get(name) ?? 0);
  });
}

/** True when nothing is there but what a tool that was killed had left before it wrote a manifest. */
export function isLeftBehind(files: readonly string[]): boolean {
  return files.some(isLock) && files.every((file) => isLock(file) || isUnfinished(file));
}

export function isLock(file: string): boolean {
  return [lockFile, claimFile, socketFile].includes(file);
}

function isUnfinished(file: string): boolean {
  return file.endsWith(partial) || segmentName.test(file);
}

/** For people: where it should have gone on, it is another disk's directory of that name. */
export function begunLines({ path, isNew }: SegmentDirectory): string[] {
  return isNew
    ? [`Begun in ${path}, where nothing was: if something should be, its volume is not mounted.`]
    : [];
}

/** For people: nothing that goes from a directory of theirs goes unsaid. */
export function removedLines({ removed }: Pick<SegmentDirectory, 'removed'>): string[] {
  return removed.length === 0 ? [] : [`Removed what a run that was killed had left: ${removed.join(', ')}`];
}

/** For people. A batch that opens an epoch has no records. */
export function sequencesText({ start, end }: Segment): string {
  return start.sequence === end.sequence
    ? 'no records'
    : `sequences ${start.sequence + 1} to ${end.sequence}`;
}

/** The batches of a log after `start` up to and with `end`, checked as they are read. Throws LogRewritten when these two are not
 *  in the log any more. */
export function* batchesUpTo(
  reader: LogReader,
  { group, partition }: PartitionName,
  start: Tip,
  end: Tip,
): Generator<Batch, void, undefined> {
  if (start.batch >= end.batch) return;
  reader.lookAgain(group, partition, start);
  for (const batch of reader.read(group, partition, { afterBatch: start.batch })) {
    if (batch.batch === end.batch && !batch.hash.equals(end.hash)) break;
    yield batch;
    if (batch.batch === end.batch) return;
  }
  throw new LogRewritten({ group, partition, batch: end.batch, sequence: end.sequence });
}

function digits(batch: number): string {
  return String(batch).padStart(12, '0');
}
