// What pollers promise where more wait than a partition follows: it lets go of some and finds them again, and one rail's outage
// costs the others nothing.
import t from 'tap';
import type { EnquiryResult } from '../../src/rails/rail.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { charge, due, outcome, payout } from './domain/scenario.ts';
import { deferred, Driven, LOST, paid } from './pollers-driven.ts';

const AIRTEL = '+256702123456';

t.test(
  'more submits than a rail may have waiting wait their turn, and no more than may be followed',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.maxConcurrency = 0;
    const count = LIMITS.pollerPendingMax + 100;
    for (let i = 0; i < count; i++) driven.accounts.create(charge({ amount: '500' }));
    t.hasStrict(driven.pollers.railHealth(), [{ submitsWaiting: LIMITS.railQueueMax / 2 }, {}]);
    t.equal(driven.pollers.size, LIMITS.pollerPendingMax);
    t.strictSame(
      driven.notices.map(({ what }) => what),
      ['follows_too_many'],
    );
    driven.mtn.maxConcurrency = 10;
    await driven.clock.advance(40_000);
    t.equal(driven.mtn.submits.length, LIMITS.pollerPendingMax, 'all of them are sent');
  },
);

t.test('beyond its bound a partition lets go of accepted ones, and finds them again', async (t) => {
  const driven = await new Driven().start();
  const count = LIMITS.pollerPendingMax + 1_000;
  const all = Array.from({ length: count }, () => driven.accounts.create(charge({ amount: '500' })));
  t.equal(driven.mtn.submits.length, count, 'every one was sent');
  t.equal(driven.pollers.size, LIMITS.pollerPendingMax);
  t.strictSame(
    driven.notices.map(({ what }) => what),
    ['follows_too_many'],
    'told once',
  );

  const [last] = all.slice(-1);
  driven.provider.settle(last!, paid());
  driven.hint(last!);
  await driven.clock.advance(50);
  t.equal(driven.accounts.transaction(last!.id).status, 'SUCCESSFUL', 'a callback finds it');

  for (const { id } of all.slice(0, 20_000)) driven.accounts.when(outcome(id, 'FAILED'));
  await driven.clock.advance(10_000);
  t.equal(driven.pollers.size, count - 1 - 20_000, 'a scan finds the others');
});

t.test('one that is let go although a callback came is left to the scan, which finds it', async (t) => {
  const driven = await new Driven().start();
  const all = Array.from({ length: LIMITS.pollerPendingMax }, () =>
    driven.accounts.create(charge({ amount: '500' })),
  );
  const first = all[0]!;
  const enquiry = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => enquiry.promise;
  driven.hint(first);
  driven.hint(first);
  driven.mtn.onSubmit = () => new Promise(() => {});
  driven.accounts.create(charge({ amount: '500' }));
  t.equal(
    driven.pollers.size,
    LIMITS.pollerPendingMax + 1,
    'one more than it may follow, while a rail has it',
  );
  enquiry.resolve({ type: 'pending', providerStatus: 'PENDING' });
  await driven.clock.advance(50);
  t.equal(driven.pollers.size, LIMITS.pollerPendingMax);

  driven.provider.settle(first, paid());
  driven.mtn.onEnquire = (transaction) => driven.provider.enquire(transaction);
  for (const { id } of all.slice(1, 20_000)) driven.accounts.when(outcome(id, 'FAILED'));
  await driven.clock.advance(15_000);
  t.equal(driven.accounts.transaction(first.id).status, 'SUCCESSFUL');
});

