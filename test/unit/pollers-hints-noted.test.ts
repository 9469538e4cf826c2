// A callback about what has ended is the only word there is of it: where its provider does not say soon what it was about, it is
// noted at its account. Whoever looks after the transaction next finds it there, however the poller before ended.
import t from 'tap';
import { CallbackNotes } from '../../actors/pollers/callback-notes.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { GetPending } from '../../src/domain/account-command.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import { deriveId } from '../../src/domain/id.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult } from '../../src/rails/rail.ts';
import { ACCOUNT, byOperator, charge, outcome, payout, settle } from './domain/scenario.ts';
import { deferred, Driven, LOST, paid, reversed, settledCharge } from './pollers-driven.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const UNAVAILABLE = { type: 'unavailable' } as const;
const ANSWERED = 'The provider was asked, and answered.';

/** Taken back by its provider, which said so, and answers nobody since. */
async function takenBack(driven: Driven): Promise<Transaction> {
  const transaction = await settledCharge(driven, 100);
  driven.provider.settle(transaction, reversed());
  driven.mtn.onEnquire = () => LOST;
  return transaction;
}

const statusOf = (driven: Driven, { id }: Transaction): string => driven.accounts.transaction(id).status;

const noting = ({ accounts }: Driven): number =>
  accounts.commands.filter(({ type }) => type === 'NoteCallback').length;

t.test('a payment taken back is heard of although the poller that was told of it is killed', async (t) => {
  const driven = await new Driven().start();
  const transaction = await takenBack(driven);
  const replies: Reply[] = [];
  driven.hint(transaction, (reply) => replies.push(reply));
  await driven.clock.advance(20_000);
  t.hasStrict(replies, [{ type: 'done' }], 'its provider need not call again');
  t.strictSame(driven.accounts.notes(), [null]);
  // Nobody answers the next one either, nor the one after that.
  for (const between of [MINUTE, 5 * HOUR]) {
    await driven.crash(() => driven.clock.advance(between, 10_000));
    driven.mtn.onEnquire = () => LOST;
    await driven.clock.advance(MINUTE, 500);
    t.equal(statusOf(driven, transaction), 'SUCCESSFUL');
  }
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(2 * MINUTE, 500);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.strictSame(driven.accounts.notes(), [ANSWERED]);
  t.strictSame(driven.notices, []);
  t.equal(driven.pollers.size, 0);
});

t.test('what ends soon leaves no note', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 100);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  await driven.clock.advance(LIMITS.pollerNoteAfterMs - 500);
  answer.resolve(paid());
  await driven.clock.advance(MINUTE);
  t.equal(noting(driven), 0);
});

t.test('a note is one however often its provider calls, and so is what becomes of it', async (t) => {
  const driven = await new Driven().start();
  const transaction = await takenBack(driven);
  for (let n = 0; n < 30; n++) {
    driven.hint(transaction);
    await driven.clock.advance(1_000);
  }
  t.strictSame(driven.accounts.notes(), [null]);
  t.ok(noting(driven) <= 30_000 / LIMITS.pollerNoteAfterMs, 'nor is it asked for each time');
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(2 * MINUTE);
  t.strictSame(driven.accounts.notes(), [ANSWERED]);
  t.equal(driven.accounts.commands.filter(({ type }) => type === 'ResolveReconciliation').length, 1);
});

t.test('an answer that is about an earlier callback resolves no note', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 100);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  await driven.clock.advance(10_000);
  t.strictSame(driven.accounts.notes(), [null]);
  driven.provider.settle(transaction, reversed());
  driven.hint(transaction);
  driven.mtn.onEnquire = () => LOST;
  answer.resolve(paid());
  await driven.clock.advance(500);
  t.strictSame(driven.accounts.notes(), [null]);
  await driven.crash();
  await driven.clock.advance(MINUTE);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.strictSame(driven.accounts.notes(), [ANSWERED]);
});

