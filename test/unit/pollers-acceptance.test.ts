// What pollers promise about an acceptance that its account cannot be told of: it is not forgotten, and delays nothing. That
// none is asked for which comes too late. And that operators hear of what an account refuses, and it is asked what it has where the feed
// does not tell.
import t from 'tap';
import type { OnReply } from '../../src/bus/bus.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult, Terminal } from '../../src/rails/rail.ts';
import { charge, payout, withdrawal } from './domain/scenario.ts';
import { BUSY, deferred, Driven, LOST, paid } from './pollers-driven.ts';

const MINUTE = 60_000;
const FLOAT_EMPTY: Terminal = {
  type: 'failed',
  failureCode: 'provider_rejected',
  failureMessage: null,
  providerStatus: 'DP00900001005',
  providerTransactionId: null,
  amount: null,
  currency: null,
  ourFault: true,
};
const UNAVAILABLE = { type: 'unavailable' } as const;

function withoutAcceptances(driven: Driven): void {
  driven.accounts.intercept = ({ type }) => (type === 'RecordSubmission' ? UNAVAILABLE : null);
}

t.test('acceptance is told again when the account was busy', async (t) => {
  const driven = await new Driven().start();
  let refusals = 0;
  driven.accounts.intercept = ({ type }) =>
    type === 'RecordSubmission' && ++refusals <= 2 ? UNAVAILABLE : null;
  const transaction = driven.accounts.create(charge());
  t.equal(driven.accounts.transaction(transaction.id).status, 'PENDING_PROVIDER');
  await driven.clock.advance(5_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'AWAITING_CUSTOMER');
  t.equal(driven.mtn.enquiries.length, 0);
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL', 'it is asked about in its time');
});

t.test('nor again when the transaction has ended meanwhile, whatever the account answers', async (t) => {
  const refusal = { type: 'rejected', rejection: rejection('transaction_not_found') } as const;
  for (const reply of [UNAVAILABLE, { type: 'unknown' } as const, refusal]) {
    const driven = await new Driven().start();
    const { accounts } = driven;
    const send = accounts.send.bind(accounts);
    const waiting: OnReply[] = [];
    accounts.send = (group, partition, message, onReply) => {
      if (message.type === 'RecordSubmission') waiting.push(onReply);
      else send(group, partition, message, onReply);
    };
    const transaction = accounts.create(charge());
    driven.provider.settle(transaction, paid());
    await driven.clock.advance(MINUTE, 500);
    t.equal(accounts.transaction(transaction.id).status, 'SUCCESSFUL');
    for (const onReply of waiting) onReply(reply);
    await driven.clock.advance(MINUTE, 500);
    t.equal(waiting.length, 1);
    t.strictSame(driven.notices, []);
    t.equal(driven.pollers.size, 0);
  }
});

t.test('acceptance is told in the end though the account was away for long', async (t) => {
  const driven = await new Driven().start();
  let tells = 0;
  driven.accounts.intercept = ({ type }) => {
    if (type !== 'RecordSubmission') return null;
    tells++;
    return UNAVAILABLE;
  };
  const { id } = driven.accounts.create(charge());
  await driven.clock.advance(15 * MINUTE);
  t.ok(tells > LIMITS.pollerSendsMax && tells < 30, `told ${tells} times`);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(2 * MINUTE);
  t.equal(driven.accounts.transaction(id).status, 'AWAITING_CUSTOMER', 'by an enquiry that says it again');
});

t.test('an accepted payout is not sent again though its account never hears of the acceptance', async (t) => {
  for (const hinted of [false, true]) {
    const driven = await new Driven().start();
    withoutAcceptances(driven);
    driven.mtn.notFoundGraceMs = MINUTE;
    const answer = deferred<EnquiryResult>();
    driven.mtn.onSubmit = (transaction) => {
      // While its account is told, it is enquired about.
      if (hinted) driven.hint(transaction);
      return driven.provider.submit(transaction);
    };
    driven.mtn.onEnquire = () => answer.promise;
    const { id } = driven.accounts.create(payout());
    // By now its account was told as often as it is in a row.
    await driven.clock.advance(10 * MINUTE, 1_000);
    driven.mtn.onEnquire = () => ({ type: 'not_found' });
    answer.resolve(LOST);
    await driven.clock.advance(60 * MINUTE, 1_000);
    t.equal(driven.mtn.submits.length, 1);
    t.strictSame(
      driven.notices.map(({ what }) => what),
      ['provider_forgot'],
    );
    driven.accounts.intercept = () => null;
    driven.mtn.onEnquire = () => ({ type: 'pending', providerStatus: 'PENDING' });
    await driven.clock.advance(10 * MINUTE, 1_000);
    t.ok(driven.accounts.transaction(id).submitted, 'its account is told in the end');
  }
});

