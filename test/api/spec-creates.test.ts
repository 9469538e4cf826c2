// Part 4 of the specification, the body of a create: how numbers, networks and countries are read, what comes back as it
// was sent, minimums, limits and fees. What is malformed is in http-bad-input.test.ts.

import t, { type Test } from 'tap';
import {
  bodyOf,
  type Country,
  COUNTRY_OF,
  type Currency,
  type Merchant,
  NUMBERS,
  numberOf,
  openMerchant,
} from './merchants.ts';
import { type Answer, startService } from './start.ts';

const service = await startService({ CASH_OUT_PER_MINUTE: '1000', WALLET_COOLING_OFF_SECONDS: '1' });
t.teardown(() => service.stop());

const CURRENCY_OF = { UG: 'UGX', KE: 'KES', GH: 'GHS' } as const;
const MINIMUMS = { UGX: 500, KES: 1_000, GHS: 100 } as const;
const MAXIMUMS = {
  charges: { UGX: 10_000_000, KES: 25_000_000, GHS: 2_500_000 },
  deposits: { UGX: 100_000_000, KES: 300_000_000, GHS: 50_000_000 },
} as const;
const DAY_MS = 86_400_000;
const CURRENCIES = ['UGX', 'KES', 'GHS'] as const;

function refusedWith(t: Test, answer: Answer, status: number, code: string, param: string | null): void {
  t.hasStrict({ status: answer.status, ...answer.body.error }, { status, code, param }, answer.text);
}

// --- Numbers, countries, networks ------------------------------------------------------------------------------------

t.test('a number, in every form that people write it in', async (t) => {
  const merchants: Record<Country, Merchant> = {
    UG: await openMerchant(service),
    KE: await openMerchant(service, { country: 'KE' }),
    GH: await openMerchant(service, { country: 'GH' }),
  };
  const rows: [Country, string, Country | null, string, string, string][] = [
    // account, msisdn, country sent; then country, network, msisdn_masked
    ['UG', '+256772000065', null, 'UG', 'MTN', '25677****065'],
    ['UG', '256772000065', null, 'UG', 'MTN', '25677****065'],
    ['UG', '00256772000065', null, 'UG', 'MTN', '25677****065'],
    ['UG', '+256 772-000-065', null, 'UG', 'MTN', '25677****065'],
    ['UG', '0772000065', null, 'UG', 'MTN', '25677****065'],
    ['UG', '772000065', null, 'UG', 'MTN', '25677****065'],
    ['UG', '0702000065', null, 'UG', 'AIRTEL', '25670****065'],
    ['KE', '0733000065', null, 'KE', 'AIRTEL', '25473****065'],
    ['GH', '0244000065', null, 'GH', 'MTN', '23324****065'],
    ['GH', '0264000065', null, 'GH', 'AIRTEL', '23326****065'],
    // A local number is read against `country` where it is sent.
    ['UG', '0733000065', 'KE', 'KE', 'AIRTEL', '25473****065'],
    ['UG', '244000065', 'GH', 'GH', 'MTN', '23324****065'],
    ['GH', '0772000065', 'UG', 'UG', 'MTN', '25677****065'],
    // The dialing code says the country, whatever the account's or the one sent.
    ['UG', '+254733000065', null, 'KE', 'AIRTEL', '25473****065'],
    ['GH', '+256772000065', 'KE', 'UG', 'MTN', '25677****065'],
    ['KE', '00233244000065', 'UG', 'GH', 'MTN', '23324****065'],
  ];
  for (const [account, msisdn, sent, country, network, masked] of rows) {
    const currency = CURRENCY_OF[country as Country];
    const body = bodyOf({ msisdn, currency, ...(sent === null ? {} : { country: sent }) });
    const { status, body: charge, text } = await merchants[account].post('/v1/charges', body);
    t.equal(status, 201, text);
    t.hasStrict(charge, { country, network, msisdn_masked: masked }, `${msisdn} of ${account}, ${sent}`);
  }
});