t.test('a callback that comes while the note of one before is being resolved has a note', async (t) => {
  for (const isResolved of [true, false]) {
    const driven = await new Driven().start();
    const { accounts, clock, provider } = driven;
    const transaction = await settledCharge(driven, 100);
    driven.mtn.onEnquire = () => LOST;
    driven.hint(transaction);
    await clock.advance(10_000);
    const send = accounts.send.bind(accounts);
    let resolve: (() => void) | null = null;
    accounts.send = (group, partition, message, onReply) => {
      if (message.type !== 'ResolveReconciliation') return send(group, partition, message, onReply);
      resolve = () => {
        if (isResolved) send(group, partition, message, () => onReply({ type: 'unknown' }));
        else onReply(UNAVAILABLE);
      };
    };
    driven.mtn.onEnquire = (asked) => provider.enquire(asked);
    while (resolve === null) await clock.advance(100);
    driven.mtn.onEnquire = () => LOST;
    provider.settle(transaction, reversed());
    driven.hint(transaction);
    (resolve as () => void)();
    accounts.send = send;
    await clock.advance(10_000);
    t.strictSame(accounts.notes(), isResolved ? [ANSWERED, null] : [null]);
    await driven.crash();
    await clock.advance(MINUTE);
    t.equal(statusOf(driven, transaction), 'REVERSED');
    t.notOk(accounts.notes().includes(null));
  }
});

t.test('a note is taken back in the end, whatever becomes of the first tries', async (t) => {
  for (const type of ['NoteCallback', 'ResolveReconciliation']) {
    for (const isTaken of [true, false]) {
      const driven = await new Driven().start();
      const { accounts } = driven;
      const transaction = await takenBack(driven);
      const send = accounts.send.bind(accounts);
      let tries = 0;
      accounts.send = (group, partition, message, onReply) => {
        if (message.type !== type || ++tries > 3) return send(group, partition, message, onReply);
        if (isTaken) return send(group, partition, message, () => onReply({ type: 'unknown' }));
        onReply({ type: 'unknown' });
      };
      const replies: string[] = [];
      driven.hint(transaction, (reply) => replies.push(reply.type));
      await driven.clock.advance(12_000);
      if (type === 'NoteCallback' && isTaken) {
        t.strictSame(replies, ['done'], 'the feed tells that it is noted');
      }
      driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
      await driven.clock.advance(2 * MINUTE, 500);
      // The feed tells of a note whose answer was lost.
      t.equal(tries, type === 'NoteCallback' && isTaken ? 1 : 4);
      t.equal(statusOf(driven, transaction), 'REVERSED');
      t.strictSame(accounts.notes(), [ANSWERED], `${type}, taken: ${isTaken}`);
    }
  }
});

t.test(
  'a note that the feed tells of when it is resolved already stands for no later callback',
  async (t) => {
    const driven = await new Driven().start();
    const { accounts, provider, clock, mtn } = driven;
    await clock.advance(LIMITS.pollerCommandDeadlineMs);
    const transaction = await settledCharge(driven, 100);
    mtn.onEnquire = () => LOST;
    driven.hint(transaction);
    accounts.isFeedSlow = true;
    await clock.advance(LIMITS.pollerNoteAfterMs + 1_000);
    t.strictSame(accounts.notes(), [null]);
    mtn.onEnquire = (asked) => provider.enquire(asked);
    await clock.advance(30_000);
    t.strictSame(accounts.notes(), [ANSWERED]);

    provider.settle(transaction, reversed());
    mtn.onEnquire = () => LOST;
    const replies: string[] = [];
    driven.hint(transaction, (reply) => replies.push(reply.type));
    accounts.isFeedSlow = false;
    accounts.create(charge({ msisdn: '+256702123456' }));
    t.strictSame(replies, []);
    await clock.advance(LIMITS.pollerNoteAfterMs + 1_000);
    t.strictSame(replies, ['done']);
    t.strictSame(accounts.notes(), [ANSWERED, null]);
    await driven.crash();
    await clock.advance(MINUTE);
    t.equal(statusOf(driven, transaction), 'REVERSED');
  },
);

