// What providers answer and what falls due, in every state a transaction can be in: late, twice, contradicting.

import t from 'tap';
import type { AccountEvent, ReconciliationKind } from '../../../src/domain/account-event.ts';
import type { AccountCommand, CreateCommand } from '../../../src/domain/account-command.ts';
import { deriveId } from '../../../src/domain/id.ts';
import type { Transaction } from '../../../src/domain/transaction.ts';
import {
  ACCOUNT,
  activateWallet,
  beginning,
  byOperator,
  charge,
  DAY,
  deposit,
  due,
  FOR_EVER,
  fundedMerchant,
  merchant,
  MINUTE,
  outcome,
  OWNER,
  payout,
  type Scenario,
  START,
  submission,
  thenBody,
  thenRecorded,
  thenRefused,
  WALLET,
  walletAdded,
  withdrawal,
} from './scenario.ts';

type Step = (id: string) => AccountCommand;
const accepted: Step = (id) => submission(id, 'PENDING');
const succeeded: Step = (id) => outcome(id, 'SUCCESSFUL');
const failed: Step = (id) => outcome(id, 'FAILED');
const reversed: Step = (id) => outcome(id, 'REVERSED');
const released: Step = (id) => due('ReleaseCharge', id);
const expired: Step = (id) => due('ExpireTransaction', id);
const answered: Step = (id) => due('FixAnswer', id);

function reach(
  create: CreateCommand,
  steps: readonly Step[],
): { scenario: Scenario; transaction: Transaction } {
  const scenario = fundedMerchant();
  const transaction = scenario.create(create);
  for (const step of steps) {
    if (step === expired) scenario.at(START + 30 * MINUTE);
    if (step === released) scenario.at(START + DAY);
    scenario.when(step(transaction.id));
  }
  return { scenario, transaction };
}

type Then = AccountEvent['type'] | ReconciliationKind | 'nothing';
type Row = readonly [given: string, steps: readonly Step[], success: Then, failure: Then, reversal: Then];

const COLLECTION: readonly Row[] = [
  ['created', [], 'TransactionSucceeded', 'TransactionFailed', 'TransactionFailed'],
  ['answered', [answered], 'TransactionSucceeded', 'TransactionFailed', 'TransactionFailed'],
  ['accepted', [accepted], 'TransactionSucceeded', 'TransactionFailed', 'TransactionFailed'],
  ['failed', [accepted, failed], 'SUCCESS_AFTER_FINAL', 'nothing', 'nothing'],
  ['expired', [accepted, expired], 'SUCCESS_AFTER_FINAL', 'nothing', 'nothing'],
];
const CHARGE: readonly Row[] = [
  ...COLLECTION,
  ['successful', [accepted, succeeded], 'nothing', 'CONTRADICTION', 'ChargeReversed'],
  ['released', [accepted, succeeded, released], 'nothing', 'CONTRADICTION', 'ChargeReversed'],
  ['reversed', [accepted, succeeded, reversed], 'nothing', 'nothing', 'nothing'],
];
const CASH_OUT: readonly Row[] = [
  ['created', [], 'TransactionSucceeded', 'TransactionFailed', 'TransactionFailed'],
  ['accepted', [accepted], 'TransactionSucceeded', 'TransactionFailed', 'TransactionFailed'],
  ['successful', [accepted, succeeded], 'nothing', 'CONTRADICTION', 'CONTRADICTION'],
  ['failed', [accepted, failed], 'SUCCESS_AFTER_FINAL', 'nothing', 'nothing'],
];
const TABLES: readonly (readonly [CreateCommand, readonly Row[]])[] = [
  [charge(), CHARGE],
  [
    deposit(),
    [...COLLECTION, ['successful', [accepted, succeeded], 'nothing', 'CONTRADICTION', 'CONTRADICTION']],
  ],
  [payout(), CASH_OUT],
  [withdrawal(), CASH_OUT],
  [
    withdrawal({ amount: '6000000' }),
    [['waiting for approval', [], 'CONTRADICTION', 'CONTRADICTION', 'CONTRADICTION']],
  ],
];

