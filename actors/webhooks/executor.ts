// Puts the webhooks partitions of this process to work: reads their feeds, takes what falls due, sends it, and hands
// back what came of it. The one place where logic, dispatcher and sender meet.
//
// Invariants: what was taken from a partition ends in a RecordAttempt or CancelDelivery, or the process ends first and the
// log still has it due; at most one attempt of a delivery is in flight here; what an endpoint leaves lying takes no room in the
// queue from others, and is given up when its time is over; what cannot be signed stays due, and says nothing of its endpoint;
// no attempt begins while another process may have the partition, or before its feed has told all that the ledger had when it was
// hosted: URLs may have been changed or removed since; nothing here is needed to recover.

import type { Bus, Reply } from '../../src/bus/bus.ts';
import type { Feed } from '../../src/bus/feed.ts';
import { LIMITS } from '../../src/limits.ts';
import { Fifo } from '../runtime/fifo.ts';
import { Dispatcher } from './dispatcher.ts';
import type { DispatchItem, Told } from './dispatcher.ts';
import { FeedReader } from './feed-reader.ts';
import type { Send } from './feed-reader.ts';
import type { DueAttempt, WebhooksLogic } from './group.ts';
import type { EndpointChange, WebhookCommand } from './message.ts';
import type { WebhookGauges, WebhookMetrics } from './metrics.ts';
import { GIVEN_UP, SECRET_UNREADABLE } from './record.ts';
import type { Attempt, Delivery } from './record.ts';
import type { Sender, SendResult } from './sender.ts';
import { isFirstAttempt } from './state.ts';
import { pause } from '../../src/pause.ts';

export interface ExecutorOptions {
  readonly bus: Bus;
  readonly feed: Feed;
  readonly sender: Sender;
  /** Opens an app's sealed signing secret; throws when it cannot. */
  readonly openSecret: (sealed: string) => string;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** By which deadlines of messages are set, on the bus; absent: `clock`. */
  readonly deadlineClock?: () => number;
  /** At least 0 and below 1. */
  readonly random: () => number;
  readonly metrics: WebhookMetrics;
  /** Undefined: LIMITS.webhookQueuedMax. Tests lower it. */
  readonly queuedMax?: number | undefined;
}

/** How a partition is delivered for. */
export interface Hosting {
  /** The time of its Partition, never behind a record of it, which says what is due; milliseconds since 1970. */
  readonly clock: () => number;
  /** Leads straight to that Partition, so that a node that has lost it speaks to nobody else's; absent: by the bus, where that is
   *  the same. */
  readonly send?: Send;
  /** False while another process may have the partition; absent: none may. */
  readonly holds?: () => boolean;
}

interface Hosted {
  readonly send: Send;
  readonly holds: () => boolean;
  readonly logic: WebhooksLogic;
  readonly reader: FeedReader;
  /** Of its Partition, milliseconds since 1970. */
  readonly clock: () => number;
  /** Deliveries queued or in flight; true: it fell due again meanwhile. */
  readonly active: Map<string, boolean>;
  readonly lines: { readonly firsts: Lines; readonly retries: Lines };
  /** Deliveries that are due and cannot be signed by this process, the one to be looked at next first. */
  readonly unsigned: Map<string, Unsigned>;
  /** As far as the ledger's log went at most when this was hosted; Infinity: nobody has said so yet. */
  ledgerEnd: number;
  /** Not before this, milliseconds since 1970, is it asked again. */
  askAt: number;
  /** Attempts that were begun and are yet to be recorded. */
  begun: number;
  /** None is begun any more, nor is any taken. */
  leaving: boolean;
  /** Nor is anything recorded. */
  released: boolean;
}

interface Unsigned {
  /** Milliseconds since 1970, both. */
  readonly dueAt: number;
  readonly lookAt: number;
}

/** Ids of due deliveries for which the queue of their endpoint has no room, by app. A line that is empty is not there. */
type Lines = Map<string, Fifo<string>>;

interface Item extends DispatchItem {
  readonly hosted: Hosted;
  readonly deliveryId: string;
}

export class WebhookExecutor {
  readonly #options: ExecutorOptions;
  readonly #dispatcher: Dispatcher<Item>;
  readonly #hosted = new Map<number, Hosted>();
  readonly #timer: NodeJS.Timeout;
  /** Feed readers that wait for the queue to shrink. */
  #forRoom: (() => void)[] = [];
  /** Where something may be due, whose turn it is first. */
  readonly #toTakeFrom = new Set<Hosted>();
  #nextTurn: NodeJS.Immediate | null = null;
  /** Deliveries on their way to being cancelled without a place at an endpoint. */
  #cancelling = 0;

