// The steps of a partition on a node of the cluster, to its being held there and away again. When each is due is decided in
// lease-ownership.ts; here is what is said to the bucket and to the host, in which order, and where a step that fails leaves it.
//
//   free ──follow──▶ preparing ─▶ free, warm           next in line
//   free ──askFor──▶ preparing ─▶ wanted               another node has it, and is to hand it over
//   free, wanted ──claim──▶ claiming ─▶ held           the lease is ours, the log open, callers served
//   held ──handOver, lose──▶ releasing ─▶ free
//
// Invariant: whatever a step ends with, its place is not left between two stages: what is free may be claimed at the next look.

import { NatsError } from 'nats';
import type { GroupName, PartitionPlace } from '../../bus/bus.ts';
import { EpochPassed, NotSoon, type PartitionHost } from '../../bus/ownership.ts';
import { LIMITS } from '../../limits.ts';
import { pause } from '../../pause.ts';
import { ReplicaUnavailable } from '../log/stream-replica.ts';
import { leaseKey, partitionKey } from '../subjects.ts';
import { messageOf } from '../../../wal/thrown.ts';
import type { Flaw } from './candidates.ts';
import type { LeaseEntry, LeaseTable, Seen } from './lease-table.ts';
import { isWithin, type NodeSession, type Term } from './node-session.ts';

/** free: claimed by nobody we know of, or not ours. */
export type Stage = 'free' | 'preparing' | 'wanted' | 'claiming' | 'held' | 'releasing';

/** A partition that this node can own. */
export interface Place extends PartitionPlace {
  stage: Stage;
  epoch: number;
  /** That the log was written under when a lease was behind it; 0: none was. */
  passedEpoch: number;
  /** Its lease is being written again. */
  isSaidAgain: boolean;
  /** Its lease may have been dropped: it is to be written again. */
  isDoubted: boolean;
  /** The session's when its lease was found to be spoilt: others wait for no later one. Null: it is not spoilt. */
  lastTerm: Term | null;
  /** The local copy of the log is kept up, so that a take-over is short: to be let go when this node is not next in line any more. */
  warm: boolean;
  /** Not tried again before, monotonic milliseconds. */
  retryAt: number;
  /** It could not be taken over since then, by a fault that may be this node's, monotonic milliseconds; null: the last try went well. */
  failingSince: number | null;
  /** At the last of these. */
  failedAt: number;
  /** The problem that was told last; null: none since it was held or followed. */
  told: string | null;
}

export function freePlace(group: GroupName, partition: number): Place {
  return {
    group,
    partition,
    stage: 'free',
    epoch: 0,
    passedEpoch: 0,
    isSaidAgain: false,
    isDoubted: false,
    lastTerm: null,
    warm: false,
    retryAt: 0,
    failingSince: null,
    failedAt: 0,
    told: null,
  };
}

/** Its lease was not said again in time: it may be another's. */
export function hasLapsed({ lastTerm }: Place): boolean {
  return lastTerm !== null && !isWithin(lastTerm);
}

/** Not of what every node would meet, nor where this one may have more of the log than those that would have it instead. */
function mayBeOwnFault(error: unknown): boolean {
  const isElsewhere = error instanceof NatsError || error instanceof ReplicaUnavailable;
  return !isElsewhere && !(error instanceof NotSoon) && !(error instanceof EpochPassed);
}

/** Whatever the reason is, it has lasted longer than an election among nats-servers. */
export function hasFailedForLong({ failingSince, failedAt }: Place): boolean {
  return failingSince !== null && failedAt - failingSince >= LIMITS.leaseLeftMs;
}

/** It is not to be tried again where another node takes it. */
export function isFailing(place: Place): boolean {
  return hasFailedForLong(place) && performance.now() - place.failedAt < LIMITS.takeOverFailingMs;
}

export interface LeaseMovesOptions {
  readonly table: Pick<LeaseTable, 'lease' | 'wants' | 'write'>;
  readonly host: PartitionHost;
  readonly node: string;
  readonly session: NodeSession;
  readonly hasFlaw: (what: Flaw, place: PartitionPlace) => boolean;
  readonly isClosed: () => boolean;
  readonly onProblem: (problem: string, error?: unknown) => void;
  /** Something can be done now that could not be before. */
  readonly onMoved: () => void;
}

