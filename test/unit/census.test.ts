// What /metrics says of the money on hold in a partition comes back to zero when nothing is, however much it was.

import t from 'tap';
import { Census } from '../../actors/accounts/census.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { money } from '../../src/domain/money.ts';
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
  for (const { id } of holds) census.seed('1100000', id, ledger);
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
