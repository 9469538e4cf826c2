// A simulator, the six rails to it, and a server that hears their callbacks, all over real HTTP on free ports.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { PendingTransaction } from '../../src/domain/account-command.ts';
import { COUNTRY_FACTS, type Country, type Network } from '../../src/domain/country.ts';
import { encodeTime, type IdKind, makeId } from '../../src/domain/id.ts';
import type { TransactionType } from '../../src/domain/transaction.ts';
import type { Callback } from '../../src/rails/callbacks.ts';
import type { Clock, EnquiryResult, Rail } from '../../src/rails/rail.ts';
import type { LoadedRails } from '../../src/rails/loaded-rails.ts';
import { loadRails } from '../../src/rails/routes.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/rails/simulator/server.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { until } from '../until.ts';

export interface Heard {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly callback: Callback;
}

/** The answer of a control: fields by name. */
export type Control = Readonly<Record<string, unknown>>;

export interface RailsUnderTest {
  readonly simulator: Simulator;
  readonly loaded: LoadedRails;
  readonly heard: readonly Heard[];
  rail(id: string): Rail;
  /** A control of the simulator: src/rails/simulator/portal.ts. */
  control(method: string, path: string, body?: object): Promise<Control>;
  stop(): Promise<void>;
}

/** `clock`: of the rails; the simulator goes by the machine's. */
export async function startRails(
  options: Partial<SimulatorOptions> = {},
  clock: Clock = systemClock,
): Promise<RailsUnderTest> {
  const simulator = await startSimulator({
    port: 0,
    host: '127.0.0.1',
    approveAfterMs: 20,
    speed: 100,
    ...options,
  });
  const loaded = await loadRails({
    config: { type: 'simulator', url: simulator.url },
    environment: {},
    openSealed: null,
    callbackKey: Buffer.alloc(32, 7),
    callbackHost: '127.0.0.1',
    approveAfterMs: 20,
    onHint: () => {},
    clock,
  });
  const heard: Heard[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      const { method = '', url: path = '' } = request;
      heard.push({ method, path, body, callback: loaded.callbacks.read(method, path, body) });
      response.end();
    });
  });
  await loaded.setCallbackBase(await listen(server));
  return {
    simulator,
    loaded,
    heard,
    rail: (id) => loaded.rails.get(id)!,
    control: (method, path, body) => control(simulator.url + path, method, body),
    stop: async () => {
      await loaded.close();
      await simulator.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

function listen(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    });
  });
}

async function control(url: string, method: string, body?: object): Promise<Control> {
  const response = await fetch(url, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text}`);
  return text === '' ? {} : (JSON.parse(text) as Control);
}

const KINDS = {
  CHARGE: 'charge',
  DEPOSIT: 'deposit',
  PAYOUT: 'payout',
  WITHDRAWAL: 'withdrawal',
  REFUND: 'refund',
} as const satisfies Record<TransactionType, IdKind>;
const PREFIXES = { MTN: { UG: '77', KE: '77', GH: '24' }, AIRTEL: { UG: '70', KE: '73', GH: '26' } } as const;
let made = 0;

export interface Wanted {
  readonly type?: TransactionType;
  readonly country?: Country;
  readonly network?: Network;
  readonly amount?: number;
  /** The last two digits of the number. */
  readonly endsIn?: string | number;
  readonly note?: string | null;
  readonly createdAt?: number;
  readonly submitted?: boolean;
}

/** A fresh transaction; each has its own number but for its end. */
export function transactionOf(wanted: Wanted = {}): PendingTransaction {
  const {
    type = 'CHARGE',
    country = 'UG',
    network = 'MTN',
    amount = 500,
    endsIn = '00',
    note = null,
  } = wanted;
  const createdAt = wanted.createdAt ?? Date.now();
  const count = String(++made).padStart(5, '0');
  const body = `${encodeTime(createdAt)}00000000${count.padStart(6, '0')}00`;
  const { dialingCode, currency } = COUNTRY_FACTS[country];
  return {
    id: makeId(KINDS[type], body),
    accountId: makeId('account', '01JB2XK7T0000ABCDEFGHJKM00'),
    type,
    amount,
    currency,
    country,
    network,
    msisdn: `${dialingCode}${PREFIXES[network][country]}${count}${String(endsIn).padStart(2, '0')}`,
    provider: `${network}_${country}`.toLowerCase(),
    reference: `order-${made}`,
    note,
    createdAt,
    expiresAt: null,
    submitted: wanted.submitted ?? false,
  };
}

/** Enquires until the provider has decided. */
export function outcomeOf(rail: Rail, transaction: PendingTransaction): Promise<EnquiryResult> {
  return until(
    () => rail.enquire(transaction),
    ({ type }) => type !== 'pending' && type !== 'not_found',
  );
}
