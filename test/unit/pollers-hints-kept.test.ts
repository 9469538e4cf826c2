// A callback about what has ended is the only word there is of it: it is kept until its provider has answered, however long
// that is down, whatever else happens to the transaction, and within bounds.
import t from 'tap';
import type { Message } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult } from '../../src/rails/rail.ts';
import { ACCOUNT, byOperator, charge, outcome, payout, settle } from './domain/scenario.ts';
import { declined, deferred, Driven, LOST, paid, reversed, settledCharge } from './pollers-driven.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const UNAVAILABLE = { type: 'unavailable' } as const;

t.test('a payment taken back while its provider answers nobody is heard of when it does', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 100);
  driven.provider.settle(transaction, reversed());
  driven.mtn.onEnquire = () => LOST;
  driven.hint(transaction);
  await driven.clock.advance(5 * HOUR, 1_000);
  t.ok(driven.mtn.enquiries.length > 100, `asked ${driven.mtn.enquiries.length} times`);
  t.ok(driven.mtn.enquiries.length < 400, `asked ${driven.mtn.enquiries.length} times`);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(2 * MINUTE, 1_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
  t.equal(driven.accounts.transaction(transaction.id).events.at(-1)?.source, 'PROVIDER_CALLBACK');
  t.equal(driven.pollers.size, 0);
});

t.test(
  'a payment taken back is heard of where its account takes nothing, and then its provider answers nobody',
  async (t) => {
    const driven = await new Driven().start();
    const transaction = await settledCharge(driven, 100);
    driven.provider.settle(transaction, reversed());
    let tells = 0;
    driven.accounts.intercept = ({ type }) => {
      if (type !== 'RecordOutcome' || ++tells > LIMITS.pollerSendsMax) return null;
      driven.mtn.onEnquire = () => LOST;
      return UNAVAILABLE;
    };
    driven.hint(transaction);
    await driven.clock.advance(2 * HOUR, 1_000);
    t.equal(tells, LIMITS.pollerSendsMax);
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(2 * MINUTE, 1_000);
    t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
    t.equal(driven.pollers.size, 0);
  },
);

t.test(
  'a callback that its provider never answers for is given up in the end, and operators are told',
  async (t) => {
    const driven = await new Driven({ timings: { hintEnquiries: 20 } }).start();
    const transaction = await settledCharge(driven, 100);
    driven.mtn.onEnquire = () => LOST;
    driven.hint(transaction);
    await driven.clock.advance(HOUR, 1_000);
    t.equal(driven.mtn.enquiries.length, 20);
    t.hasStrict(driven.notices[0], { what: 'hint_lost', provider: 'mtn_ug', transactionId: transaction.id });
    t.equal(driven.notices.length, 1);
    t.equal(driven.pollers.size, 0);
  },
);

