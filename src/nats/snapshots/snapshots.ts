// Snapshots of a partition in the JetStream object store: its views and the log position they reach, so that an empty
// machine reads the log's tail instead of its whole history.
//
// Invariants:
//   - Rows and tip are of one moment, and of batches that the stream has.
//   - A snapshot never replaces one of its log that reaches further.
//   - A restore is complete or counts for nothing: only when the last row is on disk, and all are proved, the position of the views is
//     written and the log begins.
//   - Nothing is restored over a log that has batches.

import { pipeline, Readable } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import type { ObjectInfo, ObjectStore } from 'nats';
import type { WriteAheadLog } from '../../../wal/log.ts';
import type { Row, Tip } from '../../../wal/types.ts';
import type { ViewStore } from '../../../wal/views.ts';
import { within } from '../../../wal/within.ts';
import type { GroupName } from '../../bus/bus.ts';
import { LIMITS } from '../../limits.ts';
import type { NatsLink } from '../connection.ts';
import { chunksOf, ChunkSender, storedChunks } from './snapshot-chunks.ts';
import { SNAPSHOT_FORMAT, SnapshotReader, snapshotLines } from './snapshot-format.ts';
import type { StreamPartition } from '../log/stream-places.ts';
import { hasMessages, hasStream, makeSnapshotBucket } from '../streams.ts';
import { partitionKey, SNAPSHOT_BUCKET, SNAPSHOT_STREAM } from '../subjects.ts';

export interface SnapshotOptions {
  readonly link: NatsLink;
  readonly log: WriteAheadLog;
  readonly views: ViewStore;
  /** Of the bucket, when it is made. */
  readonly replicas: number;
}

export class Snapshots {
  readonly #options: SnapshotOptions;
  readonly #sender: ChunkSender;
  #store: ObjectStore | null = null;
  /** Chunks of no snapshot as they were last seen, by subject: of one that is being saved, or never will be. */
  #unnamed: ReadonlyMap<string, number> = new Map();

  constructor(options: SnapshotOptions) {
    this.#options = options;
    this.#sender = new ChunkSender(options.link);
  }

