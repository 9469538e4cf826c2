// Serves the partitions that ownership gives this process.
//
//   prepare: follow the stream (followed-logs.ts) ─▶ views
//   acquire: subscribe (messages wait) ─▶ read the stream to its end ─▶ open under the epoch ─▶ opening batch durable
//   serve:   answer what waited, and what comes
//   release: turn messages away ─▶ finish, flush ─▶ the next owner acquires
//   lose:    say nothing more, drop what is not durable
//
// Invariant: a partition is served only after its epoch-opening batch is durable: from then on nobody else's batch can
// follow one that this process has not read.

import type { Tip } from '../../wal/types.ts';
import type { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import type { GroupName } from '../bus/bus.ts';
import { EpochPassed, type PartitionHost } from '../bus/ownership.ts';
import type { Replication } from '../config.ts';
import { LIMITS } from '../limits.ts';
import type { NatsLink } from '../nats/connection.ts';
import type { LeaseTable } from '../nats/lease-table.ts';
import { type EndOfLog, LogDiverged, type LogFollowerOptions } from '../nats/log-follower.ts';
import { areStreamsLost } from '../nats/lost-streams.ts';
import type { NatsBusServer, ServedPartition } from '../nats/nats-bus-server.ts';
import { Snapshots } from '../nats/snapshots.ts';
import { misses } from '../nats/stream-places.ts';
import type { StreamFaults } from '../nats/stream-faults.ts';
import type { StreamPublisher } from '../nats/stream-publisher.ts';
import { AsyncStreamReplica, type LogReplica, StreamReplica } from '../nats/stream-replica.ts';
import type { Log } from '../observability/log.ts';
import { FollowedLogs } from './followed-logs.ts';
import { webhooksLogicOf } from './groups.ts';
import type { NodeFeed } from './node-feed.ts';
import type { HostedLog, HostedPartition, Storage } from './storage.ts';
import { streamFirst } from './stream-first.ts';
import { UnprovenLogs } from './unproven-logs.ts';

export interface ClusterHostOptions {
  readonly link: NatsLink;
  readonly publisher: StreamPublisher;
  readonly server: NatsBusServer;
  readonly table: Pick<LeaseTable, 'lease'>;
  readonly faults: StreamFaults;
  /** Null: this process owns no partition that has a log. */
  readonly storage: Storage | null;
  /** Told which partitions this process writes. */
  readonly feed: NodeFeed;
  readonly replicas: number;
  readonly replication: Replication;
  readonly snapshotEveryBatches: number;
  readonly log: Log;
  readonly holds: (group: GroupName, partition: number) => boolean;
  /** Another node that cannot prove its log of the partition; null: none says so. */
  readonly unprovenOn: (group: GroupName, partition: number) => string | null;
  /** The local log could not be read as it should: it is damaged, or was just brought in line with its stream. */
  readonly onUnreadable: (group: GroupName, partition: number) => void;
  /** The log refused this writer. */
  readonly onFenced: (group: GroupName, partition: number) => void;
  readonly onServing: (group: GroupName, partition: number) => void;
}

/** Opened under its epoch. */
interface Acquired {
  readonly epoch: number;
  readonly startedAt: number;
  /** Messages wait in it. */
  readonly served: ServedPartition;
  readonly serve: () => void;
}

interface Writer {
  /** False from the moment that the partition is lost: its batches on the way are not tried again. */
  mayWrite: boolean;
  /** Resolves when the log has refused it. */
  readonly refused: Promise<'refused'>;
  /** Null: not opened yet. */
  replica: LogReplica | null;
}

export class ClusterHost implements PartitionHost {
  readonly #options: ClusterHostOptions;
  /** Batches of a log that its stream need not have had. */
  readonly #outstandingMax: number;
  readonly #snapshots: Snapshots | null;
  /** Null: this process owns no partition that has a log. */
  readonly #followed: FollowedLogs | null;
  readonly #unproven: UnprovenLogs;
  readonly #served = new Map<string, ServedPartition>();
  /** Not served yet. */
  readonly #acquired = new Map<string, Acquired>();
  readonly #serving = new Set<string>();
  readonly #writers = new Map<string, Writer>();
  pollers: PollerGroup | null = null;
  webhooks: WebhookExecutor | null = null;

  constructor(options: ClusterHostOptions) {
    this.#options = options;
    const { link, storage, replicas, table, faults, replication, onUnreadable, log } = options;
    this.#unproven = new UnprovenLogs(onUnreadable);
    this.#outstandingMax = replication === 'sync' ? 1 : LIMITS.streamAsyncOutstandingMax;
    if (storage === null) {
      this.#snapshots = null;
      this.#followed = null;
      return;
    }
    const snapshots = new Snapshots({ link, log: storage.log, views: storage.views, replicas });
    this.#snapshots = snapshots;
    this.#followed = new FollowedLogs({
      link,
      storage,
      table,
      faults,
      snapshots,
      onUnreadable,
      replicas,
      outstandingMax: this.#outstandingMax,
      log,
    });
  }

  /** Partitions that only a person can make servable here. */
  get unprovenCount(): number {
    return this.#unproven.count;
  }

  /** One of them. */
  isUnproven(group: GroupName, partition: number): boolean {
    return this.#unproven.has(group, partition);
  }

  isServing(group: GroupName, partition: number): boolean {
    return this.#serving.has(`${group}/${partition}`);
  }

  /** A copy that was kept up for a take-over is not any more. */
  isLeftBehind(group: GroupName, partition: number): boolean {
    return this.#followed?.hasFailed(group, partition) ?? false;
  }

  /** For /readyz; null: there are none. */
  get problem(): string | null {
    return this.#unproven.problem;
  }

  /** For /readyz: streams that do not take what this node writes; null: there are none. */
  get stall(): string | null {
    const now = performance.now();
    const stalled = [...this.#writers].flatMap(([key, { replica }]) => {
      const waiting = replica?.waiting ?? null;
      return waiting === null || now - waiting.since < LIMITS.streamStallMs ? [] : [{ key, ...waiting }];
    });
    const [longest] = stalled.toSorted((a, b) => a.since - b.since);
    if (longest === undefined) return null;
    const keys = stalled.map(({ key }) => key).join(', ');
    const seconds = Math.floor((now - longest.since) / 1_000);
    return `NATS has not taken what this node writes to ${keys} for ${seconds} s: ${longest.why ?? 'it says nothing'}`;
  }

  async prepare(group: GroupName, partition: number): Promise<void> {
    if (group === 'pollers') return;
    try {
      await this.#unproven.during(group, partition, () => this.#prepareLog(group, partition));
    } catch (error) {
      await this.forget(group, partition);
      throw error;
    }
  }

  async #prepareLog(group: GroupName, partition: number): Promise<void> {
    const { tip } = await this.#logs().follow(group, partition);
    await this.#storage().catchUpViews(group, partition);
    // Otherwise others would hand it over to a node that cannot open it.
    if (this.isUnproven(group, partition)) await this.#assertProven(group, partition, tip);
  }

  async forget(group: GroupName, partition: number): Promise<void> {
    await this.#followed?.forget(group, partition);
  }

  async acquire(group: GroupName, partition: number, epoch: number): Promise<void> {
    const startedAt = performance.now();
    const served = this.#options.server.serve(group, partition, epoch);
    this.#served.set(`${group}/${partition}`, served);
    const serve =
      group === 'pollers'
        ? () => this.#startPollers(partition, served)
        : await this.#unproven.during(group, partition, () => this.#open(group, partition, epoch, served));
    this.#acquired.set(`${group}/${partition}`, { epoch, startedAt, served, serve });
  }

  serve(group: GroupName, partition: number): void {
    const key = `${group}/${partition}`;
    const acquired = this.#acquired.get(key);
    this.#acquired.delete(key);
    if (acquired === undefined || this.#served.get(key) !== acquired.served) return;
    this.#serving.add(key);
    // First: what the log has refused since is lost within `serve`, and not written here any more.
    if (group !== 'pollers') this.#options.feed.written(group, partition);
    acquired.serve();
    this.#options.onServing(group, partition);
    const ms = Math.round(performance.now() - acquired.startedAt);
    this.#options.log.info({ group, partition, epoch: acquired.epoch, ms }, 'serving');
  }

  async release(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    const served = this.#served.get(key);
    this.#served.delete(key);
    this.#serving.delete(key);
    this.#options.feed.left(group, partition);
    if (group === 'webhooks') {
      await this.#unlessRefused(key, this.webhooks?.release(partition, LIMITS.webhookHandOverMs));
    }
    served?.close();
    if (group === 'pollers') await this.pollers?.release(partition);
    else await this.#closeLog(group, partition);
    this.#writers.delete(key);
    this.#options.server.flush();
    // Callers who have not heard of the next owner are told for a while to ask again.
    if (served !== undefined) setTimeout(() => served.stop(), LIMITS.leaseMs).unref();
    this.#options.log.info({ group, partition }, 'handed over');
  }

  async lose(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    this.#served.get(key)?.stop();
    this.#served.delete(key);
    this.#acquired.delete(key);
    this.#options.feed.left(group, partition);
    const writer = this.#writers.get(key);
    if (writer !== undefined) writer.mayWrite = false;
    this.#writers.delete(key);
    const released = group === 'webhooks' ? this.webhooks?.release(partition) : undefined;
    if (group === 'pollers') await this.pollers?.lose(partition);
    else await this.#storage().losePartition(group, partition);
    // It may have waited for the log's word, which has just been given.
    await released;
    if (this.#serving.delete(key)) this.#options.log.warn({ group, partition }, 'lost');
  }

  /** The views of followed logs, so that a take-over has little to apply. */
  async keepViewsUp(): Promise<void> {
    await this.#followed?.keepViewsUp();
  }

  /** Of what is written here. Rejects when nobody can say. */
  async lookAtStreams(): Promise<void> {
    const { faults, storage } = this.#options;
    for (const { group, number } of storage?.hosted() ?? []) await faults.lookAtLog(group, number);
  }

  /** Snapshots of what has grown enough since the last one. One that fails holds up no other. */
  async snapshot(): Promise<void> {
    const snapshots = this.#snapshots;
    if (snapshots === null) return;
    for (const hosted of this.#storage().hosted()) {
      const { group, number: partition } = hosted;
      try {
        await this.#snapshotOf(snapshots, hosted);
      } catch (error) {
        this.#options.log.warn({ group, partition, err: error }, 'no snapshot was saved');
      }
    }
  }

  /** What was left of snapshots by processes that died while they saved them. */
  async removeAbandonedSnapshots(): Promise<void> {
    const count = (await this.#snapshots?.removeAbandoned()) ?? 0;
    if (count > 0) {
      this.#options.log.info({ count }, 'removed what was left of snapshots that were never finished');
    }
  }

  async #snapshotOf(snapshots: Snapshots, { group, number, log }: HostedLog): Promise<void> {
    const { holds, snapshotEveryBatches } = this.#options;
    if (log.tip.batch < snapshotEveryBatches || !holds(group, number)) return;
    // Asked each time: somebody may have removed it.
    const stored = await snapshots.batchOf(group, number);
    if (stored <= log.tip.batch && log.tip.batch - stored < snapshotEveryBatches) return;
    const replica = this.#writers.get(`${group}/${number}`)?.replica;
    if (!replica || !holds(group, number)) return;
    const held = (): boolean => holds(group, number);
    const batch = await snapshots.save(group, number, () => replica.settled(), held);
    // `save` may have had nothing new: views lag, and never reach a batch that only opens an epoch.
    if (batch !== stored) this.#options.log.info({ group, partition: number, batch }, 'snapshot saved');
  }

  async close(): Promise<void> {
    await this.#followed?.close();
    for (const served of this.#served.values()) served.stop();
  }

  #storage(): Storage {
    const { storage } = this.#options;
    if (storage === null) throw new Error('this process has no log');
    return storage;
  }

  #logs(): FollowedLogs {
    const followed = this.#followed;
    if (followed === null) throw new Error('this process has no log');
    return followed;
  }

  /** The next owner reads the stream, so all that was acknowledged must stand there first. If the log has refused this writer
   *  meanwhile, the rest cannot be finished and is dropped. */
  async #closeLog(group: GroupName, partition: number): Promise<void> {
    const key = `${group}/${partition}`;
    const storage = this.#storage();
    const replica = this.#writers.get(key)?.replica;
    const closed = storage.closePartition(group, partition).then(() => replica?.settled());
    if ((await this.#unlessRefused(key, closed)) === 'refused') await storage.losePartition(group, partition);
  }

  /** Waits for `done`, which never comes once the log has refused this writer. */
  async #unlessRefused(key: string, done: Promise<void> | undefined): Promise<'refused' | void> {
    const writer = this.#writers.get(key);
    return writer === undefined ? done : Promise.race([done, writer.refused]);
  }

  #startPollers(partition: number, served: ServedPartition): void {
    const { pollers } = this;
    if (pollers === null) throw new Error('this process has no pollers');
    // What is in flight is found in the background; hints are taken at once. The accounts partition may be elsewhere: its
    // time is what its log says.
    const holds = (): boolean => this.#options.holds('pollers', partition);
    void pollers.start(partition, { holds });
    served.open({ inbox: (message, onReply) => pollers.send(partition, message, onReply), holds });
  }

  /** Returns how to serve it. */
  async #open(
    group: GroupName,
    partition: number,
    epoch: number,
    served: ServedPartition,
  ): Promise<() => void> {
    const storage = this.#storage();
    const key = `${group}/${partition}`;
    const follower = await this.#logs().follow(group, partition, this.#sendOn(group, partition));
    let end: EndOfLog;
    try {
      end = await follower.reachEnd();
    } finally {
      await this.forget(group, partition);
    }
    // Under the log's own epoch no batch would open one, and nothing would tell this writer's batches from those before.
    const { tip } = end;
    if (epoch <= tip.epoch) {
      throw new EpochPassed(`${key}: epoch ${epoch} is not above the log's, ${tip.epoch}`, tip.epoch);
    }
    await this.#assertProven(group, partition, tip);

    const { promise: refused, resolve: refuse } = Promise.withResolvers<'refused'>();
    const writer: Writer = { mayWrite: true, refused, replica: null };
    this.#writers.set(key, writer);
    let refusal: Error | null = null;
    const onFenced = (error: Error): void => {
      refusal = error;
      refuse('refused');
      this.#options.log.warn({ group, partition, epoch, err: error }, 'the stream refused this writer');
      // Before it is served the take-over itself fails.
      if (this.#writers.get(key) === writer && writer.mayWrite) this.#options.onFenced(group, partition);
    };
    const replica = this.#replica(group, partition, end.offset, writer, onFenced);
    writer.replica = replica;
    await storage.openPartition(group, partition, { epoch, replica, onFenced });
    const opened = storage.hosted().find((each) => each.group === group && each.number === partition);
    await opened?.log.drained();
    if (refusal === null) await replica.settled();
    if (refusal !== null) throw refusal as Error;
    return () => {
      // Refused after all, since.
      if (refusal !== null) return this.#options.onFenced(group, partition);
      const inbox = storage.inbox(group, partition);
      served.open({
        inbox: this.#options.replication === 'sync' ? inbox : streamFirst(inbox, replica),
        holds: () => this.#options.holds(group, partition),
      });
      if (group === 'webhooks' && opened !== undefined) this.#deliver(partition, opened.partition);
    };
  }

  /** What this machine has and the stream lacks. Also the one batch that a writer had on its way, of which nobody was told: it may be one
   *  that the stream had, and forgot. */
  #sendOn(group: GroupName, partition: number): LogFollowerOptions['sendOn'] {
    return async (batches, offset) => {
      const replica = this.#streamReplica(group, partition, offset, () => true, false);
      for (const batch of batches) await replica.publish(batch);
      this.#options.log.info({ group, partition, batches: batches.length }, 'the stream has what it lacked');
    };
  }

  /** `tip`: where its log ends, which is the stream's. */
  async #assertProven(group: GroupName, partition: number, tip: Tip): Promise<void> {
    if (tip.batch === 0) await this.#assertMayBegin(group, partition);
    if (group === 'webhooks') await this.#assertReadsOn(partition);
  }

  /** Neither the stream nor this machine has anything of the partition's log. */
  async #assertMayBegin(group: GroupName, partition: number): Promise<void> {
    const { table, link, unprovenOn } = this.#options;
    const other = unprovenOn(group, partition);
    let why: string;
    if (table.lease(group, partition)?.value.hasBegun === true) why = 'it was served before';
    else if (other !== null) why = `node ${other} cannot prove that its log has all of it`;
    else if (await areStreamsLost(link.manager, this.#storage().log, this.#outstandingMax)) {
      why = 'the streams of all other logs of this machine were lost';
    } else return;
    throw new LogDiverged(
      `${group}/${partition}: ${why}, and neither this machine nor the stream has anything of its log: an empty partition is ` +
        'not begun in its place. See "The streams are lost" in deploy/nats/README.md',
    );
  }

  /** If webhooks have read further than their accounts' log now reaches, they would never hear of what is written there now. If that
   *  log now begins after what they have read, they cannot go on, and would end the process. */
  async #assertReadsOn(partition: number): Promise<void> {
    const { link, feed } = this.#options;
    const storage = this.#storage();
    await storage.catchUpViews('webhooks', partition, true);
    const cursor = Number(storage.views.reader('webhooks', partition).get('cursor', 'upstream') ?? 0);
    if (feed.isOwn('accounts', partition, cursor)) return;
    const missing = await misses({ link, group: 'accounts', partition }, cursor);
    if (missing === null) return;
    const read = `webhooks/${partition}: it has read its accounts up to ${cursor}`;
    throw new LogDiverged(
      missing === 'end'
        ? `${read}, and their stream ends before that: an older log was put back, put back one of the same time for both`
        : `${read}, and their stream begins after that: only the node that writes them can read on, from its own log. Let it ` +
            'have the role webhooks, and no other node, until a webhook of this partition has gone out',
    );
  }

  #deliver(number: number, partition: HostedPartition): void {
    this.webhooks?.host(number, webhooksLogicOf(partition), {
      clock: () => partition.now(),
      // Straight to its partition: over the bus a node that lost it would speak to the new owner.
      send: (message, onReply) => partition.send(message as never, onReply),
      holds: () => this.#options.holds('webhooks', number),
    });
  }

  #replica(
    group: GroupName,
    partition: number,
    offset: number,
    writer: Writer,
    onFenced: (error: Error) => void,
  ): LogReplica {
    const replica = this.#streamReplica(group, partition, offset, () => writer.mayWrite);
    return this.#options.replication === 'sync' ? replica : new AsyncStreamReplica(replica, onFenced);
  }

  #streamReplica(
    group: GroupName,
    partition: number,
    offset: number,
    mayWrite: () => boolean,
    isRemembered = true,
  ): StreamReplica {
    const { publisher, link } = this.#options;
    const { manager } = link;
    return new StreamReplica({ publisher, manager, group, partition, offset, mayWrite, isRemembered });
  }
}
