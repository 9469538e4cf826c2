// What the service's log did between two readings of /metrics.

import type { LogUse } from '../result.ts';
import { countOf, type Metric } from './metrics.ts';

export interface LogCounters {
  readonly atMs: number;
  readonly flushes: number;
  readonly flushSeconds: number;
  readonly records: number;
  readonly bytes: number;
}

const MS_PER_SECOND = 1_000;

export function readLogCounters(metrics: readonly Metric[]): LogCounters {
  return {
    atMs: performance.now(),
    flushes: countOf(metrics, 'daftari_log_flush_seconds_count'),
    flushSeconds: countOf(metrics, 'daftari_log_flush_seconds_sum'),
    records: countOf(metrics, 'daftari_log_flush_records_sum'),
    bytes: countOf(metrics, 'daftari_log_bytes_total'),
  };
}

/** Null when nothing was written. */
export function logUseBetween(before: LogCounters, after: LogCounters): LogUse | null {
  const seconds = (after.atMs - before.atMs) / MS_PER_SECOND;
  const flushes = after.flushes - before.flushes;
  const records = after.records - before.records;
  if (flushes === 0 || records === 0) return null;
  return {
    flushesPerSecond: flushes / seconds,
    recordsPerFlush: records / flushes,
    flushMeanMs: ((after.flushSeconds - before.flushSeconds) / flushes) * MS_PER_SECOND,
    bytesPerRecord: (after.bytes - before.bytes) / records,
    recordsPerSecond: records / seconds,
  };
}