for (const [create, rows] of TABLES) {
  for (const [given, steps, ...expected] of rows) {
    t.test(`${create.type} ${given}: each word of the provider, and each word twice`, async (t) => {
      for (const [index, step] of [succeeded, failed, reversed].entries()) {
        const then = expected[index] ?? 'nothing';
        const { scenario, transaction } = reach(create, steps);
        const before = JSON.stringify([transaction, [...scenario.account().balances]]);
        const decision = scenario.when(step(transaction.id));
        if (then === 'nothing') {
          thenRecorded(decision);
        } else if (then === 'SUCCESS_AFTER_FINAL' || then === 'CONTRADICTION') {
          thenRecorded(decision, 'ReconciliationRaised');
          t.hasStrict(
            [...scenario.state.reconciliations.values()],
            [{ kind: then, transactionId: transaction.id }],
          );
          t.equal(
            JSON.stringify([transaction, [...scenario.account().balances]]),
            before,
            'no state changes',
          );
        } else {
          thenRecorded(decision, then as AccountEvent['type']);
        }
        t.pass(`${step(transaction.id).type} ${index}: ${then}`);
        thenRecorded(scenario.when(step(transaction.id)));
      }
    });
  }
}

t.test('another amount or currency than ours changes no state, and is raised once', async (t) => {
  for (const over of [
    { amount: 49_999 },
    { amount: 50_001 },
    { currency: 'KES' },
    { amount: 1, currency: 'GHS' },
  ] as const) {
    for (const steps of [[accepted], [accepted, succeeded], [accepted, succeeded, released]]) {
      for (const word of ['SUCCESSFUL', 'REVERSED'] as const) {
        const { scenario, transaction } = reach(charge(), steps);
        const before = JSON.stringify([transaction, [...scenario.account().balances]]);
        thenRecorded(scenario.when(outcome(transaction.id, word, over)), 'ReconciliationRaised');
        t.hasStrict([...scenario.state.reconciliations.values()], [{ kind: 'AMOUNT_MISMATCH' }]);
        thenRecorded(scenario.when(outcome(transaction.id, word, over)));
        t.equal(JSON.stringify([transaction, [...scenario.account().balances]]), before);
      }
    }
  }
  const { scenario, transaction } = reach(charge(), [accepted]);
  const ofOther = outcome(transaction.id, 'FAILED', { amount: 49_999, currency: 'KES' });
  thenRecorded(scenario.decide(ofOther), 'TransactionFailed');
  const same = outcome(transaction.id, 'SUCCESSFUL', { amount: 50_000, currency: 'UGX' });
  thenRecorded(scenario.when(same), 'TransactionSucceeded');
});

t.test('an item tells operators what the provider said and what we have', async (t) => {
  const rows: [what: string, steps: readonly Step[], said: AccountCommand, detail: string][] = [
    [
      'all that there is to say',
      [accepted, failed],
      outcome('', 'SUCCESSFUL', { amount: 50_000, currency: 'UGX' }),
      'The provider says SUCCESSFUL (P_SUCCESSFUL), 50000 UGX, its id 998877.' +
        ' Ours: FAILED (customer_declined), 50000 UGX.',
    ],
    [
      'nothing but a word',
      [accepted, succeeded],
      outcome('', 'FAILED', { providerStatus: null }),
      'The provider says FAILED. Ours: SUCCESSFUL, 50000 UGX.',
    ],
    [
      'an amount without its currency',
      [accepted],
      outcome('', 'SUCCESSFUL', { amount: 7, providerTransactionId: null }),
      'The provider says SUCCESSFUL (P_SUCCESSFUL), 7. Ours: AWAITING_CUSTOMER, 50000 UGX.',
    ],
    [
      'an amount that is none',
      [accepted],
      outcome('', 'SUCCESSFUL', { amount: 0, currency: 'UGX', providerTransactionId: '998877' }),
      'The provider says SUCCESSFUL (P_SUCCESSFUL), of nothing, or of money that cannot be read, its id 998877.' +
        ' Ours: AWAITING_CUSTOMER, 50000 UGX.',
    ],
    [
      'a currency without an amount',
      [accepted],
      outcome('', 'SUCCESSFUL', { currency: 'GHS', providerTransactionId: null }),
      'The provider says SUCCESSFUL (P_SUCCESSFUL), GHS. Ours: AWAITING_CUSTOMER, 50000 UGX.',
    ],
  ];
  for (const [what, steps, said, detail] of rows) {
    const { scenario, transaction } = reach(charge(), steps);
    scenario.when({ ...said, transactionId: transaction.id } as AccountCommand);
    t.equal([...scenario.state.reconciliations.values()][0]?.detail, detail, what);
  }
});

