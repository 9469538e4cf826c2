// What pollers promise about a withdrawal whose payout wallet is revoked: it is never sent, unless it may have been sent before.
import t from 'tap';
import type { RevokeWallet } from '../../src/domain/account-command.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import type { SubmitResult } from '../../src/rails/rail.ts';
import { byOperator, OWNER, payout, settle, WALLET, walletAdded, withdrawal } from './domain/scenario.ts';
import { ACCEPTED, BUSY, deferred, Driven, LOST, paid } from './pollers-driven.ts';

const MINUTE = 60_000;
const UNAVAILABLE = { type: 'unavailable' } as const;
const revoke: RevokeWallet = { ...byOperator, type: 'RevokeWallet', walletId: WALLET, by: OWNER };

const available = (driven: Driven): number => driven.accounts.scenario.balances().MERCHANT_AVAILABLE;
const eventsOf = (driven: Driven): string[] =>
  driven.accounts.scenario.lines.filter((line) => line.includes('[25,"w') || line.includes('[10,"w'));

/** Its breaker is open. */
async function down(driven: Driven): Promise<void> {
  driven.mtn.onSubmit = () => BUSY;
  for (let i = 0; i < 30; i++) {
    driven.accounts.create(withdrawal({ amount: '1000', reference: `other-${i}` }));
  }
  await driven.clock.advance(1_000);
  t.equal(driven.pollers.railHealth()[0]?.breaker, 'open');
}

t.test('the first submit is recorded before it is made', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = (transaction) => {
    t.equal(driven.accounts.transaction(transaction.id).unsent, false);
    return driven.provider.submit(transaction);
  };
  const withdrawn = driven.accounts.create(withdrawal());
  await driven.clock.advance(100);
  t.equal(driven.mtn.submits.length, 1);
  driven.provider.settle(withdrawn, paid());
  await driven.clock.advance(MINUTE, 1_000);
  t.equal(driven.accounts.transaction(withdrawn.id).status, 'SUCCESSFUL');
});

t.test(
  'while the rail is down nothing is recorded, and a revoked wallet receives nothing when it is up',
  async (t) => {
    for (const crashes of [false, true]) {
      const driven = await new Driven().start();
      await down(driven);
      const before = available(driven);
      const { id } = driven.accounts.create(withdrawal({ amount: '7000' }));
      await driven.clock.advance(10_000);
      t.equal(driven.accounts.transaction(id).unsent, true);
      driven.accounts.when(revoke);
      if (crashes) await driven.crash();
      driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
      await driven.clock.advance(10 * MINUTE, 500);
      t.notOk(driven.mtn.submits.some((submit) => submit.id === id));
      t.match(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'wallet_inactive' });
      t.ok(available(driven) >= before, 'its hold is returned');
    }
  },
);

t.test('where only what fails is tried a withdrawal is not held back for ever', async (t) => {
  const driven = await new Driven().start();
  await down(driven);
  const { id } = driven.accounts.create(withdrawal({ amount: '7000' }));
  driven.mtn.onSubmit = (transaction) => (transaction.id === id ? driven.provider.submit(transaction) : BUSY);
  const submitted = (): boolean => driven.mtn.submits.some((submit) => submit.id === id);
  await driven.clock.advance(60 * MINUTE, 5_000);
  t.notOk(submitted());
  await driven.clock.advance(24 * 60 * MINUTE, 10_000);
  t.ok(submitted());
});

t.test('a callback about one that waits for its rail to come up delays it no longer than that', async (t) => {
  const driven = await new Driven().start();
  await down(driven);
  const withdrawn = driven.accounts.create(withdrawal({ amount: '7000' }));
  await driven.clock.advance(10_000);
  driven.hint(withdrawn);
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  await driven.clock.advance(10 * MINUTE, 500);
  t.equal(driven.mtn.submits.filter((submit) => submit.id === withdrawn.id).length, 1);
});

t.test('what was certainly refused so far fails when its wallet is revoked', async (t) => {
  for (const writeFormat of [1, RECORD_FORMATS.newest]) {
    const driven = await new Driven().start();
    driven.accounts.scenario.writeFormat = writeFormat;
    const before = available(driven);
    const wallet = (): string | undefined => driven.accounts.scenario.account().wallets.get(WALLET)?.status;
    driven.accounts.intercept = (message) => {
      if ('neverTaken' in message && message.neverTaken === true) t.equal(wallet(), 'REVOKED');
      return null;
    };
    driven.mtn.onSubmit = () => BUSY;
    const { id } = driven.accounts.create(withdrawal());
    await driven.clock.advance(5_000);
    const submits = driven.mtn.submits.length;
    t.ok(submits > 2);
    driven.accounts.when(revoke);
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.mtn.submits.length, submits);
    t.match(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'wallet_inactive' });
    t.equal(available(driven), before, 'its hold is returned');
    t.strictSame(driven.notices, []);
  }
});

