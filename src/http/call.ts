// One request from its headers to its answer. A call is in exactly one of three phases: its body is being received, it
// waits for an answer, or it is closed. Every way out goes through `#close`, so nothing is answered twice, after the
// client went away, or after the deadline. A closed one may have an answer that is about to be sent (departing.ts), or that
// its client is taking.
//
// Hot path: one object and few closures per request, no promise, no timer; a deadline costs a place in a list.

import type { Reply } from '../bus/bus.ts';
import { ERROR_CODES, rejection, type ErrorCode, type Rejection } from '../domain/error-code.ts';
import { LIMITS } from '../limits.ts';
import type { Arrived } from './arrived.ts';
import type { Departing } from './departing.ts';
import { renderError } from './error-reply.ts';
import type { ListLine } from './list-line.ts';
import type { HttpObserver, NoReplyReason, RouteName } from './observer.ts';
import type { CallList, OpenCall, OpenCalls } from './open-calls.ts';
import { replyHead } from './reply-head.ts';
import { JSON_TYPE, UNAVAILABLE, type Answer } from './route.ts';

/** The part of uWebSockets' response that a call uses. */
export interface ResponseHandle {
  writeStatus(status: string): unknown;
  writeHeader(name: string, value: string): unknown;
  end(body?: string, closeConnection?: boolean): unknown;
  tryEnd(body: Uint8Array | string, totalSize: number): [isTaken: boolean, isDone: boolean];
  onWritable(handler: (offset: number) => boolean): unknown;
  close(): unknown;
  cork(write: () => void): unknown;
  onAborted(handler: () => void): unknown;
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): unknown;
}

/** Those of LIMITS; tests set their own. */
export interface Bounds {
  readonly frontRequestsOpenMax: number;
  readonly frontKeyRequestsMax: number;
  readonly frontKeyBytesMax: number;
  readonly frontBodiesBytesMax: number;
  readonly frontAnswersBytesMax: number;
  /** From the headers to the end of the body. */
  readonly requestReceiveMs: number;
  /** From the body to the answer. */
  readonly commandDeadlineMs: number;
  /** From the beginning of a stop to the end of the answers that clients are reading. */
  readonly frontStopPourMs: number;
}

/** What all calls of a server share. */
export interface CallContext {
  readonly open: OpenCalls;
  readonly arrived: Arrived;
  readonly lists: ListLine;
  readonly departing: Departing;
  readonly observer: HttpObserver;
  readonly nextRequestId: () => string;
  readonly bounds: Bounds;
  /** The server is stopping: every answer closes its connection. */
  closing: boolean;
}

/** The bytes are valid only until the function returns. */
export type OnBody = (body: Uint8Array) => void;

interface Header {
  readonly name: string;
  readonly value: string;
}

/** An answer as it is given. `header`: one more than every answer has; `code`: of an error. */
interface Given {
  readonly status: number;
  readonly contentType: string;
  /** Of an answer to HEAD its length alone is told. */
  readonly body: string;
  readonly code: ErrorCode | null;
  readonly header: Header | null;
}

const TOO_LARGE = rejection('body_too_large');
/** 503 rather than 429: who takes a 4xx for the end may be repeating what was created. */
const KEY_FULL = rejection(
  'service_unavailable',
  'This key has too much under way at once: wait for answers, then retry with the same Idempotency-Key.',
  null,
  1,
);
const NOT_FOUND = rejection('not_found');
const METHOD_NOT_ALLOWED = rejection('method_not_allowed');
/** A 401 must have it (RFC 9110, 15.5.2). */
const CHALLENGE: Header = { name: 'WWW-Authenticate', value: 'Bearer' };
const REPLAYED: Header = { name: 'Idempotent-Replayed', value: 'true' };

export class Call implements OpenCall {
  readonly requestId: string;
  readonly route: RouteName;
  /** performance.now() when its head, or where it has one its body, was there, or no more of it was waited for. */
  arrivedAt: number;
  expiresAt: number;
  /** Nothing is lost by answering 503 when nobody knows: it changes nothing. */
  readonly safe: boolean;
  list: CallList | null = null;
  previous: OpenCall | null = null;
  next: OpenCall | null = null;

  readonly #context: CallContext;
  readonly #response: ResponseHandle;
  /** Waits to be sent; null: there is none, or the client has gone. */
  #given: Given | null = null;
  /** What has come of its body, and room for more. */
  #body: Buffer | null = null;
  #received = 0;
  /** Bytes of its answer, while its client takes it. */
  #pouring = 0;
  /** Answered before all of it had come. */
  #hasMadeWay = false;

