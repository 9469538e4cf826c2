// The actor runtime: due times, ids and time of a partition, the feed, and when callers are answered.

import fc from 'fast-check';
import t from 'tap';
import { DueHeap } from '../../actors/runtime/due-heap.ts';
import { PartitionClock } from '../../actors/runtime/fresh-id.ts';
import type { Answered, Decision, Group, PartitionLogic, Tick } from '../../actors/runtime/group.ts';
import { LocalFeed } from '../../actors/runtime/local-feed.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Reply } from '../../src/bus/bus.ts';
import type { FeedBatch } from '../../src/bus/feed.ts';
import { timeOf } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
t.comment(`SEED=${SEED}`);

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

void t.test('more ids than a millisecond has room for go to the next one', (t) => {
  const partition = new PartitionClock(() => 1_700_000_000_000, 0);
  let last = '';
  for (let i = 0; i < 100_000; i++) {
    const { freshBody, now } = partition.tick(1);
    if (freshBody <= last || timeOf(`chg_${freshBody}`) !== now) t.fail(`id ${i} is out of order`);
    last = freshBody;
  }
  t.ok(timeOf(`chg_${last}`) > 1_700_000_000_000);
  t.end();
});

// --- The feed ----------------------------------------------------------------------------------------------------------

/** A log in memory with one record a batch, as a source for the feed. */
function feedOver(log: number[]): LocalFeed {
  return new LocalFeed((_group, _partition, after) =>
    after >= log.length ? null : { firstSequence: after + 1, records: log.slice(after, after + 3) },
  );
}

void t.test('a subscriber sees every record once and in order, however late and however slow', async (t) => {
  const log: number[] = [];
  const feed = feedOver(log);
  const publish = (count: number): void => {
    const first = log.length + 1;
    const records = Array.from({ length: count }, (_, i) => first + i);
    log.push(...records);
    feed.publish('accounts', 0, { firstSequence: first, records });
  };
  publish(5);
  const seen: number[] = [];
  let release: (() => void) | null = null;
  const done = new Promise<void>((resolve) => {
    feed.subscribe<number>('accounts', 0, 2, async (batch: FeedBatch<number>) => {
      t.equal(batch.records[0], batch.firstSequence, 'a batch begins where it says');
      await new Promise<void>((next) => {
        release = next;
      });
      seen.push(...batch.records);
      if (seen.length === 5 - 2 + 2 * LIMITS.feedTailBatchesMax * 2) resolve();
    });
  });
  // More than the tail holds while the subscriber is stuck in its first batch.
  for (let i = 0; i < LIMITS.feedTailBatchesMax * 2; i++) publish(2);
  const step = setInterval(() => release?.(), 0);
  await done;
  clearInterval(step);
  t.same(seen, log.slice(2), 'nothing is lost and nothing comes twice');
});

void t.test('close waits for the handler in progress', async (t) => {
  const feed = feedOver([1]);
  let finish = (): void => {};
  let finished = false;
  const started = new Promise<{ close(): Promise<void> }>((resolve) => {
    const subscription = feed.subscribe('accounts', 0, 0, async () => {
      resolve(subscription);
      await new Promise<void>((next) => {
        finish = next;
      });
      finished = true;
    });
  });
  const subscription = await started;
  const closed = subscription.close();
  finish();
  await closed;
  t.ok(finished);
});

// --- When callers are answered ------------------------------------------------------------------------------------------

interface Command {
  readonly type: 'Add' | 'Refuse' | 'Open' | 'Answer' | 'Read';
  readonly deadline: number;
}

/** Counts. `Open` starts something whose answer comes with the next `Answer`. An `Add` has another record in format 2. */
class Counter implements PartitionLogic<Command, Command, string> {
  count = 0;
  answered = false;
  sequence = 0;

  decide(command: Command, { writeFormat }: Tick): Decision<string> {
    switch (command.type) {
      case 'Refuse':
        return { record: null, outcome: { type: 'reply', reply: REFUSED }, answers: null };
      case 'Open':
        return { record: 'opened', outcome: { type: 'wait', key: 'k', replayed: false }, answers: null };
      case 'Answer':
        return { record: 'answered', outcome: { type: 'reply', reply: bodyOf('ok') }, answers: 'k' };
      case 'Add':
      case 'Read':
        return {
          record: writeFormat < 2 ? 'added' : 'added in format 2',
          outcome: { type: 'reply', reply: bodyOf('ok') },
          answers: null,
        };
    }
  }
  evolve(record: string, sequence: number): void {
    this.count++;
    this.sequence = sequence;
    if (record === 'answered') this.answered = true;
  }
  query(): Answered {
    return { reply: bodyOf(String(this.count)), sequence: this.sequence };
  }
  answer(): Answered | null {
    return this.answered ? { reply: bodyOf('answer'), sequence: this.sequence } : null;
  }
  settleAnswer(): Command {
    return { type: 'Answer', deadline: Infinity };
  }
  nextDue(): number {
    return Infinity;
  }
  takeDue(): Command[] {
    return [];
  }
  takeRows(): [] {
    return [];
  }
  evict(): void {}
}

const REFUSED: Reply = {
  type: 'rejected',
  rejection: { code: 'conflict', param: null, message: null, retryAfterSeconds: null },
};

function bodyOf(body: string): Reply {
  return { type: 'done', body, replayed: false };
}

