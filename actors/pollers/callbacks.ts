// The callbacks of one partition: what each is about is found out, and its provider asked. In flight, final, or never ours. Who waits for
// the answer is waiters.ts; what is left of one that has none yet is callback-notes.ts.
//
// Invariants:
//   - A callback is looked into however late it comes; what nobody here looks into is handed on (`left`), or said to be lost.
//   - Of those about what has ended, or is not known here, a bounded number is looked into at once.

import { type OnReply, UNAVAILABLE } from '../../src/bus/bus.ts';
import type { PendingTransaction } from '../../src/domain/account-command.ts';
import type { PollerMessage } from '../../src/domain/poller-message.ts';
import { isCallbackNote } from '../../src/domain/decide/reconciliation-id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { AccountReader } from './account-reader.ts';
import { CallbackNotes } from './callback-notes.ts';
import type { Followed } from './followed.ts';
import { type CallbackKeeper, type LeftCallback, messageDeadline, type PursuitOptions } from './keeper.ts';
import type { Pursuit } from './pursuit.ts';
import { keepRecent } from './recent.ts';
import type { Verdict } from './verdict.ts';
import { DONE, Waiters } from './waiters.ts';
import type { Watched } from './watched.ts';

export interface CallbacksOptions extends PursuitOptions {
  readonly reader: AccountReader;
  readonly pursuit: Pursuit;
  readonly followed: Followed;
  /** Null: it is followed already, or cannot be. */
  readonly follow: (transaction: PendingTransaction) => Watched | null;
  /** As one that was in flight before this process knew of it. */
  readonly recover: (transaction: PendingTransaction) => void;
  /** What was created up to then may have been found in flight. By the accounts' time. */
  readonly foundUntil: () => number;
}

export class Callbacks implements CallbackKeeper {
  readonly #options: CallbacksOptions;
  readonly #reader: AccountReader;
  readonly #pursuit: Pursuit;
  readonly #followed: Followed;
  /** Ended a moment ago, oldest first: what callbacks that come late or twice are mostly about. */
  readonly #recent = new Map<string, Watched>();
  /** About what their account is being asked about: its id by the transaction's. */
  readonly #lookingInto = new Map<string, string>();
  /** The same, of those that nobody here looks into any more. */
  readonly #left = new Map<string, string>();
  /** Ids of the transactions that are followed only because a callback came after their end. */
  readonly #called = new Set<string>();
  readonly #waiters = new Waiters();
  readonly #notes: CallbackNotes;
  #stopping = false;

  constructor(options: CallbacksOptions) {
    this.#options = options;
    this.#reader = options.reader;
    this.#pursuit = options.pursuit;
    this.#followed = options.followed;
    const onNoted = (id: string): void => this.#waiters.end(id, DONE);
    this.#notes = new CallbackNotes({ ...options, onNoted });
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#notes.isIdle;
  }

  /** Transactions that are followed although they have ended. */
  get calledSize(): number {
    return this.#called.size;
  }

  hasRoom(times: number): boolean {
    return times * (this.#lookingInto.size + this.#called.size) < LIMITS.pollerLateMax;
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
    this.#waiters.add(transactionId, onReply, this.#options.monotonic());
    if (!this.lookInto(accountId, transactionId)) this.#waiters.end(transactionId, UNAVAILABLE);
  }

  tick(): void {
    this.#waiters.tick(this.#options.monotonic());
    this.#notes.tick();
  }

  /** Looks into nothing any more, and notes what is not noted yet. */
  stop(): void {
    this.#stopping = true;
    this.#waiters.endAll();
    for (const [transactionId, accountId] of this.#lookingInto) this.#left.set(transactionId, accountId);
    this.#notes.stop();
  }

  /** When it has stopped: those that were not looked into, but for those about what the next owner finds in flight. `expired`: ids of
   *  those that are followed although they have expired. */
  left(expired: Iterable<string>): LeftCallback[] {
    const late = [...this.#called, ...expired].flatMap((id) => this.#followed.get(id) ?? []);
    const concluded = this.#followed.awake().filter(({ isConcluded }) => isConcluded);
    for (const watched of [...late, ...concluded]) {
      const isBeingAsked = watched.byHint && watched.state === 'calling';
      if (watched.isOwed || isBeingAsked) this.#left.set(watched.id, watched.accountId);
    }
    return Array.from(this.#left, ([transactionId, accountId]) => {
      return { accountId, transactionId, isNoted: this.#notes.isNoted(transactionId) };
    });
  }

  /** It has ended. */
  remember(watched: Watched): void {
    this.#recent.set(watched.id, watched);
    keepRecent(this.#recent);
  }

  /** It is followed no more. */
  forget(id: string): void {
    this.#called.delete(id);
  }

  /** It is followed no more although it is in flight. A scan finds it, unless it has ended by then. */
  letGo(id: string): void {
    this.#waiters.end(id, UNAVAILABLE);
  }

  /** Callbacks that nobody had an answer to before this process served the partition. As many at once as there is room for. */
  async scanNotes(): Promise<void> {
    for (let after: string | null = null; ;) {
      const page = await this.#reader.openItems(after);
      if (page === null) return;
      for (const { id, account_id: accountId, transaction_id: transactionId } of page.data) {
        if (!isCallbackNote(id, transactionId)) continue;
        await this.noteInTurn(id, accountId, transactionId);
        if (this.#stopping) return;
      }
      after = page.next;
      if (after === null) return;
    }
  }

  /** One of ours is known already. What a poller before this one sent may arrive after this one has looked. While too many are looked
   *  into it waits. */
  async noteInTurn(noteId: string, accountId: string, transactionId: string): Promise<void> {
    while (!this.#noteFound(noteId, accountId, transactionId)) await this.#reader.pause();
  }

  /** False: too many are looked into. */
  #noteFound(noteId: string, accountId: string, transactionId: string): boolean {
    return this.#notes.found(transactionId, noteId) || this.lookInto(accountId, transactionId, noteId);
  }

  /** A callback, or as good as one. `noteId`: of what was noted of it; null: nothing. False: too many about what has ended or is not known
   *  here. */
  lookInto(accountId: string, transactionId: string, noteId: string | null = null): boolean {
    // First: the answer may come before it returns.
    this.#notes.came(transactionId, accountId, noteId);
    const isTaken = this.#lookInto(accountId, transactionId);
    if (!isTaken) this.#notes.drop(transactionId);
    return isTaken;
  }

  #lookInto(accountId: string, transactionId: string): boolean {
    const watched = this.#followed.get(transactionId);
    if (watched !== undefined) {
      if (watched.accountId === accountId) this.#pursuit.hint(watched);
      else this.#followed.park(watched);
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
    this.#options.recover(found.transaction);
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
    const { isLate, isConcluded, tells, state, next, createdAt } = followed;
    const isBeingAsked = state === 'beginning' || (state === 'calling' && next === 'enquire');
    const mayBeOnItsWay = tells > 0 || createdAt <= this.#options.foundUntil();
    return !isLate && !isConcluded && !isBeingAsked && !mayBeOnItsWay;
  }

  /** It is final; the provider may say otherwise now. */
  #lookAgain(transaction: PendingTransaction, enquiredAt: number): void {
    // A scan may have come upon it in the meantime.
    const followed = this.#followed.get(transaction.id);
    const watched = followed ?? this.#options.follow(transaction);
    if (watched === null) return this.#waiters.end(transaction.id, UNAVAILABLE);
    if (followed === undefined) {
      watched.beLate('called', enquiredAt);
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
}