t.test('what is no wallet number of the three countries', async (t) => {
  const merchant = await openMerchant(service);
  const numbers = [
    '+255754000001',
    '+14155550100',
    '25677200000',
    '2567720000011',
    '+0772000001',
    '077200000',
    '07720000011',
    '+256312000001', // a fixed line
    '+256-77x-000001',
    '++256772000001',
    '+256772000001;ext=1',
    '٠٧٧٢٠٠٠٠٠١',
    'amina',
    ' ',
  ];
  for (const msisdn of numbers) {
    for (const kind of ['charges', 'deposits', 'payouts']) {
      const answer = await merchant.post(`/v1/${kind}`, bodyOf({ msisdn }));
      refusedWith(t, answer, 400, 'invalid_msisdn', 'msisdn');
    }
  }
});

t.test(
  'the network: worked out from the prefix, asked for where it cannot be, and yours where you send it',
  async (t) => {
    const merchant = await openMerchant(service);
    await merchant.fund('1000000', 'KES');
    await merchant.fund('1000000');
    for (const kind of ['charges', 'deposits', 'payouts']) {
      const unmapped = bodyOf({ currency: 'KES', msisdn: '+254711000065' });
      refusedWith(t, await merchant.post(`/v1/${kind}`, unmapped), 400, 'network_required', 'network');
      for (const network of ['AIRTEL', 'MTN']) {
        const sent = await merchant.post(`/v1/${kind}`, { ...unmapped, network });
        t.hasStrict(sent.body, { network, country: 'KE' }, kind);
      }
      for (const [msisdn, network] of [
        [`${NUMBERS.UG.MTN}65`, 'AIRTEL'],
        [`${NUMBERS.UG.AIRTEL}65`, 'MTN'],
      ]) {
        const { body } = await merchant.post(`/v1/${kind}`, bodyOf({ msisdn, network }));
        t.equal(body.network, network, 'an explicit network wins over the prefix');
      }
    }
  },
);

t.test('the currency is that of the wallet’s country', async (t) => {
  const merchant = await openMerchant(service);
  for (const country of ['UG', 'KE', 'GH'] as const) {
    const right = CURRENCY_OF[country];
    for (const currency of CURRENCIES) {
      const body = bodyOf({ currency, msisdn: numberOf(right, '65') });
      for (const kind of ['charges', 'deposits', 'payouts']) {
        const answer = await merchant.post(`/v1/${kind}`, body);
        if (currency !== right) refusedWith(t, answer, 400, 'currency_mismatch', 'currency');
        else if (kind !== 'payouts') t.hasStrict(answer.body, { currency, country });
      }
    }
  }
  await merchant.fund('100000', 'KES');
  const body = { amount: '2000', currency: 'KES', destination: await merchant.wallet('UG'), reference: 'w' };
  refusedWith(t, await merchant.post('/v1/withdrawals', body), 400, 'currency_mismatch', 'currency');
});

// --- What comes back as it was sent ----------------------------------------------------------------------------------

