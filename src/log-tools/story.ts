// One transaction's whole story, gathered from the logs: the records that made it, what each booked, what the provider
// said, what operators did, and each webhook on its way. Read from the log alone; nothing is taken from the checkpoint.

import type { WebhookRecord } from '../../actors/webhooks/record.ts';
import { deliveryIdOf } from '../../actors/webhooks/record.ts';
import type { AuditBegun, AuditEnded, PlatformRecord } from '../../actors/platform/record.ts';
import type { AccountEvent, AccountRecord } from '../domain/account-event.ts';
import { CURRENCIES } from '../domain/country.ts';
import { evolve } from '../domain/evolve.ts';
import { BODY_LENGTH, bodyOf, timeOf } from '../domain/id.ts';
import { emptyBalances, type Journal } from '../domain/ledger.ts';
import { MemoryState } from '../domain/memory-state.ts';
import { money } from '../domain/money.ts';
import { maskMsisdn } from '../domain/msisdn.ts';
import { renderDetail } from '../domain/render/render.ts';
import type { StatusEvent } from '../domain/transaction.ts';
import { type Data, groupOf } from './data.ts';
import { LIMITS } from '../limits.ts';
import { batchToReadFrom } from './places.ts';
import { LogCorruption, LogRewritten } from '../../wal/batch.ts';
import { BATCHES_A_BREATH, breathe } from '../../wal/tools/priority.ts';
import type { Progress } from '../../wal/tools/progress.ts';
import { type Fault, orFault } from '../../wal/tools/verify.ts';
import type { Batch, PartitionName } from '../../wal/types.ts';

/** An operator's change is decided so long after it was begun, ms, at the latest. Clocks of two nodes differ by less. */
const AROUND_MS = LIMITS.commandDeadlineMs;

const CREATIONS: ReadonlySet<AccountEvent['type']> = new Set([
  'ChargeCreated',
  'DepositCreated',
  'PayoutCreated',
  'WithdrawalCreated',
]);

export interface Chapter {
  readonly group: string;
  readonly partition: number;
  readonly batch: number;
  readonly sequence: number;
  /** Of the record, milliseconds since 1970. */
  readonly at: number;
  /** What the record says of the transaction: events of the ledger, or the record of another group. */
  readonly events: readonly { readonly type: string }[];
  /** What those events changed. */
  readonly statuses: readonly StatusEvent[];
  readonly journals: readonly Journal[];
}

export interface Story {
  readonly transactionId: string;
  readonly accountId: string;
  readonly partition: number;
  readonly chapters: readonly Chapter[];
  /** GET /v1/transactions/:id, as its records make it. */
  readonly detail: object;
  /** Of its logs: of each, what is behind its fault is not told. */
  readonly faults: readonly Fault[];
}

/** Null: no log has it. */
export async function storyOf(data: Data, transactionId: string, progress: Progress): Promise<Story | null> {
  const createdAtMs = timeOf(transactionId);
  const partition = partitionWith(data, transactionId, createdAtMs);
  if (partition === null) return null;
  // What an operator asked for is written before it is done.
  const from = (name: PartitionName): number =>
    batchToReadFrom(data.log, name, createdAtMs - (name.group === 'platform' ? AROUND_MS : 0));
  const faults: Fault[] = [];
  const places: PartitionName[] = [];
  let batches = 0;
  for (const name of [
    { group: 'accounts', partition },
    { group: 'webhooks', partition },
    { group: 'platform', partition: 0 },
  ]) {
    const count = await orFault(() => {
      const last = data.log.lastBatchNumber(name.group, name.partition);
      return last === 0 ? 0 : Math.max(0, last + 1 - from(name));
    });
    if (typeof count !== 'number') faults.push(count);
    else if (count > 0) places.push(name);
    batches += typeof count === 'number' ? count : 0;
  }
  progress.start('inspect', batches);
  const follower = new Follower(transactionId);
  for (const name of places) {
    // Found when it is read: its log may have been cut off since, and be shorter.
    const fault = await orFault(() => follow(data, name, from(name), follower, progress));
    if (fault !== null) faults.push(fault);
  }
  return follower.story(partition, faults);
}

/** The partition whose log creates it: its id says when, so few batches are looked at. */
function partitionWith(data: Data, transactionId: string, createdAtMs: number): number | null {
  const partitions = data.partitionCount();
  let unread: LogCorruption | null = null;
  for (let partition = 0; partition < partitions; partition += 1) {
    try {
      if (creates(data, partition, transactionId, createdAtMs)) return partition;
    } catch (error) {
      if (!(error instanceof LogCorruption) || error instanceof LogRewritten) throw error;
      // It may be in another.
      unread ??= error;
    }
  }
  if (unread !== null) throw unread;
  return null;
}

