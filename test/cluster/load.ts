// Callers of a cluster, who keep a journal of what they sent and what they were told, as deploy/checker.ts reads it. A caller
// whose connection is closed without a status asks again with the same idempotency key, as the documentation says.

import { Agent, request as httpRequest } from 'node:http';
import { randomUUID } from 'node:crypto';
import type { JournalEntry, Service } from '../../deploy/journal-check.ts';

export interface Account {
  readonly id: string;
  readonly secretKey: string;
}

export async function makeAccounts(
  service: Service,
  count: number,
  webhookUrl: string | null = null,
): Promise<Account[]> {
  const accounts: Account[] = [];
  for (let i = 0; i < count; i++) {
    const settings = { name: `Shop ${i}`, country: 'UG', live: true, payouts_enabled: true };
    const account = await operator(service, 'POST', '/operator/v1/accounts', settings);
    const app = await operator(service, 'POST', `/operator/v1/accounts/${String(account['id'])}/apps`, {
      name: 'App',
      domain: 'shop.test',
      ...(webhookUrl === null ? {} : { webhook_url: webhookUrl }),
    });
    accounts.push({ id: String(account['id']), secretKey: String(app['secret_key']) });
  }
  return accounts;
}

async function operator(
  { operatorUrl, operatorToken }: Service,
  method: string,
  path: string,
  body: object,
): Promise<Record<string, unknown>> {
  const answer = await fetch(operatorUrl + path, {
    method,
    headers: { authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (answer.status >= 300) throw new Error(`${method} ${path} answers ${answer.status}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

export interface LoadReport {
  readonly journal: JournalEntry[];
  /** Of the first answer of each create, milliseconds; connections closed without a status count as they are resolved. */
  readonly latenciesMs: number[];
  readonly closedConnections: number;
}

export interface LoadOptions {
  readonly accounts: readonly Account[];
  /** Asked for each attempt: a front that is gone is not asked again. */
  readonly baseUrls: () => readonly string[];
  readonly callers: number;
  /** Pause of each caller between two creates. */
  readonly pauseMs: number;
}

/** Callers that run until `stop`, which resolves when each has had its last answer. */
export class Load {
  readonly #options: LoadOptions;
  readonly #agent: Agent;
  readonly #journal: JournalEntry[] = [];
  readonly #latenciesMs: number[] = [];
  readonly #callers: Promise<void>[];
  #closedConnections = 0;
  #stopped = false;
  #ended = false;
  #abandoned = false;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, maxSockets: options.callers });
    this.#callers = Array.from({ length: options.callers }, (_, index) => this.#call(index));
  }

  /** Creates answered so far. */
  get answered(): number {
    return this.#journal.length;
  }

  /** Every caller has had its last answer. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  async stop(): Promise<LoadReport> {
    this.#stopped = true;
    await Promise.all(this.#callers);
    this.#ended = true;
    this.#agent.destroy();
    return {
      journal: this.#journal,
      latenciesMs: this.#latenciesMs,
      closedConnections: this.#closedConnections,
    };
  }

  /** The test has failed: nobody waits for answers any more. */
  abandon(): void {
    this.#stopped = true;
    this.#abandoned = true;
    this.#agent.destroy();
  }

  async #call(index: number): Promise<void> {
    const { accounts, pauseMs } = this.#options;
    for (let n = 0; !this.#stopped; n++) {
      await this.#create(accounts[(index + n) % accounts.length]!, index, n);
      if (pauseMs > 0) {
        await new Promise((resolve) => {
          setTimeout(resolve, pauseMs);
        });
      }
    }
  }

  async #create(account: Account, caller: number, n: number): Promise<void> {
    const path = '/v1/charges';
    const key = randomUUID();
    const reference = `order-${caller}-${n}-${key.slice(0, 8)}`;
    const body = { amount: String(1_000 + n), currency: 'UGX', msisdn: '+256772000001', reference };
    const startedAt = performance.now();
    let status: number | null = null;
    let reply: { id?: string } | null = null;
    let hadNoReply = false;
    const until = performance.now() + 90_000;
    for (let attempt = 0; status === null && performance.now() < until && !this.#abandoned; attempt++) {
      const urls = this.#options.baseUrls();
      const url = urls[(caller + attempt) % urls.length]! + path;
      try {
        ({ status, reply } = await this.#post(url, account.secretKey, key, JSON.stringify(body)));
      } catch {
        hadNoReply = true;
        this.#closedConnections++;
        await new Promise((resolve) => {
          setTimeout(resolve, 100);
        });
      }
    }
    this.#latenciesMs.push(performance.now() - startedAt);
    const call = { account_id: account.id, secret_key: account.secretKey, path, key, body };
    this.#journal.push({ ...call, status, reply });
    // What was refused then may be there by the call before.
    if (hadNoReply && status !== null && status !== 201) {
      this.#journal.push({ ...call, status: null, reply: null });
    }
  }

  #post(
    url: string,
    secretKey: string,
    key: string,
    body: string,
  ): Promise<{ status: number; reply: { id?: string } }> {
    return new Promise((resolve, reject) => {
      const request = httpRequest(
        url,
        {
          method: 'POST',
          agent: this.#agent,
          timeout: 30_000,
          headers: {
            authorization: `Bearer ${secretKey}`,
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
            'idempotency-key': key,
          },
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => (text += chunk));
          response.on('error', reject);
          response.on('end', () => {
            if (!response.complete) reject(new Error('the reply was cut short'));
            else resolve({ status: response.statusCode ?? 0, reply: JSON.parse(text) as { id?: string } });
          });
        },
      );
      request.on('timeout', () => request.destroy(new Error('no reply in time')));
      request.on('error', reject);
      request.end(body);
    });
  }
}

/** Answers that are no create, each with what was said: a test that finds one shows it. Status null: nothing in 90 s. */
export function notCreated(
  journal: readonly JournalEntry[],
): { readonly status: number | null; readonly reply: unknown }[] {
  return journal.filter(({ status }) => status !== 201).map(({ status, reply }) => ({ status, reply }));
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
