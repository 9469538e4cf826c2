// State of one webhooks partition: what changed since the checkpoint in memory, the rest in the views.
//
// Invariants: memory holds what was touched since the last eviction and nothing else, so a finished delivery, and one
// that waits for its next attempt, costs no memory here; what is in memory hides its row; values are never changed, only
// replaced. Nothing but `evolve` puts.
//
// Tables, by key:
//   cursor       upstream                                sequence of the accounts partition read so far
//   endpoint     appId                                   Endpoint
//   event        eventId                                 EventBody
//   delivery     deliveryId                              Delivery
//   due          deliveryId                              nextAt, and F for a first attempt; only while one is due
//   list         accountId/deliveryId                    ''   newest first from the end
//   list         accountId/appId/deliveryId              ''
//   list         accountId/(appId or *)/STATUS/deliveryId    ''   except DELIVERED: the usual end needs no index

import { BODY_LENGTH, ID_PREFIXES } from '../../src/domain/id.ts';
import { DELIVERY_STATUSES } from '../../src/domain/webhook-message.ts';
import type { DeliveryStatus } from '../../src/domain/webhook-message.ts';
import { keyAfter, LAST_KEY, type Row, type Views } from '../../wal/types.ts';
import type { Delivery, Endpoint, EventBody } from './record.ts';

interface Kept<Value> {
  /** Null: removed. */
  readonly value: Value | null;
  /** Log sequence of the record that put it. */
  readonly sequence: number;
}

/** One table with its newest part in memory, in the order of the last change. */
class Table<Value> {
  readonly #name: string;
  readonly #views: Views;
  readonly #kept = new Map<string, Kept<Value>>();

  constructor(name: string, views: Views) {
    this.#name = name;
    this.#views = views;
  }

  get(key: string): Value | null {
    const kept = this.#kept.get(key);
    return kept === undefined ? this.stored(key) : kept.value;
  }

  /** As the checkpoint has it. */
  stored(key: string): Value | null {
    const text = this.#views.get(this.#name, key);
    return text === undefined ? null : (JSON.parse(text) as Value);
  }

  has(key: string): boolean {
    return this.#kept.has(key);
  }

  put(key: string, value: Value | null, sequence: number): void {
    this.#kept.delete(key);
    this.#kept.set(key, { value, sequence });
  }

