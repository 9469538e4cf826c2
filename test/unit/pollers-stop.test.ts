// What pollers promise when they stop, and when a partition is handed over to another process: what is in the air ends and is
// told, and nothing is begun that the next owner may be doing already.
import t from 'tap';
import { TIMINGS } from '../../actors/pollers/schedule.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import type { EnquiryResult, IsToBeSent, SubmitResult } from '../../src/rails/rail.ts';
import {
  ACCOUNT,
  byOperator,
  charge,
  outcome,
  OWNER,
  payout,
  WALLET,
  withdrawal,
} from './domain/scenario.ts';
import {
  ACCEPTED,
  BUSY,
  declined,
  deferred,
  Driven,
  LOST,
  paid,
  reversed,
  settledCharge,
} from './pollers-driven.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const UNAVAILABLE = { type: 'unavailable' } as const;

t.test('a stop lets calls in the air finish and their outcomes be told, and starts none', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  driven.mtn.maxConcurrency = 1;
  const flying = driven.accounts.create(charge());
  const queued = driven.accounts.create(charge());
  let refusals = 0;
  driven.accounts.intercept = ({ type }) =>
    type === 'RecordOutcome' && ++refusals <= 2 ? UNAVAILABLE : null;
  let stopped = false;
  const stopping = driven.pollers.stop().then(() => {
    stopped = true;
  });
  driven.accounts.create(charge({ msisdn: '+256702123456' }));
  await driven.clock.advance(1_000);
  t.notOk(stopped, 'it waits for the call');
  t.equal(driven.airtel.submits.length, 0, 'nor on a rail that is idle');
  answer.resolve(paid());
  await driven.clock.advance(5_000);
  await stopping;
  t.equal(driven.clock.intervals, 0);
  t.equal(driven.accounts.transaction(flying.id).status, 'SUCCESSFUL');
  t.equal(driven.accounts.transaction(queued.id).status, 'PENDING_PROVIDER');
  t.equal(driven.mtn.submits.length, 1);
});

t.test('a partition that is handed over calls nobody while it waits for what is in the air', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  const waiting = driven.accounts.create(payout());
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  driven.mtn.maxConcurrency = 1;
  const flying = driven.accounts.create(payout());
  driven.accounts.create(payout());
  t.equal(driven.mtn.submits.length, 2, 'the third waits for its turn with the rail');
  let released = false;
  const releasing = driven.pollers.release(0).then(() => {
    released = true;
  });
  t.match(driven.hint(waiting), UNAVAILABLE, 'nor takes a callback');
  t.equal(driven.pollers.size, 0, 'and nothing of it counts as followed here');
  await driven.clock.advance(9_000);
  t.equal(driven.mtn.submits.length, 2, 'the next owner may be sending it already');
  t.equal(driven.mtn.enquiries.length, 0);
  t.notOk(released);
  answer.resolve(paid());
  await driven.clock.advance(100);
  t.ok(released, 'and no longer than for its outcome to be taken');
  await releasing;
  t.equal(driven.accounts.transaction(flying.id).status, 'SUCCESSFUL');
  driven.accounts.create(payout());
  await driven.clock.advance(MINUTE);
  t.equal(driven.mtn.submits.length + driven.mtn.enquiries.length, 2);
});

t.test('a stop waits while an account is asked something, and no longer', async (t) => {
  for (const type of ['GetPending', 'BeginSubmission', 'NoteCallback']) {
    const driven = await new Driven().start();
    const { accounts } = driven;
    const send = accounts.send.bind(accounts);
    const asked: (() => void)[] = [];
    accounts.send = (group, partition, message, onReply) => {
      if (message.type !== type) return send(group, partition, message, onReply);
      asked.push(() => send(group, partition, message, onReply));
    };
    if (type === 'GetPending') {
      // It does not agree with what its provider says.
      const { id } = accounts.create(charge({ amount: '50000' }));
      driven.provider.settle({ id, accountId: ACCOUNT }, paid({ amount: 5, currency: 'UGX' }));
      await driven.clock.advance(MINUTE);
      t.strictSame(accounts.reconciliation(), ['AMOUNT_MISMATCH']);
    } else if (type === 'BeginSubmission') {
      accounts.create(withdrawal());
    } else {
      const transaction = await settledCharge(driven, 100);
      driven.mtn.onEnquire = () => LOST;
      driven.hint(transaction);
      while (asked.length === 0) await driven.clock.advance(100);
    }
    t.equal(asked.length, 1);
    let stopped = false;
    const stopping = driven.pollers.stop().then(() => {
      stopped = true;
    });
    await driven.clock.advance(1_000);
    t.notOk(stopped);
    asked[0]!();
    await driven.clock.advance(100);
    t.ok(stopped);
    await stopping;
  }
});

