// How one followed transaction is brought to its end: what to do when it is due, and what the rail's answer means for it. What its
// account is told is in telling.ts; which transactions there are is the partition's (poller-partition.ts).
//
// Invariants:
//   - A transaction that may have been sent is enquired about before it is sent again, and always under one reference.
//   - Only a final answer of the provider ends a payout or withdrawal. Charges and deposits also expire, after a last
//     enquiry; as provider_unavailable when the provider certainly never had them.
//   - A callback causes an enquiry, never more: at most one each `hintGapMs` for a transaction.
//   - While another process may have the partition, no rail is called and nothing is given up: that process may have sent or ended it.
//   - Every answer leaves the transaction in the wheel, with its rail, with its account, or gone: nothing is lost sight of.
//   - Whatever comes in from outside ends by parking what it was about, if that only waits: the object is not used after that.

import { LIMITS } from '../../src/limits.ts';
import type { EnquiryResult, SubmitResult, Terminal } from '../../src/rails/rail.ts';
import { type Answer, WithdrawalSubmits } from './withdrawal-submits.ts';
import { NONE } from './id-index.ts';
import type { Keeper, PursuitOptions } from './keeper.ts';
import { neverAccepted, noticeOf, type Notice, providerForgot, sentNoMore, waitsForLong } from './notice.ts';
import type { Caller } from './rail-lane.ts';
import {
  afterExpiryGapMs,
  endsAt,
  enquiryGapMs,
  jittered,
  lastEnquiriesMsAt,
  noPlaceGapMs,
  notBeforeAskedMs,
  retryGapMs,
} from './schedule.ts';
import { Telling } from './telling.ts';
import { TimingWheel } from './timing-wheel.ts';
import { Waiting } from './waiting.ts';
import type { Watched } from './watched.ts';

/** The longest that a first submit waits for a rail that is down. */
const UNSENT_MS = 86_400_000;

export class Pursuit implements Caller {
  readonly #options: PursuitOptions;
  readonly #keeper: Keeper;
  readonly #wheel: TimingWheel;
  readonly #waiting: Waiting;
  readonly #withdrawalSubmits: WithdrawalSubmits;
  readonly #account: Telling;
  /** With their rail when a wallet of their account was revoked: unless they were sent by then, their account is asked anew. */
  readonly #recalled = new WeakSet<Watched>();
  #stopping = false;

