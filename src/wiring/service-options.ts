// What a process is started with, whatever its profile: standalone (standalone.ts) or a node of a cluster (cluster.ts).

import type { Config } from '../config.ts';
import type { Log } from '../observability/log.ts';
import type { OnFailure } from '../storage/storage.ts';

export interface ServiceOptions {
  readonly config: Config;
  readonly log: Log;
  readonly onFailure: OnFailure;
  /** As ServerOptions has it, of the merchants' server. */
  readonly connectionsMax?: number;
}
