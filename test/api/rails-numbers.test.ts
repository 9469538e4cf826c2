// Every number that misbehaves, on both rails, in both directions, through the real adapters over HTTP: what the submit
// is answered, what the outcome is, and how often the provider called back.
import t, { type Test } from 'tap';
import type { FailureCode, TransactionType } from '../../src/domain/transaction.ts';
import type { Network } from '../../src/domain/country.ts';
import type { EnquiryResult, SubmitResult } from '../../src/rails/rail.ts';
import { until } from '../until.ts';
import { outcomeOf, startRails, transactionOf } from './rails-setup.ts';

type Ends = FailureCode | 'succeeded' | 'reversed' | 'pending' | 'unknown answer';

interface Row {
  readonly endsIn: number;
  readonly submit: SubmitResult['type'];
  readonly ends: Ends;
  readonly callbacks: number;
}

function row(endsIn: number, submit: SubmitResult['type'], ends: Ends, callbacks: number): Row {
  return { endsIn, submit, ends, callbacks };
}

const BOTH: readonly Row[] = [
  row(0, 'accepted', 'succeeded', 1),
  row(50, 'accepted', 'unknown', 1),
  row(51, 'accepted', 'customer_declined', 1),
  row(52, 'accepted', 'expired', 1),
  row(53, 'accepted', 'pending', 0),
  row(54, 'accepted', 'succeeded', 1),
  row(65, 'accepted', 'pending', 0),
  row(66, 'accepted', 'succeeded', 3),
  row(67, 'accepted', 'succeeded', 0),
  row(68, 'succeeded', 'succeeded', 0),
  row(69, 'accepted', 'succeeded', 1),
  row(71, 'accepted', 'succeeded', 1),
  row(72, 'unknown', 'succeeded', 1),
  row(74, 'unknown', 'unknown answer', 0),
  row(76, 'accepted', 'customer_unreachable', 1),
];

const COLLECT: readonly Row[] = [
  ...BOTH,
  row(55, 'accepted', 'wallet_not_found', 1),
  row(56, 'accepted', 'provider_rejected', 1),
  row(57, 'failed', 'provider_rejected', 0),
  row(58, 'failed', 'provider_rejected', 0),
  row(59, 'failed', 'provider_rejected', 0),
  row(60, 'failed', 'provider_rejected', 0),
  row(61, 'accepted', 'unknown', 1),
  row(62, 'accepted', 'provider_unavailable', 1),
  row(63, 'accepted', 'expired', 1),
  row(64, 'accepted', 'insufficient_funds', 1),
  row(70, 'accepted', 'reversed', 2),
  row(75, 'accepted', 'wallet_inactive', 1),
];

const SEND: readonly Row[] = [
  ...BOTH,
  row(55, 'accepted', 'provider_rejected', 1),
  row(56, 'accepted', 'provider_rejected', 1),
  row(57, 'accepted', 'wallet_not_found', 1),
  row(58, 'failed', 'provider_rejected', 0),
  row(59, 'failed', 'provider_rejected', 0),
  row(60, 'failed', 'provider_rejected', 0),
  row(61, 'failed', 'provider_rejected', 0),
  row(62, 'accepted', 'unknown', 1),
  row(63, 'accepted', 'provider_unavailable', 1),
  row(64, 'accepted', 'wallet_limit_exceeded', 1),
  row(70, 'accepted', 'succeeded', 1),
  row(75, 'accepted', 'wallet_inactive', 1),
];

const CASES: readonly (readonly [Network, TransactionType, readonly Row[]])[] = [
  ['MTN', 'CHARGE', COLLECT],
  ['MTN', 'PAYOUT', SEND],
  ['AIRTEL', 'CHARGE', COLLECT],
  ['AIRTEL', 'PAYOUT', SEND],
];

const rails = await startRails();
t.teardown(() => rails.stop());

for (const [network, type, rows] of CASES) {
  t.test(`${network} ${type}`, async (t) => {
    await Promise.all(rows.map((expected) => checkRow(t, network, type, expected)));
  });
}

async function checkRow(t: Test, network: Network, type: TransactionType, expected: Row): Promise<void> {
  const { endsIn, ends, callbacks } = expected;
  const transaction = transactionOf({ network, type, endsIn, country: 'KE', amount: 12_345 });
  const rail = rails.rail(transaction.provider);
  const name = `…${String(endsIn).padStart(2, '0')}`;
  const heard = () =>
    rails.heard.filter(
      ({ callback }) => callback.type === 'hint' && callback.hint.transactionId === transaction.id,
    ).length;

  const submitted = await rail.submit(transaction);
  t.equal(submitted.type, expected.submit, `${name} is answered ${expected.submit}`);
  if (submitted.type === 'failed') {
    t.equal(submitted.failureCode, ends, `${name} fails at once as ${ends}`);
    return;
  }
  if (ends === 'pending' || ends === 'unknown answer') {
    const asked = await rail.enquire(transaction);
    t.equal(asked.type, ends === 'pending' ? 'pending' : 'unknown', `${name} never ends`);
    return;
  }
  const outcome = await until(
    () => outcomeOf(rail, transaction),
    (value) => ends !== 'reversed' || value.type === 'reversed',
  );
  t.equal(wordOf(outcome), ends, `${name} ends as ${ends}`);
  if (outcome.type === 'failed') {
    t.equal(outcome.ourFault, ends === 'provider_rejected', `${name}: whose fault`);
    t.ok(outcome.providerStatus, `${name}: the provider's word is kept`);
  }
  if (outcome.type === 'succeeded') {
    t.ok(outcome.providerTransactionId, `${name}: the provider's id is kept`);
    if (network === 'MTN') t.hasStrict(outcome, { amount: 12_345, currency: 'KES' });
  }
  await until(heard, (count) => count >= callbacks);
  t.equal(heard(), callbacks, `${name}: ${callbacks} callbacks`);
}

function wordOf(result: EnquiryResult): string {
  return result.type === 'failed' ? result.failureCode! : result.type;
}

t.test('73: 503 to every call', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    for (const type of ['CHARGE', 'PAYOUT'] as const) {
      const transaction = transactionOf({ network, type, endsIn: 73 });
      const rail = rails.rail(transaction.provider);
      const submitted = await rail.submit(transaction);
      // MTN: any 5xx without a configuration code means "enquire"; Airtel: 503 is before acceptance, if nobody knows otherwise.
      t.match(submitted, network === 'MTN' ? { type: 'unknown' } : { type: 'not_accepted', mayHaveIt: true });
      t.equal((await rail.enquire(transaction)).type, 'unknown');
    }
  }
});
