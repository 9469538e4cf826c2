// One partition of the pollers: which transactions of accounts partition n wait for a provider, and what is heard of
// them. Soft state: all of it is in the accounts' log, and a new one starts from what still waits for a provider.
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
import type { OnReply, Reply } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, Subscription } from '../../src/bus/feed.ts';
import type { ExpiredTransaction, PendingTransaction } from '../../src/domain/account-command.ts';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import { assert } from '../../src/domain/assert.ts';
import type { Policy } from '../../src/domain/policy.ts';
import type { PollerMessage } from '../../src/domain/poller-message.ts';
import { LIMITS } from '../../src/limits.ts';
import { isCallbackNote } from '../../src/domain/reconciliation-id.ts';
import { PartitionClock } from '../runtime/fresh-id.ts';
import { AccountReader, lastExpired } from './account-reader.ts';
import { CallbackNotes } from './callback-notes.ts';
import { pendingOf } from './created.ts';
import { Followed } from './followed.ts';
import { type Keeper, type LeftCallback, messageDeadline, type PursuitOptions } from './keeper.ts';
import { isParkable } from './parked.ts';
import { Pursuit } from './pursuit.ts';
import { portOf, type Port, type RailLane } from './rail-lane.ts';
import { afterExpiryMsMax } from './schedule.ts';
import { contradicts, type Final, isOfProvider, type Verdict } from './verdict.ts';
import { Waiters } from './waiters.ts';
import { Watched } from './watched.ts';

export interface PartitionOptions extends PursuitOptions {
  readonly feed: Feed;
  /** By rail id, the `provider` of a transaction. */
  readonly lanes: ReadonlyMap<string, RailLane>;
  readonly routes: Policy['routes'];
}

const DONE: Reply = { type: 'done', body: '{}', replayed: false };
const UNAVAILABLE: Reply = { type: 'unavailable' };
/** Below this share of what it may follow, a partition looks for what it let go. */
const ROOM_AGAIN = 0.75;

export class PollerPartition implements Keeper {
  readonly #options: PartitionOptions;
  readonly #clock: PartitionClock;
  readonly #reader: AccountReader;
  readonly #pursuit: Pursuit;
  readonly #ports = new Map<string, Port>();
  readonly #followed: Followed;
  /** Ended a moment ago, oldest first: what callbacks that come late or twice are mostly about. */
  readonly #recent = new Map<string, Watched>();
  /** Ids of those it follows although they have expired; what expired last comes last. */
  readonly #expired = new Set<string>();
  /** What expired without being followed, whose accounts are asked what it is. */
  #findingExpired = 0;
  /** Callbacks about what their account is being asked about: its id by the transaction's. */
  readonly #lookingInto = new Map<string, string>();
  /** The same, of callbacks that nobody here looks into any more. */
  readonly #left = new Map<string, string>();
  /** Ids of those it follows only because a callback came after their end. */
  readonly #called = new Set<string>();
  readonly #waiters = new Waiters();
  readonly #notes: CallbackNotes;
  #subscription: Subscription | null = null;
  /** What comes after this sequence is heard of. */
  #followedFrom = 0;
  #scanning: Promise<void> | null = null;
  /** What became final since the scan asked for a page: the page may still have it. */
  #finishedSinceAsked: Set<string> | null = null;
  /** It let go of transactions that are still in flight. */
  #overflowed = false;
  /** What was created up to then it may have found in flight: of that a poller before it may have told the account more than has
   *  arrived there. By the accounts' time. */
  #foundUntil = 0;
  #stopping = false;

  constructor(options: PartitionOptions) {
    this.#clock = new PartitionClock(options.now, 0);
    this.#options = { ...options, now: () => this.#clock.now() };
    this.#reader = new AccountReader(this.#options);
    this.#pursuit = new Pursuit(this.#options, this);
    const onNoted = (id: string): void => this.#waiters.end(id, DONE);
    this.#notes = new CallbackNotes({ ...this.#options, onNoted });
    for (const [provider, lane] of options.lanes) {
      this.#ports.set(provider, { lane, caller: this.#pursuit, calling: 0 });
    }
    this.#followed = new Followed([...this.#ports.values()]);
  }

  /** Transactions in flight that it follows. */
  get size(): number {
    return this.#followed.size - this.#expired.size;
  }

  /** What is created from now on is heard of. */
  get isFollowing(): boolean {
    return this.#subscription !== null;
  }

