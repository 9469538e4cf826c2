// Whether all servers number what is in the bucket of leases alike. nats-server 2.9 can come to store a message once more on one
// replica only, when it was killed: it then has the same messages under other sequences for good, also after every server was
// restarted. A write names what was read, so none of a node that reads there agrees with the leader again.

import type { JetStreamManager } from 'nats';
import { LIMITS } from '../../limits.ts';
import type { StreamMessage } from '../stream-reader.ts';
import { storedMessage } from '../streams.ts';
import { LEASE_STREAM } from '../subjects.ts';

/** One message, as two servers have it. */
export interface SplitNumbering {
  readonly subject: string;
  /** Its sequence where it was read. */
  readonly read: number;
  /** On the leader. */
  readonly leading: number;
}

export class Numbering {
  #lastRead: StreamMessage | null = null;
  /** Since when a split is seen, monotonic milliseconds. Null: none is. */
  #seenAt: number | null = null;

  noteRead(message: StreamMessage): void {
    this.#lastRead = message;
  }

  /** The bucket is another one: nothing was seen of it. */
  beginAnew(): void {
    this.#lastRead = null;
    this.#seenAt = null;
  }

  /** Null: alike, as far as the last message that was read tells, or not for certain. A replica that is being brought up may be behind
   *  for a moment: only what is seen for `leaseMs` is said. Rejects when nobody can say, or there is no bucket. */
  async split(manager: JetStreamManager): Promise<SplitNumbering | null> {
    const read = this.#lastRead;
    if (read === null) return null;
    // By the stream's leader, never by another replica.
    const stored = await storedMessage(manager, LEASE_STREAM, { last_by_subj: read.subject });
    // Other news: where this stands nobody says any more.
    if (stored?.time.getTime() !== read.takenAt || !read.data.equals(stored.data)) return null;
    if (stored.seq === read.sequence) {
      this.#seenAt = null;
      return null;
    }
    const now = performance.now();
    this.#seenAt ??= now;
    if (now - this.#seenAt < LIMITS.leaseMs) return null;
    return { subject: read.subject, read: read.sequence, leading: stored.seq };
  }
}