t.test('reference, description and metadata come back as they were sent, from everywhere', async (t) => {
  const merchant = await openMerchant(service);
  const metadata = {
    empty: '',
    long: 'x'.repeat(512),
    emoji: '🧋'.repeat(256),
    quotes: '"\\/\b\f\n\r\t\u0000\u2028',
    '': 'a key without letters',
    'a key "with" quotes': 1,
    whole: 9_007_199_254_740_991,
    negative: -12.75,
    small: 1e-7,
    large: 1e300,
    zero: 0,
    yes: true,
    no: false,
    nothing: null,
    ...Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`key-${i}`, i])),
  };
  t.equal(Object.keys(metadata).length, 20, 'as many as may be');
  const sent = {
    reference: `${'A'.repeat(60)}.z_0:9-${'9'.repeat(61)}`,
    description: `${'é'.repeat(253)}"🧋`,
    metadata,
  };
  t.equal(sent.reference.length, 128);
  const created = await merchant.post('/v1/charges', bodyOf({ ...sent, msisdn: numberOf('UGX', '65') }));
  t.equal(created.status, 201);
  const { id } = created.body;
  const { reference } = sent;
  const views = [
    created.body,
    (await merchant.get(`/v1/charges/${id}`)).body,
    (await merchant.get(`/v1/charges/${id}/timeline`)).body.charge,
    (await merchant.get(`/v1/charges?reference=${reference}`)).body.data[0],
    (await merchant.get(`/v1/transactions/${id}`)).body.transaction,
    (await merchant.get(`/v1/transactions?reference=${reference}`)).body.data[0],
  ];
  for (const view of views) {
    t.strictSame(view.metadata, metadata);
    t.equal(view.reference, reference);
    if (view.object === 'charge') t.equal(view.description, sent.description);
  }
});

t.test('null is as good as absent for what is optional', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.fund('20000', 'UGX');
  const nulls = { description: null, metadata: null };
  const derived = { country: null, network: null };
  for (const kind of ['charges', 'deposits', 'payouts']) {
    const said = kind === 'payouts' ? { narration: null, metadata: null } : nulls;
    const { status, body } = await merchant.post(`/v1/${kind}`, bodyOf({ ...said, ...derived }));
    t.equal(status, 201, kind);
    t.hasStrict(body, {
      ...(kind === 'payouts' ? { metadata: null } : nulls),
      country: 'UG',
      network: 'MTN',
    });
  }
  const unknown = await merchant.post('/v1/charges', bodyOf({ msisdn: '+256712000065', network: null }));
  refusedWith(t, unknown, 400, 'network_required', 'network');
  const wrong = await merchant.post('/v1/charges', bodyOf({ network: 'mtn' }));
  t.match(wrong.body.error?.message, /must be one of MTN, AIRTEL\.$/);
  const empty = await merchant.post('/v1/charges', bodyOf({ description: '', metadata: {} }));
  t.hasStrict(empty.body, { description: '' });
  t.strictSame(empty.body.metadata, {});
});

t.test('a reference may be used again: it is yours, not a key', async (t) => {
  const merchant = await openMerchant(service);
  const first = await merchant.post('/v1/charges', bodyOf());
  const second = await merchant.post('/v1/charges', bodyOf());
  t.strictSame([first.status, second.status], [201, 201]);
  t.not(first.body.id, second.body.id);
});

// --- Minimums, limits, fees ------------------------------------------------------------------------------------------

for (const currency of CURRENCIES) {
  t.test(`minimum and maximum in ${currency}`, async (t) => {
    const merchant = await openMerchant(service);
    const msisdn = numberOf(currency, '65');
    const minimum = MINIMUMS[currency];
    const destination = await merchant.wallet(COUNTRY_OF[currency]);
    await merchant.fund('1000000', currency);
    const create = (kind: string, amount: number): Promise<Answer> => {
      const to = kind === 'withdrawals' ? { destination } : { msisdn };
      const body = { amount: String(amount), currency, reference: 'r', ...to };
      return merchant.post(`/v1/${kind}`, body);
    };
    for (const kind of ['charges', 'deposits', 'payouts', 'withdrawals']) {
      t.equal((await create(kind, minimum)).status, 201, kind);
      for (const amount of [minimum - 1, 0]) {
        refusedWith(t, await create(kind, amount), 400, 'amount_below_minimum', 'amount');
      }
    }
    for (const [kind, maximums] of Object.entries(MAXIMUMS)) {
      const maximum = maximums[currency];
      t.equal((await create(kind, maximum)).status, 201, kind);
      refusedWith(t, await create(kind, maximum + 1), 400, 'amount_above_maximum', 'amount');
    }
    refusedWith(
      t,
      await create('payouts', MAXIMUMS.charges[currency] + 1),
      400,
      'amount_above_maximum',
      'amount',
    );
  });
}