  constructor(options: ExecutorOptions) {
    this.#options = options;
    this.#dispatcher = new Dispatcher((item, told) => this.#attempt(item, told), options.clock);
    this.#timer = setInterval(() => this.tick(), LIMITS.timerTickMs);
  }

  /** From now on this process delivers for the partition. `logic` is the one its Partition runs, recovered. */
  host(partition: number, logic: WebhooksLogic, { clock, send, holds = () => true }: Hosting): void {
    const { bus, feed } = this.#options;
    const toPartition: Send =
      send ?? ((message, onReply) => bus.send('webhooks', partition, message, onReply));
    const reader = new FeedReader({
      bus,
      feed,
      partition,
      send: toPartition,
      cursor: () => logic.cursor,
      deadlineClock: this.#options.deadlineClock ?? this.#options.clock,
      onTaken: (changes) => {
        for (const change of changes) this.#moved(change);
        this.#takeFrom(hosted);
      },
      room: () => this.#room(),
    });
    const lines = { firsts: new Map(), retries: new Map() };
    const hosted: Hosted = {
      send: toPartition,
      holds,
      logic,
      reader,
      clock,
      active: new Map(),
      lines,
      unsigned: new Map(),
      ledgerEnd: Infinity,
      askAt: 0,
      begun: 0,
      leaving: false,
      released: false,
    };
    this.#hosted.set(partition, hosted);
    this.#askLedger(partition, hosted);
    this.#dispatcher.limitPause(logic.shortestRetryMs * PAUSE_PART);
  }

