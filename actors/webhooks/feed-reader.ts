// From the feed of an accounts partition to deliveries of the webhooks partition of the same number. Reads committed
// records, asks the ledger for each object as it was at its final status, and hands both over as TakeEvents.
//
// Invariants: a record is handed over whole and in order, together with the cursor behind it, in one record of our log:
// after a crash reading goes on exactly there. Nothing is skipped: what cannot be asked or handed over now is tried again
// until it can. Meanwhile the feed is read on, up to a bound: what it brings goes in one handing over, so that a feed whose
// batches come faster than one after the other could be handed over is kept up with. An event's id and body come from the
// ledger alone, so that a second reading gives the same.

import { setImmediate } from 'node:timers/promises';
import { assert } from '../../src/domain/assert.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import type { FinalStatus } from '../../src/domain/transaction.ts';
import { partitionOf } from '../../src/bus/bus.ts';
import type { Bus, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import type { Feed, FeedBatch, Subscription } from '../../src/bus/feed.ts';
import { LIMITS } from '../../src/limits.ts';
import type { EndpointChange, OfferedEvent, TakeEvents } from './message.ts';
import { pause } from '../../src/pause.ts';

/** How a message reaches a partition. */
export type Send = (message: Message, onReply: OnReply) => void;

export interface FeedReaderOptions {
  readonly bus: Bus;
  readonly feed: Feed;
  readonly partition: number;
  /** To the webhooks partition. */
  readonly send: Send;
  /** Where the log's cursor stands now. */
  readonly cursor: () => number;
  /** By which deadlines of messages are set, milliseconds since 1970. */
  readonly deadlineClock: () => number;
  /** Called when deliveries have been taken, or apps have another endpoint than before. */
  readonly onTaken: (endpoints: readonly EndpointChange[]) => void;
  /** Resolves when there is room for more deliveries. */
  readonly room: () => Promise<void>;
}

/** What one upstream record means for webhooks. */
interface Finding {
  readonly sequence: number;
  readonly endpoints: readonly EndpointChange[];
  readonly finals: readonly {
    readonly accountId: string;
    readonly transactionId: string;
    readonly status: FinalStatus;
  }[];
}

/** A finding with its objects. */
interface Answered {
  readonly sequence: number;
  readonly endpoints: readonly EndpointChange[];
  readonly events: readonly OfferedEvent[];
}

/** The answer to GetWebhookObject. */
interface WebhookObject {
  readonly event_id: string;
  readonly created_at: string;
  readonly object: { readonly object: string };
  readonly apps: readonly { readonly id: string }[];
}

export class FeedReader {
  readonly #options: FeedReaderOptions;
  readonly #subscription: Subscription;
  /** Cursor in the log. */
  #logged: number;
  #position: number;
  /** Found and not yet being handed over, oldest first. */
  #waiting: Finding[] = [];
  /** Sequence of the last record that was looked at. */
  #lookedAt: number;
  /** While anything is handed over. */
  #taking: Promise<void> | null = null;
  /** Objects that are asked for at once: as many as, by the last ones, are not too long together. */
  #askedAtOnce: number = LIMITS.webhookObjectQueriesBegin;
  /** Characters of the objects that were told. */
  #charactersTold = 0;
  #closed = false;

  constructor(options: FeedReaderOptions) {
    this.#options = options;
    this.#logged = options.cursor();
    this.#position = this.#logged;
    this.#lookedAt = this.#logged;
    this.#subscription = options.feed.subscribe<AccountRecord>(
      'accounts',
      options.partition,
      this.#logged,
      (batch) => this.#read(batch),
    );
  }

  /** Sequence of the accounts partition up to which every record was looked at, and handed over if there was reason to. */
  get position(): number {
    return this.#position;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#subscription.close();
    await this.#taking;
  }

  #read({ firstSequence, records }: FeedBatch<AccountRecord>): void | Promise<void> {
    for (let i = 0; i < records.length; i++) {
      const finding = findingIn(records[i]!, firstSequence + i);
      if (finding !== null) this.#waiting.push(finding);
    }
    this.#lookedAt = firstSequence + records.length - 1;
    if (this.#taking === null && this.#waiting.length === 0) return this.#passOver();
    this.#taking ??= this.#takeAll();
    if (this.#waiting.length >= LIMITS.webhookObjectQueriesMax) return this.#taking;
  }

  /** Nothing to deliver: reading it again after a crash costs little, logging each time would not. */
  #passOver(): void | Promise<void> {
    this.#position = this.#lookedAt;
    const lag = this.#position - this.#logged;
    if (lag >= LIMITS.webhookCursorLagMax) return this.#handOver(this.#position, [], []);
  }

  async #takeAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#closed) {
      const findings = this.#waiting;
      this.#waiting = [];
      await this.#take(findings, this.#lookedAt);
    }
    this.#taking = null;
    if (!this.#closed) this.#position = this.#lookedAt;
  }

  /** `last`: sequence up to which the findings were looked for. */
  async #take(findings: readonly Finding[], last: number): Promise<void> {
    await this.#options.room();
    let at = 0;
    while (at < findings.length && !this.#closed) {
      const slice = sliceOf(findings, at, LIMITS.webhookObjectQueriesMax);
      at += slice.length;
      const answered = await this.#answerAll(slice);
      const chunks = chunksOf(answered);
      for (const [index, chunk] of chunks.entries()) {
        const isLast = at === findings.length && index === chunks.length - 1;
        const upTo = isLast ? last : chunk.at(-1)!.sequence;
        await this.#handOver(
          upTo,
          chunk.flatMap(({ endpoints }) => endpoints),
          chunk.flatMap(({ events }) => events),
        );
        this.#position = upTo;
      }
    }
  }

  /** What is asked for at once is answered at once where the ledger is in this process: with large metadata in a turn of the event loop
   *  that is a hundred times as long. So callers come between, and the next are as many as such answers may be. */
  async #answerAll(findings: readonly Finding[]): Promise<Answered[]> {
    const answered: Answered[] = [];
    while (answered.length < findings.length) {
      const few = sliceOf(findings, answered.length, this.#askedAtOnce);
      const toldBefore = this.#charactersTold;
      answered.push(...(await Promise.all(few.map((finding) => this.#answer(finding)))));
      const characters = this.#charactersTold - toldBefore;
      if (characters > 0) this.#askedAtOnce = fitting(few, characters);
      if (answered.length < findings.length) await setImmediate();
    }
    return answered;
  }

  async #answer({ sequence, endpoints, finals }: Finding): Promise<Answered> {
    const events = await Promise.all(finals.map((final) => this.#event(final)));
    return { sequence, endpoints, events: events.filter((event) => event !== null) };
  }

  async #event({
    accountId,
    transactionId,
    status,
  }: Finding['finals'][number]): Promise<OfferedEvent | null> {
    const partition = partitionOf(accountId, this.#options.bus.partitions('accounts'));
    const toAccounts: Send = (message, onReply) =>
      this.#options.bus.send('accounts', partition, message, onReply);
    const body = await this.#ask(toAccounts, () => ({
      type: 'GetWebhookObject',
      accountId,
      transactionId,
      status,
      deadline: this.#deadline(),
    }));
    if (body === null) return null;
    this.#charactersTold += body.length;
    const { event_id, created_at, object, apps } = JSON.parse(body) as WebhookObject;
    const eventType = `${object.object}.${status.toLowerCase()}`;
    return {
      id: event_id,
      accountId,
      transactionId,
      eventType,
      body: JSON.stringify({ id: event_id, object: 'event', type: eventType, created_at, data: { object } }),
      at: Date.parse(created_at),
      appIds: apps.map(({ id }) => id),
    };
  }

  async #handOver(
    upstreamSequence: number,
    endpoints: readonly EndpointChange[],
    events: readonly OfferedEvent[],
  ): Promise<void> {
    const body = await this.#ask(this.#options.send, (): TakeEvents => ({
      type: 'TakeEvents',
      afterSequence: this.#logged,
      upstreamSequence,
      endpoints,
      events,
      deadline: this.#deadline(),
    }));
    if (body === null) return;
    const { cursor } = JSON.parse(body) as { readonly cursor: number };
    // An earlier sending of this very command may have been decided although its answer was lost: then the cursor is
    // where it should be all the same.
    if (cursor === upstreamSequence) {
      this.#logged = cursor;
      if (events.length > 0 || endpoints.length > 0) this.#options.onTaken(endpoints);
      return;
    }
    // The partition has moved, and its new owner reads on: nothing is left to do here.
    assert(cursor !== this.#options.cursor(), 'one reader hands over the feed of a partition');
    this.#closed = true;
  }

  /** The body of the answer; null: closed meanwhile. Tries until it is answered. */
  async #ask(send: Send, message: () => Message): Promise<string | null> {
    for (let tries = 0; !this.#closed; tries++) {
      const reply = await new Promise<Reply>((resolve) => {
        send(message(), resolve);
      });
      if (reply.type === 'done') return reply.body;
      // Too late is as good as unavailable; any other refusal would mean that the feed speaks of what is not there.
      const isPassing = reply.type !== 'rejected' || reply.rejection.code === 'service_unavailable';
      assert(isPassing, 'a partition knows what its own feed speaks of');
      await pause(Math.min(50 * 2 ** tries, RETRY_MS_LONGEST));
    }
    return null;
  }

  #deadline(): number {
    return this.#options.deadlineClock() + LIMITS.commandDeadlineMs;
  }
}