t.test('an item of a transaction has one id for ever: what was resolved is not raised again', async (t) => {
  const { scenario, transaction } = reach(payout(), [accepted, succeeded]);
  scenario.when(failed(transaction.id));
  const id = deriveId('reconciliation', transaction.id, 1_003);
  t.strictSame([...scenario.state.reconciliations.keys()], [id]);
  scenario.given({ type: 'ReconciliationResolved', id, by: 'operator', resolution: 'It was paid.' });
  thenRecorded(scenario.later(DAY).when(failed(transaction.id)));
});

t.test('money that cannot be read is told once, in whatever currency it is said', async () => {
  const { scenario, transaction } = reach(charge(), [accepted]);
  thenRecorded(scenario.when(outcome(transaction.id, 'SUCCESSFUL', { amount: 0 })), 'ReconciliationRaised');
  const [id = ''] = scenario.state.reconciliations.keys();
  scenario.given({ type: 'ReconciliationResolved', id, by: 'operator', resolution: 'Asked.' });
  thenRecorded(scenario.when(outcome(transaction.id, 'SUCCESSFUL', { amount: 0, currency: 'UGX' })));
  thenRecorded(scenario.when(outcome(transaction.id, 'SUCCESSFUL', { amount: 7 })), 'ReconciliationRaised');
});

t.test('what a provider says anew after an item was resolved is another item', async (t) => {
  const resolve = (scenario: Scenario): void => {
    for (const { id, resolvedAt } of scenario.state.reconciliations.values()) {
      const by = { by: 'operator', resolution: 'Theirs is wrong.' };
      if (resolvedAt === null) scenario.given({ type: 'ReconciliationResolved', id, ...by });
    }
  };
  const paidOut = reach(payout(), [accepted, succeeded]);
  const back = reversed(paidOut.transaction.id);
  paidOut.scenario.when(failed(paidOut.transaction.id));
  thenRecorded(paidOut.scenario.when(back));
  resolve(paidOut.scenario);
  thenRecorded(paidOut.scenario.when(back), 'ReconciliationRaised');
  thenRecorded(paidOut.scenario.when(back));
  resolve(paidOut.scenario);
  thenRecorded(paidOut.scenario.when(back));
  thenRecorded(paidOut.scenario.when(failed(paidOut.transaction.id)));

  const collected = reach(charge(), [accepted, succeeded]);
  const part = (amount: number, currency: 'UGX' | null = null) =>
    outcome(collected.transaction.id, 'REVERSED', { amount, currency });
  thenRecorded(collected.scenario.when(part(20, 'UGX')), 'ReconciliationRaised');
  resolve(collected.scenario);
  thenRecorded(collected.scenario.when(part(20)));
  for (const amount of [10, 1, 2, 3]) {
    thenRecorded(collected.scenario.when(part(amount)), 'ReconciliationRaised');
    resolve(collected.scenario);
  }
  t.equal(new Set(collected.scenario.state.reconciliations.keys()).size, 5);
  thenRecorded(collected.scenario.when(part(6)));

  const named = reach(charge(), [accepted]);
  const inCurrency = (currency: 'KES' | 'GHS', amount: number | null = null) =>
    outcome(named.transaction.id, 'SUCCESSFUL', { amount, currency });
  thenRecorded(named.scenario.when(inCurrency('KES', 20)), 'ReconciliationRaised');
  resolve(named.scenario);
  thenRecorded(named.scenario.when(inCurrency('KES')));
  thenRecorded(named.scenario.when(inCurrency('GHS')), 'ReconciliationRaised');
  resolve(named.scenario);
  thenRecorded(named.scenario.when(inCurrency('GHS')));

  const settled = reach(payout(), [accepted]);
  const other = outcome(settled.transaction.id, 'SUCCESSFUL', { amount: 1 });
  thenRecorded(settled.scenario.when(other), 'ReconciliationRaised');
  resolve(settled.scenario);
  settled.scenario.when(succeeded(settled.transaction.id));
  thenRecorded(settled.scenario.when(other));
});

