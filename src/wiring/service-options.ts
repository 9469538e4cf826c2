// What a process is started with, whatever its profile: standalone (standalone.ts) or a node of a cluster (cluster.ts).

import type { Config } from '../config.ts';
import type { Log } from '../observability/log.ts';

export interface ServiceOptions {
  readonly config: Config;
  readonly log: Log;
  /** Nothing may be acknowledged any more: the process must end. */
  readonly onFailure: (error: Error) => void;
}
