// The actor runtime: due times, ids and time of a partition, and the feed. When callers are answered: partition.test.ts.

import { strict as assert } from 'node:assert';
import fc from 'fast-check';
import t from 'tap';
import { DueHeap } from '../../actors/runtime/due-heap.ts';
import { PartitionClock } from '../../actors/runtime/fresh-id.ts';
import { LocalFeed, type LoggedBatch } from '../../actors/runtime/local-feed.ts';
import type { FeedBatch } from '../../src/bus/feed.ts';
import { timeOf } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

void t.test('due times come out in order, and only those that are due', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 1000 })),
      fc.integer({ min: 0, max: 1000 }),
      (dues, now) => {
        const heap = new DueHeap<number>();
        for (const due of dues) heap.push(due, due);
        const taken: number[] = [];
        for (let next = heap.takeDue(now); next !== undefined; next = heap.takeDue(now)) taken.push(next);
        const expected = dues.filter((due) => due <= now).sort((a, b) => a - b);
        return (
          JSON.stringify(taken) === JSON.stringify(expected) && heap.size === dues.length - expected.length
        );
      },
    ),
    { seed: SEED },
  );
  t.end();
});

void t.test('what is due at one time comes out in the order it was put in', (t) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 200 }), (dues) => {
      const heap = new DueHeap<number>();
      dues.forEach((due, index) => heap.push(due, index));
      const taken: number[] = [];
      for (let next = heap.takeDue(5); next !== undefined; next = heap.takeDue(5)) taken.push(next);
      // Array's sort is stable.
      const expected = [...dues.keys()].sort((a, b) => dues[a]! - dues[b]!);
      assert.deepEqual(taken, expected);
    }),
    { seed: SEED },
  );
  t.end();
});

void t.test('ids of a partition grow strictly and carry its time, which never goes backwards', (t) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1_700_000_000_000, max: 1_700_000_000_100 })), (times) => {
      let clock = 0;
      const partition = new PartitionClock(() => clock, 1_700_000_000_050);
      let last = { now: 0, freshBody: '' };
      return times.every((time) => {
        clock = time;
        const tick = partition.tick(1);
        const ok =
          tick.now >= last.now &&
          tick.now >= 1_700_000_000_050 &&
          tick.freshBody > last.freshBody &&
          timeOf(`chg_${tick.freshBody}`) === tick.now;
        last = tick;
        return ok;
      });
    }),
    { seed: SEED },
  );
  t.end();
});

void t.test('ids of a partition that is opened again in the same millisecond go on growing', (t) => {
  const now = 1_700_000_000_000;
  let last = { now, freshBody: '' };
  for (let opened = 0; opened < 5; opened++) {
    const partition = new PartitionClock(() => now, last.now);
    for (let i = 0; i < 3; i++) {
      const tick = partition.tick(1);
      t.ok(tick.freshBody > last.freshBody, `${tick.freshBody} after ${last.freshBody}`);
      t.equal(timeOf(`chg_${tick.freshBody}`), tick.now);
      last = tick;
    }
  }
  t.end();
});

void t.test('ids that two partitions make at the same time differ', (t) => {
  const partitions = [1, 2].map(() => new PartitionClock(() => 1_700_000_000_000, 0));
  const ids = new Set<string>();
  for (let i = 0; i < 5_000; i++) for (const partition of partitions) ids.add(partition.tick(1).freshBody);
  t.equal(ids.size, 10_000);
  t.end();
});

void t.test('a record with a later time puts time forward, one with an earlier time never back', (t) => {
  const partition = new PartitionClock(() => 1_700_000_000_000, 0);
  const { freshBody } = partition.tick(1);
  for (const time of [1_700_000_000_500, 1_700_000_000_200]) {
    partition.notBefore(time);
    t.equal(partition.now(), 1_700_000_000_500);
  }
  t.ok(partition.tick(1).freshBody > freshBody);
  t.end();
});

void t.test('more ids than a millisecond has room for go to the next one', (t) => {
  const partition = new PartitionClock(() => 1_700_000_000_000, 0);
  let last = '';
  for (let i = 0; i < 100_000; i++) {
    const { freshBody, now } = partition.tick(1);
    if (freshBody <= last || freshBody.length !== 26 || timeOf(`chg_${freshBody}`) !== now) {
      t.fail(`id ${i} is out of order`);
    }
    last = freshBody;
  }
  t.ok(timeOf(`chg_${last}`) > 1_700_000_000_000);
  t.end();
});

// --- The feed ----------------------------------------------------------------------------------------------------------

