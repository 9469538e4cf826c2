// Random weather: rails that lose answers, refuse, hang and forget nothing; accounts that are busy; callbacks that come
// early, twice or never; payments of another amount, or taken back, told again until that is known; operators who say too
// early that a payout failed; and crashes at any moment. Whatever happens, each transaction has one reference at the
// provider, none that went out ended without the provider's word, the ledger agrees with the provider or operators are told
// that it does not, and nothing stays in flight.
import t from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { isCallbackNote } from '../../src/domain/decide/reconciliation-id.ts';
import { zeroCheck } from '../../src/domain/ledger.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { charge, deposit, payout, settle } from '../unit/domain/scenario.ts';
import { declined, Driven, paid } from '../unit/pollers-driven.ts';
import { TakenBack } from './taken-back.ts';
import { stormy } from './weather.ts';
import { lengthOf, randomFrom, seedOf } from '../seed.ts';

const SEED = seedOf(t);
const RUNS = lengthOf(t, 'RUNS', 20);

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const UNAVAILABLE: Reply = { type: 'unavailable' };

async function run(seed: number): Promise<{ driven: Driven; takenBack: TakenBack }> {
  const random = randomFrom(seed);
  const driven = new Driven({ random });
  const takenBack = new TakenBack(driven, (transaction, onReply) => driven.hint(transaction, onReply));
  let trouble = 0.5;
  const weather = (): void => {
    for (const rail of [driven.mtn, driven.airtel]) stormy(driven, rail, random, () => trouble);
  };
  weather();
  driven.accounts.intercept = ({ type }: Message) =>
    type !== 'ListPending' && random() < trouble / 5 ? UNAVAILABLE : null;
  await driven.start();

  const all: Transaction[] = [];
  for (let step = 0; step < 150; step++) {
    const msisdn = random() < 0.5 ? '+256772123456' : '+256702123456';
    const make = [charge, payout, deposit][Math.floor(random() * 3)]!;
    if (step < 100) {
      all.push(driven.accounts.create(make({ msisdn, amount: '5000' }) as ReturnType<typeof charge>));
    }
    for (const transaction of all) {
      const accepted = driven.provider.accepted.get(referenceOf(transaction));
      if (accepted === null && random() < 0.05) {
        const amount = random() < 0.05 ? 4_000 : 5_000;
        driven.provider.settle(transaction, random() < 0.7 ? paid({ amount }) : declined());
        for (let i = Math.floor(random() * 3); i > 0; i--) driven.hint(transaction);
      } else if (random() < 0.01) {
        driven.hint(transaction);
      }
      if (accepted?.type === 'succeeded' && random() < 0.01) takenBack.add(transaction);
      if (transaction.type === 'PAYOUT' && random() < 0.001) driven.accounts.when(settle(transaction.id));
    }
    takenBack.call();
    if (random() < 0.05) {
      await driven.crash(weather);
      takenBack.callAgain();
    }
    await driven.clock.advance(Math.floor(random() * 3_000), 100);
  }

  // The weather clears, and every customer answers: some when their charge has expired.
  trouble = 0;
  const tooLate = new Set(all.filter(({ expiresAt }) => expiresAt !== null && random() < 0.3));
  const approve = (transactions: Iterable<Transaction>): void => {
    for (const transaction of transactions) {
      const waits = driven.provider.accepted.get(referenceOf(transaction)) === null;
      if (waits) driven.provider.settle(transaction, paid({ amount: 5_000 }));
    }
  };
  for (let round = 0; round < 4; round++) {
    takenBack.call();
    await driven.clock.advance(8 * 60_000, 1_000);
    approve(all.filter((transaction) => !tooLate.has(transaction)));
    for (const { id } of driven.accounts.inFlight().filter(isOfAnotherAmount(driven))) {
      driven.accounts.when(settle(id, { outcome: random() < 0.5 ? 'SUCCESSFUL' : 'FAILED' }));
    }
  }
  approve(tooLate);
  // Some hours without anybody there, in which looks at what expired fall due.
  await driven.crash(() => {
    weather();
    return driven.clock.advance(Math.floor(random() * DAY), HOUR);
  });
  await driven.clock.advance(2 * HOUR, 5_000);
  return { driven, takenBack };
}

for (let seed = SEED; seed < SEED + RUNS; seed++) {
  t.test(`SEED=${seed} RUNS=1`, async (t) => {
    const { driven, takenBack } = await run(seed);
    t.equal(takenBack.size, 0, 'the network need not call again');
    const { state } = driven.accounts.scenario;
    t.strictSame(
      driven.accounts.inFlight().map(({ id, status }) => [id, status]),
      [],
      'nothing stays in flight',
    );
    const references = new Set([...state.transactions.values()].map(referenceOf));
    t.ok(
      [...driven.provider.accepted.keys()].every((reference) => references.has(reference)),
      'the provider knows no reference but those of the transactions',
    );
    const raised = new Set(
      [...state.reconciliations.values()]
        .filter(({ id, transactionId }) => !isCallbackNote(id, transactionId))
        .map(({ transactionId }) => transactionId),
    );
    for (const transaction of state.transactions.values()) {
      const theirs = driven.provider.accepted.get(referenceOf(transaction));
      const { id, status, failureCode } = transaction;
      if (theirs?.type === 'reversed') {
        const isForPeople = transaction.type !== 'CHARGE' && raised.has(id);
        t.ok(status !== 'SUCCESSFUL' || isForPeople, `${id} was taken back, and is ${status}`);
      } else if (status === 'SUCCESSFUL' && !isFunding(transaction)) {
        t.equal(theirs?.type, 'succeeded', `${id} succeeded there too`);
        const isTold = transaction.type === 'PAYOUT' && raised.has(id);
        t.ok(theirs?.amount === transaction.amount || isTold, `${id}, of ${theirs?.amount}`);
      } else if (transaction.type === 'PAYOUT' && transaction.events.at(-1)?.source !== 'DASHBOARD') {
        t.hasStrict(theirs, { type: 'failed', failureCode }, `${id} failed there too`);
      } else if (theirs?.type === 'succeeded') {
        t.ok(raised.has(id), `${id} was paid after we had ended it, and operators know`);
      }
    }
    const balances = driven.accounts.scenario.balances();
    t.equal(zeroCheck(balances), 0, 'the ledger is balanced');
    t.equal(balances.SETTLEMENT_CLEARING, 0, 'nothing is held');
    t.strictSame(driven.faults, []);
    await driven.clock.advance(60_000, 1_000);
    t.equal(driven.pollers.size, 0, 'nothing is followed');
  });
}

/** Of a payout that is paid with another amount a person says what it is; a charge expires. */
function isOfAnotherAmount({ provider }: Driven): (transaction: Transaction) => boolean {
  return (transaction) => {
    const amount = provider.accepted.get(referenceOf(transaction))?.amount ?? transaction.amount;
    return transaction.type === 'PAYOUT' && amount !== transaction.amount;
  };
}

/** The fixture's own deposits went over no rail. */
function isFunding({ amount }: { readonly amount: number }): boolean {
  return amount === 20_000_000;
}
