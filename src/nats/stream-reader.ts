// Reads a JetStream stream in order, from a sequence on and then as it grows. An ephemeral pull consumer does the work; it
// is begun anew after the last message handled whenever it falls silent, skips or is gone (its server died).
//
// Invariants: the handler gets each message once, in stream order, and the next one only after it has finished; at most
// one pull is outstanding, so that memory is bounded by streamReadBytesMax.

import { AckPolicy, DeliverPolicy, nanos } from 'nats';
import type { ConsumerConfig, Msg, Subscription } from 'nats';
import { LIMITS } from '../limits.ts';
import { whenHeard, type NatsLink } from './connection.ts';
import { asError } from '../../wal/thrown.ts';
import { Refusals } from './refusals.ts';

export interface StreamMessage {
  readonly sequence: number;
  readonly subject: string;
  /** Its own copy: may be kept. */
  readonly data: Buffer;
  /** Operation of a KV entry: "DEL" or "PURGE"; null otherwise. */
  readonly operation: string | null;
  /** Messages after it, when it was delivered. */
  readonly pending: number;
}

export interface StreamReaderOptions {
  readonly link: NatsLink;
  readonly stream: string;
  /** First stream sequence wanted. */
  readonly from: number;
  /** Of each subject under this one only the newest message at first: for KV buckets. */
  readonly newestPerSubject?: string;
  /** Only messages under this one; absent: all. */
  readonly subject?: string;
  readonly heartbeatMs?: number;
  readonly onMessage: (message: StreamMessage) => void | Promise<void>;
  /** The handler threw, or the stream cannot be read as it should. Reading has stopped. */
  readonly onError: (error: Error) => void;
}

export class StreamReader {
  readonly #options: StreamReaderOptions;
  readonly #heartbeatMs: number;
  /** Stream sequence of the next message wanted. */
  #next: number;
  #subscription: Subscription | null = null;
  #consumer = '';
  #consumerSequence = 0;
  /** Of this consumer's pull; lower ones are of consumers given up. */
  #generation = 0;
  #pullLeft = 0;
  #queue: Msg[] = [];
  #handling = false;
  #starting = false;
  #heardAt = 0;
  #closed = false;
  readonly #watch: NodeJS.Timeout;
  readonly #offReconnect: () => void;
  readonly #refusals: Refusals;

  constructor(options: StreamReaderOptions) {
    this.#options = options;
    this.#next = options.from;
    this.#refusals = new Refusals(options.link, options.stream);
    this.#heartbeatMs = options.heartbeatMs ?? LIMITS.streamHeartbeatMs;
    this.#watch = setInterval(() => this.#checkSilence(), this.#heartbeatMs);
    // The server may count as delivered what went down with the connection: where nothing follows, no gap would show.
    this.#offReconnect = options.link.onReconnect(() => void this.#start());
    void this.#start();
  }

