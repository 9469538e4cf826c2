// The bytes of a snapshot, version 1: lines of JSON, of which snapshots.ts makes a gzip. The first is the header {format, group,
// partition, tip: {batch, sequence, epoch, timeMs, hash (hex)}}; each other one a row [table, key, value]; the last
// [rows, SHA-256 (hex) of all lines before].
//
// This is a format: other versions read it.

import { createHash } from 'node:crypto';
import {
  type PartitionName,
  type Row,
  type StoredTip,
  storedTip,
  type Tip,
  tipFrom,
} from '../../../wal/types.ts';
import { LIMITS } from '../../limits.ts';
import { LogDiverged } from '../log/log-follower.ts';

interface Header {
  readonly format: number;
  readonly group: string;
  readonly partition: number;
  readonly tip: StoredTip;
}

export const SNAPSHOT_FORMAT = 1;

/** Chunks of many lines: a chunk per line would cost more than the line. */
export function* snapshotLines(
  { group, partition }: PartitionName,
  tip: Tip,
  first: IteratorResult<Row, void>,
  rest: Generator<Row, void, undefined>,
): Generator<Buffer, void, undefined> {
  const header: Header = {
    format: SNAPSHOT_FORMAT,
    group,
    partition,
    tip: storedTip(tip),
  };
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

export class SnapshotReader {
  readonly #group: string;
  readonly #partition: number;
  readonly #digest = createHash('sha256');
  #tip: Tip | null = null;
  #count = 0;
  #complete = false;

  constructor(group: string, partition: number) {
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
    let taken = 0;
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
      taken += start;
      if (rows.length >= LIMITS.snapshotRowsPerCommit || taken >= LIMITS.snapshotBytesPerCommit) {
        yield rows;
        rows = [];
        taken = 0;
      }
    }
    if (!this.#complete || rest.length > 0) throw this.#damaged('it is cut short');
    yield rows;
  }

  #line(bytes: Buffer): Row | null {
    if (this.#complete) throw this.#damaged('it goes on after its end');
    const value = JSON.parse(bytes.toString()) as Header | [string, string, string] | [number, string];
    if (!Array.isArray(value)) {
      if (value.format !== SNAPSHOT_FORMAT) throw this.#damaged(`format ${value.format} is not known`);
      if (value.group !== this.#group || value.partition !== this.#partition) {
        throw this.#damaged(`it is of ${value.group}/${value.partition}`);
      }
      this.#tip = tipFrom(value.tip);
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

  /** Others may have the partition. */
  #damaged(problem: string): LogDiverged {
    return new LogDiverged(`snapshot of ${this.#group}/${this.#partition}: ${problem}`);
  }
}