export class LeaseMoves {
  readonly #options: LeaseMovesOptions;

  constructor(options: LeaseMovesOptions) {
    this.#options = options;
  }

  async claim(place: Place, lease: Seen<LeaseEntry> | undefined): Promise<void> {
    const { table, host, node, session, hasFlaw, onMoved } = this.#options;
    const { group, partition } = place;
    place.stage = 'claiming';
    place.epoch = Math.max(lease?.value.epoch ?? 0, place.passedEpoch) + 1;
    const { id } = session;
    try {
      const entry = { ...lease?.value, node, session: id, epoch: place.epoch };
      // Nothing else tells whether what was dropped was said again, and dropped again.
      const ifAllHeard = lease?.isSpoilt === true;
      const written = await table.write(leaseKey(group, partition), entry, lease?.revision ?? 0, {
        ifAllHeard,
      });
      if (written !== true) {
        // If it was written after all, the table will show it, held by this session and not by this place.
        await this.#forgetClaim(place, written === null);
        return;
      }
      place.warm = false;
      await host.acquire(group, partition, place.epoch);
      await this.#noteBegun(place);
      // The claim may have been dropped before its answer came: another has as much of it as this node.
      const isLeft = table.lease(group, partition)?.value.epoch === place.epoch;
      if (id !== session.id || hasLapsed(place) || !isLeft) {
        await this.lose(place);
        return;
      }
      if (hasFlaw('damaged', place)) throw new Error('the copy of this node is damaged');
      place.stage = 'held';
      place.told = null;
      place.failingSince = null;
      host.serve(group, partition);
      onMoved();
    } catch (error) {
      await this.#endClaim(place, error);
    }
  }

