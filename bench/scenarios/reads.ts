// GET /v1/charges/:id over ids spread evenly over a history that is in the views, not in memory.

import { peakScenario } from './peak-scenario.ts';

const HISTORY_PER_ACCOUNT = 200;

export const reads = peakScenario({
  name: 'reads',
  summary: 'GET /v1/charges/:id over random ids',
  kinds: ['read'],
  history: ({ accounts }) => ({
    transactions: accounts * HISTORY_PER_ACCOUNT,
    historyAccounts: accounts,
  }),
  bareTarget: 0.6,
  peerTarget: null,
});
