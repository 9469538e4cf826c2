// From the accounts' feed to deliveries: every final status once, in order and with the object as it was, whatever is lost or
// late between the two logs, and never more at once than may be.

import t from 'tap';
import { LocalFeed, type LoggedBatch } from '../../actors/runtime/local-feed.ts';
import { FeedReader } from '../../actors/webhooks/feed-reader.ts';
import type { TakeEvents, WebhookCommand } from '../../actors/webhooks/message.ts';
import type { Feed } from '../../src/bus/feed.ts';
import type { Bus, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { deriveId, encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { accountId, appId, DrivenWebhooks } from './webhooks-driven.ts';

const NOW = 1_000_000;
const UNAVAILABLE: Reply = { type: 'unavailable' };

const charge = (n: number): string => makeId('charge', `${encodeTime(n)}${'0'.repeat(16)}`);
const succeeded = (n: number) => ({ type: 'TransactionSucceeded', id: charge(n) });
const nothing = { type: 'ChargeReleased', id: charge(0) };
const connected = (url: string | null = 'https://shop.test') => ({
  type: 'AppConnected',
  id: appId(1),
  webhookUrl: url,
  signingSecretSealed: 'sealed',
});

/** The log of an accounts partition in memory, the ledger's answers to questions about it, and a webhooks partition. */
class Upstream implements Bus {
  readonly webhooks = new DrivenWebhooks({});
  /** What was handed over and decided. */
  readonly taken: TakeEvents[] = [];
  /** Questions to the ledger that wait for `answer`. */
  readonly held: (() => void)[] = [];
  holds = false;
  /** Records that the feed has told of. */
  handedOut = 0;
  asked: string[] = [];
  /** In place of the ledger's answer; null: let it answer. */
  ledger: (transactionId: string) => Reply | null = () => null;
  /** What becomes of the answer of the webhooks partition. */
  onAnswer: (reply: Reply) => Reply = (reply) => reply;
  onTaken: () => void = () => {};
  room: () => Promise<void> = () => Promise.resolve();
  /** Of each transaction's object. */
  description = '';
  /** Whom each transaction concerns. */
  apps = [appId(1)];
  readonly #batches: LoggedBatch[] = [];
  #last = 0;
  readonly feed = new LocalFeed((_group, _partition, after) => this.#read(after));

  *#read(after: number): Generator<LoggedBatch, void> {
    for (const { firstSequence, lines, decode } of this.#batches) {
      const skip = Math.max(0, after + 1 - firstSequence);
      if (skip >= lines.length) continue;
      yield { firstSequence: firstSequence + skip, lines: lines.slice(skip), decode };
    }
  }

  /** A batch of records of one event each. */
  write(...events: readonly object[]): number {
    const records = events.map((event) => ({ accountId: accountId(1), at: NOW, events: [event] }));
    const firstSequence = this.#last + 1;
    this.#last += records.length;
    const lines = records.map((record) => JSON.stringify(record));
    this.#batches.push({ firstSequence, lines, decode: (line) => JSON.parse(line) as unknown });
    this.feed.publish('accounts', 0, { firstSequence, records });
    return this.#last;
  }

  partitions(): number {
    return 1;
  }

  /** The ledger. */
  send(_group: string, _partition: number, message: Message, onReply: OnReply): void {
    const { transactionId, status } = message as unknown as { transactionId: string; status: string };
    this.asked.push(transactionId);
    const answer = (): void => onReply(this.ledger(transactionId) ?? this.#object(transactionId, status));
    if (this.holds) this.held.push(answer);
    else answer();
  }

  #object(transactionId: string, status: string): Reply {
    const object = { id: transactionId, object: 'charge', status, description: this.description };
    const event = { event_id: deriveId('event', transactionId, 3), created_at: new Date(NOW).toISOString() };
    const body = JSON.stringify({ ...event, object, apps: this.apps.map((id) => ({ id })) });
    return { type: 'done', body, replayed: false };
  }

  read(): FeedReader {
    const subscribe: Feed['subscribe'] = (group, partition, after, handler) =>
      this.feed.subscribe(group, partition, after, (batch) => {
        this.handedOut += batch.records.length;
        return handler(batch as never);
      });
    return new FeedReader({
      bus: this,
      feed: { subscribe },
      partition: 0,
      send: (message, onReply) => onReply(this.onAnswer(this.#take(message as WebhookCommand))),
      cursor: () => this.webhooks.logic.cursor,
      deadlineClock: () => NOW,
      onTaken: () => this.onTaken(),
      room: () => this.room(),
    });
  }

  #take(command: WebhookCommand): Reply {
    const before = this.webhooks.log.length;
    const reply = this.webhooks.send(command);
    if (this.webhooks.log.length > before) this.taken.push(command as TakeEvents);
    return reply;
  }

  /** Resolves when the webhooks' log has read on up to there. */
  async reached(sequence: number): Promise<void> {
    while (this.webhooks.logic.cursor < sequence) await turn();
  }

  told(): string[] {
    return this.taken.flatMap(({ events }) => events.map(({ transactionId }) => transactionId));
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const charges = (count: number): string[] => Array.from({ length: count }, (_, n) => charge(n + 1));

void t.test(
  'each final status is told with its object, and reading goes on where the log says',
  async (t) => {
    const upstream = new Upstream();
    upstream.write(connected(), nothing, succeeded(1));
    const reader = upstream.read();
    let takings = 0;
    upstream.onTaken = () => takings++;
    await upstream.reached(3);
    const last = upstream.write(
      { type: 'TransactionFailed', id: charge(2) },
      { type: 'WithdrawalRejected', id: charge(3) },
      { type: 'ChargeReversed', id: charge(1) },
      nothing,
    );
    await upstream.reached(last);
    await turn();
    t.equal(reader.position, last);
    t.equal(takings, 2, 'each handing over makes deliveries due');
    await reader.close();
    const events = upstream.taken.flatMap((command) => command.events);
    t.same(
      events.map(({ transactionId, eventType }) => [transactionId, eventType]),
      [
        [charge(1), 'charge.successful'],
        [charge(2), 'charge.failed'],
        [charge(3), 'charge.failed'],
        [charge(1), 'charge.reversed'],
      ],
    );
    t.match(JSON.parse(events[0]!.body), {
      id: events[0]!.id,
      object: 'event',
      type: 'charge.successful',
      created_at: new Date(NOW).toISOString(),
      data: { object: { id: charge(1), status: 'SUCCESSFUL' } },
    });
    t.equal(events[0]!.at, NOW);

    const again = upstream.read();
    await upstream.reached(upstream.write(succeeded(4)));
    await again.close();
    t.same(upstream.told().slice(4), [charge(4)], 'nothing is read twice');
  },
);

void t.test('what is lost on its way is handed over again and taken once', async (t) => {
  const upstream = new Upstream();
  const reader = upstream.read();
  let answers = 0;
  upstream.onAnswer = (reply) => (++answers % 2 === 1 ? { type: 'unknown' } : reply);
  const tooLate: Reply = { type: 'rejected', rejection: rejection('service_unavailable') };
  let questions = 0;
  upstream.ledger = () => [UNAVAILABLE, tooLate, null][questions++ % 3] ?? null;
  upstream.write(connected());
  const last = upstream.write(succeeded(1), succeeded(2));
  await upstream.reached(last);
  await reader.close();
  t.same(upstream.told(), [charge(1), charge(2)]);
  t.equal(upstream.webhooks.due().length, 2);
});

void t.test('a feed waits while there is no room for what it tells', async (t) => {
  const upstream = new Upstream();
  const { promise, resolve } = Promise.withResolvers<void>();
  upstream.room = () => promise;
  const reader = upstream.read();
  const last = upstream.write(connected(), succeeded(1));
  upstream.write(succeeded(2));
  for (let n = 0; n < 20; n++) await turn();
  t.same([upstream.asked, upstream.taken], [[], []]);
  resolve();
  await upstream.reached(last + 1);
  await reader.close();
  t.same(upstream.told(), [charge(1), charge(2)]);
});

void t.test('so many objects are asked for at once, and so many deliveries handed over', async (t) => {
  const upstream = new Upstream();
  upstream.write(connected());
  const reader = upstream.read();
  await upstream.reached(1);
  // Live from here on: what is written comes in one batch.
  for (let n = 0; n < 5; n++) await turn();
  upstream.holds = true;
  const count = LIMITS.webhookObjectQueriesMax * 2 + 10;
  const last = upstream.write(...Array.from({ length: count }, (_, n) => succeeded(n + 1)));
  let most = 0;
  while (upstream.webhooks.logic.cursor < last) {
    await turn();
    most = Math.max(most, upstream.held.length);
    for (const answer of upstream.held.splice(0)) answer();
  }
  await reader.close();
  t.equal(most, LIMITS.webhookObjectQueriesMax);
  const full = LIMITS.webhookDeliveriesPerRecordMax;
  const rest = LIMITS.webhookObjectQueriesMax - full;
  t.same(
    upstream.taken.slice(1).map(({ events }) => events.length),
    [full, rest, full, rest, 10],
  );
  t.same(upstream.told(), charges(count));
  let told = 0;
  for (const { events, upstreamSequence } of upstream.taken.slice(1)) {
    told += events.length;
    t.equal(upstreamSequence, told + 1, 'reading would go on behind what was handed over, no further');
  }
});

void t.test('of long objects fewer are asked for at once, as many as a turn has time for', async (t) => {
  const upstream = new Upstream();
  upstream.write(connected());
  const reader = upstream.read();
  await upstream.reached(1);
  for (let n = 0; n < 5; n++) await turn();
  const characters = LIMITS.feedCharactersPerTurnMax / 8;
  const countIn = async (count: number, first: number): Promise<number[]> => {
    let turns = 0;
    const asked: number[] = [];
    upstream.ledger = () => {
      asked[turns] = (asked[turns] ?? 0) + 1;
      return null;
    };
    const last = upstream.write(...Array.from({ length: count }, (_, n) => succeeded(first + n)));
    while (upstream.webhooks.logic.cursor < last) {
      await turn();
      turns++;
    }
    return asked.filter((inTurn) => inTurn > 0);
  };
  upstream.description = 'x'.repeat(characters);
  const [first, ...others] = await countIn(100, 1);
  t.equal(first, LIMITS.webhookObjectQueriesBegin);
  t.ok(others.length >= 8 && Math.max(...others) < 9, others.join(', '));
  upstream.description = '';
  const again = await countIn(LIMITS.webhookObjectQueriesMax, 101);
  t.ok(again.length < 4, 'and of short ones as many as may be');
  await reader.close();
});

void t.test('an event for many apps is as many deliveries', async (t) => {
  const upstream = new Upstream();
  upstream.apps = Array.from({ length: 100 }, (_, n) => appId(n + 1));
  const perRecord = LIMITS.webhookDeliveriesPerRecordMax / upstream.apps.length;
  const reader = upstream.read();
  await upstream.reached(
    upstream.write(...Array.from({ length: perRecord * 2 }, (_, n) => succeeded(n + 1))),
  );
  await reader.close();
  t.same(
    upstream.taken.map(({ events }) => events.length),
    [perRecord, perRecord],
  );
});

void t.test('so many bytes are handed over at once', async (t) => {
  const upstream = new Upstream();
  upstream.description = '€'.repeat(LIMITS.webhookRecordBytesMax / 30);
  const reader = upstream.read();
  const last = upstream.write(connected(), ...Array.from({ length: 30 }, (_, n) => succeeded(n + 1)));
  await upstream.reached(last);
  await reader.close();
  const bytesOf = ({ events }: TakeEvents): number =>
    Buffer.byteLength(events.map(({ body }) => body).join(''));
  const sizes = upstream.taken.map(bytesOf);
  t.ok(Math.max(...sizes) <= LIMITS.webhookRecordBytesMax, sizes.join());
  t.ok(sizes.length <= 5, `${sizes.length}: and not much less`);
  t.same(upstream.told(), charges(30));
});

void t.test('so many bytes of endpoints are handed over at once, with the longest URLs', async (t) => {
  const upstream = new Upstream();
  const { promise, resolve } = Promise.withResolvers<void>();
  upstream.room = () => promise;
  const reader = upstream.read();
  const start = 'https://shop.test/';
  const webhookUrl = start + '€'.repeat(LIMITS.webhookUrlLengthMax - start.length);
  const signingSecretSealed = 's'.repeat(150);
  const count = 300;
  let last = 0;
  // What comes while the first is handed over goes together.
  for (let n = 1; n <= count; n++) {
    last = upstream.write({ type: 'AppConnected', id: appId(n), webhookUrl, signingSecretSealed });
  }
  while (upstream.handedOut < count) await turn();
  resolve();
  await upstream.reached(last);
  await reader.close();
  const sizes = upstream.webhooks.log.map((line) => Buffer.byteLength(line));
  t.ok(Math.max(...sizes) <= LIMITS.batchBytesMax, `${Math.max(...sizes)}: a batch holds it`);
  t.ok(sizes.length <= 9, `${sizes.length}: and not much less`);
  for (let n = 1; n <= count; n++) if (!upstream.webhooks.logic.canHear(appId(n))) t.fail(`${n} is missing`);
});

void t.test('an event goes where its app pointed at that time, though all is read at once', async (t) => {
  const upstream = new Upstream();
  upstream.write(
    connected(),
    succeeded(1),
    { type: 'AppWebhookChanged', id: appId(1), webhookUrl: null },
    succeeded(2),
    { type: 'AppWebhookChanged', id: appId(1), webhookUrl: 'https://new.test' },
    succeeded(3),
    { type: 'AppRemoved', id: appId(1) },
  );
  const last = upstream.write(succeeded(4));
  const reader = upstream.read();
  await upstream.reached(last);
  await reader.close();
  const due = upstream.webhooks.due().map(({ transactionId }) => transactionId);
  t.same(due.sort(), [charge(1), charge(3)]);
});

void t.test('where there is nothing to tell, the log hears of it now and then', async (t) => {
  const upstream = new Upstream();
  const reader = upstream.read();
  const many = Array.from({ length: LIMITS.webhookCursorLagMax - 1 }, () => nothing);
  const last = upstream.write(...many);
  while (reader.position < last) await turn();
  t.equal(upstream.webhooks.log.length, 0);
  upstream.write(nothing);
  await upstream.reached(last + 1);
  t.equal(upstream.webhooks.log.length, 1);
  const next = upstream.write(nothing);
  while (reader.position < next) await turn();
  t.equal(upstream.webhooks.log.length, 1, 'and then as seldom as before');
  await reader.close();
});

void t.test(
  'what comes while one is handed over, and has nothing to tell, has been read after it',
  async (t) => {
    const upstream = new Upstream();
    upstream.holds = true;
    const reader = upstream.read();
    upstream.write(succeeded(1));
    while (upstream.held.length === 0) await turn();
    const last = upstream.write(nothing);
    while (upstream.handedOut < last) await turn();
    t.equal(reader.position, 0, 'not before');
    for (const answer of upstream.held) answer();
    while (reader.position < last) await turn();
    await reader.close();
  },
);

void t.test('closed while the ledger is asked, it hands over nothing more', async (t) => {
  const upstream = new Upstream();
  const reader = upstream.read();
  await upstream.reached(upstream.write(connected()));
  upstream.ledger = () => UNAVAILABLE;
  upstream.write(succeeded(1));
  while (upstream.asked.length === 0) await turn();
  await reader.close();
  const { handedOut } = upstream;
  const { length } = upstream.asked;
  upstream.ledger = () => null;
  upstream.write(succeeded(2));
  for (let n = 0; n < 20; n++) await turn();
  t.equal(upstream.asked.length, length);
  t.equal(upstream.handedOut, handedOut, 'nor is it told anything more');
  t.equal(upstream.taken.length, 1);
});

void t.test('when the partition has moved, whoever read for it reads no further', async (t) => {
  const upstream = new Upstream();
  const reader = upstream.read();
  await upstream.reached(upstream.write(connected()));
  // The new owner's log has gone on; this one's has not heard of it.
  upstream.onAnswer = () => ({ type: 'done', body: JSON.stringify({ cursor: 99 }), replayed: false });
  upstream.write(succeeded(1));
  while (upstream.asked.length === 0) await turn();
  await turn();
  upstream.write(succeeded(2));
  for (let n = 0; n < 20; n++) await turn();
  await reader.close();
  t.same(upstream.asked, [charge(1)]);
});

void t.test('what the feed brings while one is handed over goes together, within a bound', async (t) => {
  const upstream = new Upstream();
  const reader = upstream.read();
  upstream.write(connected());
  await upstream.reached(1);
  upstream.holds = true;
  for (let n = 1; n <= 4; n++) upstream.write(succeeded(n));
  upstream.write(nothing);
  const last = upstream.write(nothing);
  while (upstream.held.length === 0) await turn();
  await turn();
  upstream.holds = false;
  upstream.held.shift()!();
  await upstream.reached(last);
  await turn();
  const together = upstream.taken
    .filter(({ events }) => events.length > 0)
    .map(({ events }) => events.length);
  t.strictSame(together, [1, 3]);
  t.strictSame(upstream.told(), charges(4));
  t.equal(reader.position, last);

  upstream.holds = true;
  const { handedOut } = upstream;
  const many = 3 * LIMITS.webhookObjectQueriesMax;
  for (let n = 0; n < many; n++) upstream.write(succeeded(5 + n));
  for (let turns = 0; turns < 50; turns++) await turn();
  t.equal(upstream.handedOut - handedOut, 1 + LIMITS.webhookObjectQueriesMax);
  t.equal(reader.position, last);
  upstream.holds = false;
  upstream.held.shift()!();
  await upstream.reached(last + many);
  t.strictSame(upstream.told(), charges(4 + many));
  await reader.close();
});

void t.test('who closes it waits for the end of what is handed over', async (t) => {
  const upstream = new Upstream();
  upstream.write(connected());
  const reader = upstream.read();
  await upstream.reached(1);
  upstream.holds = true;
  upstream.write(succeeded(1));
  upstream.write(succeeded(2));
  while (upstream.held.length === 0) await turn();
  let isClosed = false;
  const closed = reader.close().then(() => (isClosed = true));
  for (let turns = 0; turns < 10; turns++) await turn();
  t.notOk(isClosed);
  upstream.held.shift()!();
  await closed;
  t.strictSame(upstream.held, [], 'and nothing else is begun');
});