t.test(
  'a submit that was refused ends nothing once another may have it, and have submitted it anew',
  async (t) => {
    const driven = new Driven();
    let holds = true;
    await driven.pollers.start(0, { holds: () => holds });
    const answer = deferred<SubmitResult>();
    driven.mtn.onSubmit = () => answer.promise;
    driven.airtel.onSubmit = () => declined();
    const refusedLater = driven.accounts.create(payout());
    driven.accounts.intercept = ({ type }) => (type === 'RecordOutcome' ? UNAVAILABLE : null);
    const untold = driven.accounts.create(payout({ msisdn: '+256702123456' }));
    holds = false;
    driven.accounts.intercept = () => null;
    answer.resolve(declined());
    await driven.clock.advance(MINUTE);
    for (const { id } of [refusedLater, untold]) {
      t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
    }
    t.equal(driven.mtn.submits.length + driven.airtel.submits.length, 2);
    t.equal(driven.mtn.enquiries.length + driven.airtel.enquiries.length, 0);
    // Its session was not ended after all.
    holds = true;
    await driven.clock.advance(2 * MINUTE);
    for (const { id } of [refusedLater, untold]) t.equal(driven.accounts.transaction(id).status, 'FAILED');
  },
);

t.test('nor where this process has lost it, and has it again', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  const { id } = driven.accounts.create(payout());
  await driven.pollers.lose(0);
  await driven.pollers.start(0);
  answer.resolve(declined());
  await driven.clock.advance(1_000);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
  driven.mtn.onSubmit = () => paid();
  await driven.clock.advance(MINUTE);
  t.equal(driven.accounts.transaction(id).status, 'SUCCESSFUL');
});

t.test('nor is it over because it was never sent: another may have sent it since', async (t) => {
  const driven = new Driven();
  let holds = true;
  await driven.pollers.start(0, { holds: () => holds });
  driven.mtn.onSubmit = () => BUSY;
  const { id, expiresAt } = driven.accounts.create(charge());
  let told = 0;
  driven.accounts.intercept = ({ type }) => (type === 'RecordOutcome' && ++told > 0 ? UNAVAILABLE : null);
  await driven.clock.advance(expiresAt! - TIMINGS.approvalMs - driven.clock.now(), 1_000);
  t.equal(told, 1, 'its account does not take it');
  holds = false;
  driven.accounts.intercept = () => null;
  await driven.clock.advance(TIMINGS.approvalMs / 2, 1_000);
  t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
});

t.test('what has its turn with its rail while another may have it is sent when none has', async (t) => {
  const driven = new Driven();
  let holds = true;
  await driven.pollers.start(0, { holds: () => holds });
  driven.mtn.maxConcurrency = 1;
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  driven.accounts.create(payout());
  const { id } = driven.accounts.create(payout());
  holds = false;
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  answer.resolve(ACCEPTED);
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.mtn.submits.length, 1);
  holds = true;
  await driven.clock.advance(MINUTE, 500);
  t.strictSame(
    driven.mtn.submits.slice(1).map((submit) => submit.id),
    [id],
  );
});

t.test(
  'what is past its end is looked at now and then while another may have it, and expires when none has',
  async (t) => {
    const driven = new Driven();
    let holds = true;
    let asked = 0;
    await driven.pollers.start(0, { holds: () => ++asked > 0 && holds });
    driven.mtn.onSubmit = () => ACCEPTED;
    const { id, expiresAt } = driven.accounts.create(charge());
    driven.mtn.onEnquire = () => ({ type: 'pending', providerStatus: 'PENDING' });
    await driven.clock.advance(MINUTE, 1_000);
    holds = false;
    await driven.clock.advance(expiresAt! - driven.clock.now() + MINUTE, 1_000);
    asked = 0;
    await driven.clock.advance(MINUTE, 100);
    t.ok(asked > 0 && asked < 120, `looked at ${asked} times in a minute: what else falls due has its turn`);
    holds = true;
    await driven.clock.advance(MINUTE, 100);
    t.equal(driven.accounts.transaction(id).status, 'FAILED');
  },
);

