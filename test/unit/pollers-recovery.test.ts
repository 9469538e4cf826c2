// What pollers promise across crashes: whatever the moment, the same reference, no second payment, nothing lost.
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Message } from '../../src/bus/bus.ts';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import { LIMITS } from '../../src/limits.ts';
import { beginning, charge, payout, withdrawal } from './domain/scenario.ts';
import { declined, Driven, LOST, paid, reversed } from './pollers-driven.ts';
import { randomFrom } from '../seed.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const UNAVAILABLE = { type: 'unavailable' } as const;

t.test('killed between log and submit: enquired about first, then submitted, once', async (t) => {
  // It never started: the feed had nobody to tell.
  const driven = new Driven();
  const { id } = driven.accounts.create(payout());
  await driven.crash();
  t.equal(driven.mtn.enquiries.length, 1, 'enquired first');
  t.equal(driven.mtn.submits.length, 0, 'not submitted within the grace period');
  await driven.clock.advance(10_000);
  t.equal(driven.mtn.submits.length, 1);
  t.ok(driven.accounts.transaction(id).submitted);
});

t.test('killed between submit and answer: found at the provider, not submitted again', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = (transaction) => {
    driven.provider.submit(transaction);
    return new Promise(() => {});
  };
  const { id } = driven.accounts.create(payout());
  t.notOk(driven.accounts.transaction(id).submitted);
  await driven.crash();
  await driven.clock.advance(60_000);
  t.ok(driven.accounts.transaction(id).submitted);
  t.equal(driven.mtn.submits.length, 0);
  t.equal(driven.provider.accepted.size, 1);
});

t.test(
  'killed between submit and answer of a rail that is silent ever after: it may have been sent',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = (transaction) => {
      driven.provider.submit(transaction);
      return new Promise(() => {});
    };
    const transaction = driven.accounts.create(charge());
    await driven.crash(() => {
      driven.mtn.onEnquire = () => LOST;
    });
    await driven.clock.advance(32 * 60_000);
    t.hasStrict(driven.accounts.transaction(transaction.id), { status: 'FAILED', failureCode: 'expired' });
    t.equal(driven.mtn.submits.length, 0);
    driven.provider.settle(transaction, paid());
    driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
    await driven.clock.advance(60 * 60_000, 1_000);
    t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL']);
  },
);

t.test('what expired while nobody was there: all of it is asked about, for minutes', async (t) => {
  // Of one alone the breaker does not hold back what is asked without an answer.
  for (const [slow, length] of [
    [true, 20],
    [false, 20],
    [false, 1],
  ] as const) {
    const driven = await new Driven().start();
    const transactions = Array.from({ length }, () => driven.accounts.create(charge()));
    await driven.crash(async () => {
      await driven.clock.advance(40 * MINUTE, MINUTE);
      for (const transaction of transactions) driven.provider.settle(transaction, paid());
      const { clock, mtn, provider } = driven;
      const returnedAt = clock.now();
      if (slow) mtn.maxConcurrency = 1;
      mtn.onEnquire = async (transaction) => {
        if (slow) for (const until = clock.now() + 10_000; clock.now() < until;) await setImmediate();
        return !slow && clock.now() < returnedAt + 3 * MINUTE ? LOST : provider.enquire(transaction);
      };
    });
    await driven.clock.advance(10 * MINUTE);
    const statuses = transactions.map(({ id }) => driven.accounts.transaction(id).status);
    t.strictSame(new Set(statuses), new Set(['SUCCESSFUL']), slow ? 'slow answers' : 'a way that opens late');
  }
});

t.test(
  'a charge that expired before it was sent is not sent any more, however slow the provider',
  async (t) => {
    const driven = new Driven();
    const { id } = driven.accounts.create(charge());
    await driven.crash(async () => {
      await driven.clock.advance(40 * MINUTE, MINUTE);
      const { clock, mtn, provider } = driven;
      mtn.onEnquire = async (transaction) => {
        for (const until = clock.now() + 2 * mtn.notFoundGraceMs; clock.now() < until;) await setImmediate();
        return provider.enquire(transaction);
      };
    });
    await driven.clock.advance(MINUTE);
    t.strictSame(driven.mtn.submits, []);
    t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'provider_unavailable' });
  },
);

