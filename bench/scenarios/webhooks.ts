// Deliveries: how fast a backlog of final states goes out to healthy endpoints; and whether healthy endpoints wait while a
// fifth of all endpoints hang until their time-out.

import type { Bench, Scenario } from '../bench.ts';
import { checkAnswers } from '../check.ts';
import type { Driven } from '../load/drive.ts';
import type { Check, Figure, Load } from '../result.ts';
import { sinceAt, startReceiver, type Receiver, type ReceiverStats } from '../servers/start-receiver.ts';
import { ProcessWatch } from '../measure/process-use.ts';
import { INSTANT, workOf } from './peaks.ts';
import { pause } from '../../src/pause.ts';

const HANG_EVERY = 5;
const PER_SECOND_TARGET = 3_000;
const FIRST_ATTEMPT_MS_TARGET = 2_000;
const LOOK_MS = 50;
const QUIET_MS = 20_000;
const MS_PER_SECOND = 1_000;
const ALLOW = { WEBHOOK_ALLOW_PRIVATE: 'true' };

export const webhooks: Scenario = {
  name: 'webhooks',
  summary: 'a backlog of deliveries, and healthy endpoints beside hanging ones',
  needs: null,
  async run(bench) {
    const backlog = await drainBacklog(bench);
    await bench.clear();
    const fairness = await besideHanging(bench);
    return {
      figures: [...backlog.figures, ...fairness.figures],
      loads: [fairness.load],
      checks: [...backlog.checks, ...fairness.checks],
      notes: [...backlog.notes, 'over HTTP on loopback: no TLS'],
    };
  },
};

async function drainBacklog(bench: Bench) {
  const { backlogDeliveries: count, accounts } = bench.options;
  const receiver = bench.keep(await startReceiver(0));
  const { webhookUrl } = receiver;
  const prepared = await bench.prepare({ transactions: count, historyAccounts: accounts, webhookUrl });
  const service = await bench.service(prepared, ALLOW);
  const watch = new ProcessWatch([...service.processes, ...receiver.processes]);
  const stats = await untilDelivered(bench, receiver, count).finally(() => watch.stop());
  const perSecond = stats.timed / Math.max(0.001, (stats.lastAt - stats.firstAt) / MS_PER_SECOND);
  const figures: Figure[] = [
    {
      name: 'deliveries of a backlog',
      unit: '/s',
      value: perSecond,
      better: 'more',
      target: PER_SECOND_TARGET,
    },
  ];
  const checks: Check[] = [
    {
      what: 'every event of the backlog was delivered',
      passed: stats.events === count,
      detail: `${stats.events} of ${count} events, ${stats.deliveries} deliveries`,
    },
  ];
  const notes = [
    `backlog of ${count} to ${accounts} endpoints; ${watch
      .uses()
      .map((use) => `${use.name} ${use.cpu.toFixed(2)} cores`)
      .join(', ')}`,
  ];
  return { figures, checks, notes };
}

async function besideHanging(bench: Bench): Promise<{ figures: Figure[]; checks: Check[]; load: Load }> {
  const { endpoints, eventsPerSecond } = bench.options;
  const receiver = bench.keep(await startReceiver(HANG_EVERY));
  const prepared = await bench.prepare({ accounts: endpoints, webhookUrl: receiver.webhookUrl });
  const server = await bench.service(prepared, ALLOW);
  const work = workOf(bench, prepared, ['charge'], { msisdn: INSTANT });
  const label = `${eventsPerSecond} events/s to ${endpoints} endpoints`;
  const driven = await driveMeasured(bench, receiver, {
    label,
    server,
    work,
    ratePerSecond: eventsPerSecond,
  });
  // The n-th charge is of the n-th account, in turn.
  const accounts = Array.from({ length: driven.sent }, (_, counter) => counter % endpoints);
  const healthy = accounts.filter((account) => account % HANG_EVERY !== 0).length;
  const stats = await untilDelivered(bench, receiver, healthy);
  const figures: Figure[] = [50, 99].map((percent) => ({
    name: `healthy beside hanging endpoints, event to delivery p${percent}`,
    unit: 'ms',
    value: sinceAt(stats.sinceEvent, percent),
    better: 'less',
    ...(percent === 99 ? { target: FIRST_ATTEMPT_MS_TARGET } : {}),
  }));
  const checks = [
    checkAnswers(driven.load),
    {
      what: 'every event for a healthy endpoint was delivered',
      passed: stats.events === healthy,
      detail: `${stats.events} of ${healthy}`,
    },
  ];
  return { figures, checks, load: driven.load };
}

/** The receiver tells the times of what is created when the warm-up is over. */
export async function driveMeasured(
  bench: Bench,
  receiver: Receiver,
  options: Parameters<Bench['drive']>[0],
): Promise<Driven> {
  let begun = Promise.resolve();
  const onBegin = (): void => {
    begun = receiver.begin();
    // Told when the load is over.
    begun.catch(() => {});
  };
  const driven = await bench.drive({ ...options, onBegin });
  await begun;
  return driven;
}

/** Until so many different events have come, or none has come for a while. */
export async function untilDelivered(
  bench: Bench,
  receiver: Receiver,
  events: number,
): Promise<ReceiverStats> {
  let stats = await receiver.stats();
  let grewAt = performance.now();
  while (stats.events < events && performance.now() - grewAt < QUIET_MS) {
    await pause(LOOK_MS);
    const next = await receiver.stats();
    if (next.events > stats.events) grewAt = performance.now();
    stats = next;
    bench.progress(`webhooks: ${stats.events} of ${events} delivered`);
  }
  return stats;
}
