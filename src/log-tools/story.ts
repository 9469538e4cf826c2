// One transaction's whole story, gathered from the logs: the records that made it, what each booked, what the provider
// said, what operators did, and each webhook on its way. Read from the log alone; nothing is taken from the checkpoint.

import type { WebhookRecord } from '../../actors/webhooks/record.ts';
import { deliveryIdOf } from '../../actors/webhooks/record.ts';
import type { PlatformRecord } from '../../actors/platform/record.ts';
import type { AccountEvent, AccountRecord } from '../domain/account-event.ts';
import { CURRENCIES } from '../domain/country.ts';
import { evolve } from '../domain/evolve.ts';
import { BODY_LENGTH, bodyOf, timeOf } from '../domain/id.ts';
import { emptyBalances, type Journal } from '../domain/ledger.ts';
import { MemoryState } from '../domain/memory-state.ts';
import { money } from '../domain/money.ts';
import { maskMsisdn } from '../domain/msisdn.ts';
import { renderDetail } from '../domain/render.ts';
import type { StatusEvent } from '../domain/transaction.ts';
import { type Data, groupOf } from './data.ts';
import { batchToReadFrom } from './places.ts';
import { LogCorruption, LogRewritten } from '../../wal/batch.ts';
import { BATCHES_A_BREATH, breathe } from '../../wal/tools/priority.ts';
import type { Progress } from '../../wal/tools/progress.ts';
import type { Batch, PartitionName } from '../../wal/types.ts';

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
}

/** Null: no log has it. */
export async function storyOf(data: Data, transactionId: string, progress: Progress): Promise<Story | null> {
  const createdAtMs = timeOf(transactionId);
  const partition = partitionWith(data, transactionId, createdAtMs);
  if (partition === null) return null;
  const places = [
    { group: 'accounts', partition },
    { group: 'webhooks', partition },
    { group: 'platform', partition: 0 },
  ].filter((name) => data.log.lastBatchNumber(name.group, name.partition) > 0);
  const from = (name: PartitionName): number => batchToReadFrom(data.log, name, createdAtMs);
  progress.start(
    'inspect',
    places.reduce((sum, name) => {
      return sum + Math.max(0, data.log.lastBatchNumber(name.group, name.partition) + 1 - from(name));
    }, 0),
  );
  const follower = new Follower(transactionId);
  // Each is found when it is read: its log may have been cut off since, and be shorter.
  for (const name of places) await follow(data, name, from(name), follower, progress);
  return follower.story(partition);
}

/** The partition whose log creates it: its id says when, so few batches are looked at. */
function partitionWith(data: Data, transactionId: string, createdAtMs: number): number | null {
  const stem = stemOf(transactionId);
  const partitions = data.partitionCount();
  let unread: LogCorruption | null = null;
  for (let partition = 0; partition < partitions; partition += 1) {
    try {
      if (creates(data, partition, stem, createdAtMs)) return partition;
    } catch (error) {
      if (!(error instanceof LogCorruption) || error instanceof LogRewritten) throw error;
      // It may be in another.
      unread ??= error;
    }
  }
  if (unread !== null) throw unread;
  return null;
}

function creates({ log }: Data, partition: number, stem: string, createdAtMs: number): boolean {
  const from = batchToReadFrom(log, { group: 'accounts', partition }, createdAtMs);
  for (const { records } of log.read('accounts', partition, { afterBatch: from - 1 })) {
    if (records.some((line) => line.includes(stem))) return true;
    const first = records[0];
    if (first !== undefined && (groupOf('accounts').decode(first) as AccountRecord).at > createdAtMs) break;
  }
  return false;
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
): Promise<void> {
  let batches = 0;
  for (const batch of log.read(group, partition, { afterBatch: from - 1 })) {
    batch.records.forEach((line, index) => {
      if (follower.concerns(line)) follower.hear(batch, batch.firstSequence + index, line);
    });
    progress.add(1, batch.bytes.length);
    batches += 1;
    if (batches % BATCHES_A_BREATH === 0) await breathe();
  }
}

class Follower {
  readonly #id: string;
  /** A line without any of these says nothing of the transaction. */
  readonly #words: string[];
  readonly #chapters: Chapter[] = [];
  readonly #state = new MemoryState();
  readonly #auditIds = new Set<string>();
  readonly #reconciliationIds = new Set<string>();
  readonly #deliveryIds = new Set<string>();
  #accountId = '';

  constructor(transactionId: string) {
    this.#id = transactionId;
    this.#words = [stemOf(transactionId)];
  }

  concerns(line: string): boolean {
    return this.#words.some((word) => line.includes(word));
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

  story(partition: number): Story | null {
    const transaction = this.#state.transaction(this.#id);
    if (transaction === undefined) return null;
    const chapters = this.#chapters.sort((a, b) => a.at - b.at);
    const detail = JSON.parse(renderDetail(transaction)) as object;
    return { transactionId: this.#id, accountId: this.#accountId, partition, chapters, detail };
  }

  #hearAccount(batch: Batch, sequence: number, record: AccountRecord): void {
    const events = record.events.filter((event) => this.#isOfTransaction(event));
    if (events.length === 0) return;
    for (const event of events) {
      if (event.type !== 'ReconciliationRaised') continue;
      this.#reconciliationIds.add(event.id);
      this.#words.push(event.id);
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
      const ours = ids.filter((id) => this.#deliveryIds.has(id));
      if (ours.length === 0) return;
      const said = 'deliveryIds' in record ? { ...record, deliveryIds: ours } : record;
      this.#add(batch, sequence, record.at, [said], nothingBooked);
      return;
    }
    let index = 0;
    for (const event of record.events) {
      const deliveries = event.appIds.map((appId) => ({ appId, id: deliveryIdOf(record.idBody, index++) }));
      if (event.transactionId !== this.#id) continue;
      for (const { id } of deliveries) {
        this.#deliveryIds.add(id);
        this.#words.push(id);
      }
      const { id, eventType } = event;
      const taken = { type: 'EventTaken', eventId: id, eventType, body: JSON.parse(event.body), deliveries };
      this.#add(batch, sequence, record.at, [taken], nothingBooked);
    }
  }

  #hearPlatform(batch: Batch, sequence: number, record: PlatformRecord): void {
    if (record.type === 'AuditBegun' && this.#isAimedAtIt(record.target)) {
      this.#auditIds.add(record.id);
      this.#words.push(record.id, stemOf(record.id));
    } else if (record.type !== 'AuditEnded' || !this.#auditIds.has(record.id)) return;
    this.#add(batch, sequence, record.at, [record], nothingBooked);
  }

  /** Also at a webhook of it, or at what was raised of it: an operator's word of these names no transaction. */
  #isAimedAtIt(target: string): boolean {
    return target.split('/').some((part) => {
      return part === this.#id || this.#deliveryIds.has(part) || this.#reconciliationIds.has(part);
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

const nothingBooked = { statuses: [], journals: [] } as const;

function masked(event: AccountEvent): AccountEvent {
  return 'msisdn' in event ? { ...event, msisdn: maskMsisdn(event.msisdn) } : event;
}