t.test('an account that takes nothing until long after the expiry: who paid in time has paid', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  await driven.clock.advance(MINUTE);
  driven.accounts.intercept = () => UNAVAILABLE;
  driven.provider.settle(transaction, paid());
  await driven.clock.advance(50 * MINUTE);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(5 * MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  t.ok(driven.mtn.enquiriesOf(transaction.id).length < 60, 'and the provider was not asked all the time');
});

t.test('killed between expiry and a look: later looks are made, and one more', async (t) => {
  const driven = await new Driven().start();
  const early = driven.accounts.create(charge());
  const never = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  for (const { id } of [early, never]) {
    t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
  }
  await driven.clock.advance(15 * MINUTE);
  const looksBefore = driven.mtn.enquiriesOf(early.id).length;

  await driven.crash();
  driven.provider.settle(early, paid());
  await driven.clock.advance(9 * MINUTE);
  t.equal(driven.mtn.enquiriesOf(early.id).length, 0);
  t.ok(looksBefore > 1);
  await driven.clock.advance(31 * MINUTE);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL'], 'it is soon found');
  t.equal(driven.mtn.enquiriesOf(never.id).length, 1);
  t.equal(driven.pollers.size, 0, 'none of them is in flight');
  await driven.clock.advance(40 * MINUTE);
  t.equal(driven.mtn.enquiriesOf(never.id).length, 2, 'and looks go on');

  await driven.crash();
  await driven.clock.advance(24 * 60 * MINUTE, 1_000);
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL'], 'and once');
  await driven.crash();
  await driven.clock.advance(3 * 24 * 60 * MINUTE, 10_000);
  await driven.crash();
  await driven.clock.advance(24 * 60 * MINUTE, 10_000);
  t.equal(driven.mtn.enquiriesOf(never.id).length, 0, 'looks end');
  t.strictSame(driven.notices, []);
});

t.test('looks that a day without anybody there took are made up for by one, within the hour', async (t) => {
  const driven = await new Driven().start();
  const looked = driven.accounts.create(charge());
  await driven.clock.advance(40 * HOUR, 1_000);
  const fresh = driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  for (const { id } of [looked, fresh]) {
    t.match(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
  }
  await driven.crash(() => driven.clock.advance(24 * HOUR, HOUR));
  for (const transaction of [looked, fresh]) driven.provider.settle(transaction, paid());
  await driven.clock.advance(HOUR, 1_000);
  t.strictSame(
    [looked, fresh].map(({ id }) => driven.mtn.enquiriesOf(id).length),
    [1, 1],
    'the last look of the one was missed, and of the other the first four',
  );
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL', 'SUCCESS_AFTER_FINAL']);
});

t.test('what expired longer ago than looks and a day take is left alone', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.create(charge());
  await driven.clock.advance(31 * MINUTE);
  await driven.crash(() => driven.clock.advance(4 * 24 * HOUR, HOUR));
  await driven.clock.advance(24 * HOUR, 10_000);
  t.strictSame(driven.mtn.enquiries, []);
});

t.test(
  'a process that dies every minute looks at what expired once an hour, not once a minute',
  async (t) => {
    const count = 50;
    const driven = await new Driven({ random: randomFrom(1) }).start();
    for (let i = 0; i < count; i++) driven.accounts.create(charge());
    await driven.clock.advance(60 * MINUTE, 1_000);
    let looks = 0;
    for (let minute = 0; minute < 180; minute++) {
      await driven.crash();
      await driven.clock.advance(MINUTE, 1_000);
      looks += driven.mtn.enquiries.length;
    }
    t.ok(looks > count && looks < 6 * count, `${looks} looks at ${count} in three hours`);
  },
);

t.test('what expired over a rail that is gone is left alone', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(charge({ msisdn: '+256702123456' }));
  await driven.clock.advance(32 * MINUTE);
  t.hasStrict(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'expired' });
  await driven.crash(() => {
    driven.airtel = driven.mtn;
  });
  await driven.clock.advance(60 * MINUTE, 1_000);
  t.strictSame(driven.notices, []);
});

t.test('killed between answer and outcome: the outcome is found again', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(payout());
  driven.provider.settle(transaction, paid());
  driven.accounts.intercept = ({ type }) => (type === 'RecordOutcome' ? UNAVAILABLE : null);
  driven.hint(transaction);
  t.equal(driven.accounts.transaction(transaction.id).status, 'PENDING_PROVIDER');
  driven.accounts.intercept = () => null;
  await driven.crash();
  await driven.clock.advance(12_000);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
});

