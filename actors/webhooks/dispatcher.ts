// Which due attempt goes out next. Knows endpoints and room, nothing of logs or HTTP: it is handed due items, starts them
// when there is room, and is told how they ended.
//
// Invariants:
//   - As many attempts are in flight to one endpoint as it takes at once: LIMITS.webhookEndpointInFlightBegin, up to …Max while
//     answers to so many come within LIMITS.webhookLateMs; one while it fails, or, if it answered sooner before, has one open for
//     longer than LIMITS.webhookSlowMs and has answered none that began later. So an endpoint that hangs holds a few connections,
//     once, and one long answer does not hold up the others.
//   - First attempts to healthy endpoints have room of their own, and those to endpoints that are healthy but slow, too. Everything
//     else (retries, replays, whatever goes to a failing endpoint) shares a third. A first attempt that turns out slow leaves the
//     first room for the slow one, half of which is kept for that.
//   - A pause after failures delays retries; it takes no attempt from anybody and holds up no first attempt.
//   - Whoever waits for room is served in turn by endpoint, so that a long queue of one is not in the way of another.
// An item is in one place: a queue here or in flight. The number of items is bounded by the caller, of each endpoint
// (LIMITS.webhookEndpointQueuedMax) and of all (LIMITS.webhookQueuedMax).

import { LIMITS } from '../../src/limits.ts';
import { Fifo } from '../runtime/fifo.ts';

export interface DispatchItem {
  readonly endpointId: string;
  /** Never tried before. */
  readonly isFirst: boolean;
  /** Milliseconds since 1970. */
  readonly dueAt: number;
}

export type AttemptEnd = 'delivered' | 'failed';

/** How an attempt says what is learnt of its endpoint. */
export interface Told {
  /** It goes to `url`. What was learnt at another, or is yet to be, says nothing of this one. */
  readonly leadsTo: (url: string) => void;
  /** What the endpoint made of it, as soon as that is known: what then takes long is not the endpoint. Not said: nothing was sent, so
   *  nothing was learnt of it. */
  readonly heard: (end: AttemptEnd) => void;
}
export type StartAttempt<Item> = (item: Item, told: Told) => Promise<void>;

/** By what their endpoints do: those that fail, hang or are slow to answer (`failing`) have what waits for them waiting, whatever
 *  we do. */
export interface OldestDue {
  readonly answering: number;
  readonly failing: number;
}

type Room = 'first' | 'retry' | 'slow';

interface Endpoint<Item> {
  readonly id: string;
  /** Of where its attempts go now. */
  learnt: Learnt;
  readonly firsts: Fifo<Item>;
  readonly retries: Fifo<Item>;
  /** Also to URLs that were left. */
  inFlight: number;
  /** A failing endpoint's first attempts and retries take turns. */
  lastWasFirst: boolean;
}

/** What attempts to one URL have shown. Those in flight to one that was left go on telling of that one, and nobody asks. */
interface Learnt {
  /** Null: no attempt was begun yet. */
  readonly url: string | null;
  inFlight: number;
  inFlightMax: number;
  /** Of those in flight to this URL. */
  slow: number;
  /** When the latest that was slow, and the latest that was answered soon, began, ms since 1970. */
  slowBegan: number;
  soonBegan: number;
  /** The attempt that ended last was. */
  wasSlow: boolean;
  failuresInARow: number;
  /** When the first of these ended with no long time between two of them, ms since 1970, and how much later the last did; 0 after a
   *  success. */
  failingSince: number;
  failingForMs: number;
  /** No retry before this, ms since 1970. */
  pausedUntil: number;
}

function nothingLearnt(url: string | null): Learnt {
  return {
    url,
    inFlight: 0,
    inFlightMax: LIMITS.webhookEndpointInFlightBegin,
    slow: 0,
    slowBegan: 0,
    soonBegan: 0,
    wasSlow: false,
    failuresInARow: 0,
    failingSince: 0,
    failingForMs: 0,
    pausedUntil: 0,
  };
}

interface Running<Item> {
  readonly endpoint: Endpoint<Item>;
  readonly startedAt: number;
  /** Of where it goes. */
  learnt: Learnt;
  room: Room;
  isSlow: boolean;
  /** What the endpoint made of it, and when, ms since 1970; it is yet to be recorded. Null: not heard. */
  heard: { readonly end: AttemptEnd; readonly at: number } | null;
}

const ROOMS = ['first', 'slow', 'retry'] as const satisfies readonly Room[];