t.test(
  'what its account has yet to be told was accepted is not let go: a scan would send it again',
  async (t) => {
    for (const [saidBy, afterMs] of [
      ['submit', 1_000],
      ['enquiry', 4_000],
    ] as const) {
      const driven = await new Driven().start();
      for (let n = 0; n < LIMITS.pollerPendingMax; n++) driven.accounts.create(charge({ amount: '500' }));
      driven.accounts.intercept = ({ type }) =>
        type === 'RecordSubmission' ? { type: 'unavailable' } : null;
      driven.mtn.onSubmit = (transaction) => {
        const answer = driven.provider.submit(transaction);
        return saidBy === 'submit' ? answer : LOST;
      };
      const { id } = driven.accounts.create(payout());
      await driven.clock.advance(afterMs);
      t.equal(driven.mtn.enquiries.length, saidBy === 'submit' ? 0 : 1);
      t.equal(driven.pollers.size, LIMITS.pollerPendingMax + 1, saidBy);
      t.strictSame(driven.notices, []);
      driven.accounts.intercept = () => null;
      await driven.clock.advance(3_000);
      t.ok(driven.accounts.transaction(id).submitted);
      t.equal(driven.pollers.size, LIMITS.pollerPendingMax, 'now it may go');
      t.strictSame(
        driven.notices.map(({ what, transactionId }) => [what, transactionId]),
        [['follows_too_many', id]],
      );
    }
  },
);

t.test('a rail that is down costs others nothing, however many wait for it', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 0;
  driven.airtel.maxConcurrency = 0;
  const each = LIMITS.pollerPendingMax / 2;
  const beyond = 1_000;
  const both = Array.from({ length: each + beyond }, () => {
    driven.accounts.create(charge({ amount: '500' }));
    return driven.accounts.create(charge({ amount: '500', msisdn: AIRTEL }));
  });
  t.equal(driven.pollers.size, LIMITS.pollerPendingMax);
  t.strictSame(new Set(driven.notices.map(({ provider }) => provider)), new Set(['mtn_ug', 'airtel_ug']));
  for (const { id } of both.slice(0, each)) {
    driven.accounts.when(outcome(id, 'FAILED'));
    driven.accounts.create(charge({ amount: '500' }));
  }
  driven.airtel.maxConcurrency = 100;
  await driven.clock.advance(15_000, LIMITS.pollerTickMs);
  t.equal(driven.airtel.submits.length, beyond, 'what was let go of while both were down');

  const isPaidSoon = async (
    when: string,
    between = (): Promise<void> => Promise.resolve(),
  ): Promise<void> => {
    const transaction = driven.accounts.create(charge({ msisdn: AIRTEL }));
    driven.provider.settle(transaction, paid());
    await between();
    // On a busy machine ticks are late.
    await driven.clock.advance(15_000, 5 * LIMITS.pollerTickMs);
    t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL', when);
    t.ok(driven.pollers.size <= LIMITS.pollerPendingMax);
  };
  await isPaidSoon('by a poller that follows all it may');
  await isPaidSoon('by one that begins, and finds more than it may follow', () => {
    return driven.crash(() => void (driven.mtn.maxConcurrency = 0));
  });
});

t.test(
  'of what expires unfollowed while its account says nothing, no more is asked about than may be looked at',
  async (t) => {
    const driven = new Driven();
    driven.routes = { 'UG:MTN': 'mtn_ug' };
    await driven.crash();
    const { accounts, clock } = driven;
    const count = LIMITS.pollerLateMax + 10;
    const unfollowed = Array.from({ length: count }, () => {
      return accounts.create(charge({ amount: '500', msisdn: AIRTEL }));
    });
    const last = accounts.create(charge({ amount: '500', msisdn: AIRTEL }));
    t.equal(driven.pollers.size, 0);
    await clock.advance(1_800_000, 60_000);

    const asked = new Set<string>();
    let answers = false;
    accounts.intercept = (message) => {
      if (message.type !== 'GetPending') return null;
      asked.add((message as { readonly transactionId: string }).transactionId);
      return answers ? null : { type: 'unavailable' };
    };
    const expire = ({ id }: Transaction): void => accounts.when(due('ExpireTransaction', id));
    unfollowed.forEach(expire);
    await clock.advance(10_000);
    t.equal(asked.size, LIMITS.pollerLateMax);
    answers = true;
    await clock.advance(120_000, 1_000);
    expire(last);
    t.ok(asked.has(last.id), 'once they are answered there is room again');
  },
);
