// The bus over NATS, caller's side: fronts, pollers and webhooks send here. Messages to one partition that are sent in one callback travel
// in one NATS message, and a front hands on all requests of a turn in one callback (../http/arrived.ts). Messages to a partition that
// this process serves are handed over at once. Lost answers are resolved by sending again until the deadline.
//
// Invariants:
//   - What is answered is known. `unavailable` only when no attempt can have been decided. A rejection only from the newest attempt, so
//     that no later one can still create what the caller was refused, and only if it proves that no earlier one has.
//   - An attempt whose fate is unknown is sent again only if the message is repeatable (repeatable.ts); otherwise the
//     caller gets `unknown` at the deadline.
//   - Requests under way are bounded (LIMITS.busRequestsOpenMax), and what they say (LIMITS.busCharactersOpenMax); no timer,
//     promise or subscription per request.
//
// Attempts: an owner's epoch is part of the subject, so each attempt has one possible decider. What reaches an owner
// that was replaced cannot become durable, whatever it thinks (stream-replica.ts). What reaches the same owner late,
// after a newer attempt was rejected there, is refused by it (nats-bus-server.ts).

import type { Msg, NatsConnection } from 'nats';
import {
  type Bus,
  type GroupName,
  type Message,
  type OnReply,
  type Reply,
  UNAVAILABLE,
  UNKNOWN,
} from '../../bus/bus.ts';
import type { Routes } from '../../bus/ownership.ts';
import { LIMITS } from '../../limits.ts';
import { listen, publish, type Listening } from '../connection.ts';
import { isRepeatable, provesNothingDone } from './repeatable.ts';
import type { NatsBusServer } from './nats-bus-server.ts';
import { assertToken, callerSubject, commandSubject, replyPrefix, newSession } from '../subjects.ts';
import { TimerWheel } from './timer-wheel.ts';
import { commandLine, NOT_OWNER, readReplies } from './wire.ts';
import type { WireReply } from './wire.ts';

interface Lane {
  readonly group: GroupName;
  readonly partition: number;
  /** To be sent when the callback that runs has ended. */
  queue: Request[];
}

interface Request {
  readonly id: number;
  readonly lane: Lane;
  readonly message: Message;
  readonly onReply: OnReply;
  /** Monotonic milliseconds. */
  readonly deadline: number;
  /** When it was given to the bus, monotonic milliseconds. */
  readonly since: number;
  /** When something is to be done about it, monotonic milliseconds. */
  nextAt: number;
  /** Where its earliest entry stands in the wheel; Infinity: nowhere. */
  wheelAt: number;
  /** Number of the newest attempt; 0: never sent. */
  attempt: number;
  /** Epoch that the newest attempt was sent to. */
  epoch: number;
  /** The newest attempt has no answer yet. */
  open: boolean;
  /** Some earlier attempt may have been decided. */
  uncertain: boolean;
  /** It stands in its lane's queue. */
  queued: boolean;
  /** Of its message as sent, or as it waits for an owner; 0: never queued. */
  characters: number;
}

export interface NatsBusOptions {
  readonly connection: NatsConnection;
  /** Its role and its node, "front.front1": what permissions are granted by. */
  readonly caller: string;
  readonly routes: Routes;
  readonly partitions: Record<GroupName, number>;
  /** The partitions that this process serves. */
  readonly server: NatsBusServer;
}

export class NatsBus implements Bus {
  readonly #connection: NatsConnection;
  readonly #routes: Routes;
  readonly #partitions: Record<GroupName, number>;
  readonly #server: NatsBusServer;
  readonly #replyPrefix: string;
  readonly #caller: string;
  readonly #lanes: Record<GroupName, Lane[]>;
  readonly #requests = new Map<number, Request>();
  readonly #wheel: TimerWheel;
  readonly #subscription: Listening;
  /** What a recent NATS message carried, for "no responders": [id, attempt, id, attempt, …] by message number. */
  readonly #sent = new Map<number, number[]>();
  /** Of all requests that were sent, or wait for an owner, and have no answer. */
  #characters = 0;
  #lastId = 0;
  #lastMessage = 0;
  #dirty: Lane[] = [];
  #flushing = false;
  #closed = false;