  /** Nothing is with a rail or on its way to an account. */
  get isIdle(): boolean {
    if (!this.#pursuit.isIdle || !this.#notes.isIdle) return false;
    for (const { calling } of this.#ports.values()) if (calling > 0) return false;
    return true;
  }

  /** Resolves when everything in flight is known; new transactions are served long before. */
  start(): Promise<void> {
    const isFirst = this.#subscription === null;
    this.#scanning ??= this.#scan().finally(() => {
      this.#scanning = null;
      this.#finishedSinceAsked = null;
      if (!isFirst) return;
      void this.#scanExpired();
      void this.#scanNotes();
    });
    return this.#scanning;
  }

  /** Looks into it however late it is, by whichever clock: nobody else may ever ask about what has ended. */
  send({ accountId, transactionId, handedOn }: PollerMessage, onReply: OnReply): void {
    if (this.#stopping) return onReply(UNAVAILABLE);
    if (handedOn === true) return onReply(this.lookInto(accountId, transactionId) ? DONE : UNAVAILABLE);
    if (this.#needsNoAnswer(accountId, transactionId)) {
      this.#lookInto(accountId, transactionId);
      return onReply(DONE);
    }
    // First: the answer may come before it returns.
    this.#waiters.add(transactionId, onReply, this.#options.now());
    if (!this.lookInto(accountId, transactionId)) this.#waiters.end(transactionId, UNAVAILABLE);
  }

  /** Looks at what is due. */
  tick(): void {
    const now = this.#options.now();
    this.#reader.tick(now);
    this.#pursuit.tick(now);
    this.#waiters.tick(now);
    this.#notes.tick(now);
    const hasRoom = this.#followed.size < ROOM_AGAIN * LIMITS.pollerPendingMax;
    if (this.#overflowed && hasRoom && !this.#stopping && this.#scanning === null) {
      this.#overflowed = false;
      void this.start();
    }
  }

  /** Takes nothing new and calls no rail; what is with rails or accounts already goes on until `isIdle`. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#pursuit.stop();
    this.#reader.stop();
    this.#waiters.endAll();
    for (const [transactionId, accountId] of this.#lookingInto) this.#left.set(transactionId, accountId);
    for (const watched of this.#followed.awake()) {
      if (watched.state !== 'queued') continue;
      watched.hinted = watched.isOwed;
      this.#pursuit.end(watched);
    }
    this.#notes.stop();
    await this.#subscription?.close();
  }

  /** When it has stopped: the callbacks that were not looked into, but for those about what the next owner finds in flight. */
  left(): LeftCallback[] {
    const late = [...this.#called, ...this.#expired].flatMap((id) => this.#followed.get(id) ?? []);
    const told = this.#followed
      .awake()
      .filter((watched) => watched.told !== null || watched.verdict !== null);
    for (const watched of [...late, ...told]) {
      const isBeingAsked = watched.byHint && watched.state === 'calling';
      if (watched.isOwed || isBeingAsked) this.#left.set(watched.id, watched.accountId);
    }
    return Array.from(this.#left, ([transactionId, accountId]) => {
      return { accountId, transactionId, isNoted: this.#notes.isNoted(transactionId) };
    });
  }

  // --- What is in flight ---------------------------------------------------------------------------------------------

  async #scan(): Promise<void> {
    const { feed, partition } = this.#options;
    for (let afterId: string | null = null; ;) {
      this.#finishedSinceAsked = new Set();
      const page = await this.#reader.page(afterId);
      if (page === null || this.#stopping) return;
      if (this.#subscription === null) this.#followedFrom = page.sequence;
      this.#subscription ??= feed.subscribe<AccountRecord>('accounts', partition, page.sequence, (batch) =>
        this.#committed(batch),
      );
      for (const transaction of page.data) this.#recover(transaction);
      afterId = page.data.length < LIMITS.pollerScanPageMax ? null : (page.data.at(-1)?.id ?? null);
      if (afterId === null || this.#overflowed) return;
      // A long scan shares the process.
      await setImmediate();
    }
  }

  /** What expired before this process served the partition is still looked at: nobody else does it. Also what was due for its last look not
   *  long ago: perhaps nobody was there to make it. Pages come by account, so what expired last may be on the last page; once there are
   *  more than can be kept, what expired before those that are is no longer asked for. */
  async #scanExpired(): Promise<void> {
    const { now, routes, timings } = this.#options;
    let since = now() - afterExpiryMsMax(timings) - LIMITS.pollerMissedLooksMs;
    let found: ExpiredTransaction[] = [];
    for (let after: string | null = null; ;) {
      const page = await this.#reader.expired(since, this.#followedFrom, after);
      if (page === null || this.#stopping) return;
      found.push(...page.data.filter((each) => portOf(each, this.#ports, routes) !== undefined));
      after = page.next;
      if (after === null) return this.#lookAfterThese(found);
      if (found.length >= 2 * LIMITS.pollerLateMax) {
        found = lastExpired(found, LIMITS.pollerLateMax);
        since = found.at(-1)?.expiredAt ?? since;
      }
      // Nobody waits for it.
      await setImmediate();
    }
  }

  /** As many as there is room for beside what has expired since the scan began. */
  #lookAfterThese(found: readonly ExpiredTransaction[]): void {
    const since = [...this.#expired];
    this.#expired.clear();
    const others = found.filter(({ id }) => !this.#followed.has(id));
    const kept = lastExpired(others, LIMITS.pollerLateMax - since.length).reverse();
    for (const { expiredAt, ...transaction } of kept) this.#lookAfterExpiry(transaction, expiredAt);
    for (const id of since) this.#expired.add(id);
  }

  /** Callbacks that nobody had an answer to before this process served the partition. As many at once as there is room for. */
  async #scanNotes(): Promise<void> {
    for (let after: string | null = null; ;) {
      const page = await this.#reader.openItems(after);
      if (page === null) return;
      for (const { id, account_id: accountId, transaction_id: transactionId } of page.data) {
        if (!isCallbackNote(id, transactionId)) continue;
        while (!this.#noteFound(id, accountId, transactionId)) await this.#reader.pause();
        if (this.#stopping) return;
      }
      after = page.next;
      if (after === null) return;
    }
  }

  /** One of ours is known already. What a poller before this one sent may arrive after this one has looked. False: too many are
   *  looked into. */
  #noteFound(noteId: string, accountId: string, transactionId: string): boolean {
    if (this.#notes.found(transactionId, noteId)) return true;
    this.#notes.came(transactionId, accountId, noteId);
    const isTaken = this.#lookInto(accountId, transactionId);
    if (!isTaken) this.#notes.drop(transactionId);
    return isTaken;
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
        if (isCallbackNote(id, transactionId)) this.#noteFound(id, record.accountId, transactionId);
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
    if (watched !== null) this.#pursuit.begin(watched);
  }

  async #approved(accountId: string, transactionId: string): Promise<void> {
    const found = await this.#reader.get(accountId, transactionId, false);
    if (this.#stopping) return;
    // A callback before it was approved is looked into as one about something final. It is to be sent now.
    const before = this.#followed.get(transactionId);
    if (before?.late === true) this.forget(before);
    else if (before !== undefined) this.park(before);
    if (found.type === 'found') this.#submit(found.transaction);
    // A scan will find it.
    if (found.type === 'unanswered') this.#overflowed = true;
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
    const port = portOf(transaction, this.#ports, this.#options.routes);
    if (port === undefined) {
      this.#options.onNotice({ what: 'no_rail', provider, transactionId: id, detail: null });
      return null;
    }
    const watched = new Watched(transaction, port);
    this.#followed.add(watched);
    return watched;
  }

  #finished({ id: transactionId, type }: Final, accountId: string, expired: boolean): void {
    this.#finishedSinceAsked?.add(transactionId);
    const watched = this.#followed.get(transactionId);
    if (watched === undefined) {
      if (expired) void this.#lookAfterUnfollowed(accountId, transactionId);
      return;
    }
    // There may be more to say than the account was told: by a callback that nothing has answered yet, or by an answer of the provider that
    // did not reach the account before an operator, or expiry, ended it.
    const more = watched.isOwed || contradicts(watched.verdict, type);
    // A submit whose answer was lost, or is yet to come, may have reached the customer.
    const mayBePaid = watched.submitted || watched.maybeSent || watched.state === 'calling';
    this.forget(watched);
    if (expired && mayBePaid && this.#makeRoomForExpired()) {
      this.#lookAfterExpiry(watched, this.#options.now());
    } else {
      this.#remember(watched);
    }
    if (more && !this.lookInto(watched.accountId, transactionId)) {
      this.#hintNotice('hint_lost', transactionId, 'too many others are looked into');
    }
  }

  #lookAfterExpiry(transaction: PendingTransaction, expiredAt: number): void {
    const watched = this.#follow(transaction);
    if (watched === null) return;
    this.#expired.add(watched.id);
    this.#pursuit.lookAfterExpiry(watched, expiredAt);
  }

  /** It was let go, or the feed was slow: it may have been paid all the same. Of many at once some are not looked at. */
  async #lookAfterUnfollowed(accountId: string, transactionId: string): Promise<void> {
    if (this.#findingExpired >= LIMITS.pollerLateMax) return;
    const expiredAt = this.#options.now();
    this.#findingExpired++;
    const found = await this.#reader.get(accountId, transactionId, true);
    this.#findingExpired--;
    if (found.type !== 'found' || this.#stopping || this.#followed.has(transactionId)) return;
    const hasRail = portOf(found.transaction, this.#ports, this.#options.routes) !== undefined;
    if (hasRail && this.#makeRoomForExpired()) this.#lookAfterExpiry(found.transaction, expiredAt);
  }

  /** What expired first goes: few looks at it are to come, and it is the least likely to be paid. Never a payout that a person
   *  said to have failed: if it is paid, it was paid twice. */
  #makeRoomForExpired(): boolean {
    if (this.#expired.size < LIMITS.pollerLateMax) return true;
    for (const id of this.#expired) {
      const watched = this.#followed.get(id);
      assert(watched !== undefined, 'what expired and is looked at is followed');
      // Its provider has something to say of it, or has said it, and its account has yet to hear that.
      if (watched.hinted || watched.verdict !== null || watched.expiresAt === null) {
        this.park(watched);
        continue;
      }
      this.forget(watched);
      return true;
    }
    return false;
  }

  #remember(watched: Watched): void {
    this.#recent.set(watched.id, watched);
    if (this.#recent.size <= LIMITS.pollerRecentMax) return;
    for (const oldest of this.#recent.keys()) {
      this.#recent.delete(oldest);
      break;
    }
  }

  // --- Callbacks -----------------------------------------------------------------------------------------------------

  /** A callback, or as good as one. False: too many about what has ended or is not known here. */
  lookInto(accountId: string, transactionId: string): boolean {
    // First: the answer may come before it returns.
    this.#notes.came(transactionId, accountId);
    const isTaken = this.#lookInto(accountId, transactionId);
    if (!isTaken) this.#notes.drop(transactionId);
    return isTaken;
  }

  #lookInto(accountId: string, transactionId: string): boolean {
    const watched = this.#followed.get(transactionId);
    if (watched !== undefined) {
      if (watched.accountId === accountId) this.#pursuit.hint(watched);
      else this.park(watched);
      return true;
    }
    if (this.#lookingInto.has(transactionId)) return true;
    if (this.#stopping) {
      this.#left.set(transactionId, accountId);
      return true;
    }
    if (this.#lookingInto.size + this.#called.size >= LIMITS.pollerLateMax) return false;
    const recent = this.#recent.get(transactionId);
    if (recent !== undefined) {
      if (recent.accountId === accountId) this.#lookAgain(recent, recent.enquiredAt);
      return true;
    }
    this.#lookingInto.set(transactionId, accountId);
    void this.#findOut(accountId, transactionId).finally(() => this.#lookingInto.delete(transactionId));
    return true;
  }

  /** In flight after all, final, or never ours. */
  async #findOut(accountId: string, transactionId: string): Promise<void> {
    // For as long as it takes: the account may be moving, or its node down.
    const ask = (evenFinal: boolean) => this.#reader.get(accountId, transactionId, evenFinal, Infinity);
    const pending = await ask(false);
    const found = pending.type === 'absent' ? await ask(true) : pending;
    // It was stopped.
    if (found.type === 'unanswered' || this.#stopping) return;
    if (found.type === 'absent') return this.#raiseUnknown(accountId, transactionId);

    if (pending.type === 'absent') return this.#lookAgain(found.transaction, 0);
    this.#recover(found.transaction);
    const watched = this.#followed.get(transactionId);
    if (watched === undefined) this.#waiters.end(transactionId, UNAVAILABLE);
    // Others may have come meanwhile, while the provider was asked, or its account told: whoever waits, waits for this enquiry.
    else this.#pursuit.hint(watched);
  }

  /** It is about nothing, or about what is in flight, which the next poller finds and asks about anyway. Not if an outcome is or may be on
   *  its way to the account, or an answer of the provider on its way here: more may have happened since. */
  #needsNoAnswer(accountId: string, transactionId: string): boolean {
    const followed = this.#followed.get(transactionId);
    const known = followed ?? this.#recent.get(transactionId);
    if (known !== undefined && known.accountId !== accountId) return true;
    if (followed === undefined) return false;
    const { late, told, tells, verdict, state, next, createdAt } = followed;
    const isBeingEnquired = state === 'calling' && next === 'enquire';
    const mayBeOnItsWay = tells > 0 || createdAt <= this.#foundUntil;
    return (
      !late && told === null && verdict === null && state !== 'telling' && !isBeingEnquired && !mayBeOnItsWay
    );
  }

  /** It is final; the provider may say otherwise now. */
  #lookAgain(transaction: PendingTransaction, enquiredAt: number): void {
    // A scan may have come upon it in the meantime.
    const followed = this.#followed.get(transaction.id);
    const watched = followed ?? this.#follow(transaction);
    if (watched === null) return this.#waiters.end(transaction.id, UNAVAILABLE);
    if (followed === undefined) {
      watched.beLate(enquiredAt);
      this.#called.add(watched.id);
    }
    this.#pursuit.hint(watched);
  }

  #raiseUnknown(accountId: string, transactionId: string): void {
    this.#hintNotice('unknown_reference', transactionId, null);
    const { bus, partition } = this.#options;
    const detail = 'A callback came for a transaction that the account does not have.';
    const deadline = messageDeadline(this.#options);
    bus.send(
      'accounts',
      partition,
      { type: 'RaiseReconciliation', accountId, deadline, kind: 'UNKNOWN_REFERENCE', transactionId, detail },
      (reply) => {
        if (reply.type !== 'done') this.#hintNotice('hint_lost', transactionId, detail);
        this.#notes.drop(transactionId);
        this.#waiters.end(transactionId, reply.type === 'done' ? DONE : UNAVAILABLE);
      },
    );
  }

  #hintNotice(what: 'hint_lost' | 'unknown_reference', transactionId: string, detail: string | null): void {
    this.#options.onNotice({ what, provider: null, transactionId, detail });
  }

  // --- For the pursuit -----------------------------------------------------------------------------------------------

  isFull(): boolean {
    return this.#followed.size > LIMITS.pollerPendingMax;
  }

  at(number: number): Watched {
    return this.#followed.at(number);
  }

  find(id: string): Watched | undefined {
    const watched = this.#followed.get(id);
    if (watched === undefined || (watched.state !== 'gone' && !watched.late)) return watched;
    this.park(watched);
    return undefined;
  }

  park(watched: Watched): void {
    this.#followed.park(watched);
  }

  forget(watched: Watched): void {
    this.#pursuit.end(watched);
    this.#expired.delete(watched.id);
    this.#called.delete(watched.id);
    this.#followed.remove(watched);
  }

  letGo(watched: Watched): void {
    if (!this.#overflowed) {
      const { provider, id } = watched;
      this.#options.onNotice({ what: 'follows_too_many', provider, transactionId: id, detail: null });
    }
    this.#overflowed = true;
    this.forget(watched);
    // A scan finds it, unless it has ended by then.
    this.#waiters.end(watched.id, UNAVAILABLE);
  }

  asked(id: string): void {
    this.#waiters.asked(id);
    this.#notes.asked(id);
  }

  answered(id: string): void {
    this.#waiters.answered(id);
    this.#notes.answered(id);
  }

  concluded(id: string, verdict: Verdict): void {
    this.#waiters.concluded(id, verdict);
    this.#notes.concluded(id, verdict);
  }

  taken(id: string, verdict: Verdict): void {
    this.#waiters.taken(id, verdict);
    this.#notes.taken(id, verdict);
  }

  gaveUp(id: string): void {
    this.#notes.drop(id);
    this.#waiters.end(id, UNAVAILABLE);
  }

  letGoWaiting(id: string): void {
    const watched = this.find(id);
    if (watched === undefined) return;
    if (isParkable(watched) && watched.lastUntil === 0 && !watched.acceptanceUntold) this.letGo(watched);
    else this.park(watched);
  }
}