t.test('money that came back before it was seen to arrive is a failure that says so', async (t) => {
  for (const create of [charge(), deposit(), payout(), withdrawal()]) {
    const { transaction } = reach(create, [accepted, reversed]);
    t.hasStrict(transaction, {
      status: 'FAILED',
      failureCode: 'unknown',
      failureMessage: 'The network returned the money before it confirmed the payment.',
    });
  }
  const { transaction } = reach(charge(), [(id) => outcome(id, 'FAILED', { failureMessage: null })]);
  t.hasStrict(transaction, { failureCode: 'customer_declined', failureMessage: null });
  const bare = reach(charge(), [(id) => outcome(id, 'FAILED', { failureCode: null })]);
  t.equal(bare.transaction.failureCode, 'unknown');
});

t.test('an outcome for a transaction we do not have', async (t) => {
  const scenario = merchant();
  const unknown = deriveId('charge', scenario.create(charge()).id, 3).slice(0, -2) + 'ZZ';
  thenRecorded(scenario.when(succeeded(unknown)), 'ReconciliationRaised');
  t.hasStrict(
    [...scenario.state.reconciliations.values()],
    [{ kind: 'UNKNOWN_REFERENCE', transactionId: unknown, resolvedAt: null }],
  );
  thenRecorded(scenario.when(succeeded(unknown)));
  thenRecorded(scenario.when(succeeded('not one of our ids')), 'ReconciliationRaised');
  t.ok([...scenario.state.reconciliations.keys()].every((id) => /^rec_[0-9A-Z]{26}$/.test(id)));
  thenRefused(scenario.when({ ...succeeded(unknown), accountId: 'acc_none' }), 'not_found');
  const raise = { type: 'RaiseReconciliation', accountId: ACCOUNT, deadline: FOR_EVER } as const;
  const detail = 'A callback without a transaction.';
  thenRecorded(
    scenario.when({ ...raise, kind: 'UNKNOWN_REFERENCE', transactionId: null, detail }),
    'ReconciliationRaised',
  );
});

t.test(
  'callbacks about nothing are raised for as long as operators have few of them to resolve',
  async () => {
    const scenario = merchant();
    const [known, other] = ['key-of-one', 'key-of-another'].map(
      (idempotencyKey) => scenario.create(charge({}, { idempotencyKey })).id,
    ) as [string, string];
    const unknown = (id: string) => `${id.slice(0, -2)}ZZ`;
    const raise = {
      type: 'RaiseReconciliation',
      accountId: ACCOUNT,
      deadline: FOR_EVER,
      detail: 'x',
    } as const;
    const about = (transactionId: string | null) =>
      ({ ...raise, kind: 'UNKNOWN_REFERENCE', transactionId }) as const;
    scenario.unknownReferencesLeft = 1;
    thenRecorded(scenario.when(about(unknown(known))), 'ReconciliationRaised');
    for (const left of [0, -1]) {
      scenario.unknownReferencesLeft = left;
      thenRefused(scenario.when(about(unknown(other))), 'conflict');
      thenRefused(scenario.when(about(null)), 'conflict');
      thenRecorded(scenario.when(about(unknown(known))));
      thenRecorded(
        scenario.decide({ ...raise, kind: 'CONTRADICTION', transactionId: known }),
        'ReconciliationRaised',
      );
    }
  },
);