/** Attempts in flight, of all endpoints, below which another may begin there. */
const ROOM_TO_BEGIN: Record<Room, number> = {
  first: LIMITS.webhookFirstInFlightMax,
  slow: LIMITS.webhookSlowInFlightMax / 2,
  retry: LIMITS.webhookRetryInFlightMax,
};

export class Dispatcher<Item extends DispatchItem> {
  /** Starts an attempt; resolves when it has ended and that is recorded, never rejects. */
  readonly #attempt: StartAttempt<Item>;
  readonly #clock: () => number;
  /** Longest not looked at for forgetting first. */
  readonly #endpoints = new Map<string, Endpoint<Item>>();
  /** In the order they were started. */
  readonly #running = new Set<Running<Item>>();
  readonly #inFlight: Record<Room, number> = { first: 0, retry: 0, slow: 0 };
  /** Endpoints whose next attempt waits for that room, in turn. */
  readonly #waiting: Record<Room, Set<Endpoint<Item>>> = {
    first: new Set(),
    slow: new Set(),
    retry: new Set(),
  };
  /** Endpoints whose retries wait for the end of a pause. */
  readonly #paused = new Set<Endpoint<Item>>();
  #queuedFirsts = 0;
  #queuedRetries = 0;
  #stopped = false;
  /** Longest pause between retries to a failing endpoint. */
  #pauseMs: number = LIMITS.webhookPauseMsMax;

  constructor(attempt: StartAttempt<Item>, clock: () => number) {
    this.#attempt = attempt;
    this.#clock = clock;
  }

  get queued(): { readonly firsts: number; readonly retries: number } {
    return { firsts: this.#queuedFirsts, retries: this.#queuedRetries };
  }

  get inFlight(): { readonly firsts: number; readonly retries: number; readonly slow: number } {
    const { first, retry, slow } = this.#inFlight;
    return { firsts: first, retries: retry, slow };
  }

  /** Whose last attempt failed, and lately: nobody knows of one that nothing has gone to since. Looks at every endpoint: for a
   *  scrape. */
  get endpointsFailing(): number {
    const since = this.#clock() - LIMITS.webhookFailingShownMs;
    let count = 0;
    for (const { learnt } of this.#endpoints.values()) {
      const { failuresInARow, failingSince, failingForMs } = learnt;
      count += Number(failuresInARow > 0 && failingSince + failingForMs > since);
    }
    return count;
  }

  /** From the first to the last of the failures in a row, ms. Not till now: nothing may have been tried since. 0 if that is so for
   *  long: nobody knows what it would have done. */
  failingForMs(endpointId: string): number {
    const learnt = this.#endpoints.get(endpointId)?.learnt;
    return learnt === undefined || isForgotten(learnt, this.#clock()) ? 0 : learnt.failingForMs;
  }

  /** When the oldest queued item fell due; Infinity: none is queued. Looks at every endpoint: for a scrape. */
  oldestDueAt(): OldestDue {
    const oldest = { answering: Infinity, failing: Infinity };
    for (const { firsts, retries, learnt } of this.#endpoints.values()) {
      const dueAt = Math.min(firsts.peek()?.dueAt ?? Infinity, retries.peek()?.dueAt ?? Infinity);
      const what = isFailing(learnt) || learnt.wasSlow ? 'failing' : 'answering';
      oldest[what] = Math.min(oldest[what], dueAt);
    }
    return oldest;
  }

  /** There is room in the queue of the endpoint for one more of its first attempts, or of the rest. */
  takes(endpointId: string, isFirst: boolean): boolean {
    const endpoint = this.#endpoints.get(endpointId);
    const queue = isFirst ? endpoint?.firsts : endpoint?.retries;
    return (queue?.size ?? 0) < LIMITS.webhookEndpointQueuedMax;
  }

  offer(item: Item): void {
    const endpoint = this.#endpoint(item.endpointId);
    if (item.isFirst) {
      endpoint.firsts.push(item);
      this.#queuedFirsts++;
    } else {
      endpoint.retries.push(item);
      this.#queuedRetries++;
    }
    this.#run(endpoint);
  }

  /** What is yet to be sent to the endpoint goes to `url` from now on, and waits for nothing that is in flight elsewhere. */
  moved(endpointId: string, url: string): void {
    const endpoint = this.#endpoints.get(endpointId);
    if (endpoint === undefined) return;
    learnOf(endpoint, url);
    this.#run(endpoint);
  }

  /** No pause is to be longer than this. */
  limitPause(pauseMs: number): void {
    this.#pauseMs = Math.min(this.#pauseMs, pauseMs);
  }

  /** To be called every LIMITS.timerTickMs: notices slow attempts and ends pauses. */
  tick(): void {
    const now = this.#clock();
    for (const running of this.#running) {
      if (now - running.startedAt < LIMITS.webhookSlowMs) break;
      this.#noticeSlow(running);
    }
    for (const endpoint of this.#paused) {
      if (endpoint.learnt.pausedUntil > now) continue;
      this.#paused.delete(endpoint);
      this.#queueUp(endpoint);
    }
    this.#serveWaiting();
  }

  /** Starts nothing more. */
  stop(): void {
    this.#stopped = true;
  }

  #endpoint(id: string): Endpoint<Item> {
    const known = this.#endpoints.get(id);
    if (known !== undefined) return known;
    if (this.#endpoints.size >= LIMITS.webhookEndpointsKnownMax) this.#forgetIdle();
    const endpoint: Endpoint<Item> = {
      id,
      learnt: nothingLearnt(null),
      firsts: new Fifo(),
      retries: new Fifo(),
      inFlight: 0,
      lastWasFirst: false,
    };
    this.#endpoints.set(id, endpoint);
    return endpoint;
  }

  /** Forgetting a failing endpoint costs it nothing but a second chance. */
  #forgetIdle(): void {
    let looked = 0;
    for (const [id, endpoint] of this.#endpoints) {
      if (++looked > FORGET_LOOKS) return;
      const { inFlight, firsts, retries } = endpoint;
      this.#endpoints.delete(id);
      // To the back, so that next time others are looked at.
      if (inFlight > 0 || firsts.size > 0 || retries.size > 0) this.#endpoints.set(id, endpoint);
    }
  }

  /** Starts what there is room for, what `endpoint` has to send in its turn. */
  #run(endpoint: Endpoint<Item>): void {
    this.#queueUp(endpoint);
    this.#serveWaiting();
  }

  #queueUp(endpoint: Endpoint<Item>): void {
    const room = this.#nextRoom(endpoint);
    if (room !== null) this.#waiting[room].add(endpoint);
  }

  /** One attempt for each endpoint in turn while there is room. */
  #serveWaiting(): void {
    for (const room of ROOMS) {
      const waiting = this.#waiting[room];
      for (const endpoint of waiting) {
        if (this.#stopped || this.#inFlight[room] >= ROOM_TO_BEGIN[room]) break;
        waiting.delete(endpoint);
        // Since it failed or answered it may wait for another room, or for its own attempt to end.
        if (this.#nextRoom(endpoint) !== room) continue;
        this.#startNext(endpoint, room);
        this.#queueUp(endpoint);
      }
    }
  }

  /** Which room the next attempt of `endpoint` takes; null: it may start none. */
  #nextRoom(endpoint: Endpoint<Item>): Room | null {
    const queue = mayStart(endpoint) ? this.#nextQueue(endpoint) : null;
    if (queue === null) return null;
    const { failuresInARow, wasSlow } = endpoint.learnt;
    if (queue === endpoint.retries || failuresInARow > 0) return 'retry';
    return wasSlow ? 'slow' : 'first';
  }

  #startNext(endpoint: Endpoint<Item>, room: Room): void {
    const item = this.#nextQueue(endpoint)?.shift();
    if (item === undefined) return;
    endpoint.lastWasFirst = item.isFirst;
    if (item.isFirst) this.#queuedFirsts--;
    else this.#queuedRetries--;
    this.#start(endpoint, item, room);
  }

  #nextQueue(endpoint: Endpoint<Item>): Fifo<Item> | null {
    const { firsts, retries } = endpoint;
    const retryReady = retries.size > 0 && !this.#isPaused(endpoint);
    if (firsts.size === 0) return retryReady ? retries : null;
    const retryFirst = retryReady && endpoint.learnt.failuresInARow > 0 && endpoint.lastWasFirst;
    return retryFirst ? retries : firsts;
  }

  #isPaused(endpoint: Endpoint<Item>): boolean {
    if (endpoint.learnt.pausedUntil <= this.#clock()) return false;
    this.#paused.add(endpoint);
    return true;
  }

  #start(endpoint: Endpoint<Item>, item: Item, room: Room): void {
    const running: Running<Item> = {
      endpoint,
      startedAt: this.#clock(),
      learnt: endpoint.learnt,
      room,
      isSlow: false,
      heard: null,
    };
    endpoint.inFlight++;
    endpoint.learnt.inFlight++;
    this.#inFlight[room]++;
    this.#running.add(running);
    const told: Told = {
      leadsTo: (url) => leadsTo(running, url),
      heard: (end) => this.#heard(running, end),
    };
    void this.#attempt(item, told).then(() => this.#ended(running));
  }

  #noticeSlow(running: Running<Item>): void {
    if (running.heard !== null) return;
    if (!running.isSlow) {
      running.isSlow = true;
      running.learnt.slow++;
      running.learnt.slowBegan = running.startedAt;
    }
    if (running.room !== 'first' || this.#inFlight.slow >= LIMITS.webhookSlowInFlightMax) return;
    this.#inFlight.first--;
    this.#inFlight.slow++;
    running.room = 'slow';
  }

  #heard(running: Running<Item>, end: AttemptEnd): void {
    running.heard = { end, at: this.#clock() };
    if (running.isSlow) running.learnt.slow--;
  }

  #ended(running: Running<Item>): void {
    const { endpoint, learnt, room, isSlow, heard } = running;
    this.#running.delete(running);
    this.#inFlight[room]--;
    endpoint.inFlight--;
    learnt.inFlight--;
    if (heard !== null) this.#learn(running, heard.end, heard.at);
    else if (isSlow) learnt.slow--;
    this.#run(endpoint);
  }

  #learn({ learnt, startedAt, isSlow }: Running<Item>, end: AttemptEnd, at: number): void {
    learnt.wasSlow = isSlow;
    if (end === 'delivered' && !isSlow) learnt.soonBegan = Math.max(learnt.soonBegan, startedAt);
    if (end === 'failed' || at - startedAt >= LIMITS.webhookLateMs) {
      const half = Math.floor(learnt.inFlightMax / 2);
      const least = end === 'failed' ? 1 : Math.min(learnt.inFlightMax, LIMITS.webhookEndpointInFlightBegin);
      learnt.inFlightMax = Math.max(half, least);
    } else if (learnt.inFlight + 1 >= Math.floor(learnt.inFlightMax)) {
      // It had as many as it may. Who takes one at a time well has not shown that it takes more at once.
      const more = isSlow ? 1 / learnt.inFlightMax : 1;
      learnt.inFlightMax = Math.min(learnt.inFlightMax + more, LIMITS.webhookEndpointInFlightMax);
    }
    const before = learnt.failuresInARow;
    learnt.failuresInARow = end === 'delivered' ? 0 : before + 1;
    if (before === 0 || end === 'delivered' || isForgotten(learnt, at)) learnt.failingSince = at;
    learnt.failingForMs = at - learnt.failingSince;
    learnt.pausedUntil = at + this.#pauseMs * pausePart(learnt.failuresInARow);
  }
}

