// The clocks of the machines are moved while a cluster runs: its nodes go by time without steps, and each partition by its
// own. Set back, nothing waits until they have caught up; set forward, nothing falls due early.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { Cluster } from './cluster.ts';
import { makeAccounts } from './load.ts';
import { needs } from '../needs.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PAYS = '256772000001';
/** The provider never answers. */
const SILENT = '256772000065';

const directory = temporaryDirectory(t);

class MovedCluster {
  readonly cluster: Cluster;
  readonly #clockFile: string;

  constructor(cluster: Cluster, clockFile: string) {
    this.cluster = cluster;
    this.#clockFile = clockFile;
  }

  static async start(aheadMs: number): Promise<MovedCluster> {
    const clockFile = join(directory, 'ahead');
    writeFileSync(clockFile, String(aheadMs));
    const cluster = await Cluster.start(
      {
        natsServers: 1,
        fronts: 1,
        ledgers: 1,
        webhooks: 1,
        pollers: 1,
        environment: {
          NODE_OPTIONS: `${ENVIRONMENT.NODE_OPTIONS} --import=${import.meta.resolve('./moved-clock.ts')}`,
          CLOCK_FILE: clockFile,
          CHARGE_EXPIRY_SECONDS: '10',
          WEBHOOK_RETRY_SECONDS: '1,1',
          WEBHOOK_ALLOW_PRIVATE: 'true',
        },
      },
      0,
    );
    cluster.accounts = await makeAccounts(cluster.service, 1, 'http://127.0.0.1:9/nobody');
    return new MovedCluster(cluster, clockFile);
  }

  async move(aheadMs: number): Promise<void> {
    writeFileSync(this.#clockFile, String(aheadMs));
    const hasMoved = ({ pid }: { pid: number }): boolean => {
      return readFileSync(`${this.#clockFile}.${pid}`, 'utf8') === String(aheadMs);
    };
    await waitFor('every clock has moved', 60_000, () => this.cluster.running.every(hasMoved));
  }

  async charge(msisdn: string): Promise<any> {
    const body = { currency: 'UGX', amount: '5000', reference: 'clock', msisdn };
    return this.#call('POST', '/v1/charges', JSON.stringify(body), {
      'idempotency-key': crypto.randomUUID(),
    });
  }

  async read(id: string): Promise<any> {
    return this.#call('GET', `/v1/transactions/${id}`);
  }

  async is(id: string, status: string): Promise<boolean> {
    return (await this.read(id)).transaction.status === status;
  }

  async #call(
    method: string,
    path: string,
    body?: string,
    headers: Record<string, string> = {},
  ): Promise<any> {
    const [account] = this.cluster.accounts;
    const answer = await fetch(this.cluster.service.baseUrl + path, {
      method,
      headers: {
        authorization: `Bearer ${account!.secretKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
    });
    const said = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${said}`);
    return JSON.parse(said);
  }

  async isDeadLettered(transactionId: string): Promise<boolean> {
    const { operatorUrl, operatorToken } = this.cluster.service;
    const path = `/operator/v1/accounts/${this.cluster.accounts[0]!.id}/deliveries?limit=100`;
    const answer = await fetch(operatorUrl + path, { headers: { authorization: `Bearer ${operatorToken}` } });
    const { data } = (await answer.json()) as {
      data: readonly { readonly transaction_id: string; readonly status: string }[];
    };
    return data.some((each) => each.transaction_id === transactionId && each.status === 'DEAD_LETTERED');
  }

  /** A charge that is paid, of which the merchant cannot be told, and one that nobody answers. */
  async begin(): Promise<{ readonly paid: string; readonly silent: string }> {
    const [paid, silent] = await Promise.all([this.charge(PAYS), this.charge(SILENT)]);
    return { paid: paid.id, silent: silent.id };
  }

  async untilEnded({ paid, silent }: { readonly paid: string; readonly silent: string }): Promise<void> {
    await waitFor('a charge is paid', 60_000, () => this.is(paid, 'SUCCESSFUL'));
    await waitFor('a charge expires', 60_000, () => this.is(silent, 'FAILED'));
    await waitFor('its webhook ends', 60_000, () => this.isDeadLettered(paid));
  }
}

t.test('clocks that are set back hold up nothing, clocks that are set forward release nothing', async (t) => {
  const moved = await MovedCluster.start(HOUR_MS);
  t.teardown(() => moved.cluster.stop());
  const before = await moved.begin();
  await moved.move(0);
  const after = await moved.begin();
  await moved.untilEnded(before);
  await moved.untilEnded(after);
  t.pass('an hour is not waited for');

  await moved.move(DAY_MS);
  const made = await moved.charge(PAYS);
  await waitFor('it is paid', 60_000, () => moved.is(made.id, 'SUCCESSFUL'));
  t.ok(Date.parse(made.created_at) < Date.now() + 2 * HOUR_MS, `created at ${made.created_at}`);
  const { ledger } = await moved.read(before.paid);
  t.ok(ledger.length > 0);
  t.notOk(ledger.some(({ reason }: any) => reason === 'CHARGE_RELEASED'));
});