t.test("another account's transaction is as unknown as none", async () => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  const other = { accountId: `acc_${'0'.repeat(26)}` };
  for (const step of [accepted, expired, answered, released]) {
    thenRecorded(scenario.at(START + 2 * DAY).decide({ ...step(id), ...other }));
  }
});

t.test('a submission', async (t) => {
  t.test('moves a charge and a deposit on to the customer, once', async (t) => {
    for (const create of [charge(), deposit()]) {
      const { scenario, transaction } = reach(create, []);
      thenRecorded(scenario.later(5).when(accepted(transaction.id)), 'SubmissionAccepted');
      t.hasStrict(transaction, { status: 'AWAITING_CUSTOMER', submitted: true, answeredAt: 2 });
      t.hasStrict(transaction.events[2], { source: 'API', providerStatus: 'PENDING', at: START + 5 });
      thenRecorded(scenario.when(accepted(transaction.id)));
    }
  });
  t.test('of a payout or withdrawal only notes that it was submitted, once', async (t) => {
    for (const create of [payout(), withdrawal()]) {
      const { scenario, transaction } = reach(create, []);
      thenRecorded(scenario.when(accepted(transaction.id)), 'SubmissionAccepted');
      t.hasStrict(transaction, { status: 'PENDING_PROVIDER', submitted: true, answeredAt: 1 });
      thenRecorded(scenario.when(accepted(transaction.id)));
    }
  });
  t.test('after the outcome changes nothing', async () => {
    for (const steps of [[succeeded], [failed], [accepted, expired]]) {
      const { scenario, transaction } = reach(charge(), steps);
      thenRecorded(scenario.when(accepted(transaction.id)));
    }
  });
  t.test('of an unsent withdrawal, or of nothing we know, changes nothing', async () => {
    const { scenario, transaction } = reach(withdrawal({ amount: '6000000' }), []);
    thenRecorded(scenario.when(accepted(transaction.id)));
    thenRecorded(scenario.when(accepted('chg_none')));
  });
});

t.test('expiry: charges and deposits in progress, from expiresAt on, once', async (t) => {
  for (const create of [charge(), deposit()]) {
    for (const steps of [[], [accepted]]) {
      const { scenario, transaction } = reach(create, steps);
      thenRecorded(scenario.at(START + 30 * MINUTE - 1).when(expired(transaction.id)));
      thenRecorded(scenario.at(START + 30 * MINUTE).when(expired(transaction.id)), 'TransactionFailed');
      const failureMessage = `The ${steps.length > 0 ? 'customer' : 'network'} did not answer in time.`;
      t.hasStrict(transaction, { status: 'FAILED', failureCode: 'expired', failureMessage });
      t.hasStrict(transaction.events.at(-1), { source: 'SYSTEM', message: failureMessage });
      thenRecorded(scenario.when(expired(transaction.id)));
    }
  }
  for (const create of [payout(), withdrawal(), withdrawal({ amount: '6000000' })]) {
    const { scenario, transaction } = reach(create, []);
    thenRecorded(scenario.at(START + 400 * DAY).when(expired(transaction.id)));
  }
  const { scenario, transaction } = reach(charge(), [accepted, succeeded]);
  thenRecorded(scenario.at(START + DAY).when(expired(transaction.id)));
  thenRecorded(scenario.when(expired('chg_none')));
});

