// The life that a golden log is made of, and that the log tools are tried on: over the real service, with every event of
// every group in it. It is short of time in three places, so it is lived in three runs over one directory: the usual
// one, one in which customers answer after their charge has expired, and one long after, in which old deliveries go.

import { Receiver } from '../api/webhooks-receiver.ts';
import { type Running, startService } from '../api/start.ts';

/** Longer ago than any retention. */
const LONG_MS = 40 * 86_400_000;

export interface Lived {
  readonly accountId: string;
  readonly chargeId: string;
  readonly reversedId: string;
  readonly payoutId: string;
  readonly withdrawalId: string;
  readonly expiredId: string;
}

const WALLET = { currency: 'UGX', country: 'UG' } as const;

/** `dataDir` is empty or not there. The service is stopped when it resolves. */
export async function liveIn(dataDir: string): Promise<Lived> {
  const receiver = new Receiver(null);
  const port = await receiver.listen();
  const webhook_url = `http://127.0.0.1:${port}/hook`;
  try {
    const usual = await inUsualTimes(dataDir, webhook_url);
    const expiredId = await withLateCustomers(dataDir);
    await longAfter(dataDir);
    return { ...usual, expiredId };
  } finally {
    await receiver.close();
  }
}

async function inUsualTimes(dataDir: string, webhookUrl: string): Promise<Omit<Lived, 'expiredId'>> {
  const service = await startService(
    {
      CHARGE_RELEASE_SECONDS: '1',
      WALLET_COOLING_OFF_SECONDS: '0.05',
      PROVIDER_ANSWER_WAIT_MS: '300',
      WEBHOOK_ALLOW_PRIVATE: 'true',
      WEBHOOK_RETRY_SECONDS: '2',
    },
    dataDir,
  );
  const accountId = service.demo.account_id;
  const at = `/operator/v1/accounts/${accountId}`;
  const owner = await member(service, at, 'OWNER');
  await service.operator('PATCH', `${at}/apps/${service.demo.app_id}`, { webhook_url: webhookUrl });

  await another(service);
  await deposit(service, at, owner);
  const chargeId = await create(service, '/v1/charges', {
    ...WALLET,
    msisdn: '256772000001',
    amount: '50000',
  });
  await reaches(service, '/v1/charges', chargeId, 'SUCCESSFUL');
  const failedId = await create(service, '/v1/charges', { ...WALLET, msisdn: '256772000076', amount: '700' });
  await reaches(service, '/v1/charges', failedId, 'FAILED');
  const reversedId = await create(service, '/v1/charges', {
    ...WALLET,
    msisdn: '256752000070',
    amount: '9000',
  });
  // The rail does not answer in time: the answer is fixed without it.
  await create(service, '/v1/charges', { ...WALLET, msisdn: '256772000069', amount: '800' });
  const payoutId = await create(service, '/v1/payouts', {
    ...WALLET,
    msisdn: '256752000002',
    amount: '5000',
  });
  await reaches(service, '/v1/payouts', payoutId, 'SUCCESSFUL');
  await create(service, '/v1/payouts', { ...WALLET, msisdn: '256772000065', amount: '600' });
  const withdrawalId = await withdrawals(service, at, owner);
  await leavesAfterPromotion(service, at);
  await reaches(service, '/v1/charges', reversedId, 'REVERSED');
  await webhooks(service, at, chargeId);
  await service.until(
    () => service.merchant('GET', `/v1/transactions/${chargeId}`),
    ({ body }) => body.ledger.some(({ reason }: { reason: string }) => reason === 'CHARGE_RELEASED'),
  );
  await service.stop();
  return { accountId, chargeId, reversedId, payoutId, withdrawalId };
}

/** Of which nothing is asked but that it is there. */
async function another(service: Running): Promise<void> {
  const shop = { name: 'Second shop', country: 'KE', idempotency_key: 'second-shop' };
  for (let i = 0; i < 2; i++) {
    const { status, text } = await service.operator('POST', '/operator/v1/accounts', shop);
    if (status !== 201) throw new Error(`the account answered ${text}`);
  }
}

async function deposit(service: Running, at: string, by: string): Promise<void> {
  const body = { ...WALLET, msisdn: '256772000001', amount: '900000', reference: 'float', by };
  const { body: made } = await service.operator('POST', `${at}/deposits`, body);
  await reaches(service, '/v1/deposits', made.id, 'SUCCESSFUL');
}

