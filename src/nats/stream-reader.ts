// Reads a JetStream stream in order, from a sequence on and then as it grows. An ephemeral pull consumer does the work; it
// is begun anew after the last message handled whenever it falls silent, skips or is gone (its server died).
//
// Invariants:
//   - The handler gets each message once, in stream order, and the next one only after it has finished.
//   - At most one pull is outstanding, so memory is bounded by streamReadBytesMax.
//   - Of all readers of a connection that are behind, only streamReadsAtOnce have a pull outstanding. The server keeps what a connection
//     has not taken yet, and closes one for which it keeps too much (its max_pending, 64 MiB); and owners hear of their leases over the
//     same connection.
//   - A consumer reads the copy that its server has of the stream. If that copy lacks for good what the stream's leader has, it is read at
//     another server: be it at its end, or in its middle, where the server passes over what it lacks without a word.

import { AckPolicy, DeliverPolicy, nanos } from 'nats';
import type { ConsumerConfig, ConsumerInfo, Msg, StreamState, Subscription } from 'nats';
import { LIMITS } from '../limits.ts';
import { publish, whenHeard, type NatsLink } from './connection.ts';
import { asError } from '../../wal/thrown.ts';
import { pause } from '../pause.ts';
import { Refusals } from './refusals.ts';
import { lastSequenceOf, messageAt } from './streams.ts';

export interface StreamMessage {
  readonly sequence: number;
  readonly subject: string;
  /** Its own copy: may be kept. */
  readonly data: Buffer;
  /** Operation of a KV entry: "DEL" or "PURGE"; null otherwise. */
  readonly operation: string | null;
  /** When its stream took it, by the clock of the server that led it, unix milliseconds: the same on all its replicas. */
  readonly takenAt: number;
  /** Messages after it, when it was delivered. */
  readonly pending: number;
}

interface Delivered {
  readonly message: StreamMessage;
  readonly consumerSequence: number;
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
  /** It reads on after it could not for a while: what it reads may have been made anew. */
  readonly onResumed?: () => void;
  readonly onMessage: (message: StreamMessage) => void | Promise<void>;
  /** The handler threw, or the stream cannot be read as it should. Reading has stopped. */
  readonly onError: (error: Error) => void;
}

/** How long the server keeps a consumer of which nobody asks anything. */
const CONSUMER_KEPT_MS = LIMITS.streamReadExpiresMs * 4;