t.test('release: a successful charge, from releaseAt on, once, and not after a reversal', async (t) => {
  const { scenario, transaction } = reach(charge(), [accepted, succeeded]);
  const { MERCHANT_AVAILABLE: before } = scenario.balances();
  t.equal(scenario.balances().MERCHANT_PENDING, 48_750);
  thenRecorded(scenario.at(START + DAY - 1).when(released(transaction.id)));
  thenRecorded(scenario.at(START + DAY).when(released(transaction.id)), 'ChargeReleased');
  t.equal(scenario.balances().MERCHANT_PENDING, 0);
  t.equal(scenario.balances().MERCHANT_AVAILABLE, before + 48_750);
  thenRecorded(scenario.later(1).when(released(transaction.id)));

  for (const steps of [[], [accepted], [failed], [succeeded, reversed]]) {
    const other = reach(charge(), steps);
    thenRecorded(other.scenario.at(START + 2 * DAY).when(released(other.transaction.id)));
  }
  thenRecorded(scenario.when(released('chg_none')));
});

t.test('the answer is fixed once, and not after the fact', async (t) => {
  const { scenario, transaction } = reach(charge(), []);
  thenRecorded(scenario.when(answered(transaction.id)), 'AnswerFixed');
  thenRecorded(scenario.when(answered(transaction.id)));
  thenRecorded(scenario.when(accepted(transaction.id)), 'SubmissionAccepted');
  t.equal(transaction.answeredAt, 1);
  for (const steps of [[accepted], [succeeded], [failed]]) {
    const other = reach(charge(), steps);
    thenRecorded(other.scenario.when(answered(other.transaction.id)));
  }
  thenRecorded(scenario.when(answered('chg_none')));
});

t.test('a reversal takes net and fee back from where they are', async (t) => {
  const pending = reach(charge(), [accepted, succeeded, reversed]);
  const zero = { MERCHANT_PENDING: 0, FEES_REVENUE: 0, SETTLEMENT_CLEARING: 0 };
  t.hasStrict(pending.scenario.balances(), {
    ...zero,
    MERCHANT_AVAILABLE: 20_000_000,
    PROVIDER_FLOAT: 20_000_000,
  });

  const available = reach(charge(), [accepted, succeeded, released, reversed]);
  t.hasStrict(available.scenario.balances(), {
    ...zero,
    MERCHANT_AVAILABLE: 20_000_000,
    PROVIDER_FLOAT: 20_000_000,
  });

  t.test('even below zero, from where a deposit brings it up again', async (t) => {
    const scenario = merchant();
    const { id } = scenario.create(charge());
    scenario.when(succeeded(id));
    scenario.later(DAY).when(released(id));
    scenario.create(payout({ amount: '40000' }, { idempotencyKey: 'key-00000002' }));
    scenario.when(reversed(id));
    t.hasStrict(scenario.balances(), {
      MERCHANT_AVAILABLE: -40_500,
      SETTLEMENT_CLEARING: 40_500,
      PROVIDER_FLOAT: 0,
    });
    thenRefused(scenario.decide(payout({}, { idempotencyKey: 'key-00000003' })), 'insufficient_balance');
    const funding = scenario.create(deposit({ amount: '500' }, { idempotencyKey: 'key-00000004' }));
    scenario.when(succeeded(funding.id));
    const collected = scenario.create(charge({}, { idempotencyKey: 'key-00000005' }));
    thenRecorded(scenario.when(succeeded(collected.id)), 'TransactionSucceeded');
    t.hasStrict(scenario.balances(), { MERCHANT_AVAILABLE: -40_000, MERCHANT_PENDING: 48_750 });
  });
});

