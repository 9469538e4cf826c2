// One partition of the pollers: which transactions of accounts partition n wait for a provider, and what is heard of
// them. What a callback is about is found out in callbacks.ts; what has expired is looked after in expired.ts. Soft state:
// all of it is in the accounts' log, and a new one starts from what still waits for a provider.
//
//   feed: created ─▶ submit ─▶ accepted: tell the account, enquire ─▶ final: tell the account ─▶ feed: final, forget it
//
// Invariants:
//   - A transaction is submitted after it is durable: the feed says so, or a scan of the account.
//   - What was in flight when the partition started may have been sent before: it is enquired about first.
//   - What the feed says is final is followed no more. A callback after that is looked into; the account decides.
//   - Its time never falls and is never behind what it has heard of: what the accounts' own time says is due, is.
//   - No timer objects, and nothing here waits: what is to happen later is in the pursuit's wheel.

import { setImmediate } from 'node:timers/promises';
import type { OnReply } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, Subscription } from '../../src/bus/feed.ts';
import type { PendingTransaction } from '../../src/domain/account-command.ts';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import type { Policy } from '../../src/domain/policy.ts';
import type { PollerMessage } from '../../src/domain/poller-message.ts';
import { LIMITS } from '../../src/limits.ts';
import { isCallbackNote } from '../../src/domain/decide/reconciliation-id.ts';
import { PartitionClock } from '../runtime/fresh-id.ts';
import { AccountReader } from './account-reader.ts';
import { Callbacks } from './callbacks.ts';
import { pendingOf } from './created.ts';
import { Expired } from './expired.ts';
import { Followed } from './followed.ts';
import type { Keeper, LeftCallback, PursuitOptions } from './keeper.ts';
import { isParkable } from './parked.ts';
import { Pursuit } from './pursuit.ts';
import { portOf, type Port, type RailLane } from './rail-lane.ts';
import { contradicts, type Final, isOfProvider } from './verdict.ts';
import { Watched } from './watched.ts';

export interface PartitionOptions extends PursuitOptions {
  readonly feed: Feed;
  /** By rail id, the `provider` of a transaction. */
  readonly lanes: ReadonlyMap<string, RailLane>;
  readonly routes: Policy['routes'];
}

/** Below this share of what it may follow, or a rail's part of that, a partition looks for what it let go. */
const ROOM_AGAIN = 0.75;

export class PollerPartition implements Keeper {
  readonly #options: PartitionOptions;
  readonly #clock: PartitionClock;
  readonly #reader: AccountReader;
  readonly #pursuit: Pursuit;
  readonly #ports = new Map<string, Port>();
  readonly #followed: Followed;
  readonly #expired: Expired;
  readonly callbacks: Callbacks;
  #subscription: Subscription | null = null;
  /** What comes after this sequence is heard of. */
  #followedFrom = 0;
  #scanning: Promise<void> | null = null;
  /** What became final since the scan asked for a page: the page may still have it. */
  #finishedSinceAsked: Set<string> | null = null;
  /** Of these there may be transactions in flight that it does not follow. */
  readonly #leftOut = new Set<Port>();
  /** What was created up to then it may have found in flight: of that a poller before it may have told the account more than has
   *  arrived there. By the accounts' time. */
  #foundUntil = 0;
  #stopping = false;