/** Which server has a consumer is that server's draw. */
const PLACEMENTS_MAX = 5;

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
  /** There was more in the stream when it was last heard of. */
  #isBehind = false;
  #endTurn = (): void => {};
  #queue: Delivered[] = [];
  #handling = false;
  /** Resolves when the handling in progress has ended. */
  #handled: Promise<void> = Promise.resolve();
  #starting = false;
  /** Once the start under way has ended. */
  #startAgain = false;
  #hasBegun = false;
  #heardAt = 0;
  /** Server at which the consumer reads. */
  #server: string | undefined;
  /** Not to be read at. */
  #avoided: string | undefined;
  /** When a message came last, or it was looked for whether there are more. */
  #newsAt = performance.now();
  /** Wanted and not there when it was looked for last, although the leader has it; 0: none was. */
  #lacking = 0;
  /** Since the last message, for what is missing after it. */
  #readings = 0;
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
    this.#endTurn();
    this.#subscription?.unsubscribe();
    this.#queue = [];
    while (this.#handling) await this.#handled;
  }

  /** Reads on from there by another consumer, at another server than now: what this one has is not what the stream's leader has. `what`
   *  that is, of the stream, for a person. */
  elsewhere(from: number, what: string): void {
    const { link, stream } = this.#options;
    link.complain(
      `${stream} ${what}, and not on ${this.#server ?? 'the server at which it was read'}: it is read at another one. ` +
        'See "One server has a wrong copy" in deploy/nats/README.md',
    );
    this.again(from);
  }

  /** The same, where nothing says that the server is at fault. */
  again(from: number): void {
    this.#next = from;
    this.#avoided = this.#server;
    this.#startAgain = this.#starting;
    void this.#start();
  }

  /** All that the server has was handled, as far as it says. */
  get isAtEnd(): boolean {
    const isReading = this.#subscription !== null && !this.#starting && !this.#closed;
    return isReading && !this.#isBehind && !this.#handling && this.#queue.length === 0;
  }

  async #start(hasTurn = false): Promise<void> {
    if (this.#starting || this.#closed) return;
    this.#starting = true;
    this.#generation++;
    if (!hasTurn) this.#endTurn();
    this.#subscription?.unsubscribe();
    this.#queue = [];
    this.#pullLeft = 0;
    const generation = this.#generation;
    const { link } = this.#options;
    try {
      const info = await this.#newConsumer();
      this.#refusals.clear();
      if (this.#closed || this.#startAgain) return;
      this.#consumer = info.name;
      this.#server = info.cluster?.leader;
      this.#newsAt = performance.now();
      this.#consumerSequence = 0;
      this.#isBehind = info.num_pending > 0;
      this.#heardAt = performance.now();
      this.#subscription = link.connection.subscribe(link.newInbox(), {
        callback: whenHeard((message) => {
          if (generation === this.#generation) this.#onMessage(message);
        }),
      });
      if (hasTurn) this.#pull();
      else this.#askForMore();
      if (this.#hasBegun) this.#options.onResumed?.();
      this.#hasBegun = true;
    } catch (error) {
      // The watch tries again.
      this.#endTurn();
      this.#subscription = null;
      if (!this.#closed) this.#refusals.note(error);
    } finally {
      this.#heardAt = performance.now();
      this.#starting = false;
      if (this.#startAgain) {
        this.#startAgain = false;
        void this.#start();
      }
    }
  }

  async #newConsumer(): Promise<ConsumerInfo> {
    const { link, stream } = this.#options;
    const avoided = this.#avoided;
    this.#avoided = undefined;
    for (let count = 1; ; count++) {
      const info = await link.manager.consumers.add(stream, this.#consumerConfig());
      if (avoided === undefined || info.cluster?.leader !== avoided || count === PLACEMENTS_MAX) return info;
    }
  }

  #consumerConfig(): Partial<ConsumerConfig> {
    const { newestPerSubject, subject, from } = this.#options;
    const first = newestPerSubject !== undefined && this.#next === from;
    return {
      ack_policy: AckPolicy.None,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: nanos(CONSUMER_KEPT_MS),
      ...(first
        ? { deliver_policy: DeliverPolicy.LastPerSubject, filter_subject: newestPerSubject }
        : {
            deliver_policy: DeliverPolicy.StartSequence,
            opt_start_seq: Math.max(1, this.#next),
            ...(subject === undefined ? {} : { filter_subject: subject }),
          }),
    };
  }

  /** What is small, a KV bucket, waits for nobody; nor does who is only waiting for what will be written. */
  #askForMore(): void {
    this.#endTurn();
    if (this.#isBehind && this.#options.newestPerSubject === undefined) {
      this.#endTurn = this.#options.link.catchUps.take(() => {
        // After long in line the consumer is gone, or about to go.
        if (performance.now() - this.#heardAt > CONSUMER_KEPT_MS / 2) void this.#start(true);
        else this.#pull();
      });
    } else {
      this.#pull();
    }
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
    publish(
      link.connection,
      `$JS.API.CONSUMER.MSG.NEXT.${stream}.${this.#consumer}`,
      Buffer.from(JSON.stringify(request)),
      { reply: this.#subscription.getSubject() },
    );
  }

  #onMessage(message: Msg): void {
    this.#heardAt = performance.now();
    const code = message.reply === undefined || message.reply === '' ? (message.headers?.code ?? 0) : 0;
    if (code === 100) return;
    if (code === 0) {
      const delivered = deliveredBy(message);
      this.#newsAt = this.#heardAt;
      this.#isBehind = delivered.message.pending > 0;
      this.#pullLeft--;
      if (this.#pullLeft === 0 || !this.#isBehind) this.#endTurn();
      this.#queue.push(delivered);
    } else if (
      code === 503 ||
      (code === 409 && /deleted|leadership/i.test(message.headers?.description ?? ''))
    ) {
      void this.#start();
      return;
    } else {
      // The request has ended: expired, or enough bytes. A server that lost its files goes on saying that it has more, and sends nothing.
      if (this.#pullLeft === LIMITS.streamReadMessages) this.#isBehind = false;
      this.#pullLeft = 0;
      this.#endTurn();
    }
    if (!this.#handling) this.#handled = this.#handleAll(this.#generation);
  }

  async #handleAll(generation: number): Promise<void> {
    this.#handling = true;
    try {
      for (;;) {
        const delivered = this.#queue.shift();
        if (delivered === undefined) break;
        const { message, consumerSequence } = delivered;
        if (consumerSequence !== this.#consumerSequence + 1) {
          void this.#start();
          break;
        }
        if (message.sequence > this.#next && (await this.#isMissed(message.sequence))) break;
        if (generation !== this.#generation) break;
        this.#consumerSequence = consumerSequence;
        this.#next = message.sequence + 1;
        this.#readings = 0;
        const done = this.#options.onMessage(message);
        if (done !== undefined) await done;
        if (generation !== this.#generation) break;
      }
    } catch (error) {
      this.#closed = true;
      clearInterval(this.#watch);
      this.#offReconnect();
      this.#endTurn();
      this.#subscription?.unsubscribe();
      this.#options.onError(asError(error));
    } finally {
      this.#handling = false;
    }
    if (generation !== this.#generation) {
      if (this.#queue.length > 0) this.#handled = this.#handleAll(this.#generation);
    } else if (this.#pullLeft <= 0) {
      this.#askForMore();
    }
  }

  /** What is wanted before that message the stream has: it is read at another server. Throws where none sends it. */
  async #isMissed(sequence: number): Promise<boolean> {
    const { stream, newestPerSubject, subject } = this.#options;
    if (newestPerSubject !== undefined || subject !== undefined) return false;
    const missed = await this.#missedBefore(sequence);
    if (missed === null || this.#closed) return false;
    const what = `has ${missed.from} to ${sequence - 1} on ${missed.isLed ? 'its leader' : 'other servers'}`;
    if (++this.#readings > LIMITS.streamHoleReadingsMax) {
      if (!missed.isLed) return false;
      throw new Error(`${stream} ${what}, and none sends it`);
    }
    this.elsewhere(missed.from, what);
    return true;
  }

  /** Null: nobody has anything there, as where the stream begins later, or (with one replica) no room was found. */
  async #missedBefore(sequence: number): Promise<{ readonly from: number; readonly isLed: boolean } | null> {
    const { link, stream } = this.#options;
    while (!this.#closed) {
      try {
        const { config, state } = await link.manager.streams.info(stream);
        const from = Math.max(this.#next, state.first_seq);
        if (from >= sequence) return null;
        if (state.last_seq < sequence) throw new Error('its leader has a short copy');
        const isLed = await this.#isAnyLed(from, sequence, state);
        return isLed || config.num_replicas > 1 ? { from, isLed } : null;
      } catch {
        // Nobody can say.
        await pause(LIMITS.natsReconnectMs);
      }
    }
    return null;
  }

  /** The stream's leader has something from there to before `end`. */
  async #isAnyLed(from: number, end: number, { num_deleted: deleted }: StreamState): Promise<boolean> {
    const { link, stream } = this.#options;
    // The server leaves a count of 0 out, whatever its type says.
    if ((deleted ?? 0) === 0) return true;
    for (let at = from; at < end; at++) {
      if ((await messageAt(link.manager, stream, at)) !== null) return true;
    }
    return false;
  }

  #checkSilence(): void {
    if (this.#starting || this.#closed) return;
    // Who stands in line has asked for nothing.
    const isSilent = this.#pullLeft > 0 && performance.now() - this.#heardAt > this.#heartbeatMs * 2.5;
    if (this.#handling) {
      if (isSilent) this.#endTurn();
    } else if (isSilent || this.#subscription === null) {
      void this.#start();
    } else if (this.isAtEnd && performance.now() - this.#newsAt > LIMITS.streamEndLookMs) {
      void this.#lookForMore();
    }
  }

  /** Of what is there for nobody else to read, twice: what is new may be on its way. */
  async #lookForMore(): Promise<void> {
    this.#newsAt = performance.now();
    const { link, stream, newestPerSubject, subject } = this.#options;
    // Others' messages tell nothing of these.
    if (subject !== undefined) return;
    const next = this.#next;
    let last: number;
    try {
      const { config, state } = await link.manager.streams.info(stream);
      // With several replicas no place is left empty: the leader may have lost what stood there.
      const isKept = config.num_replicas > 1 && this.#readings < LIMITS.streamHoleReadingsMax;
      // Keys that a hand has removed are written again; a front may not look at messages.
      const isAnyEmpty = newestPerSubject === undefined && !isKept;
      last = isAnyEmpty ? await lastSequenceOf(link.manager, stream, state) : state.last_seq;
    } catch {
      // Nobody can say: the next look asks again.
      return;
    }
    if (last < next || next !== this.#next || !this.isAtEnd) return;
    if (this.#lacking !== next) {
      this.#lacking = next;
      return;
    }
    this.#readings++;
    this.elsewhere(next, `has ${next} to ${last} on its leader`);
  }
}

/** Reply subject: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, with a domain and
 *  an account hash before the stream in newer servers. */
function deliveredBy(message: Msg): Delivered {
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
      // In nanoseconds, more than a number holds.
      takenAt: Number((tokens[7 + at] ?? '').slice(0, -6)),
      pending: Number(tokens[8 + at]),
    },
  };
}
