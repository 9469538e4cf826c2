// Pollers under a clock that the test moves: an account decided by the pure core (its own scenario), committed at once,
// a provider whose memory outlives every poller, and rails that answer as a test scripts them.

import { setImmediate } from 'node:timers/promises';
import { pendingOf } from '../../actors/accounts/for-pollers.ts';
import { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { Notice } from '../../actors/pollers/notice.ts';
import type { Timings } from '../../actors/pollers/schedule.ts';
import type { Bus, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, Subscription } from '../../src/bus/feed.ts';
import type {
  AccountCommand,
  CreateCommand,
  ListExpired,
  PendingTransaction,
} from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { isCallbackNote } from '../../src/domain/decide/reconciliation-id.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { renderReconciliation } from '../../src/domain/render/account.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { isFinal, type Transaction } from '../../src/domain/transaction.ts';
import type { Clock, EnquiryResult, IsToBeSent, Rail, SubmitResult, Terminal } from '../../src/rails/rail.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { ACCOUNT, charge, fundedMerchant, outcome, type Scenario } from './domain/scenario.ts';

export class DrivenClock implements Clock {
  #now: number;
  #intervals: { readonly everyMs: number; dueAt: number; readonly run: () => void }[] = [];

  constructor(now: number) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  every(everyMs: number, run: () => void): () => void {
    const interval = { everyMs, dueAt: this.#now + everyMs, run };
    this.#intervals.push(interval);
    return () => {
      this.#intervals = this.#intervals.filter((each) => each !== interval);
    };
  }

  /** That nobody has ended. */
  get intervals(): number {
    return this.#intervals.length;
  }

  /** Whoever had intervals is dead. */
  killIntervals(): void {
    this.#intervals = [];
  }

  /** Moves on in steps, and lets what was promised happen after each. */
  async advance(ms: number, stepMs = 50): Promise<void> {
    const until = this.#now + ms;
    await setImmediate();
    while (this.#now < until) {
      this.#now = Math.min(until, this.#now + stepMs);
      for (const interval of this.#intervals) {
        if (interval.dueAt > this.#now) continue;
        interval.dueAt = this.#now + interval.everyMs;
        interval.run();
      }
      await setImmediate();
    }
  }
}

/** The accounts group's partition 0: bus and feed. */
class DrivenAccounts implements Bus, Feed {
  readonly scenario: Scenario = fundedMerchant();
  readonly clock: DrivenClock;
  /** Its log was written by a clock that was ahead of the one here by this. */
  aheadMs = 0;
  readonly commands: AccountCommand[] = [];
  /** False: of a version that knows no notes of callbacks. */
  takesNotes = true;
  /** True: pages of what is in flight end early, and every other one is empty. */
  pagesAreShort = false;
  /** True: its feed tells nothing; then with the next record. */
  isFeedSlow = false;
  #pagesTold = 0;
  /** Says what to answer in the account's place; null: let it answer. */
  intercept: (message: Message) => Reply | null = () => null;
  #subscribers = new Set<{
    cursor: number;
    readonly handler: (batch: FeedBatch<AccountRecord>) => unknown;
  }>();
  #delivering = false;
  #keys = 0;

  constructor(clock: DrivenClock) {
    this.clock = clock;
    this.scenario.policy = {
      ...this.scenario.policy,
      routes: { 'UG:MTN': 'mtn_ug', 'UG:AIRTEL': 'airtel_ug' },
    };
  }

  create(command: CreateCommand): Transaction {
    const idempotencyKey = `driven-${++this.#keys}`;
    const transaction = this.scenario
      .at(this.clock.now() + this.aheadMs)
      .create({ ...command, idempotencyKey });
    this.#deliver();
    return transaction;
  }

  when(command: AccountCommand): void {
    this.scenario.at(this.clock.now() + this.aheadMs).when(command);
    this.#deliver();
  }

  transaction(id: string): Transaction {
    return this.scenario.transaction(id);
  }

  inFlight(): Transaction[] {
    return [...this.scenario.state.transactions.values()].filter(isPending);
  }

  get subscriptions(): number {
    return this.#subscribers.size;
  }

  /** But for notes of callbacks. */
  reconciliation(): string[] {
    const items = [...this.scenario.state.reconciliations.values()];
    return items
      .filter(({ id, transactionId }) => !isCallbackNote(id, transactionId))
      .map(({ kind }) => kind);
  }

  /** Of callbacks: what they were resolved with, null where they were not. */
  notes(): (string | null)[] {
    const items = [...this.scenario.state.reconciliations.values()];
    return items
      .filter(({ id, transactionId }) => isCallbackNote(id, transactionId))
      .map(({ resolution }) => resolution);
  }

  partitions(): number {
    return 1;
  }

  send(group: string, _partition: number, message: Message, onReply: OnReply): void {
    const answer = this.intercept(message);
    if (answer !== null) return onReply(answer);
    // There is no other poller.
    const isUnknown = message.type === 'NoteCallback' && !this.takesNotes;
    if (group === 'pollers' || isUnknown) return onReply({ type: 'unavailable' });
    const query = message as unknown as {
      type: string;
      transactionId: string;
      afterId: string;
      open: boolean;
      startingAfter: string | null;
      limit: number;
    };
    switch (query.type) {
      case 'ListPending':
        return onReply(this.#listPending(query.afterId, query.limit));
      case 'ListExpired':
        return onReply(this.#listExpired(message as ListExpired));
      case 'ListReconciliation':
        return onReply(this.#listReconciliation(query.open, query.startingAfter, query.limit));
      case 'GetPending':
        return onReply(this.#getPending(query.transactionId, 'evenFinal' in message && message.evenFinal));
      default:
        return this.#command(message as AccountCommand, onReply);
    }
  }

  #command(command: AccountCommand, onReply: OnReply): void {
    this.commands.push(command);
    // As a partition does whose time is ahead of that of its callers.
    const ours = { ...command, deadline: command.deadline + this.aheadMs };
    const { outcome: said } = this.scenario.at(this.clock.now() + this.aheadMs).when(ours);
    if (said.type === 'rejected') onReply({ type: 'rejected', rejection: said.rejection });
    else onReply({ type: 'done', body: said.type === 'done' ? said.body : '{}', replayed: false });
    this.#deliver();
  }

  #listPending(afterId: string | null, limit: number): Reply {
    const left = this.inFlight()
      .filter(({ id }) => id > (afterId ?? ''))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const sequence = this.scenario.lines.length;
    if (!this.pagesAreShort) return done({ sequence, data: left.slice(0, limit).map(pendingOf) });
    const looked = left.slice(0, Math.ceil(limit / 3));
    // As where what was looked at waits for approval.
    const data = this.#pagesTold++ % 2 === 0 ? [] : looked.map(pendingOf);
    const isLast = data.length === left.length;
    return done({ sequence, data, next: isLast ? null : (data.at(-1)?.id ?? afterId ?? '0') });
  }

  /** By creation; `after` is how many were looked at. */
  #listExpired({ expiredSince, settledSince = expiredSince, after, limit }: ListExpired): Reply {
    const next = Number(after) + limit;
    const looked = [...this.scenario.state.transactions.values()].slice(Number(after), next);
    const data = looked.flatMap((transaction) => {
      const failed = transaction.events.find(({ status }) => status === 'FAILED');
      const { failureCode, approvalStatus } = transaction;
      const isOurs =
        failed?.source === 'DASHBOARD' || (failed?.source === 'SYSTEM' && failureCode === 'expired');
      const since = transaction.expiresAt === null ? settledSince : expiredSince;
      return isOurs && approvalStatus !== 'REJECTED' && failed.at >= since
        ? [{ ...pendingOf(transaction), expiredAt: failed.at }]
        : [];
    });
    return done({ data, next: looked.length < limit ? null : String(next) });
  }

  /** Newest first. */
  #listReconciliation(open: boolean, startingAfter: string | null, limit: number): Reply {
    const items = [...this.scenario.state.reconciliations.values()]
      .filter(({ resolvedAt }) => resolvedAt === null || !open)
      .filter(({ id }) => startingAfter === null || id < startingAfter)
      .sort((a, b) => (a.id > b.id ? -1 : 1));
    const data = items.slice(0, limit).map((item) => JSON.parse(renderReconciliation(item)));
    return done({ data, next: items.length > limit ? data.at(-1).id : null });
  }

  #getPending(id: string, evenFinal: boolean | undefined): Reply {
    const transaction = this.scenario.state.transaction(id);
    if (transaction === undefined || (!isPending(transaction) && evenFinal !== true)) {
      return { type: 'rejected', rejection: rejection('transaction_not_found') };
    }
    return done(pendingOf(transaction));
  }

  subscribe<Record>(
    _group: string,
    _partition: number,
    after: number,
    handler: (batch: FeedBatch<Record>) => void | Promise<void>,
  ): Subscription {
    const subscriber = { cursor: after, handler: handler as (batch: FeedBatch<AccountRecord>) => unknown };
    this.#subscribers.add(subscriber);
    queueMicrotask(() => this.#deliver());
    return {
      close: () => {
        this.#subscribers.delete(subscriber);
        return Promise.resolve();
      },
    };
  }

  /** The process that read the feed is dead. */
  dropSubscribers(): void {
    this.#subscribers.clear();
  }

  #deliver(): void {
    if (this.#delivering || this.isFeedSlow) return;
    this.#delivering = true;
    for (const subscriber of this.#subscribers) {
      while (subscriber.cursor < this.scenario.lines.length) {
        const firstSequence = subscriber.cursor + 1;
        const records = this.scenario.lines.slice(subscriber.cursor).map(decodeRecord);
        subscriber.cursor += records.length;
        subscriber.handler({ firstSequence, records });
      }
    }
    this.#delivering = false;
  }
}

/** What the network knows, whoever asks: it survives our crashes. */
export class Provider {
  /** By our reference; null: accepted and waiting for the customer. */
  readonly accepted = new Map<string, Terminal | null>();

  settle(transaction: { id: string; accountId: string }, terminal: Terminal): void {
    this.accepted.set(referenceOf(transaction), terminal);
  }

  /** Idempotent by reference, as networks are. */
  submit(transaction: PendingTransaction): SubmitResult {
    const reference = referenceOf(transaction);
    if (!this.accepted.has(reference)) this.accepted.set(reference, null);
    return ACCEPTED;
  }

  enquire(transaction: PendingTransaction): EnquiryResult {
    const status = this.accepted.get(referenceOf(transaction));
    if (status === undefined) return { type: 'not_found' };
    return status ?? { type: 'pending', providerStatus: 'PENDING' };
  }
}

export const ACCEPTED: SubmitResult = { type: 'accepted', providerStatus: '202' };
export const LOST = { type: 'unknown', reason: 'time-out' } as const;
export const BUSY = { type: 'not_accepted', reason: '503' } as const;

export class DrivenRail implements Rail {
  readonly id: string;
  readonly provider: Provider;
  readonly submits: { readonly at: number; readonly reference: string; readonly id: string }[] = [];
  readonly enquiries: { readonly at: number; readonly id: string }[] = [];
  readonly #clock: Clock;
  maxConcurrency = 100;
  notFoundGraceMs = 5_000;
  /** As the adapters of networks are. */
  forgetful = false;
  /** Scripts; by default the provider answers at once. */
  onSubmit: Rail['submit'];
  onEnquire: (transaction: PendingTransaction) => EnquiryResult | Promise<EnquiryResult>;

  constructor(id: string, provider: Provider, clock: Clock) {
    this.id = id;
    this.provider = provider;
    this.#clock = clock;
    this.onSubmit = (transaction) => provider.submit(transaction);
    this.onEnquire = (transaction) => provider.enquire(transaction);
  }

  submit(transaction: PendingTransaction, isToBeSent: IsToBeSent): SubmitResult | Promise<SubmitResult> {
    this.submits.push({ at: this.#clock.now(), reference: referenceOf(transaction), id: transaction.id });
    return this.onSubmit(transaction, isToBeSent);
  }

  enquire(transaction: PendingTransaction): EnquiryResult | Promise<EnquiryResult> {
    this.enquiries.push({ at: this.#clock.now(), id: transaction.id });
    return this.onEnquire(transaction);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  enquiriesOf(id: string): number[] {
    return this.enquiries.filter((enquiry) => enquiry.id === id).map(({ at }) => at);
  }
}

export interface DrivenOptions {
  readonly timings?: Partial<Timings>;
  readonly random?: () => number;
  /** Milliseconds by which the machine's clock, that of deadlines, is ahead of the one here. */
  readonly deadlinesAheadMs?: number;
}

/** An account, two rails and the pollers between them. */
export class Driven {
  readonly clock = new DrivenClock(1_772_357_500_000);
  readonly accounts = new DrivenAccounts(this.clock);
  readonly provider = new Provider();
  readonly notices: Notice[] = [];
  readonly faults: unknown[] = [];
  unknownMessages = 0;
  /** Those of pollers that are to begin; those of accounts are their policy's. */
  routes: Policy['routes'] = { 'UG:MTN': 'mtn_ug', 'UG:AIRTEL': 'airtel_ug' };
  readonly #options: DrivenOptions;
  mtn = new DrivenRail('mtn_ug', this.provider, this.clock);
  airtel = new DrivenRail('airtel_ug', this.provider, this.clock);
  pollers: PollerGroup;

  constructor(options: DrivenOptions = {}) {
    this.#options = options;
    this.pollers = this.#newPollers();
  }

  async start(): Promise<this> {
    await this.pollers.start(0);
    return this;
  }

  /** kill -9, and a new process after `between`: what was promised is never heard of again. The rails' scripts are kept. */
  async crash(between: () => void | Promise<void> = () => {}): Promise<void> {
    this.clock.killIntervals();
    this.accounts.dropSubscribers();
    const dead = this.accounts.intercept;
    const { mtn, airtel } = this;
    this.mtn = new DrivenRail('mtn_ug', this.provider, this.clock);
    this.airtel = new DrivenRail('airtel_ug', this.provider, this.clock);
    for (const rail of [mtn, airtel]) {
      rail.onSubmit = () => new Promise(() => {});
      rail.onEnquire = () => new Promise(() => {});
    }
    this.accounts.intercept = dead;
    await between();
    this.pollers = this.#newPollers();
    await this.pollers.start(0);
  }

  /** Undefined: not answered yet. */
  hint(transaction: { id: string; accountId?: string }, onReply: OnReply = () => {}): Reply | undefined {
    const deadline = this.clock.now() + 1_000;
    const { id: transactionId, accountId = ACCOUNT } = transaction;
    let answer: Reply | undefined;
    const hint = { type: 'Hint', accountId, transactionId, deadline } as const;
    this.pollers.send(0, hint, (reply) => {
      answer = reply;
      onReply(reply);
    });
    return answer;
  }

  #newPollers(): PollerGroup {
    return new PollerGroup({
      bus: this.accounts,
      feed: this.accounts,
      rails: [this.mtn, this.airtel],
      routes: this.routes,
      clock: this.clock,
      monotonic: () => this.clock.now(),
      deadlineClock: () => this.clock.now() + (this.#options.deadlinesAheadMs ?? 0),
      random: this.#options.random ?? (() => 0.5),
      ...(this.#options.timings === undefined ? {} : { timings: this.#options.timings }),
      onNotice: (notice) => this.notices.push(notice),
      onFault: (error) => this.faults.push(error),
      onUnknownMessage: () => this.unknownMessages++,
    });
  }
}

/** A charge that its provider has paid, `restMs` after its account and the pollers heard of it. */
export async function settledCharge(driven: Driven, restMs: number): Promise<Transaction> {
  const transaction = driven.accounts.create(charge());
  driven.provider.settle(transaction, paid());
  driven.accounts.when(outcome(transaction.id, 'SUCCESSFUL'));
  await driven.clock.advance(restMs);
  return transaction;
}

/** A promise that the test settles. */
export function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  return Promise.withResolvers<T>();
}

export function paid(over: Partial<Terminal> = {}): Terminal {
  return {
    type: 'succeeded',
    failureCode: null,
    failureMessage: null,
    providerStatus: 'SUCCESSFUL',
    providerTransactionId: 'P1',
    amount: null,
    currency: null,
    ourFault: false,
    ...over,
  };
}

export function declined(over: Partial<Terminal> = {}): Terminal {
  return paid({
    type: 'failed',
    failureCode: 'customer_declined',
    failureMessage: 'Declined.',
    providerStatus: 'REJECTED',
    providerTransactionId: null,
    ...over,
  });
}

export const reversed = (): Terminal => paid({ type: 'reversed', providerStatus: 'REVERSED' });

function done(body: unknown): Reply {
  return { type: 'done', body: JSON.stringify(body), replayed: false };
}

/** Waits for a provider. */
function isPending(transaction: Transaction): boolean {
  return !isFinal(transaction.status) && transaction.status !== 'INITIATED';
}
