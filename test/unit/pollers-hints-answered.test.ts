// What whoever hands on a callback is told: `done` when nobody needs to send it again, and not before; in time, and once.
import t from 'tap';
import type { Reply } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult, SubmitResult } from '../../src/rails/rail.ts';
import { charge } from './domain/scenario.ts';
import { ACCEPTED, deferred, Driven, LOST, paid, reversed, settledCharge } from './pollers-driven.ts';

const DONE = { type: 'done' } as const;
const UNKNOWN = { type: 'unknown' } as const;
const UNAVAILABLE = { type: 'unavailable' } as const;

/** Of its accounts to one type of message: each comes when it is called. */
function answersTo(type: string, { accounts }: Driven): (() => void)[] {
  const answers: (() => void)[] = [];
  const send = accounts.send.bind(accounts);
  accounts.send = (group, partition, message, onReply) => {
    send(group, partition, message, (reply) => {
      if (message.type === type) answers.push(() => onReply(reply));
      else onReply(reply);
    });
  };
  return answers;
}

/** Messages of one type to accounts: each arrives when it is called, also when its sender is dead. */
function onTheirWay(type: string, { accounts }: Driven): (() => void)[] {
  const messages: (() => void)[] = [];
  const send = accounts.send.bind(accounts);
  accounts.send = (group, partition, message, onReply) => {
    if (message.type === type) messages.push(() => send(group, partition, message, onReply));
    else send(group, partition, message, onReply);
  };
  return messages;
}

t.test('about what is in flight: at once, also before the answer to the submit', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  const transaction = driven.accounts.create(charge());
  t.hasStrict(driven.hint(transaction), DONE, 'a provider may wait for it before it answers');
  answer.resolve(ACCEPTED);
  driven.mtn.onEnquire = () => new Promise(() => {});
  await driven.clock.advance(1_000);
  driven.mtn.maxConcurrency = 0;
  t.hasStrict(driven.hint(driven.accounts.create(charge())), DONE, 'also when it waits for its turn');
});

t.test('about what has ended: when its provider has answered and its account has that', async (t) => {
  for (const isRemembered of [true, false]) {
    const driven = await new Driven().start();
    const transaction = await settledCharge(driven, 5_000);
    if (!isRemembered) await driven.crash();
    driven.provider.settle(transaction, reversed());
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    let isTaken = false;
    driven.accounts.intercept = ({ type }) => (type === 'RecordOutcome' && !isTaken ? UNAVAILABLE : null);
    const replies: Reply[] = [];
    driven.hint(transaction, (reply) => replies.push(reply));
    await driven.clock.advance(2_000);
    t.equal(driven.mtn.enquiries.length, 1);
    t.strictSame(replies, [], 'its provider is asked');
    answer.resolve(reversed());
    await driven.clock.advance(2_000);
    t.strictSame(replies, [], 'its account is told');
    isTaken = true;
    await driven.clock.advance(5_000);
    t.hasStrict(replies, [DONE]);
    t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
  }
});

t.test('by an enquiry that began after it came', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.takesNotes = false;
  const transaction = await settledCharge(driven, 5_000);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  const replies: string[] = [];
  driven.hint(transaction, ({ type }) => replies.push(`first ${type}`));
  await driven.clock.advance(100);
  driven.hint(transaction, ({ type }) => replies.push(`second ${type}`));
  const next = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => next.promise;
  answer.resolve(paid());
  await driven.clock.advance(5_000);
  t.strictSame(replies, ['first done']);
  next.resolve(paid());
  await driven.clock.advance(100);
  t.strictSame(replies, ['first done', 'second done']);
});

t.test('also where its provider says that it waits: of what was found in flight', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  await driven.crash();
  const [first, second] = [deferred<EnquiryResult>(), deferred<EnquiryResult>()];
  const pending = { type: 'pending', providerStatus: 'PENDING' } as const;
  const replies: string[] = [];
  driven.mtn.onEnquire = () => first.promise;
  driven.hint(transaction, ({ type }) => replies.push(`first ${type}`));
  driven.hint(transaction, ({ type }) => replies.push(`second ${type}`));
  driven.mtn.onEnquire = () => second.promise;
  first.resolve(pending);
  await driven.clock.advance(5_000);
  t.strictSame(replies, ['first done']);
  second.resolve(pending);
  await driven.clock.advance(100);
  t.strictSame(replies, ['first done', 'second done']);
});