/** How many endpoints are looked at to find idle ones: bounds the pause it makes. */
const FORGET_LOOKS = 1_000;

function leadsTo(running: Running<unknown>, url: string): void {
  const { endpoint } = running;
  learnOf(endpoint, url);
  if (running.learnt === endpoint.learnt) return;
  running.learnt.inFlight--;
  running.learnt = endpoint.learnt;
  running.learnt.inFlight++;
  running.isSlow = false;
}

function learnOf(endpoint: Endpoint<unknown>, url: string): void {
  if (endpoint.learnt.url !== url) endpoint.learnt = nothingLearnt(url);
}

function mayStart({ learnt }: Endpoint<unknown>): boolean {
  const { failuresInARow, inFlight, inFlightMax, slow, wasSlow, soonBegan, slowBegan } = learnt;
  // To who answers after three seconds that an answer takes longer than one says nothing.
  const mayHang = slow > 0 && !wasSlow && soonBegan <= slowBegan;
  return inFlight < (failuresInARow > 0 || mayHang ? 1 : Math.floor(inFlightMax));
}

function isFailing({ failuresInARow, slow }: Learnt): boolean {
  return failuresInARow > 0 || slow > 0;
}

/** So long ago was its last failure that it is not to be given up for it. */
function isForgotten({ failingSince, failingForMs }: Learnt, now: number): boolean {
  return now - failingSince - failingForMs > LIMITS.webhookGiveUpFailingMs;
}

/** How much of the longest pause follows: nothing after none or a few failures, as a passing fault makes them; then doubling. */
function pausePart(failuresInARow: number): number {
  if (failuresInARow < FAILURES_BEFORE_PAUSE) return 0;
  return Math.min(1, 2 ** (failuresInARow - FAILURES_BEFORE_WHOLE_PAUSE));
}

const FAILURES_BEFORE_PAUSE = 5;
const FAILURES_BEFORE_WHOLE_PAUSE = 9;
