// What webhooks are to do, said naively: from the log of the accounts, in order, who was to hear of what and where; of each
// delivery what was sent and when it is due again. Every decision of the webhooks partition is compared with `expected` and
// taken in by `apply`.

import { strict as assert } from 'node:assert';
import type { WebhookPolicy } from '../../actors/webhooks/decide.ts';
import type { WebhookCommand } from '../../actors/webhooks/message.ts';
import { deliveryIdOf } from '../../actors/webhooks/record.ts';
import type { Attempt, WebhookRecord } from '../../actors/webhooks/record.ts';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import type { DeliveryStatus, DeliveryView } from '../../src/domain/webhook-message.ts';

const JITTER = 0.1;
const ATTEMPTS_SHOWN = 32;
const REPLAYED_AT_ONCE = 500;

interface ModelTransaction {
  readonly account: string;
  /** Null: moved from the dashboard. */
  readonly app: string | null;
  readonly amount: number;
}

/** A final status, as the accounts' log has it. */
export interface Final {
  readonly sequence: number;
  readonly at: number;
  readonly account: string;
  readonly transaction: string;
  readonly amount: number;
  readonly status: 'SUCCESSFUL' | 'FAILED' | 'REVERSED';
  /** Who had a URL when it happened. */
  readonly hears: readonly string[];
}

interface ModelApp {
  readonly account: string;
  readonly secret: string;
  /** Oldest first, each from a sequence of the accounts' log on. */
  readonly urls: { readonly from: number; readonly url: string | null }[];
  removed: boolean;
}

/** The log of the accounts. Nothing of it is ever taken back: it is durable. */
export class Truth {
  readonly apps = new Map<string, ModelApp>();
  readonly finals: Final[] = [];
  readonly transactions = new Map<string, ModelTransaction>();
  /** One of each account. */
  readonly owners = new Map<string, string>();
  readonly wallets = new Map<string, string>();
  sequence = 0;

  apply({ accountId, at, events }: AccountRecord): void {
    this.sequence++;
    for (const event of events) this.#apply(accountId, at, event);
  }

  #apply(account: string, at: number, event: AccountEvent): void {
    switch (event.type) {
      case 'AppConnected': {
        const { id, webhookUrl: url, signingSecretSealed: secret } = event;
        this.apps.set(id, { account, secret, urls: [{ from: this.sequence, url }], removed: false });
        return;
      }
      case 'AppWebhookChanged':
        this.apps.get(event.id)!.urls.push({ from: this.sequence, url: event.webhookUrl });
        return;
      case 'AppRemoved':
        this.apps.get(event.id)!.urls.push({ from: this.sequence, url: null });
        this.apps.get(event.id)!.removed = true;
        return;
      case 'ChargeCreated':
      case 'DepositCreated':
      case 'PayoutCreated':
      case 'WithdrawalCreated':
        this.transactions.set(event.id, { account, app: event.appId, amount: event.amount });
        return;
      case 'UserAdded':
      case 'UserRoleChanged':
      case 'UserRemoved':
        this.owners.set(account, event.id);
        return;
      case 'WalletAdded':
        this.wallets.set(account, event.id);
        return;
      case 'TransactionSucceeded':
        return this.#final(at, event.id, 'SUCCESSFUL');
      case 'TransactionFailed':
      case 'WithdrawalRejected':
        return this.#final(at, event.id, 'FAILED');
      case 'ChargeReversed':
        return this.#final(at, event.id, 'REVERSED');
      // Nobody is told of these.
      case 'AccountOpened':
      case 'AccountSettingsChanged':
      case 'AnswerFixed':
      case 'ChargeReleased':
      case 'ReconciliationRaised':
      case 'ReconciliationResolved':
      case 'SubmissionBegun':
      case 'SubmissionAccepted':
      case 'WalletActivated':
      case 'WalletApproved':
      case 'WalletRevoked':
      case 'WithdrawalApproved':
    }
  }

  #final(at: number, transaction: string, status: Final['status']): void {
    const { account, app, amount } = this.transactions.get(transaction)!;
    const { sequence } = this;
    const hears = [...this.apps]
      .filter(([id, one]) => (app === null ? one.account === account : id === app))
      .filter(([id]) => this.urlAt(id, sequence) !== null)
      .map(([id]) => id);
    this.finals.push({ sequence, at, account, transaction, amount, status, hears });
  }

  /** Of an app, to whoever has read the log up to `sequence`. */
  urlAt(app: string, sequence: number): string | null {
    return this.apps.get(app)?.urls.findLast(({ from }) => from <= sequence)?.url ?? null;
  }
}

export interface ModelDelivery {
  readonly id: string;
  readonly account: string;
  readonly app: string;
  readonly event: string;
  readonly eventType: string;
  readonly transaction: string;
  readonly createdAt: number;
  status: DeliveryStatus;
  nextAt: number | null;
  round: number;
  made: number;
  readonly attempts: Attempt[];
}

