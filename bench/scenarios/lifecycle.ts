// The whole life of a charge at a given rate: created over HTTP, submitted to the HTTP simulator, approved, settled by
// callback and enquiry, its webhook delivered. What is measured is how many come out at the end, and how old they are then.

import type { Scenario } from '../bench.ts';
import { checkAnswers, checkTrialBalances } from '../check.ts';
import { sumOf, type Metric } from '../measure/metrics.ts';
import { latencyAt, type Figure, type ProcessUse } from '../result.ts';
import { sinceAt, startReceiver } from '../servers/start-receiver.ts';
import { driveMeasured, untilDelivered } from './webhooks.ts';
import { workOf } from './peaks.ts';

const APPROVE_AFTER_MS = 100;
/** Ends in 01: approved with one callback. */
const APPROVES = '+256772000001';
const PER_SECOND_TARGET = 1_500;
const LOOP_DELAY_MS_TARGET = 50;
/** Approval, callback, two commits, and the bursts between. */
const IN_FLIGHT_SECONDS_TARGET = 2;
const GROWTH_TARGET = 1.1;
const MS_PER_SECOND = 1_000;

export const lifecycle: Scenario = {
  name: 'lifecycle',
  summary: 'charges through the HTTP simulator to their delivered webhooks',
  needs: null,
  async run(bench) {
    const { accounts, lifecyclePerSecond: ratePerSecond, seconds, warmUpSeconds } = bench.options;
    const receiver = bench.keep(await startReceiver(0));
    const prepared = await bench.prepare({ accounts, webhookUrl: receiver.webhookUrl });
    const server = await bench.service(prepared, {
      RAILS: 'simulator',
      SIMULATOR_APPROVE_AFTER_MS: String(APPROVE_AFTER_MS),
      WEBHOOK_ALLOW_PRIVATE: 'true',
    });
    const work = workOf(bench, prepared, ['charge'], { msisdn: APPROVES });
    const label = `${ratePerSecond} charges/s`;
    const driven = await driveMeasured(bench, receiver, { label, server, work, ratePerSecond });
    const { atEnd } = driven;
    if (atEnd === null) throw new Error('the service told nothing at the end of its load');
    const stats = await untilDelivered(bench, receiver, driven.sent);
    const spanSeconds = Math.max(0.001, (stats.lastAt - stats.firstAt) / MS_PER_SECOND);

    const figures: Figure[] = [
      {
        name: 'finished charges',
        unit: '/s',
        value: stats.timed / spanSeconds,
        better: 'more',
        target: Math.min(PER_SECOND_TARGET, ratePerSecond) * 0.95,
      },
      {
        name: 'created to webhook delivered, p50',
        unit: 'ms',
        value: sinceAt(stats.sinceCreate, 50),
        better: 'less',
      },
      {
        name: 'created to webhook delivered, p99',
        unit: 'ms',
        value: sinceAt(stats.sinceCreate, 99),
        better: 'less',
      },
      {
        name: 'final to webhook delivered, p99',
        unit: 'ms',
        value: sinceAt(stats.sinceEvent, 99),
        better: 'less',
      },
      {
        name: 'POST /v1/charges, p99',
        unit: 'ms',
        value: latencyAt(driven.load.latency, 99),
        better: 'less',
      },
      {
        name: 'event-loop delay p99',
        unit: 'ms',
        value: loopDelayMs(atEnd),
        better: 'less',
        target: LOOP_DELAY_MS_TARGET,
      },
      {
        name: 'in flight when the load ends',
        unit: 'charges',
        value: sumOf(atEnd, 'daftari_transactions_open'),
        better: 'less',
        target: ratePerSecond * IN_FLIGHT_SECONDS_TARGET,
      },
      ...memoryFigures(driven.load.processes[0]),
    ];
    const delivered = {
      what: 'every charge ended and its webhook was delivered',
      passed: stats.events === driven.sent,
      detail: `${stats.events} of ${driven.sent} events, ${stats.deliveries} deliveries`,
    };
    return {
      figures,
      loads: [driven.load],
      checks: [checkAnswers(driven.load), delivered, await checkTrialBalances(server, prepared.keysFile)],
      notes: [
        `SIMULATOR_APPROVE_AFTER_MS=${APPROVE_AFTER_MS} is part of the times; simulator, receiver and driver share the cores`,
        `${ratePerSecond}/s offered for ${warmUpSeconds} + ${seconds} s`,
      ],
    };
  },
};

/** Caches and the simulator fill up first, so growth says something only of a load of minutes. */
function memoryFigures(service: ProcessUse | undefined): Figure[] {
  if (service === undefined) return [];
  const { anonMiB, anonGrowth } = service;
  const own: Figure = { name: 'service, own memory', unit: 'MiB', value: anonMiB, better: 'less' };
  if (anonGrowth === null) return [own];
  const name = 'own memory, last quarter / the one before';
  return [own, { name, unit: '×', value: anonGrowth, better: 'less', target: GROWTH_TARGET }];
}

function loopDelayMs(metrics: readonly Metric[]): number {
  return sumOf(metrics, 'nodejs_eventloop_lag_p99_seconds') * MS_PER_SECOND;
}