  constructor(context: CallContext, route: RouteName, safe: boolean, response: ResponseHandle) {
    this.requestId = context.nextRequestId();
    this.route = route;
    this.arrivedAt = performance.now();
    this.expiresAt = this.arrivedAt + context.bounds.requestReceiveMs;
    this.safe = safe;
    this.#context = context;
    this.#response = response;
    context.open.receiving.append(this);
    // Before anything that may throw: uWebSockets ends the process over a request with neither answer nor handler.
    response.onAborted(() => {
      this.#poured();
      context.open.heads.delete(this);
      this.#abandon('aborted');
    });
  }

  get bounds(): Bounds {
    return this.#context.bounds;
  }

  /** Its key has too much under way. */
  refuseKeyFull(accountId: string): void {
    this.#context.observer.onKeyFull(accountId);
    this.refuse(KEY_FULL);
  }

  get closed(): boolean {
    return this.list === null;
  }

  /** Collects the body, then hands it on to be read; what it asks for goes through `begin`. A body too large, or one too
   *  many, is refused. */
  receive(onBody: OnBody): void {
    this.#response.onData((chunk, isLast) => {
      if (this.closed) return;
      if (isLast) this.arrivedAt = performance.now();
      this.#received += chunk.byteLength;
      if (this.#received > LIMITS.bodyBytesMax) this.#drain(isLast);
      else if (!isLast) this.#keep(chunk);
      else onBody(this.#whole(chunk));
    });
  }

