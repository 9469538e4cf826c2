// Merchants of a running service, each an account of its own, so that one service serves a whole file of tests: what one
// test does to balances, limits and rates no other test sees.

import type { Answer, CallOptions, Running } from './start.ts';

export type Currency = 'UGX' | 'KES' | 'GHS';
export type Country = 'UG' | 'KE' | 'GH';

/** Numbers whose prefix says their network; a test appends the last two digits, which say how the number behaves. */
export const NUMBERS = {
  UG: { MTN: '+2567720000', AIRTEL: '+2567020000' },
  KE: { MTN: '+2547110000', AIRTEL: '+2547330000' },
  GH: { MTN: '+2332440000', AIRTEL: '+2332640000' },
} as const;
export const COUNTRY_OF = { UGX: 'UG', KES: 'KE', GHS: 'GH' } as const;
/** A network that the prefixes of the country know. */
const NETWORK_OF = { UG: 'MTN', KE: 'AIRTEL', GH: 'MTN' } as const;

export interface Merchant {
  readonly accountId: string;
  readonly appId: string;
  readonly key: string;
  readonly publishableKey: string;
  /** A member with the role OWNER. */
  readonly owner: string;
  get(path: string): Promise<Answer>;
  post(path: string, body: unknown, options?: CallOptions): Promise<Answer>;
  /** PATCH of the account by the operator. */
  change(settings: object): Promise<void>;
  /** POST by the operator, below the account. */
  operator(path: string, body: object): Promise<Answer>;
  /** The object once it is final. */
  finished(path: string): Promise<any>;
  /** Money in the available balance. */
  fund(amount: string, currency?: Currency): Promise<void>;
  balance(currency?: Currency): Promise<{ available: string; pending: string }>;
  /** Id of a payout wallet, ACTIVE once this resolves. */
  wallet(country?: Country, lastDigits?: string): Promise<string>;
}

export function numberOf(currency: Currency, lastDigits = '01'): string {
  const country = COUNTRY_OF[currency];
  return `${NUMBERS[country][NETWORK_OF[country]]}${lastDigits}`;
}

/** The body of a charge, deposit or payout that is right. */
export function bodyOf(more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { amount: '10000', currency: 'UGX', msisdn: numberOf('UGX'), reference: 'order-1', ...more };
}

export interface Terms {
  readonly country?: Country;
  readonly payouts_enabled?: boolean;
  readonly withdrawals_enabled?: boolean;
}

/** Live, with everything switched on unless `terms` say otherwise. */
export async function openMerchant(service: Running, terms: Terms = {}): Promise<Merchant> {
  const must = async (path: string, body: object): Promise<any> => {
    const answer = await service.operator('POST', path, body);
    if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
    return answer.body;
  };
  const may = { live: true, payouts_enabled: true, withdrawals_enabled: true };
  const account = await must('/operator/v1/accounts', { name: 'Shop', country: 'UG', ...may, ...terms });
  const path = `/operator/v1/accounts/${account.id}`;
  const { id: owner } = await must(`${path}/users`, { email: 'owner@shop.test', role: 'OWNER' });
  const app = await must(`${path}/apps`, { name: 'Shop', domain: 'shop.test' });
  const key: string = app.secret_key;
  const get = (what: string) => service.merchant('GET', what, { key });

  return {
    accountId: account.id,
    appId: app.id,
    key,
    publishableKey: app.publishable_key,
    owner,
    get,
    post: (what, body, options = {}) => service.merchant('POST', what, { key, body, ...options }),
    change: async (settings) => {
      const { status, text } = await service.operator('PATCH', path, settings);
      if (status !== 200) throw new Error(text);
    },
    operator: (what, body) => service.operator('POST', path + what, body),
    finished: async (what) => (await service.until(() => get(what), isFinal)).body,
    fund: async (amount, currency = 'UGX') => {
      const body = { amount, currency, msisdn: numberOf(currency), reference: 'float', by: owner };
      const { id } = await must(`${path}/deposits`, body);
      const { body: done } = await service.until(() => get(`/v1/deposits/${id}`), isFinal);
      if (done.status !== 'SUCCESSFUL') throw new Error(JSON.stringify(done));
    },
    balance: async (currency = 'UGX') => {
      const { body } = await get('/v1/balances');
      return (
        body.data.find((row: any) => row.currency === currency) ?? { currency, available: '0', pending: '0' }
      );
    },
    wallet: async (country = 'UG', lastDigits = '01') => {
      const msisdn = `${NUMBERS[country][NETWORK_OF[country]]}${lastDigits}`;
      const { id, status } = await must(`${path}/wallets`, { label: country, msisdn, by: owner });
      if (status === 'PENDING_APPROVAL') await must(`${path}/wallets/${id}/approve`, { by: owner });
      await service.until(
        () => get('/v1/payout_destinations'),
        ({ body }) => body.data.some((wallet: any) => wallet.id === id && wallet.status === 'ACTIVE'),
      );
      return id;
    },
  };
}

function isFinal({ body }: Answer): boolean {
  return ['SUCCESSFUL', 'FAILED', 'REVERSED'].includes(body.status);
}
