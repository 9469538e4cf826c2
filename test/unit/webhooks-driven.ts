// A webhooks partition as the runtime drives it, under a clock that the test sets: its log as text, its views as a sorted
// table. It can be replayed from the log, or checkpointed and opened again.

import { deepStrictEqual } from 'node:assert/strict';
import { PartitionClock } from '../../actors/runtime/fresh-id.ts';
import type { WebhookPolicy } from '../../actors/webhooks/decide.ts';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { WebhooksLogic } from '../../actors/webhooks/group.ts';
import type { WebhookCommand } from '../../actors/webhooks/message.ts';
import type { Delivery } from '../../actors/webhooks/record.ts';
import { deriveId, encodeTime, makeId } from '../../src/domain/id.ts';
import { type Reply, UNAVAILABLE } from '../../src/bus/bus.ts';
import { readConfig } from '../../src/config.ts';
import type { DeliveryView, ListDeliveries } from '../../src/domain/webhook-message.ts';
import type { Views } from '../../wal/types.ts';

export const DEFAULT_RETRY_MS = readConfig({}).webhookRetryMs;

const body = (n: number): string => `${encodeTime(n)}${'0'.repeat(16)}`;
export const accountId = (n: number): string => makeId('account', body(n));
export const appId = (n: number): string => makeId('app', body(n));

export interface Ending {
  readonly statusCode: number | null;
  readonly error: string | null;
  readonly excerpt?: string;
}
export const failed: Ending = { statusCode: 500, error: 'http_status' };
export const delivered: Ending = { statusCode: 200, error: null };