  /** Resolves when the handler in progress, if any, has finished. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#watch);
    this.#offReconnect();
    this.#generation++;
    this.#subscription?.unsubscribe();
    this.#queue = [];
    while (this.#handling) await new Promise((resolve) => setImmediate(resolve));
  }

  async #start(): Promise<void> {
    if (this.#starting || this.#closed) return;
    this.#starting = true;
    this.#generation++;
    this.#subscription?.unsubscribe();
    this.#queue = [];
    const generation = this.#generation;
    const { link, stream } = this.#options;
    try {
      const info = await link.manager.consumers.add(stream, this.#consumerConfig());
      this.#refusals.clear();
      if (this.#closed) return;
      this.#consumer = info.name;
      this.#consumerSequence = 0;
      this.#subscription = link.connection.subscribe(link.newInbox(), {
        callback: whenHeard((message) => {
          if (generation === this.#generation) this.#onMessage(message);
        }),
      });
      this.#pull();
    } catch (error) {
      // The watch tries again.
      this.#subscription = null;
      if (!this.#closed) this.#refusals.note(error);
    } finally {
      this.#heardAt = performance.now();
      this.#starting = false;
    }
  }

  #consumerConfig(): Partial<ConsumerConfig> {
    const { newestPerSubject, subject, from } = this.#options;
    const first = newestPerSubject !== undefined && this.#next === from;
    return {
      ack_policy: AckPolicy.None,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: nanos(LIMITS.streamReadExpiresMs * 4),
      ...(first
        ? { deliver_policy: DeliverPolicy.LastPerSubject, filter_subject: newestPerSubject }
        : {
            deliver_policy: DeliverPolicy.StartSequence,
            opt_start_seq: Math.max(1, this.#next),
            ...(subject === undefined ? {} : { filter_subject: subject }),
          }),
    };
  }

  #pull(): void {
    if (this.#closed || this.#subscription === null) return;
    const { link, stream } = this.#options;
    this.#pullLeft = LIMITS.streamReadMessages;
    const request = {
      batch: LIMITS.streamReadMessages,
      max_bytes: LIMITS.streamReadBytesMax,
      expires: nanos(LIMITS.streamReadExpiresMs),
      idle_heartbeat: nanos(this.#heartbeatMs),
    };
    this.#heardAt = performance.now();
    link.connection.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${stream}.${this.#consumer}`,
      JSON.stringify(request),
      {
        reply: this.#subscription.getSubject(),
      },
    );
  }

  #onMessage(message: Msg): void {
    this.#heardAt = performance.now();
    const code = message.reply === undefined || message.reply === '' ? (message.headers?.code ?? 0) : 0;
    if (code === 100) return;
    if (code === 0) {
      this.#pullLeft--;
      this.#queue.push(message);
    } else if (
      code === 503 ||
      (code === 409 && /deleted|leadership/i.test(message.headers?.description ?? ''))
    ) {
      void this.#start();
      return;
    } else {
      // The request has ended: expired, or enough bytes.
      this.#pullLeft = 0;
    }
    if (!this.#handling) void this.#handleAll(this.#generation);
  }

  async #handleAll(generation: number): Promise<void> {
    this.#handling = true;
    try {
      for (;;) {
        const message = this.#queue.shift();
        if (message === undefined) break;
        const read = streamMessage(message);
        if (read.consumerSequence !== this.#consumerSequence + 1) {
          void this.#start();
          break;
        }
        this.#consumerSequence = read.consumerSequence;
        this.#next = read.message.sequence + 1;
        const done = this.#options.onMessage(read.message);
        if (done !== undefined) await done;
        if (generation !== this.#generation) break;
      }
    } catch (error) {
      this.#closed = true;
      clearInterval(this.#watch);
      this.#offReconnect();
      this.#subscription?.unsubscribe();
      this.#options.onError(asError(error));
    } finally {
      this.#handling = false;
    }
    if (generation !== this.#generation) {
      if (this.#queue.length > 0) void this.#handleAll(this.#generation);
    } else if (this.#pullLeft <= 0) {
      this.#pull();
    }
  }

  #checkSilence(): void {
    if (this.#starting || this.#handling || this.#closed) return;
    if (this.#subscription === null || performance.now() - this.#heardAt > this.#heartbeatMs * 2.5) {
      void this.#start();
    }
  }
}

/** Reply subject: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, with a domain and
 *  an account hash before the stream in newer servers. */
function streamMessage(message: Msg): { message: StreamMessage; consumerSequence: number } {
  const tokens = (message.reply ?? '').split('.');
  const at = tokens.length > 9 ? 2 : 0;
  const operation = message.headers?.get('KV-Operation');
  return {
    consumerSequence: Number(tokens[6 + at]),
    message: {
      sequence: Number(tokens[5 + at]),
      subject: message.subject,
      data: Buffer.from(message.data),
      operation: operation === undefined || operation === '' ? null : operation,
      pending: Number(tokens[8 + at]),
    },
  };
}
