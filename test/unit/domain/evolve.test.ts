// Applying records: what does not fit is a bug or a damaged log, and stops the process.

import t from 'tap';
import type { AccountEvent } from '../../../src/domain/account-event.ts';
import { money } from '../../../src/domain/money.ts';
import {
  charge,
  fundedMerchant,
  merchant,
  opened,
  outcome,
  OWNER,
  payout,
  START,
  submission,
  WALLET,
  walletAdded,
  withdrawal,
} from './scenario.ts';

const succeeded = (id: string): AccountEvent => ({
  type: 'TransactionSucceeded',
  id,
  source: 'PROVIDER_POLL',
  providerStatus: null,
  providerTransactionId: null,
  releaseAt: START,
});
const failed = (id: string): AccountEvent => ({
  type: 'TransactionFailed',
  id,
  source: 'PROVIDER_POLL',
  failureCode: 'unknown',
  failureMessage: null,
  providerStatus: null,
});

t.test('a state never moves backwards, and nothing happens twice', async (t) => {
  const scenario = fundedMerchant();
  const { id } = scenario.create(charge());
  scenario.when(submission(id));
  t.throws(() => scenario.given({ type: 'SubmissionAccepted', id, providerStatus: null }), /NEXT_STATUSES/);
  scenario.when(outcome(id, 'SUCCESSFUL'));
  for (const event of [succeeded(id), failed(id)]) t.throws(() => scenario.given(event), /NEXT_STATUSES/);
  scenario.given({ type: 'ChargeReleased', id });
  t.throws(() => scenario.given({ type: 'ChargeReleased', id }), /released once/);
  scenario.given({ type: 'ChargeReversed', id, source: 'PROVIDER_POLL', providerStatus: null });
  t.throws(
    () => scenario.given({ type: 'ChargeReversed', id, source: 'PROVIDER_POLL', providerStatus: null }),
    /NEXT_STATUSES/,
  );

  const paid = scenario.create(payout({}, { idempotencyKey: 'key-00000002' }));
  t.throws(() => scenario.given(succeeded(paid.id)), /only a charge, is released later/);
  const drawn = scenario.create(withdrawal({}, { idempotencyKey: 'key-00000003' }));
  for (const type of ['WithdrawalApproved', 'WithdrawalRejected'] as const) {
    t.throws(() => scenario.given({ type, id: drawn.id, by: OWNER }), /while it waits/);
  }
  t.throws(
    () => scenario.given({ type: 'ChargeReversed', id: paid.id, source: 'SYSTEM', providerStatus: null }),
    /only a charge is reversed/,
  );
});

t.test('money that is not there is never held', async (t) => {
  const scenario = fundedMerchant();
  const event = scenario.decide(payout()).record?.events[0];
  if (event?.type !== 'PayoutCreated') throw new Error('a payout was created');
  t.throws(() => scenario.given({ ...event, amount: money(20_000_000) }), /by a reversal only/);
});

t.test(
  'a charge of which the fee takes all has no net to move, when it is released or reversed',
  async (t) => {
    const dear = { fixed: money(90_000), basisPoints: 0, floor: null, cap: null };
    const scenario = merchant({ fees: { 'CHARGE:UGX': dear } });
    const { id } = scenario.create(charge());
    scenario.when(outcome(id, 'SUCCESSFUL'));
    scenario.given({ type: 'ChargeReleased', id });
    t.ok(scenario.transaction(id).released);
    scenario.when(outcome(id, 'REVERSED'));
    t.strictSame(
      scenario.transaction(id).journals.map(({ reason, entries }) => [reason, entries.length]),
      [
        ['CHARGE_SETTLED', 2],
        ['CHARGE_REVERSED', 2],
      ],
    );
  },
);

t.test('what an event names exists', async (t) => {
  const scenario = merchant();
  const rows: [event: AccountEvent, says: RegExp][] = [
    [opened, /opened once/],
    [succeeded('chg_none'), /the transaction of an event exists/],
    [{ type: 'AppRemoved', id: 'app_none', by: 'o' }, /the app of an event exists/],
    [{ type: 'WalletRevoked', id: 'wal_none', by: 'o' }, /the wallet of an event exists/],
    [{ type: 'ReconciliationResolved', id: 'rec_none', by: 'o', resolution: '' }, /is resolved/],
  ];
  for (const [event, says] of rows) t.throws(() => scenario.given(event), says, event.type);
});

t.test('what a provider has taken was sent, though nobody had recorded its submit', async (t) => {
  for (const isOver of [false, true]) {
    const scenario = fundedMerchant();
    const { id } = scenario.create(withdrawal());
    t.ok(scenario.transaction(id).unsent);
    if (isOver) scenario.when(outcome(id, 'SUCCESSFUL'));
    else scenario.when(submission(id));
    t.hasStrict(scenario.transaction(id), { submitted: true, unsent: false });
  }
});

t.test('a wallet goes through its states in order', async (t) => {
  const scenario = merchant().given(walletAdded);
  t.throws(() => scenario.given({ type: 'WalletActivated', id: WALLET }), /after cooling off/);
  scenario.given({ type: 'WalletApproved', id: WALLET, activeAt: START, by: OWNER });
  t.throws(
    () => scenario.given({ type: 'WalletApproved', id: WALLET, activeAt: START, by: OWNER }),
    /approved once/,
  );
});

t.test('a reconciliation item is raised once and resolved once', async (t) => {
  const scenario = merchant();
  const raised: AccountEvent = {
    type: 'ReconciliationRaised',
    id: 'rec_1',
    kind: 'CONTRADICTION',
    transactionId: null,
    detail: '',
  };
  scenario.given(raised);
  t.throws(() => scenario.given(raised), /raised once/);
  const resolved: AccountEvent = { type: 'ReconciliationResolved', id: 'rec_1', by: 'o', resolution: '' };
  scenario.given(resolved);
  t.throws(() => scenario.given(resolved), /is resolved/);
});