t.test('while the outcome is on its way: when it was asked whether more has happened', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  const replies: Reply[] = [];
  driven.hint(transaction, (reply) => replies.push(reply));
  driven.provider.settle(transaction, reversed());
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  answer.resolve(paid());
  await driven.clock.advance(500);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  t.strictSame(replies, []);
  await driven.clock.advance(3_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
  t.hasStrict(replies, [DONE]);
});

t.test('nor by what expires without an answer of its provider: when that was asked after it', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.takesNotes = false;
  const transaction = driven.accounts.create(charge());
  await driven.crash();
  driven.mtn.onEnquire = () => LOST;
  await driven.clock.advance(transaction.expiresAt! - driven.clock.now() + 1_000, 500);
  const replies: string[] = [];
  const { accounts, clock } = driven;
  for (let calls = 0; accounts.transaction(transaction.id).status !== 'FAILED'; calls++) {
    driven.hint(transaction, ({ type }) => replies.push(type));
    await clock.advance(2_500);
  }
  t.strictSame(replies, []);
  driven.provider.settle(transaction, paid());
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await clock.advance(60_000, 500);
  t.strictSame(accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
});

t.test('not by an account that takes what was found out before it came', async (t) => {
  const driven = await new Driven().start();
  const { accounts } = driven;
  accounts.takesNotes = false;
  const outcomesTaken = answersTo('RecordOutcome', driven);
  const transaction = accounts.create(charge());
  driven.provider.settle(transaction, paid());
  driven.hint(transaction);
  t.equal(
    accounts.transaction(transaction.id).status,
    'SUCCESSFUL',
    'its feed says so, its answer is on its way',
  );
  driven.provider.settle(transaction, reversed());
  driven.mtn.onEnquire = () => LOST;
  const replies: Reply[] = [];
  driven.hint(transaction, (reply) => replies.push(reply));
  await driven.clock.advance(5_000);
  t.ok(driven.mtn.enquiries.length > 1);
  for (const taken of outcomesTaken.splice(0)) taken();
  await driven.clock.advance(1_000);
  t.strictSame(replies, []);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(8_000);
  t.equal(accounts.transaction(transaction.id).status, 'REVERSED');
  for (const taken of outcomesTaken.splice(0)) taken();
  t.hasStrict(replies, [DONE]);
});

t.test('not by what is found in flight while what was found out before it came is on its way', async (t) => {
  const driven = await new Driven().start();
  const { accounts } = driven;
  accounts.takesNotes = false;
  const transaction = accounts.create(charge());
  await driven.clock.advance(500);
  const found = answersTo('GetPending', driven);
  void driven.crash(() => {
    accounts.intercept = ({ type }) => (type === 'ListPending' ? UNAVAILABLE : null);
  });
  await driven.clock.advance(500);
  const replies: string[] = [];
  driven.hint(transaction, ({ type }) => replies.push(`first ${type}`));
  t.equal(found.length, 1, 'its new poller does not know it yet');
  accounts.intercept = ({ type }) => (type === 'RecordOutcome' ? UNAVAILABLE : null);
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(8_000);
  driven.provider.settle(transaction, reversed());
  driven.hint(transaction, ({ type }) => replies.push(`second ${type}`));
  for (const answer of found.splice(0)) answer();
  await driven.clock.advance(100);
  t.strictSame(replies, [], 'its account is told that it is paid');
  accounts.intercept = () => null;
  await driven.clock.advance(8_000);
  t.equal(accounts.transaction(transaction.id).status, 'REVERSED');
  t.strictSame(replies.at(-1), 'second done');
});

t.test('not at once while what a poller before found out may be on its way', async (t) => {
  for (const isKilled of [false, true]) {
    const driven = await new Driven().start();
    const { accounts, provider } = driven;
    const outcomes = onTheirWay('RecordOutcome', driven);
    const transaction = accounts.create(charge());
    provider.settle(transaction, paid());
    driven.hint(transaction);
    t.equal(outcomes.length, 1);
    await driven.crash();
    provider.settle(transaction, reversed());
    driven.mtn.onEnquire = () => LOST;
    const replies: Reply[] = [];
    driven.hint(transaction, (reply) => replies.push(reply));
    await driven.clock.advance(3_000);
    t.strictSame(replies, [], 'it is in flight, and may not be asked about until its end');
    outcomes.shift()!();
    t.equal(accounts.transaction(transaction.id).status, 'SUCCESSFUL');
    // Its provider calls again, where nobody answered.
    if (isKilled) await driven.crash(() => driven.clock.advance(1_000));
    if (isKilled) driven.hint(transaction, (reply) => replies.push(reply));
    driven.mtn.onEnquire = (asked) => provider.enquire(asked);
    for (let second = 0; second < 14; second++) {
      await driven.clock.advance(1_000);
      for (const arrive of outcomes.splice(0)) arrive();
    }
    t.equal(accounts.transaction(transaction.id).status, 'REVERSED');
    t.hasStrict(replies, [DONE]);
  }
});

