// Gives a log that begins after a snapshot the batches before it, from the stream, which has them all: for a machine that
// must make its views anew, because they are gone or a new version has another form of them.
//
// Invariant: nothing of the local log is replaced. What comes before it counts only when the chain meets where it begins.

import { emptyTip } from '../../wal/batch.ts';
import type { WriteAheadLog } from '../../wal/log.ts';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from './connection.ts';
import { LogChain } from './log-chain.ts';
import { StreamReader } from './stream-reader.ts';
import type { StreamMessage } from './stream-reader.ts';
import { logStream } from './subjects.ts';

/** Resolves when the log begins with batch 1. Nobody else may write it meanwhile. */
export async function readHistory(
  link: NatsLink,
  log: WriteAheadLog,
  group: GroupName,
  partition: number,
): Promise<void> {
  const stream = logStream(group, partition);
  const { state } = await link.manager.streams.info(stream);
  if (state.messages === 0 || state.first_seq > 1) {
    throw new Error(`the stream of ${group}/${partition} does not begin with its first batch`);
  }
  const { promise: isComplete, resolve, reject } = Promise.withResolvers<void>();
  const history = new History(log, group, partition, resolve);
  const reader = new StreamReader({
    link,
    stream,
    from: 1,
    heartbeatMs: LIMITS.streamFollowHeartbeatMs,
    onMessage: (message) => history.take(message),
    onError: reject,
  });
  try {
    await isComplete;
  } finally {
    await reader.close();
  }
}

class History {
  readonly #log: WriteAheadLog;
  readonly #group: GroupName;
  readonly #partition: number;
  readonly #onComplete: () => void;
  /** The batch after which the local log begins: the last one wanted. */
  readonly #end: number;
  readonly #chain = new LogChain(emptyTip);
  #written = emptyTip;
  #buffer: Buffer[] = [];
  #bufferBytes = 0;

  constructor(log: WriteAheadLog, group: GroupName, partition: number, onComplete: () => void) {
    this.#log = log;
    this.#group = group;
    this.#partition = partition;
    this.#onComplete = onComplete;
    this.#end = log.startOf(group, partition).batch;
  }

  take({ data, pending }: StreamMessage): void | Promise<void> {
    if (this.#chain.tip.batch === this.#end) return;
    const batch = this.#chain.take(data);
    if (batch !== null) {
      this.#buffer.push(batch.bytes);
      this.#bufferBytes += batch.bytes.length;
    }
    const { batch: reached } = this.#chain.tip;
    if (reached < this.#end && pending === 0) {
      throw new Error(`the stream of ${this.#group}/${this.#partition} has no batch ${reached + 1}`);
    }
    const isFull =
      this.#buffer.length >= LIMITS.streamReadMessages || this.#bufferBytes >= LIMITS.streamReadBytesMax;
    if (reached === this.#end || isFull) return this.#write();
  }

  async #write(): Promise<void> {
    const buffer = this.#buffer;
    this.#buffer = [];
    this.#bufferBytes = 0;
    this.#written = await this.#log.prepend(this.#group, this.#partition, this.#written, buffer);
    if (this.#written.batch === this.#end) this.#onComplete();
  }
}
