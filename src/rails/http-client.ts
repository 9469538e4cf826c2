// Requests to a provider: a keep-alive pool to one host, and one of three results. It never throws for what the outside
// does, and tells what was certainly not sent from what may have been.
//
// Invariants: an answer is complete, or it is none, or it says that nobody can tell; a body is at most LIMITS.railAnswerBytesMax; a request ends within
// twice `answerMs`; redirects are not followed; no timer per request (undici's own are shared); of our secrets an answer
// repeats none.

import { lookup as systemLookup } from 'node:dns';
import type { IncomingHttpHeaders } from 'node:http';
import { createRequire } from 'node:module';
import type { LookupFunction } from 'node:net';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import type { Dispatcher, Pool as UndiciPool } from 'undici';
import { LIMITS } from '../limits.ts';
import { type Asked, retryAfterMsOf } from './retry-after.ts';

/** By itself: undici as a whole is fetch, WebSocket, caches and mocks too, and takes a start more than twice as long to load. */
const Pool = createRequire(import.meta.url)('undici/lib/dispatcher/pool.js') as typeof UndiciPool;

export interface HttpAnswer extends Asked {
  readonly type: 'answer';
  readonly status: number;
  readonly text: string;
  /** Its end is that of its connection alone: more of it may have been lost on the way. */
  readonly mayBeCut: boolean;
}

export type HttpResult =
  | HttpAnswer
  /** No connection was made: the provider has seen nothing of it. */
  | { readonly type: 'not_sent'; readonly reason: string }
  /** It was sent, or part of it, and no complete answer came: nobody knows. */
  | { readonly type: 'lost'; readonly reason: string };

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  /** With the query, without the host. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: none is sent. */
  readonly body: string | Buffer | null;
  /** Asked when it has a connection to be sent on; false: it is `not_sent`. Absent: it is. */
  readonly isToBeSent?: (() => boolean) | undefined;
}

export interface HttpClientOptions {
  /** May have a path, which goes before that of every request. */
  readonly baseUrl: string;
  readonly connections: number;
  readonly answerMs: number;
  /** What proves who we are, besides what a request has as its Authorization. */
  readonly secrets?: readonly string[] | undefined;
  /** How names are resolved; undefined: the system's ways. */
  readonly lookup?: LookupFunction | undefined;
}

export class HttpClient {
  readonly #pool: UndiciPool;
  readonly #prefix: string;
  readonly #answerMs: number;
  readonly #secrets: readonly string[];