  /** Batch that the stored snapshot of a partition reaches; 0: there is none. */
  async batchOf(group: GroupName, partition: number): Promise<number> {
    return batchIn(await this.#storedOf(group, partition));
  }

  /** Replaces the partition's snapshot with its checkpointed views; returns the batch that the stored one reaches, 0: nothing
   *  to save. `settled` resolves when the stream has what is durable here, and rejects when it never will. `holds`: nobody else has
   *  the partition, so what reaches beyond its log is of another. */
  async save(
    group: GroupName,
    partition: number,
    settled: () => Promise<void> = async () => {},
    holds: () => boolean = () => false,
  ): Promise<number> {
    const { log, views } = this.#options;
    const store = await this.#open();
    const before = await this.#storedOf(group, partition);
    const stored = batchIn(before);
    views.refresh();
    const position = views.position(group, partition);
    // Asked when `before` is known: what a successor saves from now on has another revision.
    const isOfAnother = stored > log.tip(group, partition).batch && holds();
    if (position === null || (position.batch <= stored && !isOfAnother)) return stored;
    // From here to the first row nothing may be awaited: both are read in one transaction.
    const rows = views.rows(group, partition);
    try {
      const first = rows.next();
      const tip = log.tipAt(group, partition, position.batch);
      if (!tip.hash.equals(position.hash) || tip.sequence !== position.sequence) {
        throw new Error(
          `${group}/${partition}: the views do not stand at the end of batch ${position.batch}`,
        );
      }
      const lines = snapshotLines({ group, partition }, tip, first, rows);
      await this.#put(store, partitionKey(group, partition), tip, lines, settled, before.revision);
      return tip.batch;
    } finally {
      // Not read to the end, they would keep their moment of the views, and its pages.
      rows.return();
    }
  }

  /** In the place of what has that revision. */
  async #put(
    store: ObjectStore,
    name: string,
    tip: Tip,
    text: Iterable<Buffer>,
    settled: () => Promise<void>,
    previousRevision: number,
  ): Promise<void> {
    const lines = Readable.from(text, { objectMode: true, highWaterMark: 16 });
    const compressed = createGzip({ level: 3 });
    const meta = { name, metadata: { batch: String(tip.batch), format: String(SNAPSHOT_FORMAT) } };
    // Whoever reads `compressed` is told of a failure.
    pipeline(lines, compressed, () => {});
    try {
      await settled();
      // Whoever was stopped meanwhile must not put an older one in the place of its successor's.
      const paced = Readable.toWeb(Readable.from(this.#sender.paced(compressed)));
      await store.put(meta, paced as never, { previousRevision });
    } finally {
      lines.destroy();
    }
  }

  /** Fills an empty partition; returns the tip after which the log goes on, or null when there is no snapshot. */
  async restore(group: GroupName, partition: number): Promise<Tip | null> {
    const { log, views } = this.#options;
    if (log.lastBatchNumber(group, partition) > 0) throw new Error(`${group}/${partition} is not empty`);
    const store = await this.#openFilled();
    if (store === null) return null;
    let isEmpty = false;
    const place = { link: this.#options.link, group, partition };
    // What is not read to its end, or proves damaged there, may be removed before this is tried again: the log is made of the
    // stream then, and goes past where its rows would reach.
    const tip = await readFrom(store, place, async (rows) => {
      if (!isEmpty) await views.drop(group, partition);
      isEmpty = true;
      await views.commit(group, partition, null, rows);
    });
    if (tip === null) return null;
    await views.commit(group, partition, tip, []);
    await log.startAt(group, partition, tip);
    views.refresh();
    log.refresh();
    return tip;
  }

  /** Removes what processes have left that died while they saved: chunks that no snapshot names, and that have become no more
   *  since this was asked for before. Between the two lies longer than any save takes. Resolves with how many saves left some. */
  async removeAbandoned(): Promise<number> {
    const { manager } = this.#options.link;
    const store = await this.#openFilled();
    if (store === null) return 0;
    // In this order: what is finished between the two has a name, and what it replaced goes by itself.
    const { state } = await manager.streams.info(SNAPSHOT_STREAM, { subjects_filter: CHUNKS });
    const named = new Set((await store.list()).map(({ nuid }) => chunksOf(nuid)));
    const unnamed = Object.entries(state.subjects ?? {}).filter(([subject]) => !named.has(subject));
    const abandoned = unnamed.filter(([subject, count]) => this.#unnamed.get(subject) === count);
    for (const [subject] of abandoned) await manager.streams.purge(SNAPSHOT_STREAM, { filter: subject });
    this.#unnamed = new Map(unnamed);
    return abandoned.length;
  }

  async #storedOf(group: GroupName, partition: number): Promise<Stored> {
    const store = await this.#openFilled();
    return store === null
      ? { revision: 0, info: null }
      : storedIn(store, { link: this.#options.link, group, partition });
  }

  /** Null: there is no snapshot of anything, and perhaps another node is just making the store. */
  async #openFilled(): Promise<ObjectStore | null> {
    const store = await this.#open();
    return (await hasMessages(this.#options.link.manager, SNAPSHOT_STREAM)) ? store : null;
  }

  /** Each time: somebody may have removed the bucket. */
  async #open(): Promise<ObjectStore> {
    const { link, replicas } = this.#options;
    await makeSnapshotBucket(link.manager, replicas);
    this.#store ??= await this.#sender.jetstream.views.os(SNAPSHOT_BUCKET);
    return this.#store;
  }
}

const CHUNKS = chunksOf('>');

/** What the store has of a partition. */
interface Stored {
  /** Of the message that names it last; 0: none does. */
  readonly revision: number;
  /** Null: there is no snapshot, it was removed, or its chunks were. */
  readonly info: ObjectInfo | null;
}

/** A save that hears nothing of its last message, which names the chunks, takes them back (the store's client does), and that message
 *  may be stored all the same. What it names is no snapshot then: nobody would save another in its place before long. */
async function storedIn(store: ObjectStore, { link, group, partition }: StreamPartition): Promise<Stored> {
  const info = await store.info(partitionKey(group, partition));
  if (info === null) return { revision: 0, info };
  const subject = chunksOf(info.nuid);
  const { state } = await link.manager.streams.info(SNAPSHOT_STREAM, { subjects_filter: subject });
  const isThere = !info.deleted && (state.subjects?.[subject] ?? 0) === info.chunks;
  return { revision: info.revision, info: isThere ? info : null };
}

function batchIn({ info }: Stored): number {
  return Number(info?.metadata?.['batch'] ?? 0);
}

type OnRows = (rows: readonly Row[]) => Promise<void> | void;

/** Reads what is stored of a partition through, rows in portions; resolves with the tip that it reaches when it has proved
 *  whole, with null when nothing is stored. */
export async function readSnapshot(place: StreamPartition, onRows: OnRows): Promise<Tip | null> {
  const { link } = place;
  if (!(await hasStream(link.manager, SNAPSHOT_STREAM))) return null;
  if (!(await hasMessages(link.manager, SNAPSHOT_STREAM))) return null;
  return readFrom(await link.connection.jetstream().views.os(SNAPSHOT_BUCKET), place, onRows);
}

async function readFrom(store: ObjectStore, place: StreamPartition, onRows: OnRows): Promise<Tip | null> {
  const { link, group, partition } = place;
  const { info } = await storedIn(store, place);
  if (info === null) return null;
  const stored = storedChunks(link, info);
  const plain = createGunzip();
  // Whoever reads `plain` is told of a failure.
  pipeline(stored, plain, () => {});
  const reader = new SnapshotReader(group, partition);
  const parts = reader.read(plain)[Symbol.asyncIterator]();
  // A newer snapshot takes away what is left of the one that is read: nothing more comes then.
  const problem = `nothing more came of a snapshot of ${group}/${partition}: it has been replaced, or NATS is away`;
  try {
    for (;;) {
      const { value: rows, done } = await within(LIMITS.snapshotSilenceMs, parts.next(), problem);
      if (done === true) break;
      await onRows(rows);
    }
  } finally {
    // What is not read to its end would go on coming.
    stored.destroy();
  }
  return reader.tip;
}
