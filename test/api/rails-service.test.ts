// The whole service with real adapters and a provider that misbehaves: every number ends as its row says, for charges
// and payouts on both rails; the money is right; what contradicts the ledger is shown to operators.
import t, { type Test } from 'tap';
import { type External, startExternal } from './rails-external.ts';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const external = await startExternal(temporaryDirectory(t), { speed: 20 });
t.teardown(() => external.simulator.close());
const service = await startService({
  RAILS: external.railsFile,
  PROVIDER_ANSWER_WAIT_MS: '1000',
  CASH_OUT_PER_MINUTE: '10000',
});
t.teardown(() => service.stop());
await external.callBackTo(service.demo.base_url);

const NUMBERS = { MTN: '25677', AIRTEL: '25670' } as const;
let made = 0;

function numberOf(network: 'MTN' | 'AIRTEL', endsIn: number | string): string {
  return `${NUMBERS[network]}${String(++made).padStart(5, '0')}${String(endsIn).padStart(2, '0')}`;
}

interface Created {
  readonly id: string;
  readonly status: string;
  readonly failure_code: string | null;
}

async function create(
  what: 'charges' | 'payouts' | 'deposits',
  msisdn: string,
  amount: string,
): Promise<Created> {
  const body = { amount, currency: 'UGX', msisdn, reference: `order-${made}` };
  const { status, body: created } = await service.merchant('POST', `/v1/${what}`, { body });
  if (status !== 201) throw new Error(`${what} ${msisdn}: ${status} ${JSON.stringify(created)}`);
  return created as Created;
}

async function final(what: string, id: string): Promise<Created> {
  const { body } = await service.until(
    () => service.merchant('GET', `/v1/${what}/${id}`),
    ({ body: { status } }) => ['SUCCESSFUL', 'FAILED', 'REVERSED'].includes(status),
  );
  return body as Created;
}

interface Sums {
  readonly currency: string;
  readonly sum: string;
  readonly accounts: Readonly<Record<string, string>>;
}

interface Item {
  readonly kind: string;
  readonly transaction_id: string | null;
}

async function trialBalance(of: Running): Promise<Sums[]> {
  const { body } = await of.operator('GET', `/operator/v1/accounts/${of.demo.account_id}/trial_balance`);
  return body.data as Sums[];
}

t.test('money for the payouts', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const { id } = await create('deposits', numberOf(network, '00'), '50000000');
    t.equal((await final('deposits', id)).status, 'SUCCESSFUL');
  }
});

/** [last digits, charge, payout]: the failure code, or the final status. 53, 65 and 74 never end; 67 and 73 take more
 *  than a minute of polling. */
const ROWS: readonly (readonly [number, string, string])[] = [
  [0, 'SUCCESSFUL', 'SUCCESSFUL'],
  [50, 'unknown', 'unknown'],
  [51, 'customer_declined', 'customer_declined'],
  [52, 'expired', 'expired'],
  [54, 'SUCCESSFUL', 'SUCCESSFUL'],
  [55, 'wallet_not_found', 'provider_rejected'],
  [56, 'provider_rejected', 'provider_rejected'],
  [57, 'provider_rejected', 'wallet_not_found'],
  [58, 'provider_rejected', 'provider_rejected'],
  [59, 'provider_rejected', 'provider_rejected'],
  [60, 'provider_rejected', 'provider_rejected'],
  [61, 'unknown', 'provider_rejected'],
  [62, 'provider_unavailable', 'unknown'],
  [63, 'expired', 'provider_unavailable'],
  [64, 'insufficient_funds', 'wallet_limit_exceeded'],
  [66, 'SUCCESSFUL', 'SUCCESSFUL'],
  [67, 'SUCCESSFUL', 'SUCCESSFUL'],
  [68, 'SUCCESSFUL', 'SUCCESSFUL'],
  [69, 'SUCCESSFUL', 'SUCCESSFUL'],
  [71, 'SUCCESSFUL', 'SUCCESSFUL'],
  [72, 'SUCCESSFUL', 'SUCCESSFUL'],
  [75, 'wallet_inactive', 'wallet_inactive'],
  [76, 'customer_unreachable', 'customer_unreachable'],
];

