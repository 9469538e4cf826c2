// What an account is told of a followed transaction, and told again until it has taken it: that its provider has it, what became of
// it, that it has expired. What is found out is the pursuit's (pursuit.ts).
//
// Invariants: a verdict is held until its account has taken it, or has not answered for so often that the provider, which
// remembers, is asked again; what its submits came to is told by whoever has the partition alone; while its account has a verdict or
// a question, nothing else is done about a transaction.

import type { Reply } from '../../src/bus/bus.ts';
import { assert } from '../../src/domain/assert.ts';
import type { Source } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Terminal } from '../../src/rails/rail.ts';
import { type Keeper, messageDeadline, type PursuitOptions } from './keeper.ts';
import { noticeOf, ourFault } from './notice.ts';
import { calledAgainGapMs, jittered, retryGapMs } from './schedule.ts';
import type { TimingWheel } from './timing-wheel.ts';
import { isOfSubmits, NEVER_HAD_IT, outcomeOf, type Verdict } from './verdict.ts';
import type { Waiting } from './waiting.ts';
import type { Watched } from './watched.ts';

export interface TellingParts {
  readonly wheel: TimingWheel;
  readonly waiting: Waiting;
  /** Its account does not take what was found out. */
  readonly askAgain: (watched: Watched) => void;
}

export class Telling {
  readonly #options: PursuitOptions;
  readonly #keeper: Keeper;
  readonly #wheel: TimingWheel;
  readonly #parts: TellingParts;
  /** Commands with accounts. */
  #telling = 0;
  /** Verdicts that no account has taken yet. */
  #verdicts = 0;

  constructor(options: PursuitOptions, keeper: Keeper, parts: TellingParts) {
    this.#options = options;
    this.#keeper = keeper;
    this.#wheel = parts.wheel;
    this.#parts = parts;
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#telling === 0 && this.#verdicts === 0;
  }

  /** Of its acceptance, unless it was told. The answer finds it by its id: nearly always it says that all is well, and until then nobody
   *  holds the object. */
  tellAcceptance(watched: Watched, providerStatus: string | null): void {
    if (!watched.acceptanceUntold) return;
    const { bus, partition } = this.#options;
    watched.acceptanceUntold = false;
    this.#telling++;
    const deadline = messageDeadline(this.#options);
    const { accountId, id, port } = watched;
    const command = {
      type: 'RecordSubmission',
      accountId,
      deadline,
      transactionId: id,
      providerStatus,
    } as const;
    bus.send('accounts', partition, command, (reply) => {
      this.#telling--;
      if (reply.type !== 'done') this.#acceptanceNotTaken(id, reply);
      else if (this.#keeper.isFull(port)) this.#keeper.letGoWaiting(id);
    });
  }

  #acceptanceNotTaken(id: string, reply: Exclude<Reply, { type: 'done' }>): void {
    const watched = this.#keeper.find(id);
    if (watched === undefined) return;
    if (reply.type !== 'rejected') this.#tellAcceptanceAgain(watched);
    else this.#options.onNotice(noticeOf('not_taken', watched, reply.rejection.code));
    this.#keeper.park(watched);
  }

  #tellAcceptanceAgain(watched: Watched): void {
    watched.acceptanceUntold = true;
    watched.tells++;
    if (!this.tellsAcceptanceAgain(watched) || watched.state !== 'waiting') return;
    const { now, random, timings } = this.#options;
    this.#wheel.setBy(watched.number, now() + retryGapMs(timings, watched.tells, random));
  }

  /** After so many, the next enquiry brings it up again. */
  tellsAcceptanceAgain({ acceptanceUntold, tells }: Watched): boolean {
    return acceptanceUntold && tells <= LIMITS.pollerSendsMax;
  }

