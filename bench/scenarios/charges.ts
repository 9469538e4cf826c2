// POST /v1/charges, each answer after its fsync: the promise that costs the most.

import { peakScenario } from './peak-scenario.ts';

export const charges = peakScenario({
  name: 'charges',
  summary: 'POST /v1/charges to numbers that never settle',
  kinds: ['charge'],
  history: () => ({}),
  bareTarget: 0.5,
  peerTarget: 8,
});
