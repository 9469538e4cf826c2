// The merchants' front on a real socket, over a bus that the test scripts: for what happens at the edge when the answer
// is late, unknown or never comes, and to see what a request becomes. What accounts decide is tested with real accounts.

import { connect, type Socket } from 'node:net';
import type { Test } from 'tap';
import type { Bus, GroupName, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import type { ErrorCode, Rejection } from '../../src/domain/error-code.ts';
import { makeApiKey } from '../../src/http/api-key.ts';
import type { Bounds } from '../../src/http/call.ts';
import { callbackRoutes, type OnCallback } from '../../src/http/callbacks.ts';
import type { HttpObserver, NoReplyReason } from '../../src/http/observer.ts';
import { merchantSurface } from '../../src/http/routes.ts';
import { createServer } from '../../src/http/server.ts';
import { LIMITS } from '../../src/limits.ts';

export const ACCOUNT_ID = 'acc_01KAJ3W8Q07M4R2N9X5T6V1B00';
export const SECRET_KEY = makeApiKey('secret', ACCOUNT_ID);
export const CHARGE = { amount: '50000', currency: 'UGX', msisdn: '+256772123456', reference: 'order-1' };

/** A message as a test looks at it. */
export type Sent = Message & {
  readonly accountId?: string;
  readonly keyHash?: string | null;
  readonly problem?: Rejection | null;
  readonly idempotencyKey?: string | null;
  readonly requestHash?: string;
  readonly input?: unknown;
  readonly id?: string;
  readonly filter?: unknown;
};

/** Answers as an account would a problem; otherwise with what `answer` says. Null: not now; the test calls `held`. */
export class ScriptedBus implements Bus {
  readonly sent: Sent[] = [];
  readonly held: OnReply[] = [];
  answer: (message: Sent) => Reply | null = () => ({ type: 'done', body: '{"ok":true}', replayed: false });

  partitions(): number {
    return 16;
  }

  send(_group: GroupName, _partition: number, message: Message, onReply: OnReply): void {
    const sent = message as Sent;
    this.sent.push(sent);
    const problem = sent.problem ?? null;
    const reply = problem === null ? this.answer(sent) : ({ type: 'rejected', rejection: problem } as const);
    if (reply === null) this.held.push(onReply);
    else setImmediate(() => onReply(reply));
  }
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** The text as JSON. */
  readonly body: any;
}

export interface Front {
  readonly bus: ScriptedBus;
  readonly port: number;
  /** Sends a request with Node's own socket, as bytes, and reads one answer. */
  send(bytes: string | Buffer): Promise<Answer>;
  /** POSTs JSON, or `body` as it is when it is text or bytes. `headers`: null takes one away. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string | null>>): Promise<Answer>;
  get(path: string, headers?: Readonly<Record<string, string | null>>): Promise<Answer>;
  stop(): Promise<void>;
}

export interface FrontOptions {
  readonly bounds?: Partial<Bounds>;
  readonly onCallback?: OnCallback;
  readonly observer?: Partial<HttpObserver>;
  readonly connectionsMax?: number;
}

const nothing = (): void => {};
export const NOBODY: HttpObserver = {
  onReply: nothing,
  onNoReply: nothing,
  onMadeWay: nothing,
  onKeyFull: nothing,
  onConnectionRefused: nothing,
};

export async function startFront(options: FrontOptions = {}): Promise<Front> {
  const bus = new ScriptedBus();
  const server = createServer({
    surface: merchantSurface(callbackRoutes(options.onCallback ?? (() => 'accepted'))),
    bus,
    observer: { ...NOBODY, ...options.observer },
    bounds: { ...LIMITS, ...options.bounds },
    connectionsMax: options.connectionsMax,
  });
  const port = await server.listen('127.0.0.1', 0);
  const send = (bytes: string | Buffer): Promise<Answer> => exchange(port, bytes);
  return {
    bus,
    port,
    send,
    post: (path, body, headers = {}) => {
      const bytes = Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body);
      return send(requestBytes('POST', path, { ...createHeaders(), ...headers }, bytes));
    },
    get: (path, headers = {}) => send(requestBytes('GET', path, { ...authorised(), ...headers }, null)),
    stop: () => server.stop(),
  };
}

/** A front, and what it has told of requests. */
export interface Watched {
  readonly front: Front;
  readonly unanswered: NoReplyReason[];
  readonly statuses: number[];
  readonly timedFrom: number[];
  /** Codes of the answers to what made way for others. */
  readonly madeWay: ErrorCode[];
}

export async function watched(t: Test, options: FrontOptions = {}): Promise<Watched> {
  const unanswered: NoReplyReason[] = [];
  const statuses: number[] = [];
  const timedFrom: number[] = [];
  const madeWay: ErrorCode[] = [];
  const front = await startFront({
    ...options,
    observer: {
      onReply(_, status, durationMs) {
        statuses.push(status);
        timedFrom.push(performance.now() - durationMs);
      },
      onNoReply: (_, reason) => unanswered.push(reason),
      onMadeWay: (_, _requestId, code) => madeWay.push(code),
    },
  });
  t.teardown(() => front.stop());
  return { front, unanswered, statuses, timedFrom, madeWay };
}

function authorised(): Record<string, string | null> {
  return { Authorization: `Bearer ${SECRET_KEY}` };
}

let keys = 0;
export function createHeaders(key = `test-key-${keys++}`): Record<string, string | null> {
  return { ...authorised(), 'Content-Type': 'application/json', 'Idempotency-Key': key };
}

/** A create of a charge. */
export function createBytes(key: string, body = JSON.stringify(CHARGE)): Buffer {
  return requestBytes('POST', '/v1/charges', createHeaders(key), body);
}

export const CHARGE_PATH = '/v1/charges/chg_01KAJ3W8Q07M4R2N9X5T6V1B00';
/** A read of a charge. */
export const READ = requestBytes('GET', CHARGE_PATH, authorised(), null);

export function requestBytes(
  method: string,
  path: string,
  headers: Readonly<Record<string, string | null>>,
  body: string | Buffer | null,
): Buffer {
  const bytes = body === null ? null : Buffer.from(body as string);
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: front'];
  for (const [name, value] of Object.entries(headers)) if (value !== null) lines.push(`${name}: ${value}`);
  if (bytes !== null) lines.push(`Content-Length: ${bytes.length}`);
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), bytes ?? Buffer.alloc(0)]);
}

