// A merchant's endpoint: a real HTTPS server with a certificate made for the test, which keeps what it was sent and
// answers as the test says.

import http from 'node:http';
import https from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { generate } from 'selfsigned';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  readonly at: number;
}

/** `reset`: drops the connection with a TCP reset. */
export type Answer = (request: Received, response: ServerResponse, socket: Socket, reset: () => void) => void;

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

export async function makeCertificate(): Promise<Certificate> {
  const made = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 2, value: 'hooks.example.com' },
          { type: 7, ip: '127.0.0.1' },
        ],
      },
    ],
  });
  return { key: made.private, cert: made.cert };
}

export class Receiver {
  readonly received: Received[] = [];
  answer: Answer = (_request, response) => response.writeHead(200).end('ok');
  connections = 0;
  readonly #server: http.Server | https.Server;
  readonly #sockets = new Set<Socket>();
  #waiting: (() => void)[] = [];

  constructor(certificate: Certificate | null) {
    const onRequest = (request: IncomingMessage, response: ServerResponse): void =>
      this.#take(request, response);
    this.#server =
      certificate === null ? http.createServer(onRequest) : https.createServer(certificate, onRequest);
    this.#server.on('connection', (socket: Socket) => {
      this.connections++;
      this.#sockets.add(socket);
      // Whatever the sender does to the connection is the sender's business.
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  async listen(port = 0): Promise<number> {
    await new Promise<void>((resolve) => {
      this.#server.listen(port, '127.0.0.1', resolve);
    });
    return this.port;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get openSockets(): number {
    return this.#sockets.size;
  }

  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** A TLS socket cannot send a reset; the one below it can. */
  #reset(remotePort: number | undefined): void {
    for (const socket of this.#sockets) if (socket.remotePort === remotePort) socket.resetAndDestroy();
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url: path = '', headers } = request;
      const received = { method, path, headers, body: Buffer.concat(chunks), at: Date.now() };
      this.received.push(received);
      this.answer(received, response, request.socket, () => this.#reset(request.socket.remotePort));
      for (const wake of this.#waiting.splice(0)) wake();
    });
  }

  /** Resolves when `isReached` holds; asked after each request. */
  async until(isReached: () => boolean): Promise<void> {
    while (!isReached()) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => {
      this.#server.close(resolve);
    });
    this.dropConnections();
    await closed;
  }
}
