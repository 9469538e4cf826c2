// What pollers make of a callback: an enquiry, never more; one that is not lost whatever the transaction is at, and that
// changes neither whose turn it is nor what its account is told.
import t from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult, SubmitResult } from '../../src/rails/rail.ts';
import { ACCOUNT, charge, MEMBER, outcome, payout, withdrawal } from './domain/scenario.ts';
import { BUSY, declined, deferred, Driven, LOST, paid, reversed, settledCharge } from './pollers-driven.ts';

const MINUTE = 60_000;
const UNAVAILABLE = { type: 'unavailable' } as const;

t.test('a callback causes an enquiry at once; a storm of them few', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  for (let i = 0; i < 100; i++) t.hasStrict(driven.hint(transaction), { type: 'done' });
  t.equal(driven.mtn.enquiries.length, 1);
  await driven.clock.advance(1_000);
  t.equal(driven.mtn.enquiries.length, 1);
  await driven.clock.advance(1_500);
  t.equal(driven.mtn.enquiries.length, 2, 'one more for all the others');
  driven.provider.settle(transaction, paid());
  driven.hint(transaction);
  await driven.clock.advance(3_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  t.equal(driven.accounts.transaction(transaction.id).events.at(-1)?.source, 'PROVIDER_CALLBACK');
});

t.test('a callback while it is enquired about is answered by one more enquiry, soon', async (t) => {
  for (const said of [{ type: 'pending', providerStatus: null }, LOST] as const) {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(charge());
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    driven.hint(transaction);
    driven.hint(transaction);
    driven.provider.settle(transaction, paid());
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    answer.resolve(said);
    await driven.clock.advance(3_000);
    t.equal(driven.mtn.enquiries.length, 2);
    t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  }
});

t.test(
  'a callback while its provider does not find it has it asked again, soon, and not sent again',
  async (t) => {
    for (const inGrace of [true, false]) {
      const driven = await new Driven().start();
      driven.mtn.notFoundGraceMs = inGrace ? 2 * MINUTE : 1_000;
      driven.mtn.onSubmit = () => LOST;
      const answer = deferred<EnquiryResult>();
      driven.mtn.onEnquire = () => answer.promise;
      const transaction = driven.accounts.create(payout());
      await driven.clock.advance(5_000);
      t.equal(driven.mtn.enquiries.length, 1);
      driven.provider.settle(transaction, paid());
      driven.hint(transaction);
      driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
      answer.resolve({ type: 'not_found' });
      await driven.clock.advance(3_000);
      t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
      t.equal(driven.mtn.submits.length, 1);
    }
  },
);

t.test('a callback before the answer to the submit is answered after it', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = (transaction) => answer.promise.then(() => driven.provider.submit(transaction));
  const transaction = driven.accounts.create(charge());
  driven.hint(transaction);
  t.equal(driven.mtn.enquiries.length, 0);
  answer.resolve({ type: 'accepted', providerStatus: null });
  await driven.clock.advance(50);
  t.equal(driven.mtn.enquiries.length, 1);
  t.equal(driven.accounts.transaction(transaction.id).status, 'AWAITING_CUSTOMER');
});

t.test('a callback about one that waits for its turn with the rail leaves it its turn', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 0;
  const transaction = driven.accounts.create(payout());
  driven.hint(transaction);
  await driven.clock.advance(1_000);
  t.equal(driven.mtn.submits.length, 0);
  driven.mtn.maxConcurrency = 1;
  await driven.clock.advance(1_000);
  t.equal(driven.mtn.submits.length, 1);
  t.equal(driven.mtn.enquiries.length, 1, 'and is answered after it');
  t.ok(driven.accounts.transaction(transaction.id).submitted);
});

t.test('a callback while a submit is out is answered by an enquiry when the submit is refused', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = (transaction) => {
    driven.provider.submit(transaction);
    return answer.promise;
  };
  const transaction = driven.accounts.create(payout());
  driven.hint(transaction);
  answer.resolve(BUSY);
  await driven.clock.advance(MINUTE);
  t.equal(driven.mtn.submits.length, 1, 'it is not sent again');
  t.ok(driven.accounts.transaction(transaction.id).submitted);
});

