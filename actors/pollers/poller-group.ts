// The pollers of one process: its partitions, and the lanes to the rails that they share. One interval drives them all.
//
// A partition's work starts and ends here: `start` when the process comes to own it, `release` to hand it over having
// finished what is in the air, `lose` to stop at once.

import { type Bus, type Message, type OnReply, UNAVAILABLE } from '../../src/bus/bus.ts';
import type { Feed } from '../../src/bus/feed.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { isPollerMessage } from '../../src/domain/poller-message.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Clock, Rail } from '../../src/rails/rail.ts';
import { PollerPartition } from './poller-partition.ts';
import type { Notice } from './notice.ts';
import { RailLane, type RailHealth } from './rail-lane.ts';
import { TIMINGS, type Random, type Timings } from './schedule.ts';

export interface PollerGroupOptions {
  readonly bus: Bus;
  readonly feed: Feed;
  readonly rails: readonly Rail[];
  readonly routes: Policy['routes'];
  readonly clock: Clock;
  /** Milliseconds since anything, none longer than another. */
  readonly monotonic: () => number;
  /** By which deadlines of messages are set, on the bus. */
  readonly deadlineClock: () => number;
  readonly random: Random;
  readonly timings?: Partial<Timings>;
  readonly onNotice: (notice: Notice) => void;
  /** A rail threw, which none may: a bug of ours. */
  readonly onFault: (error: unknown) => void;
  /** One came that only a newer version knows. */
  readonly onUnknownMessage: () => void;
}

/** How a partition is served. */
export interface Served {
  /** The time of the accounts partition, which says what has expired, where it is known; absent: as the clock says, and never
   *  behind what is heard of that partition. */
  readonly now?: () => number;
  /** False while another process may have the partition; absent: none may. */
  readonly holds?: () => boolean;
}

export class PollerGroup {
  readonly #options: PollerGroupOptions;
  readonly #timings: Timings;
  readonly #lanes: ReadonlyMap<string, RailLane>;
  readonly #partitions = new Map<number, PollerPartition>();
  /** Being released: still ticking, no longer reachable. */
  readonly #leaving = new Set<PollerPartition>();
  /** Callbacks that partitions which were let go of had not looked into, on their way to whoever has them now. */
  #handingOn = 0;
  #stopTicking: () => void = () => {};
  #tickMs = 0;
  #onTick: (() => void)[] = [];

  constructor(options: PollerGroupOptions) {
    this.#options = options;
    this.#timings = { ...TIMINGS, ...options.timings };
    const { rails, clock, random, onFault } = options;
    const now = () => clock.now();
    this.#lanes = new Map(rails.map((rail) => [rail.id, new RailLane({ rail, now, random, onFault })]));
    this.#tickEvery(LIMITS.pollerTickMs);
  }

  /** Serves a partition from now on; resolves when everything in flight in it is known. */
  start(partition: number, served: Served = {}): Promise<void> {
    const { bus, feed, routes, clock, monotonic, deadlineClock, random, onNotice } = this.#options;
    const poller = new PollerPartition({
      partition,
      bus,
      feed,
      lanes: this.#lanes,
      routes,
      now: served.now ?? (() => clock.now()),
      monotonic,
      deadlineClock,
      holds: served.holds ?? (() => true),
      random,
      timings: this.#timings,
      onNotice,
    });
    this.#partitions.set(partition, poller);
    return poller.start();
  }

  send(partition: number, message: Message, onReply: OnReply): void {
    const poller = this.#partitions.get(partition);
    const isKnown = isPollerMessage(message);
    if (!isKnown) this.#options.onUnknownMessage();
    if (poller === undefined || !isKnown) onReply(UNAVAILABLE);
    else poller.send(message, onReply);
  }

  /** Finishes telling the accounts what it knows, for LIMITS.pollerStopMs at most. */
  async release(partition: number): Promise<void> {
    const poller = this.#partitions.get(partition);
    if (poller === undefined) return;
    this.#partitions.delete(partition);
    this.#leaving.add(poller);
    await poller.stop();
    await this.#until(() => poller.isIdle);
    this.#leaving.delete(poller);
    this.#handOn(partition, poller);
  }

  async lose(partition: number): Promise<void> {
    const poller = this.#partitions.get(partition);
    this.#partitions.delete(partition);
    await poller?.stop();
    if (poller !== undefined) this.#handOn(partition, poller);
  }

  /** Whoever serves the partition next cannot know of them. Not waited for: it begins when this process has let go. */
  #handOn(partition: number, poller: PollerPartition): void {
    const { bus, deadlineClock, onNotice } = this.#options;
    const deadline = deadlineClock() + LIMITS.commandDeadlineMs;
    for (const { accountId, transactionId, isNoted } of poller.left()) {
      this.#handingOn++;
      const hint = { type: 'Hint', accountId, transactionId, deadline, handedOn: true } as const;
      bus.send('pollers', partition, hint, ({ type }) => {
        this.#handingOn--;
        if (type === 'done' || isNoted) return;
        const detail = 'nobody took it when its poller stopped';
        onNotice({ what: 'hint_lost', provider: null, transactionId, detail });
      });
    }
  }

  /** Starts no call any more, waits for those in the air and for their outcomes to be durable, then ends. */
  async stop(): Promise<void> {
    for (const lane of this.#lanes.values()) lane.stop();
    await this.#until(() => [...this.#lanes.values()].every(({ calling }) => calling === 0));
    await Promise.all([...this.#partitions.keys()].map((partition) => this.release(partition)));
    await this.#until(() => this.#handingOn === 0);
    this.#stopTicking();
  }

  railHealth(): RailHealth[] {
    return [...this.#lanes.values()].map((lane) => lane.health());
  }

  /** Every partition started here hears of what is created; before that a caller would wait for its answer. */
  get isFollowing(): boolean {
    for (const poller of this.#partitions.values()) if (!poller.isFollowing) return false;
    return true;
  }

  /** Transactions that are followed. */
  get size(): number {
    return this.#sumOf(({ size }) => size);
  }

  /** Those that have not ended. */
  get inFlight(): number {
    return this.#sumOf(({ inFlight }) => inFlight);
  }

  #sumOf(count: (poller: PollerPartition) => number): number {
    let sum = 0;
    for (const poller of this.#partitions.values()) sum += count(poller);
    return sum;
  }

  #tick(): void {
    for (const lane of this.#lanes.values()) lane.pump();
    for (const poller of this.#partitions.values()) poller.tick();
    for (const poller of this.#leaving) poller.tick();
    const listeners = this.#onTick;
    this.#onTick = [];
    for (const listener of listeners) listener();
    // Being woken is most of what an idle process costs. What has ended is looked at now and then.
    const isIdle = this.inFlight === 0 && this.#leaving.size === 0;
    this.#tickEvery(isIdle ? LIMITS.pollerIdleTickMs : LIMITS.pollerTickMs);
  }

  #tickEvery(tickMs: number): void {
    if (tickMs === this.#tickMs) return;
    this.#stopTicking();
    this.#tickMs = tickMs;
    this.#stopTicking = this.#options.clock.every(tickMs, () => this.#tick());
  }

  async #until(isSo: () => boolean): Promise<void> {
    const { clock } = this.#options;
    const deadline = clock.now() + LIMITS.pollerStopMs;
    while (!isSo() && clock.now() < deadline) {
      await new Promise<void>((resolve) => this.#onTick.push(resolve));
    }
  }
}
