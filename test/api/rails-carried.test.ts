// What a route cannot carry, since it has credentials for one way alone or takes fewer decimals than the currency has, is refused before
// anything is created; what it can goes on; and what was sent while it had both still ends as its provider says.
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { type SimulatedPayment, startExternal } from './rails-external.ts';
import { bodyOf, numberOf } from './merchants.ts';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const directory = temporaryDirectory(t);
const external = await startExternal(directory);
t.teardown(() => external.simulator.close());
const both = readFileSync(external.railsFile, 'utf8');

/** Its end is the simulator's control's to say. */
const ONGOING = '53';

let service: Running | null = null;
t.teardown(() => service?.stop());

/** What operators are told of routes at the last start. */
const told: string[] = [];

type WrittenRoute = Readonly<Record<string, unknown>>;

/** The service goes on with its data, and with what `change` makes of each route. */
async function restart(change: (route: WrittenRoute) => WrittenRoute | null): Promise<Running> {
  await service?.stop();
  service = null;
  const { routes } = JSON.parse(both) as { routes: WrittenRoute[] };
  const changed = routes.map(change).filter((route) => route !== null);
  writeFileSync(external.railsFile, JSON.stringify({ routes: changed }));
  told.length = 0;
  const environment = { RAILS: external.railsFile, LOG_LEVEL: 'warn' };
  service = await startService(environment, `${directory}/data`, (line) => {
    const { route, message } = JSON.parse(line) as { route?: string; message: string };
    if (route !== undefined) told.push(`${route}: ${message}`);
  });
  await external.callBackTo(service.demo.base_url);
  return service;
}

const asItWas = (route: WrittenRoute): WrittenRoute => route;
const withoutDisbursement = ({ disbursement: _, ...rest }: WrittenRoute): WrittenRoute => rest;
/** Airtel's collections need no more than its token does. */
const withoutCollection = ({ collection: _, ...rest }: WrittenRoute): WrittenRoute | null =>
  rest['adapter'] === 'airtel' ? null : rest;

async function statusOf(at: Running, path: string): Promise<string> {
  return (await at.merchant('GET', path)).body.status;
}

async function sent(): Promise<readonly SimulatedPayment[]> {
  return (await external.payments()).filter(({ kind }) => kind === 'send');
}

t.test('what a route has no credentials for is refused, and what was sent before ends', async (t) => {
  const first = await restart(asItWas);
  const { body: deposit } = await first.merchant('POST', '/v1/deposits', {
    body: bodyOf({ amount: '50000' }),
  });
  await first.until(
    () => statusOf(first, `/v1/deposits/${deposit.id}`),
    (status) => status === 'SUCCESSFUL',
  );
  const payoutBody = bodyOf({ msisdn: numberOf('UGX', ONGOING) });
  const { body: payout } = await first.merchant('POST', '/v1/payouts', { body: payoutBody });
  await first.until(sent, (payments) => payments.length === 1);

  t.strictSame(told, []);

  const collecting = await restart(withoutDisbursement);
  t.equal(told.length, 6);
  const lacks = 'over this route are refused: it has no credentials for them';
  t.ok(told.includes(`airtel_ug: payouts and withdrawals ${lacks}`), told.join('\n'));
  const before = (await collecting.merchant('GET', '/v1/balances')).text;
  for (const msisdn of [numberOf('UGX'), '+256702000001']) {
    const { status, body } = await collecting.merchant('POST', '/v1/payouts', { body: bodyOf({ msisdn }) });
    t.equal(status, 400);
    t.equal(body.error?.code, 'network_not_supported', JSON.stringify(body));
    const charge = await collecting.merchant('POST', '/v1/charges', { body: bodyOf({ msisdn }) });
    t.equal(charge.status, 201);
    await collecting.until(
      () => statusOf(collecting, `/v1/charges/${charge.body.id}`),
      (word) => word === 'SUCCESSFUL',
    );
  }
  const rows = JSON.parse(before).data[0];
  const { data } = (await collecting.merchant('GET', '/v1/balances')).body;
  t.equal(data[0].available, rows.available, 'nothing is on hold for what was refused');
  t.equal(await statusOf(collecting, `/v1/payouts/${payout.id}`), 'PENDING_PROVIDER', 'it may still be paid');

  const sending = await restart(withoutCollection);
  t.strictSame(
    told.toSorted(),
    ['gh', 'ke', 'ug'].map((country) => `mtn_${country}: charges and deposits ${lacks}`),
  );
  for (const what of ['charges', 'deposits']) {
    const { status, body } = await sending.merchant('POST', `/v1/${what}`, { body: bodyOf() });
    t.equal(status, 400);
    t.equal(body.error?.code, 'network_not_supported', JSON.stringify(body));
  }
  const payments = await sent();
  t.equal(payments.length, 1, 'nothing was sent of what was refused');
  await external.control('POST', `/simulator/transactions/${payments[0]!.number}/approve`);
  await sending.until(
    () => statusOf(sending, `/v1/payouts/${payout.id}`),
    (status) => status === 'SUCCESSFUL',
  );
});

t.test('an amount with more decimals than its route takes is refused', async (t) => {
  const whole = await restart((route) =>
    route['id'] === 'airtel_ke' ? { ...route, amount_decimals: 0 } : route,
  );
  const kenyan = { currency: 'KES', msisdn: '+254733000001' };
  const { status, body } = await whole.merchant('POST', '/v1/charges', {
    body: bodyOf({ ...kenyan, amount: '1050' }),
  });
  t.equal(status, 400, JSON.stringify(body));
  t.hasStrict(body.error, {
    code: 'validation_failed',
    message: 'AIRTEL in KE takes multiples of 100 KES in minor units.',
    param: 'amount',
  });
  for (const row of [
    { ...kenyan, amount: '1100' },
    { currency: 'GHS', msisdn: '+233261234567', amount: '1050' },
  ]) {
    t.equal((await whole.merchant('POST', '/v1/charges', { body: bodyOf(row) })).status, 201, row.currency);
  }
});
