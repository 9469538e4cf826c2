// The bus over NATS, owner's side: takes commands for the partitions that this process owns. Replies to one caller that are made in one
// callback, as nearly all of a turn are when a flush ends, travel in one message. The caller in this same process (NatsBus) is spoken to
// directly.
//
// Invariants:
//   - `not_owner` is said only of what will never be decided here.
//   - Rejections and reads are said only while the lease holds: a replaced owner knows the past, not the present. What
//     it made durable it may still tell, since the log proved that it was the writer then.
//   - After a rejection of a repeated attempt, older attempts of that request are refused: they cannot create what the
//     caller was told was refused.

import type { Msg, NatsConnection } from 'nats';
import {
  type GroupName,
  type Message,
  type OnReply,
  type Reply,
  UNAVAILABLE,
  UNKNOWN,
} from '../../bus/bus.ts';
import { LIMITS } from '../../limits.ts';
import { listen, publish, type Listening } from '../connection.ts';
import { isQuery } from './repeatable.ts';
import { callerSubject, commandSubject, isReplySubject } from '../subjects.ts';
import { NOT_OWNER, readCommands, replyLine } from './wire.ts';
import type { OnWireReply, WireReply } from './wire.ts';

/** `inbox` decides and replies; `holds` is asked before anything that is not durable is said. */
export interface Served {
  readonly inbox: (message: Message, onReply: OnReply) => void;
  readonly holds: () => boolean;
}

/** One sending of a caller's request. */
interface Sending {
  /** The caller's subject. */
  readonly caller: string;
  /** The caller's number of the request. */
  readonly id: number;
  /** From 1. */
  readonly attempt: number;
  readonly message: Message;
}

interface Refused {
  /** Attempts up to this one are refused. */
  readonly attempt: number;
  /** Milliseconds since 1970. */
  readonly deadline: number;
}

/** A partition at one epoch. Messages that come before it is open wait, within a bound. */
export class ServedPartition {
  readonly #server: NatsBusServer;
  readonly #subject: string;
  readonly #subscription: Listening;
  /** By caller's subject and request id. */
  readonly #refused = new Map<string, Refused>();
  #served: Served | null = null;
  /** What came before it is open; null: it is, or is closed. */
  #early: Sending[] | null = [];

  constructor(server: NatsBusServer, connection: NatsConnection, subject: string) {
    this.#server = server;
    this.#subject = subject;
    this.#subscription = listen(connection, subject, (message) => this.#onMessage(message));
  }

  /** From now on messages are decided, those that waited first. */
  open(served: Served): void {
    this.#served = served;
    const early = this.#early ?? [];
    this.#early = null;
    for (const sending of early) this.take(sending);
  }

  /** Takes nothing more: what comes is told to go to the next owner. */
  close(): void {
    this.#served = null;
    const early = this.#early ?? [];
    this.#early = null;
    for (const sending of early) this.#server.reply(sending, NOT_OWNER);
  }

  /** Leaves the subject. After `close`, when the next owner is known or nobody should hear from us. */
  stop(): void {
    this.close();
    this.#server.left(this.#subject, this);
    this.#subscription.unsubscribe();
  }

  #onMessage(message: Msg): void {
    const { data, reply } = message;
    // Nobody may have this process write what only it may write: a lease, a log.
    if (reply === undefined || !isReplySubject(reply)) return;
    // One subject per caller: the last token only tells the caller's own messages apart.
    const caller = callerSubject(reply.slice(0, reply.lastIndexOf('.')));
    const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('utf8');
    readCommands(text, (id, attempt, command) => {
      this.#server.heard(caller, command.deadline);
      this.take({ caller, id, attempt, message: command });
    });
  }

  /** The reply comes by `NatsBusServer.reply`. */
  take(sending: Sending): void {
    const served = this.#served;
    if (served === null) {
      if (this.#early === null || this.#early.length >= LIMITS.mailboxMax) {
        return this.#server.reply(sending, NOT_OWNER);
      }
      this.#early.push(sending);
      return;
    }
    if (this.#refused.size > 0 && this.#isRefused(sending)) return;
    if (!served.holds()) return this.#server.reply(sending, NOT_OWNER);
    served.inbox(sending.message, (reply) => {
      this.#server.reply(sending, this.#sayable(served, sending, reply));
    });
  }

  #sayable(served: Served, sending: Sending, reply: Reply): WireReply {
    const { attempt, message } = sending;
    if (reply.type === 'done' && isTooLong(reply.body)) return isQuery(message) ? UNAVAILABLE : UNKNOWN;
    if (reply.type === 'done' && !isQuery(message)) return reply;
    if (!served.holds()) return UNKNOWN;
    if (reply.type === 'rejected' && attempt > 1 && !this.#refuse(sending)) return UNKNOWN;
    return reply;
  }

  #isRefused({ caller, id, attempt }: Sending): boolean {
    const refused = this.#refused.get(`${caller} ${id}`);
    return refused !== undefined && attempt <= refused.attempt;
  }

  #refuse({ caller, id, attempt, message }: Sending): boolean {
    if (this.#refused.size >= LIMITS.busRefusedMax) {
      const now = Date.now();
      for (const [key, { deadline }] of this.#refused) if (deadline < now) this.#refused.delete(key);
    }
    if (this.#refused.size >= LIMITS.busRefusedMax) return false;
    this.#refused.set(`${caller} ${id}`, { attempt, deadline: message.deadline });
    return true;
  }
}

