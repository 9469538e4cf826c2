// Durable charges through a cluster on this one machine, everything on its cores: a front, a ledger node and one
// nats-server, then three replicas. And what the bus and the replication add to what a charge takes: the same rate that was offered to
// each cluster at half of its peak is offered to one process with all roles.

import type { Bench, Scenario } from '../bench.ts';
import { checkAnswers, checkTrialBalances } from '../check.ts';
import { latencyAt, type Check, type Figure, type Load } from '../result.ts';
import { loadAtHalf, measureAll, offer } from './peaks.ts';

const BARE_TARGETS = { 1: 0.3, 3: 0.15 } as const;
const ADDED_MS_MAX = 3;
const KINDS = ['charge'] as const;

interface Measured {
  readonly figures: readonly Figure[];
  readonly loads: readonly Load[];
  readonly checks: readonly Check[];
}

export const cluster: Scenario = {
  name: 'cluster',
  summary:
    'POST /v1/charges through NATS, with one replica and with three, and what that adds to what one takes',
  needs: 'nats-server',
  async run(bench) {
    const parts: Measured[] = [];
    for (const [replicas, name] of [
      [1, 'one replica'],
      [3, 'three replicas'],
    ] as const) {
      const measured = await measureReplicas(bench, replicas);
      await bench.clear();
      parts.push({
        figures: measured.figures.map((figure) => ({ ...figure, name: `${name}: ${figure.name}` })),
        loads: measured.loads.map((load) => ({ ...load, label: `${name}: ${load.label}` })),
        checks: measured.checks.map((check) => ({ ...check, what: `${name}: ${check.what}` })),
      });
      parts.push(await measureAdded(bench, loadAtHalf(measured.loads), name));
      await bench.clear();
    }
    return {
      figures: parts.flatMap(({ figures }) => figures),
      loads: parts.flatMap(({ loads }) => loads),
      checks: parts.flatMap(({ checks }) => checks),
      notes: ['front, ledger, nats-servers and driver share the cores'],
    };
  },
};

async function measureReplicas(bench: Bench, replicas: 1 | 3): Promise<Measured> {
  const { server: service, prepared } = await bench.cluster(replicas, 1);
  return measureAll({
    bench,
    prepared,
    service,
    kinds: KINDS,
    bareTarget: BARE_TARGETS[replicas],
    peer: null,
  });
}

/** `half`: what the cluster took at half of its peak. */
async function measureAdded(bench: Bench, half: Load, name: string): Promise<Measured> {
  const prepared = await bench.prepare();
  const service = await bench.service(prepared);
  const { load, checks } = await offer(
    { bench, prepared, service, kinds: KINDS },
    half.offeredPerSecond!,
    `one process: half of the peak of ${name}`,
  );
  const figure: Figure = {
    name: `${name}: p50 at 50 % of peak, added to that of one process`,
    unit: 'ms',
    value: latencyAt(half.latency, 50) - latencyAt(load.latency, 50),
    better: 'less',
    target: ADDED_MS_MAX,
  };
  const balanced = await checkTrialBalances(service, prepared.keysFile);
  return { figures: [figure], loads: [load], checks: [checkAnswers(load), ...checks, balanced] };
}
