// What the developer's tools (cli.ts) ask of a running service: its operator API and its merchants' API, over HTTP.

import { LIMITS } from '../../src/limits.ts';

export interface ServiceAddress {
  readonly baseUrl: string;
  readonly operatorUrl: string;
  readonly operatorToken: string;
  readonly secretKey: string;
  readonly accountId: string;
  /** Null: nobody said. */
  readonly appId: string | null;
}

/** The service refused, or cannot be reached: in words for the person at the terminal. */
export class ServiceRefused extends Error {
  override readonly name = 'ServiceRefused';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface Page<Item> {
  readonly data: readonly Item[];
}

export interface App {
  readonly id: string;
  readonly webhook_url: string | null;
}

export async function appOf(client: ServiceClient, appId: string): Promise<App> {
  const app = (await client.operator<Page<App>>('GET', '/apps')).data.find(({ id }) => id === appId);
  if (app === undefined) throw new ServiceRefused('not_found', `There is no app ${appId} on the account.`);
  return app;
}

export class ServiceClient {
  readonly address: ServiceAddress;
  readonly #answerMs: number;
  #keys = 0;

  /** `answerMs`: how long an answer may take. Tests shorten it. */
  constructor(address: ServiceAddress, answerMs: number = LIMITS.toolAnswerMs) {
    this.address = address;
    this.#answerMs = answerMs;
  }

  /** `path`: below the account, e.g. `/apps`. */
  operator<Body>(method: string, path: string, body?: object): Promise<Body> {
    const { operatorUrl, operatorToken, accountId } = this.address;
    const headers = { Authorization: `Bearer ${operatorToken}`, Operator: 'webhooks cli' };
    return this.#call(method, `${operatorUrl}/operator/v1/accounts/${accountId}${path}`, headers, body);
  }

  get<Body>(path: string): Promise<Body> {
    return this.#call('GET', this.address.baseUrl + path, this.#authorization());
  }

  create<Body>(path: string, body: object): Promise<Body> {
    const headers = {
      ...this.#authorization(),
      'Idempotency-Key': `trigger-${Date.now()}-${process.pid}-${this.#keys++}`,
    };
    return this.#call('POST', this.address.baseUrl + path, headers, body);
  }

  #authorization(): { Authorization: string } {
    return { Authorization: `Bearer ${this.address.secretKey}` };
  }

  async #call<Body>(
    method: string,
    url: string,
    headers: Record<string, string>,
    body?: object,
  ): Promise<Body> {
    const { status, ok, text } = await this.#answer(method, url, headers, body);
    const answer = parsed<Body & { error?: { code: string; message: string } }>(text);
    if (answer === null) {
      throw new ServiceRefused(
        'not_the_service',
        `${method} ${url}: HTTP ${status}, and what it says is no JSON: is that the service's address?`,
      );
    }
    if (ok) return answer;
    const { code = 'unknown', message = `HTTP ${status}` } = answer.error ?? {};
    throw new ServiceRefused(code, `${method} ${new URL(url).pathname}: ${code}: ${message}`);
  }

  async #answer(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: object | undefined,
  ): Promise<{ readonly status: number; readonly ok: boolean; readonly text: string }> {
    const signal = AbortSignal.timeout(this.#answerMs);
    try {
      const response = await fetch(url, {
        method,
        headers: body === undefined ? headers : { ...headers, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal,
      });
      return { status: response.status, ok: response.ok, text: await response.text() };
    } catch (error) {
      const what = signal.aborted
        ? `${method} ${url}: no answer within ${this.#answerMs} ms.`
        : `${new URL(url).origin} cannot be reached: is the service running?`;
      throw new ServiceRefused('unreachable', what, { cause: error });
    }
  }
}

function parsed<Value>(text: string): Value | null {
  try {
    return JSON.parse(text) as Value;
  } catch {
    return null;
  }
}
