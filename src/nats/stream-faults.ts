// Tells of settings of streams, made or changed by hand, by which messages are dropped, or are kept less safely than they should be. Each
// fault of a stream is told once.

import type { GroupName } from '../bus/bus.ts';
import type { NatsLink } from './connection.ts';
import { faultOfLeaseBucket, faultOfLogStream } from './streams.ts';
import { LEASE_STREAM, logStream } from './subjects.ts';

export class StreamFaults {
  readonly #link: Pick<NatsLink, 'manager' | 'complain'>;
  /** Null: this node may make none. */
  readonly #replicas: number | null;
  readonly #told = new Map<string, string | null>();

  constructor(link: Pick<NatsLink, 'manager' | 'complain'>, replicas: number | null) {
    this.#link = link;
    this.#replicas = replicas;
  }

  /** Rejects when nobody can say. */
  async lookAtLeases(): Promise<void> {
    this.#tell(LEASE_STREAM, await faultOfLeaseBucket(this.#link.manager, this.#replicas));
  }

  /** Rejects when nobody can say, or there is no such stream. */
  async lookAtLog(group: GroupName, partition: number): Promise<void> {
    const fault = await faultOfLogStream(this.#link.manager, group, partition, this.#replicas);
    this.#tell(logStream(group, partition), fault);
  }

  #tell(stream: string, fault: string | null): void {
    if (fault !== null && fault !== this.#told.get(stream)) this.#link.complain(fault);
    this.#told.set(stream, fault);
  }
}