t.test('nobody is told of a callback that is noted when its poller stops', async (t) => {
  for (const [afterMs, takesNotes] of [
    [100, true],
    [20_000, true],
    [100, false],
    [20_000, 'once'],
  ] as const) {
    const driven = await new Driven().start();
    driven.accounts.takesNotes = takesNotes !== false;
    const transaction = await takenBack(driven);
    driven.hint(transaction);
    await driven.clock.advance(afterMs);
    if (takesNotes === 'once') {
      driven.accounts.takesNotes = false;
      driven.hint(transaction);
    }
    const stopping = driven.pollers.stop();
    await driven.clock.advance(25_000);
    await stopping;
    t.strictSame(
      driven.notices.map(({ what, transactionId }) => [what, transactionId]),
      takesNotes === true ? [] : [['hint_lost', transaction.id]],
    );
    await driven.crash();
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(MINUTE, 500);
    t.equal(statusOf(driven, transaction), takesNotes ? 'REVERSED' : 'SUCCESSFUL');
  }
});

t.test('a callback outlives what an operator says of its transaction, and its poller', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(payout());
  driven.mtn.onEnquire = () => LOST;
  driven.hint(transaction);
  driven.provider.settle(transaction, reversed());
  driven.accounts.when(settle(transaction.id, { outcome: 'SUCCESSFUL' }));
  await driven.clock.advance(10_000 + LIMITS.pollerIdleTickMs);
  await driven.crash();
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(MINUTE, 500);
  t.strictSame(
    driven.accounts.reconciliation(),
    ['CONTRADICTION'],
    'what the provider says has its own item',
  );
  t.strictSame(driven.accounts.notes(), [ANSWERED]);
});

t.test('a note is resolved although its transaction ended while its provider was asked', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(payout());
  await driven.clock.advance(100);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  driven.hint(transaction);
  driven.hint(transaction);
  driven.accounts.when(settle(transaction.id));
  await driven.clock.advance(10_000);
  t.strictSame(driven.accounts.notes(), [null]);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  answer.resolve({ type: 'pending', providerStatus: null });
  await driven.clock.advance(MINUTE, 500);
  t.strictSame(driven.accounts.notes(), [ANSWERED]);
});

t.test(
  'a person who has resolved a note has it in hand; nor is what nobody answers in the end asked on',
  async (t) => {
    const driven = await new Driven({ timings: { hintEnquiries: 3 } }).start();
    const [one, other] = [await takenBack(driven), await takenBack(driven)];
    for (const transaction of [one, other]) driven.hint(transaction);
    await driven.clock.advance(HOUR, 1_000);
    t.equal(driven.mtn.enquiries.length, 6);
    t.strictSame(driven.accounts.notes(), [null, null], 'operators see what is open');
    t.equal(driven.notices.filter(({ what }) => what === 'hint_lost').length, 2);
    const [note] = [...driven.accounts.scenario.state.reconciliations.values()];
    driven.accounts.when({
      ...byOperator,
      type: 'ResolveReconciliation',
      reconciliationId: note!.id,
      resolution: 'They keep it.',
    });
    await driven.crash();
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(MINUTE, 500);
    t.strictSame(driven.accounts.notes(), ['They keep it.', ANSWERED]);
    t.equal(driven.mtn.enquiries.length, 1, 'the next poller asks about the other');
  },
);

