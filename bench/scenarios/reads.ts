// GET /v1/charges/:id over ids spread evenly over a history that is in the views, not in memory.

import type { Scenario } from '../bench.ts';
import { measureAll } from './peaks.ts';

const BARE_TARGET = 0.6;
const HISTORY_PER_ACCOUNT = 200;

export const reads: Scenario = {
  name: 'reads',
  summary: 'GET /v1/charges/:id over random ids',
  needs: null,
  async run(bench) {
    const { accounts } = bench.options;
    const transactions = accounts * HISTORY_PER_ACCOUNT;
    const prepared = await bench.prepare({ transactions, historyAccounts: accounts });
    const service = await bench.serviceAtRest(prepared);
    const measured = await measureAll({
      bench,
      prepared,
      service,
      kinds: ['read'],
      bareTarget: BARE_TARGET,
      peer: null,
    });
    return { ...measured, notes: [`a history of ${transactions} charges`] };
  },
};