t.test('a rail that may have lost what it accepted gets it again, under one reference', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.forgetful = true;
  const { id } = driven.accounts.create(payout());
  driven.provider.accepted.clear();
  await driven.clock.advance(MINUTE, 1_000);
  const [first, ...again] = driven.mtn.submits;
  t.strictSame(
    again.map(({ reference }) => reference),
    [first?.reference],
  );
  t.strictSame(driven.notices, []);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
});

t.test('a callback is looked into at once though an acceptance is yet to be told', async (t) => {
  const driven = await new Driven().start();
  withoutAcceptances(driven);
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(100);
  driven.provider.settle(transaction, paid());
  driven.hint(transaction);
  t.equal(driven.mtn.enquiries.length, 1);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
});

t.test('a callback that its provider does not answer for keeps no acceptance from its account', async (t) => {
  const driven = await new Driven().start();
  withoutAcceptances(driven);
  const transaction = driven.accounts.create(charge());
  driven.mtn.onEnquire = () => LOST;
  await driven.clock.advance(100);
  driven.hint(transaction);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(MINUTE);
  t.ok(driven.accounts.transaction(transaction.id).submitted);
});

t.test(
  'what a gateway refused although it had handed it on is asked about before it is given up',
  async (t) => {
    for (const [answers, status, items] of [
      ['at the end', 'SUCCESSFUL', []],
      ['after it', 'FAILED', ['SUCCESS_AFTER_FINAL']],
    ] as const) {
      const driven = await new Driven().start();
      driven.mtn.onSubmit = (transaction) => {
        driven.provider.settle(transaction, paid());
        return { type: 'not_accepted', reason: '503', mayHaveIt: true };
      };
      driven.mtn.onEnquire = () => LOST;
      const { id } = driven.accounts.create(charge());
      await driven.clock.advance(29 * MINUTE, 1_000);
      t.equal(driven.mtn.enquiries.length, 0, 'sent again at once, without asking');
      if (answers === 'after it') await driven.clock.advance(3 * MINUTE, 1_000);
      driven.mtn.onEnquire = (transaction) => driven.provider.enquire(transaction);
      await driven.clock.advance(20 * MINUTE, 1_000);
      t.equal(driven.accounts.transaction(id).status, status, answers);
      t.strictSame(driven.accounts.reconciliation(), items);
    }
  },
);

t.test('a payout that may have been taken is not failed by the refusal of a further submit', async (t) => {
  for (const taken of [true, false]) {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = (transaction) => {
      if (driven.mtn.submits.length > 1) return FLOAT_EMPTY;
      if (taken) driven.provider.settle(transaction, paid());
      return { type: 'not_accepted', reason: '503', mayHaveIt: true };
    };
    const { id } = driven.accounts.create(payout());
    await driven.clock.advance(MINUTE, 1_000);
    t.equal(driven.accounts.transaction(id).status, taken ? 'SUCCESSFUL' : 'FAILED');
    t.equal(
      driven.mtn.submits.length,
      taken ? 2 : 3,
      'refused again once it was found that nothing was taken',
    );
    t.strictSame(driven.accounts.reconciliation(), []);
  }
});

t.test(
  'a payout that its provider called back about is not failed by the refusal of its submit',
  async (t) => {
    for (const taken of [true, false]) {
      const driven = await new Driven().start();
      driven.mtn.onSubmit = (transaction) => {
        if (taken) driven.provider.settle(transaction, paid());
        if (driven.mtn.submits.length === 1) driven.hint(transaction);
        return FLOAT_EMPTY;
      };
      const { id } = driven.accounts.create(payout());
      await driven.clock.advance(MINUTE, 1_000);
      t.equal(driven.accounts.transaction(id).status, taken ? 'SUCCESSFUL' : 'FAILED');
      t.strictSame(driven.accounts.reconciliation(), []);
    }
  },
);

t.test('nobody is asked for money whose charge ends before they can approve', async (t) => {
  const driven = await new Driven().start();
  const fresh: string[] = [];
  driven.mtn.onSubmit = () => BUSY;
  const waiting = Array.from({ length: 30 }, () => driven.accounts.create(charge()));
  await driven.clock.advance(20 * MINUTE, 500);
  fresh.push(driven.accounts.create(charge()).id);
  await driven.clock.advance(9 * MINUTE, 500);
  for (const { id } of waiting) {
    t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'provider_unavailable' });
  }
  const before = driven.mtn.submits.length;
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  await driven.clock.advance(5 * MINUTE, 500);
  t.strictSame(
    [...new Set(driven.mtn.submits.slice(before).map(({ id }) => id))],
    fresh,
    'only who has time enough',
  );
});

