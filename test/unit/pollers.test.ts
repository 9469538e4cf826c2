// What pollers promise about one transaction: sent once under one reference, asked about until it is final, expired only
// after a last enquiry, and never ended by a time-out when money goes out.
import t from 'tap';
import type { Message } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult, SubmitResult } from '../../src/rails/rail.ts';
import { ACCOUNT, charge, deposit, due, MEMBER, outcome, payout, withdrawal } from './domain/scenario.ts';
import { BUSY, declined, deferred, Driven, LOST, paid, reversed } from './pollers-driven.ts';

const MINUTE = 60_000;
const UNAVAILABLE = { type: 'unavailable' } as const;

t.test(
  'a charge is submitted in the turn in which it is durable, and its account told of acceptance',
  async (t) => {
    const driven = await new Driven().start();
    const { id } = driven.accounts.create(charge());
    t.equal(driven.mtn.submits.length, 1);
    t.hasStrict(driven.accounts.transaction(id), { status: 'AWAITING_CUSTOMER', submitted: true });
    t.equal(driven.accounts.transaction(id).events.at(-1)?.providerStatus, '202');
    t.equal(driven.airtel.submits.length, 0);
  },
);

t.test('enquiries begin after ten seconds, slow down, and are never closer than ten seconds', async (t) => {
  const driven = await new Driven().start();
  const { id, createdAt } = createdBy(driven, charge());
  await driven.clock.advance(25 * MINUTE);
  const times = driven.mtn.enquiriesOf(id);
  t.ok(times.length >= 25 && times.length <= 33, `${times.length} enquiries in 25 minutes`);
  t.ok(times[0]! - createdAt >= 10_000 && times[0]! - createdAt <= 13_000, 'the first');
  const gaps = times.slice(1).map((at, i) => at - times[i]!);
  t.ok(
    gaps.every((gap) => gap >= 10_000),
    gaps.join(' '),
  );
  t.ok(gaps.at(-1)! >= 50_000, 'the last is nearly a minute');
  t.ok(Math.max(...gaps) <= MINUTE + 50, 'a lost callback is made up for within about a minute');
});

t.test('what polling finds is told with its source, and then nothing more is asked', async (t) => {
  const driven = await new Driven().start();
  const paying = driven.accounts.create(charge());
  const declining = driven.accounts.create(charge());
  driven.provider.settle(paying, paid());
  driven.provider.settle(declining, declined());
  await driven.clock.advance(20_000);
  t.hasStrict(driven.accounts.transaction(paying.id), { status: 'SUCCESSFUL', providerTransactionId: 'P1' });
  t.equal(driven.accounts.transaction(paying.id).events.at(-1)?.source, 'PROVIDER_POLL');
  t.hasStrict(driven.accounts.transaction(declining.id), {
    status: 'FAILED',
    failureCode: 'customer_declined',
  });
  const asked = driven.mtn.enquiries.length;
  await driven.clock.advance(10 * MINUTE);
  t.equal(driven.mtn.enquiries.length, asked);
  t.equal(driven.pollers.size, 0, 'nothing is followed');
});

t.test('an outcome in the answer to the submit is told at once', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => paid();
  t.equal(driven.accounts.create(charge()).status, 'SUCCESSFUL');
  driven.mtn.onSubmit = () => declined({ failureCode: 'provider_rejected', ourFault: true });
  t.hasStrict(driven.accounts.create(payout()), { status: 'FAILED', failureCode: 'provider_rejected' });
  t.hasStrict(driven.notices[0], { what: 'our_fault', provider: 'mtn_ug' });
  t.equal(driven.notices.length, 1);
  t.hasStrict(driven.pollers.railHealth(), [{ id: 'mtn_ug', ourFaults: 1 }, { id: 'airtel_ug' }]);
});

