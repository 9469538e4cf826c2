// Scenarios that put work of some kinds on one service: what lies in its data directory before, and what its peak is held
// against. Two checkouts can also take such a load side by side (../side-by-side.ts).

import type { Bench, Peak, Prepared, Scenario } from '../bench.ts';
import type { Service } from '../servers/start-service.ts';
import { measureAll } from './peaks.ts';
import { startPeer } from './peer.ts';

export interface PeakOptions extends Peak {
  readonly name: string;
  readonly summary: string;
  /** Times the bare handler's throughput; null: there is no such target. */
  readonly bareTarget: number | null;
  /** Times the peer's; null: it cannot do this work. */
  readonly peerTarget: number | null;
}

export function peakScenario({ name, summary, bareTarget, peerTarget, ...peak }: PeakOptions): Scenario {
  const { kinds } = peak;
  return {
    name,
    summary,
    peak,
    hasPeer: peerTarget !== null,
    needs: null,
    async run(bench) {
      const { prepared, service } = await startPeak(bench, peak);
      const peer = peerTarget === null ? null : await startPeer(bench, prepared, peerTarget);
      const measured = await measureAll({ bench, prepared, service, kinds, bareTarget, peer });
      return { ...measured, notes: notesOf(bench, peak) };
    },
  };
}

export interface StartedPeak {
  readonly prepared: Prepared;
  readonly service: Service;
}

/** The service over its history, at rest. */
export async function startPeak(bench: Bench, { history }: Peak): Promise<StartedPeak> {
  const prepared = await bench.prepare(history(bench.options));
  return { prepared, service: await bench.serviceAtRest(prepared) };
}

function notesOf({ options }: Bench, { kinds, history }: Peak): string[] {
  const { transactions = 0 } = history(options);
  return [
    ...(transactions > 0 ? [`a history of ${transactions} charges`] : []),
    ...(kinds.includes('payout') ? ['CASH_OUT_PER_MINUTE=100000 for each merchant'] : []),
  ];
}
