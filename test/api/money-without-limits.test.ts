// An account whose limits an operator lifted cannot stop the service for everybody: what it has, and what it has in flight,
// stays what the ledger can count.

import t from 'tap';
import { type Answer, startService } from './start.ts';

const LARGEST = '1000000000000';
const OFF = { maximum: null, daily: null, monthly: null };
/** Of charges and of deposits each; with so many of both, and all of them paid, the process ended. */
const MANY = 4_600;
const AT_ONCE = 64;

t.test('thousands of the largest charges and deposits, of one account', async (t) => {
  // The number settles at once.
  const body = { amount: LARGEST, currency: 'UGX', msisdn: '+256772000068', reference: 'large' };
  const service = await startService();
  t.teardown(() => service.stop());
  const account = `/operator/v1/accounts/${service.demo.account_id}`;
  await service.operator('PATCH', account, { limits: { CHARGE: { UGX: OFF }, DEPOSIT: { UGX: OFF } } });

  let sent = 0;
  const codes = new Set<string>();
  const sendOn = async (): Promise<void> => {
    while (sent < 2 * MANY) {
      const path = sent++ % 2 === 0 ? '/v1/charges' : '/v1/deposits';
      const answer: Answer = await service.merchant('POST', path, { body });
      codes.add(answer.status === 201 ? answer.body.status : answer.body.error.code);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sendOn));
  t.strictSame([...codes].sort(), ['SUCCESSFUL', 'amount_above_maximum']);

  const [row] = (await service.operator('GET', `${account}/trial_balance`)).body.data;
  t.equal(row.sum, '0');
  t.ok(BigInt(row.accounts.PROVIDER_FLOAT) > 100n * BigInt(LARGEST));
  // And what it has it may pay out.
  const paid = await service.merchant('POST', '/v1/payouts', { body: { ...body, amount: '5000' } });
  t.equal(paid.status, 201);
});
