// `npm run webhooks -- trigger <event type>`: moves money on the demo account so that the event comes. Real calls with
// the numbers whose last two digits the simulator knows (src/rails/README.md: any other approves, 50 fails, 70 is clawed back).

import type { Page, ServiceClient } from './service-client.ts';
import { ServiceRefused } from './service-client.ts';
import type { EventType } from '../../src/domain/webhook-message.ts';
import { pause } from '../../src/pause.ts';

export const TRIGGERS = {
  'charge.successful': (client) => charge(client, APPROVES),
  'charge.failed': (client) => charge(client, FAILS),
  'charge.reversed': (client) => charge(client, REVERSES),
  'deposit.successful': (client) => deposit(client, APPROVES, AMOUNT),
  'deposit.failed': (client) => deposit(client, FAILS, AMOUNT),
  'payout.successful': (client) => payout(client, APPROVES),
  'payout.failed': (client) => payout(client, FAILS),
  'withdrawal.successful': (client) => withdrawal(client, APPROVES),
  'withdrawal.failed': (client) => withdrawal(client, FAILS),
} as const satisfies Record<EventType, (client: ServiceClient) => Promise<Created>>;

export function isEventType(text: string): text is EventType {
  return Object.hasOwn(TRIGGERS, text);
}

/** Makes what leads to the event; returns the object as it was created. */
export function trigger(client: ServiceClient, type: EventType): Promise<Created> {
  return TRIGGERS[type](client);
}

export interface Created {
  readonly id: string;
  readonly object: string;
  readonly status: string;
}

const APPROVES = '+256772000001';
const FAILS = '+256772000050';
const REVERSES = '+256772000070';
const AMOUNT = '5000';
const CURRENCY = 'UGX';

function charge(client: ServiceClient, msisdn: string): Promise<Created> {
  return client.create('/v1/charges', { amount: AMOUNT, currency: CURRENCY, msisdn, reference: 'trigger' });
}

function deposit(client: ServiceClient, msisdn: string, amount: string): Promise<Created> {
  return client.create('/v1/deposits', { amount, currency: CURRENCY, msisdn, reference: 'trigger' });
}

async function payout(client: ServiceClient, msisdn: string): Promise<Created> {
  await fund(client);
  return client.create('/v1/payouts', { amount: AMOUNT, currency: CURRENCY, msisdn, reference: 'trigger' });
}

async function withdrawal(client: ServiceClient, msisdn: string): Promise<Created> {
  await fund(client);
  const destination = await activeWallet(client, msisdn);
  return client.create('/v1/withdrawals', {
    amount: AMOUNT,
    currency: CURRENCY,
    destination,
    reference: 'trigger',
  });
}

interface Balance {
  readonly currency: string;
  readonly available: string;
}

/** Deposits enough for what is sent and its fee, and waits for it, unless it is there. */
async function fund(client: ServiceClient): Promise<void> {
  const hasEnough = async (): Promise<boolean> => {
    const { data } = await client.get<Page<Balance>>('/v1/balances');
    return Number(data.find(({ currency }) => currency === CURRENCY)?.available ?? 0) >= 2 * Number(AMOUNT);
  };
  if (await hasEnough()) return;
  await deposit(client, APPROVES, String(10 * Number(AMOUNT)));
  await until(hasEnough, 'The deposit that pays for it did not succeed in time.');
}

interface Wallet {
  readonly id: string;
  readonly status: string;
  readonly label: string;
}

/** The demo account's wallet for `msisdn`, made and approved when it is not there. */
async function activeWallet(client: ServiceClient, msisdn: string): Promise<string> {
  const label = `trigger ${msisdn.slice(-3)}`;
  const find = async (): Promise<Wallet | undefined> => {
    const { data } = await client.get<Page<Wallet>>('/v1/payout_destinations');
    return data.find((wallet) => wallet.label === label && wallet.status !== 'REVOKED');
  };
  let wallet = await find();
  if (wallet === undefined || wallet.status === 'PENDING_APPROVAL') {
    wallet = await approvedWallet(client, label, msisdn, wallet);
    // With no cooling-off it is active a moment later.
    await pause(POLL_MS);
    wallet = (await find()) ?? wallet;
  }
  if (wallet.status === 'ACTIVE') return wallet.id;
  throw new ServiceRefused(
    'destination_not_active',
    `${wallet.id} was made and is ${wallet.status}. Try again after its cooling-off, ` +
      'or start the service with WALLET_COOLING_OFF_SECONDS=0.',
  );
}

/** `added`: by a `trigger` that was stopped before it could have it approved. */
async function approvedWallet(
  client: ServiceClient,
  label: string,
  msisdn: string,
  added: Wallet | undefined,
): Promise<Wallet> {
  const { data } = await client.operator<Page<{ id: string; role: string }>>('GET', '/users');
  const owners = data.filter(({ role }) => role === 'OWNER').map(({ id }) => id);
  const [adder, approver = adder] = owners;
  if (adder === undefined) throw new ServiceRefused('not_permitted', 'The account has no owner.');
  const wallet = added ?? (await client.operator<Wallet>('POST', '/wallets', { label, msisdn, by: adder }));
  return client.operator<Wallet>('POST', `/wallets/${wallet.id}/approve`, { by: approver });
}

async function until(isReached: () => Promise<boolean>, otherwise: string): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while (!(await isReached())) {
    if (Date.now() > deadline) throw new ServiceRefused('timeout', otherwise);
    await pause(POLL_MS);
  }
}

const WAIT_MS = 30_000;
const POLL_MS = 500;