t.test('a charge that a callback speaks of was taken, whatever its submit was answered', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  driven.mtn.onEnquire = () => LOST;
  const transaction = driven.accounts.create(charge());
  driven.hint(transaction);
  await driven.clock.advance(32 * MINUTE);
  t.equal(driven.mtn.submits.length, 1, 'it is asked about, not sent again');
  t.hasStrict(driven.accounts.transaction(transaction.id), { status: 'FAILED', failureCode: 'expired' });
  driven.provider.settle(transaction, paid());
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(60 * MINUTE, 1_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});

t.test('callbacks do not make an account be told more often', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, paid());
  let tells = 0;
  driven.accounts.intercept = ({ type }: Message) => {
    if (type !== 'RecordOutcome') return null;
    tells++;
    return UNAVAILABLE;
  };
  driven.hint(transaction);
  await driven.clock.advance(5_000);
  const told = tells;
  t.ok(told >= 1);
  for (let i = 0; i < 100; i++) driven.hint(transaction);
  t.equal(tells, told);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
});

t.test(
  'callbacks about one that is not followed are looked into once, and of the last that ended nobody is asked',
  async (t) => {
    const driven = await new Driven().start();
    let asked = 0;
    driven.accounts.intercept = ({ type }) => {
      if (type === 'GetPending') asked++;
      return null;
    };
    for (let i = 0; i < 100; i++) driven.hint({ id: 'chg_01JB2XK8Z30001NPQRSTVWXY00' });
    await driven.clock.advance(100);
    t.equal(asked, 2, 'is it in flight, is it final?');
    t.equal(driven.accounts.commands.filter(({ type }) => type === 'RaiseReconciliation').length, 1);

    const ended = Array.from({ length: LIMITS.pollerRecentMax + 1 }, () => driven.accounts.create(charge()));
    for (const { id } of ended) driven.accounts.when(outcome(id, 'FAILED'));
    asked = 0;
    for (const transaction of ended.slice(1)) driven.hint(transaction);
    t.equal(asked, 0);
    driven.hint(ended[0]!);
    await driven.clock.advance(100);
    t.ok(asked > 0, 'only so many are remembered');
  },
);

t.test('a callback about a transaction that the account never had is a reconciliation item', async (t) => {
  const driven = await new Driven().start();
  const replies: Reply[] = [];
  driven.hint({ id: 'chg_01JB2XK8Z30001NPQRSTVWXY00' }, (reply) => replies.push(reply));
  await driven.clock.advance(100);
  t.strictSame(driven.accounts.reconciliation(), ['UNKNOWN_REFERENCE']);
  t.hasStrict(replies, [{ type: 'done' }]);
  await driven.clock.advance(MINUTE, 1_000);
  t.strictSame(
    driven.notices.map(({ what }) => what),
    ['unknown_reference'],
  );
  t.strictSame(
    driven.accounts.commands.map(({ type }) => type),
    ['RaiseReconciliation'],
    'nothing is noted of it',
  );
});

t.test('a callback about a transaction of another account asks nobody', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(payout());
  await driven.clock.advance(100);
  const accountId = `acc_${'0'.repeat(26)}`;
  t.hasStrict(driven.hint({ id, accountId }), { type: 'done' });
  driven.accounts.when(outcome(id, 'FAILED'));
  t.hasStrict(driven.hint({ id, accountId }), { type: 'done' }, 'nor when it has ended');
  await driven.clock.advance(100);
  t.equal(driven.mtn.enquiries.length, 0);
});

t.test('a callback about nothing of its account that cannot be recorded is told to operators', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.intercept = ({ type }) => (type === 'RaiseReconciliation' ? UNAVAILABLE : null);
  const replies: Reply[] = [];
  driven.hint({ id: 'chg_01JB2XK8Z30001NPQRSTVWXY00' }, (reply) => replies.push(reply));
  await driven.clock.advance(100);
  t.strictSame(replies, [UNAVAILABLE], 'its provider is to call again');
  const notices = driven.notices.map(({ what }) => what);
  t.strictSame(notices, ['unknown_reference', 'hint_lost']);
});

