// A merchant's day: 60 % charges, 10 % payouts, 30 % reads, interleaved.

import { peakScenario } from './peak-scenario.ts';

const DEPOSITS = 2;
const HISTORY_PER_ACCOUNT = 200;

export const mixed = peakScenario({
  name: 'mixed',
  summary: 'a merchant’s day: 60 % charges, 10 % payouts, 30 % reads',
  kinds: ['charge', 'read', 'charge', 'charge', 'payout', 'read', 'charge', 'charge', 'read', 'charge'],
  history: ({ accounts }) => ({
    deposits: DEPOSITS,
    transactions: accounts * HISTORY_PER_ACCOUNT,
    historyAccounts: accounts,
  }),
  bareTarget: null,
  peerTarget: null,
});