t.test('killed with a callback that its provider was too silent to explain: found without it', async (t) => {
  for (const [said, status] of [
    [paid(), 'SUCCESSFUL'],
    [reversed(), 'FAILED'],
  ] as const) {
    const driven = await new Driven().start();
    const transaction = driven.accounts.create(charge());
    driven.provider.settle(transaction, said);
    driven.mtn.onEnquire = () => LOST;
    driven.hint(transaction);
    await driven.clock.advance(LIMITS.commandDeadlineMs + 1_000);
    await driven.crash();
    await driven.clock.advance(MINUTE);
    t.equal(driven.accounts.transaction(transaction.id).status, status);
  }
});

t.test(
  'killed while the word of a refusal is on its way: not sent again before that has arrived',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => declined();
    const late: Message[] = [];
    driven.accounts.intercept = (message) => {
      if (message.type !== 'RecordOutcome') return null;
      late.push(message);
      return UNAVAILABLE;
    };
    const { id } = driven.accounts.create(payout());
    await driven.crash(() => {
      driven.accounts.intercept = () => null;
    });
    await driven.clock.advance(LIMITS.pollerCommandDeadlineMs - 1_000);
    driven.accounts.when(late[0] as unknown as AccountCommand);
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.accounts.transaction(id).status, 'FAILED');
    t.strictSame(driven.provider.accepted.size, 0, 'the provider, which would take it now, never had it');
  },
);

t.test('killed after a refusal: the same reference, and refused again', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => ({ type: 'not_accepted', reason: '503' });
  const { id } = driven.accounts.create(payout());
  const before = driven.mtn.submits[0]!.reference;
  await driven.crash();
  await driven.clock.advance(10_000);
  t.strictSame(
    driven.mtn.submits.map(({ reference }) => reference),
    [before],
  );
  t.ok(driven.accounts.transaction(id).submitted);
});

t.test('everything in flight is taken up, over many pages, while new charges are served', async (t) => {
  for (const pagesAreShort of [false, true]) await takenUpOverPages(t, pagesAreShort);
});

async function takenUpOverPages(t: Test, pagesAreShort: boolean): Promise<void> {
  const driven = await new Driven().start();
  driven.accounts.pagesAreShort = pagesAreShort;
  const count = LIMITS.pollerScanPageMax * 3 + 7;
  for (let i = 0; i < count; i++) driven.accounts.create(charge());
  t.equal(driven.pollers.size, count);
  let pages = 0;
  driven.accounts.intercept = ({ type }) => {
    // In the middle of recovery.
    if (type === 'ListPending' && ++pages === 2) driven.accounts.create(charge());
    return null;
  };
  await driven.crash();
  t.ok(pages >= 4);
  t.equal(driven.accounts.subscriptions, 1, 'the feed is read once');
  t.equal(driven.pollers.size, count + 1);
  await driven.clock.advance(20_000);
  t.equal(new Set(driven.mtn.enquiries.map(({ id }) => id)).size, count + 1, 'each was enquired about');
  t.equal(driven.mtn.submits.length, 1, 'only the new one was submitted');
}

t.test('what the feed told of during a scan is not taken up a second time by it', async (t) => {
  const driven = await new Driven().start();
  for (let i = 0; i < LIMITS.pollerScanPageMax + 1; i++) driven.accounts.create(charge());
  let pages = 0;
  driven.accounts.intercept = ({ type }) => {
    if (type === 'ListPending' && ++pages === 2) driven.accounts.create(payout());
    return null;
  };
  await driven.crash(() => {
    // Out for longer than it takes to be asked about and not found.
    driven.mtn.onSubmit = () => new Promise(() => {});
  });
  await driven.clock.advance(60_000);
  t.equal(driven.mtn.submits.length, 1);
});

/** What the feed of the next pollers has to tell, each to be told when it is called. */
function holdFeedBack({ accounts }: Driven): (() => void)[] {
  const untold: (() => void)[] = [];
  const subscribe = accounts.subscribe.bind(accounts);
  accounts.subscribe = <Told>(...[group, partition, after, handler]: Parameters<typeof subscribe<Told>>) =>
    subscribe<Told>(group, partition, after, (batch) => {
      untold.push(() => void handler(batch));
    });
  return untold;
}

/** Of a scan. */
function beforeSecondPage({ accounts }: Driven, act: () => void): void {
  let pages = 0;
  accounts.intercept = ({ type }) => {
    if (type === 'ListPending' && ++pages === 2) act();
    return null;
  };
}

