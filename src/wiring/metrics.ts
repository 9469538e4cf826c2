// What the parts of a process can tell when somebody scrapes /metrics.

import { Census } from '../../actors/accounts/census.ts';
import { AccountsPartition } from '../../actors/accounts/group.ts';
import type { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { RailHealth } from '../../actors/pollers/rail-lane.ts';
import type { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import type { WebhookMetrics } from '../../actors/webhooks/metrics.ts';
import { RECONCILIATION_KINDS, type ReconciliationKind } from '../domain/account-event.ts';
import { CURRENCIES } from '../domain/country.ts';
import { CREATABLE_TYPES, isFinal, STATUSES } from '../domain/transaction.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { DiskSpace } from '../data-directory/disk-space.ts';
import type { HostedLog, Storage } from '../storage/storage.ts';

/** Upper bounds of the buckets of durations. */
const SECONDS_BOUNDS = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300];

/** The log and views of a process, the transactions of the partitions that it writes, and the room on its disk. */
export function watchStorage(metrics: Metrics, storage: Storage, space: DiskSpace): void {
  watchPartitions(metrics, storage);
  watchTransactions(metrics, storage);
  const help = 'Free space of the disk that DATA_DIR is on; DISK_RESERVE_MB says when it is short.';
  metrics.gauge('daftari_disk_free_bytes', help, () => space.freeBytes);
  const reserve = 'Free space below which the disk is short: what DISK_RESERVE_MB keeps back.';
  metrics.gauge('daftari_disk_reserve_bytes', reserve, () => space.reserveBytes);
}

function watchPartitions(metrics: Metrics, storage: Storage): void {
  const perGroup = (read: (hosted: HostedLog) => number) => () => {
    const totals = new Map<string, number>();
    for (const hosted of storage.hosted()) {
      totals.set(hosted.group, (totals.get(hosted.group) ?? 0) + read(hosted));
    }
    return totals;
  };
  metrics.gaugeBy(
    'daftari_log_sequence',
    'Records in the log, all partitions of the group.',
    'group',
    perGroup(({ log }) => log.durable),
  );
  metrics.gauge(
    'daftari_log_flush_open_seconds',
    'How long the flush in flight has taken so far; 0: none is, or it has just begun.',
    () => storage.flushingMs / 1_000,
  );
  metrics.gaugeBy(
    'daftari_mailbox_depth',
    'Commands decided and not yet answered; the bound is per partition.',
    'group',
    perGroup(({ partition }) => partition.depth),
  );
  metrics.gaugeBy(
    'daftari_waiting_callers',
    'Create calls that wait for their rail.',
    'group',
    perGroup(({ partition }) => partition.waiting),
  );
  metrics.gaugeBy(
    'daftari_checkpoint_lag_records',
    'Records by which the views lag behind the log, all partitions of the group.',
    'group',
    perGroup(({ partition }) => partition.checkpointLag),
  );
  metrics.gaugeBy(
    'daftari_partitions_owned',
    'Partitions this process writes.',
    'group',
    perGroup(() => 1),
  );
}

/** `notReady`: as /readyz asks it. */
export function watchReadiness(metrics: Metrics, notReady: () => string | null): void {
  const help = '1 while /readyz is 200; 0: it says why this process does not do what it is there for.';
  metrics.gauge('daftari_ready', help, () => (notReady() === null ? 1 : 0));
}

/** Transactions by state, money on hold, and reconciliation items, of the partitions that this process writes. */
export function watchTransactions(metrics: Metrics, storage: Storage): void {
  const censuses = (): Census[] =>
    storage.hosted().flatMap(({ partition: { logic } }) => {
      const census = logic instanceof AccountsPartition ? logic.census : null;
      return census === null ? [] : [census];
    });
  const sum = (read: (census: Census) => number): number =>
    censuses().reduce((total, census) => total + read(census), 0);
  const open = STATUSES.filter((status) => !isFinal(status));
  metrics.gaugeBy('daftari_transactions_open', 'Transactions that are not final.', 'status', () =>
    open.map((status) => [status, sum((census) => census.open(status))] as const),
  );
  metrics.gaugeBy('daftari_open_holds', 'Payouts and withdrawals in flight.', 'currency', () =>
    CURRENCIES.map((currency) => [currency, sum((census) => census.holds(currency).count)] as const),
  );
  metrics.gaugeBy('daftari_open_holds_amount', 'Money on hold, minor units.', 'currency', () =>
    CURRENCIES.map((currency) => [currency, sum((census) => census.holds(currency).amount)] as const),
  );
  metrics.gaugeBy('daftari_reconciliation_open', 'Reconciliation items not yet resolved.', 'kind', () =>
    RECONCILIATION_KINDS.map((kind) => [kind, sum((census) => census.reconciliation(kind).open)] as const),
  );
  const counted = countedBy(censuses);
  metrics.counterBy('daftari_reconciliation_raised_total', 'Reconciliation items raised.', ['kind'], () => {
    const all = counted();
    const raised = (kind: ReconciliationKind): number =>
      all.reduce((total, census) => total + census.reconciliation(kind).raised, 0);
    return RECONCILIATION_KINDS.map((kind) => [[kind], raised(kind)] as const);
  });
  metrics.counterBy(
    'daftari_transactions_entered_total',
    'Transactions that entered a state.',
    ['type', 'status'],
    () => [
      ...NONE_ENDED,
      ...counted().flatMap((census) =>
        [...census.entered()].map(({ type, status, count }) => [[type, status], count] as const),
      ),
    ],
  );
}

/** Otherwise nobody could tell a share of what has no series: one that fails, where all do. */
const NONE_ENDED = CREATABLE_TYPES.flatMap((type) =>
  (['SUCCESSFUL', 'FAILED'] as const).map((status) => [[type, status], 0] as const),
);

/** The censuses there are, and one of what those counted that are gone: a total does not fall when a partition is handed
 *  over. A partition that came and went between two scrapes was not seen. */
function countedBy(censuses: () => Census[]): () => Census[] {
  const gone = new Census();
  let seen: readonly Census[] = [];
  return () => {
    const now = censuses();
    for (const census of seen) if (!now.includes(census)) gone.absorb(census);
    seen = now;
    return [gone, ...now];
  };
}

export function watchPollers(metrics: Metrics, pollers: PollerGroup): void {
  metrics.gauge(
    'daftari_transactions_in_flight',
    'Transactions that wait for their provider.',
    () => pollers.inFlight,
  );
  const perRail = (read: (rail: RailHealth) => number) => () =>
    pollers.railHealth().map((rail) => [rail.id, read(rail)] as const);
  const HEALTH = { OPERATIONAL: 2, DEGRADED: 1, DOWN: 0 } as const;
  metrics.gaugeBy(
    'daftari_rail_health',
    '2 operational, 1 degraded, 0 down.',
    'rail',
    perRail(({ health }) => HEALTH[health]),
  );
  metrics.gaugeBy(
    'daftari_rail_calls_in_flight',
    'Calls to the provider.',
    'rail',
    perRail((rail) => rail.calling),
  );
  metrics.gaugeBy(
    'daftari_rail_calls_waiting',
    'Submits and enquiries that wait for room.',
    'rail',
    perRail((rail) => rail.submitsWaiting + rail.enquiriesWaiting),
  );
  const totals = (name: string, help: string, read: (rail: RailHealth) => number): void =>
    metrics.counterBy(name, help, ['rail'], () =>
      pollers.railHealth().map((rail) => [[rail.id], read(rail)] as const),
    );
  totals('daftari_rail_submits_total', 'Submits to the provider.', (rail) => rail.submits);
  totals('daftari_rail_enquiries_total', 'Enquiries of the provider.', (rail) => rail.enquiries);
  totals('daftari_rail_failures_total', 'Calls without a usable answer.', (rail) => rail.failures);
  totals(
    'daftari_rail_our_faults_total',
    "Refusals that are our configuration's or our float's fault.",
    (rail) => rail.ourFaults,
  );
}

export function webhookMetrics(metrics: Metrics): WebhookMetrics {
  const lag = metrics.histogram(
    'daftari_webhook_first_attempt_seconds',
    'From event to first attempt.',
    SECONDS_BOUNDS,
  );
  const durations = metrics.histogram(
    'daftari_webhook_attempt_seconds',
    'Duration of attempts.',
    SECONDS_BOUNDS,
  );
  const attempts = metrics.counter(
    'daftari_webhook_attempts_total',
    'Attempts by outcome and error class.',
    ['outcome', 'error'],
    [['delivered', 'none']],
  );
  const ended = metrics.counter(
    'daftari_webhook_given_up_total',
    'Deliveries that ended without a 2xx.',
    ['how'],
    [['dead_lettered'], ['cancelled']],
  );
  return {
    firstAttempt: (lagMs) => lag.observe(lagMs / 1_000),
    attempted(outcome, errorClass, durationMs) {
      attempts.add(1, outcome, errorClass ?? 'none');
      if (durationMs !== null) durations.observe(durationMs / 1_000);
    },
    deadLettered: () => ended.add(1, 'dead_lettered'),
    cancelled: () => ended.add(1, 'cancelled'),
  };
}

export function watchWebhooks(metrics: Metrics, executor: WebhookExecutor): void {
  const by = (read: (gauges: ReturnType<WebhookExecutor['gauges']>) => Record<string, number>) => () =>
    Object.entries(read(executor.gauges()));
  metrics.gaugeBy(
    'daftari_webhook_scheduled',
    'Deliveries whose time has not come, and those that cannot be signed.',
    'attempt',
    by((g) => g.scheduled),
  );
  metrics.gaugeBy(
    'daftari_webhook_queued',
    'Deliveries that are due and wait for room.',
    'attempt',
    by((g) => g.queued),
  );
  metrics.gaugeBy(
    'daftari_webhook_in_flight',
    'Attempts in flight.',
    'attempt',
    by((g) => g.inFlight),
  );
  metrics.gaugeBy(
    'daftari_webhook_oldest_due_seconds',
    'How long the oldest due attempt has waited, by what its endpoint does.',
    'endpoint',
    by(({ oldestDueMs: { answering, failing } }) => ({
      answering: answering / 1_000,
      failing: failing / 1_000,
    })),
  );
  metrics.gauge(
    'daftari_webhook_endpoints_failing',
    'Endpoints whose last attempt failed, within 15 minutes.',
    () => executor.gauges().endpointsFailing,
  );
  metrics.gauge(
    'daftari_webhook_feed_sequence',
    'Records of accounts looked at for events; daftari_log_sequence{group="accounts"} when none is left.',
    () => executor.gauges().feedPosition,
  );
}
