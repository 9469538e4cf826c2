// POST /v1/payouts from funded balances: a charge's work, and a hold.

import type { Scenario } from '../bench.ts';
import { startPeer } from './peer.ts';
import { measureAll } from './peaks.ts';

/** Of 100,000,000: a merchant can pay 100,000 times from one. */
const DEPOSITS = 4;
const PEER_TARGET = 8;

export const payouts: Scenario = {
  name: 'payouts',
  summary: 'POST /v1/payouts from funded balances',
  needs: null,
  async run(bench) {
    const prepared = await bench.prepare({ deposits: DEPOSITS });
    const service = await bench.service(prepared);
    const peer = await startPeer(bench, prepared, PEER_TARGET);
    const measured = await measureAll({
      bench,
      prepared,
      service,
      kinds: ['payout'],
      bareTarget: null,
      peer,
    });
    return { ...measured, notes: ['CASH_OUT_PER_MINUTE=100000 for each merchant'] };
  },
};