  constructor(options: PursuitOptions, keeper: Keeper) {
    this.#options = options;
    this.#keeper = keeper;
    this.#wheel = new TimingWheel(options.now());
    this.#waiting = new Waiting(options, keeper, this.#wheel);
    const onAnswer = (watched: Watched, answer: Answer): void => {
      this.#answeredToSubmit(watched, answer);
      keeper.park(watched);
    };
    this.#withdrawalSubmits = new WithdrawalSubmits({ ...options, onAnswer });
    const ours = { ...options, holds: () => this.#isOurs() };
    const askAgain = (watched: Watched): void => this.#askAgain(watched);
    this.#account = new Telling(ours, keeper, { wheel: this.#wheel, waiting: this.#waiting, askAgain });
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#account.isIdle && this.#withdrawalSubmits.isIdle;
  }

  /** Calls nobody any more; only what rails still answer is told to accounts. */
  stop(): void {
    this.#stopping = true;
  }

  tick(now: number): void {
    for (let taken = 0; taken < LIMITS.pollerDuePerTickMax; taken++) {
      const number = this.#wheel.takeDue(now);
      if (number === NONE) break;
      const watched = this.#keeper.at(number);
      this.#due(watched, now);
      this.#keeper.park(watched);
    }
  }

  /** It has ended, or is somebody else's. */
  end(watched: Watched): void {
    // A callback whose enquiry waited for its turn still waits.
    watched.hinted = watched.isOwed;
    this.#account.settleVerdict(watched);
    watched.state = 'gone';
    this.#wheel.remove(watched.number);
  }

  /** Nobody has sent it yet. */
  begin(watched: Watched): void {
    this.#call(watched);
    this.#keeper.park(watched);
  }

  /** A callback came for it. */
  hint(watched: Watched): void {
    this.#hint(watched);
    this.#keeper.park(watched);
  }

  #hint(watched: Watched): void {
    watched.hinted = true;
    // The provider speaks of it, so it has it, whatever the submits were answered, or will be.
    watched.mayHaveArrived();
    if (watched.phase === 'called') watched.enquiries = 0;
    if (watched.isQueuedToEnquire && !watched.isUrgent) return this.#call(watched);
    if (watched.state !== 'waiting' && watched.state !== 'taken') return;
    watched.next = 'enquire';
    const now = this.#options.now();
    const at = Math.max(now, watched.enquiredAt + this.#options.timings.hintGapMs);
    if (at > now) this.#wheel.setBy(watched.number, at);
    else this.#due(watched, now);
  }

  /** A wallet was revoked. `ofAccount`: those of its account that are objects. */
  revoked(ofAccount: Iterable<Watched>): void {
    this.#withdrawalSubmits.revoked();
    for (const watched of ofAccount) {
      if (watched.next !== 'submit' || watched.type !== 'WITHDRAWAL') continue;
      if (watched.state === 'calling') this.#recalled.add(watched);
      if (watched.state !== 'queued') continue;
      this.#askToSubmit(watched);
      this.#keeper.park(watched);
    }
  }

  /** It was in flight before this process knew of it: unless it was certainly not sent, enquire first. */
  resume(watched: Watched): void {
    const { now, monotonic, random, timings } = this.#options;
    if (watched.unsent) return this.begin(watched);
    watched.next = 'enquire';
    watched.mayHaveArrived();
    if (watched.submitted) {
      this.#waiting.until(watched, now() + Math.floor(timings.recoverySpreadMs * random()));
    } else {
      watched.graceUntil = monotonic() + graceAfterOtherMs(watched);
      this.#call(watched);
    }
    this.#keeper.park(watched);
  }

  /** It was taken for one that was in flight before this process knew of it, and was not: nobody else has sent it, so what its provider
   *  does not know is sent at once. Of a withdrawal its account says whether it was. */
  onlyOurs(watched: Watched): void {
    const { type, next, submits, submitted, isLate, isOwed } = watched;
    const isOnlyFound = next === 'enquire' && submits === 0 && !submitted && !isLate && !isOwed;
    if (isOnlyFound && type !== 'WITHDRAWAL') {
      watched.graceUntil = 0;
      if (watched.state === 'waiting') this.#wheel.setBy(watched.number, this.#options.now());
    }
    this.#keeper.park(watched);
  }

  /** It expired at the account at `expiredAt`, and may be paid after all: look now and then. The last look that was due before this process
   *  knew of it is made up for, unless the next one comes first: perhaps nobody was there to make it. */
  lookAfterExpiry(watched: Watched, expiredAt: number): void {
    watched.beLate('expired', 0);
    const { now, random, timings } = this.#options;
    const at = now();
    let dueAt = expiredAt + afterExpiryGapMs(timings, 0, random);
    let missed = 0;
    while (dueAt <= at && missed < timings.lateEnquiries) {
      dueAt += afterExpiryGapMs(timings, ++missed, random);
    }
    if (missed > 0) {
      watched.enquiries = missed - 1;
      dueAt = Math.min(dueAt, at + Math.floor(timings.makeUpSpreadMs * random()));
    }
    this.#waiting.until(watched, dueAt);
    this.#keeper.park(watched);
  }

  // --- What is due ---------------------------------------------------------------------------------------------------

  #due(watched: Watched, now: number): void {
    switch (watched.state) {
      case 'waiting':
      case 'queued':
        return this.#dueToCall(watched, now);
      case 'untaken':
        return this.#account.tell(watched);
      case 'taken':
        return this.#dueTaken(watched, now);
      case 'beginning':
      case 'calling':
      case 'telling':
      case 'asking':
      case 'parked':
      case 'gone':
        return;
    }
  }

