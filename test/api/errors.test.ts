// Every error code there is, produced by the service: one row per code, with how to bring it about. A code that nobody can
// produce, and one that is in no row, fail the last test. test/unit/error-codes.test.ts holds the table against the documents.

import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { ERROR_CODES, type ErrorCode } from '../../src/domain/error-code.ts';
import { merchantSurface } from '../../src/http/routes.ts';
import { createServer } from '../../src/http/server.ts';
import { NOBODY } from './front.ts';
import { bodyOf, type Merchant, numberOf, openMerchant } from './merchants.ts';
import { startExternal } from './rails-external.ts';
import { type Answer, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const service = await startService();
t.teardown(() => service.stop());

const UNKNOWN = '01KAJ3W8Q07M4R2N9X5T6V1B00';

type Refused = Pick<Answer, 'status' | 'headers' | 'body'>;

/** With a merchant of its own. */
const ROWS: Readonly<Record<ErrorCode, (merchant: Merchant) => Promise<Refused>>> = {
  invalid_json: (m) => m.post('/v1/charges', '{"amount":'),
  validation_failed: (m) => m.post('/v1/charges', bodyOf({ amount: 10_000 })),
  unknown_parameter: (m) => m.get('/v1/charges?colour=red'),
  invalid_cursor: (m) => m.get('/v1/charges?starting_after=x'),
  idempotency_key_required: (m) => m.post('/v1/charges', bodyOf(), { idempotencyKey: '' }),
  idempotency_key_invalid: (m) => m.post('/v1/charges', bodyOf(), { idempotencyKey: 'short' }),
  idempotency_key_reused: async (m) => {
    const options = { idempotencyKey: 'used-twice' };
    await m.post('/v1/charges', bodyOf(), options);
    return m.post('/v1/deposits', bodyOf(), options);
  },
  authentication_required: () => service.merchant('GET', '/v1/balances', { key: null }),
  invalid_api_key: (m) => service.merchant('GET', '/v1/balances', { key: `${m.key}0` }),
  secret_key_required: (m) => service.merchant('GET', '/v1/balances', { key: m.publishableKey }),
  live_mode_not_enabled: async (m) => {
    await m.change({ live: false });
    return m.get('/v1/balances');
  },
  payouts_not_enabled_live: async (m) => {
    await m.change({ payouts_enabled: false });
    return m.post('/v1/payouts', bodyOf());
  },
  withdrawals_not_enabled_live: async (m) => {
    await m.change({ withdrawals_enabled: false });
    return m.post('/v1/withdrawals', { amount: '500', currency: 'UGX', destination: 'x', reference: 'r' });
  },
  not_permitted: async (m) => {
    const { body: member } = await m.operator('/users', { email: 'member@shop.test', role: 'MEMBER' });
    return m.operator('/wallets', { label: 'Till', msisdn: numberOf('UGX'), by: member.id });
  },
  invalid_msisdn: (m) => m.post('/v1/charges', bodyOf({ msisdn: '+14155550100' })),
  network_required: (m) => m.post('/v1/charges', bodyOf({ currency: 'KES', msisdn: '+254711000001' })),
  network_not_supported: () => whereAirtelIsNotServed(),
  currency_mismatch: (m) => m.post('/v1/charges', bodyOf({ currency: 'GHS' })),
  amount_below_minimum: (m) => m.post('/v1/charges', bodyOf({ amount: '499' })),
  amount_above_maximum: (m) => m.post('/v1/charges', bodyOf({ amount: '10000001' })),
  daily_limit_exceeded: async (m) => {
    await m.change({ limits: { CHARGE: { UGX: { maximum: null, daily: '9999', monthly: null } } } });
    return m.post('/v1/charges', bodyOf());
  },
  monthly_limit_exceeded: async (m) => {
    await m.change({ limits: { CHARGE: { UGX: { maximum: null, daily: null, monthly: '9999' } } } });
    return m.post('/v1/charges', bodyOf());
  },
  insufficient_balance: (m) => m.post('/v1/payouts', bodyOf()),
  destination_not_active: async (m) => {
    const { body: wallet } = await m.operator('/wallets', {
      label: 'Till',
      msisdn: numberOf('UGX'),
      by: m.owner,
    });
    const body = { amount: '500', currency: 'UGX', destination: wallet.id, reference: 'r' };
    return m.post('/v1/withdrawals', body);
  },
  destination_not_found: (m) => {
    const body = { amount: '500', currency: 'UGX', destination: `wal_${UNKNOWN}`, reference: 'r' };
    return m.post('/v1/withdrawals', body);
  },
  charge_not_found: (m) => m.get(`/v1/charges/chg_${UNKNOWN}`),
  payout_not_found: (m) => m.get(`/v1/payouts/pyt_${UNKNOWN}`),
  withdrawal_not_found: (m) => m.get(`/v1/withdrawals/wdl_${UNKNOWN}`),
  deposit_not_found: (m) => m.get(`/v1/deposits/dep_${UNKNOWN}`),
  transaction_not_found: (m) => m.get('/v1/transactions/nonsense'),
  not_found: (m) => m.get('/v1/refunds'),
  method_not_allowed: (m) => m.get('/v1/deposits'),
  conflict: async (m) => {
    const id = await revokedWallet(m);
    return m.operator(`/wallets/${id}/revoke`, { by: m.owner });
  },
  body_too_large: (m) => m.post('/v1/charges', bodyOf({ description: 'x'.repeat(65_536) })),
  unsupported_media_type: (m) =>
    m.post('/v1/charges', bodyOf(), { headers: { 'content-type': 'text/plain' } }),
  rate_limit_exceeded: async (m) => {
    await m.change({ cash_out_per_minute: 1 });
    await m.post('/v1/payouts', bodyOf());
    return m.post('/v1/payouts', bodyOf());
  },
  service_unavailable: () => whereNobodyServesThePartition(),
};

async function revokedWallet(merchant: Merchant): Promise<string> {
  const wallet = { label: 'Till', msisdn: numberOf('UGX'), by: merchant.owner };
  const { body } = await merchant.operator('/wallets', wallet);
  await merchant.operator(`/wallets/${body.id}/revoke`, { by: merchant.owner });
  return body.id;
}

/** A service whose file of routes leads to MTN alone. */
async function whereAirtelIsNotServed(): Promise<Refused> {
  const external = await startExternal(temporaryDirectory(t));
  const routes = JSON.parse(readFileSync(external.railsFile, 'utf8')) as { routes: { network: string }[] };
  const mtn = routes.routes.filter(({ network }) => network === 'MTN');
  writeFileSync(external.railsFile, JSON.stringify({ routes: mtn }));
  const other = await startService({ RAILS: external.railsFile });
  const answer = await other.merchant('POST', '/v1/charges', { body: bodyOf({ network: 'AIRTEL' }) });
  await other.stop();
  await external.simulator.close();
  return answer;
}

/** The front alone, over a bus to which no partition is attached: what is left when every owner is away. */
async function whereNobodyServesThePartition(): Promise<Refused> {
  const bus = new LocalBus({ accounts: 4, webhooks: 4, pollers: 4, platform: 1 });
  const server = createServer({ surface: merchantSurface([]), bus, observer: NOBODY });
  const port = await server.listen('127.0.0.1', 0);
  const response = await fetch(`http://127.0.0.1:${port}/v1/charges`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${service.demo.secret_key}`,
      'content-type': 'application/json',
      'idempotency-key': 'nobody-there',
    },
    body: JSON.stringify(bodyOf()),
  });
  const body = await response.json();
  await server.stop();
  return { status: response.status, headers: response.headers, body };
}

const produced = new Set<string>();

for (const [code, bringAbout] of Object.entries(ROWS)) {
  t.test(code, async (t) => {
    const { status, headers, body } = await bringAbout(await openMerchant(service));
    const { status: promised, meaning } = ERROR_CODES[code as ErrorCode];
    t.equal(body.error?.code, code, JSON.stringify(body).slice(0, 300));
    t.equal(status, promised);
    t.equal(body.error.request_id, headers.get('request-id'));
    t.ok(body.error.message.length > 0 && !body.error.message.includes('undefined'), meaning);
    if (status === 429 || status === 503) t.match(headers.get('retry-after'), /^[1-9]\d*$/);
    if (status === 405) t.ok(headers.get('allow'));
    if (status === 401) t.equal(headers.get('www-authenticate'), 'Bearer');
    produced.add(body.error.code);
  });
}

t.test('that is every code of the table', async (t) => {
  t.strictSame(new Set(Object.keys(ERROR_CODES)), produced);
});