t.test('what an account refuses to hear is brought to operators, once', async (t) => {
  for (const [type, submits, followed] of [
    ['BeginSubmission', 0, 0],
    ['RecordSubmission', 1, 1],
    ['RecordOutcome', 1, 0],
  ] as const) {
    const driven = await new Driven().start();
    driven.accounts.intercept = (message) =>
      message.type === type ? { type: 'rejected', rejection: rejection('transaction_not_found') } : null;
    const { id } = driven.accounts.create(withdrawal());
    if (type === 'RecordOutcome') driven.mtn.onEnquire = () => paid();
    await driven.clock.advance(10 * MINUTE, 1_000);
    const notice = {
      what: 'not_taken',
      provider: 'mtn_ug',
      transactionId: id,
      detail: 'transaction_not_found',
    };
    t.strictSame(driven.notices, [notice], type);
    t.equal(driven.mtn.submits.length, submits);
    t.equal(driven.pollers.size, followed, 'and what it refuses as such is followed no more');
  }
});

t.test(
  'where its account disputes what its provider says, that is asked on, once the account has answered, and not sent again',
  async (t) => {
    for (const isAtOnce of [false, true]) {
      const driven = await new Driven().start();
      const { accounts, clock, mtn, provider } = driven;
      const other = paid({ amount: 5, currency: 'UGX' });
      if (isAtOnce) mtn.onSubmit = () => other;
      let asked = 0;
      accounts.intercept = ({ type }) => (type === 'GetPending' && asked++ < 3 ? UNAVAILABLE : null);
      const transaction = accounts.create(charge({ amount: '50000' }));
      provider.settle(transaction, other);
      while (asked === 0) await clock.advance(500, 500);
      t.strictSame(accounts.reconciliation(), ['AMOUNT_MISMATCH']);
      const enquiries = mtn.enquiries.length;
      provider.settle(transaction, paid({ amount: 50_000, currency: 'UGX' }));
      while (asked < 4) await clock.advance(500, 500);
      t.equal(mtn.enquiries.length, enquiries, 'until then it may be final');
      await clock.advance(2 * MINUTE, 500);
      t.equal(accounts.transaction(transaction.id).status, 'SUCCESSFUL');
      t.equal(mtn.submits.length, 1);
      t.equal(driven.pollers.size, 0);
    }
  },
);

t.test('what its account disputes is asked about once more before it expires', async (t) => {
  const driven = await new Driven().start();
  const { accounts, clock, provider } = driven;
  const transaction = accounts.create(charge({ amount: '50000' }));
  provider.settle(transaction, paid({ amount: 5, currency: 'UGX' }));
  await clock.advance(transaction.expiresAt! - clock.now() - 1_000, 500);
  provider.settle(transaction, paid({ amount: 50_000, currency: 'UGX' }));
  await clock.advance(MINUTE, 500);
  t.strictSame(accounts.reconciliation(), ['AMOUNT_MISMATCH']);
  t.equal(accounts.transaction(transaction.id).status, 'SUCCESSFUL');
});

t.test('a callback about what its account disputes is looked into at once', async (t) => {
  for (const type of ['RecordOutcome', 'GetPending', null]) {
    const driven = await new Driven().start();
    const { accounts, clock, provider } = driven;
    const send = accounts.send.bind(accounts);
    let answer: (() => void) | null = null;
    accounts.send = (group, partition, message, onReply) => {
      if (message.type !== type) return send(group, partition, message, onReply);
      send(group, partition, message, (reply) => (answer = () => onReply(reply)));
    };
    const transaction = accounts.create(charge({ amount: '50000' }));
    provider.settle(transaction, paid({ amount: 5, currency: 'UGX' }));
    while (accounts.reconciliation().length === 0) await clock.advance(500);
    while (type !== null && answer === null) await clock.advance(500);
    provider.settle(transaction, paid({ amount: 50_000, currency: 'UGX' }));
    driven.hint(transaction);
    accounts.send = send;
    (answer as (() => void) | null)?.();
    await clock.advance(5_000);
    t.equal(accounts.transaction(transaction.id).status, 'SUCCESSFUL', `while ${type} is answered`);
  }
});

t.test(
  'what has ended at its account is let go though no feed tells of it, but for what is called back about',
  async (t) => {
    for (const isCalledBack of [false, true]) {
      const driven = await new Driven().start();
      const { accounts, clock, mtn, provider } = driven;
      const transaction = accounts.create(charge());
      provider.settle(transaction, paid());
      accounts.intercept = ({ type }) => {
        if (type === 'RecordOutcome') return { type: 'done', body: '{}', replayed: false };
        if (type !== 'GetPending') return null;
        accounts.intercept = () => null;
        if (isCalledBack) driven.hint(transaction);
        return { type: 'rejected', rejection: rejection('transaction_not_found') };
      };
      await clock.advance(2 * MINUTE, 500);
      t.equal(driven.pollers.size, 0);
      t.equal(mtn.enquiries.length, isCalledBack ? 2 : 1);
      t.equal(accounts.transaction(transaction.id).status, isCalledBack ? 'SUCCESSFUL' : 'AWAITING_CUSTOMER');
    }
  },
);