function creates({ log }: Data, partition: number, transactionId: string, createdAtMs: number): boolean {
  const stem = stemOf(transactionId);
  const from = batchToReadFrom(log, { group: 'accounts', partition }, createdAtMs);
  for (const { records } of log.read('accounts', partition, { afterBatch: from - 1 })) {
    if (records.some((line) => line.includes(stem) && isCreatedBy(line, transactionId))) return true;
    const first = records[0];
    if (first !== undefined && (groupOf('accounts').decode(first) as AccountRecord).at > createdAtMs) break;
  }
  return false;
}

/** A merchant may name it too: a payout of another account has it in its reference, say. */
function isCreatedBy(line: string, transactionId: string): boolean {
  const { events } = groupOf('accounts').decode(line) as AccountRecord;
  return events.some((event) => CREATIONS.has(event.type) && 'id' in event && event.id === transactionId);
}

/** What every id derived from a transaction's has in common with it, in every format. */
function stemOf(id: string): string {
  return bodyOf(id).slice(0, BODY_LENGTH - 2);
}

async function follow(
  { log }: Data,
  { group, partition }: PartitionName,
  from: number,
  follower: Follower,
  progress: Progress,
): Promise<null> {
  let batches = 0;
  for (const batch of log.read(group, partition, { afterBatch: from - 1 })) {
    batch.records.forEach((line, index) => {
      if (follower.concerns(line)) follower.hear(batch, batch.firstSequence + index, line);
    });
    progress.add(1, batch.bytes.length);
    batches += 1;
    if (batches % BATCHES_A_BREATH === 0) await breathe();
  }
  return null;
}

class Follower {
  readonly #id: string;
  /** A line without any of these says nothing of the transaction. */
  readonly #words: Set<string>;
  readonly #chapters: Chapter[] = [];
  readonly #state = new MemoryState();
  readonly #auditIds = new Set<string>();
  readonly #reconciliationIds = new Set<string>();
  /** Whose they are, by their ids. */
  readonly #deliveries = new Map<string, string>();
  /** Of them, with others of the app. */
  readonly #replays: { readonly appId: string; readonly at: number }[] = [];
  /** What operators began that may be of it, though it does not name it. */
  readonly #begun = new Map<string, Begun>();
  #accountId = '';

  constructor(transactionId: string) {
    this.#id = transactionId;
    this.#words = new Set([stemOf(transactionId)]);
  }

