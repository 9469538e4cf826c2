// The logs that this node writes, and the partitions over them, while they are given to it.
//
//   prepare: follow the stream (followed-logs.ts) ─▶ views
//   open:    read the stream to its end ─▶ prove the log (log-proof.ts) ─▶ open under the epoch ─▶ opening batch durable
//   release: finish, flush ─▶ all of it in the stream
//   lose:    drop what is not durable
//
// Invariant: a partition is begun only after its epoch-opening batch is durable: from then on nobody else's batch can follow one
// that this process has not read.

import type { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { LogCorruption } from '../../wal/batch.ts';
import type { GroupName } from '../bus/bus.ts';
import { EpochPassed } from '../bus/ownership.ts';
import type { Replication } from '../config.ts';
import { LIMITS } from '../limits.ts';
import { pause } from '../pause.ts';
import type { NatsLink } from '../nats/connection.ts';
import type { LeaseTable } from '../nats/leases/lease-table.ts';
import { StreamLacks, type EndOfLog, type SendOn } from '../nats/log/log-follower.ts';
import type { Served } from '../nats/bus/nats-bus-server.ts';
import { Snapshots } from '../nats/snapshots/snapshots.ts';
import type { StreamFaults } from '../nats/stream-faults.ts';
import type { StreamPublisher } from '../nats/stream-publisher.ts';
import { persist } from '../nats/persist.ts';
import { isNotFound, leadElsewhere } from '../nats/streams.ts';
import { logStream } from '../nats/subjects.ts';
import { AsyncStreamReplica, type LogReplica, StreamReplica } from '../nats/log/stream-replica.ts';
import type { Log } from '../observability/log.ts';
import { FollowedLogs } from './followed-logs.ts';
import { webhooksLogicOf } from '../storage/groups.ts';
import { LogProof, type LogProofOptions } from './log-proof.ts';
import { LogSnapshots } from './log-snapshots.ts';
import type { NodeFeed } from './node-feed.ts';
import type { PartitionRunner } from './partition-runner.ts';
import type { HostedPartition, Storage } from '../storage/storage.ts';
import { severalAtOnce } from '../several-at-once.ts';
import { streamFirst } from './stream-first.ts';
import { UnprovenLogs } from './unproven-logs.ts';
import { placeOf } from '../../wal/types.ts';
import { asError } from '../../wal/thrown.ts';

export interface WrittenLogsOptions extends Pick<LogProofOptions, 'unprovenOn'> {
  readonly link: NatsLink;
  readonly publisher: StreamPublisher;
  readonly table: Pick<LeaseTable, 'lease'>;
  readonly faults: StreamFaults;
  readonly storage: Storage;
  /** Told which partitions this process writes. */
  readonly feed: NodeFeed;
  readonly replicas: number;
  readonly replication: Replication;
  readonly snapshotEveryBatches: number;
  /** Null: this process delivers no webhooks. */
  readonly webhooks: WebhookExecutor | null;
  readonly log: Log;
  readonly holds: (group: GroupName, partition: number) => boolean;
  /** The local log could not be read as it should: it is damaged, or was just brought in line with its stream. */
  readonly onUnreadable: (group: GroupName, partition: number) => void;
  /** The log refused this writer. */
  readonly onFenced: (group: GroupName, partition: number) => void;
}

interface ShortLeader {
  /** That others were asked to lead since. */
  readonly leaders: number;
  /** It leads, monotonic milliseconds. */
  readonly until: number;
}

interface Writer {
  /** False from the moment that the partition is lost: its batches on the way are not tried again. */
  mayWrite: boolean;
  /** Resolves when the log has refused it. */
  readonly refused: Promise<'refused'>;
  /** What it said then. */
  refusal: Error | null;
  /** Null: not opened yet. */
  replica: LogReplica | null;
}

export class WrittenLogs implements PartitionRunner {
  readonly snapshots: LogSnapshots;
  readonly #options: WrittenLogsOptions;
  readonly #followed: FollowedLogs;
  readonly #proof: LogProof;
  readonly #unproven: UnprovenLogs;
  readonly #writers = new Map<string, Writer>();
  /** Whose stream's leader lacked what this machine has when it was last read. */
  readonly #short = new Map<string, ShortLeader>();

  constructor(options: WrittenLogsOptions) {
    this.#options = options;
    const { link, storage, replicas, replication, snapshotEveryBatches: everyBatches } = options;
    const outstandingMax = replication === 'sync' ? 1 : LIMITS.streamAsyncOutstandingMax;
    const snapshots = new Snapshots({ link, log: storage.log, views: storage.views, replicas });
    const replicaOf = (group: GroupName, partition: number) => this.#replicaOf(group, partition);
    this.snapshots = new LogSnapshots({ ...options, snapshots, replicaOf, everyBatches });
    this.#followed = new FollowedLogs({ ...options, snapshots, outstandingMax });
    this.#proof = new LogProof(options);
    this.#unproven = new UnprovenLogs(options.onUnreadable);
  }

  /** Partitions that only a person can make servable here. */
  get unprovenCount(): number {
    return this.#unproven.count;
  }

  /** One of them. */
  isUnproven(group: GroupName, partition: number): boolean {
    return this.#unproven.has(group, partition);
  }

  /** Only because another node says that it cannot prove its own. */
  isDoubtedElsewhere(group: GroupName, partition: number): boolean {
    return this.#unproven.isDoubtedElsewhere(group, partition);
  }

  /** This machine has nothing of it. */
  isEmpty(group: GroupName, partition: number): boolean {
    const { log } = this.#options.storage;
    log.refresh();
    try {
      // Where it begins with a snapshot, or after a trim, it says so under batch 0.
      return log.lastBatchNumber(group, partition) === 0 && log.bytesOf(group, partition, 0) === undefined;
    } catch (error) {
      // What is damaged is there: the take-over says what is the matter.
      if (error instanceof LogCorruption) return false;
      throw error;
    }
  }

  /** A copy that was kept up for a take-over is not any more. */
  isLeftBehind(group: GroupName, partition: number): boolean {
    return this.#followed.hasFailed(group, partition);
  }

  /** For /readyz: logs that are not proven, or streams that do not take what this node writes; null: there are none. */
  get problem(): string | null {
    return this.#unproven.problem ?? this.stall;
  }

  /** For /readyz: streams that do not take what this node writes; null: there are none. */
  get stall(): string | null {
    const stalled = this.#stalled();
    const [longest] = stalled.toSorted((a, b) => b.forMs - a.forMs);
    if (longest === undefined) return null;
    const keys = stalled.map(({ key }) => key).join(', ');
    const seconds = Math.floor(longest.forMs / 1_000);
    return `NATS has not taken what this node writes to ${keys} for ${seconds} s: ${longest.why ?? 'it says nothing'}`;
  }

  #stalled(): { readonly key: string; readonly why: string | null; readonly forMs: number }[] {
    const now = performance.now();
    return [...this.#writers].flatMap(([key, { replica }]) => {
      const { since, why } = replica?.waiting ?? { since: now, why: null };
      const forMs = now - since;
      return forMs < LIMITS.streamStallMs ? [] : [{ key, why, forMs }];
    });
  }

  /** Of a partition that is written here; null: it is not. */
  #replicaOf(group: GroupName, partition: number): LogReplica | null {
    return this.#writers.get(`${group}/${partition}`)?.replica ?? null;
  }

  async prepare(group: GroupName, partition: number): Promise<void> {
    try {
      await this.#unproven.during(group, partition, () => this.#prepare(group, partition));
    } catch (error) {
      await this.forget(group, partition);
      throw error;
    }
  }

  async #prepare(group: GroupName, partition: number): Promise<void> {
    const { tip } = await this.#followed.follow(group, partition);
    await this.#options.storage.catchUpViews(group, partition);
    // Otherwise others would hand it over to a node that cannot open it.
    if (this.isUnproven(group, partition)) await this.#proof.assertProven(group, partition, tip);
  }

  async forget(group: GroupName, partition: number): Promise<void> {
    await this.#followed.forget(group, partition);
  }

  async open(group: GroupName, partition: number, epoch: number): Promise<() => Served | null> {
    return this.#unproven.during(group, partition, () => this.#open(group, partition, epoch));
  }

  async #open(group: GroupName, partition: number, epoch: number): Promise<() => Served | null> {
    const { storage, feed, onFenced } = this.#options;
    const key = `${group}/${partition}`;
    const { tip, offset } = await this.#endOf(group, partition);
    // Under the log's own epoch no batch would open one, and nothing would tell this writer's batches from those before.
    if (epoch <= tip.epoch) {
      throw new EpochPassed(`${key}: epoch ${epoch} is not above the log's, ${tip.epoch}`, tip.epoch);
    }
    await this.#proof.assertProven(group, partition, tip);

    const { promise: refused, resolve: refuse } = Promise.withResolvers<'refused'>();
    const writer: Writer = { mayWrite: true, refused, refusal: null, replica: null };
    this.#writers.set(key, writer);
    const onRefused = (error: Error): void => {
      writer.refusal = error;
      refuse('refused');
      this.#options.log.warn({ group, partition, epoch, err: error }, 'the stream refused this writer');
      // Before it is begun the take-over itself fails.
      if (this.#writers.get(key) === writer) onFenced(group, partition);
    };
    const replica = this.#replica(group, partition, offset, writer, onRefused);
    writer.replica = replica;
    await storage.openPartition(group, partition, { epoch, replica, onFenced: onRefused });
    const opened = storage.hosted().find((each) => each.group === group && each.number === partition);
    await opened?.log.drained();
    if (writer.refusal === null) await replica.settled();
    if (writer.refusal !== null) throw writer.refusal;
    return () => {
      if (writer.refusal !== null) {
        onFenced(group, partition);
        return null;
      }
      feed.written(group, partition);
      if (group === 'webhooks' && opened !== undefined) this.#deliver(partition, opened.partition);
      return this.#served(group, partition, replica);
    };
  }

  /** What the stream has is in the local log, which nobody follows it into any more. */
  async #endOf(group: GroupName, partition: number): Promise<EndOfLog> {
    for (;;) {
      try {
        const sendOn = this.#sendOn(group, partition);
        const follower = await this.#followed.follow(group, partition, sendOn);
        const end = await follower.reachEnd(sendOn);
        this.#short.delete(`${group}/${partition}`);
        return end;
      } catch (error) {
        if (!(error instanceof StreamLacks) || !(await this.#leadElsewhere(group, partition))) throw error;
      } finally {
        await this.forget(group, partition);
      }
      await pause(LIMITS.takeOverRetryMs);
    }
  }

  /** The stream ends before what it took from `replica`. One that has nothing at all is another, which nobody may write to. Rejects when
   *  nobody can say. */
  async #hasForgotten(group: GroupName, partition: number, { reached }: LogReplica): Promise<boolean> {
    const { state } = await this.#options.link.manager.streams.info(logStream(group, partition));
    return state.last_seq > 0 && state.last_seq < reached;
  }

  /** Whoever has the partition next may have no more than the stream, and would write in the place of what was acknowledged. */
  async #giveBackForgotten(group: GroupName, partition: number, replica: LogReplica): Promise<void> {
    const giveBack = async (): Promise<void> => {
      if (await this.#hasForgotten(group, partition, replica)) await this.#endOf(group, partition);
    };
    try {
      await persist(giveBack, { forMs: LIMITS.natsConnectMs });
    } catch (error) {
      const problem = 'what NATS may have forgotten could not be given back';
      this.#options.log.warn({ group, partition, err: error }, problem);
    }
  }

  /** nats-server 2.9 can elect a server whose copy of the stream is short, for good. Whoever would write there finds it out, and has
   *  another lead, until one does that has what was acknowledged: a few at once, for callers wait, and then each time that it tries again.
   *  Not the first time: a leader that was just elected may not have read its own journal yet. Resolves with whether it is to be read
   *  again at once. */
  async #leadElsewhere(group: GroupName, partition: number): Promise<boolean> {
    const { link, log } = this.#options;
    const key = `${group}/${partition}`;
    const known = this.#short.get(key);
    const now = performance.now();
    if (known === undefined) {
      this.#short.set(key, { leaders: 0, until: now });
      return true;
    }
    if (now < known.until) return false;
    const leaders = known.leaders + 1;
    const isQuick = leaders < LIMITS.streamLeadersAtOnce;
    this.#short.set(key, { leaders, until: isQuick ? now : now + LIMITS.unprovenRetryMs });
    const stream = logStream(group, partition);
    const refusal = await leadElsewhere(link, stream);
    if (leaders === 1) {
      const what = `the leader of ${stream} lacks what this machine has`;
      if (refusal === null) {
        log.warn(
          { group, partition },
          `${what}: another server leads it now, and so each time that this one is no better. See "The leader has a short copy" in ` +
            'deploy/nats/README.md',
        );
      } else log.warn({ group, partition, why: refusal }, `${what}, and no other could be asked to lead`);
    }
    return refusal === null && isQuick;
  }

  #served(group: GroupName, partition: number, replica: LogReplica): Served {
    const { storage, replication, holds } = this.#options;
    const inbox = storage.inbox(group, partition);
    return {
      inbox: replication === 'sync' ? inbox : streamFirst(inbox, replica),
      holds: () => holds(group, partition),
    };
  }

  /** The next owner reads the stream, so all that was acknowledged must stand there first. If the log has refused this writer
   *  meanwhile, the rest cannot be finished and is dropped. */
  async release(group: GroupName, partition: number, turnAway: () => void): Promise<void> {
    const { storage, feed, webhooks } = this.#options;
    const key = `${group}/${partition}`;
    feed.left(group, partition);
    if (group === 'webhooks') {
      await this.#unlessRefused(key, webhooks?.release(partition, LIMITS.webhookHandOverMs));
    }
    turnAway();
    const replica = this.#replicaOf(group, partition);
    const closed = storage.closePartition(group, partition).then(() => replica?.settled());
    if ((await this.#unlessRefused(key, closed)) === 'refused') await storage.losePartition(group, partition);
    if (replica !== null) await this.#giveBackForgotten(group, partition, replica);
    this.#writers.delete(key);
  }

  async lose(group: GroupName, partition: number): Promise<void> {
    const { storage, feed, webhooks } = this.#options;
    const key = `${group}/${partition}`;
    feed.left(group, partition);
    const writer = this.#writers.get(key);
    // Otherwise another may have the partition by now, and NATS may not answer.
    const refused = writer !== undefined && writer.refusal !== null ? writer.replica : null;
    if (writer !== undefined) writer.mayWrite = false;
    this.#writers.delete(key);
    const released = group === 'webhooks' ? webhooks?.release(partition) : undefined;
    await storage.losePartition(group, partition);
    // It may have waited for the log's word, which has just been given.
    await released;
    if (refused !== null) await this.#giveBackForgotten(group, partition, refused);
  }

  /** The views of followed logs, so that a take-over has little to apply. */
  async keepViewsUp(): Promise<void> {
    await this.#followed.keepViewsUp();
  }

  /** Of what is written here. Rejects when of one of them nobody can say. */
  async lookAtStreams(): Promise<void> {
    const { faults, storage } = this.#options;
    let failure: Error | null = null;
    for (const { group, number } of storage.hosted()) {
      try {
        await faults.lookAtLog(group, number);
        await this.#lookWhetherForgotten(group, number);
      } catch (error) {
        // One that was removed, or has no leader, holds up no other.
        if (!isNotFound(error)) failure = asError(error);
      }
    }
    if (failure !== null) throw failure;
  }

  /** Of what has waited for long. A server that leads with a short copy may say nothing at all to what is written there: its writer would
   *  wait for streamPublishMs, longer than its callers do, and only then find out why. */
  async lookAtStalled(): Promise<void> {
    await severalAtOnce(LIMITS.streamsStalledAtOnce, this.#stalled(), async ({ key }) => {
      const { group, partition } = placeOf(key);
      // Where nobody can say, there is no leader yet.
      await this.#lookWhetherForgotten(group as GroupName, partition).catch(() => {});
    });
  }

  async #lookWhetherForgotten(group: GroupName, partition: number): Promise<void> {
    const { onFenced, log } = this.#options;
    const replica = this.#replicaOf(group, partition);
    if (replica === null || !(await this.#hasForgotten(group, partition, replica))) return;
    // A leader that was just elected may not have read its own journal yet.
    await pause(LIMITS.takeOverRetryMs);
    if (!(await this.#hasForgotten(group, partition, replica))) return;
    if (this.#replicaOf(group, partition) !== replica) return;
    log.warn({ group, partition }, 'NATS has forgotten what it had taken: the partition is opened anew');
    onFenced(group, partition);
  }

  async close(): Promise<void> {
    await this.#followed.close();
  }

  /** Waits for `done`, which never comes once the log has refused this writer. */
  async #unlessRefused(key: string, done: Promise<void> | undefined): Promise<'refused' | void> {
    const writer = this.#writers.get(key);
    return writer === undefined ? done : Promise.race([done, writer.refused]);
  }

  /** What this machine has and the stream lacks. Also the one batch that a writer had on its way, of which nobody was told: it may be one
   *  that the stream had, and forgot. */
  #sendOn(group: GroupName, partition: number): SendOn {
    return async (batches, offset) => {
      const replica = this.#streamReplica(group, partition, offset, () => true, false);
      for (const batch of batches) await replica.publish(batch);
      this.#options.log.info({ group, partition, batches: batches.length }, 'the stream has what it lacked');
    };
  }

  #deliver(number: number, partition: HostedPartition): void {
    this.#options.webhooks?.host(number, webhooksLogicOf(partition), {
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
    onRefused: (error: Error) => void,
  ): LogReplica {
    const replica = this.#streamReplica(group, partition, offset, () => writer.mayWrite);
    return this.#options.replication === 'sync' ? replica : new AsyncStreamReplica(replica, onRefused);
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
