// The chunks of a snapshot, to the object store and from it, so many at once. The store's own client sends all that it is given without
// waiting, and keeps all that comes. The log's batches would then stand behind a large snapshot on their connection, the snapshot's
// chunks would time out, and an empty machine would have a whole snapshot in memory.

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { JetStreamClient, ObjectInfo } from 'nats';
import { LIMITS } from '../../limits.ts';
import type { NatsLink } from '../connection.ts';
import { LogDiverged } from '../log/log-follower.ts';
import { StreamReader } from '../stream-reader.ts';
import { SNAPSHOT_BUCKET, SNAPSHOT_STREAM } from '../subjects.ts';
import { asError } from '../../../wal/thrown.ts';

/** Subject of an object's chunks. `id`: the one that the object store made for it. */
export function chunksOf(id: string): string {
  return `$O.${SNAPSHOT_BUCKET}.C.${id}`;
}

/** One save's. */
interface Sending {
  underWay: number;
  failure: Error | null;
  onAnswer: () => void;
}

export class ChunkSender {
  /** For the object store: what becomes of its messages is heard here too. */
  readonly jetstream: JetStreamClient;
  #sending: Sending = { underWay: 0, failure: null, onAnswer: () => {} };

  constructor({ connection }: NatsLink) {
    this.jetstream = connection.jetstream();
    const publish = this.jetstream.publish.bind(this.jetstream);
    this.jetstream.publish = (...message) => {
      const sending = this.#sending;
      const answered = (failure: Error | null): void => {
        sending.underWay--;
        sending.failure ??= failure;
        sending.onAnswer();
      };
      sending.underWay++;
      const acknowledged = publish(...message);
      // The store looks at what became of its chunks only when the last one is sent. One that is refused before that must not count as an
      // unhandled rejection, which ends the process.
      acknowledged.then(
        () => answered(null),
        (error: unknown) => answered(asError(error)),
      );
      return acknowledged;
    };
  }

  /** What the store is to be given next: it comes no faster than chunks are acknowledged, and ends when one is refused. */
  async *paced(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
    const sending: Sending = { underWay: 0, failure: null, onAnswer: () => {} };
    this.#sending = sending;
    for await (const bytes of source) {
      while (sending.failure === null && sending.underWay >= LIMITS.snapshotChunksUnderWayMax) {
        await new Promise<void>((resolve) => {
          sending.onAnswer = resolve;
        });
      }
      if (sending.failure !== null) throw sending.failure;
      yield bytes;
    }
  }
}

/** What is stored, read no further than whoever takes it has come. Fails when it is not what was stored. */
export function storedChunks(link: NatsLink, { nuid, size, digest }: ObjectInfo): Readable {
  const hash = createHash('sha256');
  let come = 0;
  let goOn = (): void => {};
  const reader = new StreamReader({
    link,
    stream: SNAPSHOT_STREAM,
    from: 1,
    subject: chunksOf(nuid),
    onMessage({ data }) {
      come += data.length;
      hash.update(data);
      const isFull = !chunks.push(data);
      if (come >= size) return end();
      if (!isFull) return;
      return new Promise((resolve) => {
        goOn = resolve;
      });
    },
    onError: (error) => chunks.destroy(error),
  });
  const end = (): void => {
    // The store pads it, and there may be another kind.
    const stored = /^SHA-256=([\w-]+)=*$/.exec(digest)?.[1];
    const isWhole = stored === hash.digest('base64url');
    if (isWhole) chunks.push(null);
    else chunks.destroy(new LogDiverged('a snapshot is corrupt: its digest is not the one stored with it'));
  };
  const chunks = new Readable({
    read: () => goOn(),
    destroy(error, done) {
      goOn();
      void reader.close();
      done(error);
    },
  });
  if (size === 0) end();
  return chunks;
}
