// What pollers do about a transaction that is final: look whether its provider says otherwise, within bounds, and never send
// it again.
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult } from '../../src/rails/rail.ts';
import { charge, outcome, payout } from './domain/scenario.ts';
import { deferred, Driven, LOST, paid, reversed } from './pollers-driven.ts';

const MINUTE = 60_000;

t.test('what is final is never sent again, though its provider does not know it', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => LOST;
  driven.mtn.onEnquire = () => LOST;
  const expired = driven.accounts.create(charge());
  await driven.clock.advance(32 * MINUTE, 1_000);
  const returned = driven.accounts.create(payout());
  driven.accounts.when(outcome(returned.id, 'FAILED'));
  t.equal(driven.mtn.submits.length, 2);
  driven.mtn.onEnquire = () => ({ type: 'not_found' });
  driven.hint(returned);
  await driven.clock.advance(120 * MINUTE, 1_000);
  for (const { id } of [expired, returned]) t.ok(driven.mtn.enquiriesOf(id).length > 0, 'it was looked at');
  t.equal(driven.mtn.submits.length, 2);
});

t.test('only so many are looked at again after they expired', async (t) => {
  const driven = await new Driven().start();
  const all = Array.from({ length: LIMITS.pollerLateMax + 10 }, () =>
    driven.accounts.create(charge({ amount: '500' })),
  );
  await driven.clock.advance(30 * MINUTE - 1_000, 10_000);
  await driven.clock.advance(10_000);
  t.ok(all.every(({ id }) => driven.accounts.transaction(id).status === 'FAILED'));
  const before = driven.mtn.enquiries.length;
  await driven.clock.advance(15 * MINUTE, 1_000);
  const lookedAt = new Set(driven.mtn.enquiries.slice(before).map(({ id }) => id));
  t.equal(lookedAt.size, LIMITS.pollerLateMax);
});

t.test('a reversal that is answered after its account took the success is looked into', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<EnquiryResult>();
  const transaction = driven.accounts.create(charge());
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
  driven.mtn.onEnquire = () => reversed();
  answer.resolve(reversed());
  await driven.clock.advance(5_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
});

t.test('a callback while an expired charge is looked at is answered soon', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => LOST;
  driven.mtn.onEnquire = () => LOST;
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(32 * MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'FAILED');
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  driven.hint(transaction);
  driven.mtn.onEnquire = () => paid();
  answer.resolve({ type: 'pending', providerStatus: null });
  await driven.clock.advance(5_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});