  constructor({ baseUrl, connections, answerMs, secrets = [], lookup }: HttpClientOptions) {
    const { origin, pathname } = new URL(baseUrl);
    this.#prefix = pathname.replace(/\/$/, '');
    this.#answerMs = answerMs;
    this.#secrets = secrets;
    const connectMs = Math.min(answerMs, LIMITS.railConnectMs);
    this.#pool = new Pool(origin, {
      connections,
      pipelining: 1,
      headersTimeout: answerMs,
      bodyTimeout: answerMs,
      connect: {
        timeout: connectMs,
        autoSelectFamilyAttemptTimeout: Math.min(LIMITS.connectAddressMs, Math.ceil(connectMs / 2)),
        lookup: shared(lookup ?? systemLookup),
      },
    });
  }

  request({ method, path, headers, body, isToBeSent }: HttpRequest): Promise<HttpResult> {
    const unsendable = Object.keys(headers).find((name) => !HEADER_VALUE.test(headers[name]!));
    // undici refuses it, and waits for ever until the connection that it was meant for is free again.
    if (unsendable !== undefined) {
      return Promise.resolve({
        type: 'not_sent',
        reason: `${unsendable} has a character that cannot be sent`,
      });
    }
    const [, credentials = ''] = headers['Authorization']?.split(' ') ?? [];
    const secrets = [...this.#secrets, credentials];
    return new Promise((resolve) => {
      const exchange = new Exchange({ answerMs: this.#answerMs, secrets, isToBeSent }, resolve);
      this.#pool.dispatch(
        { method, path: this.#prefix + path, headers: { ...headers, ...OURS }, body },
        exchange,
      );
    });
  }

  /** Ends what is in flight as `lost`. */
  close(): Promise<void> {
    return this.#pool.destroy(new Error('the rail is closed'));
  }
}

/** One look-up for all connections that wait for the host's addresses: each takes one of the two threads that resolve names
 *  for the whole process, and a provider whose name server is gone would keep the other rails from theirs. */
function shared(lookup: LookupFunction): LookupFunction {
  let waiting: Parameters<LookupFunction>[2][] = [];
  return (hostname, options, callback) => {
    waiting.push(callback);
    if (waiting.length > 1) return;
    lookup(hostname, options, (...found) => {
      const callbacks = waiting;
      waiting = [];
      for (const callback of callbacks) callback(...found);
    });
  };
}

/** RFC 9110, 5.5. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Of every request. Who does not say that they want no coding may be sent any, and who does not say who they are is taken for a
 *  robot by some firewalls (RFC 9110, 12.5.3 and 10.1.5). */
const OURS = { 'Accept-Encoding': 'identity', 'User-Agent': 'Daftari/1.0' } as const;

/** Codings of answers that come compressed all the same. */
const DECODERS: ReadonlyMap<string, (bytes: Buffer, bounds: { maxOutputLength: number }) => Buffer> = new Map(
  [
    ['gzip', gunzipSync],
    ['x-gzip', gunzipSync],
    ['deflate', inflateSync],
    ['br', brotliDecompressSync],
  ],
);

/** What a piece of an answer takes beside its bytes: a provider that sends one byte at a time costs no more memory than
 *  one that sends them together. */
const PIECE_BYTES = 100;

/** Without a byte order mark, which is no part of JSON. */
const UTF8 = new TextDecoder();

interface ExchangeOptions {
  readonly answerMs: number;
  readonly secrets: readonly string[];
  readonly isToBeSent: HttpRequest['isToBeSent'];
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (result: HttpResult) => void;
  readonly #answerMs: number;
  readonly #secrets: readonly string[];
  readonly #isToBeSent: HttpRequest['isToBeSent'];
  #startedAt = 0;
  #status = 0;
  #mayBeCut = false;
  #coding = '';
  #retryAfterMs: number | undefined;
  /** Bytes of memory that the answer takes so far. */
  #held = 0;
  readonly #chunks: Buffer[] = [];

  constructor({ answerMs, secrets, isToBeSent }: ExchangeOptions, resolve: (result: HttpResult) => void) {
    this.#answerMs = answerMs;
    this.#secrets = secrets;
    this.#isToBeSent = isToBeSent;
    this.#resolve = resolve;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isToBeSent?.() === false) return controller.abort(new Error('it is not to be sent any more'));
    this.#startedAt = performance.now();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    this.#status = status;
    this.#mayBeCut = !saysItsEnd(headers);
    this.#coding = String(headers['content-encoding'] ?? '')
      .trim()
      .toLowerCase();
    this.#retryAfterMs = retryAfterMsOf(status, headers, Date.now());
    // "102 Processing" and its like are no answer, and undici waits anew after each.
    if (status < 200) this.#abortIfLate(controller);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#held += chunk.length + PIECE_BYTES;
    if (this.#held > LIMITS.railAnswerBytesMax) controller.abort(new Error('the answer is too long'));
    else if (!this.#abortIfLate(controller)) this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    const bytes = decoded(Buffer.concat(this.#chunks), this.#coding);
    this.#resolve(bytes === null ? this.#undecodable() : this.#answer(UTF8.decode(bytes)));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    // undici starts a request only on a connection: before that, nothing has left this machine.
    this.#resolve({ type: this.#startedAt === 0 ? 'not_sent' : 'lost', reason: reasonOf(error) });
  }

  #answer(text: string): HttpAnswer {
    return {
      type: 'answer',
      status: this.#status,
      text: withoutSecrets(text, this.#secrets),
      mayBeCut: this.#mayBeCut,
      retryAfterMs: this.#retryAfterMs,
    };
  }

  #undecodable(): HttpResult {
    return { type: 'lost', reason: `an answer of HTTP ${this.#status} that is no ${this.#coding}` };
  }

  #abortIfLate(controller: Dispatcher.DispatchController): boolean {
    const isLate = performance.now() - this.#startedAt > this.#answerMs;
    if (isLate) controller.abort(new Error('the answer took too long'));
    return isLate;
  }
}

/** "Invalid access token: …" repeats what it was sent, and a refusal's words are shown to merchants and logged. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  const plain = text.includes('\\') ? unescaped(text) : text;
  const repeated = secrets.filter((secret) => secret.length >= SECRET_LENGTH_MIN && plain.includes(secret));
  if (repeated.length === 0) return text;
  return repeated.reduce((rest, secret) => rest.replaceAll(secret, '***'), plain);
}

/** A shorter one may stand in an answer by chance; the providers' are longer. */
const SECRET_LENGTH_MIN = 16;

/** Some JSON has "\/" and "\u002B" for what needs no escape; what needs one keeps it. */
function unescaped(text: string): string {
  return text.replaceAll(/\\(?:(\/)|u00([2-7][0-9a-f])|.)/gi, (escape, slash?: string, code?: string) => {
    const character = slash ?? String.fromCharCode(Number.parseInt(code ?? '', 16));
    return /[\x20-\x7e]/.test(character) && !/["\\]/.test(character) ? character : escape;
  });
}

/** Null: it is not what it says, is cut off, or too long. */
function decoded(bytes: Buffer, coding: string): Buffer | null {
  const decode = DECODERS.get(coding);
  if (decode === undefined || bytes.length === 0) return bytes;
  try {
    return decode(bytes, { maxOutputLength: LIMITS.railAnswerBytesMax });
  } catch {
    // Of a provider: said by the caller as a reason.
    return null;
  }
}

/** By its length or by its last chunk (RFC 9112, 6.3). One that can have no body need not: it is of no use to anybody. */
function saysItsEnd(headers: IncomingHttpHeaders): boolean {
  const coding = headers['transfer-encoding'];
  return coding === undefined ? headers['content-length'] !== undefined : /\bchunked\s*$/i.test(coding);
}

/** "ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:1"; of several addresses tried, the first. */
function reasonOf(error: Error): string {
  const first = error instanceof AggregateError ? ((error.errors[0] as Error | undefined) ?? error) : error;
  const { code } = first as NodeJS.ErrnoException;
  return code === undefined ? first.message : `${code}: ${first.message}`;
}

/** The body as a JSON object; undefined when it is anything else (HTML, a list, nothing). A number that a double does not carry, as
 *  the id of a payment may be, is the text that stands there. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    // JSON.parse would give the text of each number itself, and costs a hundred times as much then.
    return LONG_NUMBER.test(text)
      ? (JSON.parse(text.replaceAll(TEXTS_AND_LONG, carried)) as Record<string, unknown>)
      : value;
  } catch {
    return undefined;
  }
}

/** 2^53 has 16 digits. */
const LONG_NUMBER = /\d{16}/;
const TEXTS_AND_LONG = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]{15,}/g;

function carried(token: string): string {
  const value = Number(token);
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? `"${token}"` : token;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Empty when it is absent or no object. */
export function objectAt(
  value: Readonly<Record<string, unknown>>,
  name: string,
): Readonly<Record<string, unknown>> {
  const inner = value[name];
  return isObject(inner) ? inner : {};
}

/** A text without the blanks around it, or a number as text; null when it is absent, blank or anything else. */
export function textAt(value: Readonly<Record<string, unknown>>, name: string): string | null {
  const inner = value[name];
  if (typeof inner === 'string') return inner.trim() || null;
  return typeof inner === 'number' ? String(inner) : null;
}
