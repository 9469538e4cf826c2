// What the developer's tools (cli.ts) ask of a running service: its operator API and its merchants' API, over HTTP.

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
  #keys = 0;

  constructor(address: ServiceAddress) {
    this.address = address;
  }

  /** `path`: below the account, e.g. `/apps`. */
  operator<Body>(method: string, path: string, body?: object): Promise<Body> {
    const { operatorUrl, operatorToken, accountId } = this.address;
    const headers = { Authorization: `Bearer ${operatorToken}`, Operator: 'webhooks cli' };
    return call(method, `${operatorUrl}/operator/v1/accounts/${accountId}${path}`, headers, body);
  }

  get<Body>(path: string): Promise<Body> {
    return call('GET', this.address.baseUrl + path, this.#authorization());
  }

  create<Body>(path: string, body: object): Promise<Body> {
    const headers = {
      ...this.#authorization(),
      'Idempotency-Key': `trigger-${Date.now()}-${process.pid}-${this.#keys++}`,
    };
    return call('POST', this.address.baseUrl + path, headers, body);
  }

  #authorization(): { Authorization: string } {
    return { Authorization: `Bearer ${this.address.secretKey}` };
  }
}

async function call<Body>(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: object,
): Promise<Body> {
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers: body === undefined ? headers : { ...headers, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    throw new ServiceRefused(
      'unreachable',
      `${new URL(url).origin} cannot be reached: is the service running?`,
      {
        cause: error,
      },
    );
  }
  const answer = parsed<Body & { error?: { code: string; message: string } }>(await response.text());
  if (answer === null) {
    throw new ServiceRefused(
      'not_the_service',
      `${method} ${url}: HTTP ${response.status}, and what it says is no JSON: is that the service's address?`,
    );
  }
  if (response.ok) return answer;
  const { code = 'unknown', message = `HTTP ${response.status}` } = answer.error ?? {};
  throw new ServiceRefused(code, `${method} ${new URL(url).pathname}: ${code}: ${message}`);
}

function parsed<Value>(text: string): Value | null {
  try {
    return JSON.parse(text) as Value;
  } catch {
    return null;
  }
}
