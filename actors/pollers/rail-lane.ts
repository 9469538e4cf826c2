// The way to one rail, shared by all partitions of the process: bounded concurrency, bounded queues, a breaker, and
// what is known of the rail's health. A rail that is slow or dead fills its own lane and nobody else's.
//
// Submits go first, then enquiries that somebody waits for, then the others; but each few of them let one of the next kind
// pass, so that none starves, and of each kind the accounts come in turn. A rail that answers without a promise is told on
// in the same turn.

import type { PendingTransaction } from '../../src/domain/account-command.ts';
import { type Policy, routeOf } from '../../src/domain/policy.ts';
import type { EnquiryResult, Rail, SubmitResult } from '../../src/rails/rail.ts';
import { LIMITS } from '../../src/limits.ts';
import { Breaker } from './breaker.ts';
import { CallQueue, FirstOf } from './call-queue.ts';
import type { Random } from './schedule.ts';
import type { Watched } from './watched.ts';

type Answer = SubmitResult | EnquiryResult;

/** Who called, to be told the answer. */
export interface Caller {
  /** It has waited for its turn. False: it is not to be called now, and waits for that elsewhere. */
  isToBeCalled(watched: Watched): boolean;
  /** Its submit, which waited for a token perhaps, is about to be sent. False: it is not to be any more. */
  isToBeSent(watched: Watched): boolean;
  submitted(watched: Watched, result: SubmitResult): void;
  enquired(watched: Watched, result: EnquiryResult): void;
}

/** A partition's end of a lane. */
export interface Port {
  readonly lane: RailLane;
  readonly caller: Caller;
  /** Calls in the air. */
  calling: number;
  /** Transactions that the partition follows. */
  followed: number;
}

/** By rail id. Undefined: its rail is not there, or is another country's or network's by now. */
export function portOf(
  { provider, country, network }: PendingTransaction,
  ports: ReadonlyMap<string, Port>,
  routes: Policy['routes'],
): Port | undefined {
  return routeOf(routes, country, network) === provider ? ports.get(provider) : undefined;
}

export type Health = 'OPERATIONAL' | 'DEGRADED' | 'DOWN';

export interface RailHealth {
  readonly id: string;
  readonly health: Health;
  readonly breaker: 'closed' | 'open' | 'half_open';
  readonly calling: number;
  readonly submitsWaiting: number;
  readonly enquiriesWaiting: number;
  readonly submits: number;
  readonly enquiries: number;
  /** Calls without a usable answer. */
  readonly failures: number;
  /** Refusals that are our configuration's or our float's fault. */
  readonly ourFaults: number;
  readonly lastFailure: string | null;
  /** Milliseconds since 1970. */
  readonly lastFailureAt: number | null;
}

export interface LaneOptions {
  readonly rail: Rail;
  readonly now: () => number;
  readonly random: Random;
  /** A rail threw: a bug of ours. The call counts as `unknown`. */
  readonly onFault: (error: unknown) => void;
}

interface Call {
  readonly asked: Watched['next'];
  /** What the breaker gave for it. */
  readonly started: number;
  /** It was not sent because it was not to be any more: that is no failure of the rail. */
  isWithheld: boolean;
}

export class RailLane {
  readonly rail: Rail;
  readonly #now: () => number;
  readonly #onFault: (error: unknown) => void;
  readonly #breaker: Breaker;
  readonly #submits = new CallQueue<Watched>(LIMITS.railQueueMax);
  readonly #urgentEnquiries = new CallQueue<Watched>(LIMITS.railQueueMax);
  readonly #otherEnquiries = new CallQueue<Watched>(LIMITS.railQueueMax);
  readonly #enquiries = new FirstOf(this.#urgentEnquiries, this.#otherEnquiries);
  readonly #waiting = new FirstOf(this.#submits, this.#enquiries);
  #calling = 0;
  #stopped = false;
  #submitCount = 0;
  #enquiryCount = 0;
  #failureCount = 0;
  #ourFaultCount = 0;
  #lastFailure: string | null = null;
  #lastFailureAt: number | null = null;

  constructor({ rail, now, random, onFault }: LaneOptions) {
    this.rail = rail;
    this.#now = now;
    this.#onFault = onFault;
    this.#breaker = new Breaker(random);
  }

  get calling(): number {
    return this.#calling;
  }

  /** More is to be called than the rail takes at once. */
  get isBusy(): boolean {
    return this.#hasWaiting();
  }

