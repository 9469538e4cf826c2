// A server that can be measured: where it is, which processes it consists of, and what it tells of itself.

import type { Metric } from '../measure/metrics.ts';

export interface Server {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly processes: readonly { readonly name: string; readonly pid: number }[];
  /** What those of its processes that have a log say at /metrics, all in one; null: none has. */
  readonly readMetrics: (() => Promise<readonly Metric[]>) | null;
  stop(): Promise<void>;
}