/** Plain, so that it can be cloned. */
export interface Model {
  cursor: number;
  /** Where it was before: an attempt that began in the same turn goes by that. */
  before: number;
  /** Oldest first. */
  readonly deliveries: Map<string, ModelDelivery>;
  /** All that there ever were: by transaction and status, which apps. */
  readonly taken: Map<string, string[]>;
}

export const emptyModel = (): Model => ({ cursor: 0, before: 0, deliveries: new Map(), taken: new Map() });

export const keyOf = ({ transaction, status }: Final): string => `${transaction} ${status}`;
const isUnsigned = (attempt: Attempt | undefined): boolean => attempt?.error === 'secret_unreadable';
const isFailed = ({ status }: ModelDelivery): boolean => status === 'DEAD_LETTERED' || status === 'RETRYING';

export interface At {
  readonly now: number;
  readonly policy: WebhookPolicy;
}

/** Asserts that `record` is what `command` is to come to. */
export function check(
  truth: Truth,
  model: Model,
  command: WebhookCommand,
  record: WebhookRecord | null,
  { now, policy }: At,
): void {
  assert.equal(record?.at ?? now, now);
  const urlOf = (app: string): string | null => truth.urlAt(app, model.cursor);
  switch (command.type) {
    case 'TakeEvents':
      if (command.afterSequence !== model.cursor) return assert.equal(record, null);
      assert(record?.type === 'EventsTaken');
      return checkTaken(truth, model, record);
    case 'RecordAttempt':
      return checkAttempt(model.deliveries.get(command.deliveryId), command, record, { now, policy });
    case 'CancelDelivery': {
      const delivery = model.deliveries.get(command.deliveryId);
      if (delivery === undefined || delivery.nextAt === null || urlOf(delivery.app) !== null) {
        return assert.equal(record, null);
      }
      return assert.deepEqual(record, { type: 'DeliveryCancelled', at: now, deliveryId: delivery.id });
    }
    case 'ReplayDelivery': {
      const delivery = model.deliveries.get(command.deliveryId);
      const may = delivery?.account === command.accountId && urlOf(delivery.app) !== null;
      const deliveryIds = [command.deliveryId];
      const replayed = { type: 'DeliveriesReplayed', at: now, deliveryIds, by: command.operator };
      return assert.deepEqual(record, may ? replayed : null);
    }
    case 'ReplayFailedDeliveries': {
      const wanted = [...model.deliveries.values()]
        .filter(({ account, app }) => account === command.accountId && app === command.appId)
        .filter((one) => isFailed(one) && one.createdAt >= command.since && urlOf(one.app) !== null)
        .map(({ id }) => id);
      const got = record?.type === 'DeliveriesReplayed' ? record.deliveryIds : [];
      assert(wanted.length < REPLAYED_AT_ONCE);
      return assert.deepEqual(got.toSorted(), wanted.toSorted());
    }
    case 'RemoveOldDeliveries':
      if (record === null) return;
      assert(record.type === 'DeliveriesRemoved');
      for (const id of record.deliveryIds) {
        const { nextAt, createdAt } = model.deliveries.get(id)!;
        assert(nextAt === null && createdAt <= now - policy.retentionMs, `${id} may go`);
      }
  }
}

/** It counts once, unless it could not be signed: that is said once, and is all the same due until its retention is over. */
function checkAttempt(
  delivery: ModelDelivery | undefined,
  { round, made, attempt }: Extract<WebhookCommand, { type: 'RecordAttempt' }>,
  record: WebhookRecord | null,
  { now, policy }: At,
): void {
  if (delivery === undefined) return assert.equal(record, null);
  const isNews = round < delivery.round || (made === delivery.made && delivery.nextAt !== null);
  const isKept = isUnsigned(attempt) && now - delivery.createdAt < policy.retentionMs;
  if (!isNews || (isKept && isUnsigned(delivery.attempts.at(-1)))) return assert.equal(record, null);
  assert(record?.type === 'AttemptRecorded' && record.deliveryId === delivery.id);
  assert.deepEqual(record.attempt, attempt);
  if (round < delivery.round || isKept) return assert.equal(record.next, null);
  assert(record.next !== null);
  checkNext(record.next, made + 1, attempt.error, { now, policy });
}

