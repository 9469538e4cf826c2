// Publishes to JetStream and waits for its acknowledgement, with the expectations that make a write conditional. One
// subscription for all acknowledgements of a connection.

import { headers } from 'nats';
import type { NatsConnection } from 'nats';
import { LIMITS } from '../limits.ts';
import { listen, publish, type Listening, type NatsLink } from './connection.ts';

/** What JetStream said. */
export type PublishResult =
  | { readonly type: 'stored'; readonly sequence: number; readonly duplicate: boolean }
  /** The expectation does not hold: somebody else has written. */
  | { readonly type: 'conflict'; readonly description: string }
  /** The account, or the server, has no room for it. A stream of one replica is left with an empty place by each refusal. */
  | { readonly type: 'full'; readonly description: string }
  /** Nobody knows whether it was stored: no leader, a time-out. */
  | { readonly type: 'unanswered'; readonly description: string };

export interface Expectation {
  readonly messageId?: string | undefined;
  /** Of the stream. */
  readonly lastSequence?: number;
  /** Of the subject; 0: it has no message. */
  readonly lastSubjectSequence?: number;
}

interface Acknowledgement {
  readonly seq?: number;
  readonly duplicate?: boolean;
  readonly error?: { readonly code: number; readonly err_code: number; readonly description: string };
}

interface Waiting {
  readonly resolve: (result: PublishResult) => void;
  readonly timer: NodeJS.Timeout;
}

/** "wrong last sequence" and its older forms. */
const WRONG_LAST_SEQUENCE = new Set([10071, 10164]);

/** "resource limits exceeded for account", "insufficient resources", "insufficient storage resources available". */
const NO_ROOM = new Set([10002, 10023, 10047]);

export class StreamPublisher {
  readonly #connection: NatsConnection;
  readonly #prefix: string;
  readonly #subscription: Listening;
  readonly #waiting = new Map<string, Waiting>();
  #count = 0;

  constructor(link: NatsLink) {
    this.#connection = link.connection;
    this.#prefix = `${link.newInbox()}.`;
    this.#subscription = listen(link.connection, `${this.#prefix}*`, (message) => {
      const number = message.subject.slice(this.#prefix.length);
      if (message.data.length === 0) this.#settle(number, unanswered('no responders'));
      else {
        this.#settle(number, resultOf(JSON.parse(Buffer.from(message.data).toString()) as Acknowledgement));
      }
    });
  }

  publish(subject: string, data: Uint8Array, expected: Expectation): Promise<PublishResult> {
    if (this.#connection.isClosed()) return Promise.resolve(unanswered('the connection is closed'));
    const number = String(++this.#count);
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => this.#settle(number, unanswered('no acknowledgement in time')),
        LIMITS.streamAckMs,
      );
      this.#waiting.set(number, { resolve, timer });
      const head = headers();
      if (expected.messageId !== undefined) head.set('Nats-Msg-Id', expected.messageId);
      if (expected.lastSequence !== undefined) {
        head.set('Nats-Expected-Last-Sequence', String(expected.lastSequence));
      }
      if (expected.lastSubjectSequence !== undefined) {
        head.set('Nats-Expected-Last-Subject-Sequence', String(expected.lastSubjectSequence));
      }
      publish(this.#connection, subject, data, { headers: head, reply: this.#prefix + number });
    });
  }

  close(): void {
    this.#subscription.unsubscribe();
    for (const number of this.#waiting.keys()) this.#settle(number, unanswered('closed'));
  }

  #settle(number: string, result: PublishResult): void {
    const waiting = this.#waiting.get(number);
    if (waiting === undefined) return;
    this.#waiting.delete(number);
    clearTimeout(waiting.timer);
    waiting.resolve(result);
  }
}

function resultOf({ seq, duplicate, error }: Acknowledgement): PublishResult {
  if (error !== undefined) {
    const description = `${error.err_code}: ${error.description}`;
    if (WRONG_LAST_SEQUENCE.has(error.err_code)) return { type: 'conflict', description };
    return NO_ROOM.has(error.err_code) ? { type: 'full', description } : unanswered(description);
  }
  return { type: 'stored', sequence: seq ?? 0, duplicate: duplicate === true };
}

function unanswered(description: string): PublishResult {
  return { type: 'unanswered', description };
}