t.test(
  'a callback that comes when there is a note is answered, and kept, whoever resolved that',
  async (t) => {
    for (const [isResolved, isFeedSlow] of [
      [false, false],
      [true, false],
      [true, true],
    ] as const) {
      const driven = await new Driven().start();
      const { accounts, clock } = driven;
      const transaction = await settledCharge(driven, 100);
      driven.mtn.onEnquire = () => LOST;
      accounts.isFeedSlow = isFeedSlow;
      driven.hint(transaction);
      await clock.advance(20_000);
      const [note] = [...accounts.scenario.state.reconciliations.values()];
      const resolution = 'They keep it.';
      const resolve = {
        ...byOperator,
        type: 'ResolveReconciliation',
        reconciliationId: note!.id,
        resolution,
      } as const;
      if (isResolved) accounts.when(resolve);

      driven.provider.settle(transaction, reversed());
      const replies: string[] = [];
      driven.hint(transaction, ({ type }) => replies.push(type));
      accounts.isFeedSlow = false;
      accounts.create(charge({ msisdn: '+256702123456' }));
      await clock.advance(LIMITS.pollerNoteAfterMs + 1_000);
      t.strictSame(replies, ['done'], 'its provider need not call again');
      t.strictSame(accounts.notes(), isResolved ? [resolution, null] : [null]);
      await driven.crash();
      await clock.advance(MINUTE, 500);
      t.equal(statusOf(driven, transaction), 'REVERSED');
    }
  },
);

t.test(
  'a note whose account was away when it was to be resolved is, though its provider calls again',
  async (t) => {
    for (const isBefore of [true, false]) {
      const driven = await new Driven().start();
      const { accounts, clock } = driven;
      const transaction = await settledCharge(driven, 100);
      driven.mtn.onEnquire = () => LOST;
      driven.hint(transaction);
      await clock.advance(10_000);
      const answer = deferred<EnquiryResult>();
      const callAgain = (): void => {
        driven.mtn.onEnquire = () => answer.promise;
        driven.hint(transaction);
      };
      let tries = 0;
      accounts.intercept = ({ type }) => {
        if (type !== 'ResolveReconciliation' || tries++ > 0) return null;
        if (isBefore) callAgain();
        return UNAVAILABLE;
      };
      driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
      while (tries === 0) await clock.advance(100);
      if (!isBefore) callAgain();
      await clock.advance(3_000);
      answer.resolve(paid());
      await clock.advance(MINUTE, 500);
      t.strictSame(accounts.notes(), [ANSWERED]);
    }
  },
);

t.test(
  'a note is resolved although its account did not say whether it stands for the last callback',
  async (t) => {
    for (const type of ['unavailable', 'unknown'] as const) {
      const driven = await new Driven().start();
      const { accounts, clock } = driven;
      const transaction = await takenBack(driven);
      driven.hint(transaction);
      await clock.advance(20_000);
      t.strictSame(accounts.notes(), [null]);
      const answer = deferred<EnquiryResult>();
      driven.mtn.onEnquire = () => answer.promise;
      const send = accounts.send.bind(accounts);
      let tell = (): unknown => t.fail('it is not asked');
      accounts.send = (group, partition, message, onReply) => {
        if (message.type === 'NoteCallback') tell = () => onReply({ type });
        else send(group, partition, message, onReply);
      };
      driven.hint(transaction);
      await clock.advance(LIMITS.pollerNoteAfterMs + 1_000);
      answer.resolve(reversed());
      await clock.advance(1_000);
      accounts.send = send;
      tell();
      await clock.advance(MINUTE, 500);
      t.equal(statusOf(driven, transaction), 'REVERSED');
      t.strictSame(accounts.notes(), [ANSWERED]);
    }
  },
);

t.test('five notes of one transaction at most: of a sixth operators are told as before', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 100);
  const replies: string[] = [];
  for (let n = 0; n < 6; n++) {
    driven.mtn.onEnquire = () => LOST;
    driven.hint(transaction, ({ type }) => replies.push(type));
    await driven.clock.advance(20_000);
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(2 * MINUTE, 500);
  }
  t.strictSame(
    driven.accounts.notes(),
    Array.from({ length: 5 }, () => ANSWERED),
  );
  t.strictSame(replies, ['done', 'done', 'done', 'done', 'done', 'unknown']);
});

