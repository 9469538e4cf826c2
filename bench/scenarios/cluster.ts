// Durable charges through a cluster on this one machine, everything on its cores: a front, a ledger node and one
// nats-server, then three replicas.

import type { Bench, Scenario } from '../bench.ts';
import type { Check, Figure, Load } from '../result.ts';
import { measureAll } from './peaks.ts';

const BARE_TARGETS = { 1: 0.3, 3: 0.15 } as const;

export const cluster: Scenario = {
  name: 'cluster',
  summary: 'POST /v1/charges through NATS, with one replica and with three',
  needs: 'nats-server',
  async run(bench) {
    const one = await measureReplicas(bench, 1);
    await bench.clear();
    const three = await measureReplicas(bench, 3);
    return {
      figures: [...one.figures, ...three.figures],
      loads: [...one.loads, ...three.loads],
      checks: [...one.checks, ...three.checks],
      notes: ['front, ledger, nats-servers and driver share the cores'],
    };
  },
};

async function measureReplicas(
  bench: Bench,
  replicas: 1 | 3,
): Promise<{ figures: Figure[]; loads: Load[]; checks: Check[] }> {
  const { server: service, prepared } = await bench.cluster(replicas, 1);
  const bareTarget = BARE_TARGETS[replicas];
  const measured = await measureAll({ bench, prepared, service, kinds: ['charge'], bareTarget, peer: null });
  const named = (name: string): string => `${replicas === 1 ? 'one replica' : 'three replicas'}: ${name}`;
  return {
    figures: measured.figures.map((figure) => ({ ...figure, name: named(figure.name) })),
    loads: measured.loads.map((load) => ({ ...load, label: named(load.label) })),
    checks: measured.checks.map((check) => ({ ...check, what: named(check.what) })),
  };
}