  #moved(change: EndpointChange): void {
    if (change.type === 'changed' && change.url !== null) this.#dispatcher.moved(change.appId, change.url);
  }

  /** Another process delivers for the partition from now on. What is in flight has `graceMs` to be recorded; what has not been by
   *  then ends by itself. */
  async release(partition: number, graceMs = 0): Promise<void> {
    const hosted = this.#hosted.get(partition);
    if (hosted === undefined) return;
    this.#hosted.delete(partition);
    hosted.leaving = true;
    const closed = hosted.reader.close();
    this.#wakeReaders();
    const until = performance.now() + graceMs;
    while (hosted.begun > 0 && performance.now() < until) await pause(LOOK_MS);
    hosted.released = true;
    await closed;
  }

  /** Stops reading and sending. Waits at most `graceMs` for attempts in flight; what is not recorded by then is sent
   *  again after the next start. To be called before the partitions are drained. */
  async close(graceMs: number): Promise<void> {
    clearInterval(this.#timer);
    this.#dispatcher.stop();
    await Promise.all(Array.from(this.#hosted.keys(), (partition) => this.release(partition, graceMs)));
    this.#options.sender.close();
  }

  gauges(): WebhookGauges {
    const scheduled = { firsts: 0, retries: 0 };
    const now = this.#options.clock();
    const { answering: handedOut, failing } = this.#dispatcher.oldestDueAt();
    let answering = handedOut;
    let feedPosition = 0;
    const queued = { ...this.#dispatcher.queued };
    for (const hosted of this.#hosted.values()) {
      const { logic, reader, lines, unsigned } = hosted;
      feedPosition += reader.position;
      for (const line of lines.firsts.values()) queued.firsts += line.size;
      for (const line of lines.retries.values()) queued.retries += line.size;
      scheduled.firsts += logic.scheduled.firsts;
      scheduled.retries += logic.scheduled.retries + unsigned.size;
      // What nobody has taken up yet waits for us, whosever it is.
      let oldest = logic.nextAttemptAt();
      for (const { dueAt } of unsigned.values()) oldest = Math.min(oldest, dueAt);
      answering = Math.min(answering, this.#onOurClock(hosted, oldest));
    }
    return {
      scheduled,
      queued,
      inFlight: this.#dispatcher.inFlight,
      oldestDueMs: {
        answering: Math.max(0, now - answering),
        failing: Math.max(0, now - failing),
      },
      endpointsFailing: this.#dispatcher.endpointsFailing,
      feedPosition,
    };
  }

  /** Hands out what is due now. Called by the timer; tests with a driven clock call it themselves. */
  tick(): void {
    for (const [partition, hosted] of this.#hosted) {
      this.#askLedger(partition, hosted);
      this.#moveUp(hosted, hosted.lines.firsts, true);
      this.#moveUp(hosted, hosted.lines.retries, false);
      this.#lookAtUnsigned(hosted);
      this.#takeFrom(hosted);
    }
    this.#dispatcher.tick();
    if (this.#mayQueue()) this.#wakeReaders();
  }

  /** How far its log goes, again until the feed has told as much: with async replication its end may be lost with its machine. */
  #askLedger(partition: number, hosted: Hosted): void {
    const { bus, clock, deadlineClock = clock } = this.#options;
    const now = clock();
    if (!isBehind(hosted) || now < hosted.askAt) return;
    hosted.askAt = now + LIMITS.commandDeadlineMs;
    const deadline = deadlineClock() + LIMITS.commandDeadlineMs;
    const first = { accountId: '', afterId: null, limit: 1, mayBeShort: true } as const;
    bus.send('accounts', partition, { type: 'ListPending', ...first, deadline }, (reply) => {
      if (reply.type !== 'done') {
        hosted.askAt = now + LIMITS.leaseRenewMs;
        return;
      }
      const { sequence } = JSON.parse(reply.body) as { readonly sequence: number };
      hosted.ledgerEnd = Math.min(hosted.ledgerEnd, sequence);
    });
  }

  /** What is due now is taken from it, in its turn: a few at once if it is the only one. */
  #takeFrom(hosted: Hosted): void {
    this.#toTakeFrom.add(hosted);
    if (this.#nextTurn === null) this.#takeInTurns();
  }

  /** A few of each partition in turn, for so long in a turn of the event loop. A long backlog of one endpoint stands before what
   *  fell due later for others: it is to be in its own line soon, and callers are to come between. */
  #takeInTurns(): void {
    this.#nextTurn = null;
    const until = performance.now() + LIMITS.turnMs;
    for (const hosted of this.#toTakeFrom) {
      this.#toTakeFrom.delete(hosted);
      // To the back: this loop comes to it again.
      if (this.#takeFew(hosted)) this.#toTakeFrom.add(hosted);
      if (performance.now() >= until) break;
    }
    if (this.#toTakeFrom.size > 0) this.#nextTurn = setImmediate(() => this.#takeInTurns());
  }

  /** True: there may be more. */
  #takeFew(hosted: Hosted): boolean {
    if (hosted.leaving || isBehind(hosted) || !this.#mayQueue()) return false;
    const now = hosted.clock();
    for (const delivery of hosted.logic.takeAttempts(now, TAKEN_AT_ONCE)) this.#takeUp(hosted, delivery);
    return hosted.logic.nextAttemptAt() <= now;
  }

  #takeUp(hosted: Hosted, delivery: Delivery): void {
    if (hosted.active.has(delivery.id)) hosted.active.set(delivery.id, true);
    else this.#lineUp(hosted, delivery);
  }

  /** The key stays as it is, but their apps may hear nothing by now, or their time may be over. */
  #lookAtUnsigned(hosted: Hosted): void {
    const now = hosted.clock();
    let looked = 0;
    for (const [deliveryId, { lookAt }] of hosted.unsigned) {
      if (lookAt > now || looked++ === LIMITS.webhookUnsignedPerTickMax) return;
      hosted.unsigned.delete(deliveryId);
      const delivery = hosted.logic.dueDelivery(deliveryId, now);
      if (delivery !== null) this.#takeUp(hosted, delivery);
    }
  }

  #lineUp(hosted: Hosted, delivery: Delivery): void {
    const { id, appId } = delivery;
    const isFirst = isFirstAttempt(delivery);
    const lines = isFirst ? hosted.lines.firsts : hosted.lines.retries;
    const line = lines.get(appId);
    if (line !== undefined) return line.push(id);
    if (this.#takes(hosted, appId, isFirst)) return this.#offer(hosted, delivery);
    const begun = new Fifo<string>();
    begun.push(id);
    lines.set(appId, begun);
  }

  /** From the lines to the queues of their endpoints, as far as there is room. */
  #moveUp(hosted: Hosted, lines: Lines, isFirst: boolean): void {
    const now = hosted.clock();
    for (const [appId, line] of lines) {
      for (let looked = 0; looked < LIMITS.webhookEndpointQueuedMax; looked++) {
        if (line.size === 0 || !this.#takes(hosted, appId, isFirst)) break;
        const delivery = hosted.logic.dueDelivery(line.shift()!, now);
        if (delivery === null) continue;
        if (hosted.active.has(delivery.id)) hosted.active.set(delivery.id, true);
        else this.#offer(hosted, delivery);
      }
      if (line.size === 0) lines.delete(appId);
    }
  }

  #takes({ logic }: Hosted, appId: string, isFirst: boolean): boolean {
    if (!this.#dispatcher.takes(appId, isFirst)) return false;
    return logic.canHear(appId) || this.#cancelling < LIMITS.webhookCancellingMax;
  }

  #offer(hosted: Hosted, delivery: Delivery): void {
    hosted.active.set(delivery.id, false);
    if (!hosted.logic.canHear(delivery.appId)) return void this.#cancelUnheard(hosted, delivery.id);
    this.#dispatcher.offer({
      hosted,
      deliveryId: delivery.id,
      endpointId: delivery.appId,
      isFirst: isFirstAttempt(delivery),
      dueAt: this.#onOurClock(hosted, delivery.nextAt ?? 0),
    });
  }

  /** Where the clock was set back, a partition is ahead of it for hours: nothing would seem to wait. */
  #onOurClock({ clock }: Hosted, at: number): number {
    return at - (clock() - this.#options.clock());
  }

  /** Its app has no webhook URL. Nothing goes to an endpoint, so it takes no place there: as few as an endpoint takes at once, and one
   *  where it had failed, would go with each commit of the log. */
  async #cancelUnheard(hosted: Hosted, deliveryId: string): Promise<void> {
    this.#cancelling++;
    await this.#cancel(hosted, deliveryId);
    this.#cancelling--;
    hosted.active.delete(deliveryId);
    if (!hosted.released) this.#seeThrough(hosted, deliveryId);
  }

  async #attempt({ hosted, deliveryId }: Item, told: Told): Promise<void> {
    await this.#sendOnce(hosted, deliveryId, told);
    const dueAgain = hosted.active.get(deliveryId) === true;
    hosted.active.delete(deliveryId);
    if (dueAgain && !hosted.released) this.#seeThrough(hosted, deliveryId);
  }

  /** It was replayed while its attempt was in flight, could not be cancelled because its app has a webhook URL again, or was not
   *  this process's to send for a while. */
  #seeThrough(hosted: Hosted, deliveryId: string): void {
    const delivery = hosted.logic.dueDelivery(deliveryId, hosted.clock());
    if (delivery !== null) this.#lineUp(hosted, delivery);
  }

  async #sendOnce(hosted: Hosted, deliveryId: string, told: Told): Promise<void> {
    const due = await this.#whatToSend(hosted, deliveryId);
    if (due === null || hosted.leaving) return;
    if (!hosted.holds()) return this.#untilHeld(hosted, deliveryId);
    hosted.begun++;
    await this.#sendDue(hosted, due, told);
    hosted.begun--;
  }

  async #sendDue(hosted: Hosted, due: DueAttempt, told: Told): Promise<void> {
    const at = hosted.clock();
    const secret = this.#secretOf(due);
    if ('unreadable' in secret) {
      return this.#withhold(hosted, due, at, secret.unreadable);
    }
    told.leadsTo(due.endpoint.url ?? '');
    if (this.#isHopeless(hosted, due.delivery, at)) {
      return this.#record(hosted, due, at, givenUp);
    }
    const lagMs = Math.max(0, at - due.delivery.eventAt);
    if (isFirstAttempt(due.delivery)) this.#options.metrics.firstAttempt(lagMs);
    const result = await this.#send(due, secret.opened);
    const end = result.error === null ? 'delivered' : 'failed';
    told.heard(end);
    this.#options.metrics.attempted(end, result.error, result.durationMs);
    await this.#record(hosted, due, at, result);
  }

  /** Another process may have sent it by now, to another URL. When it is certain that none has the partition, it is due again. */
  async #untilHeld(hosted: Hosted, deliveryId: string): Promise<void> {
    while (!hosted.leaving && !hosted.holds()) await pause(LIMITS.leaseRenewMs);
    hosted.active.set(deliveryId, true);
  }

  /** Its endpoint takes so long to fail that more falls due than can be tried: without an end that would pile up. */
  #isHopeless({ logic }: Hosted, { appId, nextAt }: Delivery, now: number): boolean {
    if (nextAt === null || now - nextAt <= logic.scheduleMs) return false;
    return this.#dispatcher.failingForMs(appId) >= LIMITS.webhookGiveUpFailingMs;
  }

  /** Null: nothing. What nobody can hear is cancelled, unless its app has a webhook URL again when that is decided. */
  async #whatToSend(hosted: Hosted, deliveryId: string): Promise<DueAttempt | null> {
    while (!hosted.released) {
      const due = hosted.logic.attemptOf(deliveryId);
      if (due === 'gone') return null;
      if (due !== 'cannot_hear') return due;
      await this.#cancel(hosted, deliveryId);
    }
    return null;
  }

  async #cancel(hosted: Hosted, deliveryId: string): Promise<void> {
    const body = await this.#tell(hosted, (deadline) => ({ type: 'CancelDelivery', deliveryId, deadline }));
    if (body?.includes('"CANCELLED"') === true) this.#options.metrics.cancelled();
  }

  #secretOf({ endpoint }: DueAttempt): { readonly opened: string } | { readonly unreadable: string } {
    try {
      return { opened: this.#options.openSecret(endpoint.signingSecretSealed) };
    } catch (error) {
      return { unreadable: error instanceof Error ? error.message : String(error) };
    }
  }

  /** The master key is not the one its secret was sealed with. It stays due, in sight of operators, for a process that has it. */
  async #withhold(hosted: Hosted, due: DueAttempt, at: number, excerpt: string): Promise<void> {
    const { id } = due.delivery;
    this.#options.metrics.attempted('failed', SECRET_UNREADABLE, null);
    await this.#record(hosted, due, at, {
      error: SECRET_UNREADABLE,
      statusCode: null,
      durationMs: 0,
      excerpt,
    });
    // Whoever has the partition next finds it due.
    if (hosted.released) return;
    const now = hosted.clock();
    const dueAt = hosted.logic.dueDelivery(id, now)?.nextAt ?? null;
    // To the back.
    hosted.unsigned.delete(id);
    if (dueAt !== null) hosted.unsigned.set(id, { dueAt, lookAt: now + LIMITS.webhookUnsignedLookMs });
  }

  #send({ delivery, endpoint, body }: DueAttempt, signingSecret: string): Promise<SendResult> {
    const { eventId, eventType } = delivery;
    return this.#options.sender.send({ url: endpoint.url ?? '', eventId, eventType, body, signingSecret });
  }

  async #record(hosted: Hosted, due: DueAttempt, at: number, result: Outcome): Promise<void> {
    const { id: deliveryId, round, made } = due.delivery;
    const { statusCode, error, durationMs, excerpt } = result;
    const attempt = { at, url: due.endpoint.url ?? '', statusCode, error, durationMs, excerpt };
    const random = this.#options.random();
    const body = await this.#tell(hosted, (deadline) => ({
      type: 'RecordAttempt',
      deliveryId,
      round,
      made,
      attempt,
      random,
      deadline,
    }));
    if (body?.includes('"DEAD_LETTERED"') === true) this.#options.metrics.deadLettered();
  }

  /** The body of the answer; null: the partition is not ours any more. Tries until it is answered, which holds the
   *  place of the attempt: that is the back-pressure. */
  async #tell(hosted: Hosted, command: (deadline: number) => WebhookCommand): Promise<string | null> {
    for (let tries = 0; !hosted.released; tries++) {
      const deadline = hosted.clock() + LIMITS.commandDeadlineMs;
      const reply = await new Promise<Reply>((resolve) => {
        hosted.send(command(deadline), resolve);
      });
      if (reply.type === 'done') return reply.body;
      await pause(Math.min(20 * 2 ** tries, TELL_MS_LONGEST));
    }
    return null;
  }

  #mayQueue(): boolean {
    const { firsts, retries } = this.#dispatcher.queued;
    return firsts + retries < (this.#options.queuedMax ?? LIMITS.webhookQueuedMax);
  }

  #room(): Promise<void> {
    if (this.#mayQueue()) return Promise.resolve();
    return new Promise((resolve) => {
      this.#forRoom.push(resolve);
    });
  }

  #wakeReaders(): void {
    const waiting = this.#forRoom;
    this.#forRoom = [];
    for (const wake of waiting) wake();
  }
}

/** What its apps have changed may be among what the feed has yet to tell. */
function isBehind({ reader, ledgerEnd }: Hosted): boolean {
  return reader.position < ledgerEnd;
}

const LOOK_MS = 20;
const TELL_MS_LONGEST = 1_000;
const TAKEN_AT_ONCE = 20;

type Outcome = Omit<Attempt, 'at' | 'url'>;

const givenUp: Outcome = {
  error: GIVEN_UP,
  statusCode: null,
  durationMs: 0,
  excerpt:
    'not tried: it was overdue by more than the whole schedule takes, and every attempt to this endpoint has failed for long',
};

/** Of the shortest wait of the schedule: its jitter is as long. */
const PAUSE_PART = 0.1;
