// Snapshots of a partition in the JetStream object store: its views and the log position they reach, so that an empty
// machine reads the log's tail instead of its whole history.
//
// Format, version 1: gzip of lines of JSON. The first is the header {format, group, partition, tip: {batch, sequence,
// epoch, timeMs, hash (hex)}}; each other one a row [table, key, value]; the last [rows, SHA-256 (hex) of all lines before].
//
// Invariants: rows and tip are of one moment; a restore is complete or begun again (the log starts only after the last
// row is on disk); nothing is restored over a log that has batches.

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import { StorageType } from 'nats';
import type { ObjectStore } from 'nats';
import { tipAt } from '../../wal/batch.ts';
import type { WriteAheadLog } from '../../wal/log.ts';
import type { Row, Tip } from '../../wal/types.ts';
import type { ViewStore } from '../../wal/views.ts';
import { within } from '../../wal/within.ts';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from './connection.ts';
import { hasMessages } from './streams.ts';
import { SNAPSHOT_BUCKET, SNAPSHOT_STREAM } from './subjects.ts';

export interface SnapshotOptions {
  readonly link: NatsLink;
  readonly log: WriteAheadLog;
  readonly views: ViewStore;
  /** Of the bucket, when it is made. */
  readonly replicas: number;
}

interface Header {
  readonly format: number;
  readonly group: string;
  readonly partition: number;
  readonly tip: Omit<Tip, 'hash'> & { readonly hash: string };
}

const FORMAT = 1;

export class Snapshots {
  readonly #options: SnapshotOptions;
  #store: Promise<ObjectStore> | null = null;

  constructor(options: SnapshotOptions) {
    this.#options = options;
  }

  /** Batch that the stored snapshot of a partition reaches; 0: there is none. */
  async batchOf(group: GroupName, partition: number): Promise<number> {
    const store = await this.#openFilled();
    if (store === null) return 0;
    const info = await store.info(nameOf(group, partition));
    return Number(info?.metadata?.['batch'] ?? 0);
  }

  /** Replaces the partition's snapshot with its checkpointed views; returns the batch it reaches, 0: nothing to save. */
  async save(group: GroupName, partition: number): Promise<number> {
    const { log, views } = this.#options;
    views.refresh();
    const position = views.position(group, partition);
    if (position === null) return 0;
    // From here to the first row nothing may be awaited: both are read in one transaction.
    const rows = views.rows(group, partition);
    const first = rows.next();
    const tip = tipAt(log.batch(group, partition, position.batch));
    if (!tip.hash.equals(position.hash) || tip.sequence !== position.sequence) {
      throw new Error(`${group}/${partition}: the views do not stand at the end of batch ${position.batch}`);
    }
    const header: Header = {
      format: FORMAT,
      group,
      partition,
      tip: { ...tip, hash: tip.hash.toString('hex') },
    };
    const lines = Readable.from(linesOf(header, first, rows), { objectMode: true, highWaterMark: 16 });
    const store = await this.#open();
    const compressed = Readable.toWeb(lines.pipe(createGzip({ level: 3 }))) as ReadableStream<Uint8Array>;
    const meta = {
      name: nameOf(group, partition),
      metadata: { batch: String(tip.batch), format: String(FORMAT) },
    };
    await store.put(meta, compressed as never);
    return tip.batch;
  }

  /** Fills an empty partition; returns the tip after which the log goes on, or null when there is no snapshot. */
  async restore(group: GroupName, partition: number): Promise<Tip | null> {
    const { log, views } = this.#options;
    if (log.lastBatchNumber(group, partition) > 0) throw new Error(`${group}/${partition} is not empty`);
    const store = await this.#openFilled();
    if (store === null) return null;
    const found = await store.get(nameOf(group, partition));
    if (found === null) return null;
    await views.drop(group, partition);
    const plain = Readable.fromWeb(found.data as never).pipe(createGunzip());
    const reader = new SnapshotReader(group, partition);
    const parts = reader.read(plain)[Symbol.asyncIterator]();
    // A newer snapshot takes away what is left of the one that is read, and the store's reader then waits for ever.
    const problem = `nothing more came of a snapshot of ${group}/${partition}: it has been replaced, or NATS is away`;
    for (;;) {
      const { value: rows, done } = await within(LIMITS.snapshotSilenceMs, parts.next(), problem);
      if (done === true) break;
      const { batch, sequence, hash } = reader.tip;
      await views.commit(group, partition, { batch, sequence, hash }, rows);
    }
    const failure = await found.error;
    if (failure instanceof Error) throw failure;
    await log.startAt(group, partition, reader.tip);
    views.refresh();
    log.refresh();
    return reader.tip;
  }