t.test('what waits for a token is sent no more once another may have it, or it has ended', async (t) => {
  const submits: { readonly isToBeSent: IsToBeSent; readonly answer: (result: SubmitResult) => void }[] = [];
  const driven = new Driven();
  let holds = true;
  await driven.pollers.start(0, { holds: () => holds });
  driven.mtn.onSubmit = (_transaction, isToBeSent) =>
    new Promise((answer) => submits.push({ isToBeSent: isToBeSent!, answer }));
  const flying = driven.accounts.create(payout());
  const ended = driven.accounts.create(payout());
  const sent = () => submits.map(({ isToBeSent }) => isToBeSent());
  t.strictSame(sent(), [true, true]);
  driven.accounts.when(outcome(ended.id, 'FAILED', { source: 'DASHBOARD' }));
  t.strictSame(sent(), [true, false], 'an operator said that it failed');
  holds = false;
  t.strictSame(sent(), [false, false]);
  holds = true;
  t.strictSame(sent(), [true, false]);
  const releasing = driven.pollers.release(0);
  t.strictSame(sent(), [false, false]);
  for (const { answer } of submits) answer(BUSY);
  await driven.clock.advance(100);
  await releasing;
  t.equal(driven.accounts.transaction(flying.id).status, 'PENDING_PROVIDER', 'the next owner sends it');
});

t.test('what is not sent because we let go of it says nothing of its rail', async (t) => {
  const driven = await new Driven().start();
  const token = deferred<void>();
  driven.mtn.onSubmit = async (_transaction, isToBeSent) => {
    await token.promise;
    return isToBeSent!() ? paid() : { type: 'not_accepted', reason: 'it is not to be sent any more' };
  };
  for (let n = 0; n < 30; n++) driven.accounts.create(charge());
  const releasing = driven.pollers.release(0);
  token.resolve();
  await driven.clock.advance(100);
  await releasing;
  t.match(driven.pollers.railHealth()[0], { health: 'OPERATIONAL', breaker: 'closed', failures: 0 });
});

t.test('nor does it keep a rail from being tried again', async (t) => {
  const driven = await new Driven().start();
  const isDown = () => driven.pollers.railHealth()[0]?.breaker !== 'closed';
  driven.mtn.onSubmit = () => BUSY;
  for (let n = 0; n < 30; n++) driven.accounts.create(charge());
  t.ok(isDown());
  const token = deferred<void>();
  driven.mtn.onSubmit = async (_transaction, isToBeSent) => {
    await token.promise;
    return isToBeSent!() ? paid() : { type: 'not_accepted', reason: 'it is not to be sent any more' };
  };
  await driven.clock.advance(5_000);
  t.equal(driven.pollers.railHealth()[0]?.calling, 1, 'it is tried');
  const releasing = driven.pollers.release(0);
  token.resolve();
  await driven.clock.advance(100);
  await releasing;
  await driven.pollers.start(0);
  await driven.clock.advance(5_000);
  t.notOk(isDown());
});

t.test('a partition that is handed over lets nothing expire: the next owner may have sent it', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  const charged = driven.accounts.create(charge());
  const endsAt = (charged.expiresAt ?? 0) - TIMINGS.approvalMs;
  await driven.clock.advance(endsAt - driven.clock.now() - 1_000, 1_000);
  driven.mtn.onSubmit = () => new Promise(() => {});
  driven.accounts.create(payout());
  const releasing = driven.pollers.release(0);
  await driven.clock.advance(11_000);
  await releasing;
  t.equal(driven.accounts.transaction(charged.id).status, 'PENDING_PROVIDER');
});

t.test(
  'a partition that is handed over sends nothing again that its provider turns out not to have',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.onSubmit = () => LOST;
    const answer = deferred<EnquiryResult>();
    driven.mtn.onEnquire = () => answer.promise;
    driven.accounts.create(payout());
    await driven.clock.advance(driven.mtn.notFoundGraceMs);
    t.equal(driven.mtn.enquiries.length, 1);
    const releasing = driven.pollers.release(0);
    answer.resolve({ type: 'not_found' });
    await driven.clock.advance(1_000);
    await releasing;
    await driven.clock.advance(MINUTE);
    t.equal(driven.mtn.submits.length, 1);
  },
);