  async #endClaim(place: Place, error: unknown): Promise<void> {
    const { hasFlaw } = this.#options;
    this.#tellOnce(place, 'could not be taken over', error);
    const wasFailing = isFailing(place);
    if (mayBeOwnFault(error)) {
      place.failedAt = performance.now();
      place.failingSince ??= place.failedAt;
    }
    // Before it is free: what is free may be claimed at the next look, which its own return brings about.
    this.#putOff(place, error);
    if (error instanceof EpochPassed) {
      place.passedEpoch = error.epoch;
      // Whoever wrote under it, and whose lease was dropped from the bucket, may hold it for so long without hearing of this one.
      place.retryAt = performance.now() + LIMITS.leaseMs;
    }
    await this.giveUp(place, hasFlaw('unproven', place) || (isFailing(place) && !wasFailing));
  }

  /** Once for each partition, before anything is decided in it. Should it not be written, the next claim tries again. */
  async #noteBegun({ group, partition }: Place): Promise<void> {
    const { table, session } = this.#options;
    const lease = table.lease(group, partition);
    if (lease === undefined || lease.value.session !== session.id || lease.value.hasBegun === true) return;
    const entry = { ...lease.value, hasBegun: true };
    await table.write(leaseKey(group, partition), entry, lease.revision);
  }

  async #forgetClaim(place: Place, mayBeWritten: boolean): Promise<void> {
    if (mayBeWritten) {
      await pause(LIMITS.streamAckMs);
      await this.giveBack(place);
    }
    place.stage = 'free';
    place.retryAt = performance.now() + LIMITS.busRetryMs;
  }

  /** Of whoever holds it, when this node can take it over without delay. */
  async askFor(place: Place): Promise<void> {
    const { table, host, node, session, onMoved } = this.#options;
    const { group, partition } = place;
    place.stage = 'preparing';
    try {
      await host.prepare(group, partition);
      place.told = null;
      place.warm = true;
      const { id } = session;
      const key = partitionKey(group, partition);
      const revision = table.wants.get(key)?.revision ?? 0;
      const written = await table.write(`want.${key}`, { node, session: id }, revision);
      // Nobody hands to this session what one before has asked for.
      place.stage = written === true && id === session.id ? 'wanted' : 'free';
      onMoved();
    } catch (error) {
      this.#tellOnce(place, 'could not be prepared', error);
      place.warm = false;
      place.stage = 'free';
      this.#putOff(place, error);
    }
  }

  /** Keeps a copy of its log up. */
  async follow(place: Place): Promise<void> {
    place.warm = true;
    place.stage = 'preparing';
    await this.#during(place, 'followed', () => this.#options.host.prepare(place.group, place.partition));
  }

  /** The copy need not be kept up any more. */
  async letGo(place: Place): Promise<void> {
    place.warm = false;
    // What is told of it next has to wait for that.
    place.stage = 'releasing';
    await this.#during(place, 'let go', () => this.#options.host.forget(place.group, place.partition));
  }

  async #during(place: Place, what: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
      place.told = null;
    } catch (error) {
      this.#tellOnce(place, `could not be ${what}`, error);
      place.warm = false;
      this.#putOff(place, error);
    }
    place.stage = 'free';
  }

  /** To whoever wants it. */
  async handOver(place: Place): Promise<void> {
    await this.#release(place, 'released', () => this.#options.host.release(place.group, place.partition));
    await this.giveBack(place);
    place.stage = 'free';
  }

  /** It is no longer ours. */
  async lose(place: Place): Promise<void> {
    await this.#release(place, 'let go', () => this.#options.host.lose(place.group, place.partition));
    place.stage = 'free';
  }

  /** It is no longer ours, and anybody's at once. `hasNewFlaw`: this node cannot have it any more. Unless its session says so before the
   *  lease is free, others wait for it to take that: until then no look finds the place free, and returns the lease. */
  async giveUp(place: Place, hasNewFlaw: boolean): Promise<void> {
    const { host, session } = this.#options;
    await this.#release(place, 'let go', () => host.lose(place.group, place.partition));
    if (hasNewFlaw) await session.renew();
    await this.giveBack(place);
    place.stage = 'free';
  }

  async #release(place: Place, what: string, act: () => Promise<void>): Promise<void> {
    place.stage = 'releasing';
    try {
      await act();
    } catch (error) {
      this.#options.onProblem(`${place.group}/${place.partition} could not be ${what}`, error);
    }
  }

  /** The lease is this session's, and the partition is not held: its claim or its return had no answer. */
  async returnLease(place: Place): Promise<void> {
    place.stage = 'releasing';
    try {
      await this.giveBack(place);
    } finally {
      place.stage = 'free';
    }
  }

  /** Says that nobody holds it, if this session still does. Without an answer the lease ends with the session, or has ended. Of one that
   *  was dropped and has lapsed nothing is said: another may have claimed it, whose claim was dropped, too, and was not heard of here. */
  async giveBack(place: Place): Promise<void> {
    const { table, session } = this.#options;
    const { group, partition } = place;
    for (let attempt = 0; attempt < 3; attempt++) {
      const lease = table.lease(group, partition);
      if (lease === undefined || lease.value.session !== session.id || hasLapsed(place)) return;
      const entry = { ...lease.value, node: null, session: null };
      const ifAllHeard = lease.isSpoilt === true;
      const written = await table.write(leaseKey(group, partition), entry, lease.revision, { ifAllHeard });
      const isOver = written === true || (written === false && !ifAllHeard);
      if (isOver || !session.isValid) return;
    }
  }

  /** The lease of what is held, which was dropped from the bucket, or may have been. */
  async sayAgain(place: Place, { value, revision }: Seen<LeaseEntry>): Promise<void> {
    place.isSaidAgain = true;
    const written = await this.#options.table.write(leaseKey(place.group, place.partition), value, revision);
    if (written === true) place.isDoubted = false;
    place.isSaidAgain = false;
  }

  /** What is tried again fails in the same way until a person has seen to it; /readyz says it all the time. */
  #tellOnce(place: Place, problem: string, error: unknown): void {
    const told = `${problem}: ${messageOf(error)}`;
    // What is cut off by the end of this node is no news.
    if (told === place.told || this.#options.isClosed()) return;
    place.told = told;
    this.#options.onProblem(`${place.group}/${place.partition} ${problem}`, error);
  }

  #putOff(place: Place, error: unknown): void {
    const isNotSoon = error instanceof NotSoon || this.#options.hasFlaw('unproven', place);
    place.retryAt = performance.now() + (isNotSoon ? LIMITS.unprovenRetryMs : LIMITS.takeOverRetryMs);
  }
}
