// Money, as a merchant sees it: charges, deposits, payouts and withdrawals through the whole service, with the balances,
// timelines and ledger entries that the specification promises for each.

import t, { type Test } from 'tap';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const FROM_UGANDA = { currency: 'UGX', msisdn: '+256772000001' } as const;

async function withService(
  environment: Record<string, string>,
  run: (service: Running) => Promise<void>,
): Promise<void> {
  const service = await startService(environment);
  try {
    await run(service);
  } finally {
    await service.stop();
  }
}

async function finished(service: Running, path: string): Promise<any> {
  const isFinal = ({ body }: { body: any }): boolean =>
    ['SUCCESSFUL', 'FAILED', 'REVERSED'].includes(body.status);
  return (await service.until(() => service.merchant('GET', path), isFinal)).body;
}

async function deposit(service: Running, amount: string): Promise<void> {
  const { body } = await service.merchant('POST', '/v1/deposits', {
    body: { ...FROM_UGANDA, amount, reference: 'top-up' },
  });
  const done = await finished(service, `/v1/deposits/${body.id}`);
  if (done.status !== 'SUCCESSFUL') throw new Error(JSON.stringify(done));
}

async function available(service: Running): Promise<string> {
  const { body } = await service.merchant('GET', '/v1/balances');
  return body.data.find((row: any) => row.currency === 'UGX')?.available ?? '0';
}

function entriesOf(ledger: any[]): string[] {
  return ledger.map(({ account, side, amount, reason }) => `${reason} ${account} ${side} ${amount}`);
}

async function trialBalanceIsZero(t: Test, service: Running): Promise<void> {
  const { body } = await service.operator(
    'GET',
    `/operator/v1/accounts/${service.demo.account_id}/trial_balance`,
  );
  for (const row of body.data) {
    t.equal(row.sum, '0', `trial balance of ${row.currency}`);
  }
}