async function withdrawals(service: Running, at: string, first: string): Promise<string> {
  const second = await member(service, at, 'OWNER');
  const wallet = { label: 'Till', msisdn: '256772000002', by: first };
  const { body: added } = await service.operator('POST', `${at}/wallets`, wallet);
  const { body: other } = await service.operator('POST', `${at}/wallets`, { ...wallet, label: 'Lost' });
  await service.operator('POST', `${at}/wallets/${added.id}/approve`, { by: second });
  await service.operator('POST', `${at}/wallets/${other.id}/revoke`, { by: second });
  await service.until(
    () => service.merchant('GET', '/v1/payout_destinations'),
    ({ body }) => body.data[0].status === 'ACTIVE',
  );
  await service.operator('PATCH', at, { approval_thresholds: { UGX: '1000' } });
  const request = { amount: '2000', currency: 'UGX', destination: added.id };
  const approved = await create(service, '/v1/withdrawals', request);
  await service.operator('POST', `${at}/withdrawals/${approved}/approve`, { by: first });
  await reaches(service, '/v1/withdrawals', approved, 'SUCCESSFUL');
  const rejected = await create(service, '/v1/withdrawals', request);
  await service.operator('POST', `${at}/withdrawals/${rejected}/reject`, { by: first });
  await reaches(service, '/v1/withdrawals', rejected, 'FAILED');
  return approved;
}

/** A member becomes an admin, and leaves. */
async function leavesAfterPromotion(service: Running, at: string): Promise<void> {
  const id = await member(service, at, 'MEMBER');
  await service.operator('PATCH', `${at}/users/${id}`, { role: 'ADMIN' });
  const { status, text } = await service.operator('DELETE', `${at}/users/${id}`);
  if (status !== 200) throw new Error(`the removal answered ${text}`);
}

/** One delivery is replayed; another waits for its second attempt when its app is removed. */
async function webhooks(service: Running, at: string, chargeId: string): Promise<void> {
  const deliveries = async () => (await service.operator('GET', `${at}/deliveries?limit=100`)).body.data;
  type Delivery = { id: string; transaction_id: string; status: string; app_id: string };
  const all: Delivery[] = await service.until(deliveries, (data: Delivery[]) =>
    data.some(({ transaction_id, status }) => transaction_id === chargeId && status === 'DELIVERED'),
  );
  const delivered = all.find(({ transaction_id }) => transaction_id === chargeId);
  await service.operator('POST', `${at}/deliveries/${delivered?.id}/replay`, {});

  // Nobody listens on port 9: the first attempt fails.
  const app = { name: 'Second', domain: 'second.test', webhook_url: 'http://127.0.0.1:9/' };
  const { body: second } = await service.operator('POST', `${at}/apps`, app);
  const body = { ...WALLET, msisdn: '256772000001', amount: '1000', reference: 'second' };
  await service.merchant('POST', '/v1/charges', { body, key: second.secret_key });
  const ofSecond = (status: string) => (data: Delivery[]) =>
    data.some((one) => one.app_id === second.id && one.status === status);
  await service.until(deliveries, ofSecond('RETRYING'));
  await service.operator('DELETE', `${at}/apps/${second.id}`);
  await service.until(deliveries, ofSecond('CANCELLED'));
}

/** Resolves with a charge that expired before its customer paid. */
async function withLateCustomers(dataDir: string): Promise<string> {
  const service = await startService(
    {
      CHARGE_EXPIRY_SECONDS: '1',
      SIMULATOR_APPROVE_AFTER_MS: '3000',
      WEBHOOK_ALLOW_PRIVATE: 'true',
      WEBHOOK_RETRY_SECONDS: '3600',
    },
    dataDir,
  );
  const expiredId = await create(service, '/v1/charges', {
    ...WALLET,
    msisdn: '256772000003',
    amount: '4000',
  });
  await reaches(service, '/v1/charges', expiredId, 'FAILED');
  const items = () => service.operator('GET', '/operator/v1/reconciliation?open=true');
  const { body } = await service.until(items, (answer) => answer.body.data.length > 0);
  await service.operator('POST', `/operator/v1/reconciliation/${body.data[0].id}/resolve`, {
    account_id: service.demo.account_id,
    resolution: 'Refunded by hand',
  });
  await service.stop();
  return expiredId;
}

async function longAfter(dataDir: string): Promise<void> {
  const now = Date.now;
  Date.now = () => now() + LONG_MS;
  try {
    const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true' }, dataDir);
    const list = `/operator/v1/accounts/${service.demo.account_id}/deliveries`;
    await service.until(
      () => service.operator('GET', list),
      // One of a charge that expires only now may have come.
      ({ body }) =>
        body.data.every(({ created_at }: { created_at: string }) => Date.parse(created_at) > Date.now() - LONG_MS / 2),
    );
    await service.stop();
  } finally {
    Date.now = now;
  }
}

// --- Calls -----------------------------------------------------------------------------------------------------------------

let made = 0;

async function member(service: Running, at: string, role: string): Promise<string> {
  made += 1;
  const { body } = await service.operator('POST', `${at}/users`, { email: `user-${made}@demo.test`, role });
  return body.id as string;
}

async function create(service: Running, path: string, body: object): Promise<string> {
  made += 1;
  const answer = await service.merchant('POST', path, { body: { ...body, reference: `golden-${made}` } });
  if (answer.status !== 201) throw new Error(`${path} answered ${answer.text}`);
  return answer.body.id as string;
}

async function reaches(service: Running, path: string, id: string, status: string): Promise<void> {
  await service.until(
    () => service.merchant('GET', `${path}/${id}`),
    ({ body }) => body.status === status,
  );
}