  /** A call now would not be held back because the rail is down. */
  get takesCalls(): boolean {
    return this.#breaker.allows(this.#now());
  }

  /** Queues it for `watched.next`; false when that queue has no room for it. The answer may come before this returns. */
  call(watched: Watched): boolean {
    if (!this.#stopped && !this.#hasWaiting() && this.#mayStart()) {
      this.#start(watched);
      return true;
    }
    if (!this.#queueOf(watched).push(watched)) return false;
    watched.state = 'queued';
    return true;
  }

  /** Starts what may start: after an answer, and on each tick for the breaker's sake. */
  pump(): void {
    while (!this.#stopped && this.#hasWaiting() && this.#mayStart()) {
      const watched = this.#waiting.shift();
      // It may have left in the meantime, or have been called from the other place that it had.
      if (watched?.state === 'queued' && watched.port.caller.isToBeCalled(watched)) this.#start(watched);
    }
  }

  /** Starts no more calls. */
  stop(): void {
    this.#stopped = true;
  }

  health(): RailHealth {
    const now = this.#now();
    return {
      id: this.rail.id,
      health: this.#healthAt(now),
      breaker: this.#breaker.state,
      calling: this.#calling,
      submitsWaiting: this.#submits.size,
      enquiriesWaiting: this.#enquiries.size,
      submits: this.#submitCount,
      enquiries: this.#enquiryCount,
      failures: this.#failureCount,
      ourFaults: this.#ourFaultCount,
      lastFailure: this.#lastFailure,
      lastFailureAt: this.#lastFailureAt,
    };
  }

  #healthAt(now: number): Health {
    if (this.#breaker.state === 'open' && now < this.#breaker.reopensAt) return 'DOWN';
    const backedUp = this.#submits.size > this.rail.maxConcurrency;
    return this.#breaker.isDegraded(now) || backedUp ? 'DEGRADED' : 'OPERATIONAL';
  }

  #mayStart(): boolean {
    return this.#calling < this.rail.maxConcurrency && this.#breaker.allows(this.#now());
  }

  #hasWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  #queueOf(watched: Watched): CallQueue<Watched> {
    if (watched.next === 'submit') return this.#submits;
    return watched.isUrgent ? this.#urgentEnquiries : this.#otherEnquiries;
  }

  #start(watched: Watched): void {
    watched.state = 'calling';
    const { next } = watched;
    const started = this.#breaker.started();
    this.#calling++;
    watched.port.calling++;
    if (next === 'submit') this.#submitCount++;
    else this.#enquiryCount++;
    const call: Call = { asked: next, started, isWithheld: false };
    let result: Answer | Promise<Answer>;
    try {
      result =
        next === 'submit'
          ? this.rail.submit(watched, () => this.#isToBeSent(watched, call))
          : this.rail.enquire(watched);
    } catch (error) {
      result = this.#faulty(error);
    }
    if (!(result instanceof Promise)) return this.#answered(watched, call, result);
    void result
      .catch((error: unknown) => this.#faulty(error))
      .then((answer) => {
        this.#answered(watched, call, answer);
        this.pump();
      });
  }

  #isToBeSent(watched: Watched, call: Call): boolean {
    call.isWithheld = !watched.port.caller.isToBeSent(watched);
    return !call.isWithheld;
  }

  #answered(watched: Watched, { asked, started, isWithheld }: Call, result: Answer): void {
    this.#calling--;
    watched.port.calling--;
    if (isWithheld) this.#breaker.withheld(started);
    else this.#count(watched, result, started);
    if (asked === 'submit') watched.port.caller.submitted(watched, result as SubmitResult);
    else watched.port.caller.enquired(watched, result as EnquiryResult);
  }

  #count(watched: Watched, result: Answer, started: number): void {
    if (result.type === 'not_accepted' || result.type === 'unknown') {
      this.#failureCount++;
      this.#lastFailure = result.reason;
      this.#lastFailureAt = this.#now();
      this.#breaker.failed(this.#lastFailureAt, started, watched.failing, result.retryAfterMs);
      watched.failing = true;
      return;
    }
    watched.failing = false;
    if (result.type === 'failed' && result.ourFault) this.#ourFaultCount++;
    this.#breaker.succeeded(this.#now(), started);
  }

  #faulty(error: unknown): { readonly type: 'unknown'; readonly reason: string } {
    this.#onFault(error);
    return { type: 'unknown', reason: `the adapter failed: ${String(error)}` };
  }
}
