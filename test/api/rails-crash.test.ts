// The service dies (SIGKILL) between log and submit, between submit and answer, between answer and outcome, and at
// random under load, and starts again over the same data with the same provider. Every acknowledged transaction comes to
// its end, the provider was paid once for each, and both books agree.
import t, { type Test } from 'tap';
import { type ServiceProcess, startProcess } from '../crash/service-process.ts';
import { until } from '../until.ts';
import { type External, startExternal } from './rails-external.ts';
import { randomFrom, seedOf } from '../seed.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SETTINGS = { PROVIDER_ANSWER_WAIT_MS: '50', LOG_LEVEL: 'info' };
const NETWORKS = [
  ['mtn', '25677'],
  ['airtel', '25670'],
] as const;
/** Charges and deposits expire after half an hour. */
const AWAY_MS = 40 * 60_000;
let made = 0;

/** `aheadMs`: of the machine's clock. */
async function start(dataDir: string, external: External, aheadMs = 0): Promise<ServiceProcess> {
  const clock = encodeURIComponent(`const now = Date.now; Date.now = () => now() + ${aheadMs};`);
  const service = await startProcess(dataDir, {
    ...SETTINGS,
    RAILS: external.railsFile,
    NODE_OPTIONS: `${ENVIRONMENT.NODE_OPTIONS} --import=data:text/javascript,${clock}`,
  });
  await external.callBackTo(service.demo.base_url);
  return service;
}

function numberWith(prefix: string): string {
  return `${prefix}${String(++made).padStart(5, '0')}00`;
}