  /** Null: there is no snapshot of anything, and perhaps another node is just making the store. */
  async #openFilled(): Promise<ObjectStore | null> {
    const store = await this.#open();
    return (await hasMessages(this.#options.link.manager, SNAPSHOT_STREAM)) ? store : null;
  }

  #open(): Promise<ObjectStore> {
    this.#store ??= this.#options.link.connection
      .jetstream()
      .views.os(SNAPSHOT_BUCKET, { storage: StorageType.File, replicas: this.#options.replicas });
    this.#store.catch(() => {
      this.#store = null;
    });
    return this.#store;
  }
}

function nameOf(group: GroupName, partition: number): string {
  return `${group}.${partition}`;
}

/** Chunks of many lines: a chunk per line would cost more than the line. */
function* linesOf(
  header: Header,
  first: IteratorResult<Row, void>,
  rest: Generator<Row, void, undefined>,
): Generator<Buffer, void, undefined> {
  const digest = createHash('sha256');
  let count = 0;
  let text = `${JSON.stringify(header)}\n`;
  const take = (): Buffer => {
    const chunk = Buffer.from(text);
    digest.update(chunk);
    text = '';
    return chunk;
  };
  for (let row = first; row.done !== true; row = rest.next()) {
    count++;
    text += `${JSON.stringify([row.value.table, row.value.key, row.value.value])}\n`;
    if (text.length >= LIMITS.snapshotChunkCharacters) yield take();
  }
  yield take();
  yield Buffer.from(`${JSON.stringify([count, digest.digest('hex')])}\n`);
}

class SnapshotReader {
  readonly #group: GroupName;
  readonly #partition: number;
  readonly #digest = createHash('sha256');
  #tip: Tip | null = null;
  #count = 0;
  #complete = false;

  constructor(group: GroupName, partition: number) {
    this.#group = group;
    this.#partition = partition;
  }

  get tip(): Tip {
    if (this.#tip === null) throw this.#damaged('it has no header');
    return this.#tip;
  }

  /** Rows in portions for one commit each. Throws when it is damaged or cut short. */
  async *read(source: AsyncIterable<Buffer>): AsyncGenerator<Row[], void, undefined> {
    let rows: Row[] = [];
    let rest: Buffer = Buffer.alloc(0);
    for await (const chunk of source) {
      const bytes = Buffer.concat([rest, chunk]);
      let start = 0;
      for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
        const row = this.#line(bytes.subarray(start, end + 1));
        if (row !== null) rows.push(row);
        start = end + 1;
      }
      rest = bytes.subarray(start);
      if (rows.length >= LIMITS.snapshotRowsPerCommit) {
        yield rows;
        rows = [];
      }
    }
    if (!this.#complete || rest.length > 0) throw this.#damaged('it is cut short');
    yield rows;
  }

  #line(bytes: Buffer): Row | null {
    if (this.#complete) throw this.#damaged('it goes on after its end');
    const value = JSON.parse(bytes.toString()) as Header | [string, string, string] | [number, string];
    if (!Array.isArray(value)) {
      if (value.format !== FORMAT) throw this.#damaged(`format ${value.format} is not known`);
      if (value.group !== this.#group || value.partition !== this.#partition) {
        throw this.#damaged(`it is of ${value.group}/${value.partition}`);
      }
      this.#tip = { ...value.tip, hash: Buffer.from(value.tip.hash, 'hex') };
    } else if (value.length === 2) {
      const [count, digest] = value;
      if (count !== this.#count || digest !== this.#digest.digest('hex')) {
        throw this.#damaged('its digest differs');
      }
      this.#complete = true;
      return null;
    } else {
      this.#count++;
    }
    this.#digest.update(bytes);
    return Array.isArray(value) && value.length === 3
      ? { table: value[0], key: value[1], value: value[2] }
      : null;
  }

  #damaged(problem: string): Error {
    return new Error(`snapshot of ${this.#group}/${this.#partition}: ${problem}`);
  }
}