/** The log of a partition in memory, as a source for the feed: its records are their sequences. */
class MemoryLog {
  readonly #batches: FeedBatch<number>[] = [];
  last = 0;
  /** Records that were decoded for subscribers. */
  decoded = 0;
  readonly feed = new LocalFeed((_group, _partition, after) => this.#read(after));

  publish(count: number): void {
    this.feed.publish('accounts', 0, this.write(count));
  }

  /** Readable, and not yet published. */
  write(count: number): FeedBatch<number> {
    const firstSequence = this.last + 1;
    const records = Array.from({ length: count }, (_, index) => firstSequence + index);
    this.last += count;
    const batch = { firstSequence, records };
    this.#batches.push(batch);
    return batch;
  }

  *#read(after: number): Generator<LoggedBatch, void, undefined> {
    for (let index = 0; index < this.#batches.length; index++) {
      const { firstSequence, records } = this.#batches[index]!;
      const skip = Math.max(0, after + 1 - firstSequence);
      const lines = records.slice(skip).map(String);
      if (lines.length > 0) yield { firstSequence: firstSequence + skip, lines, decode: this.#decode };
    }
  }

  readonly #decode = (line: string): number => {
    this.decoded += 1;
    return Number(line);
  };
}

function upTo(last: number, after: number): number[] {
  return Array.from({ length: last - after }, (_, index) => after + 1 + index);
}

/** Counts the turns of the event loop until it is stopped. */
function countTurns(): { turn: number; stop(): void } {
  const count = { turn: 0, stop: () => clearImmediate(next) };
  const step = (): void => {
    count.turn += 1;
    next = setImmediate(step);
  };
  let next = setImmediate(step);
  return count;
}

void t.test(
  'subscribers that catch up share what a turn hands out, and each record is decoded once',
  async (t) => {
    const log = new MemoryLog();
    const portion = LIMITS.feedRecordsPerTurnMax;
    for (const count of [1, 8 * portion + 3, 1, 1, portion, 2 * portion]) log.publish(count);
    const turns = countTurns();
    const handed: number[] = [];
    const order: number[] = [];
    const afters = [0, 5, 3 * portion];
    const seen = afters.map((): number[] => []);
    await Promise.all(
      afters.map(async (after, index) => {
        const { resolve, promise } = Promise.withResolvers<void>();
        log.feed.subscribe<number>('accounts', 0, after, ({ records }) => {
          handed[turns.turn] = (handed[turns.turn] ?? 0) + records.length;
          seen[index]!.push(...records);
          order.push(index);
          if (records.at(-1) === log.last) resolve();
        });
        await promise;
      }),
    );
    turns.stop();
    await new Promise((resolve) => setImmediate(resolve));
    t.notOk(process.getActiveResourcesInfo().includes('Immediate'), 'no turn is taken for nothing');
    const sizes = handed.filter((size) => size > 0);
    t.ok(sizes.every((size) => size <= portion));
    const total = afters.reduce((sum, after) => sum + log.last - after, 0);
    t.equal(sizes.length, Math.ceil(total / portion), 'and no less, while there is more');
    t.same(order.slice(0, 6), [0, 1, 2, 0, 1, 2], 'one after the other');
    for (const [index, after] of afters.entries()) t.same(seen[index], upTo(log.last, after));
    t.equal(log.decoded, total);
  },
);

void t.test('a turn hands out as much of large records as it may, and one at the least', async (t) => {
  const lines = Array.from({ length: 60 }, (_, n) => 'x'.repeat(n === 7 ? 2 * MIB : 60_000));
  const feed = new LocalFeed(function* (_group, _partition, after): Generator<LoggedBatch, void, undefined> {
    if (after === 0) yield { firstSequence: 1, lines, decode: (line) => line };
  });
  const turns = countTurns();
  const handed: number[] = [];
  let seen = 0;
  await new Promise<void>((resolve) => {
    feed.subscribe<string>('accounts', 0, 0, ({ records }) => {
      seen += records.length;
      handed[turns.turn] = (handed[turns.turn] ?? 0) + records.reduce((sum, { length }) => sum + length, 0);
      if (seen === lines.length) resolve();
    });
  });
  turns.stop();
  t.equal(seen, lines.length);
  const sizes = handed.filter((size) => size > 0);
  const large = sizes.filter((size) => size >= LIMITS.feedCharactersPerTurnMax + 60_000);
  t.equal(large.length, 1, 'that with the one that is larger than a turn');
  t.ok(sizes.length > 3 && sizes.length < 8, `${sizes.length} turns`);
});

const MIB = 1024 * 1024;

/** More batches than the tail of a subscriber that waits holds. */
const BURST = LIMITS.feedTailBatchesMax + 1;

