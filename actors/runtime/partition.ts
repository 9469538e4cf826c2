// One partition of a group with a log: the single writer. A command is decided, its record appended, which gives its sequence,
// and applied in memory; when the record is durable the feed gets it and its caller is answered.
//
//   send ─▶ decide ─▶ append ─▶ evolve ─▶ (group commit) ─▶ feed ─▶ (next commit begins) ─▶ replies, waiters
//
// Invariants:
//   - Replies leave in log order and never before the log is durable up to what they tell, rejections and reads included:
//     a caller is never told of a state that a crash could take back.
//   - What is decided and not yet durable is bounded (LIMITS.mailboxMax): beyond it callers get `unavailable`, before
//     anything is decided. So is who waits for an answer (LIMITS.waitersMax); what ends a wait is not refused for that, nor what its
//     own record answers.
//   - What this version does not know changes nothing and is `unavailable`: nodes are upgraded one after the other.
//   - A timer that was taken is decided: none is taken while it would be refused.
//   - Who was let in is answered: what ends a wait is decided also while nothing else may be written, once for each.
//   - State in memory is never rolled back: when the log fails, the process ends and recovery decides.

import { type OnReply, UNAVAILABLE, UNKNOWN } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { Fifo } from './fifo.ts';
import { PartitionClock } from './fresh-id.ts';
import type { Decision, Group, Outcome, PartitionLogic } from './group.ts';

/** What a partition appends to; wal's PartitionLog is one. */
export interface AppendLog {
  /** Sequence of the appended record. */
  append(line: string): number;
  /** Sequence of the last appended record. */
  readonly appended: number;
  /** Sequence up to which the log is durable. */
  readonly durable: number;
}

export interface PartitionObserver {
  decided(group: string, commandType: string, outcome: Outcome['type'] | 'rejected' | 'unavailable'): void;
}

export interface PartitionOptions<Command extends { type: string }, Query extends { type: string }, Record> {
  readonly group: Group<Command, Query, Record>;
  readonly logic: PartitionLogic<Command, Query, Record>;
  readonly log: AppendLog;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** By which callers set deadlines: the same, or the machine's wall clock. */
  readonly deadlineClock: () => number;
  /** Time of the last record in the log, 0 when empty. */
  readonly lastRecordAt: number;
  readonly observer: PartitionObserver;
  /** Newest format of records that may be made now; it only goes up. */
  readonly writeFormat: () => number;
  /** True while nothing more may be written: the views lag so far that memory would not hold what they lack, all partitions together have
   *  too much on its way to the disk, or the disk has no room. Commands are refused and timers wait. */
  readonly isPaused: () => boolean;
  /** Durable records, in order. */
  readonly publish: (firstSequence: number, records: readonly Record[]) => void;
}

/** Decided, applied and appended; to be answered when the log is durable up to `sequence`. */
interface Pending {
  readonly sequence: number;
  readonly outcome: Outcome;
  readonly answers: string | null;
  readonly onReply: OnReply;
}

interface Waiter {
  /** By `elapsedMs` of the clock. */
  readonly since: number;
  readonly callers: { readonly replayed: boolean; readonly onReply: OnReply }[];
}

/** All types that the group does not know are counted as one: anybody on the bus can think of more. */
const UNKNOWN_TYPE = 'unknown';
const ignoreReply: OnReply = () => {};

export class Partition<
  Command extends { type: string; deadline: number },
  Query extends { type: string },
  Record,
