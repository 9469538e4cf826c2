// One attempt: a signed POST to the merchant's endpoint and what came of it.
//
// Invariants: an attempt ends within LIMITS.webhookAttemptMs, whatever DNS, TCP, TLS or a dripping answer do, and never
// throws for what the outside does; it goes only where the guard lets it, checked for the URL and again for every
// address a connection may use, and the connection is made to the addresses that were checked; redirects are not
// followed; of the answer only its status and its first characters are kept.
//
// node:https and not undici: undici 7 cannot be stopped while it connects.

import type { LookupAddress } from 'node:dns';
import { Resolver, lookup as systemLookup } from 'node:dns/promises';
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import type { LookupFunction, Socket, TcpSocketConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { callbackify } from 'node:util';
import { LIMITS } from '../../src/limits.ts';
import { http } from '../../src/node-http.ts';
import { SECRET_UNREADABLE } from './record.ts';
import { signatureOf } from './signature.ts';
import { checkWebhookUrl, isPublic, NOT_PUBLIC } from './url-guard.ts';
import type { GuardOptions } from './url-guard.ts';

export interface SendRequest {
  readonly url: string;
  readonly eventId: string;
  readonly eventType: string;
  /** Sent byte for byte, and signed. */
  readonly body: string;
  /** With its `whsec_` prefix. */
  readonly signingSecret: string;
}

/** Why an attempt failed. `http_status`: an answer came in time, but not 2xx. */
export const ERROR_CLASSES = [
  'http_status',
  'timeout',
  'dns',
  'url_refused',
  'connect',
  'tls',
  'connection_reset',
  'invalid_response',
  SECRET_UNREADABLE,
] as const;
export type ErrorClass = (typeof ERROR_CLASSES)[number];

export interface SendResult {
  /** Null: delivered. */
  readonly error: ErrorClass | null;
  /** Null: no HTTP answer came. */
  readonly statusCode: number | null;
  readonly durationMs: number;
  /** First characters of the answer; where there was none, what went wrong. Null: nothing to say. */
  readonly excerpt: string | null;
}

/** Addresses of a name, IPv4 first. Rejects when there are none. */
export type Resolve = (hostname: string) => Promise<LookupAddress[]>;

export interface SenderOptions {
  readonly guard: GuardOptions;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Certificate authorities in PEM instead of the system's; undefined: the system's. */
  readonly ca?: string | undefined;
  /** How names are resolved; undefined: DNS, or the whole of the system's ways when private addresses are allowed. */
  readonly resolve?: Resolve | undefined;
  /** The name leads to this address, where no delivery may go. For operators: merchants are not told which, it may be of our own network. */
  readonly onRefused?: ((hostname: string, address: string) => void) | undefined;
  /** Undefined: LIMITS.webhookAttemptMs. Tests shorten it. */
  readonly attemptMs?: number | undefined;
  /** Undefined: LIMITS.webhookConnectionMs. Tests shorten it. */
  readonly connectionMs?: number | undefined;
  /** Undefined: LIMITS.webhookStaleMs. Tests set their own. */
  readonly staleMs?: number | undefined;
}

class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress';
}
class DnsFailure extends Error {
  override readonly name = 'DnsFailure';
}

type Agents = Record<'http:' | 'https:', { readonly kept: Agent; readonly once: Agent }>;

