// The one place that connects to NATS. The first connection is tried for clusterJoinMs, since servers may be starting too;
// once made it never gives up: servers come back, and what waits for them has its own deadline.

import { readFileSync } from 'node:fs';
import { connect, createInbox, credsAuthenticator, ErrorCode, Events } from 'nats';
import type {
  Authenticator,
  ConnectionOptions,
  JetStreamManager,
  Msg,
  NatsConnection,
  NatsError,
  PublishOptions,
  Subscription,
} from 'nats';
import { LIMITS } from '../limits.ts';
import { pause } from '../pause.ts';
import { CannotConnect, NatsEnded, NatsUnfit } from './errors.ts';
import { persist } from './persist.ts';
import { Semaphore } from './semaphore.ts';

export interface NatsOptions {
  /** Comma-separated, e.g. "nats://10.0.0.1:4222,nats://10.0.0.2:4222". User and password may stand in it. */
  readonly url: string;
  /** Shown in the server's connection list. */
  readonly name: string;
  /** Prefix of the inboxes of administrative requests; the role's permissions name it. */
  readonly inboxPrefix: string;
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** A .creds file (decentralised accounts), read for each connection; null where user and password or a certificate do. */
  readonly credentialsFile?: string | undefined;
}

/** A connection and what is used of it everywhere. */
export interface NatsLink {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  /** A subject that only this connection listens to. */
  newInbox(): string;
  /** For readers of streams that are behind. */
  readonly catchUps: Semaphore;
  /** As NatsEvents.onProblem. */
  complain(problem: string): void;
  /** `listener` is told each time that the connection was lost and is back: what was under way may be lost. Returns how to
   *  end that. */
  onReconnect(listener: () => void): () => void;
  close(): Promise<void>;
  /** Sends what stands ready, where the server takes it, and closes. */
  drain(): Promise<void>;
}

export interface NatsEvents {
  /** Anything the server or the client complains of: permissions, limits, slow consumer, no connection. */
  readonly onProblem?: (problem: string) => void;
  /** The client has given up, for good, and nobody here asked for it. It should not: this connection is of no use any more. */
  readonly onEnd?: (error: NatsEnded) => void;
}

/** Throws CannotConnect when servers refuse, or none answers for too long, and NatsUnfit. */
export async function connectNats(options: NatsOptions, events: NatsEvents = {}): Promise<NatsLink> {
  const servers = options.url.split(',').map((url) => url.trim());
  const { user, pass } = passwordIn(servers[0] ?? '');
  const tls = tlsOf(options, servers);
  const settings: ConnectionOptions = {
    servers: servers.map(withoutCredentials),
    name: options.name,
    inboxPrefix: options.inboxPrefix,
    maxReconnectAttempts: -1,
    // Nor for a password that a server does not take for a while: the client would close at the second time, for ever.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: LIMITS.natsReconnectMs,
    pingInterval: LIMITS.natsPingMs,
    maxPingOut: 2,
    timeout: LIMITS.natsConnectMs,
    noAsyncTraces: true,
    ...(user === undefined ? {} : { user, pass: pass ?? '' }),
    ...(options.credentialsFile === undefined
      ? {}
      : { authenticator: credentialsIn(options.credentialsFile) }),
    ...(tls === null ? {} : { tls }),
  };
  const connection = await persist(() => connect(settings), {
    isFinal: (error) => refusalIn(error) !== null,
    onWaiting: (error) => events.onProblem?.(`no connection yet: ${silenceOf(error)}`),
  }).catch((cause: unknown) => {
    throw new CannotConnect(`cannot connect to NATS: ${refusalIn(cause) ?? silenceOf(cause)}`, { cause });
  });
  const unfit = unfitness(connection);
  if (unfit !== null) {
    await connection.close();
    throw new NatsUnfit(unfit);
  }
  const listeners = new Set<() => void>();
  void watchStatus(connection, listeners, events);
  let isOurs = false;
  void connection.closed().then((cause) => {
    if (isOurs) return;
    const why = cause === undefined ? '' : `: ${cause.message}`;
    events.onEnd?.(new NatsEnded(`the NATS client has ended its connection for good${why}`, { cause }));
  });
  return {
    connection,
    manager: await connection.jetstreamManager({ checkAPI: false, timeout: LIMITS.natsConnectMs }),
    newInbox: () => createInbox(options.inboxPrefix),
    catchUps: new Semaphore(LIMITS.streamReadsAtOnce),
    complain: (problem) => events.onProblem?.(problem),
    onReconnect(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      isOurs = true;
      return connection.close();
    },
    async drain() {
      isOurs = true;
      // One that answers nothing would be waited for until that is found out, and then for another to connect to.
      await Promise.race([connection.drain(), pause(LIMITS.natsPingMs)]);
      await connection.close();
    },
  };
}

