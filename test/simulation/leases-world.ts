// Leases in a world with a clock of its own: nodes whose clocks run at different rates, that stand still, lose their link,
// die, leave and come back, around a bucket that answers late or never. The ownership is the real one.

import type { GroupName } from '../../src/bus/bus.ts';
import { EpochPassed, NotSoon, type PartitionHost } from '../../src/bus/ownership.ts';
import { LIMITS } from '../../src/limits.ts';
import { LeaseOwnership } from '../../src/nats/leases/lease-ownership.ts';
import type { Leases } from '../../src/nats/leases/lease-ownership.ts';
import type {
  LeaseEntry,
  NodeEntry,
  Seen,
  WantEntry,
  WriteCondition,
} from '../../src/nats/leases/lease-table.ts';
import { unprovenElsewhere } from '../../src/wiring/node-status.ts';

export const PARTITIONS = 4;
/** Two clocks a fourteenth apart: less than the margin is of a lease. */
const RATES = [0.965, 1, 1.035];

type Entry = NodeEntry | LeaseEntry | WantEntry;

interface Happening {
  readonly at: number;
  readonly number: number;
  /** Whose doing; null: nature's. */
  readonly node: Node | null;
  readonly run: () => void;
}

export class World {
  /** Milliseconds of true time, which nobody reads. */
  now = 0;
  readonly random: () => number;
  readonly nodes: Node[] = [];
  /** What must never be. */
  readonly wrong: string[] = [];
  /** From now on no message is slow by chance, no answer lost, and every log can be opened. */
  isCalm = false;
  /** Leases and wants that were written, not renewals of sessions. */
  moves = 0;
  /** That each partition's log was last opened under. */
  readonly epochs = new Map<number, number>();
  readonly #epochs = new Set<string>();
  readonly #bucket = new Map<string, { readonly value: Entry; readonly revision: number }>();
  #revision = 0;
  #ahead: Happening[] = [];
  #number = 0;

  constructor(random: () => number) {
    this.random = random;
  }

  /** Between the bounds, mostly near the lower one. */
  between(low: number, high: number): number {
    return low + (high - low) * this.random() ** 3;
  }

  /** Most messages are quick, but for those of a link that is about to break. */
  delay({ isSlowUntil }: Node): number {
    if (isSlowUntil > this.now) return 200 + this.random() * 700;
    const isSlow = this.random() < 0.03 && !this.isCalm;
    return isSlow ? this.between(50, 1_500) : this.between(1, 30);
  }

  at(at: number, node: Node | null, run: () => void): void {
    this.#put({ at, number: this.#number++, node, run });
  }

