// What pollers do about a transaction that is final: look whether its provider says otherwise, within bounds, and never send
// it again.
import t from 'tap';
import type { Reply } from '../../src/bus/bus.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult } from '../../src/rails/rail.ts';
import { charge, outcome, payout, settle } from './domain/scenario.ts';
import { declined, deferred, Driven, LOST, paid, reversed } from './pollers-driven.ts';

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

t.test('of what expired only so many are looked at again: those that expired last', async (t) => {
  const places = 100;
  for (const restarts of [false, true]) {
    const driven = await new Driven({ timings: { afterExpiryMs: 45 * MINUTE } }).start();
    const create = (count: number): { id: string }[] =>
      Array.from({ length: count }, () => driven.accounts.create(charge({ amount: '500' })));
    const first = create(2 * LIMITS.pollerLateMax);
    await driven.clock.advance(10 * MINUTE, 10_000);
    const last = create(LIMITS.pollerLateMax - places);
    await driven.clock.advance(30 * MINUTE - 1_000, 10_000);
    await driven.clock.advance(10_000);
    t.ok([...first, ...last].every(({ id }) => driven.accounts.transaction(id).status === 'FAILED'));
    if (restarts) await driven.crash();
    const before = driven.mtn.enquiries.length;
    await driven.clock.advance(60 * MINUTE, 1_000);
    const lookedAt = new Set(driven.mtn.enquiries.slice(before).map(({ id }) => id));
    t.equal(lookedAt.size, LIMITS.pollerLateMax, 'and of the others as many as there are places left');
    t.ok(
      last.every(({ id }) => lookedAt.has(id)),
      restarts ? 'after a restart' : 'as they expire',
    );
  }
});