t.test('daily and monthly limits, those of deposits apart from those of charges', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.change({
    limits: {
      CHARGE: { UGX: { maximum: '10000', daily: '15000', monthly: null } },
      DEPOSIT: { UGX: { maximum: null, daily: null, monthly: '25000' } },
    },
  });
  const create = (kind: string, amount: string): Promise<Answer> =>
    merchant.post(`/v1/${kind}`, bodyOf({ amount, msisdn: numberOf('UGX', '65') }));
  // All of it on one day: the next begins its sums anew.
  await service.until(() => Date.now() % DAY_MS < DAY_MS - 30_000);
  t.equal((await create('charges', '10000')).status, 201);
  refusedWith(t, await create('charges', '10001'), 400, 'amount_above_maximum', 'amount');
  refusedWith(t, await create('charges', '5001'), 400, 'daily_limit_exceeded', 'amount');
  t.equal((await create('charges', '5000')).status, 201, 'exactly the limit');
  refusedWith(t, await create('charges', '500'), 400, 'daily_limit_exceeded', 'amount');
  t.equal((await create('deposits', '25000')).status, 201);
  refusedWith(t, await create('deposits', '500'), 400, 'monthly_limit_exceeded', 'amount');
});

t.test('what failed does not count against a limit', async (t) => {
  const merchant = await openMerchant(service);
  await merchant.change({ limits: { CHARGE: { UGX: { maximum: null, daily: '10000', monthly: null } } } });
  const { body } = await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '51') }));
  await merchant.finished(`/v1/charges/${body.id}`);
  t.equal((await merchant.post('/v1/charges', bodyOf())).status, 201);
});

t.test('fees, by default and by the account’s own terms', async (t) => {
  const merchant = await openMerchant(service);
  const feeOf = async (amount: string): Promise<string> => {
    const { body } = await merchant.post('/v1/charges', bodyOf({ amount, msisdn: numberOf('UGX', '68') }));
    return body.fee;
  };
  const defaults: [string, string][] = [
    ['1000', '25'],
    ['500', '13'], // 12.5 rounds up
    ['10000000', '250000'],
  ];
  for (const [amount, fee] of defaults) t.equal(await feeOf(amount), fee, amount);
  const terms = { fixed: '100', basis_points: 50, floor: '150', cap: '1000' };
  await merchant.change({ fees: { CHARGE: { UGX: terms } } });
  const own: [string, string][] = [
    ['500', '150'],
    ['20000', '200'],
    ['1000000', '1000'],
  ];
  for (const [amount, fee] of own) t.equal(await feeOf(amount), fee, amount);
  await merchant.change({ fees: { CHARGE: { UGX: { fixed: '9000' } } } });
  t.equal(await feeOf('500'), '500', 'a fee is never more than the amount: net is never negative');
});

t.test('KES and GHS all the way round', async (t) => {
  for (const currency of ['KES', 'GHS'] as const satisfies readonly Currency[]) {
    const merchant = await openMerchant(service, { country: COUNTRY_OF[currency] });
    const body = bodyOf({ currency, msisdn: numberOf(currency), amount: '100000' });
    const { body: charge } = await merchant.post('/v1/charges', body);
    t.hasStrict(await merchant.finished(`/v1/charges/${charge.id}`), { fee: '2500', net: '97500', currency });
    await merchant.fund('101000', currency);
    t.strictSame(await merchant.balance(currency), { currency, available: '101000', pending: '97500' });
    const { body: payout } = await merchant.post('/v1/payouts', body);
    t.hasStrict(await merchant.finished(`/v1/payouts/${payout.id}`), {
      fee: '1000',
      total_debited: '101000',
    });
    t.strictSame(await merchant.balance(currency), { currency, available: '0', pending: '97500' });
  }
});
