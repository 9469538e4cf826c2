// Copies of the logs that other nodes write, kept warm by following their streams, for the node that is to have them next.
//
//   snapshot if empty or left behind ─▶ history if the views must be made anew ─▶ the stream to its end ─▶ views
//
// Invariant: views are made only of batches that the stream has accepted. Views of others would show money that nobody has.

import { LogCorruption } from '../../wal/batch.ts';
import { placeOf, type Tip } from '../../wal/types.ts';
import type { GroupName } from '../bus/bus.ts';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from '../nats/connection.ts';
import type { LeaseTable } from '../nats/leases/lease-table.ts';
import { LogDiverged, LogFollower, type SendOn } from '../nats/log/log-follower.ts';
import { readHistory } from '../nats/log/log-history.ts';
import type { Snapshots } from '../nats/snapshots/snapshots.ts';
import { batchAt, firstBatchOf, sequenceOf, type StreamPartition } from '../nats/log/stream-places.ts';
import type { StreamFaults } from '../nats/stream-faults.ts';
import { ensureLogStream } from '../nats/streams.ts';
import { logStream } from '../nats/subjects.ts';
import type { Log } from '../observability/log.ts';
import type { Storage } from '../storage/storage.ts';

export interface FollowedLogsOptions {
  readonly link: NatsLink;
  readonly storage: Storage;
  readonly table: Pick<LeaseTable, 'lease'>;
  readonly faults: StreamFaults;
  readonly snapshots: Snapshots;
  /** The local log could not be read as it should. */
  readonly onUnreadable: (group: GroupName, partition: number) => void;
  readonly replicas: number;
  /** Batches that a writer may have on their way to the stream. */
  readonly outstandingMax: number;
  readonly log: Log;
}

export class FollowedLogs {
  readonly #options: FollowedLogsOptions;
  readonly #followers = new Map<string, LogFollower>();
  /** They may still change their log. */
  readonly #closing = new Map<string, Promise<void>>();
  /** Their log is the stream's, and their views are of that log. */
  readonly #viewed = new WeakSet<LogFollower>();
  /** Known to be there. */
  readonly #streams = new Set<string>();

  constructor(options: FollowedLogsOptions) {
    this.#options = options;
  }

  /** A follower that has read to the end at least once. `sendOn`: of who takes the partition. */
  async follow(group: GroupName, partition: number, sendOn?: SendOn): Promise<LogFollower> {
    const key = `${group}/${partition}`;
    const lease = this.#options.table.lease(group, partition)?.value;
    if (lease?.puttingBack !== undefined) {
      throw new LogDiverged(
        `${key}: its stream has not all of its log yet: put-back (deploy/nats/README.md) is still at it, or must be run again`,
      );
    }
    await this.#closing.get(key);
    const existing = this.#followers.get(key);
    if (existing !== undefined && existing.failure === null) return existing;
    if (existing !== undefined) {
      this.#options.log.warn({ group, partition, err: existing.failure }, 'following the log begins anew');
      await this.forget(group, partition);
    }
    const { link, replicas, outstandingMax, storage } = this.#options;
    const { log } = storage;
    if (!this.#streams.has(key)) {
      await ensureLogStream(link.manager, group, partition, replicas);
      await this.#options.faults.lookAtLog(group, partition);
      this.#streams.add(key);
    }
    const firstBatch = await firstBatchOf({ link, group, partition });
    if (log.tip(group, partition).batch > 0) await this.#beginAnewIfLeftBehind(group, partition, firstBatch);
    else await this.#restore(group, partition);
    // Also of what a process has restored that died before it had come to this, or to the end of it.
    if (this.#isSnapshotAlone(group, partition)) {
      if (firstBatch === 1) await this.#dropIfOfAnother(group, partition);
      else await this.#beginAnewIfReplaced(group, partition);
    }
    if (storage.lacksHistory(group, partition)) await this.#readHistory(group, partition);
    let hadStrayViews = false;
    const beforeCut = async (batch: number): Promise<void> => {
      // They would be made again of what is about to go. The next follower cuts it before it has any.
      if (this.#viewed.has(follower)) {
        throw new Error(`${key}: the stream no longer has what views are made of`);
      }
      if (await storage.dropViewsAfter(group, partition, batch)) hadStrayViews = true;
    };
    const follower = new LogFollower({
      link,
      log,
      group,
      partition,
      firstBatch,
      outstandingMax,
      hasBegun: lease?.hasBegun === true,
      beforeCut,
    });
    this.#followers.set(key, follower);
    try {
      await follower.reachEnd(sendOn);
    } catch (error) {
      await this.forget(group, partition);
      throw error;
    }
    // An older log may have been put in the place of the one that they were made from.
    if (await storage.dropStrayViews(group, partition)) hadStrayViews = true;
    if (!hadStrayViews) {
      this.#viewed.add(follower);
      return follower;
    }
    this.#options.log.warn({ group, partition }, 'views of what the stream never accepted are made anew');
    await this.forget(group, partition);
    return this.follow(group, partition, sendOn);
  }

