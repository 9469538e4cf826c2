// A segment: a run of batches of one partition in a gzip file.
//
// Inside the gzip: one line of JSON (SegmentHeader), then each batch as four bytes of length (little-endian) and its bytes
// as they are in the log.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { pipeline as piped } from 'node:stream/promises';
import { createGunzip, createGzip, type Gunzip } from 'node:zlib';
import { tipAt } from '../batch.ts';
import { WAL_LIMITS } from '../limits.ts';
import { messageOf, naming } from '../thrown.ts';
import { type Batch, type PartitionName, type StoredTip, storedTip, type Tip } from '../types.ts';
import { BATCHES_A_BREATH, breathe } from './priority.ts';
import type { Progress } from './progress.ts';

interface SegmentHeader extends PartitionName {
  readonly format: 'daftari-segment';
  readonly version: 1;
  /** What its first batch follows. */
  readonly start: StoredTip;
}

/** What was written: where its batches end, and what tells the file from any other. */
export interface WrittenFile {
  /** `start` itself where there was no batch. */
  readonly end: Tip;
  readonly fileBytes: number;
  readonly sha256: string;
}

/** Batches that follow `start`, in order. On the disk when it resolves; rejects with the name of the file. */
export async function writeSegmentFile(
  path: string,
  { group, partition }: PartitionName,
  start: Tip,
  batches: Iterable<Batch> | AsyncIterable<Batch>,
  progress: Progress,
): Promise<WrittenFile> {
  let end = start;
  const header: SegmentHeader = {
    format: 'daftari-segment',
    version: 1,
    group,
    partition,
    start: storedTip(start),
  };
  const frames = async function* frames(): AsyncGenerator<Buffer> {
    yield Buffer.from(`${JSON.stringify(header)}\n`);
    let batchCount = 0;
    for await (const batch of batches) {
      end = tipAt(batch);
      progress.add(1, batch.bytes.length);
      yield framed(batch.bytes);
      if (++batchCount % BATCHES_A_BREATH === 0) await breathe();
    }
  };
  const hash = createHash('sha256');
  let fileBytes = 0;
  const count = async function* count(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      hash.update(chunk);
      fileBytes += chunk.length;
      yield chunk;
    }
  };
  await naming(path, async () => {
    // A stream that opens it itself can make it after what failed has been removed.
    const target = (await open(path, 'w', 0o600)).createWriteStream({ flush: true });
    await piped(Readable.from(frames()), createGzip({ level: 6 }), count, target);
  });
  return { end, fileBytes, sha256: hash.digest('hex') };
}

/** Its batches as they were written. Throws where it is no segment or ends too early; whoever reads them proves them. */
export async function* batchesIn(path: string): AsyncGenerator<Buffer> {
  const { bytes, plain } = await begun(path);
  try {
    for (;;) {
      const length = await bytes.take(4);
      if (length === null) return;
      const size = length.readUInt32LE(0);
      if (size > WAL_LIMITS.payloadBytesMax) throw new Error(`${path}: a batch of ${size} bytes`);
      const batch = await bytes.take(size);
      if (batch === null) throw new Error(`${path} ends within a batch`);
      yield batch;
    }
  } finally {
    // Whoever reads no further would leave the file open.
    plain.destroy();
  }
}

/** What its first batch follows, as the file itself says. */
export async function startIn(path: string): Promise<StoredTip> {
  const { header, plain } = await begun(path);
  plain.destroy();
  return header.start;
}

async function begun(path: string): Promise<{ header: SegmentHeader; bytes: ByteReader; plain: Gunzip }> {
  const plain = createGunzip();
  // Whoever reads `plain` is told of a failure.
  pipeline(bytesOf(path), plain, () => {});
  const bytes = new ByteReader(plain);
  const header: SegmentHeader = JSON.parse((await bytes.line()).toString());
  if (header.format !== 'daftari-segment' || header.version !== 1) throw new Error(`${path} is no segment`);
  return { header, bytes, plain };
}

/** In hex. */
export async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of bytesOf(path)) hash.update(chunk);
  return hash.digest('hex');
}

/** Throws which file it is that cannot be read, where the system says no more than EIO. */
async function* bytesOf(path: string): AsyncGenerator<Buffer> {
  try {
    yield* createReadStream(path);
  } catch (error) {
    const reason = messageOf(error);
    throw new Error(`${path} cannot be read: ${reason}`, { cause: error });
  }
}

function framed(bytes: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(4 + bytes.length);
  frame.writeUInt32LE(bytes.length, 0);
  bytes.copy(frame, 4);
  return frame;
}

/** Takes exact numbers of bytes from a stream of chunks. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** null: the stream has ended. */
  async take(count: number): Promise<Buffer | null> {
    const parts = [this.#rest];
    let have = this.#rest.length;
    while (have < count) {
      const next = await this.#chunks.next();
      if (next.done === true) {
        if (have === 0) return null;
        throw new Error('the file ends too early');
      }
      parts.push(next.value);
      have += next.value.length;
    }
    const all = parts.length === 1 ? this.#rest : Buffer.concat(parts);
    this.#rest = all.subarray(count);
    return all.subarray(0, count);
  }

  async line(): Promise<Buffer> {
    const bytes: number[] = [];
    for (;;) {
      const byte = await this.take(1);
      if (byte === null) throw new Error('the file ends too early');
      if (byte[0] === 0x0a) return Buffer.from(bytes);
      bytes.push(byte[0] ?? 0);
    }
  }
}
