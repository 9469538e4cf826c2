// What a process is started with, whatever its profile: standalone (standalone.ts) or a node of a cluster (cluster.ts).

import type { Config } from '../config.ts';
import type { Log } from '../observability/log.ts';

/** Nothing may be acknowledged any more: the process must end. `part`: of the service, where the error alone would not say which. */
export type OnFailure = (error: Error, part?: 'the log' | 'writing checkpoints') => void;

export interface ServiceOptions {
  readonly config: Config;
  readonly log: Log;
  readonly onFailure: OnFailure;
  /** As ServerOptions has it, of the merchants' server. */
  readonly connectionsMax?: number;
}