t.test(
  'what may have been sent is sent no more when its wallet is revoked, and a person ends it',
  async (t) => {
    for (const why of ['it was taken over', 'an answer was lost', 'a gateway refused']) {
      const crashes = why === 'it was taken over';
      const driven = await new Driven().start();
      driven.mtn.onSubmit = () => {
        if (why === 'a gateway refused') return { ...BUSY, mayHaveIt: true };
        return why === 'an answer was lost' && driven.mtn.submits.length === 1 ? LOST : BUSY;
      };
      const { id } = driven.accounts.create(withdrawal());
      const paidOut = driven.accounts.create(payout());
      await driven.clock.advance(15_000);
      const submits = driven.mtn.submits.length;
      t.ok(submits > 2);
      driven.accounts.when(revoke);
      if (crashes) await driven.crash();
      driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
      await driven.clock.advance(60 * MINUTE, 500);
      const sent = driven.mtn.submits.filter(({ at }) => at > driven.clock.now() - 60 * MINUTE);
      t.strictSame(
        sent.map((submit) => submit.id),
        [paidOut.id],
      );
      t.ok(driven.mtn.enquiriesOf(id).length > 50, 'somebody else may have sent it');
      t.equal(driven.accounts.transaction(id).status, 'PENDING_PROVIDER');
      const told = driven.notices.filter(({ what }) => what === 'wallet_revoked');
      t.strictSame(
        told.map(({ transactionId }) => transactionId),
        [id],
        'once',
      );
      driven.accounts.when(settle(id));
      await driven.clock.advance(MINUTE, 500);
      t.equal(driven.accounts.transaction(id).status, 'FAILED');
    }
  },
);

t.test('what waits for its rail when its wallet is revoked is not sent', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 1;
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  driven.accounts.create(payout());
  const { id } = driven.accounts.create(withdrawal());
  const paidOut = driven.accounts.create(payout());
  await driven.clock.advance(100);
  t.equal(driven.pollers.railHealth()[0]?.submitsWaiting, 2);
  driven.accounts.when(revoke);
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  answer.resolve(ACCEPTED);
  await driven.clock.advance(MINUTE, 500);
  t.ok(driven.mtn.submits.some((submit) => submit.id === paidOut.id));
  t.notOk(driven.mtn.submits.some((submit) => submit.id === id));
  t.match(driven.accounts.transaction(id), { status: 'FAILED', failureCode: 'wallet_inactive' });
});

t.test('nor what waits for a token by then, unless the wallet is another', async (t) => {
  for (const walletId of [WALLET, 'wal_01JB2XK7T0000ABCDEFGHJKM01']) {
    const driven = await new Driven().start();
    let sent = 0;
    const token = deferred<void>();
    driven.mtn.onSubmit = async (transaction, isToBeSent) => {
      await token.promise;
      if (!isToBeSent!()) return BUSY;
      sent++;
      return driven.provider.submit(transaction);
    };
    if (walletId !== WALLET) driven.accounts.scenario.given({ ...walletAdded, id: walletId });
    const { id } = driven.accounts.create(withdrawal());
    await driven.clock.advance(100);
    t.equal(driven.mtn.submits.length, 1);
    driven.accounts.when({ ...revoke, walletId });
    token.resolve();
    await driven.clock.advance(MINUTE, 500);
    t.equal(sent, walletId === WALLET ? 0 : 1);
    const status = walletId === WALLET ? 'FAILED' : 'PENDING_PROVIDER';
    t.equal(driven.accounts.transaction(id).status, status);
  }
});

t.test('what waits for its rail when another wallet is revoked is sent once', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 0;
  const { id } = driven.accounts.create(withdrawal());
  await driven.clock.advance(100);
  const walletId = 'wal_01JB2XK7T0000ABCDEFGHJKM01';
  driven.accounts.scenario.given({ ...walletAdded, id: walletId });
  driven.accounts.when({ ...revoke, walletId });
  driven.mtn.maxConcurrency = 1;
  await driven.clock.advance(MINUTE, 500);
  t.strictSame(
    driven.mtn.submits.map((submit) => submit.id),
    [id],
  );
});

t.test('a wallet that is revoked while the word that it is not is on its way is sent nothing', async (t) => {
  for (const isHeld of [true, false]) {
    const driven = new Driven();
    let holds = true;
    await driven.pollers.start(0, { holds: () => holds });
    const { accounts } = driven;
    const send = accounts.send.bind(accounts);
    let arrive = (): void => {};
    accounts.send = (group, partition, message, onReply) => {
      send(group, partition, message, (reply) => {
        if (message.type !== 'BeginSubmission') return onReply(reply);
        arrive = () => onReply(reply);
      });
    };
    const { id } = accounts.create(withdrawal());
    accounts.when(revoke);
    accounts.send = send;
    holds = isHeld;
    arrive();
    await driven.clock.advance(MINUTE, 500);
    t.strictSame(driven.mtn.submits, []);
    // Another process may have sent it.
    t.equal(accounts.transaction(id).status, isHeld ? 'FAILED' : 'PENDING_PROVIDER');
  }
});