t.test('a repeated callback about a final transaction raises nothing', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, paid());
  for (let i = 0; i < 5; i++) {
    driven.hint(transaction);
    await driven.clock.advance(100);
  }
  await driven.clock.advance(MINUTE);
  t.strictSame(driven.accounts.reconciliation(), []);
  t.ok(driven.mtn.enquiries.length <= 3, `${driven.mtn.enquiries.length} enquiries`);
  await driven.clock.advance(65 * MINUTE, 1_000);
  t.ok(driven.mtn.enquiries.length <= 5, `${driven.mtn.enquiries.length} enquiries`);
  t.equal(driven.pollers.size, 0);
});

t.test('a callback about one that is final is followed a few times, not for ever', async (t) => {
  for (const answer of [{ type: 'pending', providerStatus: null }, { type: 'not_found' }] as const) {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(payout());
    driven.accounts.when(outcome(transaction.id, 'FAILED'));
    t.equal(driven.pollers.size, 0);
    driven.mtn.onEnquire = () => answer;
    driven.hint(transaction);
    await driven.clock.advance(100);
    t.equal(driven.pollers.size, 1);
    await driven.clock.advance(120 * MINUTE, 1_000);
    t.equal(driven.pollers.size, 0, `its provider goes on saying ${answer.type}`);
    t.ok(driven.mtn.enquiries.length < 10, `${driven.mtn.enquiries.length} enquiries`);
  }
});

t.test(
  'a callback after its account was told may be about a reversal, whether reply or feed comes first',
  async (t) => {
    for (const first of ['reply', 'feed'] as const) {
      const driven = await new Driven().start();
      const transaction = driven.accounts.create(charge());
      driven.provider.settle(transaction, paid());
      driven.accounts.intercept = (message) => {
        if (message.type !== 'RecordOutcome') return null;
        driven.accounts.intercept = () => null;
        driven.provider.settle(transaction, reversed());
        driven.hint(transaction);
        if (first === 'reply') return null;
        driven.accounts.when(message as unknown as AccountCommand);
        return { type: 'done', body: '{}', replayed: false };
      };
      driven.hint(transaction);
      await driven.clock.advance(5_000);
      t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED', first);
      await driven.clock.advance(MINUTE);
      t.equal(driven.pollers.size, 0);
    }
  },
);

t.test('a callback soon after another about one that is final may be about a reversal', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, paid());
  driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
  driven.hint(transaction);
  await driven.clock.advance(100);
  t.equal(driven.accounts.commands.filter(({ type }) => type === 'RecordOutcome').length, 1, 'told again');
  driven.provider.settle(transaction, reversed());
  driven.hint(transaction);
  await driven.clock.advance(5_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
});

t.test('what a provider calls about it may say only a while later', async (t) => {
  const driven = await new Driven().start();
  const called = await settledCharge(driven, 5_000);
  driven.hint(called);
  for (const [lagMs, heardMs] of [
    [20_000, 20_000],
    [4 * MINUTE, 3 * MINUTE],
    [50 * MINUTE, 20 * MINUTE],
  ] as const) {
    const taken = await settledCharge(driven, 5_000);
    driven.hint(taken);
    await driven.clock.advance(lagMs, 500);
    t.equal(driven.pollers.inFlight, 0, 'it has ended all the same');
    driven.provider.settle(taken, reversed());
    await driven.clock.advance(heardMs, 500);
    t.equal(driven.accounts.transaction(taken.id).status, 'REVERSED', `${lagMs / 1000} s later`);
  }
  t.equal(driven.mtn.enquiriesOf(called.id).length, 4, 'and not for ever');
  t.equal(driven.pollers.size, 0);
  driven.hint(called);
  await driven.clock.advance(20_000);
  driven.provider.settle(called, reversed());
  await driven.clock.advance(MINUTE);
  t.equal(driven.accounts.transaction(called.id).status, 'REVERSED', 'each time that it calls');
});

t.test('and however much it was asked about an earlier call', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 5_000);
  driven.hint(transaction);
  await driven.clock.advance(40 * MINUTE, 500);
  t.equal(driven.mtn.enquiries.length, 3);
  driven.hint(transaction);
  await driven.clock.advance(MINUTE, 500);
  driven.provider.settle(transaction, reversed());
  await driven.clock.advance(6 * MINUTE, 500);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
});