t.test(
  'a partition that is handed over before its account has said what there is asks no more',
  async (t) => {
    for (const type of ['ListPending', 'ListExpired', 'ListReconciliation']) {
      const driven = new Driven();
      let asked = 0;
      driven.accounts.intercept = (message) => {
        if (message.type !== type) return null;
        asked++;
        return UNAVAILABLE;
      };
      const starting = driven.pollers.start(0);
      await driven.clock.advance(5_000);
      const before = asked;
      t.ok(before > 1, type);
      const releasing = driven.pollers.release(0);
      await driven.clock.advance(MINUTE, 1_000);
      await t.resolves(Promise.all([starting, releasing]));
      t.equal(asked, before, type);
    }
  },
);

t.test('a stop is not held up where the feed told of an outcome before its account answered', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.intercept = (message) => {
    if (message.type !== 'RecordOutcome') return null;
    driven.accounts.when(message as unknown as AccountCommand);
    return { type: 'done', body: '{}', replayed: false };
  };
  const transaction = driven.accounts.create(payout());
  driven.provider.settle(transaction, paid());
  driven.hint(transaction);
  t.equal(driven.accounts.transaction(transaction.id).status, 'SUCCESSFUL');
  let stopped = false;
  void driven.pollers.stop().then(() => {
    stopped = true;
  });
  await driven.clock.advance(100);
  t.ok(stopped);
});

t.test('nor where an account took an outcome only when its provider had been asked again', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(charge());
  driven.mtn.onEnquire = () => paid();
  driven.accounts.intercept = ({ type }) => (type === 'RecordOutcome' ? UNAVAILABLE : null);
  await driven.clock.advance(10 * MINUTE, 500);
  t.ok(driven.mtn.enquiries.length > 1);
  driven.accounts.intercept = () => null;
  await driven.clock.advance(3 * MINUTE, 500);
  t.equal(driven.accounts.transaction(id).status, 'SUCCESSFUL');
  let stopped = false;
  void driven.pollers.stop().then(() => {
    stopped = true;
  });
  await driven.clock.advance(1_000);
  t.ok(stopped);
});

t.test('a partition that is lost is left at once: nobody is called any more', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  const flying = driven.accounts.create(payout());
  await driven.pollers.lose(0);
  t.hasStrict(driven.hint(flying), UNAVAILABLE);
  t.equal(driven.pollers.size, 0);
  driven.accounts.create(payout());
  answer.resolve(paid());
  await driven.clock.advance(MINUTE);
  t.equal(driven.mtn.submits.length + driven.mtn.enquiries.length, 1);
});

t.test(
  'a partition that another process may have by now: nobody is called, nothing is given up',
  async (t) => {
    const driven = new Driven();
    let held = true;
    await driven.pollers.start(0, { holds: () => held });
    driven.mtn.onSubmit = () => BUSY;
    const refused = driven.accounts.create(payout());
    const charged = driven.accounts.create(charge());
    const answer = deferred<SubmitResult>();
    driven.mtn.onSubmit = () => answer.promise;
    driven.mtn.maxConcurrency = 1;
    const flying = driven.accounts.create(payout());
    driven.accounts.create(payout());
    t.equal(driven.mtn.submits.length, 3, 'the fourth waits for its turn with the rail');

    held = false;
    answer.resolve(LOST);
    const created = driven.accounts.create(payout({ msisdn: '+256702123456' }));
    const withdrawn = driven.accounts.create(withdrawal());
    driven.hint(flying);
    await driven.clock.advance(HOUR, 1_000);
    t.equal(driven.mtn.submits.length, 3);
    t.equal(driven.mtn.enquiries.length + driven.airtel.submits.length, 0);
    t.equal(driven.accounts.transaction(withdrawn.id).unsent, true);
    t.equal(driven.accounts.transaction(charged.id).status, 'PENDING_PROVIDER');

    held = true;
    driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
    driven.mtn.maxConcurrency = 100;
    await driven.clock.advance(5 * MINUTE, 1_000);
    for (const { id } of [refused, flying, created, withdrawn]) {
      t.equal(driven.accounts.transaction(id).submitted, true);
    }
    t.equal(driven.accounts.transaction(charged.id).status, 'FAILED');
  },
);

t.test('a stop does not wait for a rail that hangs for ever', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => new Promise(() => {});
  driven.accounts.create(charge());
  const stopping = driven.pollers.stop();
  await driven.clock.advance(30_000);
  await t.resolves(stopping);
});