t.test('more notes than one page, and than are looked into at once', async (t) => {
  const driven = await new Driven().start();
  const all = Array.from({ length: LIMITS.pollerLateMax + 10 }, () => driven.accounts.create(charge()));
  for (const transaction of all) {
    driven.provider.settle(transaction, reversed());
    driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
    driven.accounts.when({
      ...byOperator,
      type: 'NoteCallback',
      transactionId: transaction.id,
    });
  }
  // Of others, some of them about nothing.
  driven.accounts.when({
    ...byOperator,
    type: 'RaiseReconciliation',
    kind: 'UNKNOWN_REFERENCE',
    transactionId: deriveId('charge', all[0]!.id, 3),
    detail: 'x',
  });
  await driven.crash();
  await driven.clock.advance(20 * MINUTE, 500);
  t.equal(all.filter((transaction) => statusOf(driven, transaction) === 'REVERSED').length, all.length);
  t.notOk(driven.accounts.notes().includes(null));
  t.equal(driven.pollers.size, 0);
});

t.test('a note that arrives late, and while too many others are looked into, waits its turn', async (t) => {
  const driven = await new Driven().start();
  const transaction = await settledCharge(driven, 100);
  driven.provider.settle(transaction, reversed());
  const unknown = (n: number) => `chg_01JB2XK8Z${String(n).padStart(15, '0')}00`;
  let answered = '';
  driven.accounts.intercept = (message: Message) => {
    const { type, transactionId } = message as GetPending;
    return type === 'GetPending' && transactionId !== answered ? UNAVAILABLE : null;
  };
  for (let n = 0; n < LIMITS.pollerLateMax; n++) driven.hint({ id: unknown(n) });
  driven.accounts.when({ ...byOperator, type: 'NoteCallback', transactionId: transaction.id });
  await driven.clock.advance(10_000, 500);
  t.equal(statusOf(driven, transaction), 'SUCCESSFUL');
  answered = unknown(7);
  await driven.clock.advance(3 * MINUTE, 500);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.ok(driven.accounts.notes().includes(ANSWERED));
});

t.test('notes are found by a poller whose account answers it only later', async (t) => {
  const driven = await new Driven().start();
  const transaction = await takenBack(driven);
  driven.hint(transaction);
  await driven.clock.advance(10_000);
  driven.accounts.intercept = ({ type }: Message) => (type === 'ListReconciliation' ? UNAVAILABLE : null);
  await driven.crash();
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.mtn.enquiries.length, 0);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(2 * MINUTE, 500);
  t.equal(statusOf(driven, transaction), 'REVERSED');
});

t.test('a note that a dead poller had sent is found although it arrives late', async (t) => {
  const driven = await new Driven().start();
  const { accounts } = driven;
  const transaction = await takenBack(driven);
  const send = accounts.send.bind(accounts);
  let arrive = (): unknown => t.fail('it is not noted');
  accounts.send = (group, partition, message, onReply) => {
    if (message.type === 'NoteCallback') arrive = () => send(group, partition, message, () => {});
    else send(group, partition, message, onReply);
  };
  driven.hint(transaction);
  await driven.clock.advance(LIMITS.pollerCommandDeadlineMs + 500);
  await driven.crash();
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(3_000);
  t.equal(statusOf(driven, transaction), 'SUCCESSFUL');
  arrive();
  await driven.clock.advance(3_000);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.strictSame(accounts.notes(), [ANSWERED]);
});

t.test('a note is resolved although its provider called the next poller before that found it', async (t) => {
  const driven = await new Driven().start();
  const { accounts } = driven;
  const transaction = await takenBack(driven);
  driven.hint(transaction);
  await driven.clock.advance(10_000);
  accounts.intercept = ({ type }: Message) => (type === 'ListReconciliation' ? UNAVAILABLE : null);
  await driven.crash();
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  const replies: Reply[] = [];
  driven.hint(transaction, (reply) => replies.push(reply));
  accounts.intercept = () => null;
  await driven.clock.advance(3_000);
  t.strictSame(replies, [], 'a poller before may have sent what resolves it');
  await driven.clock.advance(LIMITS.pollerCommandDeadlineMs);
  t.hasStrict(replies, [{ type: 'done' }], 'it is noted');
  answer.resolve(reversed());
  await driven.clock.advance(100);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.strictSame(accounts.notes(), [ANSWERED]);
  t.equal(noting(driven), 2);
});

