// What operators hear of a payout whose provider never says what became of it.
import t from 'tap';
import type { EnquiryResult } from '../../src/rails/rail.ts';
import { byOperator, charge, MEMBER, payout, withdrawal } from './domain/scenario.ts';
import { Driven, LOST, paid } from './pollers-driven.ts';

const HOUR = 3_600_000;
const PENDING: EnquiryResult = { type: 'pending', providerStatus: 'PENDING' };

t.test('a payout without an outcome for a day is brought to an operator, once, and goes on', async (t) => {
  for (const [answer, said] of [
    [PENDING, 'pending: PENDING'],
    [LOST, 'unknown: time-out'],
  ] as const) {
    const driven = await new Driven().start();
    driven.mtn.onEnquire = (transaction) =>
      transaction.type === 'PAYOUT' ? answer : driven.provider.enquire(transaction);
    const transaction = driven.accounts.create(payout());
    driven.accounts.create(charge());
    // Others are answered meanwhile: the rail is up.
    for (let hour = 0; hour < 23; hour++) {
      for (let n = 0; n < 10; n++) driven.provider.settle(driven.accounts.create(charge()), paid());
      await driven.clock.advance(HOUR, 10_000);
    }
    t.strictSame(driven.notices, [], 'a network may take its time');
    await driven.clock.advance(6 * HOUR, 10_000);
    t.strictSame(driven.notices, [
      {
        what: 'no_outcome',
        provider: 'mtn_ug',
        transactionId: transaction.id,
        detail: `for 24 h; the last answer: ${said}`,
      },
    ]);
    driven.provider.settle(transaction, paid());
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(HOUR, 10_000);
    t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  }
});

t.test(
  'while a provider answers nothing at all, its health says so, and nobody is told of each payout',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onEnquire = () => LOST;
    for (let n = 0; n < 30; n++) driven.accounts.create(payout());
    await driven.clock.advance(26 * HOUR, 10_000);
    t.not(driven.pollers.railHealth().find(({ id }) => id === 'mtn_ug')?.health, 'OPERATIONAL');
    t.strictSame(driven.notices, []);
  },
);

t.test('the day of a withdrawal that waited for approval begins when it was approved', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onEnquire = () => PENDING;
  const { id } = driven.accounts.create(withdrawal({ amount: '6000000' }));
  await driven.clock.advance(48 * HOUR, HOUR);
  driven.accounts.when({ ...byOperator, type: 'ApproveWithdrawal', transactionId: id, by: MEMBER });
  await driven.clock.advance(12 * HOUR, 10_000);
  t.equal(driven.mtn.submits.length, 1);
  await driven.crash();
  await driven.clock.advance(11 * HOUR, 10_000);
  t.strictSame(driven.notices, [], 'its provider has had it for less');
  await driven.clock.advance(2 * HOUR, 10_000);
  t.hasStrict(driven.notices, [
    { what: 'no_outcome', detail: 'for 24 h; the last answer: pending: PENDING' },
  ]);
});