  conclude(watched: Watched, terminal: Terminal, source: Source): void {
    if (terminal.ourFault) this.#options.onNotice(ourFault(watched, terminal));
    const verdict = outcomeOf(watched, terminal, source, messageDeadline(this.#options));
    this.#keeper.callbacks.concluded(watched.id, verdict);
    this.#pass(watched, verdict);
  }

  /** Which is the answer to no callback. */
  expire(watched: Watched): void {
    const { accountId, id } = watched;
    const deadline = messageDeadline(this.#options);
    if (watched.submission === 'none') {
      this.#pass(watched, outcomeOf(watched, NEVER_HAD_IT, 'SYSTEM', deadline));
    } else {
      this.#pass(watched, { type: 'ExpireTransaction', accountId, deadline, transactionId: id });
    }
  }

  #pass(watched: Watched, verdict: Verdict): void {
    watched.verdict = verdict;
    this.#verdicts++;
    watched.tells = 0;
    this.tell(watched);
  }

  /** Its verdict, for the first time or again. */
  tell(watched: Watched): void {
    const { bus } = this.#options;
    const { verdict } = watched;
    assert(verdict !== null, 'an account is told a verdict');
    // Whoever has the partition now may have submitted it since, and had it accepted.
    if (isOfSubmits(verdict) && !this.#options.holds()) return this.#askProvider(watched);
    watched.state = 'telling';
    this.#wheel.remove(watched.number);
    this.#telling++;
    const command = watched.tells === 0 ? verdict : { ...verdict, deadline: messageDeadline(this.#options) };
    watched.tells++;
    bus.send('accounts', this.#options.partition, command, (reply) => {
      this.#telling--;
      // Its transaction may be followed anew since, and be asked about for a callback: that is not answered by this.
      if (reply.type === 'done' || reply.type === 'rejected') {
        this.#keeper.callbacks.taken(watched.id, verdict);
      }
      this.#told(watched, verdict, reply);
      this.#keeper.park(watched);
    });
  }

  #told(watched: Watched, verdict: Verdict, reply: Reply): void {
    if (watched.state === 'gone') return;
    const { now, random, timings } = this.#options;
    switch (reply.type) {
      case 'done':
        this.settleVerdict(watched);
        if (this.#mayLag(watched, verdict)) {
          watched.state = 'waiting';
          return this.#wheel.set(
            watched.number,
            now() + calledAgainGapMs(timings, watched.enquiries, random),
          );
        }
        watched.state = 'taken';
        // The feed usually ends it before that.
        return this.#wheel.set(watched.number, now() + this.#afterToldMs(watched));
      case 'rejected':
        this.#options.onNotice(noticeOf('not_taken', watched, reply.rejection.code));
        return this.#keeper.forget(watched);
      case 'unavailable':
      case 'unknown':
        if (watched.tells >= LIMITS.pollerSendsMax) return this.#askProvider(watched);
        watched.state = 'untaken';
        return this.#wheel.set(watched.number, now() + retryGapMs(timings, watched.tells, random));
    }
  }

  /** It remembers what its account does not take. */
  #askProvider(watched: Watched): void {
    this.settleVerdict(watched);
    this.#parts.askAgain(watched);
  }

  #afterToldMs(watched: Watched): number {
    const { random, timings } = this.#options;
    return watched.hinted ? timings.hintGapMs : jittered(timings.enquiryGapMs, random);
  }

  /** What its provider called about may be that it has taken the payment back, and its answers may know that a while later. It does not
   *  call again. Most such calls are about nothing new, so the first look again, soon, has room that later ones do not take. */
  #mayLag({ phase, hinted, enquiries }: Watched, verdict: Verdict): boolean {
    const stands = verdict.type === 'RecordOutcome' && verdict.outcome === 'SUCCESSFUL';
    if (!stands || phase !== 'called' || hinted) return false;
    if (enquiries > this.#options.timings.calledAgainLooks) return false;
    return this.#keeper.callbacks.hasRoom(enquiries === 1 ? 2 : 4);
  }

  /** There is nothing to tell any more. */
  settleVerdict(watched: Watched): void {
    if (watched.verdict !== null) this.#verdicts--;
    watched.verdict = null;
  }

  /** It took a verdict, and yet the feed did not end it: did it not agree, is its time behind the one here, or is it long final? */
  askAccount(watched: Watched): void {
    const { bus } = this.#options;
    const { accountId, id } = watched;
    watched.state = 'asking';
    this.#telling++;
    const deadline = messageDeadline(this.#options);
    bus.send(
      'accounts',
      this.#options.partition,
      { type: 'GetPending', accountId, deadline, transactionId: id },
      (reply) => {
        this.#telling--;
        this.#accountAnswered(watched, reply);
        this.#keeper.park(watched);
      },
    );
  }

  #accountAnswered(watched: Watched, reply: Reply): void {
    if (watched.state === 'gone') return;
    const { now, random, timings } = this.#options;
    switch (reply.type) {
      case 'done':
        return this.#parts.waiting.restUnlessHinted(watched);
      case 'rejected':
        this.#keeper.forget(watched);
        if (watched.hinted) this.#keeper.lookInto(watched.accountId, watched.id);
        return;
      case 'unavailable':
      case 'unknown':
        watched.state = 'taken';
        return this.#wheel.set(watched.number, now() + retryGapMs(timings, 3, random));
    }
  }
}
