// What the webhooks group tells those who watch it. Counters and durations are pushed as they happen; gauges are read
// from the executor when somebody scrapes.

import type { OldestDue } from './dispatcher.ts';
import type { ErrorClass } from './sender.ts';

export interface WebhookMetrics {
  /** From the event to the beginning of its first attempt, ms. */
  firstAttempt(lagMs: number): void;
  /** `durationMs`: null where nothing was tried. */
  attempted(outcome: 'delivered' | 'failed', errorClass: ErrorClass | null, durationMs: number | null): void;
  deadLettered(): void;
  cancelled(): void;
}

export interface WebhookGauges {
  /** Waiting for a time to come, or, with the retries, for the key to sign with; all partitions of this process. */
  readonly scheduled: { readonly firsts: number; readonly retries: number };
  /** Due, waiting for room or for their endpoint. */
  readonly queued: { readonly firsts: number; readonly retries: number };
  readonly inFlight: { readonly firsts: number; readonly retries: number; readonly slow: number };
  /** How long the oldest due attempt has been waiting, ms; 0: none waits. */
  readonly oldestDueMs: OldestDue;
  readonly endpointsFailing: number;
  /** Records of accounts that were looked at, all partitions of this process: `daftari_log_sequence` when none is left. */
  readonly feedPosition: number;
}
