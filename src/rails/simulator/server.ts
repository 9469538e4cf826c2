// The simulator: an HTTP server that speaks MTN's and Airtel's protocols, with a page at its root. It stands for the
// outside: its state is its own, and it shares no code with the adapters.
//
// Invariants: a body is at most LIMITS.simulatorBodyBytesMax; every request is answered once, or its connection is
// dropped or left hanging because its number says so; closing ends every connection.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LIMITS } from '../../limits.ts';
import { http } from '../../node-http.ts';
import { AirtelProtocol } from './airtel.ts';
import { type Answer, type Call, json, type Outcome } from './call.ts';
import { CallbackSender } from './callback-sender.ts';
import { MtnProtocol } from './mtn.ts';
import { Network } from './network.ts';
import { act, page } from './page.ts';
import { Portal } from './portal.ts';
import { statement } from './statement.ts';

export interface SimulatorOptions {
  /** 0: a free one. */
  readonly port: number;
  readonly host: string;
  readonly approveAfterMs: number;
  /** How many times faster than real the number table's own delays (5, 20, 30, 60 s) pass; 1 unless a test says so. */
  readonly speed?: number;
  readonly mtnTokenSeconds?: number;
  readonly airtelTokenSeconds?: number;
}

export interface Simulator {
  readonly url: string;
  close(): Promise<void>;
}

const MTN_TOKEN_SECONDS = 3_600;
const AIRTEL_TOKEN_SECONDS = 180;

export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const { port, host, approveAfterMs, speed = 1 } = options;
  const network = new Network({ approveAfterMs, speed });
  const callbacks = new CallbackSender();
  const mtn = new MtnProtocol({
    network,
    callbacks,
    tokenSeconds: options.mtnTokenSeconds ?? MTN_TOKEN_SECONDS,
  });
  const airtel = new AirtelProtocol({
    network,
    callbacks,
    tokenSeconds: options.airtelTokenSeconds ?? AIRTEL_TOKEN_SECONDS,
  });
  const portal = new Portal({ network, mtn, airtel, callbacks });

  const route = (call: Call, respond: (outcome: Outcome) => void): void => {
    const { method, path } = call;
    if (MtnProtocol.owns(path)) mtn.handle(call, respond);
    else if (AirtelProtocol.owns(path)) airtel.handle(call, respond);
    else if (isOfAnotherSite(call)) respond(json(403, { error: 'wrong origin' }));
    else if (Portal.owns(path)) respond(portal.handle(call));
    else if (path === '/' && method === 'GET') respond(page(network));
    else if (path === '/statement.csv' && method === 'GET') respond(statement(network, call.query));
    else if (path.startsWith('/transactions/') && method === 'POST') respond(act(network, call));
    else respond(json(404, { error: 'not found' }));
  };

  const server = http.createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    receive(request, response, (body) => {
      route(callOf(request, body), (outcome) => reply(response, outcome));
    });
  });
  const url = await listen(server, port, host);
  return {
    url,
    close: () => {
      network.close();
      callbacks.close();
      return close(server);
    },
  };
}

/** Longer than a client keeps an idle connection, so that the client closes it and no call meets a closing one. */
const KEEP_ALIVE_MS = 65_000;

function receive(request: IncomingMessage, response: ServerResponse, onBody: (body: Buffer) => void): void {
  const chunks: Buffer[] = [];
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length <= LIMITS.simulatorBodyBytesMax) chunks.push(chunk);
  });
  request.on('end', () => {
    if (length > LIMITS.simulatorBodyBytesMax) reply(response, TOO_LARGE);
    else onBody(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
  });
  // The caller went away: nothing to answer.
  request.on('error', () => request.destroy());
}

const TOO_LARGE = json(413, { statusCode: 413, message: 'Too large' });

function callOf(request: IncomingMessage, body: Buffer): Call {
  const { method = '', url = '/', headers } = request;
  const mark = url.indexOf('?');
  return {
    method,
    path: mark === -1 ? url : url.slice(0, mark),
    query: mark === -1 ? NO_QUERY : new URLSearchParams(url.slice(mark)),
    headers,
    body,
  };
}

const NO_QUERY = new URLSearchParams();

/** Another site's page in the same browser may press no button, and use no control. */
function isOfAnotherSite({ headers: { origin, host } }: Call): boolean {
  return origin !== undefined && URL.parse(origin)?.host !== host;
}

function reply(response: ServerResponse, outcome: Outcome): void {
  if (outcome === 'hang') return;
  if (outcome === 'drop') {
    response.destroy();
    return;
  }
  response.writeHead(outcome.status, headersOf(outcome));
  response.end(outcome.body);
}

function headersOf({ contentType, body, location, retryAfter }: Answer): Record<string, string | number> {
  const headers: Record<string, string | number> = { 'Content-Length': Buffer.byteLength(body) };
  if (contentType !== null) headers['Content-Type'] = contentType;
  if (location !== undefined) headers['Location'] = location;
  if (retryAfter !== undefined) headers['Retry-After'] = retryAfter;
  return headers;
}

function listen(server: Server, port: number, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      const { address, port: bound, family } = server.address() as AddressInfo;
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`);
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.close((error) => (error === undefined ? resolve() : reject(error)));
    server.closeAllConnections();
  });
}
