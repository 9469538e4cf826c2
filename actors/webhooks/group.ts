// The webhooks group, put together for the runtime: decide, evolve and query over the state of one partition, and the due
// times of its deliveries. Nothing is decided or rendered in this file.
//
// Due deliveries are not raised as commands: an attempt that merely begins changes nothing worth logging. The executor of
// the same process takes them with `takeAttempts`, and what came of them returns as a command.

import { AssertionFailure } from '../../src/domain/assert.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import { DueHeap } from '../runtime/due-heap.ts';
import type { Answered, Decision, Group, OpenOptions, PartitionLogic, Tick } from '../runtime/group.ts';
import { canHear, decide, oldDeliveries } from './decide.ts';
import type { WebhookPolicy } from './decide.ts';
import { evolve } from './evolve.ts';
import type { WebhookCommand, WebhookQuery } from './message.ts';
import { answerQuery } from './query.ts';
import { decodeWebhookRecord, encodeWebhookRecord } from './record.ts';
import type { Delivery, Endpoint, WebhookRecord } from './record.ts';
import { isFirstAttempt, WebhookState } from './state.ts';

const MESSAGES: WebhooksGroup['messages'] = {
  TakeEvents: 'command',
  RecordAttempt: 'command',
  CancelDelivery: 'command',
  ReplayDelivery: 'command',
  ReplayFailedDeliveries: 'command',
  RemoveOldDeliveries: 'command',
  ListDeliveries: 'query',
  GetDelivery: 'query',
};

/** How long the command of a timer stays valid, ms. */
const COMMAND_VALID_MS = LIMITS.commandDeadlineMs;

export interface WebhooksGroup extends Group<WebhookCommand, WebhookQuery, WebhookRecord> {
  open(partition: number, views: Views, options: OpenOptions): WebhooksLogic;
}

export function createWebhooksGroup(policy: WebhookPolicy): WebhooksGroup {
  return {
    name: 'webhooks',
    messages: MESSAGES,
    answerWaitMs: 0,
    viewsFormat: 1,
    open: (_partition, views, options) => new WebhooksLogic(views, policy, options),
    encode: encodeWebhookRecord,
    decode: decodeWebhookRecord,
  };
}

/** All that an attempt needs. */
export interface DueAttempt {
  readonly delivery: Delivery;
  readonly endpoint: Endpoint;
  readonly body: string;
}

export class WebhooksLogic implements PartitionLogic<WebhookCommand, WebhookQuery, WebhookRecord> {
  readonly #state: WebhookState;
  readonly #policy: WebhookPolicy;
  readonly #keepsDueTimes: boolean;
  /** Delivery ids. First attempts are apart, so that retries never stand before them. */
  readonly #firsts = new DueHeap<string>();
  readonly #retries = new DueHeap<string>();
  #retentionDueAt = 0;
  /** Id up to which old deliveries have been looked for since then; '': none. */
  #retentionLookedTo = '';

  constructor(views: Views, policy: WebhookPolicy, { writesRows, sequence }: OpenOptions) {
    this.#state = new WebhookState(views, sequence);
    this.#policy = policy;
    this.#keepsDueTimes = !writesRows;
    if (writesRows) return;
    for (const { deliveryId, nextAt, isFirst } of this.#state.due()) {
      this.#schedule(deliveryId, nextAt, isFirst);
    }
  }

  decide(command: WebhookCommand, tick: Tick): Decision<WebhookRecord> {
    return decide(this.#state, command, tick, this.#policy);
  }

  evolve(record: WebhookRecord, sequence: number): void {
    evolve(this.#state, record, sequence, (delivery) => {
      if (this.#keepsDueTimes && delivery.nextAt !== null) {
        this.#schedule(delivery.id, delivery.nextAt, isFirstAttempt(delivery));
      }
    });
  }