  /** It has stopped by itself. */
  hasFailed(group: GroupName, partition: number): boolean {
    return (this.#followers.get(`${group}/${partition}`)?.failure ?? null) !== null;
  }

  /** The copy need not be kept up any more. */
  async forget(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    const follower = this.#followers.get(key);
    if (follower !== undefined) {
      this.#followers.delete(key);
      const closed = follower.close().finally(() => this.#closing.delete(key));
      this.#closing.set(key, closed);
    }
    await this.#closing.get(key);
  }

  /** The views of followed logs, so that a take-over has little to apply. */
  async keepViewsUp(): Promise<void> {
    for (const [key, follower] of this.#followers) {
      if (!this.#viewed.has(follower)) continue;
      const { group, partition } = placeOf(key);
      await this.#keepViewsOf(follower, group as GroupName, partition);
    }
  }

  async close(): Promise<void> {
    const closing = [...this.#followers.values()].map((follower) => follower.close());
    this.#followers.clear();
    await Promise.all([...closing, ...this.#closing.values()]);
  }

  /** One that fails holds up no other. */
  async #keepViewsOf(follower: LogFollower, group: GroupName, partition: number): Promise<void> {
    const { storage, onUnreadable, log } = this.#options;
    try {
      await storage.catchUpViews(group, partition);
    } catch (error) {
      if (error instanceof LogCorruption) {
        // Left to the take-over, which says what is the matter.
        this.#viewed.delete(follower);
        onUnreadable(group, partition);
      }
      log.warn({ group, partition, err: error }, 'views of a followed log lag');
    }
  }

  async #restore(group: GroupName, partition: number): Promise<void> {
    const startedAt = performance.now();
    const tip = await this.#options.snapshots.restore(group, partition);
    if (tip === null) return;
    const ms = Math.round(performance.now() - startedAt);
    this.#options.log.info({ group, partition, batch: tip.batch, ms }, 'restored from a snapshot');
  }

  /** The local log has no batch but what it begins after. */
  #isSnapshotAlone(group: GroupName, partition: number): boolean {
    const { log } = this.#options.storage;
    const { batch } = log.startOf(group, partition);
    return batch > 0 && batch === log.tip(group, partition).batch;
  }

  /** The stream was lost, and a shorter log was put back in its place, say: the snapshot is of what was there before. */
  async #dropIfOfAnother(group: GroupName, partition: number): Promise<void> {
    const { link, storage, log } = this.#options;
    const start = storage.log.startOf(group, partition);
    const { batch } = start;
    const place = { link, group, partition };
    // Where nobody has written yet, a snapshot may be all that is left.
    if ((await batchAt(place, 1)) === null) return;
    if ((await sequenceOf(place, start)) !== null) return;
    // The follower says what is missing.
    if (await this.#mayBeForgotten(place, start)) return;
    log.warn(
      { group, partition, batch },
      'the snapshot is not of this stream, which is read from its beginning',
    );
    await storage.clear(group, partition);
  }

  /** The stream ends before that batch, by no more than its servers' disks forget, and nobody has written in its place: others may give
   *  it back, and what the snapshot is of may be nowhere else. */
  async #mayBeForgotten(place: StreamPartition, { batch, epoch }: Tip): Promise<boolean> {
    const { link, outstandingMax } = this.#options;
    const { state } = await link.manager.streams.info(logStream(place.group, place.partition));
    const end = await batchAt(place, state.last_seq);
    if (end === null || end.epoch > epoch || end.batch >= batch) return false;
    return batch - end.batch <= LIMITS.streamForgottenMax + outstandingMax;
  }

  /** The stream was trimmed beyond where the log of this machine ends: it begins with the snapshot, as an empty machine. */
  async #beginAnewIfLeftBehind(group: GroupName, partition: number, first: number): Promise<void> {
    const { batch: end } = this.#options.storage.log.tip(group, partition);
    if (first <= end + 1) return;
    const reached = await this.#options.snapshots.batchOf(group, partition);
    // The follower says what is missing.
    if (reached + 1 < first) return;
    this.#options.log.warn({ group, partition, end, first }, 'the log was left behind, and begins anew');
    await this.#options.storage.clear(group, partition);
    await this.#restore(group, partition);
  }

  /** The same, of a stream that is not there from its beginning: only another snapshot leads to it. */
  async #beginAnewIfReplaced(group: GroupName, partition: number): Promise<void> {
    const { link, storage, snapshots, log } = this.#options;
    const { batch, hash } = storage.log.startOf(group, partition);
    const stored = await snapshots.batchOf(group, partition);
    if (stored === 0 || stored === batch) return;
    if ((await sequenceOf({ link, group, partition }, { batch, hash })) !== null) return;
    log.warn({ group, partition, batch, stored }, 'the snapshot is not of this stream, and there is another');
    await storage.clear(group, partition);
    await this.#restore(group, partition);
  }

  /** Everything that the views are made of, once more: they are gone, or this version has another form of them. */
  async #readHistory(group: GroupName, partition: number): Promise<void> {
    const startedAt = performance.now();
    const { log } = this.#options.storage;
    const { batch } = log.startOf(group, partition);
    await readHistory({ link: this.#options.link, group, partition }, log);
    log.refresh();
    const ms = Math.round(performance.now() - startedAt);
    this.#options.log.info({ group, partition, batch, ms }, 'read what was before the snapshot');
  }
}
