// Sends callbacks to the merchant's service: once each, as the networks do. Bounded: callbacks waiting for a connection
// beyond LIMITS.simulatorCallbacksWaitingMax are lost, as the networks lose them, and counted.

import type { Agent, RequestOptions } from 'node:http';
import https from 'node:https';
import { urlToHttpOptions } from 'node:url';
import { LIMITS } from '../../limits.ts';
import { http } from '../../node-http.ts';

export interface Callback {
  readonly url: string;
  readonly method: 'PUT' | 'POST';
  readonly body: string;
  /** After it was answered, or given up. */
  readonly onDone: (() => void) | null;
}

interface Target {
  readonly secure: boolean;
  readonly options: RequestOptions;
}

export class CallbackSender {
  sent = 0;
  failed = 0;
  lost = 0;
  readonly #agents = agents();
  readonly #waiting: Callback[] = [];
  #open = 0;
  #closed = false;

  send(callback: Callback): void {
    if (this.#closed) return;
    if (this.#open < LIMITS.simulatorCallbackConnectionsMax) {
      this.#start(callback);
      return;
    }
    if (this.#waiting.length >= LIMITS.simulatorCallbacksWaitingMax) {
      this.lost++;
      callback.onDone?.();
      return;
    }
    this.#waiting.push(callback);
  }

  close(): void {
    this.#closed = true;
    this.#waiting.length = 0;
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  #start(callback: Callback): void {
    const target = targetOf(callback);
    if (target === null) {
      this.failed++;
      callback.onDone?.();
      return;
    }
    this.#open++;
    let done = false;
    const finish = (ok: boolean): void => {
      if (done) return;
      done = true;
      if (ok) this.sent++;
      else this.failed++;
      this.#open--;
      callback.onDone?.();
      const next = this.#waiting.shift();
      if (next !== undefined) this.#start(next);
    };
    const { secure, options } = target;
    const request = secure
      ? https.request({ ...options, agent: this.#agents.https })
      : http.request({ ...options, agent: this.#agents.http });
    request.on('response', (response) => {
      response.resume();
      response.on('close', () => finish(true));
    });
    // A callback that cannot be delivered is lost: the networks do not try again.
    request.on('error', () => finish(false));
    request.on('timeout', () => request.destroy());
    request.end(callback.body);
  }
}

function agents(): { http: Agent; https: https.Agent } {
  const options = { keepAlive: true, maxSockets: LIMITS.simulatorCallbackConnectionsMax };
  return { http: new http.Agent(options), https: new https.Agent(options) };
}

const TIMEOUT_MS = 10_000;

function targetOf({ url, method, body }: Callback): Target | null {
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) return null;
  return {
    secure: parsed.protocol === 'https:',
    options: {
      // Not its `hostname`: that of an IPv6 address has brackets, and nobody finds a host of that name.
      ...urlToHttpOptions(parsed),
      method,
      headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) },
      timeout: TIMEOUT_MS,
    },
  };
}