  constructor(options: NatsBusOptions) {
    this.#connection = options.connection;
    this.#routes = options.routes;
    this.#partitions = options.partitions;
    options.caller.split('.').forEach(assertToken);
    const prefix = replyPrefix(options.caller, newSession());
    this.#replyPrefix = `${prefix}.`;
    this.#caller = callerSubject(prefix);
    this.#server = options.server;
    this.#server.attach(this.#caller, (id, attempt, reply) => this.#onReply(id, attempt, reply));
    this.#lanes = { accounts: [], webhooks: [], pollers: [], platform: [] };
    this.#wheel = new TimerWheel(LIMITS.busTickMs, (id, at) => this.#due(id, at));
    this.#subscription = listen(options.connection, `${this.#replyPrefix}*`, (message) =>
      this.#onMessage(message),
    );
    this.#routes.onChange((group, partition) => this.#onRoute(group, partition));
  }

  /** Requests without an answer. */
  get open(): number {
    return this.#requests.size;
  }

  partitions(group: GroupName): number {
    return this.#partitions[group];
  }

  send(group: GroupName, partition: number, message: Message, onReply: OnReply): void {
    const isFull =
      this.#requests.size >= LIMITS.busRequestsOpenMax || this.#characters >= LIMITS.busCharactersOpenMax;
    if (this.#closed || isFull) return onReply(UNAVAILABLE);
    const now = performance.now();
    const request: Request = {
      id: ++this.#lastId,
      lane: this.#lane(group, partition),
      message,
      onReply,
      deadline: now + message.deadline - Date.now(),
      since: now,
      nextAt: 0,
      wheelAt: Infinity,
      attempt: 0,
      epoch: 0,
      open: false,
      uncertain: false,
      queued: false,
      characters: 0,
    };
    this.#requests.set(request.id, request);
    this.#lookAgain(request, LIMITS.busSilenceMs);
    if (!this.#handOver(request)) this.#enqueue(request);
  }

  /** The connection was lost and is back: answers may have been lost with it. */
  reconnected(): void {
    for (const request of this.#requests.values()) if (request.open) this.#resend(request);
  }

  /** Answers what is open with what is known and stops. */
  close(): void {
    this.#closed = true;
    this.#wheel.stop();
    this.#subscription.unsubscribe();
    for (const request of this.#requests.values()) this.#giveUp(request);
  }

  #lane(group: GroupName, partition: number): Lane {
    const lanes = this.#lanes[group];
    return (lanes[partition] ??= { group, partition, queue: [] });
  }

  /** False: its partition is not served here. */
  #handOver(request: Request): boolean {
    const { group, partition } = request.lane;
    const epoch = this.#routes.route(group, partition)?.epoch;
    const served = epoch === undefined ? null : this.#server.served(group, partition, epoch);
    if (epoch === undefined || served === null) return false;
    beginAttempt(request, epoch);
    const { id, attempt, message } = request;
    served.take({ caller: this.#caller, id, attempt, message });
    return true;
  }

  #enqueue(request: Request): void {
    if (request.queued) return;
    request.queued = true;
    const { lane } = request;
    if (lane.queue.push(request) === 1) this.#dirty.push(lane);
    if (this.#flushing) return;
    this.#flushing = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#flushing = false;
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const lane of dirty) {
      const { queue } = lane;
      lane.queue = [];
      this.#sendAll(lane, queue);
    }
  }

  /** Without an owner they wait: for the next route, or for their deadline. They are counted all the same: whoever comes gets all of them
   *  at once. */
  #sendAll(lane: Lane, requests: readonly Request[]): void {
    const route = this.#routes.route(lane.group, lane.partition);
    let text = '';
    let carried: number[] = [];
    for (const request of requests) {
      request.queued = false;
      if (!this.#requests.has(request.id) || this.#handOver(request)) continue;
      // What was handed over here may be far more, and counts only now that it is to leave: it does as the others are answered.
      if (request.characters === 0 && this.#characters >= LIMITS.busCharactersOpenMax) {
        if (route !== null) this.#lookAgain(request, LIMITS.busRetryMs);
        continue;
      }
      if (route !== null) beginAttempt(request, route.epoch);
      const line = commandLine(request.id, request.attempt, request.message);
      this.#characters += line.length - request.characters;
      request.characters = line.length;
      if (route === null) continue;
      text += line;
      carried.push(request.id, request.attempt);
      if (text.length >= LIMITS.busMessageCharactersMax) {
        this.#publish(commandSubject(lane.group, lane.partition, route.epoch), text, carried);
        text = '';
        carried = [];
      }
    }
    if (route !== null && text !== '') {
      this.#publish(commandSubject(lane.group, lane.partition, route.epoch), text, carried);
    }
  }

  #publish(subject: string, text: string, carried: number[]): void {
    const number = ++this.#lastMessage;
    this.#sent.set(number, carried);
    this.#sent.delete(number - LIMITS.busMessagesRemembered);
    publish(this.#connection, subject, Buffer.from(text), { reply: this.#replyPrefix + String(number) });
  }

  #onMessage(message: Msg): void {
    const { data } = message;
    if (data.length === 0 && message.headers?.code === 503) {
      const number = Number(message.subject.slice(this.#replyPrefix.length));
      const carried = this.#sent.get(number) ?? [];
      for (let i = 0; i < carried.length; i += 2) {
        this.#onReply(carried[i] ?? 0, carried[i + 1] ?? 0, NOT_OWNER);
      }
      return;
    }
    const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('utf8');
    readReplies(text, (id, attempt, reply) => this.#onReply(id, attempt, reply));
  }

  #onReply(id: number, attempt: number, reply: WireReply): void {
    const request = this.#requests.get(id);
    if (request === undefined) return;
    if (reply.type === 'done') return this.#finish(request, reply);
    if (attempt !== request.attempt || !request.open) return;
    request.open = false;
    switch (reply.type) {
      case 'rejected': {
        const isKnown = !request.uncertain || provesNothingDone(request.message, reply.rejection);
        return this.#finish(request, isKnown ? reply : UNKNOWN);
      }
      case 'unavailable':
        if (!request.uncertain) return this.#finish(request, reply);
        return this.#lookAgain(request, LIMITS.busRetryMs);
      case 'unknown':
        request.uncertain = true;
        return this.#lookAgain(request, LIMITS.busRetryMs);
      case 'not_owner': {
        // The next owner may be known already.
        const route = this.#routes.route(request.lane.group, request.lane.partition);
        if (route !== null && route.epoch > request.epoch) return this.#enqueue(request);
        return this.#lookAgain(request, LIMITS.busRetryMs);
      }
    }
  }

  /** A new epoch: what was sent to an older one is lost or in the log, and the new owner knows which. */
  #onRoute(group: GroupName, partition: number): void {
    const route = this.#routes.route(group, partition);
    if (route === null) return;
    for (const request of this.#requests.values()) {
      const { lane } = request;
      if (lane.partition === partition && lane.group === group && request.epoch < route.epoch) {
        this.#resend(request);
        // Where an owner has just said that it is none, another try was near: it would go to the new one twice.
        this.#lookAgain(request, LIMITS.busSilenceMs);
      }
    }
  }

  #resend(request: Request): void {
    if (request.open) {
      if (!isRepeatable(request.message)) return;
      request.uncertain = true;
      request.open = false;
    }
    if (request.uncertain && !isRepeatable(request.message)) return;
    this.#enqueue(request);
  }

  #due(id: number, at: number): void {
    const request = this.#requests.get(id);
    // An entry that an earlier one has replaced.
    if (request === undefined || at !== request.wheelAt) return;
    const now = performance.now();
    request.wheelAt = Infinity;
    if (now >= request.deadline) return this.#giveUp(request);
    if (now >= request.nextAt) {
      if (now - request.since >= LIMITS.routeDoubtMs) this.#routes.doubt();
      this.#resend(request);
      this.#lookAgain(request, LIMITS.busSilenceMs);
    } else {
      this.#intoWheel(request);
    }
  }

  #lookAgain(request: Request, afterMs: number): void {
    request.nextAt = performance.now() + afterMs;
    this.#intoWheel(request);
  }

  /** An entry that stands earlier will do: when it is due, the request is put where it belongs. */
  #intoWheel(request: Request): void {
    const at = Math.min(request.nextAt, request.deadline);
    if (at >= request.wheelAt) return;
    request.wheelAt = at;
    this.#wheel.add(request.id, at);
  }

  #giveUp(request: Request): void {
    this.#finish(request, request.open || request.uncertain ? UNKNOWN : UNAVAILABLE);
  }

  #finish(request: Request, reply: Reply): void {
    this.#requests.delete(request.id);
    this.#characters -= request.characters;
    request.onReply(reply);
  }
}

function beginAttempt(request: Request, epoch: number): void {
  request.attempt++;
  request.epoch = epoch;
  request.open = true;
}
