// What pollers ask their accounts: again, ever more slowly, until it is answered; each time with a deadline of its own; and not at
// all once they stop, when whoever waits must be let go.
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { AccountReader } from '../../actors/pollers/account-reader.ts';
import { TIMINGS } from '../../actors/pollers/schedule.ts';
import type { Bus, Message, OnReply, Reply } from '../../src/bus/bus.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { LIMITS } from '../../src/limits.ts';

const START = 1_700_000_000_000;
/** The clock of deadlines is another machine's affair: it is behind. */
const BEHIND_MS = 3_600_000;
const UNAVAILABLE: Reply = { type: 'unavailable' };
const UNKNOWN: Reply = { type: 'unknown' };

interface Asked {
  readonly at: number;
  readonly message: Message & Record<string, unknown>;
  readonly onReply: OnReply;
}

/** A bus that says what `answer` says; null: nothing yet. */
class World {
  now = START;
  answer: () => Reply | null = () => UNAVAILABLE;
  readonly asked: Asked[] = [];
  readonly reader: AccountReader;

  constructor(random: () => number = () => 0) {
    const bus: Bus = {
      partitions: () => 1,
      send: (_group, _partition, message, onReply) => {
        this.asked.push({ at: this.now - START, message: message as Asked['message'], onReply });
        const reply = this.answer();
        if (reply !== null) onReply(reply);
      },
    };
    const now = (): number => this.now;
    const deadlineClock = (): number => this.now - BEHIND_MS;
    this.reader = new AccountReader({ bus, partition: 0, now, deadlineClock, random, timings: TIMINGS });
  }

  async pass(ms: number, stepMs: number): Promise<void> {
    await setImmediate();
    for (const end = this.now + ms; this.now < end;) {
      this.now += stepMs;
      this.reader.tick(this.now);
      await setImmediate();
    }
  }

  get askedAt(): number[] {
    return this.asked.map(({ at }) => at);
  }
}

function done(body: unknown): Reply {
  return { type: 'done', body: JSON.stringify(body), replayed: false };
}

t.test('a page is asked for until it comes, each time twice as late, at most once a minute', async (t) => {
  const world = new World();
  const page = world.reader.page('txn_1');
  await world.pass(300_000, 1_000);
  t.strictSame(
    world.askedAt,
    [0, 1, 3, 7, 15, 31, 63, 123, 183, 243].map((seconds) => seconds * 1_000),
  );
  world.answer = () => done({ sequence: 7, data: [] });
  await world.pass(3_000, 1_000);
  t.strictSame(await page, { sequence: 7, data: [] });
  t.equal(world.asked.length, 11);
  for (const { at, message } of world.asked) {
    t.hasStrict(message, {
      type: 'ListPending',
      afterId: 'txn_1',
      limit: LIMITS.pollerScanPageMax,
      deadline: START + at - BEHIND_MS + LIMITS.pollerCommandDeadlineMs,
    });
  }
  await world.pass(120_000, 1_000);
  t.equal(world.asked.length, 11, 'and no more');
});

t.test('those that wait are asked for in their own time', async (t) => {
  const world = new World(() => 0.5);
  const since = { expiredSince: START - 1, settledSince: START - 2, followedFrom: 9 };
  const first = world.reader.expired({ ...since, after: null });
  await world.pass(600, 50);
  const second = world.reader.expired({ ...since, after: 'b' });
  await world.pass(1_000, 50);
  t.strictSame(
    world.asked.map(({ at, message }) => [at, message['after']]),
    [
      [0, null],
      [600, 'b'],
      [1_100, null],
    ],
    'a tenth later, by chance',
  );
  t.ok(world.asked.every(({ message }) => message['followedFrom'] === 9));
  world.answer = () => done({ data: [], next: null });
  await world.pass(3_000, 50);
  t.strictSame(await Promise.all([first, second]), [
    { data: [], next: null },
    { data: [], next: null },
  ]);
});

t.test('one transaction is asked for so many times, whatever is said but yes and no', async (t) => {
  const world = new World();
  let tries = 0;
  world.answer = () => (++tries % 2 === 0 ? UNKNOWN : UNAVAILABLE);
  const found = world.reader.get('acct_1', 'txn_1', true);
  await world.pass(600_000, 1_000);
  t.strictSame(await found, { type: 'unanswered' });
  t.strictSame(
    world.askedAt,
    [0, 1, 3, 7, 15, 31, 63, 123].map((seconds) => seconds * 1_000),
  );
  t.equal(world.askedAt.length, TIMINGS.fetches);
  t.hasStrict(world.asked.at(-1)?.message, {
    evenFinal: true,
    deadline: START + 123_000 - BEHIND_MS + LIMITS.pollerCommandDeadlineMs,
  });
});

t.test('an account that says that there is none is believed', async (t) => {
  const world = new World();
  world.answer = () => ({ type: 'rejected', rejection: rejection('transaction_not_found') });
  t.strictSame(await world.reader.get('acct_1', 'txn_1', false), { type: 'absent' });
  t.equal(world.asked.length, 1);
  t.equal(world.asked[0]?.message['evenFinal'], false);
});

t.test('a stop lets go of whoever waits to ask again, at once', async (t) => {
  const world = new World();
  const page = world.reader.page(null);
  const found = world.reader.get('acct_1', 'txn_1', false);
  await world.pass(500, 50);
  world.reader.stop();
  t.strictSame(await Promise.all([page, found]), [null, { type: 'unanswered' }]);
  t.equal(world.asked.length, 2, 'and asks nobody');
});

t.test('a stop while a question is out ends with its answer, whatever that is', async (t) => {
  const world = new World();
  world.answer = () => null;
  const page = world.reader.page(null);
  const found = world.reader.get('acct_1', 'txn_1', false);
  world.reader.stop();
  for (const { onReply } of world.asked) onReply(UNAVAILABLE);
  t.strictSame(await Promise.all([page, found]), [null, { type: 'unanswered' }]);
  t.strictSame(await world.reader.page(null), null);
  t.strictSame(await world.reader.get('acct_1', 'txn_1', false), { type: 'unanswered' });
  t.equal(world.asked.length, 2, 'and asks nobody any more');
});