const group: Group<Command, Command, string> = {
  name: 'accounts',
  answerWaitMs: 1_000,
  viewsFormat: 1,
  open: () => new Counter(),
  isQuery: ({ type }) => type === 'Read',
  encode: (record) => record,
  decode: (line) => line,
};

/** A partition over a log whose flush the test holds back. */
function heldBack(options: { answerWaitMs?: number } = {}) {
  const log = { appended: 0, durable: 0, append: () => ++log.appended };
  const state = { now: 1_000, isBehind: false, writeFormat: 1 };
  const published: string[] = [];
  const partition = new Partition<Command, Command, string>({
    group: { ...group, ...options },
    partition: 0,
    logic: new Counter(),
    log,
    clock: () => state.now,
    lastRecordAt: 0,
    observer: { decided: () => {} },
    writeFormat: () => state.writeFormat,
    isBehind: () => state.isBehind,
    publish: (_first, records) => published.push(...records),
  });
  const replies: string[] = [];
  const send = (type: Command['type'], deadline = Infinity): void => {
    partition.send({ type, deadline }, (reply) => {
      replies.push(`${type}:${reply.type === 'done' ? reply.body : reply.type}`);
    });
  };
  const flush = (to = log.appended): void => {
    const first = log.durable + 1;
    const count = to - log.durable;
    log.durable = to;
    partition.committed(first, count);
    partition.answer();
  };
  return { partition, log, state, published, replies, send, flush };
}

void t.test('no reply leaves before the log is durable up to what it tells', (t) => {
  const { replies, published, send, flush } = heldBack();
  send('Refuse');
  t.same(replies, ['Refuse:rejected'], 'with nothing in the log there is nothing to wait for');
  send('Add');
  send('Refuse');
  send('Read');
  send('Add');
  t.same(replies, ['Refuse:rejected'], 'a refusal and a read may tell of what is not durable yet: they wait');
  t.same(published, [], 'so does the feed');
  flush(1);
  t.same(replies.slice(1), ['Add:ok', 'Refuse:rejected', 'Read:1']);
  t.same(published, ['added']);
  flush();
  t.same(replies.slice(4), ['Add:ok']);
  t.end();
});

void t.test('a caller who waits for an answer gets it when the record that gives it is durable', (t) => {
  const { replies, send, flush } = heldBack();
  send('Open');
  flush();
  t.same(replies, [], 'created and durable, not yet answered');
  send('Answer');
  t.same(replies, [], 'answered in memory only');
  flush();
  t.same(replies, ['Answer:ok', 'Open:answer']);
  send('Open');
  t.same(replies.length, 2, 'a repetition waits for what it added to the log');
  flush();
  t.same(replies.slice(2), ['Open:answer']);
  t.end();
});

void t.test('a record of the next format is made only when that may be written', (t) => {
  const { published, state, send, flush } = heldBack();
  send('Add');
  state.writeFormat = 2;
  send('Add');
  flush();
  t.same(published, ['added', 'added in format 2']);
  t.end();
});

void t.test('whoever waits too long makes the answer be settled', (t) => {
  const { partition, state, replies, send, flush } = heldBack();
  send('Open');
  flush();
  partition.tick();
  t.equal(partition.waiting, 1);
  state.now += group.answerWaitMs;
  partition.tick();
  flush();
  t.same(replies, ['Open:answer']);
  t.equal(partition.waiting, 0);
  t.end();
});

void t.test('where nobody is to wait, a tick still ends, and settles each answer once', (t) => {
  const { partition, log, state, replies, send, flush } = heldBack({ answerWaitMs: 0 });
  send('Open');
  flush();
  const before = log.appended;
  state.now += 1;
  partition.tick();
  t.equal(log.appended, before + 1);
  flush();
  t.same(replies, ['Open:answer']);
  t.end();
});

void t.test('a full mailbox and a passed deadline answer unavailable, undecided', (t) => {
  const { partition, log, replies, send } = heldBack();
  send('Add', 999);
  t.same(replies, ['Add:unavailable']);
  for (let i = 0; i < LIMITS.mailboxMax; i++) send('Add');
  const before = log.appended;
  send('Add');
  send('Read');
  t.equal(log.appended, before);
  t.same(replies.slice(1), ['Add:unavailable', 'Read:unavailable']);
  t.equal(partition.depth, LIMITS.mailboxMax);
  t.end();
});

void t.test('while the views lag too far behind, commands are refused and reads are not', (t) => {
  const { log, state, replies, send } = heldBack();
  state.isBehind = true;
  send('Add');
  send('Read');
  t.same(replies, ['Add:unavailable', 'Read:0']);
  t.equal(log.appended, 0);
  state.isBehind = false;
  send('Refuse');
  t.same(replies.slice(2), ['Refuse:rejected']);
  t.end();
});

void t.test('draining answers everything decided and takes nothing more', async (t) => {
  const { partition, replies, send, flush } = heldBack();
  send('Add');
  const drained = partition.drain();
  send('Add');
  t.same(replies, ['Add:unavailable']);
  flush();
  await drained;
  t.same(replies, ['Add:unavailable', 'Add:ok']);
});

void t.test('after a failure of the log its callers are told nothing', (t) => {
  const { partition, replies, send } = heldBack();
  send('Add');
  partition.abandon();
  send('Add');
  t.same(replies, ['Add:unknown', 'Add:unavailable']);
  t.end();
});
