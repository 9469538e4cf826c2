// `npm run webhooks -- listen`: during development, receives an app's events in the developer's terminal, checks their
// signature, prints them and passes them on, bytes and headers unchanged, to a local server.
//
// It saves an address of its own as the app's webhook URL and puts the old one back when it ends, so the service must run
// with WEBHOOK_ALLOW_PRIVATE=true and on the same machine. The address says what it replaces: the next `listen` puts back what
// one that was killed could not.

import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LIMITS } from '../../src/limits.ts';
import { http } from '../../src/node-http.ts';
import { appOf, ServiceRefused } from './service-client.ts';
import type { App, ServiceClient } from './service-client.ts';
import { signatureOf } from './signature.ts';

export interface ListenOptions {
  readonly client: ServiceClient;
  /** Null: only print. */
  readonly forwardTo: string | null;
  readonly print: (line: string) => void;
}

export interface Listening {
  /** Puts the app's webhook URL back. False: somebody has changed it meanwhile, and it stays as it is. */
  stop(): Promise<boolean>;
}

export async function listen({ client, forwardTo, print }: ListenOptions): Promise<Listening> {
  const { appId } = client.address;
  if (appId === null) throw new ServiceRefused('usage', 'The key is not of the demo app: give --app too.');
  const before = await urlBefore(await appOf(client, appId));
  const { signing_secret: secret } = await client.operator<{ signing_secret: string }>(
    'POST',
    `/apps/${appId}/reveal_signing_secret`,
    {},
  );
  const server = http.createServer((request, response) => {
    if (request.method === 'GET') {
      response.end(LISTENS);
      return;
    }
    receive(request, secret, forwardTo, print).then(
      (status) => response.writeHead(status).end(),
      (error: unknown) => print(`A request broke off: ${messageOf(error)}.`),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const url = listenerUrl((server.address() as AddressInfo).port, before);
  const close = (): Promise<unknown> =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  try {
    await client.operator('PATCH', `/apps/${appId}`, { webhook_url: url });
  } catch (error) {
    await close();
    throw hintFor(error);
  }
  print(`Signing secret: ${secret}`);
  print(
    `Listening for events of ${appId}${forwardTo === null ? '' : `, passing them on to ${forwardTo}`}. Ctrl-C ends.`,
  );
  return {
    stop: async () => {
      try {
        if ((await appOf(client, appId)).webhook_url !== url) return false;
        await client.operator('PATCH', `/apps/${appId}`, { webhook_url: before });
        return true;
      } catch (error) {
        throw notPutBack(appId, before, error);
      } finally {
        await close();
      }
    },
  };
}

/** Its URL but for what a `listen` before this one put there. */
async function urlBefore({ id, webhook_url: url }: App): Promise<string | null> {
  const listener = url === null ? null : listenerOf(url);
  if (listener === null) return url;
  if (!(await isListening(listener))) return listener.searchParams.get(BEFORE);
  throw new ServiceRefused('in_use', `Another "listen" receives the events of ${id}. End that one first.`);
}

function listenerOf(url: string): URL | null {
  const parsed = new URL(url);
  return parsed.hostname === '127.0.0.1' && parsed.pathname === LISTENER_PATH ? parsed : null;
}

async function isListening(url: URL): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(LIMITS.webhookAttemptMs) });
    return (await response.text()) === LISTENS;
  } catch {
    // Whatever it is that does not answer this is no listener.
    return false;
  }
}

/** `before` is left out where it does not fit. */
function listenerUrl(port: number, before: string | null): string {
  const url = new URL(`http://127.0.0.1:${port}${LISTENER_PATH}`);
  const bare = url.href;
  if (before !== null) url.searchParams.set(BEFORE, before);
  return url.href.length > LIMITS.webhookUrlLengthMax ? bare : url.href;
}

function notPutBack(id: string, before: string | null, error: unknown): ServiceRefused {
  return new ServiceRefused(
    error instanceof ServiceRefused ? error.code : 'unknown',
    `The webhook URL of ${id} was not put back (it was ${before ?? 'none'}): ${messageOf(error)}`,
    { cause: error },
  );
}

function hintFor(error: unknown): unknown {
  if (!(error instanceof ServiceRefused) || error.code !== 'validation_failed') return error;
  return new ServiceRefused(
    error.code,
    'The service takes no local webhook URL. Start it with WEBHOOK_ALLOW_PRIVATE=true.',
    { cause: error },
  );
}

async function receive(
  request: IncomingMessage,
  secret: string,
  forwardTo: string | null,
  print: (line: string) => void,
): Promise<number> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  if (!isSigned(body, String(request.headers['service-signature'] ?? ''), secret)) {
    print('A request without a valid signature was refused.');
    return BAD_REQUEST;
  }
  const event = JSON.parse(body.toString('utf8')) as {
    type: string;
    id: string;
    data: { object: { id: string } };
  };
  const line = `${new Date().toISOString().slice(11, 19)}  ${event.type}  ${event.id}  ${event.data.object.id}`;
  if (forwardTo === null) {
    print(`${line}\n${JSON.stringify(event, null, 2)}`);
    return OK;
  }
  const { status, note } = await forward(forwardTo, request.headers, body);
  print(`${line}  → ${note}`);
  return status;
}

async function forward(
  to: string,
  headers: IncomingHttpHeaders,
  body: Buffer,
): Promise<{ readonly status: number; readonly note: string }> {
  const passed = PASSED_HEADERS.map((name): [string, string] => [name, String(headers[name] ?? '')]);
  try {
    const signal = AbortSignal.timeout(LIMITS.webhookAttemptMs);
    const response = await fetch(to, { method: 'POST', headers: passed, body, redirect: 'manual', signal });
    await response.arrayBuffer();
    return { status: response.status, note: String(response.status) };
  } catch (error) {
    return { status: BAD_GATEWAY, note: `failed: ${causeOf(error)}` };
  }
}

/** Of a fetch that failed: its own message says only that. Several addresses that refuse have none of their own but a code. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const { code } = cause as NodeJS.ErrnoException;
  return messageOf(cause) || (code ?? 'no reason was given');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function isSigned(body: Buffer, header: string, secret: string): boolean {
  const seconds = Number(/(?:^|,)t=(\d+)/.exec(header)?.[1] ?? 0);
  const expected = Buffer.from(signatureOf(secret, seconds, body));
  const given = Buffer.from(header);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const PASSED_HEADERS = [
  'content-type',
  'user-agent',
  'service-signature',
  'service-event-id',
  'service-event-type',
];
const LISTENER_PATH = '/daftari-listen';
/** Of its query: the app's webhook URL before. */
const BEFORE = 'before';
const LISTENS = 'daftari listens\n';
const OK = 200;
const BAD_REQUEST = 400;
const BAD_GATEWAY = 502;