> {
  readonly logic: PartitionLogic<Command, Query, Record>;
  readonly #group: Group<Command, Query, Record>;
  readonly #log: AppendLog;
  readonly #clock: PartitionClock;
  readonly #deadlineClock: () => number;
  readonly #observer: PartitionObserver;
  readonly #publish: (firstSequence: number, records: readonly Record[]) => void;
  /** Records appended and not yet durable, in order. */
  #undurable: Record[] = [];
  readonly #pending = new Fifo<Pending>();
  /** By key, oldest first. */
  readonly #waiters = new Map<string, Waiter>();
  readonly #writeFormat: () => number;
  readonly #isPaused: () => boolean;
  #checkpointed: number;
  #accepting = true;
  /** Null: nobody has had to wait for its end. */
  #drained: PromiseWithResolvers<void> | null = null;

  constructor(options: PartitionOptions<Command, Query, Record>) {
    this.logic = options.logic;
    this.#group = options.group;
    this.#log = options.log;
    this.#clock = new PartitionClock(options.clock, options.lastRecordAt);
    this.#deadlineClock = options.deadlineClock;
    this.#observer = options.observer;
    this.#publish = options.publish;
    this.#writeFormat = options.writeFormat;
    this.#isPaused = options.isPaused;
    this.#checkpointed = options.log.appended;
  }

  /** Decided and not yet answered, in commands. */
  get depth(): number {
    return this.#pending.size;
  }

  /** Its time, milliseconds since 1970: never behind a record of its log. */
  now(): number {
    return this.#clock.now();
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Records the views lag behind the log. 0 of what takes nothing more: where its log is damaged, they never get there. */
  get checkpointLag(): number {
    return this.#accepting ? this.#log.appended - this.#checkpointed : 0;
  }

  send(message: Command | Query, onReply: OnReply): void {
    const kind = this.#group.messages[message.type as (Command | Query)['type']];
    if (kind === 'query') return this.#query(message as Query, onReply);
    const isKnown = kind === 'command' && (this.#group.knows?.(message as Command) ?? true);
    if (isKnown) this.#command(message as Command, onReply);
    else this.#notKnown(onReply);
  }

  /** From a node of a newer version: it finds one that knows it, or this one upgraded. */
  #notKnown(onReply: OnReply): void {
    this.#observer.decided(this.#group.name, UNKNOWN_TYPE, 'unavailable');
    onReply(UNAVAILABLE);
  }

  #query(query: Query, onReply: OnReply): void {
    if (!this.#accepting || this.depth >= LIMITS.mailboxMax) return onReply(UNAVAILABLE);
    const now = this.#clock.now();
    const answered = this.logic.query(this.#onOurClock(query, now), now);
    if (answered.sequence <= this.#log.durable) return onReply(answered.reply);
    this.#pend(answered.sequence, { type: 'reply', reply: answered.reply }, null, onReply);
  }

  #command(message: Command, onReply: OnReply): void {
    if (this.#room() === 0) this.#refuse(message, onReply);
    else this.#decide(message, onReply);
  }

  /** The one who waits for `key` has waited long enough. */
  #settleAnswer(key: string): void {
    this.#decide(this.logic.settleAnswer(key), ignoreReply);
  }

  #decide(message: Command, onReply: OnReply): void {
    // One time for both, or logic could reject as too late what was not late here: a refusal is said one way.
    const tick = this.#clock.tick(this.#writeFormat());
    const command = this.#onOurClock(message, tick.now);
    if (command.deadline < tick.now) return this.#refuse(command, onReply);
    const decision = this.logic.decide(command, tick);
    const { record } = decision;
    // What is not logged is as good as undecided.
    if (mayHaveToWait(decision) && this.#waiters.size >= LIMITS.waitersMax) {
      return this.#refuse(command, onReply);
    }
    const line = record === null ? null : this.#group.encode(record);
    if (record !== null && line === null) return this.#notKnown(onReply);
    this.#observer.decided(this.#group.name, command.type, outcomeName(decision.outcome));
    this.#apply(decision, line, onReply);
  }

  /** A deadline is on its caller's clock. Where ours is ahead of that, the deadline is moved along: otherwise everything
   *  would be too late until the other has caught up. */
  #onOurClock<Message>(message: Message, now: number): Message {
    const { deadline } = message as { readonly deadline: number };
    if (deadline >= now) return message;
    const aheadMs = Math.max(this.#clock.aheadMs, now - this.#deadlineClock());
    return aheadMs === 0 ? message : { ...message, deadline: deadline + aheadMs };
  }

  #refuse(command: Command, onReply: OnReply): void {
    this.#observer.decided(this.#group.name, command.type, 'unavailable');
    onReply(UNAVAILABLE);
  }

  /** How many commands may be decided now. */
  #room(): number {
    return this.#isPaused() ? 0 : this.#roomToFinish();
  }

  #roomToFinish(): number {
    return this.#accepting ? Math.max(0, LIMITS.mailboxMax - this.depth) : 0;
  }

  /** `line`: its record, encoded. */
  #apply(decision: Decision<Record>, line: string | null, onReply: OnReply): void {
    const { record, outcome, answers } = decision;
    if (record !== null && line !== null) {
      const sequence = this.#log.append(line);
      this.logic.evolve(record, sequence);
      this.#undurable.push(record);
    } else if (this.#log.appended === this.#log.durable && outcome.type === 'reply') {
      return onReply(outcome.reply);
    }
    this.#pend(this.#log.appended, outcome, answers, onReply);
    if (this.#log.appended === this.#log.durable) this.answer();
  }

  /** `sequence` never exceeds what is appended, and grows along the queue except for reads, which may wait longer. */
  #pend(sequence: number, outcome: Outcome, answers: string | null, onReply: OnReply): void {
    this.#pending.push({ sequence, outcome, answers, onReply });
  }

  /** The log is durable up to the end of this batch; `log.durable` already says so. Called in batch order and before
   *  the next flush begins: what subscribers answer at once goes with it. */
  committed(firstSequence: number, count: number): void {
    if (count === 0) return;
    const records = this.#undurable.length === count ? this.#undurable : this.#undurable.slice(0, count);
    this.#undurable = records === this.#undurable ? [] : this.#undurable.slice(count);
    this.#publish(firstSequence, records);
  }

  /** Answers whom a batch has made answerable, while the disk works on the next one. */
  answer(): void {
    const durable = this.#log.durable;
    for (;;) {
      const pending = this.#pending.peek();
      if (pending === undefined || pending.sequence > durable) break;
      this.#pending.shift();
      this.#settle(pending);
    }
    if (this.#pending.size === 0) this.#drained?.resolve();
  }

  #settle(pending: Pending): void {
    const { outcome, answers, onReply } = pending;
    if (outcome.type === 'reply') onReply(outcome.reply);
    else this.#answerOrWait(outcome.key, outcome.replayed, onReply);
    if (answers !== null) this.#wake(answers);
  }

  #answerOrWait(key: string, replayed: boolean, onReply: OnReply): void {
    const answered = this.logic.answer(key, replayed);
    if (answered === null) {
      const waiter = this.#waiters.get(key);
      if (waiter === undefined) {
        this.#waiters.set(key, { since: this.#clock.elapsedMs(), callers: [{ replayed, onReply }] });
        // Nobody is to wait for a rail: what the caller is told is fixed now, not at the next tick. Of what drains there is none.
        if (this.#group.answerWaitMs === 0 && this.depth < LIMITS.mailboxMax) this.#settleAnswer(key);
      } else {
        waiter.callers.push({ replayed, onReply });
      }
    } else if (answered.sequence <= this.#log.durable) {
      onReply(answered.reply);
    } else {
      this.#pend(this.#log.appended, { type: 'wait', key, replayed }, null, onReply);
    }
  }

  #wake(key: string): void {
    const waiter = this.#waiters.get(key);
    if (waiter === undefined) return;
    this.#waiters.delete(key);
    for (const caller of waiter.callers) this.#answerOrWait(key, caller.replayed, caller.onReply);
  }

  /** Raises what fell due: the logic's timers, and callers who have waited long enough for an answer. */
  tick(): void {
    const now = this.#clock.now();
    const room = Math.min(LIMITS.timersPerTickMax, this.#room());
    if (room > 0 && this.logic.nextDue() <= now) {
      for (const command of this.logic.takeDue(now, room)) this.#command(command, ignoreReply);
    }
    const elapsedMs = this.#clock.elapsedMs();
    for (const [key, waiter] of this.#waiters) {
      // Who went to the back of the line in this tick is not asked for again, also when nobody is to wait at all.
      if (waiter.since + Math.max(1, this.#group.answerWaitMs) > elapsedMs) break;
      // Nor is anybody sent there unasked for, to wait once more: the next tick may have room.
      if (this.#roomToFinish() === 0) break;
      this.#settleAnswer(key);
      if (this.#waiters.get(key) === waiter) {
        // Goes to the back of the line, so that an answer still in the log's hands is not asked for at every tick.
        this.#waiters.delete(key);
        this.#waiters.set(key, { since: elapsedMs, callers: waiter.callers });
      }
    }
  }

  /** The views have reached `sequence`. */
  checkpointed(sequence: number): void {
    this.#checkpointed = sequence;
    this.logic.evict(sequence);
  }

  /** Takes nothing more; resolves when everything decided is durable and answered. Callers who still wait for a rail
   *  get `unknown`: they are told nothing. */
  async drain(): Promise<void> {
    this.#accepting = false;
    if (this.depth > 0) {
      // A partition that is handed over may be closed with all others meanwhile.
      this.#drained ??= Promise.withResolvers();
      await this.#drained.promise;
    }
    this.#dismissWaiters();
  }

  /** The log has failed: what was decided may or may not be in it, so its callers are told nothing. */
  abandon(): void {
    this.#accepting = false;
    for (;;) {
      const pending = this.#pending.shift();
      if (pending === undefined) break;
      pending.onReply(UNKNOWN);
    }
    this.#dismissWaiters();
    this.#drained?.resolve();
  }

  #dismissWaiters(): void {
    const waiters = [...this.#waiters.values()];
    this.#waiters.clear();
    for (const waiter of waiters) {
      for (const caller of waiter.callers) caller.onReply(UNKNOWN);
    }
  }
}

/** What its own record answers is there as soon as that is durable. */
function mayHaveToWait({ outcome, answers }: Decision<unknown>): boolean {
  return outcome.type === 'wait' && outcome.key !== answers;
}

function outcomeName(outcome: Outcome): 'reply' | 'wait' | 'rejected' {
  return outcome.type === 'reply' && outcome.reply.type === 'rejected' ? 'rejected' : outcome.type;
}