export function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.on('error', reject);
  });
}

async function exchange(port: number, bytes: string | Buffer): Promise<Answer> {
  const socket = await open(port);
  const answered = readAnswer(socket);
  socket.write(bytes);
  try {
    return await answered;
  } finally {
    socket.destroy();
  }
}

/** The next answer on the socket; rejects when it closes without one. */
export function readAnswer(socket: Socket): Promise<Answer> {
  return readNext(socket, false);
}

/** As readAnswer, of an answer to HEAD: its Content-Length is that of a body which does not follow. */
export function readHead(socket: Socket): Promise<Answer> {
  return readNext(socket, true);
}

function readNext(socket: Socket, isHead: boolean): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let received = '';
    const look = (chunk: Buffer): void => {
      received += chunk.toString('latin1');
      const answer = parseAnswer(received, isHead);
      if (answer === null) return;
      socket.off('data', look);
      resolve(answer);
    };
    socket.on('data', look);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`closed without an answer after "${received}"`)));
  });
}

/** Null: not complete yet. */
function parseAnswer(received: string, isHead: boolean): Answer | null {
  const end = received.indexOf('\r\n\r\n');
  if (end === -1) return null;
  const [statusLine = '', ...lines] = received.slice(0, end).split('\r\n');
  const status = Number(statusLine.split(' ')[1]);
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const length = isHead ? 0 : Number(headers['content-length'] ?? 0);
  if (received.length < end + 4 + length) return null;
  const text = Buffer.from(received.slice(end + 4, end + 4 + length), 'latin1').toString('utf8');
  const isJson = headers['content-type'] === 'application/json' && text !== '';
  return { status, headers, text, body: isJson ? (JSON.parse(text) as unknown) : undefined };
}

/** Resolves when the other side closes; with what it sent until then. */
export function readToEnd(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let received = '';
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    socket.on('close', () => resolve(received));
    socket.on('error', () => {
      // A reset is a close too, and 'close' follows.
    });
  });
}