  #dueToCall(watched: Watched, now: number): void {
    if (this.#stopping) return;
    if (!this.#options.holds()) return this.#notOurs(watched);
    if (watched.isLate) {
      if (watched.state === 'waiting') this.#call(watched);
      return;
    }
    // A callback waits for an enquiry, which brings up what its account has yet to hear.
    if (this.#account.tellsAcceptanceAgain(watched) && !watched.hinted) {
      this.#waiting.rest(watched);
      return this.#account.tellAcceptance(watched, null);
    }
    const end = endsAt(this.#options.timings, watched);
    if (end !== null && now >= end) return this.#dueLast(watched, now, now - end);
    if (watched.state === 'waiting') this.#call(watched);
    else this.#waiting.endInTime(watched);
  }

  /** Its account took its end, and the feed did not end it. */
  #dueTaken(watched: Watched, now: number): void {
    if (this.#stopping) return;
    if (!this.#options.holds()) return this.#wheel.set(watched.number, now + this.#shortGapMs());
    if (!watched.isLate) return this.#account.askAccount(watched);
    if (watched.hinted) this.#call(watched);
    else this.#keeper.forget(watched);
  }

  /** It has expired: one last enquiry, if the provider may have it and answers in time. */
  #dueLast(watched: Watched, now: number, lateMs: number): void {
    const isUnderWay = watched.isQueuedToEnquire && watched.isUrgent;
    if (watched.lastUntil === 0) watched.lastUntil = now + lastEnquiriesMsAt(this.#options.timings, lateMs);
    const isOver = watched.submission === 'none' || now >= watched.lastUntil;
    if (isOver) return this.#expire(watched);
    if (isUnderWay) return this.#wheel.set(watched.number, watched.lastUntil);
    watched.next = 'enquire';
    this.#call(watched);
  }

  #expire(watched: Watched): void {
    watched.next = 'enquire';
    this.#beginLastAnew(watched);
    this.#account.expire(watched);
  }

  /** If it comes back it has another last enquiry: its account's time is behind the one here, and whoever pays until that has come has
   *  paid; or its account did not take what was found out. */
  #beginLastAnew(watched: Watched): void {
    watched.unanswered = 0;
    watched.lastUntil = 0;
  }

  /** The provider remembers what its account does not take. A callback that this was the answer to is not answered. */
  #askAgain(watched: Watched): void {
    watched.hinted ||= watched.byHint;
    this.#beginLastAnew(watched);
    this.#waiting.rest(watched);
  }

