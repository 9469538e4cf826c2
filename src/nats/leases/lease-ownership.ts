// Ownership in the cluster: a session per node, a lease per partition, both in KV, both changed by compare-and-set.
//
//   node joins ──▶ session live ──▶ free partitions it ranks first for: claim (epoch + 1), acquire, serve
//   partition held by another, this node ranks first: prepare a warm copy, say `want` ──▶ holder releases ──▶ claim
//   session silent for leaseMs (observer's clock): observer ends it by compare-and-set ──▶ its partitions are free
//
// Invariants:
//   - A lease stands on its holder's session (node-session.ts), and ends with it.
//   - Of a lease that was dropped from the bucket others believe for leaseMs that it is held. Its holder does for as long as its
//     session had before that, whatever renewals bring: until then the lease is said again, or somebody else may have it.
//   - What protects the log is the epoch, not the lease (stream-replica.ts).
//
// Here is decided what is due; lease-moves.ts does it.

import type { GroupName, PartitionPlace } from '../../bus/bus.ts';
import type { Ownership, PartitionHost } from '../../bus/ownership.ts';
import { LIMITS } from '../../limits.ts';
import { Candidates, type Flaw } from './candidates.ts';
import {
  freePlace,
  hasFailedForLong,
  hasLapsed,
  isFailing,
  LeaseMoves,
  type Place,
  type Stage,
} from './lease-moves.ts';
import type { LeaseEntry, LeaseTable, Seen, WantEntry } from './lease-table.ts';
import { NodeSession, type SessionWords, type Term } from './node-session.ts';
import { pause } from '../../pause.ts';
import { assertToken, partitionKey } from '../subjects.ts';

/** What it needs of the table. */
export type Leases = Pick<
  LeaseTable,
  | 'nodes'
  | 'leases'
  | 'wants'
  | 'lease'
  | 'isHeld'
  | 'onAnyChange'
  | 'write'
  | 'heardUpTo'
  | 'missedNothingSince'
>;

export interface LeaseOwnershipOptions {
  readonly table: Leases;
  readonly host: PartitionHost;
  readonly node: string;
  /** Of records that this node reads. */
  readonly newestFormat: number;
  /** The disk has hardly any room for more. Absent: never. */
  readonly isShort?: () => boolean;
  /** The copy of this node is damaged: others have the partition. Absent: never. */
  readonly isDamaged?: (group: GroupName, partition: number) => boolean;
  /** As its session says them. Absent: nothing. */
  readonly terms?: SessionWords['terms'];
  /** Partitions of the groups that this node can own. */
  readonly partitions: Partial<Record<GroupName, number>>;
  readonly onProblem: (problem: string, error?: unknown) => void;
}

export class LeaseOwnership implements Ownership {
  readonly #options: LeaseOwnershipOptions;
  readonly #table: Leases;
  readonly #places: Place[] = [];
  readonly #byKey = new Map<string, Place>();
  readonly #session: NodeSession;
  readonly #candidates: Candidates;
  readonly #moves: LeaseMoves;
  #timer: NodeJS.Timeout | undefined;
  #state: 'live' | 'draining' = 'live';
  /** The set of nodes that may own has not changed since. */
  #membersSince = 0;
  #members = '';
  #looking = false;
  #lookAgain = false;
  /** That the look under way may still begin. */
  #claimsLeft = 0;
  #preparationsLeft = 0;
  #closed = false;

