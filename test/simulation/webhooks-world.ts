// The way from the accounts' log to the merchants' endpoints as the service has it (both partitions with their logs, views and
// checkpoints, the feed, the feed reader, dispatcher and executor) on a clock, timers and a disk that are driven from outside.
// Only what sends is not the service's own (webhooks-endpoints.ts). Every decision is compared with the model where it is made.

import { strict as assert } from 'node:assert';
import { accountsGroup } from '../../actors/accounts/group.ts';
import { LocalFeed } from '../../actors/runtime/local-feed.ts';
import type { PartitionLogic } from '../../actors/runtime/group.ts';
import type { WebhookPolicy } from '../../actors/webhooks/decide.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { WebhooksLogic } from '../../actors/webhooks/group.ts';
import type { WebhookCommand, WebhookQuery } from '../../actors/webhooks/message.ts';
import { noMetrics } from '../no-metrics.ts';
import { GIVEN_UP, type WebhookRecord } from '../../actors/webhooks/record.ts';
import type { Sender } from '../../actors/webhooks/sender.ts';
import type { Bus, GroupName, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import type { AccountCommand, AccountQuery } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { LIMITS } from '../../src/limits.ts';
import { Disk, DrivenPartition } from './driven-partition.ts';
import { DrivenTimers } from './driven-timers.ts';
import { Endpoints } from './webhooks-endpoints.ts';
import { apply, check, emptyModel, type Model, type ModelDelivery, Truth, viewOf } from './webhooks-model.ts';

const MINUTE = 60_000;
/** What is queued is looked at so often: pauses between retries are no longer. */
const LOOK_MS = 3_000;
/** How late an attempt may be recorded: what was decided of it is tried again within that time. */
const RECORD_MS = MINUTE;
/** How late a message may be: later than its deadline. */
const LATE_MS = 20_000;
/** Turns of the event loop without anything happening. */
const QUIET_TURNS = 3;

type Accounts = DrivenPartition<
  AccountCommand,
  AccountQuery,
  AccountRecord,
  PartitionLogic<AccountCommand, AccountQuery, AccountRecord>
>;
type Webhooks = DrivenPartition<WebhookCommand, WebhookQuery, WebhookRecord, WebhooksLogic>;
type Fault = 'none' | 'refused' | 'answer lost' | 'late';

export interface WorldOptions {
  readonly directory: string;
  readonly now: number;
  readonly accounts: Policy;
  readonly webhooks: WebhookPolicy;
  readonly queuedMax: number;
  readonly random: () => number;
}

export class World {
  /** The clock. It may be set back while the process is down. */
  now: number;
  readonly truth = new Truth();
  /** Of all that was appended to the log of webhooks, and of what is durable of it. */
  model: Model = emptyModel();
  #durable: Model = emptyModel();
  readonly accounts: Accounts;
  readonly webhooks: Webhooks;
  readonly endpoints: Endpoints;
  executor!: WebhookExecutor;
  isPaused = { accounts: false, webhooks: false };
  /** Signing secrets cannot be opened: the master key is another. */
  isKeyWrong = false;
  mayLoseKey = false;
  /** False: another process may have the webhooks partition. */
  isHeld = true;
  /** What becomes of a message on its way between the groups. */
  fault: () => Fault = () => 'none';
  readonly seen = { lost: 0, removed: 0, givenUp: 0, cancelled: 0, deadLettered: 0, unreadable: 0, moves: 0 };
  readonly #options: WorldOptions;
  readonly #timers = new DrivenTimers(() => this.now);
  #feed!: LocalFeed;
  #disk!: Disk;
  /** Goes up with whatever happens. */
  #happened = 0;
  #startedAt = 0;
  /** Sequence of the accounts' log when the webhooks were hosted last: nothing goes where an app pointed before that. */
  #hostedAt = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.now = options.now;
    const now = (): number => this.now;
    this.accounts = new DrivenPartition({
      group: accountsGroup(options.accounts),
      now,
      isPaused: () => this.isPaused.accounts,
      onAppended: () => {},
      onDurable: (records) => {
        for (const record of records) this.truth.apply(record);
      },
      publish: (firstSequence, records) => this.#feed.publish('accounts', 0, { firstSequence, records }),
    });
    this.webhooks = new DrivenPartition({
      group: createWebhooksGroup(options.webhooks),
      now,
      isPaused: () => this.isPaused.webhooks,
      onAppended: (record) => {
        apply(this.model, record);
        this.#count(record);
      },
      onDurable: (records) => {
        for (const record of records) apply(this.#durable, record);
      },
      publish: () => {},
    });
    this.endpoints = new Endpoints({
      truth: this.truth,
      model: () => this.model,
      now,
      partitionNow: () => this.webhooks.partition.now(),
      isHeld: () => this.isHeld,
      hostedAt: () => this.#hostedAt,
      random: options.random,
    });
  }

  /** Returns how the machine's own timers come back. */
  install(): () => void {
    return this.#timers.install();
  }

  async open(): Promise<void> {
    this.#disk = new Disk(this.#options.directory, () => this.now);
    this.#feed = new LocalFeed((_group, _partition, after) => this.accounts.read(after));
    await this.accounts.open(this.#disk, () => {});
    await this.webhooks.open(this.#disk, (logic) => this.#watch(logic));
    const { random, queuedMax } = this.#options;
    this.endpoints.sent = [];
    this.executor = new WebhookExecutor({
      bus: this.#bus(),
      feed: this.#feed,
      sender: { send: this.endpoints.send.bind(this.endpoints), close: () => {} } as unknown as Sender,
      openSecret: (sealed) => {
        if (!this.isKeyWrong) return sealed;
        this.seen.unreadable++;
        throw new Error('sealed with another key');
      },
      clock: () => this.now,
      random,
      metrics: noMetrics,
      queuedMax,
    });
    this.#host();
    this.#startedAt = this.now;
  }

  #host(): void {
    const { partition, logic } = this.webhooks;
    this.#hostedAt = this.truth.sequence;
    this.executor.host(0, logic, {
      clock: () => partition.now(),
      send: this.#way('webhooks'),
      holds: () => this.isHeld,
    });
  }

  #bus(): Bus {
    const accounts = this.#way('accounts');
    return {
      partitions: () => 1,
      send: (group: GroupName, _partition: number, message: Message, onReply: OnReply) => {
        assert.equal(group, 'accounts');
        accounts(message, onReply);
      },
    };
  }

  /** To a partition, past what may happen to a message and to its answer. */
  #way(group: 'accounts' | 'webhooks'): (message: Message, onReply: OnReply) => void {
    // Webhooks speak to the one they were hosted with, also when it has been lost: no answer of it goes astray.
    const own = this.webhooks.partition;
    return (message, onReply) => {
      this.#happened++;
      const answer = (reply: Reply): void => {
        this.#happened++;
        onReply(reply);
      };
      const send = (): void => {
        if (!this[group].isOpen) return answer({ type: 'unavailable' });
        if (group === 'webhooks') own.send(message as never, answer);
        else this.accounts.partition.send(message as never, fault === 'answer lost' ? lose : answer);
      };
      const lose = (): void => answer({ type: 'unknown' });
      const fault = this.fault();
      if (fault === 'refused') answer({ type: 'unavailable' });
      else if (fault === 'late') this.#timers.set(Math.floor(this.#options.random() * LATE_MS), send);
      else send();
    };
  }

  /** Compares each decision with what the model says to the same command at the same time. */
  #watch(logic: WebhooksLogic): void {
    const decide = logic.decide.bind(logic);
    logic.decide = (command, tick) => {
      const decision = decide(command, tick);
      try {
        const at = { now: tick.now, policy: this.#options.webhooks };
        check(this.truth, this.model, command, decision.record, at);
        if (command.type === 'RecordAttempt' && decision.record !== null) {
          this.#checkAttempt(command, tick.now);
        }
      } catch (error) {
        const said = JSON.stringify([command, tick.now, decision]);
        throw new Error(`${(error as Error).message}: ${said}`, { cause: error });
      }
      return decision;
    };
  }

  /** It was made, and is told once. */
  #checkAttempt(command: Extract<WebhookCommand, { type: 'RecordAttempt' }>, now: number): void {
    const { attempt, deliveryId } = command;
    const { app, nextAt } = this.model.deliveries.get(deliveryId)!;
    if (attempt.error === 'secret_unreadable') return assert(this.seen.unreadable > 0);
    if (attempt.error === GIVEN_UP) {
      const { retryMs } = this.#options.webhooks;
      const scheduleMs = retryMs.reduce((sum, ms) => sum + ms, 0);
      assert(now - nextAt! > scheduleMs, 'it is long overdue');
      const failingMs = this.endpoints.failingMs(app, this.truth.urlAt(app, this.model.cursor) ?? '');
      assert(failingMs >= LIMITS.webhookGiveUpFailingMs - RECORD_MS, 'its endpoint has failed for long');
      return;
    }
    const { statusCode, error, durationMs, excerpt } = attempt;
    const told = { statusCode, error, durationMs, excerpt };
    const sent = this.endpoints.sent.find(
      (one) => one.hasEnded && !one.isRecorded && one.delivery === deliveryId && one.at === attempt.at,
    );
    assert(sent !== undefined, `${deliveryId} was sent`);
    assert.deepEqual([told, attempt.url], [sent.result, sent.url]);
    sent.isRecorded = true;
  }

  #count(record: WebhookRecord): void {
    if (record.type === 'DeliveriesRemoved') this.seen.removed += record.deliveryIds.length;
    if (record.type === 'DeliveryCancelled') this.seen.cancelled++;
    if (record.type !== 'AttemptRecorded') return;
    if (record.attempt.error === GIVEN_UP) this.seen.givenUp++;
    if (record.next?.status === 'DEAD_LETTERED') this.seen.deadLettered++;
  }

  /** Until nothing more happens by itself at this time. What is appended meanwhile is not durable. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
      const before = this.#happened;
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#happened !== before) quiet = 0;
    }
  }

  async flushAll(): Promise<void> {
    while (this.accounts.undurable + this.webhooks.undurable > 0) {
      await this.accounts.flush();
      await this.webhooks.flush();
    }
  }

  /** Until all that was appended is durable, and what that leads to at this time. */
  async still(): Promise<void> {
    do {
      await this.flushAll();
      await this.settle();
    } while (this.accounts.undurable + this.webhooks.undurable > 0);
  }

  tick(): void {
    this.#timers.run();
    this.endpoints.end();
    this.executor.tick();
    for (const one of [this.accounts, this.webhooks]) if (one.isOpen) one.partition.tick();
  }

  /** Until there is nothing left to do at this time. */
  async work(): Promise<void> {
    for (let rounds = 0; ; rounds++) {
      assert(rounds < 2_000, 'what is due comes to an end');
      const before = this.#happened;
      this.tick();
      await this.settle();
      const isDone = this.accounts.undurable + this.webhooks.undurable === 0 && this.#happened === before;
      if (isDone && Math.min(this.#timers.nextAt, this.endpoints.nextAt) > this.now) return;
      await this.flushAll();
      await this.settle();
    }
  }

  /** Time in which nobody does anything: what falls due happens. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms;
    let checkpointAt = this.now + 30 * MINUTE;
    await this.work();
    while (this.now < until) {
      this.now = Math.max(this.now + 1, Math.min(until, Math.ceil(this.#nextAt())));
      await this.work();
      if (this.now < checkpointAt) continue;
      checkpointAt = this.now + 30 * MINUTE;
      await this.webhooks.checkpoint(1);
      await this.accounts.checkpoint(1);
    }
  }

  #nextAt(): number {
    const { queued } = this.executor.gauges();
    const isBusy = this.endpoints.inFlight.length + queued.firsts + queued.retries > 0;
    let next = Math.min(this.#timers.nextAt, this.endpoints.nextAt, isBusy ? this.now + LOOK_MS : Infinity);
    for (const group of ['accounts', 'webhooks'] as const) {
      const { isOpen, partition, logic } = this[group];
      if (!isOpen || this.isPaused[group]) continue;
      next = Math.min(next, this.now + logic.nextDue() - partition.now());
    }
    if (!this.webhooks.isOpen) return next;
    const { logic, partition } = this.webhooks;
    return Math.min(next, this.now + Math.max(1_000, logic.nextAttemptAt() - partition.now()));
  }

  /** Nothing goes wrong for a while; then nothing is left lying, and nothing of what was sent is forgotten. */
  async calm(): Promise<void> {
    this.isPaused = { accounts: false, webhooks: false };
    this.isHeld = true;
    const { fault } = this;
    this.fault = () => 'none';
    await this.pass(2 * MINUTE);
    this.fault = fault;
    for (const { hasEnded, isRecorded, delivery } of this.endpoints.sent) {
      if (!hasEnded || !this.model.deliveries.has(delivery)) continue;
      assert(isRecorded, `what came of ${delivery} is recorded`);
    }
    // While the queue is full nothing more is read.
    if (this.endpoints.manners.size > 0 && this.#options.queuedMax < 1_000) return;
    const last = this.truth.finals.at(-1)?.sequence ?? 0;
    assert(this.model.cursor >= last, 'all is read');
    const now = this.webhooks.partition.now();
    const due = [...this.model.deliveries.values()].filter(({ nextAt }) => nextAt !== null && nextAt <= now);
    for (const one of due) this.#checkWait(one, due, now);
    const { scheduled, queued, inFlight } = this.executor.gauges();
    const held = [scheduled, queued, inFlight].reduce(
      (sum, each) => sum + each.firsts + each.retries,
      inFlight.slow,
    );
    const waiting = [...this.model.deliveries.values()].filter(({ nextAt }) => nextAt !== null);
    assert(waiting.length <= held, 'what waits for an attempt is somewhere');
    for (const final of this.truth.finals) {
      const told = this.model.taken.get(`${final.transaction} ${final.status}`) ?? [];
      for (const app of final.hears) {
        assert(
          told.includes(app) || this.truth.apps.get(app)!.removed,
          `${app} is told of ${final.transaction}`,
        );
      }
    }
  }

  /** An endpoint that answers is not kept waiting; another at most as long as all that waits for it may take. */
  #checkWait({ id, app, nextAt }: ModelDelivery, due: readonly ModelDelivery[], now: number): void {
    if (this.isKeyWrong) return;
    const url = this.truth.urlAt(app, this.model.cursor);
    const isHealthy = url === null || this.endpoints.isHealthy(url);
    const others = due.filter((one) => one.app === app).length;
    const mayWait = isHealthy ? MINUTE : 2 * MINUTE + others * 2 * (LIMITS.webhookAttemptMs + 2 * LOOK_MS);
    const waitedMs = Math.min(now - nextAt!, this.now - this.#startedAt);
    assert(waitedMs <= mayWait, `${id} of ${app} has waited for ${waitedMs} ms`);
  }

  /** Ends the process and starts it again, `later` by the clock. */
  async restart(isCrash: boolean, later: number): Promise<void> {
    if (isCrash) {
      this.seen.lost += this.accounts.lose() + this.webhooks.lose();
      this.model = structuredClone(this.#durable);
      // Who was told nothing would try again for ever: of a process that has ended nobody does.
      await this.settle();
    } else {
      await this.until(this.executor.close(0));
      await this.accounts.drain();
      await this.webhooks.drain();
    }
    this.#timers.clear();
    await this.#disk.close();
    this.now += later;
    await this.open();
  }

  async close(): Promise<void> {
    await this.#disk.close();
  }

  /** Time goes on until it has ended. */
  async until(done: Promise<void>): Promise<void> {
    let isDone = false;
    void done.then(() => {
      isDone = true;
    });
    for (let rounds = 0; ; rounds++) {
      await this.settle();
      if (isDone) return;
      assert(rounds < 2_000, 'it comes to an end');
      await this.flushAll();
      this.now += 100;
      this.#timers.run();
      this.endpoints.end();
    }
  }

  /** Another process writes the partition for a while; this one gets it back. `isLost`: what was not durable is gone. What the
   *  accounts are told meanwhile is read afterwards. */
  async move(
    group: 'accounts' | 'webhooks',
    isLost: boolean,
    forMs: number,
    meanwhile: readonly AccountCommand[],
  ): Promise<void> {
    this.seen.moves++;
    const moved = this[group];
    // The next owner waits until all is recorded, or not at all: how long that takes here says nothing.
    const graceMs = isLost || this.#options.random() < 0.5 ? 0 : Infinity;
    const released = group === 'webhooks' ? this.executor.release(0, graceMs) : Promise.resolve();
    if (!isLost) {
      await this.until(released);
      await moved.drain();
    } else {
      this.seen.lost += moved.lose();
      if (group === 'webhooks') this.model = structuredClone(this.#durable);
      await this.until(released);
    }
    await moved.close();
    if (group === 'accounts') await this.pass(forMs);
    else this.now += forMs;
    if (group === 'accounts') return this.accounts.open(this.#disk, () => {});
    for (const command of meanwhile) this.command(command);
    await this.accounts.flush();
    this.endpoints.forget();
    await this.webhooks.open(this.#disk, (logic) => this.#watch(logic));
    this.#host();
    this.#startedAt = this.now;
  }

  /** What nobody needs of the accounts' log. */
  async trim(): Promise<void> {
    const cursor = Number(this.#disk.views.reader('webhooks', 0).get('cursor', 'upstream') ?? 0);
    await this.accounts.trim(Math.min(cursor, this.accounts.checkpointed));
  }

  command(command: AccountCommand): void {
    this.accounts.partition.send(command, () => {});
  }

  /** What an operator asks. Returns the answer, when all that it tells of is durable. */
  async ask(message: WebhookCommand | WebhookQuery): Promise<Reply> {
    let got: Reply | null = null;
    this.webhooks.partition.send(message, (reply) => {
      got = reply;
    });
    await this.flushAll();
    assert(got !== null, `${message.type} is answered`);
    return got;
  }

  view(delivery: ModelDelivery): object {
    return viewOf(this.truth, this.model, delivery);
  }
}