  #put(happening: Happening): void {
    let place = this.#ahead.length;
    const isAfter = ({ at, number }: Happening): boolean =>
      at > happening.at || (at === happening.at && number > happening.number);
    while (place > 0 && isAfter(this.#ahead[place - 1]!)) place--;
    this.#ahead.splice(place, 0, happening);
  }

  join(name: string): Node {
    const rate = RATES[this.nodes.length % RATES.length]!;
    const node = new Node(this, name, rate, this.#bucket);
    this.nodes.push(node);
    this.at(this.now, node, () => void node.ownership.start());
    return node;
  }

  /** Lets everything happen up to a time. */
  async until(end: number): Promise<void> {
    for (let next = this.#ahead.shift(); next !== undefined; next = this.#ahead.shift()) {
      if (next.at > end) {
        this.#put(next);
        break;
      }
      await this.#happen(next);
    }
    this.now = end;
  }

  async #happen(next: Happening): Promise<void> {
    const { node } = next;
    this.now = next.at;
    if (node?.isGone === true) return;
    if (node !== null && node.standsStillUntil > this.now) {
      return this.#put({ ...next, at: node.standsStillUntil });
    }
    current = node;
    next.run();
    await new Promise((resolve) => setImmediate(resolve));
    current = null;
    this.#look();
  }

  /** Who says now that it holds a partition. */
  holders(partition: number): string[] {
    return this.nodes
      .filter((node) => !node.isGone && node.standsStillUntil <= this.now)
      .filter((node) => this.as(node, () => node.ownership.holds('accounts', partition)))
      .map(({ name }) => name);
  }

  as<Result>(node: Node, look: () => Result): Result {
    const before = current;
    current = node;
    try {
      return look();
    } finally {
      current = before;
    }
  }

  #look(): void {
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const holders = this.holders(partition);
      if (holders.length > 1) this.wrong.push(`${this.now}: ${holders.join(' and ')} hold ${partition}`);
    }
  }

  acquired(partition: number, epoch: number): void {
    const given = `${partition} under ${epoch}`;
    if (this.#epochs.has(given)) this.wrong.push(`${given} is given a second time`);
    this.#epochs.add(given);
    for (const node of this.nodes) {
      const serves = !node.isGone && node.serving.has(partition);
      if (serves && this.as(node, () => node.ownership.holds('accounts', partition))) {
        this.wrong.push(`${given} is given while ${node.name} serves it`);
      }
    }
  }

  /** The bucket is purged: no message tells of it, and what a node has not heard yet it never hears. */
  purge(): void {
    this.#bucket.clear();
    for (const node of this.nodes) node.forgetUnheard(this.#revision);
  }

  #noteFreed(key: string, value: Entry, before: Entry | undefined): void {
    if (!key.startsWith('lease.') || (value as LeaseEntry).node !== null) return;
    if (before !== undefined && this.isCalm) this.#noteUnsaid(key, before as LeaseEntry);
    for (const name of this.holders(Number(key.slice(key.lastIndexOf('.') + 1)))) {
      // It stands as another's, who may give it away: the holder has lost it, and is about to hear of that.
      if (before !== undefined && (before as LeaseEntry).node !== name) continue;
      this.wrong.push(`${this.now}: ${key} is free, and ${name} holds it`);
    }
  }

  /** Whoever gives back what it cannot have has said so: others would wait for it to take that again. */
  #noteUnsaid(key: string, { node: name }: LeaseEntry): void {
    const node = this.nodes.findLast((each) => each.name === name && !each.isGone);
    const place = key.slice('lease.'.length);
    const partition = Number(place.slice(place.lastIndexOf('.') + 1));
    const said = this.#bucket.get(`node.${name}`)?.value as NodeEntry | undefined;
    const isDamaged = node?.damaged.has(partition) === true && said?.damaged?.includes(place) !== true;
    const isUnproven =
      node?.isUnproven('accounts', partition) === true && said?.unproven?.includes(place) !== true;
    if (isDamaged || isUnproven) this.wrong.push(`${this.now}: ${key} is free, and ${name} does not say why`);
  }

  /** The bucket's answer; false: another revision stands there, or it has been written beyond `last`. */
  put(key: string, value: Entry, revision: number, last = this.#revision): number | false {
    const before = this.#bucket.get(key);
    if ((before?.revision ?? 0) !== revision || last !== this.#revision) return false;
    this.#bucket.set(key, { value, revision: ++this.#revision });
    this.#noteFreed(key, value, before?.value);
    if (!key.startsWith('node.')) this.moves++;
    for (const node of this.nodes) node.tell(key, value, this.#revision);
    return this.#revision;
  }
}

export class Node implements PartitionHost, Leases {
  readonly name: string;
  readonly rate: number;
  readonly ownership: LeaseOwnership;
  readonly nodes = new Map<string, Seen<NodeEntry>>();
  readonly leases = new Map<string, Seen<LeaseEntry>>();
  readonly wants = new Map<string, Seen<WantEntry>>();
  isGone = false;
  standsStillUntil = 0;
  isSlowUntil = 0;
  isCutUntil = 0;
  /** What it writes is taken, and it hears of nothing. */
  isDeafUntil = 0;
  /** What it writes of leases is lost. */
  losesLeasesUntil = 0;
  readonly problems: string[] = [];
  /** What it prepares is not there before. */
  preparesUntil = 0;
  readonly serving = new Set<number>();
  /** Served before its lease said that it has begun. */
  readonly servedUnsaid: number[] = [];
  readonly prepared = new Set<number>();
  /** Whose copies are kept up. */
  readonly followed = new Set<number>();
  /** Acquired, and not yet released or lost. */
  readonly #open = new Set<number>();
  /** What it acquired, and when by its own clock. */
  readonly acquisitions: { readonly partition: number; readonly epoch: number; readonly at: number }[] = [];
  /** What it acquires is not open before. */
  acquiresUntil = 0;
  /** What it releases is not let go before. */
  releasesUntil = 0;
  /** Its log cannot be opened. */
  isBroken = false;
  /** What says so. */
  brokenBy: new (what: string) => Error = Error;
  /** Nothing proves its logs. */
  provesNothing = false;
  /** Who says that it cannot prove its log. */
  readonly #unproven = new Map<number, 'itself' | 'another'>();
  readonly damaged = new Set<number>();
  /** Acquired without having been prepared. */
  readonly unprepared: number[] = [];
  readonly #world: World;
  readonly #begunAt: number;
  readonly #listeners: (() => void)[] = [];
  #inbox: { readonly revision: number; readonly apply: () => void }[] = [];
  #heardAt = 0;
  heardUpTo = 0;
  missedNothingSince = 0;
  /** Of the bucket. */
  #purgedUpTo = 0;
  #whenRead: { readonly last: number; readonly purgedUpTo: number }[] = [];
  /** Partitions that the host is at work on. */
  readonly #busy = new Set<number>();

  constructor(
    world: World,
    name: string,
    rate: number,
    bucket: ReadonlyMap<string, { readonly value: Entry; readonly revision: number }>,
  ) {
    this.#world = world;
    this.#begunAt = world.now;
    this.name = name;
    this.rate = rate;
    for (const [key, { value, revision }] of bucket) {
      world.as(this, () => this.#apply(key, value, revision));
      this.heardUpTo = Math.max(this.heardUpTo, revision);
    }
    this.ownership = new LeaseOwnership({
      table: this,
      host: this,
      node: name,
      newestFormat: 1,
      isDamaged: (_, partition) => this.damaged.has(partition),
      partitions: { accounts: PARTITIONS },
      onProblem: (problem) => this.problems.push(problem),
    });
  }

  get openCount(): number {
    return this.#open.size;
  }

  /** Of a session or a lease that was purged, and is said again. */
  get hasYetToHear(): boolean {
    return [...this.nodes.values(), ...this.leases.values()].some(({ isSpoilt }) => isSpoilt === true);
  }

  after(ms: number, run: () => void): void {
    this.#world.at(this.#world.now + ms / this.rate, this, run);
  }

  clock(): number {
    return (this.#world.now - this.#begunAt) * this.rate;
  }

  // Its table

  lease(group: GroupName, partition: number): Seen<LeaseEntry> | undefined {
    return this.leases.get(`${group}.${partition}`);
  }

  isHeld(lease: LeaseEntry): boolean {
    const node = this.nodes.get(lease.node ?? '')?.value;
    return node !== undefined && node.session === lease.session && node.state !== 'dead';
  }

  onAnyChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  write(
    key: string,
    value: Entry,
    revision: number,
    { ifAllHeard = false }: WriteCondition = {},
  ): Promise<boolean | null> {
    const world = this.#world;
    const last = ifAllHeard ? this.heardUpTo : undefined;
    return new Promise((resolve) => {
      this.after(LIMITS.streamAckMs, () => resolve(null));
      const isLost = key.startsWith('lease.') && this.losesLeasesUntil > world.now;
      if (this.isCutUntil > world.now || isLost) return;
      world.at(world.now + world.delay(this), null, () => {
        const stored = world.put(key, value, revision, last);
        if (this.isCutUntil > world.now || (world.random() < 0.02 && !world.isCalm)) return;
        world.at(world.now + world.delay(this), this, () => {
          if (stored === false) this.#noteDropped();
          else this.#apply(key, value, stored);
          resolve(stored !== false);
        });
      });
    });
  }

  /** What the bucket tells comes in its order, when there is a link. */
  tell(key: string, value: Entry, revision: number): void {
    this.#heardAt = Math.max(this.#heardAt, this.#world.now + this.#world.delay(this));
    this.#inbox.push({ revision, apply: () => this.#apply(key, value, revision) });
    this.#world.at(this.#heardAt, this, () => this.#hear());
  }

  /** What is under way to it comes, or does not. */
  forgetUnheard(revision: number): void {
    this.#purgedUpTo = revision;
    const isHeard = this.#world.random() < 0.5;
    this.#inbox = this.#inbox.filter((each) => isHeard || each.revision > revision);
  }

  /** As the table does: what was written since is read first. */
  #noteDropped(): void {
    const world = this.#world;
    world.at(world.now + world.delay(this), this, () => {
      if (this.isCutUntil > world.now) return;
      const last = this.#inbox.at(-1)?.revision ?? 0;
      this.#whenRead.push({ last, purgedUpTo: this.#purgedUpTo });
      this.#markDropped();
    });
  }

  #markDropped(): void {
    const first = this.#inbox[0]?.revision ?? Infinity;
    const isAny = this.#whenRead.some(({ last }) => last < first);
    if (!isAny) return;
    const purgedUpTo = Math.max(
      ...this.#whenRead.filter(({ last }) => last < first).map((each) => each.purgedUpTo),
    );
    this.#whenRead = this.#whenRead.filter(({ last }) => last >= first);
    for (const map of [this.nodes, this.leases, this.wants] as Map<string, Seen<Entry>>[]) {
      for (const [name, seen] of map) {
        if (seen.revision === 0 || seen.revision > purgedUpTo) continue;
        const dropped = { revision: 0, seenAt: this.clock(), isSpoilt: true, droppedUpTo: purgedUpTo };
        map.set(name, { ...seen, ...dropped });
      }
    }
    for (const listener of this.#listeners) listener();
  }

  #hear(): void {
    const until = Math.max(this.isCutUntil, this.isDeafUntil);
    if (until > this.#world.now) this.#world.at(until, this, () => this.#hear());
    else {
      const next = this.#inbox.shift();
      if (next !== undefined && next.revision !== this.heardUpTo + 1) this.missedNothingSince = this.clock();
      this.heardUpTo = next?.revision ?? this.heardUpTo;
      next?.apply();
      this.#markDropped();
    }
  }

  #apply(key: string, value: Entry, revision: number): void {
    const [kind = '', ...name] = key.split('.');
    const map = { node: this.nodes, lease: this.leases, want: this.wants }[kind] as Map<string, Seen<Entry>>;
    const known = map.get(name.join('.'));
    if (Math.max(known?.revision ?? 0, known?.droppedUpTo ?? 0) >= revision) return;
    map.set(name.join('.'), { value, revision, seenAt: this.clock() });
    for (const listener of this.#listeners) listener();
  }

  // Its host: takes its time

  async prepare(_group: GroupName, partition: number): Promise<void> {
    this.followed.add(partition);
    await this.#alone(partition, 300);
    await this.#waitUntil(this.preparesUntil);
    this.#prove(partition);
    this.prepared.add(partition);
  }

  isUnproven(_group: GroupName, partition: number): boolean {
    return this.#unproven.has(partition);
  }

  isDoubtedElsewhere(_group: GroupName, partition: number): boolean {
    return this.#unproven.get(partition) === 'another';
  }

  /** Nobody has written what is to be begun: there it counts what others say. */
  #prove(partition: number): void {
    const isBegun = this.#world.epochs.has(partition);
    const other = isBegun ? null : unprovenElsewhere(this, this.name, 'accounts', partition);
    if (!this.provesNothing && other === null) return void this.#unproven.delete(partition);
    this.followed.delete(partition);
    this.#unproven.set(partition, this.provesNothing ? 'itself' : 'another');
    throw new NotSoon('nothing proves the log');
  }

  forget(_group: GroupName, partition: number): Promise<void> {
    this.followed.delete(partition);
    return this.#alone(partition, 3_000);
  }

  async acquire(_group: GroupName, partition: number, epoch: number): Promise<void> {
    this.#world.acquired(partition, epoch);
    this.acquisitions.push({ partition, epoch, at: this.clock() });
    if (!this.prepared.has(partition)) this.unprepared.push(partition);
    if (this.#open.has(partition)) {
      this.#world.wrong.push(`${this.name} acquires ${partition} and has it open`);
    }
    this.#open.add(partition);
    await this.#alone(partition, 400, this.acquiresUntil);
    this.followed.delete(partition);
    this.#prove(partition);
    const passed = this.#world.epochs.get(partition) ?? 0;
    if (epoch <= passed) throw new EpochPassed("the epoch is not above the log's", passed);
    this.#world.epochs.set(partition, epoch);
    const failsByChance = this.#world.random() < 0.05 && !this.#world.isCalm;
    if (this.isBroken) throw new this.brokenBy('the log could not be opened');
    if (failsByChance) throw new Error('the log could not be opened');
  }

  serve(group: GroupName, partition: number): void {
    const lease = this.lease(group, partition)?.value;
    if (lease?.hasBegun !== true) this.servedUnsaid.push(partition);
    const isOurs = lease?.session === this.nodes.get(this.name)?.value.session;
    if (!isOurs && this.ownership.holds(group, partition)) {
      this.#world.wrong.push(`${this.name} serves ${partition} under a lease of ${lease?.node}`);
    }
    if (this.#busy.has(partition)) this.#world.wrong.push(`${this.name} serves ${partition} at work`);
    this.serving.add(partition);
  }

  async release(_group: GroupName, partition: number): Promise<void> {
    await this.#alone(partition, 200, this.releasesUntil);
    this.serving.delete(partition);
    this.#open.delete(partition);
  }

  lose(_group: GroupName, partition: number): Promise<void> {
    this.serving.delete(partition);
    this.#open.delete(partition);
    return this.#alone(partition, 20);
  }

  async #waitUntil(at: number): Promise<void> {
    const world = this.#world;
    if (world.now < at) await new Promise<void>((resolve) => world.at(at, this, resolve));
  }

  async #alone(partition: number, longestMs: number, until = 0): Promise<void> {
    if (this.#busy.has(partition)) this.#world.wrong.push(`${this.name} is told two things of ${partition}`);
    this.#busy.add(partition);
    await this.#work(longestMs);
    await this.#waitUntil(until);
    this.#busy.delete(partition);
  }

  #work(longestMs: number): Promise<void> {
    const world = this.#world;
    return new Promise((resolve) => world.at(world.now + world.between(1, longestMs), this, () => resolve()));
  }
}

/** Who acts now: clock and timers are its own. Null: whoever runs the test. */
let current: Node | null = null;

class Timer {
  isStopped = false;
}

const realNow = performance.now.bind(performance);
performance.now = () => current?.clock() ?? realNow();
const realTime = Date.now.bind(Date);
Date.now = () => current?.clock() ?? realTime();

const real = { setTimeout, setInterval, clearInterval };
Object.assign(globalThis, {
  setTimeout: (run: () => void, ms: number) => {
    return current === null ? real.setTimeout(run, ms) : current.after(ms, run);
  },
  setInterval: (run: () => void, everyMs: number) => {
    const node = current;
    if (node === null) return real.setInterval(run, everyMs);
    const timer = new Timer();
    const fire = (): void => {
      if (timer.isStopped) return;
      node.after(everyMs, fire);
      run();
    };
    node.after(everyMs, fire);
    return timer;
  },
  clearInterval: (timer: Timer | NodeJS.Timeout) => {
    if (timer instanceof Timer) timer.isStopped = true;
    else real.clearInterval(timer);
  },
});
