// The times that pollers go by: their accounts' for what is due, the machine's for deadlines of messages; and one that jumps.
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { charge, payout } from './domain/scenario.ts';
import { BUSY, Driven, LOST, paid } from './pollers-driven.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

t.test("what has expired by its accounts' own time is ended, whatever the clock here says", async (t) => {
  const driven = new Driven();
  const late = driven.accounts.create(charge());
  // Nothing is heard from which its time could be known.
  driven.mtn.onEnquire = () => LOST;
  driven.accounts.aheadMs = HOUR;
  await driven.pollers.start(0, { now: () => driven.clock.now() + HOUR });
  await driven.clock.advance(9 * MINUTE);
  t.hasStrict(driven.accounts.transaction(late.id), { status: 'FAILED', failureCode: 'expired' });
});

t.test("deadlines are by the machine's clock", async (t) => {
  const driven = await new Driven({ deadlinesAheadMs: HOUR }).start();
  driven.accounts.create(charge());
  const [told] = driven.accounts.commands;
  t.hasStrict(told, {
    type: 'RecordSubmission',
    deadline: driven.clock.now() + HOUR + LIMITS.pollerCommandDeadlineMs,
  });
  const sent = driven.accounts.create(payout());
  driven.hint(sent);
  await driven.clock.advance(3_000);
  t.equal(
    driven.mtn.enquiriesOf(sent.id).length,
    1,
    'a callback is looked into, late as it is by that clock',
  );
});

t.test('after a jump of hours each is asked about once, and nothing is sent again unasked', async (t) => {
  const driven = await new Driven().start();
  const taken = driven.accounts.create(charge());
  const ignored = driven.accounts.create(charge());
  const sent = driven.accounts.create(payout());
  driven.mtn.onSubmit = () => LOST;
  const lost = driven.accounts.create(payout());
  driven.mtn.onSubmit = (transaction) => {
    t.equal(driven.mtn.enquiriesOf(transaction.id).length, 1, 'the provider said that it does not know it');
    return driven.provider.submit(transaction);
  };
  await driven.clock.advance(1_000);
  driven.provider.settle(taken, paid());
  await driven.clock.advance(6 * HOUR, 6 * HOUR);
  await driven.clock.advance(1_000);
  for (const { id } of [taken, ignored, sent, lost]) t.equal(driven.mtn.enquiriesOf(id).length, 1);
  t.equal(driven.accounts.transaction(taken.id).status, 'SUCCESSFUL', 'what was paid meanwhile');
  t.hasStrict(driven.accounts.transaction(ignored.id), { status: 'FAILED', failureCode: 'expired' });
  t.equal(driven.accounts.transaction(sent.id).status, 'PENDING_PROVIDER');
  const references = driven.mtn.submits.filter(({ id }) => id === lost.id).map(({ reference }) => reference);
  t.equal(references.length, 2);
  t.equal(new Set(references).size, 1);
});

t.test('who pays in time by the time of an account that is behind the clock here has paid', async (t) => {
  for (const isCalledBack of [true, false]) {
    const driven = await new Driven().start();
    driven.accounts.aheadMs = -5 * MINUTE;
    const charged = driven.accounts.create(charge());
    await driven.clock.advance(27 * MINUTE, 500);
    t.equal(driven.accounts.transaction(charged.id).status, 'AWAITING_CUSTOMER');
    driven.provider.settle(charged, paid());
    if (isCalledBack) driven.hint(charged);
    await driven.clock.advance(2 * MINUTE, 500);
    t.equal(driven.accounts.transaction(charged.id).status, 'SUCCESSFUL');
  }
});

t.test(
  'what only the last enquiry finds to be accepted its account hears of, where its own time is not over',
  async (t) => {
    const driven = await new Driven().start();
    driven.accounts.aheadMs = -5 * MINUTE;
    driven.mtn.onSubmit = (transaction) => {
      driven.provider.submit(transaction);
      return LOST;
    };
    driven.mtn.onEnquire = () => LOST;
    const { id } = driven.accounts.create(charge());
    await driven.clock.advance(25 * MINUTE - 5_000, 500);
    t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
    driven.mtn.onEnquire = (transaction) => driven.provider.enquire(transaction);
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.accounts.transaction(id).status, 'AWAITING_CUSTOMER');
    await driven.clock.advance(5 * MINUTE, 500);
    t.hasStrict(driven.accounts.transaction(id), {
      status: 'FAILED',
      failureCode: 'expired',
      submitted: true,
    });
  },
);

t.test(
  'what a poller before may yet have said is waited for, though the time of the accounts leaps',
  async (t) => {
    const driven = await new Driven().start();
    driven.accounts.aheadMs = HOUR;
    driven.mtn.onSubmit = () => BUSY;
    const sent = driven.accounts.create(payout());
    const called = driven.accounts.create(payout());
    await driven.clock.advance(MINUTE);
    await driven.crash();
    driven.mtn.onEnquire = ({ id }) => (id === called.id ? LOST : { type: 'not_found' });
    driven.hint(called);
    // From the first one found the new poller knows what time it was then at its account; from this one, what it is.
    driven.accounts.create(charge({ msisdn: '+256702123456' }));
    await driven.clock.advance(LIMITS.pollerCommandDeadlineMs - 500);
    t.strictSame(driven.mtn.submits, []);
    t.notOk(driven.accounts.commands.some(({ type }) => type === 'NoteCallback'));
    await driven.clock.advance(3_000);
    t.strictSame(
      driven.mtn.submits.map(({ id }) => id),
      [sent.id],
    );
    t.ok(driven.accounts.commands.some(({ type }) => type === 'NoteCallback'));
  },
);