t.test(
  'what a scan comes upon before the feed tells of it was sent by nobody: it is not waited for',
  async (t) => {
    for (const toldAfterMs of [0, 1_000]) {
      const driven = await new Driven().start();
      for (let i = 0; i < LIMITS.pollerScanPageMax + 1; i++) driven.accounts.create(charge());
      const { accounts } = driven;
      const untold = holdFeedBack(driven);
      beforeSecondPage(driven, () => accounts.create(charge()));
      await driven.crash();
      await driven.clock.advance(toldAfterMs);
      t.equal(driven.mtn.submits.length, 0, 'a poller before may have sent it');
      t.equal(untold.length, 1);
      for (const tell of untold) tell();
      await driven.clock.advance(1_000);
      t.equal(driven.mtn.submits.length, 1);
      await driven.clock.advance(20_000);
      t.equal(driven.mtn.submits.length, 1, 'once');
    }
  },
);

t.test('nor is it waited less for when this poller has sent it by then, and lost the answer', async (t) => {
  const driven = await new Driven().start();
  for (let i = 0; i < LIMITS.pollerScanPageMax + 1; i++) driven.accounts.create(charge());
  const untold = holdFeedBack(driven);
  beforeSecondPage(driven, () => driven.accounts.create(payout()));
  await driven.crash();
  driven.mtn.notFoundGraceMs = MINUTE;
  driven.mtn.onSubmit = () => LOST;
  await driven.clock.advance(2 * LIMITS.pollerCommandDeadlineMs, 500);
  t.equal(driven.mtn.submits.length, 1);
  for (const tell of untold) tell();
  await driven.clock.advance(MINUTE / 2, 500);
  t.equal(driven.mtn.submits.length, 1, 'its provider may have it, and not know it yet');
});

t.test(
  'but a withdrawal whose submit was recorded by then was sent by somebody: it is waited for',
  async (t) => {
    const driven = await new Driven().start();
    for (let i = 0; i < LIMITS.pollerScanPageMax + 1; i++) driven.accounts.create(charge());
    const { accounts } = driven;
    const untold = holdFeedBack(driven);
    beforeSecondPage(driven, () => {
      const { id } = accounts.create(withdrawal());
      accounts.when(beginning(id));
    });
    await driven.crash();
    for (const tell of untold) tell();
    await driven.clock.advance(LIMITS.pollerCommandDeadlineMs - 1_000);
    t.equal(driven.mtn.submits.length, 0, 'the word of a refusal may be on its way');
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.mtn.submits.length, 1);
  },
);

t.test('enquiries of recovery are spread', async (t) => {
  const driven = await new Driven({ random: randomFrom(1) }).start();
  for (let i = 0; i < 1_000; i++) driven.accounts.create(charge());
  await driven.crash();
  await driven.clock.advance(1_000);
  const early = driven.mtn.enquiries.length;
  t.ok(early > 50 && early < 200, `${early} of 1,000 in the first of ten seconds`);
});

t.test('accounts that do not answer yet are asked until they do', async (t) => {
  const driven = new Driven();
  const { id } = driven.accounts.create(charge());
  driven.accounts.intercept = () => UNAVAILABLE;
  const started = driven.start();
  await driven.clock.advance(60_000);
  t.equal(driven.pollers.size, 0);
  t.notOk(driven.pollers.isFollowing, 'what is created now nobody would send');
  driven.accounts.intercept = () => null;
  await driven.clock.advance(70_000);
  await started;
  t.ok(driven.pollers.isFollowing);
  t.ok(driven.accounts.transaction(id).submitted);
});

t.test('what ended between two pages of a scan is not taken up', async (t) => {
  const driven = await new Driven().start();
  const count = LIMITS.pollerScanPageMax + 5;
  const all = Array.from({ length: count }, () => driven.accounts.create(charge()));
  const last = all.at(-1)!;
  let stale: ReturnType<Driven['accounts']['intercept']> = null;
  driven.accounts.intercept = (message) => {
    if (message.type !== 'ListPending' || !('afterId' in message) || message.afterId === null) return null;
    // The page was read just before the last one succeeded; its answer comes after the feed has told of that.
    driven.accounts.intercept = () => null;
    driven.accounts.send('accounts', 0, message, (reply) => {
      stale = reply;
    });
    driven.provider.settle(last, paid());
    driven.hint(last);
    return stale;
  };
  await driven.crash();
  t.equal(driven.accounts.transaction(last.id).status, 'SUCCESSFUL');
  t.equal(driven.pollers.size, count - 1);
});