/** Its id, when it was acknowledged; null when the service died first. */
async function create(
  service: ServiceProcess,
  what: string,
  msisdn: string,
  amount = '1000',
): Promise<string | null> {
  const { base_url: url, secret_key: key } = service.demo;
  try {
    const response = await fetch(`${url}/v1/${what}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': `crash-${msisdn}`,
      },
      body: JSON.stringify({ amount, currency: 'UGX', msisdn, reference: `order-${msisdn}` }),
    });
    const body = (await response.json()) as { id: string };
    if (response.status !== 201) throw new Error(`${what}: ${response.status} ${JSON.stringify(body)}`);
    return body.id;
  } catch (error) {
    // fetch says TypeError when the connection breaks: nobody promised anything.
    if (error instanceof TypeError) return null;
    throw error;
  }
}

async function statusOf(service: ServiceProcess, id: string): Promise<string> {
  const { base_url: url, secret_key: key } = service.demo;
  const response = await fetch(`${url}/v1/transactions/${id}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  if (response.status !== 200) throw new Error(`${id}: ${response.status}`);
  const { transaction } = (await response.json()) as { transaction: { status: string } };
  return transaction.status;
}

async function allSucceed(t: Test, service: ServiceProcess, ids: readonly string[]): Promise<void> {
  await Promise.all(
    ids.map(async (id) => {
      const status = await until(
        () => statusOf(service, id),
        (now) => now === 'SUCCESSFUL' || now === 'FAILED',
        60_000,
      );
      t.equal(status, 'SUCCESSFUL', id);
    }),
  );
}

async function booksAgree(t: Test, service: ServiceProcess, external: External): Promise<void> {
  const payments = await external.payments();
  const paid = payments.filter(({ state }) => state === 'succeeded');
  t.equal(new Set(paid.map(({ reference }) => reference)).size, paid.length, 'one payment a reference');
  const { operator_url: url, operator_token: token, account_id: account } = service.demo;
  const response = await fetch(`${url}/operator/v1/accounts/${account}/trial_balance`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const { data } = (await response.json()) as {
    data: { currency: string; sum: string; accounts: Record<string, string> }[];
  };
  for (const { currency, sum } of data) t.equal(sum, '0', `trial balance of ${currency}`);
  const float = Number(data.find(({ currency }) => currency === 'UGX')?.accounts['PROVIDER_FLOAT']);
  let held = 0;
  for (const { kind, amount } of paid) held += kind === 'collect' ? Number(amount) : -Number(amount);
  t.equal(Math.abs(float), held, "PROVIDER_FLOAT is the provider's own sum");
}

async function topUp(t: Test, service: ServiceProcess): Promise<void> {
  const id = await create(service, 'deposits', numberWith('25677'), '1000000');
  t.ok(id);
  await allSucceed(t, service, [id!]);
}

// Each has a service and a provider of its own, and mostly waits.
t.jobs = 4;

t.test('killed between log and submit, submit and answer, answer and outcome', async (t) => {
  const directory = temporaryDirectory(t);
  const external = await startExternal(directory, { speed: 1 });
  let service = await start(`${directory}/data`, external);
  t.teardown(async () => {
    await service.end('SIGKILL');
    await external.simulator.close();
  });
  await topUp(t, service);

  const ids: string[] = [];
  const control = (path: string, body: object) => external.control('POST', path, body);
  for (const [provider, prefix] of NETWORKS) {
    for (const what of ['charges', 'payouts']) {
      const unsent = numberWith(prefix);
      const hang = { provider, on: 'submit', hang: true };
      await control('/simulator/answers', { ...hang, msisdn: unsent.slice(-9) });
      const unanswered = numberWith(prefix);
      await control('/simulator/answers', { ...hang, msisdn: unanswered.slice(-9), afterEffect: true });
      const undecided = numberWith(prefix);
      const slowly = { provider, msisdn: undecided.slice(-9), settleAfterMs: 1_500 };
      await control('/simulator/outcomes', slowly);
      for (const msisdn of [unsent, unanswered, undecided]) {
        const id = await create(service, what, msisdn);
        t.ok(id, `${what} acknowledged`);
        ids.push(id!);
      }
    }
  }
  await until(
    () => external.payments(),
    (payments) => payments.filter(({ kind }) => kind === 'send').length >= 4,
  );
  await service.end('SIGKILL');

  await external.control('DELETE', '/simulator/forced');
  service = await start(`${directory}/data`, external);
  await allSucceed(t, service, ids);
  await booksAgree(t, service, external);
});

t.test('away for longer than customers are waited for: who approved meanwhile has paid', async (t) => {
  const directory = temporaryDirectory(t);
  const external = await startExternal(directory, { approveAfterMs: 1_000, speed: 1 });
  let service = await start(`${directory}/data`, external);
  t.teardown(async () => {
    await service.end('SIGKILL');
    await external.simulator.close();
  });
  const ids: string[] = [];
  for (const [, prefix] of NETWORKS) {
    for (const what of ['charges', 'deposits']) ids.push((await create(service, what, numberWith(prefix)))!);
  }
  // Nobody approves what was never sent.
  await until(
    () => external.payments(),
    (payments) => payments.length === ids.length,
  );
  await service.end('SIGKILL');
  await until(
    () => external.payments(),
    (payments) => payments.every(({ state }) => state === 'succeeded'),
  );
  service = await start(`${directory}/data`, external, AWAY_MS);
  await allSucceed(t, service, ids);
  await booksAgree(t, service, external);
});

t.test('killed at random moments under load', async (t) => {
  const directory = temporaryDirectory(t);
  const external = await startExternal(directory);
  const seed = seedOf(t);
  const random = randomFrom(seed);
  let service = await start(`${directory}/data`, external);
  t.teardown(async () => {
    await service.end('SIGKILL');
    await external.simulator.close();
  });
  await topUp(t, service);

  const ids: string[] = [];
  for (let cycle = 0; cycle < 4; cycle++) {
    const creating = Array.from({ length: 60 }, async (_, i) => {
      const [, prefix] = NETWORKS[i % 2]!;
      const id = await create(service, i % 3 === 0 ? 'payouts' : 'charges', numberWith(prefix));
      if (id !== null) ids.push(id);
    });
    // Killed before anything was acknowledged each time, it would have nothing to keep.
    if (cycle === 0) {
      await until(
        () => ids.length,
        (count) => count > 0,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, random() * 150));
    await service.end('SIGKILL');
    await Promise.all(creating);
    service = await start(`${directory}/data`, external);
  }
  t.ok(ids.length > 0, `${ids.length} acknowledged`);
  await allSucceed(t, service, ids);
  // What was not acknowledged may have been decided, and then it is paid too: wait until nothing is on its way.
  await until(
    async () => (await fetch(`${service.demo.operator_url}/metrics`)).text(),
    (text) => /^daftari_transactions_in_flight 0$/m.test(text),
    60_000,
  );
  await booksAgree(t, service, external);
});

t.test('the built-in simulator starts anew with the service, and what it forgot is sent again', async (t) => {
  const directory = temporaryDirectory(t);
  const settings = { ...SETTINGS, RAILS: 'simulator' };
  let service = await startProcess(directory, settings);
  t.teardown(async () => {
    await service.end('SIGKILL');
  });
  await topUp(t, service);
  await service.end('SIGTERM');
  // Nobody approves before it dies.
  service = await startProcess(directory, { ...settings, SIMULATOR_APPROVE_AFTER_MS: '60000' });
  const ids: string[] = [];
  for (const [, prefix] of NETWORKS) {
    for (const what of ['charges', 'payouts']) ids.push((await create(service, what, numberWith(prefix)))!);
  }
  await service.end('SIGKILL');
  service = await startProcess(directory, settings);
  await allSucceed(t, service, ids);
});
