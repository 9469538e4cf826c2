// What leaves the process: pollers that call the rails, and webhooks that call the merchants. The same in both profiles.

import { PollerGroup } from '../../actors/pollers/poller-group.ts';
import { NOTICES } from '../../actors/pollers/notice.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import type { GuardOptions } from '../../actors/webhooks/url-guard.ts';
import type { Bus } from '../bus/bus.ts';
import type { Feed } from '../bus/feed.ts';
import type { Config } from '../config.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import { onceIn, REFUSALS_EVERY_MS } from '../observability/once-in.ts';
import { clockBy } from '../rails/system-clock.ts';
import type { Secrets } from '../secrets.ts';
import type { GroupPolicies } from '../storage/groups.ts';
import type { Rails } from './rails.ts';
import { watchPollers, watchWebhooks, webhookMetrics } from './metrics.ts';

export interface Outbound {
  readonly bus: Bus;
  readonly feed: Feed;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Of the process. */
  readonly clock: () => number;
}

export function policiesOf(config: Config, rails: Rails): GroupPolicies {
  const { routes, oneWay, amountDecimals } = rails;
  return {
    accounts: { ...config.policy, routes, oneWay, amountDecimals },
    webhooks: { retryMs: config.webhookRetryMs, retentionMs: config.webhookRetentionMs },
  };
}

/** Deadlines on the bus go by the machines' own clocks: in the cluster another machine reads them. */
const wallClock = (): number => Date.now();

/** Serves no partition until told to. */
export function createPollers(outbound: Outbound, rails: Rails): PollerGroup {
  const { bus, feed, log, metrics, clock } = outbound;
  const notices = metrics.counter(
    'daftari_rail_notices_total',
    'What pollers told operators, by kind.',
    ['what'],
    NOTICES.map((what) => [what]),
  );
  const pollers = new PollerGroup({
    bus,
    feed,
    rails: [...rails.rails.values()],
    routes: rails.routes,
    clock: clockBy(clock),
    monotonic: () => performance.now(),
    deadlineClock: wallClock,
    random: Math.random,
    onNotice: (notice) => {
      notices.add(1, notice.what);
      log.warn({ ...notice }, 'poller notice');
    },
    onFault: (error) => log.error({ err: error }, 'a rail threw'),
    // As every other group's are (actors/runtime/partition.ts).
    onUnknownMessage: () => metrics.decided('pollers', 'unknown', 'unavailable'),
  });
  watchPollers(metrics, pollers);
  return pollers;
}

/** Where webhooks may go. */
export function guardOf(config: Config): GuardOptions {
  return { allowPrivate: config.webhookAllowPrivate, ports: config.webhookPorts };
}

/** How many attempts there are is the merchant's to say: one of them a second leaves a line. */
export function refusedAddressesTo(log: Log): (hostname: string, address: string) => void {
  const refused = onceIn(REFUSALS_EVERY_MS);
  return (hostname, address) => {
    const unseen = refused();
    if (unseen === null) return;
    const fields = { hostname, address, refused_since_last_line: unseen };
    log.info(fields, 'a webhook URL leads to an address that is not public');
  };
}

/** Delivers for no partition until told to. */
export function createWebhooks(
  { bus, feed, log, metrics, clock }: Outbound,
  guard: GuardOptions,
  secrets: Secrets,
): WebhookExecutor {
  if (guard.allowPrivate) {
    log.warn({}, 'WEBHOOK_ALLOW_PRIVATE: webhooks may go to private addresses and over http');
  }
  const executor = new WebhookExecutor({
    bus,
    feed,
    // Its time is in the signature, which receivers compare with their own clocks.
    sender: new Sender({ guard, clock: Date.now, onRefused: refusedAddressesTo(log) }),
    openSecret: (sealed) => secrets.open('signing-secret', sealed),
    clock,
    deadlineClock: wallClock,
    random: Math.random,
    metrics: webhookMetrics(metrics),
  });
  watchWebhooks(metrics, executor);
  return executor;
}
