// What the node driver is told (a file of JSON) and tells (lines of JSON on stdout).

import type { Latency } from '../result.ts';
import type { Work } from './work.ts';

export interface DriverJob {
  readonly host: string;
  readonly port: number;
  readonly connections: number;
  /** Null: a closed loop. */
  readonly ratePerSecond: number | null;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly work: Work;
  /** Where the ids of acknowledged creates go, "key number, space, id" a line, without an id where the answer names none; null:
   *  nowhere. */
  readonly acknowledgedFile: string | null;
}

export type DriverLine =
  /** The warm-up is over; the measured time begins, or has ended. */
  | { readonly type: 'begin' }
  | { readonly type: 'end' }
  | { readonly type: 'second'; readonly second: number; readonly perSecond: number }
  | { readonly type: 'result'; readonly result: DriverResult }
  | { readonly type: 'failed'; readonly message: string };

export interface DriverResult {
  /** Measured: those asked for, or until the first answer where that came later. */
  readonly seconds: number;
  readonly statuses: Record<string, number>;
  readonly errors: Record<string, number>;
  readonly unsent: number;
  readonly latency: Latency;
  readonly driverLateMsP99: number | null;
  readonly series: number[];
  /** Requests sent, warm-up included: counters 0 … sent - 1. */
  readonly sent: number;
  /** 2xx to them, whenever they came. */
  readonly answered: number;
}