for (const end of ['release', 'lose', 'stop'] as const) {
  t.test(`callbacks that were not looked into are handed on: ${end}`, async (t) => {
    const driven = await new Driven().start();
    driven.accounts.takesNotes = false;
    const [unanswered, inTheAir, waiting, looked] = Array.from({ length: 4 }, () => {
      const transaction = driven.accounts.create(charge());
      driven.provider.settle(transaction, reversed());
      driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
      return transaction;
    });
    const ended = driven.accounts.create(payout({ amount: '1000' }));
    driven.mtn.onEnquire = () => LOST;
    driven.hint(unanswered!);
    await driven.clock.advance(100);
    driven.mtn.onEnquire = (transaction) => driven.provider.enquire(transaction);
    driven.hint(looked!);
    await driven.clock.advance(100);
    driven.mtn.maxConcurrency = 1;
    driven.mtn.onEnquire = () => new Promise(() => {});
    driven.hint(inTheAir!);
    driven.hint(waiting!);
    // It is in flight: the next owner finds it.
    driven.hint(ended);
    driven.accounts.intercept = ({ type }) => (type === 'GetPending' ? UNAVAILABLE : null);
    const unknown = { id: 'chg_01JB2XK8Z30001NPQRSTVWXY00' };
    driven.hint(unknown);
    const handedOn: string[] = [];
    driven.accounts.intercept = (message) => {
      if (message.type !== 'Hint') return message.type === 'GetPending' ? UNAVAILABLE : null;
      const { transactionId } = message as unknown as { transactionId: string };
      handedOn.push(transactionId);
      return transactionId === waiting!.id ? UNAVAILABLE : { type: 'done', body: '{}', replayed: false };
    };
    const ending = end === 'stop' ? driven.pollers.stop() : driven.pollers[end](0);
    await driven.clock.advance(25_000);
    await ending;
    t.strictSame(handedOn.toSorted(), [unanswered!.id, inTheAir!.id, waiting!.id, unknown.id].toSorted());
    t.hasStrict(driven.notices[0], { what: 'hint_lost', transactionId: waiting!.id }, 'nobody took it');
    t.equal(driven.notices.length, 1);
  });
}

t.test('so is one that came while its account ended what was never taken, as it seems', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  const withdrawn = driven.accounts.create(withdrawal());
  await driven.clock.advance(5_000);
  const { accounts } = driven;
  const handedOn: unknown[] = [];
  accounts.intercept = (message) => {
    if (message.type !== 'Hint') return null;
    handedOn.push(message);
    return { type: 'done', body: '{}', replayed: false };
  };
  const send = accounts.send.bind(accounts);
  const asked: (() => void)[] = [];
  accounts.send = (group, partition, message, onReply) => {
    const isEnd = 'neverTaken' in message && message.neverTaken === true;
    if (!isEnd) return send(group, partition, message, onReply);
    driven.hint(withdrawn);
    asked.push(() => send(group, partition, message, onReply));
  };
  accounts.when({ ...byOperator, type: 'RevokeWallet', walletId: WALLET, by: OWNER });
  while (asked.length === 0) await driven.clock.advance(100);
  const releasing = driven.pollers.release(0);
  asked[0]!();
  await driven.clock.advance(1_000);
  await releasing;
  t.equal(accounts.transaction(withdrawn.id).status, 'FAILED');
  t.hasStrict(handedOn, [{ accountId: ACCOUNT, transactionId: withdrawn.id, handedOn: true }]);
  t.strictSame(driven.notices, []);
});

t.test('a callback that is handed on is taken at once, and kept', async (t) => {
  const driven = await new Driven().start();
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, reversed());
  driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
  driven.mtn.onEnquire = () => LOST;
  const hint = { type: 'Hint', accountId: ACCOUNT, transactionId: transaction.id, deadline: 0 } as const;
  let answer: Reply | undefined;
  driven.pollers.send(0, { ...hint, handedOn: true } as Message, (reply) => {
    answer = reply;
  });
  t.hasStrict(answer, { type: 'done' });
  await driven.clock.advance(MINUTE);
  driven.mtn.onEnquire = (asked) => driven.provider.enquire(asked);
  await driven.clock.advance(2 * MINUTE);
  t.equal(driven.accounts.transaction(transaction.id).status, 'REVERSED');
});