void t.test('a charge: prompt, success, fee, pending, release a day later', async (t) => {
  await withService({ CHARGE_RELEASE_SECONDS: '1' }, async (service) => {
    const body = {
      ...FROM_UGANDA,
      amount: '10000',
      reference: 'order-1',
      description: 'Tea',
      metadata: { table: 4 },
    };
    const created = await service.merchant('POST', '/v1/charges', { body });
    t.equal(created.status, 201);
    t.hasStrict(created.body, {
      object: 'charge',
      status: 'AWAITING_CUSTOMER',
      fee: '0',
      net: '10000',
      metadata: { table: 4 },
    });

    const charge = await finished(service, `/v1/charges/${created.body.id}`);
    t.equal(charge.status, 'SUCCESSFUL');
    t.equal(Number(charge.net) + Number(charge.fee), 10_000);
    t.ok(Number(charge.fee) > 0);

    const released = await service.until(
      () => service.merchant('GET', '/v1/balances'),
      ({ body: { data } }) => data[0].pending === '0',
    );
    t.equal(released.body.data[0].available, charge.net);

    const timeline = (await service.merchant('GET', `/v1/charges/${charge.id}/timeline`)).body;
    t.same(
      timeline.events.map(({ status }: any) => status),
      ['INITIATED', 'PENDING_PROVIDER', 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
    );
    t.same(timeline.events.map(({ source }: any) => source).slice(0, 3), ['API', 'API', 'API']);
    t.same(entriesOf(timeline.ledger), [
      'CHARGE_SETTLED PROVIDER_FLOAT DEBIT 10000',
      `CHARGE_SETTLED MERCHANT_PENDING CREDIT ${charge.net}`,
      `CHARGE_SETTLED FEES_REVENUE CREDIT ${charge.fee}`,
      `CHARGE_RELEASED MERCHANT_PENDING DEBIT ${charge.net}`,
      `CHARGE_RELEASED MERCHANT_AVAILABLE CREDIT ${charge.net}`,
    ]);
    await trialBalanceIsZero(t, service);
  });
});

void t.test('a charge ends as its number says', async (t) => {
  await withService({}, async (service) => {
    const table: [string, number, string, string | null][] = [
      // msisdn, status of the create call, final status, failure code
      ['+256772000068', 201, 'SUCCESSFUL', null],
      ['+256772000051', 201, 'FAILED', 'customer_declined'],
      ['+256772000052', 201, 'FAILED', 'expired'],
      ['+256772000055', 201, 'FAILED', 'wallet_not_found'],
      ['+256772000064', 201, 'FAILED', 'insufficient_funds'],
      ['+256772000075', 201, 'FAILED', 'wallet_inactive'],
      ['+256772000076', 201, 'FAILED', 'customer_unreachable'],
      ['+256772000066', 201, 'SUCCESSFUL', null],
      ['+256772000071', 201, 'SUCCESSFUL', null],
    ];
    for (const [msisdn, status, final, code] of table) {
      const created = await service.merchant('POST', '/v1/charges', {
        body: { amount: '5000', currency: 'UGX', msisdn, reference: 'order' },
      });
      t.equal(created.status, status, msisdn);
      const charge = await finished(service, `/v1/charges/${created.body.id}`);
      t.equal(charge.status, final, msisdn);
      t.equal(charge.failure_code, code, msisdn);
    }
    await trialBalanceIsZero(t, service);
  });
});

void t.test(
  'a payout holds amount and fee, shows no fee until it succeeds, and pays out the hold',
  async (t) => {
    await withService({}, async (service) => {
      await deposit(service, '100000');
      t.equal(await available(service), '100000', 'a deposit has no fee and is available at once');
      const body = { ...FROM_UGANDA, amount: '20000', reference: 'salary-1', narration: 'Salary' };
      const created = await service.merchant('POST', '/v1/payouts', { body });
      t.equal(created.status, 201);
      t.hasStrict(created.body, {
        object: 'payout',
        status: 'PENDING_PROVIDER',
        fee: '0',
        total_debited: '20000',
        approval_status: 'NOT_REQUIRED',
      });
      t.notOk('narration' in created.body);
      t.ok(Number(await available(service)) < 80_000, 'the fee is held too');
      const payout = await finished(service, `/v1/payouts/${created.body.id}`);
      t.equal(payout.status, 'SUCCESSFUL');
      t.equal(Number(payout.total_debited), 20_000 + Number(payout.fee));
      t.equal(Number(await available(service)), 100_000 - Number(payout.total_debited));
      const detail = (await service.merchant('GET', `/v1/transactions/${payout.id}`)).body;
      t.equal(detail.transaction.net, payout.total_debited, 'money out: amount plus fee');
      t.same(entriesOf(detail.ledger), [
        `PAYOUT_HELD MERCHANT_AVAILABLE DEBIT ${payout.total_debited}`,
        `PAYOUT_HELD SETTLEMENT_CLEARING CREDIT ${payout.total_debited}`,
        `PAYOUT_SETTLED SETTLEMENT_CLEARING DEBIT ${payout.total_debited}`,
        'PAYOUT_SETTLED PROVIDER_FLOAT CREDIT 20000',
        `PAYOUT_SETTLED FEES_REVENUE CREDIT ${payout.fee}`,
      ]);
      await trialBalanceIsZero(t, service);
    });
  },
);

void t.test('a payout that fails returns the whole hold, fee included', async (t) => {
  await withService({}, async (service) => {
    await deposit(service, '50000');
    const body = { ...FROM_UGANDA, msisdn: '+256772000057', amount: '20000', reference: 'salary-2' };
    const created = await service.merchant('POST', '/v1/payouts', { body });
    const payout = await finished(service, `/v1/payouts/${created.body.id}`);
    t.hasStrict(payout, {
      status: 'FAILED',
      failure_code: 'wallet_not_found',
      fee: '0',
      total_debited: '20000',
    });
    t.equal(await available(service), '50000');
    await trialBalanceIsZero(t, service);
  });
});

void t.test('two payouts never spend the same money', async (t) => {
  await withService({ CASH_OUT_PER_MINUTE: '1000' }, async (service) => {
    await deposit(service, '50000');
    const attempts = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        service.merchant('POST', '/v1/payouts', {
          body: { ...FROM_UGANDA, amount: '10000', reference: `race-${i}` },
        }),
      ),
    );
    const accepted = attempts.filter(({ status }) => status === 201);
    const refused = attempts.filter(({ status }) => status === 400);
    t.equal(accepted.length + refused.length, 30);
    t.equal(accepted.length, 4, 'four times amount and fee is in the balance, not five');
    for (const { body } of refused) {
      t.equal(body.error.code, 'insufficient_balance');
    }
    t.ok(Number(await available(service)) >= 0);
    await trialBalanceIsZero(t, service);
  });
});