t.test('operators hear why a rail refuses us, as far as anybody says it', async (t) => {
  const driven = await new Driven().start();
  const refused = { failureCode: 'provider_rejected', ourFault: true } as const;
  for (const [providerStatus, failureMessage, detail] of [
    ['400', 'payerMessage is too long', '400: payerMessage is too long'],
    [null, 'mtn_ug has no credentials to send.', 'mtn_ug has no credentials to send.'],
    ['NOT_ENOUGH_FUNDS', null, 'NOT_ENOUGH_FUNDS'],
    [null, null, null],
  ] as const) {
    driven.mtn.onSubmit = () => declined({ ...refused, providerStatus, failureMessage });
    driven.accounts.create(payout());
    t.hasStrict(driven.notices.pop(), { what: 'our_fault', detail });
  }
});

t.test(
  'a lost answer: enquire; unknown to the provider after the grace: the same reference again',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => LOST;
    const { id } = driven.accounts.create(payout());
    t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
    await driven.clock.advance(4_500);
    t.equal(driven.mtn.enquiries.length, 1);
    t.equal(driven.mtn.submits.length, 1, 'within the grace period not_found says nothing');
    driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
    await driven.clock.advance(2_000);
    t.equal(driven.mtn.submits.length, 2);
    t.equal(new Set(driven.mtn.submits.map(({ reference }) => reference)).size, 1);
    t.ok(driven.accounts.transaction(id).submitted);
  },
);

t.test('a lost answer to a submit that arrived: found by the enquiry, not sent again', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = (transaction) => {
    driven.provider.submit(transaction);
    return LOST;
  };
  const { id } = driven.accounts.create(charge());
  await driven.clock.advance(5_000);
  t.equal(driven.accounts.transaction(id).status, 'AWAITING_CUSTOMER');
  await driven.clock.advance(MINUTE);
  t.equal(driven.mtn.submits.length, 1);
  const told = driven.accounts.commands.filter(({ type }) => type === 'RecordSubmission');
  t.equal(told.length, 1, 'its account is told once');
});

t.test(
  'refused for a passing reason: the same reference again with back-off, until it is accepted',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => BUSY;
    const { id } = driven.accounts.create(charge());
    await driven.clock.advance(MINUTE);
    const tries = driven.mtn.submits.length;
    t.ok(tries >= 4 && tries <= 8, `${tries} tries in a minute`);
    t.equal(driven.mtn.enquiries.length, 0, 'the provider said that it did not take it');
    driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
    await driven.clock.advance(2 * MINUTE);
    t.equal(driven.accounts.transaction(id).status, 'AWAITING_CUSTOMER');
    t.equal(new Set(driven.mtn.submits.map(({ reference }) => reference)).size, 1);
  },
);

t.test('a charge that nobody answers expires after one last enquiry', async (t) => {
  const driven = await new Driven().start();
  const { id, expiresAt } = driven.accounts.create(charge());
  await driven.clock.advance(30 * MINUTE + 1_000);
  t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
  t.ok(driven.mtn.enquiriesOf(id).at(-1)! >= expiresAt!, 'it asked once more');
  t.equal(driven.pollers.size, 0);
});

t.test(
  'what expires by the time of its account is not waited for until the clock here has caught up',
  async (t) => {
    const driven = await new Driven().start();
    driven.accounts.aheadMs = 60 * MINUTE;
    const before = driven.accounts.create(charge());
    await driven.crash();
    const after = driven.accounts.create(charge());
    const [recovered, told] = [before, after].map(
      ({ id }) =>
        () =>
          driven.accounts.transaction(id),
    );
    await driven.clock.advance(29 * MINUTE);
    t.equal(told!().status, 'AWAITING_CUSTOMER', 'not before its time either');
    // From what it has heard of, its time runs on a little slowly.
    await driven.clock.advance(3 * MINUTE);
    const expired = { status: 'FAILED', failureCode: 'expired' };
    t.hasStrict([recovered!(), told!()], [expired, expired]);
    const deadlines = driven.accounts.commands.map(({ deadline }) => deadline);
    t.ok(
      deadlines.length > 0 && Math.max(...deadlines) <= driven.clock.now() + LIMITS.pollerCommandDeadlineMs,
    );
  },
);