t.test('every number ends as it should', async (t) => {
  const cases = (['MTN', 'AIRTEL'] as const).flatMap((network) =>
    (['charges', 'payouts'] as const).flatMap((what) =>
      ROWS.map(([endsIn, charge, payout]) => ({
        network,
        what,
        endsIn,
        expected: what === 'charges' ? charge : payout,
      })),
    ),
  );
  await Promise.all(
    cases.map(async ({ network, what, endsIn, expected }) => {
      const { id } = await create(what, numberOf(network, endsIn), '1000');
      const { status, failure_code: code } = await final(what, id);
      t.equal(code ?? status, expected, `${network} ${what} …${endsIn}`);
    }),
  );
});

t.test(
  'a number that refuses outright answers 201 with FAILED; one that settles at once, SUCCESSFUL',
  async (t) => {
    t.hasStrict(await create('charges', numberOf('MTN', 57), '1000'), {
      status: 'FAILED',
      failure_code: 'provider_rejected',
    });
    t.hasStrict(await create('charges', numberOf('AIRTEL', 68), '1000'), { status: 'SUCCESSFUL' });
  },
);

t.test('clawed back: the charge is reversed', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    // Not by the number that does it itself: clawed back before anybody asked, it is no success.
    const msisdn = numberOf(network, '00');
    const { id } = await create('charges', msisdn, '1000');
    t.equal((await final('charges', id)).status, 'SUCCESSFUL');
    const payment = (await external.payments()).find((each) => msisdn.endsWith(each.msisdn));
    await external.control('POST', `/simulator/transactions/${payment?.number}/reverse`);
    const { body } = await service.until(
      () => service.merchant('GET', `/v1/charges/${id}`),
      ({ body: { status } }) => status === 'REVERSED',
    );
    t.equal(body.status, 'REVERSED');
  }
});

t.test('paid with another amount: an item for operators, and no money moved', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const msisdn = numberOf(network, '00');
    const outcome = { msisdn: msisdn.slice(-9), amount: '900', currency: 'UGX' };
    await external.control('POST', '/simulator/outcomes', outcome);
    const { id } = await create('charges', msisdn, '1000');
    const { body } = await service.until(
      () => service.operator('GET', '/operator/v1/reconciliation?open=true'),
      ({ body: { data } }) => data.some((item: Item) => item.transaction_id === id),
    );
    const item = body.data.find((each: Item) => each.transaction_id === id);
    t.match(item, { kind: /amount/i }, 'says why');
    t.not((await service.merchant('GET', `/v1/charges/${id}`)).body.status, 'SUCCESSFUL');
  }
});

t.test('operators can count callbacks about nothing of ours, and what pollers tell', async (t) => {
  const url = `${service.demo.base_url}/callbacks/airtel_ug/portal/portal-secret-of-airtel_ug`;
  const body = JSON.stringify({ transaction: { id: 'A1', status_code: 'TS' } });
  const scrape = async () => (await fetch(`${service.demo.operator_url}/metrics`)).text();
  const before = await scrape();
  for (const rail of ['airtel_ug', 'mtn_ug']) {
    t.match(before, new RegExp(`^daftari_callbacks_unknown_total\\{rail="${rail}"\\} 0$`, 'm'));
  }
  for (const what of ['provider_forgot', 'never_accepted']) {
    t.match(before, new RegExp(`^daftari_rail_notices_total\\{what="${what}"\\} 0$`, 'm'), 'seen to grow');
  }
  for (let i = 0; i < 2; i++) t.equal((await fetch(url, { method: 'POST', body })).status, 200);
  const metrics = await scrape();
  t.match(metrics, /^daftari_callbacks_unknown_total\{rail="airtel_ug"\} 2$/m);
  t.match(metrics, /^daftari_rail_notices_total\{what="our_fault"\} [1-9]\d*$/m);
});

t.test('in the end the money is right', async (t) => {
  const rows = await trialBalance(service);
  for (const { currency, sum } of rows) t.equal(sum, '0', `trial balance of ${currency}`);
  await floatAgrees(t, external, rows);
});

/** What the provider holds for us is what our ledger says it holds. The two amounts that were disputed are the
 *  provider's alone. */
async function floatAgrees(t: Test, of: External, rows: Sums[]): Promise<void> {
  let held = 0;
  for (const payment of await of.payments()) {
    if (payment.state !== 'succeeded' || payment.currency !== 'UGX') continue;
    held += payment.kind === 'collect' ? Number(payment.amount) : -Number(payment.amount);
  }
  const disputed = 2 * 1_000;
  const { accounts } = rows.find(({ currency }) => currency === 'UGX')!;
  t.equal(Math.abs(Number(accounts['PROVIDER_FLOAT'])), held - disputed);
}