t.test('not at once while what it told its account may be on its way', async (t) => {
  const driven = await new Driven().start();
  const { accounts, provider } = driven;
  let tells = 0;
  accounts.intercept = ({ type }) => {
    if (type !== 'RecordOutcome') return null;
    tells++;
    return UNKNOWN;
  };
  const transaction = accounts.create(charge());
  provider.settle(transaction, paid());
  driven.hint(transaction);
  while (tells < LIMITS.pollerSendsMax) await driven.clock.advance(1_000);
  driven.mtn.onEnquire = () => LOST;
  provider.settle(transaction, reversed());
  t.equal(driven.hint(transaction), undefined);
});

t.test('not where its poller lets go of what it found, for it follows too many', async (t) => {
  const driven = await new Driven().start();
  const { accounts } = driven;
  const transaction = accounts.create(charge());
  await driven.crash();
  for (let i = 1; i < LIMITS.pollerPendingMax; i++) accounts.create(charge({ amount: '500' }));
  // Waits for its rail: it is not let go.
  driven.airtel.maxConcurrency = 0;
  accounts.create(charge({ msisdn: '+256702123456' }));
  driven.mtn.onEnquire = () => LOST;
  t.hasStrict(driven.hint(transaction), UNAVAILABLE);
  t.equal(driven.pollers.size, LIMITS.pollerPendingMax);
});

t.test(
  'nobody knows, in time, where the provider says nothing, nor the account; the callback is kept',
  async (t) => {
    const driven = await new Driven().start();
    driven.accounts.takesNotes = false;
    const transaction = await settledCharge(driven, 5_000);
    driven.provider.settle(transaction, reversed());
    driven.mtn.onEnquire = () => LOST;
    const replies: Reply[] = [];
    driven.hint(transaction, (reply) => replies.push(reply));
    await driven.clock.advance(LIMITS.commandDeadlineMs - 100);
    t.strictSame(replies, []);
    await driven.clock.advance(500);
    t.hasStrict(replies, [UNKNOWN]);
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(60_000);
    t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
    t.equal(replies.length, 1);
  },
);

t.test('where the provider says nothing: when its account has a note of it', async (t) => {
  for (const takesNotes of [true, false]) {
    const driven = await new Driven().start();
    const transaction = await settledCharge(driven, 5_000);
    driven.accounts.takesNotes = takesNotes;
    driven.mtn.onEnquire = () => new Promise(() => {});
    const replies: Reply[] = [];
    driven.hint(transaction, (reply) => replies.push(reply));
    await driven.clock.advance(LIMITS.pollerNoteAfterMs - 100);
    t.strictSame(replies, []);
    await driven.clock.advance(200);
    t.strictSame(
      replies.map(({ type }) => type),
      takesNotes ? ['done'] : [],
    );
    driven.accounts.takesNotes = true;
    await driven.clock.advance(LIMITS.pollerNoteAfterMs);
    t.hasStrict(replies, [DONE], 'it is noted as soon as that can be');
    t.strictSame(driven.accounts.notes(), [null]);
  }
});

t.test('nobody knows, at once, where its poller stops or loses the partition', async (t) => {
  for (const end of ['release', 'lose'] as const) {
    const driven = await new Driven().start();
    const transaction = await settledCharge(driven, 5_000);
    driven.mtn.onEnquire = () => new Promise(() => {});
    const replies: Reply[] = [];
    driven.hint(transaction, (reply) => replies.push(reply));
    void driven.pollers[end](0);
    await driven.clock.advance(50);
    t.hasStrict(replies, [UNKNOWN], end);
    await driven.clock.advance(20_000);
    t.equal(replies.length, 1);
  }
});

t.test('a flood of one callback is bounded, and each is answered', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 5_000);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  const counts: Record<string, number> = {};
  const count = ({ type }: Reply): void => void (counts[type] = (counts[type] ?? 0) + 1);
  for (let i = 0; i < LIMITS.pollerWaitersMax + 10; i++) driven.hint(transaction, count);
  t.strictSame(counts, { unknown: 10 }, 'those that waited longest');
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  answer.resolve(paid());
  await driven.clock.advance(5_000);
  t.strictSame(counts, { unknown: 10, done: LIMITS.pollerWaitersMax });
  t.ok(driven.mtn.enquiries.length <= 2);
});