t.test('what a scan finds tells the time of its account, too', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.aheadMs = 60 * MINUTE;
  const { id } = driven.accounts.create(charge());
  await driven.crash();
  await driven.clock.advance(32 * MINUTE);
  t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
});

t.test('an approval in the last moment still succeeds', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(30 * MINUTE - 100);
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(1_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
});

t.test('a last enquiry without a usable answer is tried again, then the charge expires', async (t) => {
  const driven = await new Driven().start();
  const { id, expiresAt } = driven.accounts.create(deposit());
  driven.mtn.onEnquire = () => LOST;
  await driven.clock.advance(32 * MINUTE);
  t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
  const last = driven.mtn.enquiriesOf(id).filter((at) => at >= expiresAt!);
  t.equal(last.length, 3);
  t.ok(
    last.every((at, i) => i === 0 || at - last[i - 1]! >= 10_000),
    'not all at once',
  );
  t.ok(driven.accounts.transaction(id).events.at(-1)!.at <= expiresAt! + MINUTE);
});

t.test('a charge that the provider certainly never took fails as provider_unavailable', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  driven.airtel.onSubmit = () => LOST;
  const refused = driven.accounts.create(charge());
  const lost = driven.accounts.create(charge({ msisdn: '+256702123456' }));
  await driven.clock.advance(32 * MINUTE);
  for (const { id } of [refused, lost]) {
    const transaction = driven.accounts.transaction(id);
    t.hasStrict(transaction, { status: 'FAILED', failureCode: 'provider_unavailable' });
    t.equal(transaction.events.at(-1)?.source, 'SYSTEM');
  }
  t.equal(driven.mtn.enquiries.length, 0, 'what was certainly not taken is not asked about');
});

t.test(
  'a charge that its provider took never counts as not taken, though its account could not be told',
  async (t) => {
    const driven = await new Driven().start();
    driven.accounts.intercept = ({ type }) => (type === 'RecordSubmission' ? UNAVAILABLE : null);
    driven.mtn.onEnquire = () => LOST;
    const { id } = driven.accounts.create(charge());
    await driven.clock.advance(32 * MINUTE);
    t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
  },
);

t.test('a charge that its provider ended at once never counts as not taken', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => paid();
  driven.mtn.onEnquire = () => LOST;
  driven.accounts.intercept = (message) =>
    'outcome' in message && message.outcome === 'SUCCESSFUL' ? UNAVAILABLE : null;
  const { id } = driven.accounts.create(charge());
  await driven.clock.advance(32 * MINUTE, 500);
  t.equal(driven.mtn.submits.length, 1);
  t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
});

t.test('a charge whose submit is out when it expires is not ended before the answer', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 0;
  const { id } = driven.accounts.create(charge());
  await driven.clock.advance(27 * MINUTE);
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  driven.mtn.maxConcurrency = 1;
  await driven.clock.advance(3 * MINUTE + 10_000);
  t.equal(driven.mtn.submits.length, 1);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
  answer.resolve(paid());
  await driven.clock.advance(50);
  t.equal(driven.accounts.transaction(id).status, 'SUCCESSFUL');
});

t.test('a charge whose submit was lost on a silent rail expires, and a payment is found later', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = (transaction) => {
    driven.provider.submit(transaction);
    return LOST;
  };
  driven.mtn.onEnquire = () => LOST;
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(32 * MINUTE);
  t.hasStrict(driven.accounts.transaction(transaction.id), { status: 'FAILED', failureCode: 'expired' });
  driven.provider.settle(transaction, paid());
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(60 * MINUTE, 1_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  await driven.clock.advance(MINUTE);
  t.equal(driven.pollers.size, 0);
});