  concerns(line: string): boolean {
    for (const word of this.#words) if (line.includes(word)) return true;
    return false;
  }

  hear(batch: Batch, sequence: number, line: string): void {
    switch (batch.group) {
      case 'accounts':
        return this.#hearAccount(batch, sequence, groupOf('accounts').decode(line) as AccountRecord);
      case 'webhooks':
        return this.#hearWebhook(batch, sequence, groupOf('webhooks').decode(line) as WebhookRecord);
      case 'platform':
        return this.#hearPlatform(batch, sequence, groupOf('platform').decode(line) as PlatformRecord);
    }
  }

  story(partition: number, faults: readonly Fault[]): Story | null {
    const transaction = this.#state.transaction(this.#id);
    if (transaction === undefined) return null;
    for (const { record, tell } of this.#begun.values()) if (this.#isOfIt(record, null)) tell();
    const chapters = this.#chapters.sort((a, b) => a.at - b.at);
    const detail = JSON.parse(renderDetail(transaction)) as object;
    return { transactionId: this.#id, accountId: this.#accountId, partition, chapters, detail, faults };
  }

  #hearAccount(batch: Batch, sequence: number, record: AccountRecord): void {
    const events = record.events.filter((event) => this.#isOfTransaction(event));
    if (events.length === 0) return;
    for (const event of events) {
      if (event.type !== 'ReconciliationRaised') continue;
      this.#reconciliationIds.add(event.id);
      this.#words.add(event.id);
    }
    if (this.#accountId === '') this.#standIn(record);
    const before = this.#state.transaction(this.#id);
    const [statuses, journals] = [before?.events.length ?? 0, before?.journals.length ?? 0];
    evolve(this.#state, { ...record, events }, sequence);
    const after = this.#state.transaction(this.#id);
    this.#add(batch, sequence, record.at, events.map(masked), {
      statuses: after?.events.slice(statuses) ?? [],
      journals: after?.journals.slice(journals) ?? [],
    });
  }

  #isOfTransaction(event: AccountEvent): boolean {
    if ('id' in event && event.id === this.#id) return true;
    if (event.type === 'ReconciliationRaised') return event.transactionId === this.#id;
    return event.type === 'ReconciliationResolved' && this.#reconciliationIds.has(event.id);
  }

  /** The rest of its account is not read: an account that has enough of every currency stands in for it. */
  #standIn({ accountId, at }: AccountRecord): void {
    this.#accountId = accountId;
    this.#words.add(depositsOf(accountId));
    const settings = {
      live: true,
      payoutsEnabled: true,
      withdrawalsEnabled: true,
      approvalThresholds: {},
      cashOutPerMinute: null,
      fees: {},
      limits: {},
    };
    const event: AccountEvent = { type: 'AccountOpened', name: '', country: 'UG', settings };
    evolve(this.#state, { accountId, at, events: [event] }, 1);
    const enough = money(2 ** 52);
    for (const currency of CURRENCIES) {
      const balances = { ...emptyBalances(), PROVIDER_FLOAT: enough, MERCHANT_AVAILABLE: enough };
      this.#state.account(accountId)?.balances.set(currency, balances);
    }
  }

  #hearWebhook(batch: Batch, sequence: number, record: WebhookRecord): void {
    if (record.type !== 'EventsTaken') {
      const ids = 'deliveryIds' in record ? record.deliveryIds : [record.deliveryId];
      const ours = ids.filter((id) => this.#deliveries.has(id));
      if (ours.length === 0) return;
      const said = 'deliveryIds' in record ? { ...record, deliveryIds: ours } : record;
      if (record.type === 'DeliveriesReplayed') this.#noteReplays(ours, record.at);
      this.#add(batch, sequence, record.at, [said], nothingBooked);
      return;
    }
    let index = 0;
    for (const event of record.events) {
      const deliveries = event.appIds.map((appId) => ({ appId, id: deliveryIdOf(record.idBody, index++) }));
      if (event.transactionId !== this.#id) continue;
      for (const { id, appId } of deliveries) {
        this.#deliveries.set(id, appId);
        this.#words.add(id);
      }
      const { id, eventType } = event;
      const taken = { type: 'EventTaken', eventId: id, eventType, body: JSON.parse(event.body), deliveries };
      this.#add(batch, sequence, record.at, [taken], nothingBooked);
    }
  }

  #noteReplays(deliveryIds: readonly string[], at: number): void {
    for (const appId of new Set(deliveryIds.map((id) => this.#deliveries.get(id) ?? ''))) {
      this.#replays.push({ appId, at });
      this.#words.add(replayFailedOf(appId));
    }
  }

  #hearPlatform(batch: Batch, sequence: number, record: PlatformRecord): void {
    const tell = (): void => this.#add(batch, sequence, record.at, [record], nothingBooked);
    if (record.type === 'AuditBegun') {
      this.#words.add(stemOf(record.id));
      if (!this.#isAimedAtIt(record.target)) return void this.#begun.set(record.id, { record, tell });
      this.#auditIds.add(record.id);
      tell();
    } else if (record.type === 'AuditEnded') {
      const begun = this.#begun.get(record.id);
      // One of many, as a rule.
      this.#begun.delete(record.id);
      this.#words.delete(stemOf(record.id));
      const isOfIt = begun !== undefined && this.#isOfIt(begun.record, record);
      if (isOfIt) begun.tell();
      if (isOfIt || this.#auditIds.has(record.id)) tell();
    }
  }

  /** Whether it made the transaction, or sent its webhooks again with others. Null: nobody saw its end. */
  #isOfIt(begun: AuditBegun, ended: AuditEnded | null): boolean {
    if (ended !== null && ended.objectId !== null) return ended.objectId === this.#id;
    if (ended?.outcome === 'refused') return false;
    const until = (ended?.at ?? begun.at) + AROUND_MS;
    const isThen = (at: number): boolean => at > begun.at - AROUND_MS && at < until;
    if (begun.target.endsWith(depositsOf(this.#accountId))) {
      const { reference } = JSON.parse(begun.body ?? '{}') as { readonly reference?: unknown };
      return reference === this.#state.transaction(this.#id)?.reference && isThen(timeOf(this.#id));
    }
    return this.#replays.some(({ appId, at }) => begun.target.endsWith(replayFailedOf(appId)) && isThen(at));
  }

  /** Also at a webhook of it, or at what was raised of it: an operator's word of these names no transaction. */
  #isAimedAtIt(target: string): boolean {
    return target.split('/').some((part) => {
      return part === this.#id || this.#deliveries.has(part) || this.#reconciliationIds.has(part);
    });
  }

  #add(
    { group, partition, batch }: Batch,
    sequence: number,
    at: number,
    events: Chapter['events'],
    { statuses, journals }: Pick<Chapter, 'statuses' | 'journals'>,
  ): void {
    this.#chapters.push({ group, partition, batch, sequence, at, events, statuses, journals });
  }
}

/** Ends of the paths that an operator calls. */
function depositsOf(accountId: string): string {
  return `/accounts/${accountId}/deposits`;
}

function replayFailedOf(appId: string): string {
  return `/apps/${appId}/replay_failed`;
}

interface Begun {
  readonly record: AuditBegun;
  readonly tell: () => void;
}

const nothingBooked = { statuses: [], journals: [] } as const;

function masked(event: AccountEvent): AccountEvent {
  return 'msisdn' in event ? { ...event, msisdn: maskMsisdn(event.msisdn) } : event;
}