interface Page {
  readonly data: readonly DeliveryView[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

export class DrivenWebhooks {
  now: number;
  readonly log: string[];
  readonly rows: Map<string, string>;
  readonly policy: WebhookPolicy;
  readonly logic: WebhooksLogic;
  readonly #clock: PartitionClock;
  readonly #group;
  #upstream = 0;
  #transactions = 0;

  constructor(
    policy: Partial<WebhookPolicy>,
    log: string[] = [],
    rows = new Map<string, string>(),
    sequence = 0,
    now = 1_000_000,
  ) {
    this.now = now;
    this.policy = { retryMs: DEFAULT_RETRY_MS, retentionMs: 30 * 86_400_000, ...policy };
    this.log = log;
    this.rows = rows;
    this.#group = createWebhooksGroup(this.policy);
    const last = log.at(-1);
    this.#clock = new PartitionClock(() => this.now, last === undefined ? 0 : this.#group.decode(last).at);
    this.logic = this.#group.open(0, viewsOf(rows), { writesRows: false, sequence });
  }

  send(command: WebhookCommand): Reply {
    if (command.deadline < this.now) return UNAVAILABLE;
    const { record, outcome } = this.logic.decide(command, this.#clock.tick(1));
    if (record !== null) {
      const line = this.#group.encode(record)!;
      deepStrictEqual(this.#group.decode(line), JSON.parse(JSON.stringify(record)));
      this.log.push(line);
      this.logic.evolve(record, this.log.length);
    }
    if (outcome.type !== 'reply') throw new Error('nobody waits here');
    return outcome.reply;
  }

  connect(app: string, url: string | null, account = accountId(1)): void {
    this.#change({ type: 'connected', appId: app, accountId: account, url, signingSecretSealed: 'sealed' });
  }

  changeUrl(app: string, url: string | null): void {
    this.#change({ type: 'changed', appId: app, url });
  }

  remove(app: string): void {
    this.#change({ type: 'removed', appId: app });
  }

  #change(change: Extract<WebhookCommand, { type: 'TakeEvents' }>['endpoints'][number]): void {
    this.take([change], []);
  }

  take(
    endpoints: Extract<WebhookCommand, { type: 'TakeEvents' }>['endpoints'],
    events: Extract<WebhookCommand, { type: 'TakeEvents' }>['events'],
  ): Reply {
    const upstreamSequence = ++this.#upstream;
    const afterSequence = this.logic.cursor;
    return this.send({
      type: 'TakeEvents',
      deadline: Infinity,
      afterSequence,
      upstreamSequence,
      endpoints,
      events,
    });
  }

  /** Returns the event's id. */
  takeEvent(status: 'SUCCESSFUL' | 'FAILED', appIds: readonly string[], account = accountId(1)): string {
    const event = this.event(status, appIds, account);
    this.take([], [event]);
    return event.id;
  }

  event(status: 'SUCCESSFUL' | 'FAILED', appIds: readonly string[], account = accountId(1)) {
    const transactionId = makeId('charge', body(++this.#transactions));
    const id = deriveId('event', transactionId, 3);
    const eventType = `charge.${status.toLowerCase()}`;
    const text = JSON.stringify({ id, object: 'event', type: eventType });
    return { id, accountId: account, transactionId, eventType, body: text, at: this.now, appIds };
  }

  due(): Delivery[] {
    return this.logic.takeAttempts(this.#clock.now(), 100_000);
  }

  record(delivery: Delivery, { statusCode, error, excerpt = 'ok' }: Ending, random: number): Reply {
    const attempt = {
      at: this.now,
      url: 'https://example.com/hook',
      statusCode,
      error,
      durationMs: 5,
      excerpt,
    };
    const { id: deliveryId, round, made } = delivery;
    return this.send({ type: 'RecordAttempt', deadline: Infinity, deliveryId, round, made, attempt, random });
  }

  list(filter: Partial<ListDeliveries>): Page {
    const query = {
      accountId: accountId(1),
      appId: null,
      status: null,
      limit: 100,
      startingAfter: null,
      ...filter,
    };
    const { reply } = this.logic.query({ type: 'ListDeliveries', deadline: Infinity, ...query });
    if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
    return JSON.parse(reply.body) as Page;
  }

  /** All pages of a list, ids only. */
  listAll(filter: Partial<ListDeliveries>): string[] {
    const ids: string[] = [];
    for (let startingAfter: string | null = null; ;) {
      const page = this.list({ ...filter, startingAfter });
      ids.push(...page.data.map(({ id }) => id));
      if (!page.has_more) return ids;
      startingAfter = page.next_cursor;
    }
  }

  /** The same partition from its log alone. */
  replayed(): DrivenWebhooks {
    const again = new DrivenWebhooks(this.policy, [...this.log], new Map(), 0, this.now);
    this.#log((record, sequence) => again.logic.evolve(record, sequence));
    return again;
  }

  /** What a follower of the log writes, as the checkpoint thread does; memory then lets go of it. */
  checkpoint(): void {
    const rows = new Map<string, string>();
    const follower = this.#group.open(0, viewsOf(rows), { writesRows: true, sequence: 0 });
    this.#log((record, sequence) => {
      follower.evolve(record, sequence);
      // Several commits, so that rows are also written over rows.
      if (sequence % 3 === 0) writeRows(follower, rows, sequence);
    });
    writeRows(follower, rows, this.log.length);
    this.rows.clear();
    for (const [key, value] of rows) this.rows.set(key, value);
    this.logic.evict(this.log.length);
  }

  /** The same partition from a checkpoint; this one keeps in memory what it has there. */
  checkpointedAndReopened(): DrivenWebhooks {
    const other = this.replayed();
    other.checkpoint();
    return new DrivenWebhooks(this.policy, [...this.log], other.rows, this.log.length, this.now);
  }

  #log(
    each: (record: ReturnType<ReturnType<typeof createWebhooksGroup>['decode']>, sequence: number) => void,
  ): void {
    this.log.forEach((line, index) => each(this.#group.decode(line), index + 1));
  }
}

function writeRows(follower: WebhooksLogic, rows: Map<string, string>, sequence: number): void {
  for (const { table, key, value } of follower.takeRows()) {
    if (value === null) rows.delete(`${table}\0${key}`);
    else rows.set(`${table}\0${key}`, value);
  }
  follower.evict(sequence);
}

function viewsOf(rows: Map<string, string>): Views {
  return {
    get: (table, key) => rows.get(`${table}\0${key}`),
    *range(table, { start, end, reverse = false, limit = Infinity }) {
      const keys = Array.from(rows.keys())
        .filter((key) => key.startsWith(`${table}\0`))
        .map((key) => key.slice(table.length + 1))
        .filter((key) => key >= start && key < end)
        .sort();
      if (reverse) keys.reverse();
      for (const key of keys.slice(0, limit)) yield { key, value: rows.get(`${table}\0${key}`)! };
    },
  };
}