t.test('a callback about a charge that has expired costs none of the looks that are to come', async (t) => {
  const driven = await new Driven({ timings: { hintEnquiries: 20 } }).start();
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(32 * MINUTE, 1_000);
  t.equal(driven.accounts.transaction(transaction.id).failureCode, 'expired');
  driven.mtn.onEnquire = () => LOST;
  driven.hint(transaction);
  await driven.clock.advance(HOUR, 1_000);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(72 * HOUR, 10_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});

t.test('a callback during the last of some looks is looked into', async (t) => {
  const driven = await new Driven({ timings: { lateEnquiries: 1 } }).start();
  const transaction = await settledCharge(driven, 100);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  driven.provider.settle(transaction, reversed());
  driven.hint(transaction);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  answer.resolve({ type: 'pending', providerStatus: null });
  await driven.clock.advance(5_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
});

t.test('a callback whose turn comes while another process may have its partition is kept', async (t) => {
  const driven = new Driven();
  let holds = true;
  await driven.pollers.start(0, { holds: () => holds });
  const transaction = await settledCharge(driven, 5_000);
  driven.provider.settle(transaction, reversed());
  driven.mtn.onEnquire = () => LOST;
  driven.mtn.maxConcurrency = 0;
  driven.hint(transaction);
  holds = false;
  driven.mtn.maxConcurrency = 1;
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.mtn.enquiries.length, 0);
  holds = true;
  await driven.clock.advance(30 * MINUTE, 1_000);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(2 * MINUTE, 1_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
});

t.test(
  'a callback outlives the end of its transaction: while it waits for its turn, or is enquired about',
  async (t) => {
    for (const isCalled of [false, true]) {
      const driven = await new Driven().start();
      const transaction = driven.accounts.create(payout());
      driven.mtn.maxConcurrency = isCalled ? 1 : 0;
      const answer = deferred<EnquiryResult>();
      driven.mtn.onEnquire = () => answer.promise;
      driven.hint(transaction);
      driven.hint(transaction);
      driven.provider.settle(transaction, paid());
      driven.accounts.when(settle(transaction.id));
      driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
      driven.mtn.maxConcurrency = 10;
      answer.resolve({ type: 'pending', providerStatus: null });
      await driven.clock.advance(5_000);
      t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL'], `called: ${isCalled}`);
    }
  },
);

t.test(
  'a callback is asked about again whose enquiry had no answer when its transaction ended',
  async (t) => {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(payout());
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    driven.hint(transaction);
    driven.accounts.when(settle(transaction.id));
    driven.provider.settle(transaction, paid());
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    answer.resolve(LOST);
    await driven.clock.advance(5_000);
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  },
);

t.test(
  'a callback about what has ended waits for its account for as long as that answers nobody',
  async (t) => {
    const driven = await new Driven().start();
    const transaction = await settledCharge(driven, 100);
    driven.provider.settle(transaction, reversed());
    await driven.crash();
    driven.accounts.intercept = () => UNAVAILABLE;
    driven.hint(transaction);
    await driven.clock.advance(HOUR, 1_000);
    driven.accounts.intercept = () => null;
    await driven.clock.advance(2 * MINUTE, 1_000);
    t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
    t.strictSame(driven.notices, []);
  },
);

t.test(
  'callbacks about what has ended are kept while their provider is down, so many and no more',
  async (t) => {
    const driven = await new Driven().start();
    const all = Array.from({ length: LIMITS.pollerLateMax + 1 }, () => driven.accounts.create(charge()));
    for (const transaction of all) {
      driven.provider.settle(transaction, reversed());
      driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
    }
    driven.mtn.onEnquire = () => LOST;
    for (const transaction of all) driven.hint(transaction);
    await driven.clock.advance(10_000);
    t.equal(driven.pollers.size, LIMITS.pollerLateMax);
    t.hasStrict(driven.hint(all.at(-1)!), UNAVAILABLE);
    const replies: string[] = [];
    const handedOn = { accountId: ACCOUNT, transactionId: all.at(-1)!.id, deadline: 0, handedOn: true };
    driven.pollers.send(0, { type: 'Hint', ...handedOn } as Message, ({ type }) => replies.push(type));
    t.strictSame(replies, ['unavailable'], 'nor one that another poller hands on');
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(10 * MINUTE, 500);
    t.equal(driven.pollers.size, 0);
    const reversals = all.filter(({ id }) => driven.accounts.transaction(id).status === 'REVERSED');
    t.equal(reversals.length, LIMITS.pollerLateMax);
  },
);

t.test('operators are told of what an answer contradicts where too many are looked into', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<EnquiryResult>();
  const { id } = driven.accounts.create(payout());
  driven.mtn.onEnquire = () => answer.promise;
  await driven.clock.advance(15_000);
  driven.accounts.intercept = ({ type }) => (type === 'GetPending' ? UNAVAILABLE : null);
  const unknown = (n: number) => `chg_01JB2XK8Z${String(n).padStart(15, '0')}00`;
  for (let n = 0; n < LIMITS.pollerLateMax; n++) driven.hint({ id: unknown(n) });
  driven.accounts.when(settle(id, { outcome: 'SUCCESSFUL' }));
  answer.resolve(declined());
  await driven.clock.advance(1_000);
  t.hasStrict(driven.notices[0], { what: 'hint_lost', transactionId: id });
  t.equal(driven.notices.length, 1);
});

t.test(
  'a callback about what has ended is not let go where a partition follows more than it may',
  async (t) => {
    const driven = await new Driven().start();
    const transaction = await settledCharge(driven, 100);
    for (let i = 0; i < LIMITS.pollerPendingMax; i++) driven.accounts.create(charge({ amount: '500' }));
    driven.provider.settle(transaction, reversed());
    driven.mtn.onEnquire = () => LOST;
    driven.hint(transaction);
    await driven.clock.advance(100);
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
  },
);

t.test(
  'a note that its account made without saying so is resolved, where a person resolved the one before',
  async (t) => {
    const driven = await new Driven().start();
    const { accounts, clock } = driven;
    const transaction = await settledCharge(driven, 100);
    driven.mtn.onEnquire = () => LOST;
    driven.hint(transaction);
    await clock.advance(20_000);
    const [reconciliationId] = [...accounts.scenario.state.reconciliations.keys()];
    const resolve = { ...byOperator, type: 'ResolveReconciliation', resolution: 'They keep it.' } as const;
    accounts.when({ ...resolve, reconciliationId: reconciliationId! });
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    const send = accounts.send.bind(accounts);
    let tell = (): unknown => t.fail('it is not noted');
    accounts.send = (group, partition, message, onReply) => {
      if (message.type !== 'NoteCallback') return send(group, partition, message, onReply);
      send(group, partition, message, () => {});
      tell = () => onReply({ type: 'unknown' });
    };
    driven.hint(transaction);
    await clock.advance(LIMITS.pollerNoteAfterMs + 1_000);
    t.strictSame(accounts.notes(), ['They keep it.', null]);
    answer.resolve(paid());
    await clock.advance(1_000);
    accounts.send = send;
    tell();
    await clock.advance(MINUTE, 500);
    t.strictSame(accounts.notes(), ['They keep it.', 'The provider was asked, and answered.']);
  },
);
