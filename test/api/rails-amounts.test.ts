// Amounts as Airtel takes them: major units with the currency's decimals, or fewer where a market's Airtel takes fewer, as
// the file of routes says. What it would not take is never sent. The adapter against the simulator, over HTTP.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { loadRails } from '../../src/rails/routes.ts';
import type { Rail } from '../../src/rails/rail.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { outcomeOf, startRails, transactionOf } from './rails-setup.ts';

const rails = await startRails({ approveAfterMs: 5 });
t.teardown(() => rails.stop());

/** Airtel in Kenya, from a file of routes, to a market that takes so many decimals. */
async function railOf(t: Test, market: object, route: object): Promise<Rail> {
  const app = await rails.control('POST', '/portal/airtel/apps', {
    country: 'KE',
    currency: 'KES',
    ...market,
  });
  const path = join(t.testdir(), 'rails.json');
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