  query(query: WebhookQuery): Answered {
    return { reply: answerQuery(this.#state, query), sequence: this.#state.sequence };
  }

  answer(): null {
    return null;
  }

  settleAnswer(key: string): WebhookCommand {
    throw new AssertionFailure(`nobody waits for an answer of the webhooks group: ${key}`);
  }

  nextDue(): number {
    return this.#retentionDueAt;
  }

  takeDue(now: number): WebhookCommand[] {
    if (now < this.#retentionDueAt) return [];
    const { deliveryIds, lookedTo } = oldDeliveries(this.#state, this.#policy, now, this.#retentionLookedTo);
    this.#retentionLookedTo = lookedTo ?? '';
    this.#retentionDueAt =
      now + (lookedTo === null ? LIMITS.webhookRetentionEveryMs : LIMITS.webhookRetentionPauseMs);
    if (deliveryIds.length === 0) return [];
    return [{ type: 'RemoveOldDeliveries', deliveryIds, deadline: now + COMMAND_VALID_MS }];
  }

  takeRows(): ReturnType<WebhookState['takeRows']> {
    return this.#state.takeRows();
  }

  evict(sequence: number): void {
    this.#state.evict(sequence);
  }

  #schedule(deliveryId: string, nextAt: number, isFirst: boolean): void {
    if (isFirst) this.#firsts.push(nextAt, deliveryId);
    else this.#retries.push(nextAt, deliveryId);
  }

  /** The accounts partition's log is read up to here. */
  get cursor(): number {
    return this.#state.cursor;
  }

  /** With which the webhooks of connected apps are signed. */
  *sealedSecrets(): Iterable<string> {
    for (const { signingSecretSealed, removed } of this.#state.endpoints()) {
      if (!removed) yield signingSecretSealed;
    }
  }

  /** Shortest wait between two attempts of a delivery. */
  get shortestRetryMs(): number {
    return Math.min(...this.#policy.retryMs);
  }

  /** All waits of the schedule together. */
  get scheduleMs(): number {
    return this.#policy.retryMs.reduce((sum, waitMs) => sum + waitMs, 0);
  }

  /** Deliveries with a due time, replays counted twice until then. */
  get scheduled(): { readonly firsts: number; readonly retries: number } {
    return { firsts: this.#firsts.size, retries: this.#retries.size };
  }

  /** When the next attempt is due, ms since 1970; Infinity: none is. */
  nextAttemptAt(): number {
    return Math.min(this.#firsts.nextDue(), this.#retries.nextDue());
  }

  /** Removes and returns what is due at `now` of the partition, whose clock is never behind a record of it: a first
   *  attempt, due at the time of its record, does not wait. First attempts, then retries; looks at `limit` of each at the most.
   *  Whoever takes one must see it through to a RecordAttempt or CancelDelivery: it is not handed out again before a
   *  restart. */
  takeAttempts(now: number, limit: number): Delivery[] {
    const taken: Delivery[] = [];
    this.#takeFrom(this.#firsts, now, limit, taken);
    this.#takeFrom(this.#retries, now, limit - taken.length, taken);
    return taken;
  }

  #takeFrom(heap: DueHeap<string>, now: number, limit: number, taken: Delivery[]): void {
    for (let looked = 0; looked < limit; looked++) {
      const id = heap.takeDue(now);
      if (id === undefined) return;
      const delivery = this.dueDelivery(id, now);
      if (delivery !== null) taken.push(delivery);
    }
  }

  /** Null: it is not due any more. What was replayed, cancelled or removed since it fell due is handed out a second time, or
   *  is not wanted. */
  dueDelivery(deliveryId: string, now: number): Delivery | null {
    const delivery = this.#state.delivery(deliveryId);
    return delivery !== null && delivery.nextAt !== null && delivery.nextAt <= now ? delivery : null;
  }

  /** A webhook URL is saved for the app. */
  canHear(appId: string): boolean {
    return canHear(this.#state, appId);
  }

  /** What an attempt sends as things stand now. `gone`: there is nothing to send any more; `cannot_hear`: its app has no
   *  webhook URL. */
  attemptOf(deliveryId: string): DueAttempt | 'gone' | 'cannot_hear' {
    const delivery = this.#state.delivery(deliveryId);
    if (delivery === null || delivery.nextAt === null) return 'gone';
    const endpoint = this.#state.endpoint(delivery.appId);
    if (endpoint === null || endpoint.url === null) return 'cannot_hear';
    const event = this.#state.event(delivery.eventId);
    if (event === null) throw new AssertionFailure('the body of a delivery is kept as long as the delivery');
    return { delivery, endpoint, body: event.body };
  }
}