/** Each final status that was read, to everybody who had a URL then; whom it finds removed may hear nothing of it. */
function checkTaken(
  truth: Truth,
  model: Model,
  record: Extract<WebhookRecord, { type: 'EventsTaken' }>,
): void {
  const { upstreamSequence, events } = record;
  assert(
    upstreamSequence > model.cursor && upstreamSequence <= truth.sequence,
    'read on, as far as there is',
  );
  const taken = events.map((event) => ({ ...event, body: JSON.parse(event.body) as any }));
  for (const final of truth.finals) {
    if (final.sequence <= model.cursor || final.sequence > upstreamSequence) continue;
    const connected = final.hears.filter((app) => !truth.apps.get(app)!.removed);
    const [event] = taken;
    const isThis =
      event?.transactionId === final.transaction && event.body.data.object.status === final.status;
    if (!isThis) {
      assert.deepEqual(connected, [], `${keyOf(final)} is taken`);
      continue;
    }
    taken.shift();
    const type = `${event.body.data.object.object}.${final.status.toLowerCase()}`;
    assert.deepEqual(
      [event.body.id, event.body.object, event.body.type, event.body.data.object.id, event.accountId],
      [event.id, 'event', type, final.transaction, final.account],
    );
    assert.deepEqual(
      [event.eventType, event.at, Date.parse(event.body.created_at), event.body.data.object.amount],
      [type, final.at, final.at, String(final.amount)],
    );
    for (const app of event.appIds) assert(final.hears.includes(app), `${app} hears of ${keyOf(final)}`);
    for (const app of connected) assert(event.appIds.includes(app), `${app} hears of ${keyOf(final)}`);
    assert.equal(new Set(event.appIds).size, event.appIds.length);
    assert(!model.taken.has(keyOf(final)), `${keyOf(final)} is taken once`);
  }
  assert.deepEqual(taken, [], 'nothing else is taken');
}

function checkNext(
  next: { readonly status: DeliveryStatus; readonly nextAt: number | null },
  made: number,
  error: string | null,
  { now, policy }: At,
): void {
  const waitMs = policy.retryMs[made - 1];
  if (error === null) assert.deepEqual(next, { status: 'DELIVERED', nextAt: null });
  else if (waitMs === undefined || error === 'given_up' || error === 'secret_unreadable') {
    assert.deepEqual(next, { status: 'DEAD_LETTERED', nextAt: null });
  } else {
    assert.equal(next.status, 'RETRYING');
    assert(Math.abs(next.nextAt! - now - waitMs) <= waitMs * JITTER + 1, `in ${waitMs} ms`);
  }
}

/** Takes in what was logged. */
export function apply(model: Model, record: WebhookRecord): void {
  const { deliveries } = model;
  switch (record.type) {
    case 'EventsTaken':
      model.before = model.cursor;
      model.cursor = record.upstreamSequence;
      return take(model, record);
    case 'AttemptRecorded': {
      const delivery = deliveries.get(record.deliveryId)!;
      delivery.attempts.push(record.attempt);
      if (record.next === null) return;
      delivery.made++;
      Object.assign(delivery, record.next);
      return;
    }
    case 'DeliveriesReplayed':
      for (const id of record.deliveryIds) {
        const { round } = deliveries.get(id)!;
        const anew = { status: 'PENDING', nextAt: record.at, round: round + 1, made: 0 };
        Object.assign(deliveries.get(id)!, anew);
      }
      return;
    case 'DeliveryCancelled':
      Object.assign(deliveries.get(record.deliveryId)!, { status: 'CANCELLED', nextAt: null });
      return;
    case 'DeliveriesRemoved':
      for (const id of record.deliveryIds) assert(deliveries.delete(id));
  }
}

function take(model: Model, record: Extract<WebhookRecord, { type: 'EventsTaken' }>): void {
  let n = 0;
  for (const event of record.events) {
    const { status } = (JSON.parse(event.body) as { data: { object: { status: string } } }).data.object;
    model.taken.set(`${event.transactionId} ${status}`, [...event.appIds]);
    for (const app of event.appIds) {
      const id = deliveryIdOf(record.idBody, n++);
      model.deliveries.set(id, {
        id,
        account: event.accountId,
        app,
        event: event.id,
        eventType: event.eventType,
        transaction: event.transactionId,
        createdAt: record.at,
        status: 'PENDING',
        nextAt: record.at,
        round: 0,
        made: 0,
        attempts: [],
      });
    }
  }
}

/** As operators are shown it. */
export function viewOf(truth: Truth, model: Model, delivery: ModelDelivery): DeliveryView {
  const { attempts, nextAt } = delivery;
  const current = nextAt === null ? null : truth.urlAt(delivery.app, model.cursor);
  return {
    id: delivery.id,
    object: 'delivery',
    account_id: delivery.account,
    app_id: delivery.app,
    event_id: delivery.event,
    event_type: delivery.eventType,
    transaction_id: delivery.transaction,
    status: delivery.status,
    url: current ?? attempts.at(-1)?.url ?? null,
    next_attempt_at: nextAt === null ? null : new Date(nextAt).toISOString(),
    created_at: new Date(delivery.createdAt).toISOString(),
    attempts: attempts.slice(-ATTEMPTS_SHOWN).map((attempt) => ({
      at: new Date(attempt.at).toISOString(),
      status_code: attempt.statusCode,
      error: attempt.error,
      duration_ms: attempt.durationMs,
      excerpt: attempt.excerpt,
    })),
  };
}