void t.test('from catching up to live: nothing is lost, comes twice or out of order', async () => {
  const size = fc.integer({ min: 1, max: 2 * LIMITS.feedRecordsPerTurnMax });
  const subscriber = fc.record({ after: fc.nat(), waits: fc.array(fc.boolean(), { minLength: 1 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(size, { minLength: 1, maxLength: 5 }),
      // Published while the subscribers are at it.
      fc.array(fc.record({ size, burst: fc.boolean() }), { maxLength: 8 }),
      fc.array(subscriber, { minLength: 1, maxLength: 3 }),
      async (before, during, subscribers) => {
        const log = new MemoryLog();
        for (const count of before) log.publish(count);
        const begun = log.last;
        const end = during.reduce((sum, each) => sum + each.size + (each.burst ? BURST : 0), begun);
        const live = [...during];
        const publishNext = (): void => {
          const next = live.shift();
          if (next === undefined) return;
          const written = Array.from({ length: next.burst ? BURST : 0 }, () => log.write(1));
          written.push(log.write(next.size));
          setImmediate(() => {
            for (const batch of written) log.feed.publish('accounts', 0, batch);
          });
        };
        await Promise.all(
          subscribers.map(async ({ after, waits }) => {
            const from = after % begun;
            const seen: number[] = [];
            const { resolve, promise } = Promise.withResolvers<void>();
            let calls = 0;
            let isBusy = false;
            const subscription = log.feed.subscribe<number>(
              'accounts',
              0,
              from,
              ({ firstSequence, records }) => {
                assert.equal(isBusy, false, 'one batch at a time');
                assert.equal(records[0], firstSequence);
                seen.push(...records);
                queueMicrotask(publishNext);
                if (seen.length >= end - from) resolve();
                if (!waits[calls++ % waits.length]!) return undefined;
                isBusy = true;
                return new Promise<void>((next) => setImmediate(next)).then(() => {
                  isBusy = false;
                });
              },
            );
            await promise;
            await subscription.close();
            assert.deepEqual(seen, upTo(end, from));
          }),
        );
      },
    ),
    { seed: SEED, numRuns: 60 },
  );
});

void t.test(
  'what was never published, or published again, is neither missed nor handed out twice',
  async (t) => {
    const log = new MemoryLog();
    log.publish(1);
    const seen: number[] = [];
    const reached = new Map<number, () => void>();
    const until = (sequence: number): Promise<void> => {
      return new Promise((resolve) => reached.set(sequence, resolve));
    };
    const caughtUp = until(1);
    log.feed.subscribe<number>('accounts', 0, 0, ({ records }) => {
      seen.push(...records);
      reached.get(seen.at(-1)!)?.();
    });
    await caughtUp;
    log.publish(2);
    t.same(seen, [1, 2, 3], 'live: in the turn of the publication');

    log.write(1);
    const last = log.write(1);
    const mended = until(5);
    log.feed.publish('accounts', 0, last);
    await mended;
    log.feed.publish('accounts', 0, last);
    log.publish(1);
    t.same(seen, [1, 2, 3, 4, 5, 6]);
  },
);

void t.test('for a subscriber at work so many batches are kept: beyond, it reads the log', async (t) => {
  for (const beyond of [0, 1]) {
    const log = new MemoryLog();
    log.publish(1);
    const gates: (() => void)[] = [];
    const turn = async (): Promise<void> => {
      gates.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    };
    const seen: number[] = [];
    log.feed.subscribe<number>('accounts', 0, 0, ({ records }) => {
      seen.push(...records);
      return new Promise<void>((resolve) => gates.push(resolve));
    });
    // Live after a few turns: then the next one goes to the handler at once.
    for (let n = 0; n < 10; n++) await turn();
    for (let n = 0; n <= LIMITS.feedTailBatchesMax + beyond; n++) log.publish(1);
    while (seen.length < log.last) await turn();
    t.same(seen, upTo(log.last, 0));
    t.equal(log.decoded > 1, beyond > 0);
  }
});

const aTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

void t.test('close waits for the handler in progress, whoever and how many call it', async (t) => {
  const log = new MemoryLog();
  log.publish(1);
  let finish = (): void => {};
  let finished = false;
  const started = new Promise<{ close(): Promise<void> }>((resolve) => {
    const subscription = log.feed.subscribe('accounts', 0, 0, async () => {
      resolve(subscription);
      await new Promise<void>((next) => {
        finish = next;
      });
      finished = true;
    });
  });
  const subscription = await started;
  const ends: boolean[] = [];
  const closes = [subscription.close(), subscription.close()].map(async (closed) => {
    await closed;
    ends.push(finished);
  });
  await aTurn();
  t.same(ends, []);
  finish();
  await Promise.all(closes);
  t.same(ends, [true, true]);
  await subscription.close();
});

void t.test('who has closed is handed nothing more, though it has yet to have its turn', async (t) => {
  for (const turns of [0, 1]) {
    const log = new MemoryLog();
    log.publish(3 * LIMITS.feedRecordsPerTurnMax);
    let handed = 0;
    const subscription = log.feed.subscribe('accounts', 0, 0, () => {
      handed += 1;
    });
    for (let n = 0; n < turns; n++) await aTurn();
    const closed = subscription.close();
    log.publish(1);
    await closed;
    await aTurn();
    t.equal(handed, turns);
  }
});