export type Listening = Pick<Subscription, 'unsubscribe'>;

/** A subscription until it is ended here. When a server is told anew who may listen to what, it ends what its users may not, and so
 *  does the client, for good: it is asked for again until it may be. */
export function listen(
  connection: NatsConnection,
  subject: string,
  onMessage: (message: Msg) => void,
): Listening {
  const hear = whenHeard(onMessage);
  let retry: NodeJS.Timeout | undefined;
  const subscribe = (): Subscription =>
    connection.subscribe(subject, {
      callback(error, message) {
        if (error === null) hear(error, message);
        else retry ??= setTimeout(again, LIMITS.natsReconnectMs);
      },
    });
  const again = (): void => {
    retry = undefined;
    if (!connection.isClosed() && !connection.isDraining()) subscription = subscribe();
  };
  let subscription = subscribe();
  return {
    unsubscribe() {
      clearTimeout(retry);
      subscription.unsubscribe();
    },
  };
}

/** Whatever may be long, or come when the connection has ended or is about to, is published with this. A server that the client has just
 *  come to may take shorter messages: until it is left for another, what is too long for it is lost, as all is that is sent to one which
 *  goes. */
export function publish(
  connection: NatsConnection,
  subject: string,
  data: Uint8Array,
  options?: PublishOptions,
): void {
  try {
    connection.publish(subject, data, options);
  } catch (error) {
    const { code } = error as NatsError;
    if (code === ErrorCode.ConnectionClosed || code === ErrorCode.ConnectionDraining) return;
    if (code !== ErrorCode.MaxPayloadExceeded || unfitness(connection) === null) throw error;
  }
}

/** For a subscription. The client takes an exception for the end of its connection and goes on, hearing little: it becomes
 *  an uncaught one instead, which stops the process as one from a caller here does. */
export function whenHeard(
  onMessage: (message: Msg) => void,
): (error: NatsError | null, message: Msg) => void {
  return (error, message) => {
    if (error !== null) return;
    try {
      onMessage(message);
    } catch (fault) {
      process.nextTick(() => {
        throw fault;
      });
    }
  };
}

/** Null: as the server wants it. The client passes over the scheme of a URL: where one says tls, or there is anything for it, a
 *  server without it must not be told the password. */
function tlsOf(
  { caFile, certFile, keyFile }: NatsOptions,
  servers: readonly string[],
): NonNullable<ConnectionOptions['tls']> | null {
  const files = Object.entries({ caFile, certFile, keyFile }).filter(([, file]) => file !== undefined);
  if (files.length === 0 && !servers.some((url) => url.startsWith('tls://'))) return null;
  return Object.fromEntries(files);
}

/** In words. Null: servers that start, or do not answer in time, are asked again; one that knows us not, or has no TLS, will not
 *  later. */