t.test('charges that expire take no place of a payout that was said to have failed', async (t) => {
  const driven = await new Driven({ timings: { afterExpiryMs: 45 * MINUTE } }).start();
  const first = driven.accounts.create(payout());
  // So many that a poller that begins asks no more for those that expired first.
  for (let n = 0; n < 2 * LIMITS.pollerLateMax; n++) driven.accounts.create(charge({ amount: '500' }));
  const last = driven.accounts.create(payout());
  for (const { id } of [first, last]) driven.accounts.when(settle(id));
  await driven.clock.advance(31 * MINUTE, 10_000);
  driven.provider.settle(first, paid());
  await driven.clock.advance(30 * MINUTE, 5_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  await driven.crash();
  driven.provider.settle(last, paid());
  await driven.clock.advance(90 * MINUTE, 5_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL', 'SUCCESS_AFTER_FINAL']);
});

t.test('nor does one more of these: so many are looked at, and those that were said first', async (t) => {
  const driven = await new Driven().start();
  const all = Array.from(
    { length: LIMITS.pollerLateMax + 10 },
    () => driven.accounts.create(payout({ amount: '500' })).id,
  );
  for (const id of all) driven.accounts.when(settle(id));
  await driven.clock.advance(20 * MINUTE, 5_000);
  const lookedAt = new Set(driven.mtn.enquiries.map(({ id }) => id));
  t.strictSame([...lookedAt].toSorted(), all.slice(0, LIMITS.pollerLateMax).toSorted());
});

t.test('nor of a charge that was paid, which its account has yet to take', async (t) => {
  const driven = await new Driven({ timings: { afterExpiryMs: 20 * MINUTE } }).start();
  const { accounts, clock } = driven;
  const first = accounts.create(charge());
  await clock.advance(22 * MINUTE + 10_000, 10_000);
  for (let n = 0; n < LIMITS.pollerLateMax; n++) accounts.create(charge({ amount: '500' }));
  await clock.advance(29 * MINUTE, 10_000);
  driven.provider.settle(first, paid());
  let isAway = true;
  accounts.intercept = ({ type }) => (isAway && type === 'RecordOutcome' ? { type: 'unavailable' } : null);
  await clock.advance(90_000, 500);
  t.equal(accounts.inFlight().length, 0);
  isAway = false;
  await clock.advance(2 * MINUTE, 1_000);
  t.strictSame(accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});

t.test('what expires while a poller that begins reads what had expired comes before that', async (t) => {
  const driven = await new Driven({ timings: { afterExpiryMs: 45 * MINUTE } }).start();
  const three = (): { id: string }[] => [1, 2, 3].map(() => driven.accounts.create(charge()));
  for (let n = 0; n < LIMITS.pollerLateMax; n++) driven.accounts.create(charge({ amount: '500' }));
  await driven.clock.advance(10 * MINUTE, 10_000);
  const meanwhile = three();
  await driven.clock.advance(5 * MINUTE, 10_000);
  const afterwards = three();
  await driven.clock.advance(16 * MINUTE, 10_000);
  await driven.clock.advance(MINUTE);

  let held = true;
  driven.accounts.intercept = ({ type }) => (held && type === 'ListExpired' ? { type: 'unavailable' } : null);
  await driven.crash();
  await driven.clock.advance(9 * MINUTE, 1_000);
  held = false;
  const statuses = (): string[] =>
    [...meanwhile, ...afterwards].map(({ id }) => driven.accounts.transaction(id).status);
  t.strictSame(new Set(statuses().slice(0, 3)), new Set(['FAILED']));
  await driven.clock.advance(10 * MINUTE, 1_000);
  t.strictSame(new Set(statuses()), new Set(['FAILED']));

  const before = driven.mtn.enquiries.length;
  await driven.clock.advance(60 * MINUTE, 1_000);
  const lookedAt = new Set(driven.mtn.enquiries.slice(before).map(({ id }) => id));
  t.ok([...meanwhile, ...afterwards].every(({ id }) => lookedAt.has(id)));
  t.equal(lookedAt.size, LIMITS.pollerLateMax);
});

t.test('a reversal that is answered after its account took the success is looked into', async (t) => {
  for (const hinted of [true, false]) {
    const driven = await new Driven().start();
    const answer = deferred<EnquiryResult>();
    const transaction = driven.accounts.create(charge());
    driven.mtn.onEnquire = () => answer.promise;
    if (hinted) driven.hint(transaction);
    else await driven.clock.advance(15_000, 500);
    driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
    driven.mtn.onEnquire = () => reversed();
    answer.resolve(reversed());
    await driven.clock.advance(5_000);
    t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
  }
});

t.test('a callback while an expired charge is looked at is answered soon', async (t) => {
  for (const said of [{ type: 'pending', providerStatus: null }, LOST] as const) {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => LOST;
    driven.mtn.onEnquire = () => LOST;
    const transaction = driven.accounts.create(charge());
    await driven.clock.advance(32 * MINUTE, 500);
    t.equal(driven.accounts.transaction(transaction.id).status, 'FAILED');
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    driven.hint(transaction);
    driven.hint(transaction);
    driven.mtn.onEnquire = () => paid();
    answer.resolve(said);
    await driven.clock.advance(5_000);
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  }
});

t.test(
  'a callback during the last look at an expired charge is looked into though nothing answers that look',
  async (t) => {
    const driven = await new Driven({ timings: { lateEnquiries: 1 } }).start();
    const transaction = driven.accounts.create(charge());
    await driven.clock.advance(32 * MINUTE, 1_000);
    t.equal(driven.accounts.transaction(transaction.id).failureCode, 'expired');
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    const before = driven.mtn.enquiries.length;
    await driven.clock.advance(15 * MINUTE, 1_000);
    t.equal(driven.mtn.enquiries.length, before + 1);
    driven.hint(transaction);
    driven.mtn.onEnquire = () => paid();
    answer.resolve(LOST);
    await driven.clock.advance(MINUTE, 1_000);
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  },
);

t.test('one that is let go and then failed by an operator is looked at on: it may be paid', async (t) => {
  const driven = await new Driven().start();
  for (let n = 0; n < LIMITS.pollerPendingMax; n++) driven.accounts.create(charge({ amount: '500' }));
  const sent = driven.accounts.create(payout());
  driven.mtn.maxConcurrency = Infinity;
  driven.mtn.onEnquire = ({ id }) => (id === sent.id ? paid() : new Promise(() => {}));
  t.equal(driven.pollers.size, LIMITS.pollerPendingMax);
  driven.accounts.intercept = ({ type }) => (type === 'GetPending' ? { type: 'unavailable' } : null);
  driven.accounts.when(settle(sent.id));
  await driven.clock.advance(8 * MINUTE, 1_000);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(7 * MINUTE, 1_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL'], 'however long its account is away');
});

t.test(
  'one that is failed while nobody follows it is looked at on, however many before it were nothing',
  async (t) => {
    const driven = await new Driven().start();
    const payouts = Array.from({ length: LIMITS.pollerLateMax + 1 }, () =>
      driven.accounts.create(payout({ amount: '500' })),
    );
    const last = payouts.pop()!;
    const nothing = { type: 'rejected', rejection: rejection('transaction_not_found') } as const;
    // As where this poller had let go of all.
    const body = JSON.stringify({ sequence: driven.accounts.scenario.lines.length, data: [], next: null });
    let found: Reply | null = nothing;
    driven.accounts.intercept = ({ type }) => {
      if (type === 'ListPending' || type === 'ListExpired') return { type: 'done', body, replayed: false };
      return type === 'GetPending' ? found : null;
    };
    await driven.crash();
    for (const { id } of payouts) driven.accounts.when(settle(id));
    await driven.clock.advance(100);
    found = null;
    driven.provider.settle(last, paid());
    driven.accounts.when(settle(last.id));
    await driven.clock.advance(30 * MINUTE, 5_000);
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  },
);

t.test('one that is failed as a callback comes is looked at on all the same', async (t) => {
  const driven = await new Driven().start();
  const { accounts, clock } = driven;
  const transaction = accounts.create(payout());
  const body = JSON.stringify({ sequence: accounts.scenario.lines.length, data: [], next: null });
  const send = accounts.send.bind(accounts);
  const asked: (() => void)[] = [];
  accounts.send = (group, partition, message, onReply) => {
    // As where this poller had let go of it.
    if (message.type === 'ListPending') return onReply({ type: 'done', body, replayed: false });
    if (message.type !== 'GetPending') return send(group, partition, message, onReply);
    asked.push(() => send(group, partition, message, onReply));
  };
  await driven.crash();
  driven.hint(transaction);
  accounts.when(settle(transaction.id));
  await clock.advance(100);
  // It is looked at by the time that the account says of what the callback is.
  t.equal(asked.length, 2);
  for (const answer of [1, 0, 2]) {
    asked[answer]!();
    await clock.advance(100);
  }
  await clock.advance(5 * MINUTE, 1_000);
  driven.provider.settle(transaction, paid());
  await clock.advance(60 * MINUTE, 1_000);
  t.strictSame(accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});

t.test('a payout that a person has said to have failed is looked at on, and not sent again', async (t) => {
  for (const restarts of [false, true]) {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => LOST;
    driven.mtn.onEnquire = () => ({ type: 'not_found' });
    const { id } = driven.accounts.create(payout());
    await driven.clock.advance(MINUTE, 1_000);
    driven.accounts.when(settle(id));
    const [submits, enquiries] = [driven.mtn.submits.length, driven.mtn.enquiries.length];
    if (restarts) await driven.crash();
    driven.mtn.onEnquire = () => paid();
    await driven.clock.advance(20 * MINUTE, 1_000);
    t.equal(driven.mtn.submits.length, restarts ? 0 : submits);
    t.ok(driven.mtn.enquiries.length > (restarts ? 0 : enquiries));
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  }
});

t.test(
  'what its provider said is heard of where an operator settled it before its account could be told',
  async (t) => {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(payout());
    driven.provider.settle(transaction, paid());
    driven.accounts.intercept = ({ type }) => (type === 'RecordOutcome' ? { type: 'unavailable' } : null);
    driven.hint(transaction);
    await driven.clock.advance(5_000);
    driven.accounts.when(settle(transaction.id));
    driven.accounts.intercept = () => null;
    await driven.clock.advance(120_000, 500);
    t.strictSame(
      driven.accounts.reconciliation(),
      ['SUCCESS_AFTER_FINAL'],
      'it was paid: the merchant has both',
    );
  },
);

t.test('a failure that is answered after an operator said that it was paid is looked into', async (t) => {
  for (const said of ['SUCCESSFUL', 'FAILED'] as const) {
    const driven = await new Driven().start();
    const answer = deferred<EnquiryResult>();
    const { id } = driven.accounts.create(payout());
    driven.mtn.onEnquire = () => answer.promise;
    await driven.clock.advance(15_000);
    driven.accounts.when(settle(id, { outcome: said }));
    driven.mtn.onEnquire = () => declined();
    answer.resolve(declined());
    await driven.clock.advance(MINUTE, 500);
    t.strictSame(driven.accounts.reconciliation(), said === 'SUCCESSFUL' ? ['CONTRADICTION'] : []);
    t.ok(driven.mtn.enquiries.length <= 2);
    t.equal(driven.pollers.size, 0);
  }
});
