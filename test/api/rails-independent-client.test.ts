// A client of MTN's API that we did not write (mtn-momo, from npm) against the simulator: provisioning, a collection, a
// transfer, a refusal and a balance. It proves that the simulator speaks MTN's protocol and not merely ours.
import { create, PayerType } from 'mtn-momo';
import t from 'tap';
import { startSimulator } from '../../src/rails/simulator/server.ts';
import { until } from '../until.ts';

const simulator = await startSimulator({ port: 0, host: '127.0.0.1', approveAfterMs: 10, speed: 100 });
t.teardown(() => simulator.close());
const momo = create({ callbackHost: '127.0.0.1', baseUrl: simulator.url });

async function subscribe(
  product: string,
): Promise<{ primaryKey: string; userId: string; userSecret: string }> {
  const response = await fetch(`${simulator.url}/portal/mtn/subscriptions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      product,
      target_environment: 'sandbox',
      country: 'UG',
      currency: 'EUR',
      balance: 1_000,
      // As the version of the API that this client was written for says them.
      bare_reasons: true,
    }),
  });
  const { subscription_key: primaryKey } = (await response.json()) as { subscription_key: string };
  const users = momo.Users({ primaryKey });
  const userId = await users.create('127.0.0.1');
  const { apiKey: userSecret } = await users.login(userId);
  return { primaryKey, userId, userSecret };
}

const PAYMENT = {
  amount: '50',
  currency: 'EUR',
  externalId: '123456',
  payerMessage: 'testing',
  payeeNote: 'hello',
};

t.test('a collection', async (t) => {
  const collections = momo.Collections(await subscribe('collection'));
  const payer = { partyIdType: PayerType.MSISDN, partyId: '256774290781' };
  const reference = await collections.requestToPay({ ...PAYMENT, payer });
  const paid = await until(
    () => collections.getTransaction(reference),
    ({ status }) => status !== 'PENDING',
  );
  t.hasStrict(paid, { status: 'SUCCESSFUL', amount: '50' });
  t.match(paid.financialTransactionId, /^\d+$/);
  t.strictSame(await collections.getBalance(), { availableBalance: '1050', currency: 'EUR' });
  t.strictSame(await collections.isPayerActive('256774290781'), { result: true });

  const poor = { partyIdType: PayerType.MSISDN, partyId: '46733123464' };
  const refused = await collections.requestToPay({ ...PAYMENT, payer: poor });
  await t.rejects(
    until(
      () => collections.getTransaction(refused),
      ({ status }) => status !== 'PENDING',
    ),
    { name: 'NotEnoughFundsError' },
    'it knows the reason',
  );
});

t.test('a transfer', async (t) => {
  const disbursements = momo.Disbursements(await subscribe('disbursement'));
  const payee = { partyIdType: PayerType.MSISDN, partyId: '256774290781' };
  const reference = await disbursements.transfer({ ...PAYMENT, payee });
  const sent = await until(
    () => disbursements.getTransaction(reference),
    ({ status }) => status !== 'PENDING',
  );
  t.equal(sent.status, 'SUCCESSFUL');
});

t.test('a wrong key', async (t) => {
  const collections = momo.Collections({ ...(await subscribe('collection')), userSecret: 'wrong' });
  await t.rejects(collections.getBalance(), 'no token, no balance');
});