  /** Over to the rail, for `watched.next`. */
  #call(watched: Watched): void {
    if (watched.next === 'submit' && watched.type === 'WITHDRAWAL') return this.#askToSubmit(watched);
    this.#toRail(watched);
  }

  #toRail(watched: Watched): void {
    if (this.#stopping) return;
    if (!this.#options.holds()) return this.#notOurs(watched);
    // A submit is the answer to no callback, whatever was enquired about before.
    watched.byHint = watched.next === 'enquire' && watched.isOwed;
    if (watched.next === 'enquire') {
      watched.hinted = false;
      this.#keeper.callbacks.asked(watched.id);
    }
    if (!watched.port.lane.call(watched)) {
      if (watched.next === 'enquire') watched.hinted = watched.byHint;
      const { random, timings } = this.#options;
      this.#outOfTurn(watched, noPlaceGapMs(timings, watched.port.followed, random));
    } else if (watched.state === 'queued') {
      this.#waiting.endInTime(watched);
    }
  }

  isToBeCalled(watched: Watched): boolean {
    if (this.#options.holds()) return true;
    this.#notOurs(watched);
    this.#keeper.park(watched);
    return false;
  }

  isToBeSent(watched: Watched): boolean {
    return watched.state === 'calling' && this.#isOurs() && !this.#recalled.has(watched);
  }

  /** False from when another process may have the partition; also where this one has it again, in a pursuit of its own. */
  #isOurs(): boolean {
    return !this.#stopping && this.#options.holds();
  }

  /** Its rail has no place for it. */
  #outOfTurn(watched: Watched, gapMs: number): void {
    watched.hinted = watched.isOwed;
    this.#waiting.restFor(watched, gapMs);
  }

  /** It is not this process's to call now, nor to expire: that its time is over is no reason to look at it sooner. */
  #notOurs(watched: Watched): void {
    const gapMs = this.#shortGapMs();
    this.#outOfTurn(watched, gapMs);
    if (watched.state === 'waiting') this.#wheel.set(watched.number, this.#options.now() + gapMs);
  }

  #shortGapMs(): number {
    const { random, timings } = this.#options;
    return retryGapMs(timings, 3, random);
  }

  /** While the rail is down the first submit is not recorded: once it is, the account no longer ends the withdrawal when its payout wallet
   *  is revoked. But not for longer than a day: it may be the only call that can find out that the rail is up. */
  #askToSubmit(watched: Watched): void {
    if (this.#stopping) return;
    if (!this.#options.holds()) return this.#notOurs(watched);
    if (watched.unsent) {
      const now = this.#options.monotonic();
      if (watched.graceUntil === 0) watched.graceUntil = now + UNSENT_MS;
      if (!watched.port.lane.takesCalls && now < watched.graceUntil) return this.#waiting.rest(watched);
    }
    this.#wheel.remove(watched.number);
    this.#withdrawalSubmits.ask(watched);
  }

  #answeredToSubmit(watched: Watched, answer: Answer): void {
    switch (answer.submission) {
      case 'begun':
        return this.#toRail(watched);
      case 'again':
      case 'begun_by_other':
        // A callback may have come while this was asked: somebody has sent it.
        if (answer.submission === 'again' && !watched.hinted) return this.#toRail(watched);
        watched.graceUntil = this.#options.monotonic() + graceAfterOtherMs(watched);
        return this.#enquireAfter(watched, 0);
      case 'revoked':
        this.#tellOperators(sentNoMore(watched));
        watched.next = 'enquire';
        return this.#waiting.restUnlessHinted(watched);
      case 'unanswered':
        return this.#waiting.rest(watched);
      case 'ended':
        if (answer.code !== null) this.#options.onNotice(noticeOf('not_taken', watched, answer.code));
        this.#keeper.forget(watched);
        // A callback may have come while this was asked: somebody has sent it, whatever its account ended it as.
        if (watched.hinted) this.#keeper.lookInto(watched.accountId, watched.id);
        return;
    }
  }

  // --- What the rail answered ----------------------------------------------------------------------------------------

  submitted(watched: Watched, result: SubmitResult): void {
    if (watched.state === 'gone') return this.#answeredTooLate(watched, result);
    this.#submitted(watched, result);
    this.#keeper.park(watched);
  }

  #submitted(watched: Watched, result: SubmitResult): void {
    const { monotonic, random, timings } = this.#options;
    watched.submits++;
    this.#recalled.delete(watched);
    watched.graceUntil = monotonic() + watched.port.lane.rail.notFoundGraceMs;
    switch (result.type) {
      case 'accepted':
        return this.#accepted(watched, result.providerStatus);
      case 'not_accepted':
        if (result.mayHaveIt === true) watched.mayHaveArrived();
        this.#tellOperators(neverAccepted(watched, result.reason, timings));
        if (watched.hinted) return this.#enquireAfter(watched, 0, result.retryAfterMs);
        return this.#waiting.rest(watched, result.retryAfterMs);
      case 'unknown':
        this.#tellOperators(neverAccepted(watched, result.reason, timings));
        return this.#enquireAfter(watched, jittered(timings.enquiryAfterLossMs, random), result.retryAfterMs);
      case 'succeeded':
      case 'failed':
      case 'reversed':
        // If it was taken before, that may be why it is refused: a limit is reached, our float is empty.
        if (result.type === 'failed' && watched.mayBeThere) return this.#enquireAfter(watched, 0);
        watched.mayHaveArrived();
        watched.next = 'enquire';
        return this.#account.conclude(watched, result, 'API');
    }
  }

  #accepted(watched: Watched, providerStatus: string | null): void {
    watched.next = 'enquire';
    watched.hasArrived();
    if (watched.hinted) {
      this.#account.tellAcceptance(watched, providerStatus);
      return this.#call(watched);
    }
    this.#waiting.rest(watched);
    this.#account.tellAcceptance(watched, providerStatus);
  }

  /** Nobody knows whether the provider has it. At once, when a callback came in the meantime, unless it asks for more time. */
  #enquireAfter(watched: Watched, delayMs: number, retryAfterMs?: number): void {
    watched.mayHaveArrived();
    watched.next = 'enquire';
    if (watched.hinted && retryAfterMs === undefined) return this.#call(watched);
    const { now, random } = this.#options;
    this.#waiting.until(watched, now() + notBeforeAskedMs(delayMs, retryAfterMs, random));
  }

  enquired(watched: Watched, result: EnquiryResult): void {
    if (watched.state === 'gone') return this.#answeredTooLate(watched, result);
    this.#enquired(watched, result);
    // What is final its account is to have first.
    if (result.type === 'pending' || result.type === 'not_found') this.#keeper.callbacks.answered(watched.id);
    this.#keeper.park(watched);
  }

  #enquired(watched: Watched, result: EnquiryResult): void {
    watched.enquiries++;
    watched.enquiredAt = this.#options.now();
    switch (result.type) {
      case 'pending':
      case 'not_found':
      case 'unknown':
        if (watched.isLate) return this.#enquiredLate(watched, result);
        return this.#enquiredInFlight(watched, result, watched.enquiredAt);
      case 'succeeded':
      case 'failed':
      case 'reversed':
        return this.#account.conclude(
          watched,
          result,
          watched.byHint || watched.hinted ? 'PROVIDER_CALLBACK' : 'PROVIDER_POLL',
        );
    }
  }

  #enquiredInFlight(watched: Watched, result: Exclude<EnquiryResult, Terminal>, now: number): void {
    const { timings } = this.#options;
    switch (result.type) {
      case 'pending':
        this.#tellOperators(waitsForLong(watched, now, `pending: ${result.providerStatus ?? ''}`, timings));
        return this.#stillPending(watched, result.providerStatus);
      case 'not_found':
        return this.#notFound(watched, now);
      case 'unknown':
        this.#tellOperators(waitsForLong(watched, now, `unknown: ${result.reason}`, timings));
        return this.#unanswered(watched, result.retryAfterMs);
    }
  }

  /** Its account hears that its provider has it before it is to expire: by the account's time that may be a while yet. */
  #stillPending(watched: Watched, providerStatus: string | null): void {
    const isLast = watched.lastUntil !== 0;
    watched.hasArrived();
    if (!isLast) this.#waiting.restUnlessHinted(watched);
    this.#account.tellAcceptance(watched, providerStatus);
    if (isLast) this.#expire(watched);
  }

  #notFound(watched: Watched, now: number): void {
    const { rail } = watched.port.lane;
    if (watched.submitted && !rail.forgetful) {
      this.#tellOperators(providerForgot(watched, this.#options.monotonic()));
      return this.#unanswered(watched);
    }
    // A callback came meanwhile: it has it by now.
    if (watched.hinted) return this.#waiting.until(watched, now + this.#options.timings.hintGapMs);
    const graceMs = watched.graceUntil - this.#options.monotonic();
    if (!watched.unsent && graceMs > 0) return this.#waiting.until(watched, now + Math.ceil(graceMs));
    watched.hasNotArrived();
    if (watched.lastUntil !== 0) return this.#expire(watched);
    watched.next = 'submit';
    // Unless it has expired while it was asked about.
    watched.state = 'waiting';
    this.#due(watched, now);
  }

  #unanswered(watched: Watched, retryAfterMs?: number): void {
    // A callback stays until an answer is usable: its account may hear meanwhile of an end that was found out before it, or that it has
    // expired, and without the callback nobody would ask any more.
    const calledAgain = watched.hinted;
    watched.hinted ||= watched.byHint;
    const { lastEnquiries, lastEnquiriesMs } = this.#options.timings;
    const hasLong = watched.lastUntil - this.#options.now() > lastEnquiriesMs;
    if (watched.lastUntil !== 0 && ++watched.unanswered >= lastEnquiries && !hasLong) {
      return this.#expire(watched);
    }
    this.#waiting.rest(watched, retryAfterMs);
    if (calledAgain && watched.state === 'waiting') this.#waiting.answerHint(watched, retryAfterMs);
    if (watched.hinted && this.#account.tellsAcceptanceAgain(watched)) {
      this.#account.tellAcceptance(watched, null);
    }
  }

  /** Its account made it final while the rail was busy with it. The refusal of a submit says nothing of what was submitted before; a
   *  failure that an enquiry found may contradict what an operator said. */
  #answeredTooLate(watched: Watched, result: SubmitResult | EnquiryResult): void {
    const isEnquiryThatSays = watched.next === 'enquire' && (watched.byHint || result.type === 'failed');
    if (isEnquiryThatSays || result.type === 'succeeded' || result.type === 'reversed') {
      this.#keeper.lookInto(watched.accountId, watched.id);
    }
  }

  // --- What has ended ------------------------------------------------------------------------------------------------

  /** Its provider says nothing else than before. */
  #enquiredLate(watched: Watched, result: Exclude<EnquiryResult, Terminal>): void {
    if (result.type === 'unknown') this.#unansweredLate(watched, result.retryAfterMs);
    else this.#restLate(watched);
  }

  /** Nobody else may ever ask about what has ended, so a callback waits until its provider has said something. Meanwhile the looks after
   *  expiry are not made. */
  #unansweredLate(watched: Watched, retryAfterMs?: number): void {
    const calledAgain = watched.hinted;
    watched.hinted ||= watched.byHint;
    if (!watched.hinted) return this.#restLate(watched);
    const { now, random, timings } = this.#options;
    watched.enquiries--;
    if (++watched.unanswered >= timings.hintEnquiries) return this.#giveUpHint(watched);
    const gapMs = enquiryGapMs(timings, watched.unanswered - 1, watched.port.lane.isBusy, random);
    this.#waiting.until(watched, now() + notBeforeAskedMs(gapMs, retryAfterMs, random));
    if (calledAgain) this.#waiting.answerHint(watched, retryAfterMs);
  }

  #giveUpHint(watched: Watched): void {
    this.#options.onNotice(noticeOf('hint_lost', watched, `${watched.unanswered} enquiries, none answered`));
    watched.hinted = false;
    this.#keeper.callbacks.gaveUp(watched.id);
    if (watched.phase === 'expired') this.#restLate(watched);
    else this.#keeper.forget(watched);
  }

  #restLate(watched: Watched): void {
    const { now, random, timings } = this.#options;
    watched.unanswered = 0;
    if (watched.enquiries >= timings.lateEnquiries && !watched.hinted) return this.#keeper.forget(watched);
    if (watched.phase === 'called') return this.#waiting.restUnlessHinted(watched);
    this.#waiting.until(watched, now() + afterExpiryGapMs(timings, watched.enquiries, random));
    if (watched.hinted) this.#waiting.answerHint(watched);
  }

  #tellOperators(notice: Notice | null): void {
    if (notice !== null) this.#options.onNotice(notice);
  }
}

/** Another poller may have submitted it. Its answer, a refusal perhaps, may be on its way to the account for as long as a command may take,
 *  and would fail what was sent again meanwhile. */
function graceAfterOtherMs({ port }: Watched): number {
  return Math.max(port.lane.rail.notFoundGraceMs, LIMITS.pollerCommandDeadlineMs);
}