t.test('a failed payout or withdrawal returns the whole hold', async (t) => {
  for (const create of [payout(), withdrawal()]) {
    const { scenario, transaction } = reach(create, [accepted, failed]);
    t.hasStrict(scenario.balances(), {
      MERCHANT_AVAILABLE: 20_000_000,
      SETTLEMENT_CLEARING: 0,
      FEES_REVENUE: 0,
    });
    t.strictSame(
      transaction.journals.map(({ reason }) => reason),
      [`${transaction.type}_HELD`, `${transaction.type}_RETURNED`],
    );
    t.hasStrict(transaction, { failureCode: 'customer_declined', failureMessage: 'The customer declined.' });
    t.hasStrict(transaction.events.at(-1), {
      status: 'FAILED',
      source: 'PROVIDER_CALLBACK',
      providerStatus: 'P_FAILED',
      message: 'The customer declined.',
    });
  }
});

t.test('a paid payout or withdrawal pays out the hold and books the fee', async (t) => {
  for (const create of [payout(), withdrawal()]) {
    const { scenario, transaction } = reach(create, [succeeded]);
    t.hasStrict(scenario.balances(), {
      MERCHANT_AVAILABLE: 20_000_000 - 50_500,
      SETTLEMENT_CLEARING: 0,
      FEES_REVENUE: 500,
      PROVIDER_FLOAT: 20_000_000 - 50_000,
    });
    t.hasStrict(transaction, { providerTransactionId: '998877', submitted: true });
  }
});

t.test('what a failed transaction used of its day and month is given back', async (t) => {
  const { scenario, transaction } = reach(charge(), []);
  const usage = scenario.account().usage.get('CHARGE:UGX');
  t.hasStrict(usage, { daily: 50_000, monthly: 50_000 });
  scenario.at(START + 30 * MINUTE).when(expired(transaction.id));
  t.hasStrict(usage, { daily: 0, monthly: 0 });

  t.test('but not to another day or month', async (t) => {
    const { scenario, transaction } = reach(charge(), []);
    scenario.at(START + DAY).create(charge({ amount: '700' }, { idempotencyKey: 'key-00000002' }));
    scenario.when(expired(transaction.id));
    t.hasStrict(scenario.account().usage.get('CHARGE:UGX'), { daily: 700, monthly: 700 });
    scenario.at(START + 31 * DAY).create(charge({ amount: '900' }, { idempotencyKey: 'key-00000003' }));
    t.hasStrict(scenario.account().usage.get('CHARGE:UGX'), { daily: 900, monthly: 900 });
  });

  t.test('each month is counted from nothing, whole, and keeps what an older one gives back', async (t) => {
    const { scenario, transaction } = reach(charge(), []);
    scenario.at(START + 31 * DAY).create(charge({ amount: '700' }, { idempotencyKey: 'key-00000002' }));
    scenario.later(DAY).create(charge({ amount: '900' }, { idempotencyKey: 'key-00000003' }));
    t.hasStrict(scenario.account().usage.get('CHARGE:UGX'), { daily: 900, monthly: 1_600 });
    scenario.when(expired(transaction.id));
    t.hasStrict(scenario.account().usage.get('CHARGE:UGX'), { daily: 900, monthly: 1_600 });
  });
});

t.test('a wallet becomes active once its cooling-off is over', async (t) => {
  const scenario = merchant().given(walletAdded);
  thenRecorded(scenario.when(activateWallet()));
  scenario.given({ type: 'WalletApproved', id: WALLET, activeAt: START + DAY, by: OWNER });
  thenRecorded(scenario.at(START + DAY - 1).when(activateWallet()));
  thenRecorded(scenario.at(START + DAY).when(activateWallet()), 'WalletActivated');
  t.equal(scenario.account().wallets.get(WALLET)?.status, 'ACTIVE');
  thenRecorded(scenario.when(activateWallet()));
  scenario.given({ type: 'WalletRevoked', id: WALLET, by: OWNER });
  thenRecorded(scenario.when(activateWallet()));
  thenRecorded(scenario.when(activateWallet('wal_none')));
});

// --- The submits of a withdrawal ---------------------------------------------------------------------------------------

