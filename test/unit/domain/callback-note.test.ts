// Notes of callbacks: one open note of a transaction, found by its id, apart from what a provider says that contradicts us.
import t from 'tap';
import { RECONCILIATION_KINDS } from '../../../src/domain/account-event.ts';
import { deriveId } from '../../../src/domain/id.ts';
import { isCallbackNote, itemIdsOf } from '../../../src/domain/decide/reconciliation-id.ts';
import {
  ACCOUNT,
  byOperator,
  charge,
  FOR_EVER,
  merchant,
  outcome,
  type Scenario,
  thenRecorded,
  thenRefused,
} from './scenario.ts';

const note = (transactionId: string) =>
  ({ type: 'NoteCallback', accountId: ACCOUNT, deadline: FOR_EVER, transactionId }) as const;

const itemsOf = (scenario: Scenario) => [...scenario.state.reconciliations.values()];

function resolve(scenario: Scenario): void {
  const open = itemsOf(scenario).find(({ resolvedAt }) => resolvedAt === null);
  scenario.when({
    ...byOperator,
    type: 'ResolveReconciliation',
    reconciliationId: open!.id,
    resolution: 'Asked.',
  });
}

t.test('one is open, however often it is made, and whatever its transaction is', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  const made = scenario.when(note(id));
  thenRecorded(made, 'ReconciliationRaised');
  thenRecorded(scenario.when(outcome(id, 'SUCCESSFUL')), 'TransactionSucceeded');
  const again = scenario.when(note(id));
  thenRecorded(again);
  t.strictSame(again.outcome, made.outcome, 'with its id');
  const [item] = itemsOf(scenario);
  t.strictSame(made.outcome, { type: 'done', body: JSON.stringify({ id: item!.id }) });
  t.hasStrict(item, { kind: 'CONTRADICTION', transactionId: id, resolvedAt: null });
  t.ok(isCallbackNote(item!.id, id));
});

t.test('five in a row at most', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  for (let n = 0; n < 5; n++) {
    thenRecorded(scenario.when(note(id)), 'ReconciliationRaised');
    resolve(scenario);
  }
  thenRefused(scenario.when(note(id)), 'conflict');
  t.ok(itemsOf(scenario).every((item) => isCallbackNote(item.id, id)));
  t.equal(new Set(itemsOf(scenario).map((item) => item.id)).size, 5);
});

t.test('ids of items are those that earlier logs have: a note of theirs is still one', (t) => {
  const transactionId = 'chg_01JB2XK8Z30001NPQRSTVWXY00';
  const at = (...indexes: number[]) =>
    indexes.map((index) => deriveId('reconciliation', transactionId, index));
  t.strictSame(itemIdsOf(transactionId, 'NOTE'), at(1_009, 999, 989, 979, 969));
  for (const [place, kind] of RECONCILIATION_KINDS.entries()) {
    t.strictSame(itemIdsOf(transactionId, kind).slice(0, 2), at(1_000 + place, 990 + place), kind);
  }
  t.end();
});

t.test('what contradicts us has items of its own', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  scenario.when(outcome(id, 'SUCCESSFUL'));
  scenario.when(note(id));
  thenRecorded(scenario.when(outcome(id, 'FAILED')), 'ReconciliationRaised');
  t.strictSame(
    itemsOf(scenario).map((item) => isCallbackNote(item.id, id)),
    [true, false],
  );
  t.notOk(isCallbackNote('rec_01JB2XK8Z30001NPQRSTVWXY00', null));
});

t.test("of nothing, or of another account's: refused", async () => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  thenRefused(scenario.when(note(`${id.slice(0, -2)}ZZ`)), 'transaction_not_found');
  thenRefused(scenario.when({ ...note(id), accountId: `acc_${'0'.repeat(26)}` }), 'transaction_not_found');
});

t.test(
  'a callback about nothing of ours that a person has seen is no other item, unless it says another thing',
  async () => {
    const scenario = merchant();
    const nobodys = `${scenario.create(charge()).id.slice(0, -2)}ZZ`;
    const raise = (detail: string) =>
      scenario.when({
        type: 'RaiseReconciliation',
        accountId: ACCOUNT,
        deadline: FOR_EVER,
        kind: 'UNKNOWN_REFERENCE',
        transactionId: nobodys,
        detail,
      });
    thenRecorded(raise('It called back.'), 'ReconciliationRaised');
    resolve(scenario);
    thenRecorded(raise('It called back.'));
    thenRecorded(raise('It called back in other words.'), 'ReconciliationRaised');
  },
);
