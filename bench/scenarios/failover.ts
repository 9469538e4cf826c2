// A ledger node is killed under load: callers wait, and none is told an error. The longest wait, from the intended send
// time, is how long the service was away for its unluckiest caller.

import { dirname, join } from 'node:path';
import type { Scenario } from '../bench.ts';
import { checkIds, checkAnswers, checkTrialBalances } from '../check.ts';
import { latencyAt } from '../result.ts';
import { workOf } from './peaks.ts';

const REPLICAS = 3;
const LEDGERS = 3;
const PER_SECOND = 200;
const KILL_AFTER_PART = 0.3;
const AWAY_SECONDS_TARGET = 3;
const MS_PER_SECOND = 1_000;

export const failover: Scenario = {
  name: 'failover',
  summary: 'a ledger node killed under load, in a cluster of three',
  needs: 'nats-server',
  async run(bench) {
    const { idsChecked } = bench.options;
    const seconds = Math.max(bench.options.failoverSeconds, bench.options.seconds);
    const { server, prepared } = await bench.cluster(REPLICAS, LEDGERS);
    const work = workOf(bench, prepared, ['charge']);
    const acknowledgedFile = join(dirname(prepared.keysFile), 'acknowledged');
    const victim = server.ledgers[0]!;
    let killing: NodeJS.Timeout | undefined;
    const label = `${PER_SECOND} charges/s, ${victim.name} killed`;
    // The counters of a killed node are gone.
    const options = {
      label,
      server: { ...server, readMetrics: null },
      work,
      ratePerSecond: PER_SECOND,
      seconds,
      acknowledgedFile,
      // Whose start takes as long as the machine is busy.
      onBegin: () => {
        killing = setTimeout(() => victim.signal('SIGKILL'), seconds * KILL_AFTER_PART * MS_PER_SECOND);
      },
    };
    const { load } = await bench.drive(options).finally(() => clearTimeout(killing));
    const longest = latencyAt(load.latency, 100) / MS_PER_SECOND;
    return {
      figures: [
        {
          name: 'longest wait of a caller',
          unit: 's',
          value: longest,
          better: 'less',
          target: AWAY_SECONDS_TARGET,
        },
        { name: 'p50 of all', unit: 'ms', value: latencyAt(load.latency, 50), better: 'less' },
        { name: 'p99 of all', unit: 'ms', value: latencyAt(load.latency, 99), better: 'less' },
      ],
      loads: [load],
      checks: [
        checkAnswers(load),
        await checkIds('acknowledged', server, work, acknowledgedFile, idsChecked),
        await checkTrialBalances(server, server.keysFile),
      ],
      notes: [`${LEDGERS} ledger nodes, ${REPLICAS} nats-servers, one front, all on this machine`],
    };
  },
};
