// A merchant's day: 60 % charges, 10 % payouts, 30 % reads, interleaved.

import type { Scenario } from '../bench.ts';
import type { Kind } from '../load/work.ts';
import { measureAll } from './peaks.ts';

const DEPOSITS = 2;
const HISTORY_PER_ACCOUNT = 200;
const DAY: readonly Kind[] = [
  'charge',
  'read',
  'charge',
  'charge',
  'payout',
  'read',
  'charge',
  'charge',
  'read',
  'charge',
];

export const mixed: Scenario = {
  name: 'mixed',
  summary: 'a merchant’s day: 60 % charges, 10 % payouts, 30 % reads',
  needs: null,
  async run(bench) {
    const { accounts } = bench.options;
    const transactions = accounts * HISTORY_PER_ACCOUNT;
    const prepared = await bench.prepare({ deposits: DEPOSITS, transactions, historyAccounts: accounts });
    const service = await bench.serviceAtRest(prepared);
    const measured = await measureAll({ bench, prepared, service, kinds: DAY, bareTarget: null, peer: null });
    return { ...measured, notes: [`a history of ${transactions} charges`] };
  },
};
