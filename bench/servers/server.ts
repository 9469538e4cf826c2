// A server that can be measured: where it is, which processes it consists of, and what its log did.

import type { LogCounters } from '../measure/log-counters.ts';

export interface Server {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly processes: readonly { readonly name: string; readonly pid: number }[];
  /** Null: it has no such log. */
  readonly readLog: (() => Promise<LogCounters>) | null;
  stop(): Promise<void>;
}
