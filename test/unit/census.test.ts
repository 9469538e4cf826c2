// What /metrics says of the money on hold in a partition comes back to zero when nothing is, however much it was.

import t from 'tap';
import { Census } from '../../actors/accounts/census.ts';
import { AccountsPartition } from '../../actors/accounts/group.ts';
import { encodeAccount, encodeOpen, openKey, openOf } from '../../actors/accounts/rows.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import { deriveId } from '../../src/domain/id.ts';
import { money } from '../../src/domain/money.ts';
import type { Views } from '../../wal/types.ts';
import { fundedMerchant, outcome, payout } from './domain/scenario.ts';

t.test('holds of many accounts may be more than a number counts', async (t) => {
  const scenario = fundedMerchant();
  const held = scenario.create(payout());
  const census = new Census();
  // Nothing but the sum is of interest, and no account has so much.
  const as = (id: string, amount: number) => ({
    ...scenario.transaction(held.id),
    id,
    amount: money(amount),
  });
  const holds = [as('pyt_1', Number.MAX_SAFE_INTEGER - 500), as('pyt_2', 2), as('pyt_3', 1)];
  const ledger = {
    transaction: (id: string) => holds.find((one) => one.id === id),
    reconciliation: () => undefined,
  };
  for (const { amount, fee } of holds) {
    census.seed('110000');
    const clearing = { ...scenario.account().balances.get('UGX')!, SETTLEMENT_CLEARING: money(amount + fee) };
    census.seedHeld({ balances: new Map([['UGX', clearing]]) });
  }
  t.equal(census.holds('UGX').count, 3);
  scenario.when(outcome(held.id, 'FAILED'));
  const { events, status } = scenario.transaction(held.id);
  for (const hold of holds.slice(0, 2)) {
    Object.assign(hold, { events, status });
    const record = { accountId: '', at: 0, events: [{ type: 'TransactionFailed', id: hold.id }] };
    census.follow(record as unknown as AccountRecord, ledger);
  }
  t.strictSame(census.holds('UGX'), { count: 1, amount: 501 });
});

t.test(
  'what is on hold is known when a partition is opened, though nothing that holds it is read',
  async (t) => {
    const scenario = fundedMerchant();
    const held = [1, 2, 3].map((n) => scenario.create(payout({}, { idempotencyKey: `payout-${n}` })));
    const read: string[] = [];
    const views: Views = {
      get(table) {
        read.push(table);
        return table === 'account' ? encodeAccount(scenario.account()) : undefined;
      },
      *range(table) {
        if (table !== 'open') return;
        for (const { id, accountId } of held) {
          yield { key: openKey(accountId, id), value: encodeOpen(openOf(scenario.transaction(id))!) };
        }
      },
    };
    const partition = new AccountsPartition(scenario.policy, views, { sequence: 1, writesRows: false });
    const amount = held.reduce((sum, one) => sum + one.amount + one.fee, 0);
    t.strictSame(partition.census!.holds('UGX'), { count: 3, amount });
    t.equal(partition.census!.open('PENDING_PROVIDER'), 3);
    t.strictSame(read, ['account']);
  },
);

t.test(
  'what was counted of a partition that is gone stays counted, and what was open there is not',
  async (t) => {
    const census = new Census();
    const gone = [new Census(), new Census()];
    for (const each of [census, ...gone]) {
      const scenario = fundedMerchant();
      const { id } = scenario.create(payout());
      scenario.given({
        type: 'ReconciliationRaised',
        id: deriveId('reconciliation', id, 0),
        kind: 'AMOUNT_MISMATCH',
        transactionId: id,
        detail: 'Paid twice.',
      });
      for (const line of scenario.lines.slice(-2)) each.follow(decodeRecord(line), scenario.state);
    }
    for (const each of gone) census.absorb(each);
    t.strictSame([...census.entered()], [{ type: 'PAYOUT', status: 'PENDING_PROVIDER', count: 3 }]);
    t.strictSame(census.reconciliation('AMOUNT_MISMATCH'), { raised: 3, open: 1 });
    t.equal(census.open('PENDING_PROVIDER'), 1);
    t.equal(census.holds('UGX').count, 1);
  },
);