  /** Does what the request asks for, once all that was read along with it is parsed; not at all when that closed it. */
  begin(act: () => void): void {
    this.#context.arrived.append(() => {
      if (!this.closed) act();
    });
  }

  /** The body is there, or none is taken: from now on the deadline of the answer counts. Returns it, in milliseconds
   *  since 1970. */
  wait(): number {
    const { commandDeadlineMs } = this.#context.bounds;
    this.#letGo();
    this.expiresAt = this.arrivedAt + commandDeadlineMs;
    this.#context.open.waiting.append(this);
    return Date.now() + commandDeadlineMs;
  }

  /** Answers with what came over the bus. */
  settle(reply: Reply, status: number): void {
    switch (reply.type) {
      case 'done':
        this.#answer(status, JSON_TYPE, reply.body, null, reply.replayed ? REPLAYED : null);
        return;
      case 'rejected':
        this.refuse(reply.rejection);
        return;
      case 'unavailable':
        this.refuse(UNAVAILABLE);
        return;
      case 'unknown':
        this.#doNotKnow();
        return;
    }
  }

  answer(answer: Answer): void {
    switch (answer.type) {
      case 'body':
        this.#answer(answer.status, answer.contentType, answer.body, null, null);
        return;
      case 'rejected':
        this.refuse(answer.rejection);
        return;
      case 'unknown':
        this.#doNotKnow();
        return;
    }
  }

  refuse(refusal: Rejection): void {
    const { code, retryAfterSeconds } = refusal;
    if (retryAfterSeconds !== null) {
      this.#refuseWith(refusal, { name: 'Retry-After', value: String(retryAfterSeconds) });
    } else {
      this.#refuseWith(refusal, ERROR_CODES[code].status === 401 ? CHALLENGE : null);
    }
  }

  /** For what no route matched. `allow`: the methods that would have; null: none. */
  refuseUnmatched(allow: string | null): void {
    if (allow === null) this.#refuseWith(NOT_FOUND, null);
    else this.#refuseWith(METHOD_NOT_ALLOWED, { name: 'Allow', value: allow });
  }

  expire(): void {
    if (this.list === this.#context.open.receiving) this.#cutOff('slow_client');
    else this.#doNotKnow();
  }

  makeWay(): void {
    this.#hasMadeWay = true;
    this.refuse(this.#received > LIMITS.bodyBytesMax ? TOO_LARGE : UNAVAILABLE);
  }

  /** A create whose fate is unknown gets no status: any status would be a guess. */
  #doNotKnow(): void {
    if (this.safe) this.refuse(UNAVAILABLE);
    else this.#cutOff('unknown');
  }

  #cutOff(reason: NoReplyReason): void {
    if (this.closed) return;
    this.#abandon(reason);
    this.#response.close();
  }

  #abandon(reason: NoReplyReason): void {
    const isAnswered = this.#given !== null;
    this.#given = null;
    if (!this.#close() && !isAnswered) return;
    this.#context.observer.onNoReply(this.route, reason, performance.now() - this.arrivedAt, this.requestId);
  }

  #refuseWith(refusal: Rejection, header: Header | null): void {
    const { code } = refusal;
    const body = renderError(refusal, this.requestId);
    this.#answer(ERROR_CODES[code].status, JSON_TYPE, body, code, header);
  }

  #answer(
    status: number,
    contentType: string,
    body: string,
    code: ErrorCode | null,
    header: Header | null,
  ): void {
    if (!this.#close()) return;
    this.#given = { status, contentType, body, code, header };
    this.#context.departing.append(this, performance.now());
  }

  /** Sends what was answered. `now`: performance.now(). */
  send(now: number): void {
    if (this.#given === null) return;
    const context = this.#context;
    const response = this.#response;
    const { status, contentType, body, code, header } = this.#given;
    this.#given = null;
    // What made way is still being sent: closing on unread bytes would take the answer with it.
    const closeConnection = context.closing || (code === 'body_too_large' && !this.#hasMadeWay);
    response.cork(() => {
      response.writeStatus(replyHead(status, contentType, this.requestId));
      if (header !== null) response.writeHeader(header.name, header.value);
      if (this.route.method === 'HEAD') this.#endHead(Buffer.byteLength(body));
      else if (body.length > LIMITS.answerAtOnceCharactersMax) this.#pour(Buffer.from(body), closeConnection);
      else if (closeConnection) response.end(body, true);
      else this.#pour(body, false);
    });
    const { observer } = context;
    if (this.#hasMadeWay && code !== null) observer.onMadeWay(this.route, this.requestId, code);
    else observer.onReply(this.route, status, now - this.arrivedAt, this.requestId, code);
    context.open.makeAnswerRoom(context.bounds.frontAnswersBytesMax);
  }

  /** Its connection is closed after it: whoever sends one HEAD after the other and reads nothing would have all answers kept.
   *  uWebSockets waits for the body, and closes at the next request; we do at the next sweep. */
  #endHead(length: number): void {
    this.#response.writeHeader('Connection', 'close');
    const [, isDone] = this.#response.tryEnd('', length);
    if (!isDone) this.#context.open.heads.add(this);
  }

  /** Writes as much at a time as the client takes. Until all of it is taken, another request closes the connection. After `end` none
   *  would: the HTTP library would keep whatever a client asks for and does not read. */
  #pour(body: Buffer | string, closeConnection: boolean): void {
    const response = this.#response;
    // uWebSockets closes after `end` alone: here the client does, as it is told.
    if (closeConnection) response.writeHeader('Connection', 'close');
    const length = Buffer.byteLength(body);
    const [, isDone] = response.tryEnd(body, length);
    if (isDone) return;
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { open } = this.#context;
    this.#pouring = length;
    open.pouring.add(this);
    open.pouringBytes += length;
    response.onWritable((offset) => {
      const [isTaken, isOver] = response.tryEnd(bytes.subarray(offset), length);
      if (isOver) this.#poured();
      return isTaken;
    });
  }

  #poured(): void {
    const { open } = this.#context;
    open.pouring.delete(this);
    open.pouringBytes -= this.#pouring;
    this.#pouring = 0;
  }

  /** Before this returns it is told that it was aborted, as when its client goes away. */
  closeConnection(): void {
    this.#response.close();
  }

  /** False: it was closed already. */
  #close(): boolean {
    if (this.list === null) return false;
    this.list.remove(this);
    this.#letGo();
    return true;
  }

  /** Answers only when the body is over or far too large: closing on unread bytes would take the answer with it. */
  #drain(isLast: boolean): void {
    this.#letGo();
    if (!isLast && this.#received <= LIMITS.bodyDrainBytesMax) return;
    this.arrivedAt = performance.now();
    this.refuse(TOO_LARGE);
  }

  /** A head that comes alone has an empty chunk: of most bodies the rest is one more, and nothing is kept. */
  #keep(chunk: ArrayBuffer): void {
    if (chunk.byteLength === 0) return;
    const length = this.#received;
    if (this.#body === null || length > this.#body.byteLength) {
      const grown = this.#grown(length);
      if (grown === null) return;
      this.#body = grown;
    }
    this.#body.set(new Uint8Array(chunk), length - chunk.byteLength);
  }

  /** Twice as long each time: a body may come in chunks of one byte. Null: it was refused. */
  #grown(length: number): Buffer | null {
    const { open } = this.#context;
    const before = this.#body?.byteLength ?? 0;
    const bytes = Math.min(Math.max(length, before * 2, LIMITS.frontBodyBytesMin), LIMITS.bodyBytesMax);
    open.keeping.add(this);
    open.makeBodyRoom(this, bytes - before, this.#context.bounds.frontBodiesBytesMax);
    if (this.closed) return null;
    open.bodyBytes += bytes - before;
    const grown = Buffer.allocUnsafeSlow(bytes);
    this.#body?.copy(grown);
    return grown;
  }

  #letGo(): void {
    if (this.#body === null) return;
    const { open } = this.#context;
    open.keeping.delete(this);
    open.bodyBytes -= this.#body.byteLength;
    this.#body = null;
  }

  #whole(last: ArrayBuffer): Uint8Array {
    if (this.#body === null) return new Uint8Array(last);
    return Buffer.concat([this.#body.subarray(0, this.#received - last.byteLength), new Uint8Array(last)]);
  }
}
