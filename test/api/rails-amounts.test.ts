// Amounts as Airtel takes them: major units with the currency's decimals, or fewer where a market's Airtel takes fewer, as
// the file of routes says. What it would not take is never sent. The adapter against the simulator, over HTTP.
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { AMOUNT_MAX } from '../../src/domain/amount-limits.ts';
import { COUNTRIES, COUNTRY_FACTS, CURRENCY_DECIMALS } from '../../src/domain/country.ts';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { MtnRail } from '../../src/rails/mtn.ts';
import { loadRails } from '../../src/rails/routes.ts';
import type { Rail } from '../../src/rails/rail.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { randomFrom, seedOf } from '../seed.ts';
import { outcomeOf, startRails, transactionOf } from './rails-setup.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const rails = await startRails({ approveAfterMs: 5 });
t.teardown(() => rails.stop());

/** Airtel in Kenya, from a file of routes, to a market that takes so many decimals. */
async function railOf(t: Test, market: object, route: object): Promise<Rail> {
  const app = await rails.control('POST', '/portal/airtel/apps', {
    country: 'KE',
    currency: 'KES',
    ...market,
  });
  const path = join(temporaryDirectory(t), 'rails.json');
  const airtel = {
    id: 'airtel_ke',
    country: 'KE',
    network: 'AIRTEL',
    adapter: 'airtel',
    base_url: rails.simulator.url,
    client_id: app['client_id'],
    client_secret: { env: 'SECRET' },
    collection_api: 'v1',
    disbursement: { pin: { env: 'PIN' }, pin_padding: 'pkcs1', public_key: app['pin_public_key'] },
    ...route,
  };
  writeFileSync(path, JSON.stringify({ routes: [airtel] }));
  const loaded = await loadRails({
    config: { type: 'file', path },
    environment: { SECRET: String(app['client_secret']), PIN: String(app['pin']) },
    openSealed: null,
    callbackKey: Buffer.alloc(32, 7),
    callbackHost: '127.0.0.1',
    approveAfterMs: 5,
    onHint: () => {},
    clock: systemClock,
  });
  t.teardown(() => loaded.close());
  const rail = loaded.rails.get('airtel_ke');
  if (rail === undefined) throw new Error('the file has it');
  return rail;
}

const kenyan = (type: 'CHARGE' | 'PAYOUT', amount: number) =>
  transactionOf({ type, amount, country: 'KE', network: 'AIRTEL' });

async function amountsAtProvider(count: number): Promise<unknown> {
  const { data } = await rails.control('GET', `/simulator/transactions?limit=${count}`);
  return (data as { amount: string }[]).map(({ amount }) => amount);
}

t.test(
  'only what the simulator has accepted may be sent to it again: a network never loses it',
  async (t) => {
    t.equal((await railOf(t, {}, {})).forgetful, false);
    for (const [id, rail] of rails.loaded.rails) t.equal(rail.forgetful, true, id);
  },
);

t.test('without a word in the file, amounts have the decimals of their currency', async (t) => {
  const rail = await railOf(t, {}, {});
  for (const type of ['CHARGE', 'PAYOUT'] as const) {
    for (const [amount, sent] of [
      [1_050, '10.50'],
      [1_055, '10.55'],
      [1_000, '10'],
    ] as const) {
      const transaction = kenyan(type, amount);
      await rail.submit(transaction);
      t.strictSame(await amountsAtProvider(1), [sent]);
      t.match(await outcomeOf(rail, transaction), { type: 'succeeded' });
    }
  }
});

t.test('where a market takes fewer, what has more is refused before it is sent', async (t) => {
  for (const [decimals, takes, refuses] of [
    [0, 1_000, 1_050],
    [1, 1_050, 1_055],
  ] as const) {
    const rail = await railOf(t, { amount_decimals: decimals }, { amount_decimals: decimals });
    const unaware = await railOf(t, { amount_decimals: decimals }, {});
    for (const type of ['CHARGE', 'PAYOUT'] as const) {
      const taken = kenyan(type, takes);
      await rail.submit(taken);
      t.match(await outcomeOf(rail, taken), { type: 'succeeded' });
      const before = await amountsAtProvider(100);
      t.match(await rail.submit(kenyan(type, refuses)), {
        type: 'failed',
        failureCode: 'provider_rejected',
        failureMessage: `Airtel takes amounts in KES with at most ${decimals} decimals.`,
        ourFault: true,
      });
      t.strictSame(await amountsAtProvider(100), before, 'nothing was sent');
      t.match(
        await unaware.submit(kenyan(type, refuses)),
        { type: 'failed' },
        'and would not have been taken',
      );
    }
  }
});

t.test('every amount is sent as it is, in each currency: no exponent, nothing rounded', async (t) => {
  const chance = randomFrom(seedOf(t));
  let sent = '';
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text: string) => (body += text));
    request.on('end', () => {
      if (request.url?.includes('token') !== true) sent = body;
      response.end('{"access_token":"t"}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' };
  for (const country of COUNTRIES) {
    const { currency } = COUNTRY_FACTS[country];
    const decimals = CURRENCY_DECIMALS[currency];
    const common = {
      country,
      currency,
      baseUrl,
      maxConcurrency: 1,
      answerMs: 60_000,
      clock: systemClock,
    } as const;
    const once = { ...common, notFoundGraceMs: 1_000, forgetful: false } as const;
    const mtn = new MtnRail({
      ...once,
      id: 'mtn_any',
      targetEnvironment: 'any',
      collection: credentials,
      disbursement: credentials,
      callbackUrl: () => null,
    });
    const airtel = new AirtelRail({
      ...once,
      id: 'airtel_any',
      clientId: 'a',
      clientSecret: 'b',
      collectionApi: 'v1',
      amountDecimals: decimals,
      disbursement: null,
    });
    t.teardown(() => Promise.all([mtn.close(), airtel.close()]));
    const random = Array.from({ length: 40 }, (_, i) => Math.ceil(chance() * 10 ** (1 + (i % 12))));
    for (const amount of [1, 7, 10, 29, 57, 100, 101, 115, 1_010, 999_999_999_999, AMOUNT_MAX, ...random]) {
      const digits = String(amount).padStart(decimals + 1, '0');
      const whole = digits.slice(0, digits.length - decimals);
      const fraction = digits.slice(digits.length - decimals);
      await mtn.submit(transactionOf({ country, amount }));
      t.match(sent, `"amount":"${whole}${fraction && '.'}${fraction}",`, `MTN, ${amount} ${currency}`);
      await airtel.submit(transactionOf({ country, network: 'AIRTEL', amount }));
      const shortest = fraction.replace(/0+$/, '');
      t.match(sent, `"amount":${whole}${shortest && '.'}${shortest},`, `Airtel, ${amount} ${currency}`);
    }
  }
});