t.test('what the poller before has sent resolves no note of a callback that came to the next', async (t) => {
  const driven = await new Driven().start();
  const { accounts, provider } = driven;
  const transaction = await takenBack(driven);
  provider.settle(transaction, paid());
  driven.hint(transaction);
  await driven.clock.advance(12_000);
  t.strictSame(accounts.notes(), [null]);
  const send = accounts.send.bind(accounts);
  const onTheirWay: (() => void)[] = [];
  accounts.send = (group, partition, message, onReply) => {
    if (message.type !== 'ResolveReconciliation') return send(group, partition, message, onReply);
    onTheirWay.push(() => send(group, partition, message, () => {}));
  };
  driven.mtn.onEnquire = (asked) => provider.enquire(asked);
  while (onTheirWay.length === 0) await driven.clock.advance(500);
  provider.settle(transaction, reversed());
  accounts.send = send;
  await driven.crash(() => {
    driven.mtn.onEnquire = () => LOST;
  });
  const replies: Reply[] = [];
  driven.hint(transaction, (reply) => replies.push(reply));
  await driven.clock.advance(3_000);
  for (const arrive of onTheirWay) arrive();
  t.strictSame(accounts.notes(), [ANSWERED]);
  await driven.clock.advance(LIMITS.commandDeadlineMs);
  t.hasStrict(replies, [{ type: 'done' }], 'its provider need not call again');
  await driven.crash();
  await driven.clock.advance(2 * MINUTE, 500);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.strictSame(accounts.notes(), [ANSWERED, ANSWERED]);
});

t.test('nor does one that may have lost its partition resolve any', async (t) => {
  const driven = new Driven();
  let holds = true;
  await driven.pollers.start(0, { holds: () => holds });
  const transaction = await takenBack(driven);
  driven.hint(transaction);
  await driven.clock.advance(12_000);
  const answer = deferred<EnquiryResult>();
  driven.mtn.onEnquire = () => answer.promise;
  await driven.clock.advance(MINUTE, 500);
  holds = false;
  answer.resolve(paid());
  await driven.clock.advance(MINUTE, 500);
  t.strictSame(driven.accounts.notes(), [null]);
  await driven.crash();
  await driven.clock.advance(2 * MINUTE, 500);
  t.equal(statusOf(driven, transaction), 'REVERSED');
  t.strictSame(driven.accounts.notes(), [ANSWERED]);
});

t.test('of so many at once are notes kept, and no more', async (t) => {
  let now = 0;
  const noted = new Set<unknown>();
  const send = (_group: string, _partition: number, message: Message): void => {
    noted.add((message as { transactionId?: string }).transactionId);
  };
  const bus = { partitions: () => 1, send };
  const clocks = { monotonic: () => now, deadlineClock: () => now };
  const notes = new CallbackNotes({ partition: 0, bus, ...clocks, holds: () => true, onNoted: () => {} });
  for (let n = 0; n <= LIMITS.pollerWaitersMax; n++) notes.came(`chg_${n}`, ACCOUNT, null);
  now = LIMITS.pollerCommandDeadlineMs;
  notes.tick();
  t.equal(noted.size, LIMITS.pollerWaitersMax);
});

t.test('what is written is of the first record format: versions before it read it', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.scenario.writeFormat = 1;
  const transaction = await takenBack(driven);
  driven.hint(transaction);
  await driven.clock.advance(10_000);
  const { events } = decodeRecord(driven.accounts.scenario.lines.at(-1)!);
  t.hasStrict(events, [
    { type: 'ReconciliationRaised', kind: 'CONTRADICTION', transactionId: transaction.id },
  ]);
});