t.test('a withdrawal begins once, and not to a wallet that was revoked before', (t) => {
  const revoke = { ...byOperator, type: 'RevokeWallet', walletId: WALLET, by: OWNER } as const;
  const body = (scenario: Scenario, id: string, again = false): unknown => {
    const { outcome: said } = scenario.when(beginning(id, again));
    return said.type === 'done' ? (JSON.parse(said.body) as { submission: string }).submission : said;
  };

  const sent = fundedMerchant();
  const { id } = sent.create(withdrawal());
  thenRecorded(sent.when(beginning(id)), 'SubmissionBegun');
  t.equal(body(sent, id, true), 'begun_before');
  sent.when(revoke);
  t.equal(body(sent, id), 'begun_before', 'it may have been sent');
  const older = { ...beginning(id), again: undefined, neverTaken: undefined } as unknown as AccountCommand;
  t.strictSame(thenBody(sent.when(older)), { submission: 'begun_before' });
  t.equal(body(sent, id, true), 'revoked', 'it may have been sent, and is sent no more');
  thenRecorded(sent.when(beginning(id, true)));
  thenRecorded(sent.when(succeeded(id)), 'TransactionSucceeded');
  t.equal(body(sent, id), 'ended');

  const unsent = fundedMerchant();
  const { MERCHANT_AVAILABLE } = unsent.balances();
  const stopped = unsent.create(withdrawal());
  unsent.when(revoke);
  const ended = unsent.when(beginning(stopped.id));
  thenRecorded(ended, 'TransactionFailed');
  t.strictSame(thenBody(ended), { submission: 'ended' });
  t.hasStrict(unsent.transaction(stopped.id), {
    status: 'FAILED',
    failureCode: 'wallet_inactive',
    failureMessage: 'The payout wallet was revoked before the withdrawal was sent.',
  });
  t.equal(unsent.transaction(stopped.id).events.at(-1)?.source, 'SYSTEM');
  t.equal(unsent.balances().MERCHANT_AVAILABLE, MERCHANT_AVAILABLE);
  t.equal(body(unsent, stopped.id), 'ended');

  for (const isTaken of [false, true]) {
    const refused = fundedMerchant();
    const { MERCHANT_AVAILABLE: had } = refused.balances();
    const one = refused.create(withdrawal());
    refused.when(beginning(one.id));
    thenRecorded(refused.when(beginning(one.id, true, true)));
    if (isTaken) refused.when(submission(one.id));
    refused.when(revoke);
    if (isTaken) {
      t.equal(body(refused, one.id, true), 'revoked');
      thenRecorded(refused.when(beginning(one.id, true, true)));
      continue;
    }
    thenRecorded(refused.when(beginning(one.id, true, true)), 'TransactionFailed');
    t.equal(refused.balances().MERCHANT_AVAILABLE, had);
  }

  const approved = fundedMerchant({ approvalThresholds: { UGX: 1_000 as never } });
  const waiting = approved.create(withdrawal());
  t.equal(body(approved, waiting.id), 'ended', 'it is not to be sent yet');
  approved.when({ ...byOperator, type: 'ApproveWithdrawal', transactionId: waiting.id, by: OWNER });
  t.equal(body(approved, waiting.id), 'begun');

  for (const format of [1, 2]) {
    const scenario = fundedMerchant();
    scenario.writeFormat = format;
    const said = body(scenario, scenario.create(withdrawal()).id);
    t.equal(said, format === 1 ? 'begun_before' : 'begun', 'nobody knows whether one of format 1 was sent');
  }
  thenRefused(sent.when(beginning('wdl_0')), 'transaction_not_found');
  const other = fundedMerchant();
  const paidOut = other.create(payout());
  t.equal(body(other, paidOut.id), 'ended', 'a payout has no wallet that could be revoked');
  t.equal(other.transaction(paidOut.id).status, 'PENDING_PROVIDER');
  t.end();
});