function refusalIn(error: unknown): string | null {
  const { code, message, chainedError } = error as NatsError;
  if (code === ErrorCode.ServerOptionNotAvailable) {
    return 'the server has no TLS, and a tls:// URL in NATS_URL, NATS_CA_FILE, NATS_CERT_FILE or NATS_KEY_FILE asks for it';
  }
  if (code === ErrorCode.Tls) {
    const why = chainedError?.message ?? message;
    return `${why}: NATS_CA_FILE, NATS_CERT_FILE or NATS_KEY_FILE is not a certificate or key, or they are no pair`;
  }
  if (code === ErrorCode.BadCreds) return 'NATS_CREDENTIALS_FILE holds no credentials';
  return /authori[sz]ation|authentication/i.test(message)
    ? `${message}: the server does not take the user and password of NATS_URL, NATS_CREDENTIALS_FILE or NATS_CERT_FILE`
    : null;
}

/** Of a server that may answer later. */
function silenceOf(error: unknown): string {
  const { message } = error as Error;
  return /certificate/i.test(message)
    ? `${message}: that of the server is not of the authority in NATS_CA_FILE, or not for the host in NATS_URL`
    : `${message}: no server of NATS_URL answers as one should`;
}

/** In words; null: it carries what this product sends. What is too long for it the client throws at whoever sends it, which ends the
 *  process: merchants could do that at will. */
function unfitness({ info }: NatsConnection): string | null {
  const payload = info?.max_payload ?? 0;
  if (payload >= LIMITS.natsPayloadBytes) return null;
  return (
    `the NATS servers take messages of at most ${payload} bytes, and some have ${LIMITS.natsPayloadBytes}: set max_payload to 1MB, ` +
    'as deploy/nats/nats.conf has it'
  );
}

/** Of the client's inboxes: another one at each attempt. */
const RANDOM_TOKEN = /(?<=\.)[0-9A-Z]{22}(?=\.|$)/;

async function watchStatus(
  connection: NatsConnection,
  listeners: ReadonlySet<() => void>,
  events: NatsEvents,
): Promise<void> {
  // It is lost once more with each attempt that does not come through.
  let isLost = false;
  /** What is not permitted is tried again four times a second. */
  const told = new Set<string>();
  let isUnfit = false;
  for await (const status of connection.status()) {
    const { permissionContext: refused } = status;
    if (status.type === Events.Reconnect) {
      const unfit = unfitness(connection);
      if (unfit !== null) {
        if (!isUnfit) events.onProblem?.(`${connection.getServer()} is left: ${unfit}`);
        isUnfit = true;
        // Another server may carry it. Rejects only if the connection is ended here.
        void connection.reconnect().catch(() => {});
        continue;
      }
      isUnfit = false;
      isLost = false;
      told.clear();
      for (const listener of listeners) listener();
    } else if (status.type === Events.Disconnect && !isLost) {
      isLost = true;
      events.onProblem?.('the connection was lost: it is tried again until there is one');
    } else if (refused !== undefined) {
      const subject = refused.subject.replace(RANDOM_TOKEN, '*');
      const tried = `${refused.operation === 'publish' ? 'publish' : 'subscribe'} to ${subject}`;
      if (told.has(tried) || told.size >= LIMITS.natsRefusalsToldMax) continue;
      told.add(tried);
      events.onProblem?.(`permission: NATS does not let this user ${tried}`);
    } else if (status.type === Events.Error) {
      events.onProblem?.(JSON.stringify(status.data));
    }
  }
}

/** They run out, and are renewed in the file. What cannot be read of it, or is none, is passed over once there were some: the client
 *  takes an exception for the end of its connection. */
function credentialsIn(file: string): Authenticator {
  let known = credsAuthenticator(readFileSync(file));
  return (nonce) => {
    try {
      const read = credsAuthenticator(readFileSync(file));
      const answer = read(nonce);
      known = read;
      return answer;
    } catch {
      return known(nonce);
    }
  };
}

function passwordIn(url: string): { user?: string; pass?: string } {
  if (!url.includes('@')) return {};
  const { username, password } = new URL(url);
  return { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
}

function withoutCredentials(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//');
}