  /** All there are, in no order. */
  *values(): Iterable<Value> {
    for (const { value } of this.#kept.values()) if (value !== null) yield value;
    for (const { key, value } of this.#views.range(this.#name, { start: '', end: LAST_KEY })) {
      if (!this.#kept.has(key)) yield JSON.parse(value) as Value;
    }
  }

  entries(): Iterable<[string, Kept<Value>]> {
    return this.#kept;
  }

  row(key: string, value: Value | null): Row {
    return { table: this.#name, key, value: value === null ? null : JSON.stringify(value) };
  }

  /** Returns the keys that left. */
  evict(sequence: number): string[] {
    const left: string[] = [];
    for (const [key, kept] of this.#kept) {
      if (kept.sequence > sequence) break;
      left.push(key);
    }
    for (const key of left) this.#kept.delete(key);
    return left;
  }
}

export interface DueRow {
  readonly deliveryId: string;
  readonly nextAt: number;
  readonly isFirst: boolean;
}

export class WebhookState {
  readonly #views: Views;
  readonly #endpoints: Table<Endpoint>;
  readonly #events: Table<EventBody>;
  readonly #deliveries: Table<Delivery>;
  /** Deliveries in memory, by account. */
  readonly #byAccount = new Map<string, Set<string>>();
  /** Account of each delivery in memory, also of one that was removed. */
  readonly #accountOf = new Map<string, string>();
  #cursor: number;
  /** Since rows were taken. */
  #cursorDirty = false;
  /** Sequence of the last record applied. */
  sequence: number;

  constructor(views: Views, sequence: number) {
    this.#views = views;
    this.sequence = sequence;
    this.#endpoints = new Table('endpoint', views);
    this.#events = new Table('event', views);
    this.#deliveries = new Table('delivery', views);
    this.#cursor = Number(views.get('cursor', 'upstream') ?? 0);
  }

  /** The accounts partition's log is read up to here. */
  get cursor(): number {
    return this.#cursor;
  }

  endpoint(appId: string): Endpoint | null {
    return this.#endpoints.get(appId);
  }

  endpoints(): Iterable<Endpoint> {
    return this.#endpoints.values();
  }

  event(eventId: string): EventBody | null {
    return this.#events.get(eventId);
  }

  delivery(deliveryId: string): Delivery | null {
    return this.#deliveries.get(deliveryId);
  }

  setCursor(upstreamSequence: number): void {
    this.#cursor = upstreamSequence;
    this.#cursorDirty = true;
  }

  putEndpoint(endpoint: Endpoint): void {
    this.#endpoints.put(endpoint.appId, endpoint, this.sequence);
  }

  putEvent(event: EventBody): void {
    this.#events.put(event.id, event, this.sequence);
  }

  removeEvent(eventId: string): void {
    this.#events.put(eventId, null, this.sequence);
  }

  putDelivery(delivery: Delivery): void {
    this.#keepDelivery(delivery.id, delivery.accountId, delivery);
  }

  removeDelivery(delivery: Delivery): void {
    this.#keepDelivery(delivery.id, delivery.accountId, null);
  }

  #keepDelivery(id: string, accountId: string, value: Delivery | null): void {
    this.#deliveries.put(id, value, this.sequence);
    this.#accountOf.set(id, accountId);
    const ofAccount = this.#byAccount.get(accountId);
    if (ofAccount === undefined) this.#byAccount.set(accountId, new Set([id]));
    else ofAccount.add(id);
  }

  /** Everything that waits for an attempt, as the checkpoint has it. */
  *due(): Iterable<DueRow> {
    for (const { key, value } of this.#views.range('due', { start: '', end: LAST_KEY })) {
      yield { deliveryId: key, nextAt: Number.parseInt(value, 10), isFirst: value.endsWith('F') };
    }
  }

  /** Ids of deliveries that the views list under `prefix`, newest first, below `before`. They may have changed since:
   *  what memory holds of the account comes from `inMemory`. */
  *listed(prefix: string, before: string | null): Iterable<string> {
    const start = prefix + ID_PREFIXES.delivery;
    const end = before === null ? start + LAST_KEY : prefix + before;
    for (const { key } of this.#views.range('list', { start, end, reverse: true })) {
      const id = key.slice(-DELIVERY_ID_LENGTH);
      if (!this.#deliveries.has(id)) yield id;
    }
  }

  /** False: the views list it under another status, so it need not be read to know. */
  mayBeDelivered(accountId: string, deliveryId: string): boolean {
    if (this.#deliveries.has(deliveryId)) return true;
    return LISTED_STATUSES.every(
      (status) => this.#views.get('list', listPrefix(accountId, null, status) + deliveryId) === undefined,
    );
  }

  inMemory(accountId: string): Delivery[] {
    const ids = this.#byAccount.get(accountId) ?? [];
    return Array.from(ids, (id) => this.#deliveries.get(id)).filter((delivery) => delivery !== null);
  }

  /** Checkpointed deliveries with ids above `after` and below `before`, oldest first, and how long their rows are. */
  *oldest(after: string, before: string): Iterable<{ readonly id: string; readonly characters: number }> {
    for (const { key, value } of this.#views.range('delivery', { start: keyAfter(after), end: before })) {
      yield { id: key, characters: value.length };
    }
  }

  /** It waits for an attempt: said without reading the delivery where the views say so. */
  waits(deliveryId: string): boolean {
    if (this.#deliveries.has(deliveryId)) return (this.#deliveries.get(deliveryId)?.nextAt ?? null) !== null;
    return this.#views.get('due', deliveryId) !== undefined;
  }

  takeRows(): Row[] {
    const rows: Row[] = [];
    if (this.#cursorDirty) rows.push({ table: 'cursor', key: 'upstream', value: String(this.#cursor) });
    this.#cursorDirty = false;
    for (const [key, { value }] of this.#endpoints.entries()) rows.push(this.#endpoints.row(key, value));
    for (const [key, { value }] of this.#events.entries()) rows.push(this.#events.row(key, value));
    for (const [key, { value }] of this.#deliveries.entries()) this.#deliveryRows(key, value, rows);
    return rows;
  }

  #deliveryRows(id: string, delivery: Delivery | null, rows: Row[]): void {
    const stored = this.#deliveries.stored(id);
    rows.push(this.#deliveries.row(id, delivery));
    const due = delivery === null ? null : dueValue(delivery);
    if (due !== null) rows.push({ table: 'due', key: id, value: due });
    else if (stored !== null && stored.nextAt !== null) rows.push({ table: 'due', key: id, value: null });
    const keysNow = delivery === null ? [] : listKeys(delivery);
    const keysBefore = stored === null ? [] : listKeys(stored);
    for (const key of keysBefore) if (!keysNow.includes(key)) rows.push({ table: 'list', key, value: null });
    for (const key of keysNow) if (!keysBefore.includes(key)) rows.push({ table: 'list', key, value: '' });
  }

  /** The checkpoint has reached `sequence`. */
  evict(sequence: number): void {
    this.#endpoints.evict(sequence);
    this.#events.evict(sequence);
    for (const id of this.#deliveries.evict(sequence)) {
      const accountId = this.#accountOf.get(id) ?? '';
      this.#accountOf.delete(id);
      const ofAccount = this.#byAccount.get(accountId);
      ofAccount?.delete(id);
      if (ofAccount?.size === 0) this.#byAccount.delete(accountId);
    }
  }
}

export function isFirstAttempt(delivery: Delivery): boolean {
  return delivery.round === 0 && delivery.made === 0;
}

/** The part of a list key before the delivery's id. */
export function listPrefix(accountId: string, appId: string | null, status: DeliveryStatus | null): string {
  if (status !== null && status !== 'DELIVERED') return `${accountId}/${appId ?? '*'}/${status}/`;
  return appId === null ? `${accountId}/` : `${accountId}/${appId}/`;
}

function listKeys({ id, accountId, appId, status }: Delivery): string[] {
  const keys = [listPrefix(accountId, null, null) + id, listPrefix(accountId, appId, null) + id];
  if (status !== 'DELIVERED') {
    keys.push(listPrefix(accountId, null, status) + id, listPrefix(accountId, appId, status) + id);
  }
  return keys;
}

function dueValue(delivery: Delivery): string | null {
  if (delivery.nextAt === null) return null;
  return isFirstAttempt(delivery) ? `${delivery.nextAt} F` : String(delivery.nextAt);
}

/** Those with an index of their own. */
const LISTED_STATUSES = DELIVERY_STATUSES.filter((status) => status !== 'DELIVERED');
const DELIVERY_ID_LENGTH = ID_PREFIXES.delivery.length + BODY_LENGTH;
