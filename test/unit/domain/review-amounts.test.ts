// Amounts at the edge of what a number holds, on an account whose limits are off: refused, never a failed assertion, which
// would end the process.

import t from 'tap';
import { NO_LIMIT } from '../../../src/domain/amount-limits.ts';
import { money, ZERO } from '../../../src/domain/money.ts';
import { charge, deposit, fundedMerchant, payout, thenRefused, withdrawal } from './scenario.ts';

const LARGEST = String(Number.MAX_SAFE_INTEGER);
const OFF = { maximum: NO_LIMIT, daily: NO_LIMIT, monthly: NO_LIMIT };
const DEAR = { fixed: money(1_000), basisPoints: 10_000, floor: null, cap: null };

void t.test('an amount that would take sums out of the safe integers is refused', (t) => {
  const free = { fixed: ZERO, basisPoints: 0, floor: null, cap: null };
  for (const fee of [DEAR, { ...DEAR, basisPoints: 0 }, free]) {
    const scenario = fundedMerchant({
      limits: { 'CHARGE:UGX': OFF, 'DEPOSIT:UGX': OFF, 'PAYOUT:UGX': OFF, 'WITHDRAWAL:UGX': OFF },
      fees: { 'CHARGE:UGX': fee, 'PAYOUT:UGX': fee, 'WITHDRAWAL:UGX': fee },
    });
    for (const create of [charge, deposit, payout, withdrawal]) {
      const command = create({ amount: LARGEST }, { idempotencyKey: `largest-${create.name}` });
      thenRefused(scenario.decide(command), 'amount_above_maximum', 'amount');
    }
  }
  t.end();
});

void t.test('the largest amount taken has room for its fee', (t) => {
  const scenario = fundedMerchant({ limits: { 'PAYOUT:UGX': OFF }, fees: { 'PAYOUT:UGX': DEAR } });
  const command = payout({ amount: '1000000000000' }, { idempotencyKey: 'large-0001' });
  thenRefused(scenario.decide(command), 'insufficient_balance');
  t.end();
});