t.test('a payment is found later, too, where the account expired it while its submit was out', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = (transaction) => {
    driven.provider.submit(transaction);
    return answer.promise;
  };
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  driven.accounts.when(due('ExpireTransaction', transaction.id));
  t.hasStrict(driven.accounts.transaction(transaction.id), { status: 'FAILED', failureCode: 'expired' });
  answer.resolve(LOST);
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(60 * MINUTE, 1_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});

t.test('a payout is never ended by a time-out', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => LOST;
  driven.mtn.onEnquire = () => LOST;
  driven.airtel.onSubmit = () => BUSY;
  const lost = driven.accounts.create(payout());
  const busy = driven.accounts.create(payout({ msisdn: '+256702123456' }));
  await driven.clock.advance(24 * 60 * MINUTE, 1_000);
  t.equal(driven.accounts.transaction(lost.id).status, 'PENDING_PROVIDER');
  t.equal(driven.accounts.transaction(busy.id).status, 'PENDING_PROVIDER');
  driven.mtn.onEnquire = (transaction) => driven.provider.enquire(transaction);
  driven.provider.settle(lost, paid());
  await driven.clock.advance(10 * MINUTE, 1_000);
  t.equal(driven.accounts.transaction(lost.id).status, 'SUCCESSFUL');
});

t.test('a provider that forgets an accepted payout is not paid twice', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.notFoundGraceMs = MINUTE;
  const { id } = driven.accounts.create(payout());
  driven.provider.accepted.clear();
  await driven.clock.advance(MINUTE - 1_000);
  t.ok(driven.mtn.enquiries.length > 0);
  t.strictSame(driven.notices, [], 'within its grace it says nothing');
  await driven.clock.advance(60 * MINUTE, 1_000);
  t.equal(driven.mtn.submits.length, 1);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
  t.strictSame(
    driven.notices.map(({ what }) => what),
    ['provider_forgot'],
    'an operator is told once',
  );
});

t.test('a payout that its provider never takes is brought to an operator, once, and goes on', async (t) => {
  for (const answer of [BUSY, { type: 'unknown', reason: 'code NEW_RULE' }] as const) {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = (transaction) =>
      transaction.amount === 777 ? answer : driven.provider.submit(transaction);
    const { id } = driven.accounts.create(payout({ amount: '777' }));
    // Others are taken meanwhile: the rail is up.
    for (let minute = 0; minute < 60; minute++) {
      for (let n = 0; n < 10; n++) driven.accounts.create(charge());
      await driven.clock.advance(MINUTE, 1_000);
    }
    t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
    const tries = driven.mtn.submits.filter((submit) => submit.id === id).length;
    t.ok(tries > 40, `${answer.type}: submitted ${tries} times`);
    t.equal(
      new Set(driven.mtn.submits.filter((submit) => submit.id === id).map((submit) => submit.reference)).size,
      1,
    );
    t.strictSame(driven.notices, [
      {
        what: 'never_accepted',
        provider: 'mtn_ug',
        transactionId: id,
        detail: `20 submits, the last: ${answer.reason}`,
      },
    ]);
  }
});

t.test(
  'while a provider takes nothing at all, its health says so, and nobody is told of each payout',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => BUSY;
    for (let n = 0; n < 5; n++) driven.accounts.create(payout());
    await driven.clock.advance(150 * MINUTE, 1_000);
    t.ok(driven.mtn.submits.length > 5 * 25, 'each often enough');
    t.equal(driven.pollers.railHealth().find(({ id }) => id === 'mtn_ug')?.breaker === 'closed', false);
    t.strictSame(driven.notices, []);
  },
);

