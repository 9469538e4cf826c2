// The gauges of the service's inside: where each partition's log stands and how much waits in front of it. Read when
// scraped, from whatever hosts the partitions.

import type { Metrics } from './metrics.ts';

export interface PartitionGauges {
  readonly group: string;
  readonly number: number;
  /** Sequences of its last record appended, and durable. */
  readonly log: { readonly appended: number; readonly durable: number };
  readonly partition: {
    /** Commands decided and not yet answered. */
    readonly depth: number;
    /** Callers that wait for a provider's answer. */
    readonly waiting: number;
    /** Records the views lag behind the log. */
    readonly checkpointLag: number;
  };
}

/** In the label `partition`: "accounts/3". */
export function registerPartitionGauges(metrics: Metrics, hosted: () => Iterable<PartitionGauges>): void {
  const gauge = (name: string, help: string, read: (partition: PartitionGauges) => number): void => {
    metrics.gaugeBy(`daftari_${name}`, help, 'partition', () =>
      Array.from(hosted(), (each) => [`${each.group}/${each.number}`, read(each)] as const),
    );
  };
  gauge('log_sequence', 'Sequence of the last durable record.', ({ log }) => log.durable);
  gauge('log_undurable_records', 'Records that wait for the disk.', ({ log }) => log.appended - log.durable);
  gauge('mailbox_depth', 'Commands decided and not yet answered.', ({ partition }) => partition.depth);
  gauge('waiters', 'Callers that wait for a provider.', ({ partition }) => partition.waiting);
  gauge(
    'checkpoint_lag_records',
    'Records the views lag behind.',
    ({ partition }) => partition.checkpointLag,
  );
}
