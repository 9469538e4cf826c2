// One partition of accounts in a process of its own, as in a cluster: pollers ask it over a bus and read its feed, each of
// which takes its time, and it dies alone. What is not durable then is gone, and another record takes its place.

import { strict as assert } from 'node:assert';
import { accountsGroup } from '../../actors/accounts/group.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Bus, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, Subscription } from '../../src/bus/feed.ts';
import type { AccountCommand, AccountQuery } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import { evolve } from '../../src/domain/evolve.ts';
import { MemoryState } from '../../src/domain/memory-state.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import type { DrivenClock } from '../unit/pollers-driven.ts';

type Handler = (batch: FeedBatch<AccountRecord>) => unknown;

interface Subscriber {
  cursor: number;
  readonly handler: Handler;
}

/** How long a record may take to pollers when it is durable. */
export const FEED_MS_MAX = 2_000;

const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

/** Things that arrive in the order they were sent, each after a time of its own. */
class Line {
  readonly #clock: DrivenClock;
  readonly #delayMs: () => number;
  #waiting: { readonly at: number; readonly arrive: () => void }[] = [];

  constructor(clock: DrivenClock, delayMs: () => number) {
    this.#clock = clock;
    this.#delayMs = delayMs;
  }

  send(arrive: () => void): void {
    const last = this.#waiting.at(-1)?.at ?? 0;
    this.#waiting.push({ at: Math.max(last, this.#clock.now() + this.#delayMs()), arrive });
  }

  deliver(): void {
    while (this.#waiting.length > 0 && this.#waiting[0]!.at <= this.#clock.now()) {
      this.#waiting.shift()!.arrive();
    }
  }

  /** Whoever sent or heard them is dead: what was on its way. */
  cut(): readonly (() => void)[] {
    const cut = this.#waiting.map(({ arrive }) => arrive);
    this.#waiting = [];
    return cut;
  }
}

/** Once. */
export function after(clock: DrivenClock, ms: number, run: () => void): void {
  const stop = clock.every(ms, () => {
    stop();
    run();
  });
}

/** How one process of pollers speaks with the accounts. */
export class Link implements Bus, Feed {
  readonly #clock: DrivenClock;
  readonly #accounts: ApartAccounts;
  /** What it sends arrives nowhere, and it hears nothing: once it has been, its feed lacks something. */
  isCut = false;
  /** Another process may have its partition. */
  mayBeLost = false;

  constructor(clock: DrivenClock, accounts: ApartAccounts) {
    this.#clock = clock;
    this.#accounts = accounts;
  }

  partitions(): number {
    return 1;
  }

  send(group: string, partition: number, message: Message, onReply: OnReply): void {
    if (!this.isCut) return this.#accounts.send(group, partition, message, onReply);
    after(this.#clock, LIMITS.pollerCommandDeadlineMs, () => onReply({ type: 'unknown' }));
  }

  subscribe<Record>(
    group: string,
    partition: number,
    after: number,
    handler: (batch: FeedBatch<Record>) => void | Promise<void>,
  ): Subscription {
    return this.#accounts.subscribe<Record>(group, partition, after, (batch) =>
      this.isCut ? undefined : handler(batch),
    );
  }
}

export class ApartAccounts implements Bus, Feed {
  /** Of all that is durable. */
  readonly state = new MemoryState();
  lost = 0;
  /** When pollers asked last whether a withdrawal may be submitted, by its id. */
  readonly askedAt = new Map<string, number>();
  /** The disk: nothing becomes durable. */
  isHung = false;
  readonly #clock: DrivenClock;
  readonly #random: () => number;
  readonly #policy: Policy;
  readonly #aheadMsMax: number;
  readonly #toPollers: (message: Message, onReply: OnReply) => void;
  readonly #lines: string[] = [];
  #durable = 0;
  #partition: Partition<AccountCommand, AccountQuery, AccountRecord> | null = null;
  #requests: Line;
  #replies: Line;
  #feed: Line;
  readonly #subscribers = new Set<Subscriber>();

  constructor(
    clock: DrivenClock,
    random: () => number,
    policy: Policy,
    aheadMsMax: number,
    toPollers: (message: Message, onReply: OnReply) => void,
  ) {
    this.#toPollers = toPollers;
    this.#clock = clock;
    this.#random = random;
    this.#policy = policy;
    this.#aheadMsMax = aheadMsMax;
    const soon = (): number => Math.floor(random() * 40);
    this.#requests = new Line(clock, soon);
    this.#replies = new Line(clock, soon);
    this.#feed = new Line(clock, () => (random() < 0.05 ? Math.floor(random() * FEED_MS_MAX) : soon()));
    this.open();
  }

  get isUp(): boolean {
    return this.#partition !== null;
  }

