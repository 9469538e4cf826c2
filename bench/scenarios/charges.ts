// POST /v1/charges, each answer after its fsync: the promise that costs the most.

import type { Scenario } from '../bench.ts';
import { startPeer } from './peer.ts';
import { measureAll } from './peaks.ts';

const BARE_TARGET = 0.5;
const PEER_TARGET = 8;

export const charges: Scenario = {
  name: 'charges',
  summary: 'POST /v1/charges to numbers that never settle',
  needs: null,
  async run(bench) {
    const prepared = await bench.prepare();
    const service = await bench.service(prepared);
    const peer = await startPeer(bench, prepared, PEER_TARGET);
    const measured = await measureAll({
      bench,
      prepared,
      service,
      kinds: ['charge'],
      bareTarget: BARE_TARGET,
      peer,
    });
    return { ...measured, notes: [] };
  },
};
