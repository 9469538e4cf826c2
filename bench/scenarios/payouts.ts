// POST /v1/payouts from funded balances: a charge's work, and a hold.

import { peakScenario } from './peak-scenario.ts';

/** Of 100,000,000: a merchant can pay 100,000 times from one. */
const DEPOSITS = 4;

export const payouts = peakScenario({
  name: 'payouts',
  summary: 'POST /v1/payouts from funded balances',
  kinds: ['payout'],
  history: () => ({ deposits: DEPOSITS }),
  bareTarget: null,
  peerTarget: 8,
});