const RETRY_MS_LONGEST = 2_000;

function findingIn({ accountId, events }: AccountRecord, sequence: number): Finding | null {
  const endpoints: EndpointChange[] = [];
  const finals: Finding['finals'][number][] = [];
  const ended = (transactionId: string, status: FinalStatus): void => {
    finals.push({ accountId, transactionId, status });
  };
  for (const event of events) {
    switch (event.type) {
      case 'TransactionSucceeded':
        ended(event.id, 'SUCCESSFUL');
        break;
      case 'TransactionFailed':
      case 'WithdrawalRejected':
        ended(event.id, 'FAILED');
        break;
      case 'ChargeReversed':
        ended(event.id, 'REVERSED');
        break;
      case 'AppConnected': {
        const { id: appId, webhookUrl: url, signingSecretSealed } = event;
        endpoints.push({ type: 'connected', appId, accountId, url, signingSecretSealed });
        break;
      }
      case 'AppWebhookChanged':
        endpoints.push({ type: 'changed', appId: event.id, url: event.webhookUrl });
        break;
      case 'AppRemoved':
        endpoints.push({ type: 'removed', appId: event.id });
        break;
      case 'ChargeCreated':
      case 'DepositCreated':
      case 'PayoutCreated':
      case 'WithdrawalCreated':
      case 'WithdrawalApproved':
      case 'SubmissionBegun':
      case 'SubmissionAccepted':
      case 'AnswerFixed':
      case 'ChargeReleased':
      case 'ReconciliationRaised':
      case 'ReconciliationResolved':
      case 'AccountOpened':
      case 'AccountSettingsChanged':
      case 'UserAdded':
      case 'UserRoleChanged':
      case 'UserRemoved':
      case 'WalletAdded':
      case 'WalletApproved':
      case 'WalletActivated':
      case 'WalletRevoked':
        break; // Merchants hear of none of these.
    }
  }
  return endpoints.length === 0 && finals.length === 0 ? null : { sequence, endpoints, finals };
}