export class Sender {
  readonly #options: SenderOptions;
  readonly #agents: Agents;
  readonly #lookup: LookupFunction;
  #inFlight = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
    const kept = {
      keepAlive: true,
      maxFreeSockets: LIMITS.webhookIdleSocketsMax,
      timeout: LIMITS.webhookIdleSocketMs,
    };
    const tls = {
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(options.ca === undefined ? {} : { ca: options.ca }),
    } as const;
    const connectionMs = options.connectionMs ?? LIMITS.webhookConnectionMs;
    this.#agents = {
      'http:': {
        kept: keptFor(connectionMs, new http.Agent(kept)),
        once: new http.Agent({ keepAlive: false }),
      },
      'https:': {
        kept: keptFor(connectionMs, new https.Agent({ ...kept, ...tls })),
        once: new https.Agent({ keepAlive: false, ...tls }),
      },
    };
    const resolve = options.resolve ?? (options.guard.allowPrivate ? resolveBySystem : resolveByDns());
    this.#lookup = guardedLookup((hostname) => addressesOf(hostname, resolve, options));
  }

  async send(request: SendRequest): Promise<SendResult> {
    const problem = checkWebhookUrl(request.url, this.#options.guard);
    if (problem !== null) {
      return { error: 'url_refused', statusCode: null, durationMs: 0, excerpt: `The URL ${problem}.` };
    }
    const outgoing = this.#outgoing(request);
    this.#inFlight++;
    try {
      return await new Promise<SendResult>((settle) => {
        const attempt = new Attempt(
          outgoing,
          this.#options.attemptMs ?? LIMITS.webhookAttemptMs,
          this.#options.staleMs ?? LIMITS.webhookStaleMs,
          settle,
        );
        attempt.start(this.#mayKeep(outgoing.agents.kept));
      });
    } finally {
      this.#inFlight--;
    }
  }

  #outgoing({ url, body, eventId, eventType, signingSecret }: SendRequest): Outgoing {
    const target = new URL(url);
    const bytes = Buffer.from(body, 'utf8');
    const unixSeconds = Math.floor(this.#options.clock() / 1000);
    const isHttps = target.protocol === 'https:';
    return {
      client: isHttps ? https : http,
      agents: this.#agents[isHttps ? 'https:' : 'http:'],
      body: bytes,
      options: {
        protocol: target.protocol,
        // The brackets of an IPv6 literal are the URL's, not the address's, and TLS names no root (RFC 6066).
        host: target.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, ''),
        port: target.port === '' ? undefined : Number(target.port),
        path: target.pathname + target.search,
        method: 'POST',
        lookup: this.#lookup,
        autoSelectFamilyAttemptTimeout: LIMITS.connectAddressMs,
        // Node's own 16 KiB would make a failure of a 2xx.
        maxHeaderSize: LIMITS.webhookAnswerBytesMax,
        headers: {
          'Content-Type': 'application/json',
          'Content-Length': bytes.length,
          'User-Agent': 'Service-Webhooks/1.0',
          'Service-Signature': signatureOf(signingSecret, unixSeconds, bytes),
          'Service-Event-Id': eventId,
          'Service-Event-Type': eventType,
        },
      },
    };
  }

  /** The connection may be kept for the next delivery. */
  #mayKeep(kept: Agent): boolean {
    return socketsOf(kept) - this.#inFlight < LIMITS.webhookIdleSocketsMax;
  }

  /** Drops every connection. */
  close(): void {
    for (const { kept, once } of Object.values(this.#agents)) {
      kept.destroy();
      once.destroy();
    }
  }
}

/** When each was asked for, by performance.now. */
const CONNECTED_AT = new WeakMap<Duplex, number>();

/** `agent`, which keeps no connection older than `connectionMs`: one in steady use would go where its name led once. */
function keptFor<Kept extends Agent>(connectionMs: number, agent: Kept): Kept {
  const keep = agent.keepSocketAlive.bind(agent);
  agent.keepSocketAlive = (socket) => {
    const ageMs = performance.now() - (CONNECTED_AT.get(socket) ?? 0);
    return ageMs < connectionMs && keep(socket);
  };
  return agent;
}

/** Open sockets, used and idle: undocumented in the types, kept by node for `maxTotalSockets`. */
function socketsOf(agent: Agent): number {
  return (agent as unknown as { totalSocketCount: number }).totalSocketCount;
}

interface Outgoing {
  readonly client: typeof http | typeof https;
  readonly agents: { readonly kept: Agent; readonly once: Agent };
  /** http hands what it does not know on to the socket. */
  readonly options: https.RequestOptions & Pick<TcpSocketConnectOpts, 'autoSelectFamilyAttemptTimeout'>;
  readonly body: Buffer;
}

/** What an attempt is waiting for. */
type Phase = 'lookup' | 'connect' | 'tls' | 'answer';

/** What the merchant is told of an attempt that never got beyond. */
const WAITED_FOR: Record<Phase, string> = {
  lookup: 'its name was being looked up',
  connect: 'it had not accepted the connection',
  tls: 'the connection was accepted, TLS not agreed',
  answer: 'the request was sent',
};

class Attempt {
  readonly #outgoing: Outgoing;
  readonly #staleMs: number;
  readonly #settle: (result: SendResult) => void;
  readonly #startedAt = performance.now();
  readonly #deadline: NodeJS.Timeout;
  #settled = false;
  /** The answer has come to its end. */
  #complete = false;
  #request: ClientRequest | null = null;
  #statusCode: number | null = null;
  #phase: Phase = 'connect';
  /** Of the answer's body; until its status is known, of all that came. */
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Bytes received, whatever they are. */
  #received = 0;

  constructor(outgoing: Outgoing, attemptMs: number, staleMs: number, settle: (result: SendResult) => void) {
    this.#outgoing = outgoing;
    this.#staleMs = staleMs;
    this.#settle = settle;
    // An answer that came while this process stood still is read before its time is over.
    this.#deadline = setTimeout(() => setImmediate(() => this.#late(attemptMs)), attemptMs);
  }