t.test(
  'an account of an older version, which does not say that a wallet is revoked, is no obstacle',
  async (t) => {
    const driven = await new Driven().start();
    driven.accounts.intercept = (message) => {
      if (message.type === 'BeginSubmission') {
        delete (message as { again?: boolean }).again;
        delete (message as { neverTaken?: boolean }).neverTaken;
      }
      return null;
    };
    driven.mtn.onSubmit = () => BUSY;
    const { id } = driven.accounts.create(withdrawal());
    await driven.clock.advance(1_000);
    driven.accounts.when(revoke);
    driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.accounts.transaction(id).submitted, true);
  },
);

t.test('one that a person ends while the word to send it is on its way is not sent', async (t) => {
  const driven = await new Driven().start();
  const { accounts } = driven;
  const send = accounts.send.bind(accounts);
  let answer = (): unknown => t.fail('its account is not asked');
  accounts.send = (group, partition, message, onReply) => {
    if (message.type !== 'BeginSubmission') return send(group, partition, message, onReply);
    send(group, partition, message, (reply) => (answer = () => onReply(reply)));
  };
  const { id } = accounts.create(withdrawal());
  accounts.when(settle(id));
  answer();
  await driven.clock.advance(MINUTE, 500);
  t.equal(accounts.transaction(id).status, 'FAILED');
  t.equal(driven.mtn.submits.length, 0);
});

t.test('a callback while its account is asked has its provider asked first', async (t) => {
  const driven = await new Driven().start();
  let asked = 0;
  driven.accounts.intercept = (message) => {
    if (message.type === 'BeginSubmission' && ++asked === 2) driven.hint(withdrawn);
    return null;
  };
  driven.mtn.onSubmit = () => BUSY;
  const withdrawn = driven.accounts.create(withdrawal());
  driven.mtn.onEnquire = () => paid();
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.mtn.submits.length, 1);
  t.equal(driven.accounts.transaction(withdrawn.id).status, 'SUCCESSFUL');
});

t.test('a callback while its account ends what was never taken, as it seems, is looked into', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  const withdrawn = driven.accounts.create(withdrawal());
  await driven.clock.advance(5_000);
  driven.mtn.onEnquire = () => paid();
  driven.accounts.intercept = (message) => {
    if ('neverTaken' in message && message.neverTaken === true) driven.hint(withdrawn);
    return null;
  };
  driven.accounts.when(revoke);
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.accounts.transaction(withdrawn.id).status, 'FAILED');
  t.strictSame(driven.accounts.reconciliation(), ['SUCCESS_AFTER_FINAL'], 'it was paid, and is paid back');
  t.equal(driven.pollers.inFlight, 0);
});

t.test('what may have been sent goes on although its wallet is revoked', async (t) => {
  const driven = await new Driven().start();
  const answer = deferred<SubmitResult>();
  driven.mtn.onSubmit = () => answer.promise;
  const withdrawn = driven.accounts.create(withdrawal());
  await driven.clock.advance(100);
  driven.accounts.when(revoke);
  driven.provider.submit({ ...withdrawn, note: null, createdAt: 0 });
  driven.provider.settle(withdrawn, paid());
  answer.resolve(LOST);
  await driven.clock.advance(MINUTE, 500);
  t.equal(driven.accounts.transaction(withdrawn.id).status, 'SUCCESSFUL');
});

t.test(
  'an account that does not answer is asked again, and a recorded one is enquired about first',
  async (t) => {
    const driven = await new Driven().start();
    let lost = 0;
    driven.accounts.intercept = (message) => {
      if (message.type !== 'BeginSubmission' || lost > 1) return null;
      // The first never came, and the answer to the second was lost.
      if (lost++ === 1) driven.accounts.when(message as never);
      return UNAVAILABLE;
    };
    const { id } = driven.accounts.create(withdrawal());
    await driven.clock.advance(MINUTE, 500);
    t.equal(driven.mtn.submits.length, 1);
    const [firstEnquiry = Infinity] = driven.mtn.enquiriesOf(id);
    t.ok(firstEnquiry < driven.mtn.submits[0]!.at, 'somebody may have sent it');
    t.equal(eventsOf(driven).length, 1);
  },
);

t.test(
  'killed before its account recorded it, it is sent; killed after that, it is enquired about first',
  async (t) => {
    for (const recorded of [false, true]) {
      const driven = await new Driven().start();
      driven.accounts.intercept = (message) => {
        if (message.type !== 'BeginSubmission') return null;
        if (recorded) driven.accounts.scenario.when(message as never);
        return UNAVAILABLE;
      };
      const { id } = driven.accounts.create(withdrawal());
      await driven.clock.advance(100);
      t.equal(driven.mtn.submits.length, 0);
      await driven.crash(() => {
        driven.accounts.intercept = () => null;
      });
      await driven.clock.advance(MINUTE, 500);
      t.equal(driven.mtn.submits.length, 1);
      const [firstEnquiry = Infinity] = driven.mtn.enquiriesOf(id);
      t.equal(firstEnquiry < driven.mtn.submits[0]!.at, recorded);
    }
  },
);

t.test('a withdrawal of record format 1 is sent without a record, as it was', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.scenario.writeFormat = 1;
  driven.accounts.create(withdrawal());
  await driven.clock.advance(100);
  t.equal(driven.mtn.submits.length, 1);
  t.strictSame(eventsOf(driven), []);
});
