// A machine's clock that is set back, by hand or by a start that put it forward for a while, stops nobody: requests are
// taken, what is due falls due, and the times in the log never fall. Set forward, it takes nobody's time away.

import t from 'tap';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { groupOf } from '../../src/log-tools/data.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const realNow = Date.now;
const root = temporaryDirectory(t);
const dueRoot = temporaryDirectory(t);
t.teardown(() => {
  Date.now = realNow;
});

let aheadMs = 0;
Date.now = () => realNow() + aheadMs;

async function pay(service: Running): Promise<string> {
  const body = { currency: 'UGX', msisdn: '256772000001', amount: '5000', reference: 'clock' };
  const made = await service.merchant('POST', '/v1/charges', { body });
  t.hasStrict(made, { status: 201 });
  const read = await service.until(
    () => service.merchant('GET', `/v1/charges/${made.body.id}`),
    (answer) => answer.status !== 200 || answer.body.status === 'SUCCESSFUL',
  );
  t.hasStrict(read, { status: 200 });
  return made.body.created_at as string;
}

t.test('a clock set back while the service runs, and while it is stopped, refuses nobody', async (t) => {
  aheadMs = DAY_MS;
  const first = await startService({}, root);
  const ahead = await pay(first);
  aheadMs = 0;
  const back = await pay(first);
  t.ok(back >= ahead, 'time goes on, it does not fall');
  await first.stop();

  const second = await startService({}, root);
  t.ok((await pay(second)) >= back, 'nor does it over a restart');
  await second.stop();

  const log = LogReader.openReader({ directory: root });
  for (const { group, partition } of log.partitionNames()) {
    if (group !== 'accounts') continue;
    const times = [...log.read(group, partition, { fromSequence: 1 })].flatMap(({ records }) =>
      records.map((line) => (groupOf(group).decode(line) as AccountRecord).at),
    );
    t.strictSame(
      times,
      times.toSorted((a, b) => a - b),
      `accounts/${partition}`,
    );
  }
  await log.close();
});

const HASTY = {
  CHARGE_EXPIRY_SECONDS: '6',
  CHARGE_RELEASE_SECONDS: '2',
  WEBHOOK_RETRY_SECONDS: '1,1',
  WEBHOOK_ALLOW_PRIVATE: 'true',
};
/** The provider never answers. */
const SILENT = '256772000065';

interface Begun {
  readonly paid: string;
  readonly silent: string;
}

/** A charge whose money waits for its release and whose webhook nobody takes, and one that waits for its expiry. */
async function begin(service: Running): Promise<Begun> {
  const app = `/operator/v1/accounts/${service.demo.account_id}/apps/${service.demo.app_id}`;
  const webhook_url = 'http://127.0.0.1:9/nobody';
  t.equal((await service.operator('PATCH', app, { webhook_url })).status, 200);
  const charge = { currency: 'UGX', amount: '5000', reference: 'clock' };
  const [paid, silent] = await Promise.all(
    ['256772000001', SILENT].map((msisdn) =>
      service.merchant('POST', '/v1/charges', { body: { ...charge, msisdn } }),
    ),
  );
  t.hasStrict([paid, silent], [{ status: 201 }, { status: 201 }]);
  const path = `/v1/charges/${paid!.body.id}`;
  await service.until(
    () => service.merchant('GET', path),
    (answer) => answer.body.status === 'SUCCESSFUL',
  );
  return { paid: paid!.body.id, silent: silent!.body.id };
}

/** Within the time that `until` waits. */
async function assertEnds(service: Running, { paid, silent }: Begun): Promise<void> {
  await service.until(
    () => service.merchant('GET', `/v1/transactions/${paid}`),
    ({ body }) => body.ledger.some(({ reason }: any) => reason === 'CHARGE_RELEASED'),
  );
  await service.until(
    () => service.merchant('GET', `/v1/charges/${silent}`),
    ({ body }) => body.failure_code === 'expired',
  );
  const deliveries = `/operator/v1/accounts/${service.demo.account_id}/deliveries?limit=100`;
  await service.until(
    () => service.operator('GET', deliveries),
    ({ body }) =>
      body.data.some(
        ({ transaction_id, status }: any) => transaction_id === paid && status === 'DEAD_LETTERED',
      ),
  );
}

t.test('what was begun before and after a clock is set back falls due on time', async (t) => {
  aheadMs = HOUR_MS;
  const first = await startService(HASTY, dueRoot);
  const before = await begin(first);
  aheadMs = 0;
  const after = await begin(first);
  await assertEnds(first, before);
  await assertEnds(first, after);

  const waiting = await begin(first);
  await first.stop();
  const second = await startService(HASTY, dueRoot);
  const started = await begin(second);
  await assertEnds(second, waiting);
  await assertEnds(second, started);
  await second.stop();
  t.pass('an hour is not waited for');
});

t.test('a clock set forward a day releases and expires nothing early', async (t) => {
  aheadMs = 0;
  const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true' });
  const { paid, silent } = await begin(service);
  aheadMs = DAY_MS;
  await pay(service);
  const { body } = await service.merchant('GET', `/v1/transactions/${paid}`);
  t.notOk(body.ledger.some(({ reason }: any) => reason === 'CHARGE_RELEASED'));
  t.notMatch((await service.merchant('GET', `/v1/charges/${silent}`)).body, { status: 'FAILED' });
  await service.stop();
});