  start(keep: boolean): void {
    const { client, agents, options, body } = this.#outgoing;
    this.#phase = isIP(options.host ?? '') === 0 ? 'lookup' : 'connect';
    const request = client.request({ ...options, agent: keep ? agents.kept : agents.once });
    this.#request = request;
    request.on('socket', (socket) => {
      this.#count(request, socket);
      if (request.reusedSocket) {
        this.#phase = 'answer';
        return;
      }
      CONNECTED_AT.set(socket, performance.now());
      const isHttps = options.protocol === 'https:';
      socket.once('lookup', () => {
        this.#phase = 'connect';
      });
      socket.once('connect', () => {
        this.#phase = isHttps ? 'tls' : 'answer';
      });
      socket.once('secureConnect', () => {
        this.#phase = 'answer';
      });
    });
    request.on('response', (response) => this.#read(response));
    // 101 is never asked for: an answer all the same, and a connection nobody will use.
    request.on('upgrade', (response) => {
      this.#statusCode = response.statusCode ?? null;
      this.#end('invalid_response', 'The answer switches protocols.');
    });
    request.on('error', (error) => this.#failed(request, error));
    request.on('close', () => {
      if (this.#request === request) this.#brokenOff('connection_reset', 'The connection was closed.');
    });
    request.end(body);
  }

  #count(request: ClientRequest, socket: Socket): void {
    const count = (chunk: Buffer): void => {
      if (this.#statusCode === null && this.#received < EXCERPT_BYTES_MAX) this.#chunks.push(chunk);
      this.#received += chunk.length;
      if (this.#received <= LIMITS.webhookReadBytesMax) return;
      if (this.#statusCode !== null) this.#answered();
      else this.#end('invalid_response', `No answer within ${LIMITS.webhookReadBytesMax} bytes.`);
    };
    socket.on('data', count);
    // The socket may be kept for other requests.
    request.once('close', () => socket.off('data', count));
  }

  #read(response: IncomingMessage): void {
    this.#statusCode = response.statusCode ?? null;
    this.#chunks = [];
    response.on('data', (chunk: Buffer) => {
      this.#bytes += chunk.length;
      if (this.#bytes <= EXCERPT_BYTES_MAX + chunk.length) this.#chunks.push(chunk);
      if (this.#bytes > LIMITS.webhookAnswerBytesMax) this.#answered();
    });
    response.on('end', () => {
      if (!response.complete) return;
      this.#complete = true;
      this.#answered();
    });
    response.on('error', (error) => this.#brokenOff('connection_reset', error.message));
  }

  /** Nothing more comes. After the status that is the body, which is ignored (specification part 6). */
  #brokenOff(error: ErrorClass, detail: string): void {
    if (this.#statusCode === null) this.#end(error, detail);
    else this.#answered();
  }

  #late(attemptMs: number): void {
    this.#brokenOff('timeout', `No answer within ${attemptMs} ms: ${WAITED_FOR[this.#phase]}.`);
  }

  #answered(): void {
    const delivered = this.#statusCode !== null && this.#statusCode >= 200 && this.#statusCode < 300;
    this.#end(delivered ? null : 'http_status', null);
  }

  #failed(request: ClientRequest, error: NodeJS.ErrnoException & { readonly rawPacket?: Buffer }): void {
    if (this.#settled || this.#request !== request) return;
    if (this.#wasStale(request, error)) return this.start(false);
    // Headers without end are no answer.
    const packet = error.code === 'HPE_HEADER_OVERFLOW' ? undefined : error.rawPacket;
    if (this.#statusCode === null && packet !== undefined) this.#readLine(packet);
    this.#brokenOff(classOf(error, this.#phase), describe(error));
  }

  /** A kept connection that the other side closed while it was idle says nothing about the endpoint. It says so at once, and nothing
   *  before: what breaks later, or in the middle of an answer, had the request, and would have it twice. */
  #wasStale(request: ClientRequest, error: NodeJS.ErrnoException): boolean {
    if (!request.reusedSocket || this.#received > 0 || !isReset(error)) return false;
    return performance.now() - this.#startedAt <= this.#staleMs;
  }

  /** Of an answer that cannot be parsed: its status was said all the same, and nobody needs the headers behind it. `packet`: the last that
   *  came. Behind an interim answer it may have the whole of the one that counts. */
  #readLine(packet: Buffer): void {
    for (const came of [Buffer.concat([...this.#chunks, packet]), packet]) {
      const status = STATUS_LINE.exec(came.toString('latin1', 0, STATUS_LINE_BYTES))?.[1];
      if (status === undefined) continue;
      this.#statusCode = Number(status);
      this.#chunks = [came];
      return;
    }
  }

  #end(error: ErrorClass | null, detail: string | null): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#deadline);
    const excerpt = this.#statusCode === null ? detail : excerptOf(this.#chunks);
    const durationMs = Math.round(performance.now() - this.#startedAt);
    // When the request is sent and the answer complete the connection is back with its agent; anything else ends here.
    if (!this.#complete || this.#request?.writableFinished === false) this.#request?.destroy();
    this.#settle({ error, statusCode: this.#statusCode, durationMs, excerpt });
  }
}

function isReset(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ECONNRESET' || error.code === 'EPIPE';
}

function classOf(error: NodeJS.ErrnoException, phase: Phase): ErrorClass {
  if (error instanceof RefusedAddress) return 'url_refused';
  if (error instanceof DnsFailure) return 'dns';
  // What goes wrong with a name is one of the two above.
  if (phase === 'lookup') return 'connect';
  if (phase !== 'answer') return phase;
  return error.code?.startsWith('HPE_') === true ? 'invalid_response' : 'connection_reset';
}

function describe(error: NodeJS.ErrnoException): string {
  const text = error.message === '' ? (error.code ?? error.name) : error.message;
  return text.slice(0, LIMITS.webhookExcerptLengthMax);
}

const STATUS_LINE = /^\s*HTTP\/\d(?:\.\d)? ([2-5]\d\d)\b/;

/** As far as the status stands in the line. */
const STATUS_LINE_BYTES = 64;

/** A character of UTF-8 is at most four bytes. */
const EXCERPT_BYTES_MAX = LIMITS.webhookExcerptLengthMax * 4;

function excerptOf(chunks: readonly Buffer[]): string {
  const bytes = Buffer.concat(chunks).subarray(0, EXCERPT_BYTES_MAX);
  const text = new TextDecoder('utf-8').decode(bytes, { stream: true });
  return Array.from(text).slice(0, LIMITS.webhookExcerptLengthMax).join('');
}

/** A `lookup` for node's sockets that hands out addresses only when every one of them may be used. It is asked once per
 *  connection and the connection goes to what it answered, so that a name cannot be rebound in between. */
function guardedLookup(resolve: Resolve): LookupFunction {
  const resolveChecked = callbackify(resolve);
  return (hostname, options, callback) => {
    resolveChecked(hostname, (error, addresses) => {
      const first = addresses?.[0];
      if (first === undefined) callback(error, '', 0);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

/** At least one address, each of which may be used. Of more than are tried the rest is not even looked at. */
async function addressesOf(
  hostname: string,
  resolve: Resolve,
  { guard, onRefused }: SenderOptions,
): Promise<LookupAddress[]> {
  let addresses: LookupAddress[];
  try {
    addresses = (await resolve(hostname)).slice(0, LIMITS.webhookAddressesMax);
  } catch (error) {
    throw new DnsFailure(`${hostname}: ${String(error)}`, { cause: error });
  }
  if (addresses.length === 0) throw new DnsFailure(`${hostname} has no address.`);
  const refused = guard.allowPrivate ? undefined : addresses.find(({ address }) => !isPublic(address));
  if (refused !== undefined) {
    onRefused?.(hostname, refused.address);
    throw new RefusedAddress(`The URL leads to ${NOT_PUBLIC}.`);
  }
  return addresses;
}

/** Straight DNS. Not getaddrinfo: that blocks one of the four threads that also serve files and passwords. `serversNow`:
 *  instead of the system's. */
export function resolveByDns(
  serversNow: () => readonly string[] | null = () => null,
  resolverMs: number = LIMITS.webhookResolverMs,
): Resolve {
  const make = (): Resolver => {
    const made = new Resolver({ timeout: LIMITS.webhookDnsMs, tries: LIMITS.webhookDnsTries });
    const servers = serversNow();
    if (servers !== null) made.setServers(servers);
    return made;
  };
  let resolver = make();
  let madeAt = performance.now();
  return async (hostname) => {
    if (performance.now() - madeAt >= resolverMs) {
      resolver = make();
      madeAt = performance.now();
    }
    const ipv6Asked = Promise.allSettled([resolver.resolve6(hostname)]);
    const [ipv4] = await Promise.allSettled([resolver.resolve4(hostname)]);
    // Some name servers never answer for IPv6, which would take as long as the attempt.
    const ipv6Late = ipv4.status === 'fulfilled' ? [delay(LIMITS.webhookDnsIpv6Ms, [], UNREF)] : [];
    const [ipv6] = await Promise.race([ipv6Asked, ...ipv6Late]);
    if (ipv4.status === 'rejected' && ipv6?.status !== 'fulfilled') throw ipv4.reason;
    return [
      ...(ipv4.status === 'fulfilled' ? ipv4.value.map((address) => ({ address, family: 4 })) : []),
      ...(ipv6?.status === 'fulfilled' ? ipv6.value.map((address) => ({ address, family: 6 })) : []),
    ];
  };
}

const UNREF = { ref: false };

const resolveBySystem: Resolve = (hostname) => systemLookup(hostname, { all: true });