  constructor(options: LeaseOwnershipOptions) {
    const { table, node, onProblem } = options;
    this.#options = options;
    this.#table = table;
    assertToken(node);
    this.#session = new NodeSession({
      table,
      node,
      words: () => this.#words(),
      onEnded: () => this.#loseAll(),
      onSaidAgain: (had) => this.#doubtAll(had),
      onProblem,
    });
    this.#candidates = new Candidates({
      nodes: table.nodes,
      node,
      ownFlaw: (what, group, partition) => this.#hasFlaw(what, { group, partition }),
    });
    this.#moves = new LeaseMoves({
      ...options,
      session: this.#session,
      hasFlaw: (what, place) => this.#hasFlaw(what, place),
      isClosed: () => this.#closed,
      onMoved: () => this.#look(),
    });
    for (const [group, count] of Object.entries(options.partitions) as [GroupName, number][]) {
      for (let partition = 0; partition < count; partition++) {
        const place = freePlace(group, partition);
        this.#places.push(place);
        this.#byKey.set(partitionKey(group, partition), place);
      }
    }
  }

  async start(): Promise<void> {
    await this.#session.start();
    this.#table.onAnyChange(() => {
      this.#noteSpoilt();
      this.#look();
    });
    this.#timer = setInterval(() => this.#look(), LIMITS.leaseLookMs);
    this.#look();
  }

  get heldCount(): number {
    return this.#places.filter(({ stage }) => stage === 'held').length;
  }

  /** Epoch under which it is held, 0 when it is not. */
  epoch(group: GroupName, partition: number): number {
    const place = this.#place(group, partition);
    return place?.stage === 'held' ? place.epoch : 0;
  }

  holds(group: GroupName, partition: number): boolean {
    const place = this.#place(group, partition);
    return place?.stage === 'held' && this.isSessionValid() && !hasLapsed(place);
  }

  /** Nobody else can have ended this node's session. */
  isSessionValid(): boolean {
    return this.#session.isValid;
  }

  /** For /readyz: another process takes what this one has, and this one what that has, for as long as both run; null: none does. */
  get rival(): string | null {
    return this.#session.rival;
  }

  /** Everything that is this node's to hold is held. */
  get isSettled(): boolean {
    const { node } = this.#options;
    return (
      this.isSessionValid() &&
      this.#places.every((place) => place.stage === 'held' || this.#candidates.ranked(place)[0] !== node)
    );
  }

  /** Everything that this node can hold could go to nodes that have room. */
  get othersHaveRoom(): boolean {
    const { node, partitions } = this.#options;
    return (Object.keys(partitions) as GroupName[]).every((group) =>
      this.#candidates.ofGroup(group).some((name) => name !== node && !this.#candidates.isShort(name)),
    );
  }

  /** The log refused this writer: give the partition up, so that it is opened anew, here or elsewhere. */
  async surrender(group: GroupName, partition: number): Promise<void> {
    const place = this.#place(group, partition);
    if (place === undefined || place.stage !== 'held') return;
    await this.#moves.giveUp(place, false);
    this.#look();
  }

  /** The copy of this node turned out to be damaged: says so, and lets the partition go to whoever has a whole one. */
  async refuse(group: GroupName, partition: number): Promise<void> {
    const place = this.#place(group, partition);
    if (place === undefined) return;
    if (place.stage === 'held') await this.#moves.giveUp(place, true);
    else await this.#session.renew();
    this.#look();
  }

  async drain(): Promise<void> {
    this.#state = 'draining';
    await this.#session.renew();
    const until = performance.now() + LIMITS.drainMs;
    // Others warm up and say that they want; what nobody wants by then, or could have, is let go. What is on its way in or out
    // needs the log and NATS, which go next, whoever has it then. What is only being prepared nobody misses. And of whom NATS takes
    // nothing, for longer than an election among its servers, nobody hears that it leaves.
    const isWaitedFor = (place: Place): boolean => {
      if (place.stage === 'claiming' || place.stage === 'releasing') return true;
      const isHeard = this.#session.invalidMs < LIMITS.leaseLeftMs;
      return place.stage === 'held' && isHeard && this.#candidates.of(place).length > 0;
    };
    while (this.#places.some(isWaitedFor) && performance.now() < until && !this.#closed) {
      this.#look();
      await pause(LIMITS.busRetryMs);
    }
    await this.#handOverAll();
  }

  /** Whatever keeps one of them from it, the stop goes on: with the session it is others' in the end. */
  async #handOverAll(): Promise<void> {
    const left = this.#places.filter(({ stage }) => stage === 'held');
    const until = performance.now() + LIMITS.handOverMs;
    for (const place of left) void this.#moves.handOver(place);
    const late = (): readonly Place[] => left.filter(({ stage }) => stage === 'releasing');
    while (late().length > 0 && performance.now() < until && !this.#closed) await pause(LIMITS.busRetryMs);
    for (const { group, partition } of late()) {
      this.#options.onProblem(`${group}/${partition} could not be handed over in time`);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#session.close();
  }

  /** undefined: this node can never own it. */
  #place(group: GroupName, partition: number): Place | undefined {
    return this.#byKey.get(partitionKey(group, partition));
  }

  /** What the session says of this node. */
  #words(): SessionWords {
    const { partitions, newestFormat, isShort, terms, host } = this.#options;
    const keysOf = (isOne: (place: Place) => boolean): string[] =>
      this.#places.filter(isOne).map(({ group, partition }) => partitionKey(group, partition));
    const doubtedElsewhere = keysOf(
      (place) => host.isDoubtedElsewhere?.(place.group, place.partition) ?? false,
    );
    const failing = keysOf(isFailing);
    return {
      groups: Object.keys(partitions) as GroupName[],
      state: this.#state,
      newestFormat,
      isShort: isShort?.() ?? false,
      damaged: keysOf((place) => this.#hasFlaw('damaged', place)),
      unproven: keysOf((place) => this.#hasFlaw('unproven', place)),
      ...(failing.length === 0 ? {} : { failing }),
      ...(doubtedElsewhere.length === 0 ? {} : { doubtedElsewhere }),
      ...(terms === undefined ? {} : { terms }),
    };
  }

  #hasFlaw(what: Flaw, { group, partition }: PartitionPlace): boolean {
    const { isDamaged, host } = this.#options;
    if (what === 'failing') {
      const place = this.#place(group, partition);
      return place !== undefined && isFailing(place);
    }
    const own = what === 'damaged' ? isDamaged?.(group, partition) : host.isUnproven?.(group, partition);
    return own ?? false;
  }

  /** The session has ended, and with it what it held. */
  async #loseAll(): Promise<void> {
    // What the old session asked for nobody hands to the new one.
    for (const place of this.#places) if (place.stage === 'wanted') place.stage = 'free';
    await Promise.all(
      this.#places.filter(({ stage }) => stage === 'held').map((place) => this.#moves.lose(place)),
    );
  }

  /** Each lease is said again, which is refused where it was dropped, too. */
  #doubtAll(had: Term): void {
    for (const place of this.#places) {
      if (place.stage !== 'held' && place.stage !== 'claiming') continue;
      place.isDoubted = true;
      place.lastTerm ??= had;
    }
  }

  /** At once: the next renewal brings another term. */
  #noteSpoilt(): void {
    for (const place of this.#places) {
      const lease = this.#table.lease(place.group, place.partition);
      const isSpoilt = lease?.isSpoilt === true && this.#isOurs(lease);
      if (place.stage !== 'held' && place.stage !== 'claiming') place.isDoubted = false;
      place.lastTerm = isSpoilt || place.isDoubted ? (place.lastTerm ?? this.#session.term) : null;
    }
  }

  #look(): void {
    if (this.#closed) return;
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    this.#looking = true;
    void this.#lookOnce();
  }

  async #lookOnce(): Promise<void> {
    try {
      do {
        this.#lookAgain = false;
        this.#noteSpoilt();
        this.#sayAgain();
        await this.#session.renewIfSpoilt();
        await this.#session.endSilent();
        this.#noteMembers();
        if (this.isSessionValid()) this.#lookAtAll();
      } while (this.#lookAgain && !this.#closed);
    } catch (error) {
      this.#options.onProblem('ownership could not be looked at', error);
    } finally {
      this.#looking = false;
    }
  }

  /** Whoever begins now does not know whose they are. The session may have to wait for its answer. */
  #sayAgain(): void {
    for (const place of this.#places) {
      if (place.lastTerm === null || place.isSaidAgain || hasLapsed(place)) continue;
      if (place.stage !== 'held') continue;
      const lease = this.#table.lease(place.group, place.partition);
      if (lease?.value.epoch === place.epoch) void this.#moves.sayAgain(place, lease);
    }
  }

  #lookAtAll(): void {
    const now = performance.now();
    // Counted once: each of a thousand partitions would look through all of them.
    this.#claimsLeft = LIMITS.takeOversMax - this.#underWay('claiming');
    this.#preparationsLeft = LIMITS.takeOversMax - this.#underWay('preparing');
    for (const place of this.#places) if (place.retryAt <= now) this.#lookAt(place);
  }

  #lookAt(place: Place): void {
    const { node } = this.#options;
    const lease = this.#table.lease(place.group, place.partition);
    const [first, second] = this.#candidates.ranked(place);
    this.#noteLeftBehind(place);
    this.#noteHadElsewhere(place, lease);
    if (place.stage === 'held') this.#lookAtHeld(place, lease, first);
    else if (first === node && this.#state === 'live') this.#lookAtDue(place, lease);
    else {
      const isNext = second === node || this.#candidates.isToProve(place);
      const isLeft = second === node && this.#isLeft(lease);
      this.#lookAtOthers(place, lease, isNext && this.#state === 'live', isLeft);
    }
  }

  /** Otherwise nobody would hear of it, nor mend it, before a take-over has to read all that has come since. */
  #noteLeftBehind(place: Place): void {
    if (!place.warm || (place.stage !== 'free' && place.stage !== 'wanted')) return;
    if (this.#options.host.isLeftBehind?.(place.group, place.partition) !== true) return;
    place.warm = false;
    place.stage = 'free';
  }

  /** What fails after that, be it hours later, begins another row. Who had failed for long is not given a second one: once more will do. */
  #noteHadElsewhere(place: Place, lease: Seen<LeaseEntry> | undefined): void {
    if (place.failingSince === null || hasFailedForLong(place) || lease === undefined) return;
    if (!this.#isOurs(lease) && this.#table.isHeld(lease.value)) place.failingSince = null;
  }

  #lookAtHeld(place: Place, lease: Seen<LeaseEntry> | undefined, first: string | undefined): void {
    const isAnothers = lease === undefined || !this.#isOurs(lease) || lease.value.epoch !== place.epoch;
    if (isAnothers || hasLapsed(place)) {
      // Of a session that was ended the next renewal will say so.
      void this.#moves.lose(place);
      return;
    }
    const isDueElsewhere =
      first !== undefined && first !== this.#options.node && this.#isWantedBy(place, first);
    // What is dropped is said again first.
    if (isDueElsewhere && place.lastTerm === null) void this.#moves.handOver(place);
  }

  /** This node should have it. */
  #lookAtDue(place: Place, lease: Seen<LeaseEntry> | undefined): void {
    // Of one that was dropped this node may have said the return without hearing an answer, and another have claimed it since.
    const isReturned = lease !== undefined && this.#isOurs(lease) && lease.isSpoilt !== true;
    const isFree = lease === undefined || isReturned || !this.#mayBeHeld(lease);
    // Whoever holds it may never have heard of a want that was dropped from the bucket.
    if (place.stage === 'wanted' && this.#want(place)?.isSpoilt === true) place.stage = 'free';
    if (isFree && (place.stage === 'free' || place.stage === 'wanted')) {
      if (this.#isToPrepare(place, lease)) {
        if (this.#preparationsLeft-- > 0) void this.#moves.follow(place);
      } else if (this.#claimsLeft-- > 0) void this.#moves.claim(place, lease);
    } else if (!isFree && place.stage === 'free' && this.#membersSettled()) {
      if (this.#preparationsLeft-- > 0) void this.#moves.askFor(place);
    }
  }

  /** It has all of the log to read: another that has a copy may have it meanwhile. What could not be prepared is claimed: then it is given
   *  what it lacks, and the reason is told. */
  #isToPrepare(place: Place, lease: Seen<LeaseEntry> | undefined): boolean {
    const { group, partition, warm, told } = place;
    if (warm || told !== null || lease?.value.hasBegun !== true) return false;
    const isEmpty = this.#options.host.isEmpty?.(group, partition) ?? false;
    return isEmpty && this.#candidates.of(place).length > 1;
  }

  /** A holder says a lease that was dropped from the bucket again within its session: one that nobody says was released. Of what was
   *  written last before that nothing may have been heard, be it a claim of what was free. And a lease may be heard of before the
   *  session that it stands on is said again. */
  #mayBeHeld({ value, revision, isSpoilt = false, seenAt }: Seen<LeaseEntry>): boolean {
    const countedFrom = Math.max(seenAt, this.#session.healthySince, this.#table.missedNothingSince);
    const isRecent = performance.now() - countedFrom <= LIMITS.leaseMs;
    if (isSpoilt) return isRecent;
    if (value.node === null) return false;
    if (this.#table.isHeld(value)) return true;
    const node = this.#table.nodes.get(value.node);
    const isUnheard = node?.value.session !== value.session && (node?.revision ?? 0) < revision;
    return isUnheard && isRecent;
  }

  /** Whoever should have it has not come for so long that it may have far to go. */
  #isLeft(lease: Seen<LeaseEntry> | undefined): boolean {
    if (lease === undefined || this.#mayBeHeld(lease)) return false;
    const { seenAt, value } = lease;
    const endedAt = value.node === null ? 0 : (this.#table.nodes.get(value.node)?.seenAt ?? 0);
    const freeSince = Math.max(seenAt, endedAt, this.#session.healthySince);
    return performance.now() - freeSince > LIMITS.leaseLeftMs;
  }

  /** Another node should have it. `isLeft`: and this one may have it meanwhile. */
  #lookAtOthers(place: Place, lease: Seen<LeaseEntry> | undefined, isNext: boolean, isLeft: boolean): void {
    if (place.stage === 'wanted') place.stage = 'free';
    if (place.stage === 'free' && lease !== undefined && this.#isOurs(lease) && !hasLapsed(place)) {
      void this.#moves.returnLease(place);
    } else if (isNext && isLeft && place.stage === 'free' && place.warm) {
      if (this.#claimsLeft-- > 0) void this.#moves.claim(place, lease);
    } else {
      this.#keepWarm(place, isNext);
    }
  }

  /** The lease stands on this session. If the place is not held, its claim or its return had no answer. */
  #isOurs(lease: Seen<LeaseEntry>): boolean {
    return lease.value.session === this.#session.id;
  }

  #keepWarm(place: Place, wanted: boolean): void {
    if (place.stage !== 'free') return;
    if (!wanted && place.warm) {
      void this.#moves.letGo(place);
    } else if (wanted && !place.warm && this.#membersSettled()) {
      if (this.#preparationsLeft-- > 0) void this.#moves.follow(place);
    }
  }

  #underWay(stage: Stage): number {
    return this.#places.filter((place) => place.stage === stage).length;
  }

  #want({ group, partition }: Place): Seen<WantEntry> | undefined {
    return this.#table.wants.get(partitionKey(group, partition));
  }

  #isWantedBy(place: Place, node: string): boolean {
    const want = this.#want(place)?.value;
    return want?.node === node && want.session === this.#table.nodes.get(node)?.value.session;
  }

  #noteMembers(): void {
    const members = this.#candidates.all().toSorted().join(' ');
    if (members === this.#members) return;
    this.#members = members;
    this.#membersSince = performance.now();
  }

  /** Nodes that start together would otherwise pass partitions around. */
  #membersSettled(): boolean {
    return this.#state === 'live' && performance.now() - this.#membersSince > LIMITS.leaseRenewMs * 2;
  }
}
