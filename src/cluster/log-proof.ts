// Whether a log that ends where its stream ends is all that there ever was of it. What is lost elsewhere must not be begun anew here:
// merchants would be shown empty accounts, and keys that were used would pay again.

import type { Tip } from '../../wal/types.ts';
import type { GroupName } from '../bus/bus.ts';
import type { NatsLink } from '../nats/connection.ts';
import type { LeaseTable } from '../nats/leases/lease-table.ts';
import { LogDiverged } from '../nats/log/log-follower.ts';
import { areStreamsLost } from '../nats/log/lost-streams.ts';
import { misses } from '../nats/log/stream-places.ts';
import type { NodeFeed } from './node-feed.ts';
import type { Storage } from '../storage/storage.ts';
import { DoubtedElsewhere } from './unproven-logs.ts';

export interface LogProofOptions {
  readonly link: NatsLink;
  readonly table: Pick<LeaseTable, 'lease'>;
  readonly storage: Storage;
  readonly feed: NodeFeed;
  /** Another node that for reasons of its own cannot prove its log of the partition; null: none says so. */
  readonly unprovenOn: (group: GroupName, partition: number) => string | null;
}

export class LogProof {
  readonly #options: LogProofOptions;

  constructor(options: LogProofOptions) {
    this.#options = options;
  }

  /** `tip`: where the partition's log ends, which is the stream's. Rejects with LogDiverged. */
  async assertProven(group: GroupName, partition: number, tip: Tip): Promise<void> {
    if (tip.batch === 0) await this.#assertMayBegin(group, partition);
    if (group === 'webhooks') await this.#assertReadsOn(partition);
  }

  /** Neither the stream nor this machine has anything of the partition's log. */
  async #assertMayBegin(group: GroupName, partition: number): Promise<void> {
    const { table, link, storage, unprovenOn } = this.#options;
    const notBegun = (why: string): string =>
      `${group}/${partition}: ${why}, and neither this machine nor the stream has anything of its log: an empty partition is ` +
      'not begun in its place. See "The streams are lost" in deploy/nats/README.md';
    if (table.lease(group, partition)?.value.hasBegun === true) {
      throw new LogDiverged(notBegun('it was served before'));
    }
    if (await areStreamsLost(link.manager, storage.log)) {
      throw new LogDiverged(notBegun('the streams of all other logs of this machine were lost'));
    }
    // Asked last: for reasons of its own a node keeps others from it, too.
    const other = unprovenOn(group, partition);
    if (other === null) return;
    throw new DoubtedElsewhere(notBegun(`node ${other} cannot prove that its log has all of it`));
  }

  /** If webhooks have read further than their accounts' log now reaches, they would never hear of what is written there now. If that
   *  log now begins after what they have read, they cannot go on, and would end the process. */
  async #assertReadsOn(partition: number): Promise<void> {
    const { link, feed, storage } = this.#options;
    await storage.catchUpViews('webhooks', partition, true);
    const cursor = Number(storage.views.reader('webhooks', partition).get('cursor', 'upstream') ?? 0);
    const isOwn = feed.isOwn('accounts', partition, cursor);
    const missing = isOwn
      ? this.#missesOwn(partition, cursor)
      : await misses({ link, group: 'accounts', partition }, cursor);
    if (missing === null) return;
    const read = `webhooks/${partition}: it has read its accounts up to ${cursor}`;
    throw new LogDiverged(
      missing === 'end'
        ? `${read}, and their stream ends before that: an older log was put back, put back one of the same time for both`
        : `${read}, and their stream begins after that: only the node that writes them can read on, from its own log. Let it ` +
            'have the role webhooks, and no other node, until a webhook of this partition has gone out',
    );
  }

  /** As `misses`, of accounts that this process writes: their log has been proven, and what comes next is read from it. */
  #missesOwn(partition: number, cursor: number): 'end' | null {
    const { log } = this.#options.storage;
    log.refresh();
    return log.tip('accounts', partition).sequence < cursor ? 'end' : null;
  }
}