t.test('but looks of what has ended take half of the room for it, and further ones a quarter', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = Infinity;
  const count = 0.6 * LIMITS.pollerLateMax;
  for (let n = 0; n < count; n++) {
    const transaction = driven.accounts.create(charge({ amount: '500' }));
    driven.provider.settle(transaction, paid());
    driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
    driven.hint(transaction);
  }
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.mtn.enquiries.length - count, LIMITS.pollerLateMax / 2 - 1);
  t.equal(driven.pollers.size, 0);
});

t.test(
  'a callback that was on its way for long is looked into: its provider does not call again',
  async (t) => {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(charge());
    driven.provider.settle(transaction, paid());
    driven.hint(transaction);
    await driven.clock.advance(5_000);
    t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
    driven.provider.settle(transaction, reversed());
    const { accountId, id: transactionId } = transaction;
    const hint = { type: 'Hint', accountId, transactionId, deadline: driven.clock.now() - 1 } as const;
    driven.pollers.send(0, hint, () => {});
    await driven.clock.advance(5_000);
    t.equal(driven.accounts.transaction(transactionId).status, 'REVERSED');
  },
);

t.test('a callback under the name of another account is about nothing', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(charge());
  const accountId = 'acc_01JB2XK8Z30001NPQRSTVWXY00';
  driven.hint({ id, accountId });
  driven.accounts.when(outcome(id, 'SUCCESSFUL'));
  driven.hint({ id, accountId });
  await driven.clock.advance(5_000);
  t.equal(driven.mtn.enquiries.length, 0);
});

t.test('a callback about a withdrawal before it is approved does not keep it from being sent', async (t) => {
  for (const answers of [true, false]) {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(withdrawal({ amount: '6000000' }));
    driven.hint(transaction);
    await driven.clock.advance(1_000);
    t.equal(driven.mtn.enquiries.length, 1);
    if (!answers) driven.accounts.intercept = ({ type }) => (type.endsWith('Pending') ? UNAVAILABLE : null);
    driven.accounts.when({
      type: 'ApproveWithdrawal',
      accountId: ACCOUNT,
      deadline: Number.MAX_SAFE_INTEGER,
      operator: 'amina',
      transactionId: transaction.id,
      by: MEMBER,
    });
    await driven.clock.advance(MINUTE);
    driven.accounts.intercept = () => null;
    await driven.clock.advance(5 * MINUTE);
    t.equal(driven.mtn.submits.length, 1);
    t.ok(driven.accounts.transaction(transaction.id).submitted);
  }
});

t.test('a callback is answered once: what is found out later was asked for by nobody', async (t) => {
  for (const answer of [declined(), LOST]) {
    const driven = await new Driven().start();
    driven.mtn.forgetful = true;
    const { id } = driven.accounts.create(charge());
    await driven.clock.advance(6_000);
    // It is to be submitted again, and waits for its rail until it expires.
    driven.mtn.maxConcurrency = 1;
    driven.mtn.onEnquire = () => {
      driven.mtn.maxConcurrency = 0;
      return { type: 'not_found' };
    };
    driven.hint({ id });
    driven.mtn.onEnquire = () => answer;
    await driven.clock.advance(30 * MINUTE, 500);
    driven.mtn.maxConcurrency = 1;
    await driven.clock.advance(MINUTE, 500);
    const { status, events } = driven.accounts.transaction(id);
    t.equal(status, 'FAILED');
    t.equal(events.at(-1)?.source, answer === LOST ? 'SYSTEM' : 'PROVIDER_POLL');
    const { length: before } = driven.mtn.enquiries;
    await driven.clock.advance(5 * MINUTE, 500);
    t.equal(driven.mtn.enquiries.length, before);
  }
});

t.test(
  'a callback about a charge that expires before its provider answers is looked into at once',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onEnquire = () => LOST;
    const transaction = driven.accounts.create(charge());
    await driven.clock.advance(30 * MINUTE + 15_000, 500);
    driven.hint(transaction);
    await driven.clock.advance(1_000);
    t.equal(driven.accounts.transaction(transaction.id).failureCode, 'expired');
    driven.provider.settle(transaction, paid());
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(MINUTE, 500);
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  },
);