  open(): void {
    assert.equal(this.#partition, null);
    const group = accountsGroup(this.#policy);
    const logic = group.open(0, NO_VIEWS, { sequence: 0, writesRows: false });
    let lastRecordAt = 0;
    for (const [n, line] of this.#lines.entries()) {
      const record = decodeRecord(line);
      logic.evolve(record, n + 1);
      lastRecordAt = record.at;
    }
    const { length: first } = this.#lines;
    const log = {
      appended: first,
      durable: first,
      append: (line: string): number => {
        this.#lines.push(line);
        return ++log.appended;
      },
    };
    this.#log = log;
    // Each process takes its clock at its word when it begins.
    const aheadMs = Math.floor((2 * this.#random() - 1) * this.#aheadMsMax);
    this.#partition = new Partition({
      group,
      logic,
      log,
      clock: () => this.#clock.now() + aheadMs,
      deadlineClock: () => this.#clock.now(),
      lastRecordAt,
      observer: { decided: () => {} },
      writeFormat: () => RECORD_FORMATS.newest,
      isPaused: () => false,
      publish: (_, records) => this.#publish(records),
    });
  }
  #log!: { appended: number; durable: number };

  #publish(records: readonly AccountRecord[]): void {
    for (const record of records) evolve(this.state, structuredClone(record), ++this.#durable);
    this.#feed.send(() => this.#deliver());
  }

  /** Some of what was appended becomes durable, what falls due happens, and what is on its way arrives. */
  tick(): void {
    const { appended, durable } = this.#log;
    if (this.#partition !== null && appended > durable && !this.isHung && this.#random() < 0.4) {
      const count = this.#random() < 0.5 ? appended - durable : 1;
      this.#log.durable += count;
      this.#partition.committed(durable + 1, count);
      this.#partition.answer();
    }
    this.#partition?.tick();
    const untold = this.#untold;
    this.#untold = [];
    for (const tell of untold) tell();
    for (const one of this.#straggling) {
      if (one.at > this.#clock.now()) continue;
      this.#straggling.delete(one);
      one.arrive();
    }
    for (const line of [this.#requests, this.#replies, this.#feed]) line.deliver();
  }

  /** Nobody hears of what it had not said yet; what it had said arrives. */
  crash(): void {
    const partition = this.#partition;
    this.#partition = null;
    partition?.abandon();
    this.lost += this.#log.appended - this.#log.durable;
    this.#lines.length = this.#durable;
  }

  partitions(): number {
    return 1;
  }

  /** To the next pollers: until somebody takes it. */
  #handOn(message: Message, onReply: OnReply): void {
    const until = this.#clock.now() + LIMITS.commandDeadlineMs;
    const attempt = (): void => {
      this.#toPollers(message, (reply) => {
        if (reply.type !== 'unavailable' || this.#clock.now() > until) onReply(reply);
        else this.#untold.push(attempt);
      });
    };
    attempt();
  }

  send(group: string, _partition: number, message: Message, onReply: OnReply): void {
    if (group === 'pollers') return this.#handOn(message, onReply);
    const { type, transactionId } = message as AccountCommand & { readonly transactionId: string };
    if (type === 'BeginSubmission') this.askedAt.set(transactionId, this.#clock.now());
    const life = this.#pollersLife;
    const reply = (said: Reply): void => {
      this.#replies.send(() => {
        if (life === this.#pollersLife) onReply(said);
      });
    };
    this.#requests.send(() => {
      if (this.#partition === null) return reply({ type: 'unavailable' });
      this.#partition.send(structuredClone(message) as AccountCommand, reply);
    });
  }

  subscribe<Record>(
    _group: string,
    _partition: number,
    after: number,
    handler: (batch: FeedBatch<Record>) => void | Promise<void>,
  ): Subscription {
    const subscriber = { cursor: after, handler: handler as Handler };
    this.#subscribers.add(subscriber);
    this.#feed.send(() => this.#deliver());
    return {
      close: () => {
        this.#subscribers.delete(subscriber);
        return Promise.resolve();
      },
    };
  }

  #deliver(): void {
    for (const subscriber of this.#subscribers) {
      const records = this.#lines.slice(subscriber.cursor, this.#durable).map(decodeRecord);
      if (records.length === 0) continue;
      const firstSequence = subscriber.cursor + 1;
      subscriber.cursor += records.length;
      subscriber.handler({ firstSequence, records });
    }
  }

  /** The process of the pollers is dead: it asks nothing more, and hears nothing. What it had sent may arrive as late as it may
   *  be decided, behind what the next one sends. */
  forgetPollers(): void {
    this.#subscribers.clear();
    this.#replies.cut();
    this.#pollersLife++;
    for (const arrive of this.#requests.cut()) {
      if (this.#random() < 0.3) continue;
      const at = this.#clock.now() + Math.floor(this.#random() * LIMITS.pollerCommandDeadlineMs);
      this.#straggling.add({ at, arrive });
    }
  }
  #pollersLife = 0;
  readonly #straggling = new Set<{ readonly at: number; readonly arrive: () => void }>();

  /** As a front does: until it is decided. */
  tell(command: AccountCommand, onDecided: (reply: Reply) => void = () => {}): void {
    const again = (): void => void this.#untold.push(() => this.tell(command, onDecided));
    if (this.#partition === null) return again();
    const deadline = this.#clock.now() + LIMITS.commandDeadlineMs;
    this.#partition.send({ ...command, deadline }, (reply) => {
      if (reply.type === 'done' || reply.type === 'rejected') onDecided(reply);
      else again();
    });
  }
  #untold: (() => void)[] = [];
}