t.test('a withdrawal is sent when approved, not before; one that needs no approval at once', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(withdrawal({ amount: '6000000' }));
  await driven.clock.advance(MINUTE);
  t.equal(driven.mtn.submits.length, 0);
  driven.accounts.when({
    type: 'ApproveWithdrawal',
    accountId: ACCOUNT,
    deadline: Number.MAX_SAFE_INTEGER,
    operator: 'amina',
    transactionId: id,
    by: MEMBER,
  });
  await driven.clock.advance(50);
  t.equal(driven.mtn.submits.length, 1);
  t.ok(driven.accounts.transaction(id).submitted);
  driven.accounts.create(withdrawal({ amount: '5000' }));
  t.equal(driven.mtn.submits.length, 2);
});

t.test('a withdrawal that is approved while its account does not answer is sent later', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(withdrawal({ amount: '6000000' }));
  driven.accounts.intercept = ({ type }) => (type.endsWith('Pending') ? UNAVAILABLE : null);
  driven.accounts.when({
    type: 'ApproveWithdrawal',
    accountId: ACCOUNT,
    deadline: Number.MAX_SAFE_INTEGER,
    operator: 'amina',
    transactionId: id,
    by: MEMBER,
  });
  await driven.clock.advance(5 * MINUTE, 500);
  t.equal(driven.mtn.submits.length, 0);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(2 * MINUTE);
  t.equal(driven.mtn.submits.length, 1);
});

t.test('a reversal is found when a callback speaks of it', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, paid());
  driven.hint(transaction);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  await driven.clock.advance(5_000);
  driven.provider.settle(transaction, reversed());
  driven.hint(transaction);
  await driven.clock.advance(100);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
  await driven.clock.advance(MINUTE);
  t.equal(driven.pollers.size, 0);
});

t.test('a success after expiry becomes a reconciliation item, once, and changes nothing', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  driven.provider.settle(transaction, paid());
  for (let i = 0; i < 3; i++) {
    driven.hint(transaction);
    await driven.clock.advance(MINUTE);
  }
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  t.hasStrict(driven.accounts.transaction(transaction.id), { status: 'FAILED', failureCode: 'expired' });
});

t.test('a payment after expiry is found without a callback, within the hour', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(60 * MINUTE, 1_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  const forgotten = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE, 1_000);
  const asked = driven.mtn.enquiriesOf(forgotten.id).length;
  await driven.clock.advance(14 * 24 * 60 * MINUTE, 10_000);
  t.equal(
    driven.mtn.enquiriesOf(forgotten.id).length - asked,
    5,
    'it is looked at a few times, then never again',
  );
});

t.test('a success for another amount is a reconciliation item; the charge expires in its time', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge({ amount: '50000' }));
  driven.provider.settle(transaction, paid({ amount: 5, currency: 'UGX' }));
  await driven.clock.advance(29 * MINUTE);
  t.strictSame(driven.accounts.reconciliation(), ['AMOUNT_MISMATCH']);
  t.equal(driven.accounts.transaction(transaction.id).status, 'AWAITING_CUSTOMER');
  t.ok(driven.mtn.enquiries.length < 40, `${driven.mtn.enquiries.length} enquiries`);
  await driven.clock.advance(2 * MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'FAILED');
  await driven.clock.advance(5 * MINUTE);
  t.equal(driven.pollers.size, 0);
});

t.test('an outcome that its account cannot take now is told again until it does', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, paid());
  let refusals = 0;
  driven.accounts.intercept = ({ type }: Message) => {
    if (type !== 'RecordOutcome' || ++refusals > 5) return null;
    return refusals % 2 === 0 ? { type: 'unknown' } : UNAVAILABLE;
  };
  driven.hint(transaction);
  await driven.clock.advance(MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  t.equal(driven.mtn.enquiries.length, 1, 'the provider was not asked again');
});

t.test('an account that is away for long is told in the end', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(payout());
  driven.provider.settle(transaction, paid());
  driven.accounts.intercept = () => UNAVAILABLE;
  await driven.clock.advance(30 * MINUTE, 500);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(6 * MINUTE, 500);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
});