/** How many objects there may be in a turn, if they are as long as those of `told`, `characters` together. */
function fitting(told: readonly Finding[], characters: number): number {
  const objects = told.reduce((sum, { finals }) => sum + finals.length, 0);
  const inTurn = Math.floor((objects * LIMITS.feedCharactersPerTurnMax) / characters);
  return Math.max(1, Math.min(inTurn, LIMITS.webhookObjectQueriesMax));
}

/** As many findings from `from` on as `max` objects are asked for, at least one. */
function sliceOf(findings: readonly Finding[], from: number, max: number): readonly Finding[] {
  let asked = 0;
  let to = from;
  while (to < findings.length) {
    asked += findings[to]!.finals.length;
    if (to > from && asked > max) break;
    to++;
  }
  return findings.slice(from, to);
}

/** Of the endpoint as the record has it: whole, whatever changed. */
function endpointBytes(change: EndpointChange): number {
  const url = change.type === 'removed' ? null : change.url;
  return Buffer.byteLength(url ?? '') + LIMITS.webhookEndpointBytes;
}

/** Chunks that each fit one record. A change of endpoints opens a chunk, since within one it comes before the events. */
function chunksOf(answered: readonly Answered[]): Answered[][] {
  const chunks: Answered[][] = [];
  let deliveries = 0;
  let bytes = 0;
  for (const one of answered) {
    const ownDeliveries = one.events.reduce((sum, { appIds }) => sum + appIds.length, 0);
    const ownBytes =
      one.events.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0) +
      one.endpoints.reduce((sum, change) => sum + endpointBytes(change), 0);
    const chunk = chunks.at(-1);
    const isFull =
      chunk === undefined ||
      (one.endpoints.length > 0 && chunk.some(({ events }) => events.length > 0)) ||
      deliveries + ownDeliveries > LIMITS.webhookDeliveriesPerRecordMax ||
      bytes + ownBytes > LIMITS.webhookRecordBytesMax;
    if (isFull) {
      chunks.push([one]);
      deliveries = 0;
      bytes = 0;
    } else {
      chunk.push(one);
    }
    deliveries += ownDeliveries;
    bytes += ownBytes;
  }
  return chunks;
}