void t.test(
  'a withdrawal goes to an active wallet, and above the threshold waits for another person',
  async (t) => {
    await withService({ WALLET_COOLING_OFF_SECONDS: '1' }, async (service) => {
      await deposit(service, '5000000');
      await deposit(service, '5000000');
      const account = `/operator/v1/accounts/${service.demo.account_id}`;
      const { body: users } = await service.operator('GET', `${account}/users`);
      const [first, second] = users.data.map(({ id }: any) => id);
      const added = await service.operator('POST', `${account}/wallets`, {
        label: 'Till',
        msisdn: '+256772000001',
        by: first,
      });
      const wallet = added.body.id;
      const withdraw = (amount: string) =>
        service.merchant('POST', '/v1/withdrawals', {
          body: { amount, currency: 'UGX', destination: wallet, reference: 'till' },
        });
      t.equal((await withdraw('10000')).body.error.code, 'destination_not_active');
      const same = await service.operator('POST', `${account}/wallets/${wallet}/approve`, { by: first });
      t.equal(same.body.error.code, 'not_permitted', 'not by who added it, where there is another owner');
      await service.operator('POST', `${account}/wallets/${wallet}/approve`, { by: second });
      const destinations = await service.until(
        () => service.merchant('GET', '/v1/payout_destinations'),
        ({ body }) => body.data[0].status === 'ACTIVE',
      );
      t.hasStrict(destinations.body.data[0], {
        id: wallet,
        object: 'payout_destination',
        msisdn_masked: '25677****001',
      });

      const small = await withdraw('10000');
      t.hasStrict(small.body, {
        object: 'withdrawal',
        status: 'PENDING_PROVIDER',
        approval_status: 'NOT_REQUIRED',
        destination: wallet,
      });
      t.ok(Number(small.body.fee) > 0, 'its fee is shown from the start');
      t.equal((await finished(service, `/v1/withdrawals/${small.body.id}`)).status, 'SUCCESSFUL');

      const large = await withdraw('5000001');
      t.hasStrict(large.body, { status: 'INITIATED', approval_status: 'PENDING' });
      const waiting = await service.merchant(
        'GET',
        '/v1/transactions?type=WITHDRAWAL&approval_status=PENDING',
      );
      t.same(
        waiting.body.data.map(({ id }: any) => id),
        [large.body.id],
      );
      await service.operator('POST', `${account}/withdrawals/${large.body.id}/reject`, { by: first });
      const rejected = await finished(service, `/v1/withdrawals/${large.body.id}`);
      t.hasStrict(rejected, {
        status: 'FAILED',
        failure_code: 'approval_rejected',
        approval_status: 'REJECTED',
      });

      const again = await withdraw('5000001');
      await service.operator('POST', `${account}/withdrawals/${again.body.id}/approve`, { by: second });
      t.equal(again.status, 201, again.text);
      const approved = await finished(service, `/v1/withdrawals/${again.body.id}`);
      t.hasStrict(approved, { status: 'SUCCESSFUL', approval_status: 'APPROVED' });
      await trialBalanceIsZero(t, service);
    });
  },
);

// Each has a service of its own, and mostly waits.
t.jobs = 2;

void t.test('a charge that nobody answers expires, and one that is taken back is reversed', async (t) => {
  await withService({ CHARGE_EXPIRY_SECONDS: '4' }, async (service) => {
    const silent = await service.merchant('POST', '/v1/charges', {
      body: { amount: '5000', currency: 'UGX', msisdn: '+256772000065', reference: 'silent' },
    });
    const clawed = await service.merchant('POST', '/v1/charges', {
      body: { amount: '5000', currency: 'UGX', msisdn: '+256772000070', reference: 'clawed' },
    });
    t.hasStrict(await finished(service, `/v1/charges/${silent.body.id}`), {
      status: 'FAILED',
      failure_code: 'expired',
    });
    const reversed = await service.until(
      () => service.merchant('GET', `/v1/charges/${clawed.body.id}`),
      ({ body }) => body.status === 'REVERSED',
    );
    t.equal(reversed.body.status, 'REVERSED');
    t.equal((await service.merchant('GET', '/v1/balances')).body.data[0].pending, '0');
    await trialBalanceIsZero(t, service);
  });
});

void t.test('what falls due after a restart still happens', async (t) => {
  const dataDir = temporaryDirectory(t);
  const environment = { CHARGE_RELEASE_SECONDS: '3', CHARGE_EXPIRY_SECONDS: '6' };
  const before = await startService(environment, dataDir);
  const create = (msisdn: string) =>
    before.merchant('POST', '/v1/charges', {
      body: { ...FROM_UGANDA, msisdn, amount: '5000', reference: 'due' },
    });
  const paid = await create('+256772000001');
  const silent = await create('+256772000065');
  await finished(before, `/v1/charges/${paid.body.id}`);
  await before.stop();

  const after = await startService(environment, dataDir);
  const balances = await after.until(
    () => after.merchant('GET', '/v1/balances'),
    ({ body }) => body.data[0].pending === '0',
  );
  t.ok(Number(balances.body.data[0].available) > 0, 'the charge was released');
  const expired = await finished(after, `/v1/charges/${silent.body.id}`);
  t.hasStrict(expired, { status: 'FAILED', failure_code: 'expired' });
  await after.stop();
});