t.test('what its account ended on its own is followed no more', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  const { id } = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  driven.accounts.when(due('ExpireTransaction', id));
  t.equal(driven.accounts.transaction(id).status, 'FAILED');
  t.equal(driven.pollers.size, 0);
  answer.resolve({ type: 'accepted', providerStatus: null });
  await driven.clock.advance(MINUTE);
  t.equal(driven.pollers.size, 0);
});

t.test(
  'what its account ended while it was asked about is followed no more, and a success looked into',
  async (t) => {
    for (const [result, kinds] of [
      [{ type: 'pending', providerStatus: null }, []],
      [paid(), ['SUCCESS_AFTER_FINAL']],
    ] as const) {
      const driven = await new Driven().start();
      const answer = deferred<EnquiryResult>();
      const transaction = driven.accounts.create(payout());
      driven.mtn.onEnquire = () => answer.promise;
      driven.hint(transaction);
      driven.accounts.when(outcome(transaction.id, 'FAILED'));
      t.equal(driven.pollers.size, 0);
      driven.mtn.onEnquire = () => result;
      answer.resolve(result);
      await driven.clock.advance(10 * MINUTE, 500);
      t.strictSame(driven.accounts.reconciliation(), kinds);
      t.equal(driven.pollers.inFlight, 0);
    }
  },
);

t.test('a transaction over a rail that is not there is told of, and waits', async (t) => {
  const driven = new Driven();
  driven.accounts.scenario.policy = {
    ...driven.accounts.scenario.policy,
    routes: { 'UG:MTN': 'removed' },
  };
  await driven.start();
  const { id } = driven.accounts.create(payout());
  await driven.clock.advance(MINUTE);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
  t.hasStrict(driven.notices[0], { what: 'no_rail', provider: 'removed', transactionId: id });
  t.equal(driven.notices.length, 1);
});

t.test('a transaction whose rail has another country by now is told of, and not sent there', async (t) => {
  for (const hasEnded of [false, true]) {
    const driven = new Driven();
    const { id } = driven.accounts.create(payout());
    if (hasEnded) driven.accounts.when(outcome(id, 'SUCCESSFUL'));
    driven.routes = { 'KE:MTN': 'mtn_ug' };
    await driven.crash();
    const replies: string[] = [];
    driven.hint({ id }, ({ type }) => replies.push(type));
    await driven.clock.advance(5 * MINUTE);
    t.equal(driven.accounts.transaction(id).status, hasEnded ? 'SUCCESSFUL' : 'PENDING_PROVIDER');
    t.equal(driven.mtn.submits.length + driven.mtn.enquiries.length, 0);
    t.hasStrict(driven.notices[0], { what: 'no_rail', provider: 'mtn_ug', transactionId: id });
    t.strictSame(replies, ['unavailable'], 'nor is a callback of it looked into');
  }
});

t.test('an adapter that throws is our fault, and counts as a lost answer', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => {
    throw new Error('bug');
  };
  driven.mtn.onEnquire = () => Promise.reject(new Error('bug'));
  const { id } = driven.accounts.create(payout());
  await driven.clock.advance(4_000);
  t.equal(driven.faults.length, 2);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
  t.hasStrict(driven.pollers.railHealth(), [{ submits: 1, enquiries: 1, failures: 2, ourFaults: 0 }, {}]);
  driven.mtn.onSubmit = () => Promise.reject(new Error('bug'));
  driven.mtn.onEnquire = () => {
    throw new Error('bug');
  };
  driven.accounts.create(payout());
  await driven.clock.advance(4_000);
  t.equal(driven.faults.length, 4);
});

function createdBy(driven: Driven, command: ReturnType<typeof charge>): { id: string; createdAt: number } {
  const { id, events } = driven.accounts.create(command);
  return { id, createdAt: events[0]!.at };
}
