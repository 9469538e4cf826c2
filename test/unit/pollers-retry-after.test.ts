// What pollers promise about a provider that asks to be left alone for a while (Retry-After): what it said that of waits at
// least so long, and everything waits where it says so of most calls.
import t from 'tap';
import { Breaker } from '../../actors/pollers/breaker.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { charge, payout } from './domain/scenario.ts';
import { BUSY, Driven, LOST, paid, settledCharge } from './pollers-driven.ts';

const SECOND = 1_000;
const MINUTE = 60_000;
const RETRY_AFTER_MS = 90_000;
const ASKED = { ...BUSY, retryAfterMs: RETRY_AFTER_MS } as const;
const ASKED_LATER = { ...LOST, retryAfterMs: RETRY_AFTER_MS } as const;

const submitsOf = (driven: Driven, { id }: Transaction): number[] =>
  driven.mtn.submits.filter((submit) => submit.id === id).map(({ at }) => at);

t.test('a submit that is refused for a while is not repeated meanwhile', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => ASKED;
  const paidOut = driven.accounts.create(payout());
  const [at = 0] = submitsOf(driven, paidOut);
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  await driven.clock.advance(RETRY_AFTER_MS - SECOND, SECOND);
  t.equal(submitsOf(driven, paidOut).length, 1);
  const others = driven.accounts.create(payout({ reference: 'another' }));
  t.equal(submitsOf(driven, others).length, 1, 'it was said of one alone: others go their way');
  await driven.clock.advance(0.2 * RETRY_AFTER_MS + 2 * SECOND, SECOND);
  const [, again = 0] = submitsOf(driven, paidOut);
  t.ok(again - at >= RETRY_AFTER_MS, `${again - at} ms`);
});

t.test('after a submit whose answer says nothing but to wait, the enquiry waits', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => ASKED_LATER;
  const paidOut = driven.accounts.create(payout());
  await driven.clock.advance(RETRY_AFTER_MS, SECOND);
  t.equal(driven.mtn.enquiries.length, 0);
  await driven.clock.advance(0.2 * RETRY_AFTER_MS, SECOND);
  t.equal(driven.mtn.enquiriesOf(paidOut.id).length, 1);
});

t.test('enquiries wait, also those that callbacks cause, until one comes after that', async (t) => {
  for (const isFinal of [false, true]) {
    const driven = await new Driven().start();
    const transaction = isFinal ? await settledCharge(driven, 5 * SECOND) : driven.accounts.create(charge());
    driven.mtn.onEnquire = () => {
      driven.hint(transaction);
      driven.mtn.onEnquire = () => ASKED_LATER;
      return ASKED_LATER;
    };
    await driven.clock.advance(5 * SECOND);
    driven.hint(transaction);
    await driven.clock.advance(RETRY_AFTER_MS - 10 * SECOND, SECOND);
    t.equal(driven.mtn.enquiriesOf(transaction.id).length, 1, 'one came while it was asked about');
    driven.hint(transaction);
    await driven.clock.advance(SECOND);
    t.equal(driven.mtn.enquiriesOf(transaction.id).length, 2, 'its provider speaks again');
  }
});

t.test('a charge that is told to wait beyond its end ends in its time', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => ASKED;
  driven.mtn.onEnquire = () => ASKED_LATER;
  const never = driven.accounts.create(charge());
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  await driven.clock.advance(SECOND);
  const taken = driven.accounts.create(charge({ reference: 'taken' }));
  driven.mtn.onSubmit = () => ASKED;
  await driven.clock.advance(29 * MINUTE, SECOND);
  t.equal(driven.accounts.transaction(never.id).failureCode, 'provider_unavailable');
  t.equal(driven.accounts.transaction(taken.id).status, 'AWAITING_CUSTOMER');
  await driven.clock.advance(2 * MINUTE, SECOND);
  t.equal(driven.accounts.transaction(taken.id).failureCode, 'expired');
});

t.test(
  'a rail all of whose calls are told to wait waits, and everything is paid once after that',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => ASKED;
    const all = Array.from({ length: 40 }, (_, i) =>
      driven.accounts.create(payout({ amount: '1000', reference: `order-${i}` })),
    );
    await driven.clock.advance(10 * SECOND);
    const told = driven.clock.now();
    const { length } = driven.mtn.submits;
    t.ok(length < all.length, `${length} of ${all.length} were made`);
    t.match(driven.pollers.railHealth()[0], { breaker: 'open', health: 'DOWN' });
    driven.mtn.onSubmit = (transaction) => {
      const answer = driven.provider.submit(transaction);
      driven.provider.settle(transaction, paid());
      return answer;
    };
    await driven.clock.advance(RETRY_AFTER_MS - 10 * SECOND, SECOND);
    t.equal(driven.mtn.submits.length, length, 'none meanwhile');
    await driven.clock.advance(3 * MINUTE, SECOND);
    for (const transaction of all) {
      t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
      t.ok(submitsOf(driven, transaction).length <= 2);
    }
    t.ok(driven.mtn.submits.slice(length).every(({ at }) => at >= told + RETRY_AFTER_MS - 10 * SECOND));
  },
);

t.test('enquiries that are told to wait hold up no submit of a rail that takes those', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onEnquire = () => ASKED_LATER;
  for (let i = 0; i < 40; i++) driven.accounts.create(payout({ amount: '1000', reference: `order-${i}` }));
  await driven.clock.advance(14 * SECOND, 100);
  t.match(driven.pollers.railHealth()[0], { breaker: 'open' });
  const { length } = driven.mtn.submits;
  for (let i = 0; i < 5; i++) driven.accounts.create(payout({ amount: '1000', reference: `later-${i}` }));
  await driven.clock.advance(5 * SECOND, 100);
  t.equal(driven.mtn.submits.length, length + 5);
});

t.test('a payment that a provider stumbles over again and again holds up no other', (t) => {
  const breaker = new Breaker(() => 0);
  const fails = (isRepeat: boolean, retryAfterMs?: number): void =>
    breaker.failed(0, breaker.started(), isRepeat, retryAfterMs);
  fails(true, RETRY_AFTER_MS);
  while (breaker.state === 'closed') fails(false);
  t.equal(breaker.reopensAt, 2 * SECOND, 'the rail went down, and said nothing');
  t.ok(breaker.allows(breaker.reopensAt));
  fails(true, RETRY_AFTER_MS);
  t.equal(breaker.state, 'half_open');
  // Nearly all that waits for a rail that is down has failed before.
  while (breaker.state === 'half_open') fails(true, RETRY_AFTER_MS);
  t.equal(breaker.reopensAt, RETRY_AFTER_MS, 'it says so of each that is tried');
  t.end();
});