export class NatsBusServer {
  readonly #connection: NatsConnection;
  /** By subject. */
  readonly #served = new Map<string, ServedPartition>();
  #nearby: { readonly caller: string; readonly onReply: OnWireReply } | null = null;
  /** Replies of the callback that runs, by caller's subject. */
  #outgoing = new Map<string, string>();
  #flushing = false;
  /** Callers of whom nothing has come in time since, by their subject. */
  readonly #late = new Map<string, { readonly since: number; isTold: boolean }>();
  readonly #complain: (problem: string) => void;

  constructor(connection: NatsConnection, complain: (problem: string) => void = () => {}) {
    this.#connection = connection;
    this.#complain = complain;
  }

  /** A request has come. A caller gives up at the deadline, so one whose requests go on coming later than that has another clock. What a
   *  lost connection held back comes late, too, but all at once. */
  heard(caller: string, deadline: number): void {
    const lateMs = Date.now() - deadline;
    const late = this.#late.get(caller);
    if (lateMs < LIMITS.leaseMs) {
      if (late !== undefined) this.#late.delete(caller);
    } else if (late === undefined) {
      if (this.#late.size < LIMITS.busLateCallersMax) {
        this.#late.set(caller, { since: performance.now(), isTold: false });
      }
    } else if (!late.isTold && performance.now() - late.since > LIMITS.busLateMs) {
      late.isTold = true;
      const seconds = Math.floor(lateMs / 1_000);
      this.#complain(
        `all that ${caller} asks comes ${seconds} s after its deadline, and is refused: its clock is behind, or this node's is ahead`,
      );
    }
  }

  /** Subscribes at once; messages wait until `open`. */
  serve(group: GroupName, partition: number, epoch: number): ServedPartition {
    const subject = commandSubject(group, partition, epoch);
    const served = new ServedPartition(this, this.#connection, subject);
    this.#served.set(subject, served);
    return served;
  }

  /** Null: not in this process. */
  served(group: GroupName, partition: number, epoch: number): ServedPartition | null {
    return this.#served.get(commandSubject(group, partition, epoch)) ?? null;
  }

  left(subject: string, served: ServedPartition): void {
    if (this.#served.get(subject) === served) this.#served.delete(subject);
  }

  /** The caller in this process: its replies need no message. */
  attach(caller: string, onReply: OnWireReply): void {
    this.#nearby = { caller, onReply };
  }

  reply({ caller, id, attempt }: Sending, reply: WireReply): void {
    if (caller === this.#nearby?.caller) return this.#nearby.onReply(id, attempt, reply);
    const line = replyLine(id, attempt, reply);
    const ready = this.#outgoing.get(caller) ?? '';
    if (ready.length + line.length <= LIMITS.busMessageCharactersMax) {
      this.#outgoing.set(caller, ready + line);
    } else {
      // What stands ready goes first: a long reply is then a message of its own.
      if (ready !== '') publish(this.#connection, caller, Buffer.from(ready));
      this.#outgoing.set(caller, line);
    }
    if (this.#flushing) return;
    this.#flushing = true;
    queueMicrotask(() => this.flush());
  }

  /** Sends what stands ready. Called when the callback that replied has ended, and before the connection is drained. */
  flush(): void {
    this.#flushing = false;
    const outgoing = this.#outgoing;
    this.#outgoing = new Map();
    for (const [caller, text] of outgoing) {
      if (text !== '') publish(this.#connection, caller, Buffer.from(text));
    }
  }
}

/** No message carries it: the connection would throw. Counted only where it may be so. */
function isTooLong(body: string): boolean {
  return body.length * 3 > LIMITS.busReplyBytesMax && Buffer.byteLength(body) > LIMITS.busReplyBytesMax;
}