  constructor(options: PartitionOptions) {
    this.#clock = new PartitionClock(options.now, 0);
    this.#options = { ...options, now: () => this.#clock.now() };
    this.#reader = new AccountReader(this.#options);
    this.#pursuit = new Pursuit(this.#options, this);
    for (const [provider, lane] of options.lanes) {
      this.#ports.set(provider, { lane, caller: this.#pursuit, calling: 0, followed: 0 });
    }
    this.#followed = new Followed([...this.#ports.values()]);
    const parts = {
      ...this.#options,
      reader: this.#reader,
      pursuit: this.#pursuit,
      followed: this.#followed,
      follow: (transaction: PendingTransaction) => this.#follow(transaction),
    };
    const hasRail = (transaction: PendingTransaction): boolean => this.#portOf(transaction) !== undefined;
    this.#expired = new Expired({ ...parts, hasRail, forget: (watched) => this.forget(watched) });
    const recover = (transaction: PendingTransaction): void => this.#recover(transaction);
    this.callbacks = new Callbacks({ ...parts, recover, foundUntil: () => this.#foundUntil });
  }

  /** Transactions that it follows, but for what has expired. */
  get size(): number {
    return this.#followed.size - this.#expired.size;
  }

  /** Of those, the ones that have not ended. */
  get inFlight(): number {
    return this.size - this.callbacks.calledSize;
  }

  /** What is created from now on is heard of. */
  get isFollowing(): boolean {
    return this.#subscription !== null;
  }

  /** Nothing is with a rail or on its way to an account. */
  get isIdle(): boolean {
    if (!this.#pursuit.isIdle || !this.callbacks.isIdle) return false;
    for (const { calling } of this.#ports.values()) if (calling > 0) return false;
    return true;
  }

  /** Resolves when everything in flight is known; new transactions are served long before. */
  start(): Promise<void> {
    return this.#lookFor([...this.#ports.values()]);
  }

  #lookFor(ports: readonly Port[]): Promise<void> {
    const isFirst = this.#subscription === null;
    this.#scanning ??= this.#scan(ports).finally(() => {
      this.#scanning = null;
      this.#finishedSinceAsked = null;
      if (!isFirst) return;
      void this.#expired.scan(this.#followedFrom);
      void this.callbacks.scanNotes();
    });
    return this.#scanning;
  }

  send(message: PollerMessage, onReply: OnReply): void {
    this.callbacks.send(message, onReply);
  }

  /** Looks at what is due. */
  tick(): void {
    const now = this.#options.now();
    this.#reader.tick(now);
    this.#pursuit.tick(now);
    this.callbacks.tick();
    if (this.#leftOut.size === 0 || this.#stopping || this.#scanning !== null) return;
    const withRoom = [...this.#leftOut].filter((port) => this.#hasRoomAgain(port));
    if (withRoom.length > 0) void this.#lookFor(withRoom);
  }

  /** Takes nothing new and calls no rail; what is with rails or accounts already goes on until `isIdle`. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#pursuit.stop();
    this.#reader.stop();
    this.#expired.stop();
    for (const watched of this.#followed.awake()) {
      if (watched.state === 'queued') this.#pursuit.end(watched);
    }
    this.callbacks.stop();
    await this.#subscription?.close();
  }

  /** When it has stopped: the callbacks that were not looked into, but for those about what the next owner finds in flight. */
  left(): LeftCallback[] {
    return this.callbacks.left(this.#expired.ids());
  }

  // --- What is in flight ---------------------------------------------------------------------------------------------

  /** For those of `ports`, and whatever else it comes upon. */
  async #scan(ports: readonly Port[]): Promise<void> {
    const { feed, partition } = this.#options;
    for (const port of ports) this.#leftOut.delete(port);
    for (let afterId: string | null = null; ;) {
      this.#finishedSinceAsked = new Set();
      const page = await this.#reader.page(afterId);
      if (page === null || this.#stopping) return;
      if (this.#subscription === null) this.#followedFrom = page.sequence;
      this.#subscription ??= feed.subscribe<AccountRecord>('accounts', partition, page.sequence, (batch) =>
        this.#committed(batch),
      );
      for (const transaction of page.data) this.#found(transaction);
      const { data, next = data.length < LIMITS.pollerScanPageMax ? null : (data.at(-1)?.id ?? null) } = page;
      afterId = next;
      if (afterId === null || ports.every((port) => this.#leftOut.has(port))) return;
      // A long scan shares the process.
      await setImmediate();
    }
  }

  #committed(batch: FeedBatch<AccountRecord>): void {
    if (this.#stopping) return;
    for (const record of batch.records) {
      this.#clock.notBefore(record.at);
      for (const event of record.events) this.#happened(event, record);
    }
  }

  #happened(event: AccountEvent, record: AccountRecord): void {
    switch (event.type) {
      case 'ChargeCreated':
      case 'DepositCreated':
      case 'PayoutCreated':
        return this.#submit(pendingOf(event, record));
      case 'WithdrawalCreated':
        if (!event.approvalRequired) this.#submit(pendingOf(event, record));
        return;
      case 'WithdrawalApproved':
        void this.#approved(record.accountId, event.id);
        return;
      case 'TransactionFailed':
        return this.#finished(event, record.accountId, !isOfProvider(event));
      case 'TransactionSucceeded':
      case 'ChargeReversed':
        return this.#finished(event, record.accountId, false);
      case 'WithdrawalRejected':
      case 'SubmissionBegun':
      case 'SubmissionAccepted':
      case 'AnswerFixed':
      case 'ChargeReleased':
      case 'ReconciliationResolved':
      case 'AccountOpened':
      case 'AccountSettingsChanged':
      case 'UserAdded':
      case 'UserRoleChanged':
      case 'UserRemoved':
      case 'AppConnected':
      case 'AppWebhookChanged':
      case 'AppRemoved':
      case 'WalletAdded':
      case 'WalletApproved':
      case 'WalletActivated':
        return;
      case 'WalletRevoked':
        return this.#walletRevoked(record.accountId);
      case 'ReconciliationRaised': {
        const { id, transactionId } = event;
        if (!isCallbackNote(id, transactionId)) return;
        void this.callbacks.noteInTurn(id, record.accountId, transactionId);
        return;
      }
    }
  }

  #walletRevoked(accountId: string): void {
    this.#pursuit.revoked(this.#followed.awake().filter((watched) => watched.accountId === accountId));
  }

  /** Not sent yet by anybody: nobody else serves this partition. */
  #submit(transaction: PendingTransaction): void {
    const watched = this.#follow(transaction);
    if (watched !== null) return this.#pursuit.begin(watched);
    // A scan, or a callback, came upon it before the feed told of it.
    const found = this.#followed.get(transaction.id);
    if (found !== undefined) this.#pursuit.onlyOurs(found);
  }

  async #approved(accountId: string, transactionId: string): Promise<void> {
    const found = await this.#reader.get(accountId, transactionId, false);
    if (this.#stopping) return;
    // A callback before it was approved is looked into as one about something final. It is to be sent now.
    const before = this.#followed.get(transactionId);
    if (before?.isLate === true) this.forget(before);
    else if (before !== undefined) this.park(before);
    if (found.type === 'found') this.#submit(found.transaction);
    // A scan will find it.
    if (found.type === 'unanswered') for (const port of this.#ports.values()) this.#leftOut.add(port);
  }

  /** By a scan. */
  #found(transaction: PendingTransaction): void {
    const port = this.#portOf(transaction);
    const isNew = !this.#followed.has(transaction.id);
    if (port !== undefined && isNew && this.#isFullBeside(port, 1)) this.#leaveOut(port, transaction.id);
    else this.#recover(transaction);
  }

  /** Whoever served the partition before may have sent it. */
  #recover(transaction: PendingTransaction): void {
    if (this.#finishedSinceAsked?.has(transaction.id)) return;
    const { createdAt } = transaction;
    this.#clock.notBefore(createdAt);
    this.#foundUntil = Math.max(this.#foundUntil, createdAt);
    const watched = this.#follow(transaction);
    if (watched !== null) this.#pursuit.resume(watched);
  }

  /** Null: it is followed already, or cannot be. */
  #follow(transaction: PendingTransaction): Watched | null {
    const { id, provider } = transaction;
    if (this.#followed.has(id)) return null;
    const port = this.#portOf(transaction);
    if (port === undefined) {
      this.#options.onNotice({ what: 'no_rail', provider, transactionId: id, detail: null });
      return null;
    }
    const watched = new Watched(transaction, port);
    this.#followed.add(watched);
    return watched;
  }

  #portOf(transaction: PendingTransaction): Port | undefined {
    return portOf(transaction, this.#ports, this.#options.routes);
  }

  #finished({ id: transactionId, type }: Final, accountId: string, expired: boolean): void {
    this.#finishedSinceAsked?.add(transactionId);
    const watched = this.#followed.get(transactionId);
    if (watched === undefined) {
      if (expired) void this.#expired.lookAfterUnfollowed(accountId, transactionId);
      return;
    }
    // There may be more to say than the account was told: by a callback that nothing has answered yet, or by an answer of the provider that
    // did not reach the account before an operator, or expiry, ended it.
    const more = watched.isOwed || contradicts(watched.verdict, type);
    // A submit whose answer was lost, or is yet to come, may have reached the customer.
    const mayBePaid = watched.submission !== 'none' || watched.state === 'calling';
    this.forget(watched);
    const isLookedAfter = expired && mayBePaid && this.#expired.lookAfter(watched);
    if (!isLookedAfter) this.callbacks.remember(watched);
    if (more) this.lookInto(watched.accountId, transactionId);
  }

  // --- For the pursuit -----------------------------------------------------------------------------------------------

  isFull(port: Port): boolean {
    return this.#isFullBeside(port, 0);
  }

  /** With `more` of this rail. Those go of which there are most: a rail that is down has them, and is to cost the others nothing. */
  #isFullBeside({ followed }: Port, more: number): boolean {
    const size = this.#followed.size + more;
    if (size <= LIMITS.pollerPendingMax) return false;
    if (size > LIMITS.pollerPendingAtWorst) return true;
    for (const other of this.#ports.values()) if (other.followed > followed + more) return false;
    return true;
  }

  #hasRoomAgain({ followed }: Port): boolean {
    const { size } = this.#followed;
    const max = ROOM_AGAIN * LIMITS.pollerPendingMax;
    if (size < max) return true;
    return followed < max / this.#ports.size && size < ROOM_AGAIN * LIMITS.pollerPendingAtWorst;
  }

  at(number: number): Watched {
    return this.#followed.at(number);
  }

  find(id: string): Watched | undefined {
    const watched = this.#followed.get(id);
    if (watched === undefined || (watched.state !== 'gone' && !watched.isLate)) return watched;
    this.park(watched);
    return undefined;
  }

  park(watched: Watched): void {
    this.#followed.park(watched);
  }

  forget(watched: Watched): void {
    this.#pursuit.end(watched);
    this.#expired.forget(watched.id);
    this.callbacks.forget(watched.id);
    this.#followed.remove(watched);
  }

  letGo(watched: Watched): void {
    this.#leaveOut(watched.port, watched.id);
    this.forget(watched);
    this.callbacks.letGo(watched.id);
  }

  #leaveOut(port: Port, transactionId: string): void {
    if (this.#leftOut.has(port)) return;
    this.#leftOut.add(port);
    const provider = port.lane.rail.id;
    this.#options.onNotice({ what: 'follows_too_many', provider, transactionId, detail: null });
  }

  lookInto(accountId: string, transactionId: string): void {
    if (this.callbacks.lookInto(accountId, transactionId)) return;
    const detail = 'too many others are looked into';
    this.#options.onNotice({ what: 'hint_lost', provider: null, transactionId, detail });
  }

  letGoWaiting(id: string): void {
    const watched = this.find(id);
    if (watched === undefined) return;
    if (isParkable(watched) && watched.lastUntil === 0 && !watched.acceptanceUntold) this.letGo(watched);
    else this.park(watched);
  }
}
