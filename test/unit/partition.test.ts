// One partition: when its callers are answered, and what they are told when it stops.

import t from 'tap';
import type { Answered, Decision, Group, PartitionLogic, Tick } from '../../actors/runtime/group.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Reply } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { collectGarbage } from '../garbage.ts';

interface Command {
  readonly type: 'Add' | 'Refuse' | 'Open' | 'Again' | 'Answer';
  readonly deadline: number;
}
interface Query {
  readonly type: 'Read';
  readonly deadline: number;
}

/** Counts. `Open` starts something whose answer comes with the next `Answer`, and `Again` asks for it once more. An `Add` has another record in format 2.
 *  Each of its timers is an `Add`. */
class Counter implements PartitionLogic<Command, Query, string> {
  count = 0;
  answered = false;
  sequence = 0;
  evicted = 0;
  /** When its timers fall due, the first first. */
  dues: number[] = [];

  decide(command: Command, { writeFormat }: Tick): Decision<string> {
    switch (command.type) {
      case 'Refuse':
        return { record: null, outcome: { type: 'reply', reply: REFUSED }, answers: null };
      case 'Open':
        return { record: 'opened', outcome: { type: 'wait', key: 'k', replayed: false }, answers: null };
      case 'Again':
        return { record: null, outcome: { type: 'wait', key: 'k', replayed: true }, answers: null };
      case 'Answer':
        return { record: 'answered', outcome: { type: 'reply', reply: bodyOf('ok') }, answers: 'k' };
      case 'Add':
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
    return this.dues[0] ?? Infinity;
  }
  takeDue(now: number, limit: number): Command[] {
    const count = Math.min(limit, this.dues.filter((due) => due <= now).length);
    return this.dues.splice(0, count).map(() => ({ type: 'Add', deadline: Infinity }));
  }
  takeRows(): [] {
    return [];
  }
  evict(sequence: number): void {
    this.evicted = sequence;
  }
}

const REFUSED: Reply = {
  type: 'rejected',
  rejection: { code: 'conflict', param: null, message: null, retryAfterSeconds: null },
};

function bodyOf(body: string): Reply {
  return { type: 'done', body, replayed: false };
}

const group: Group<Command, Query, string> = {
  name: 'accounts',
  messages: {
    Add: 'command',
    Refuse: 'command',
    Open: 'command',
    Again: 'command',
    Answer: 'command',
    Read: 'query',
  },
  answerWaitMs: 1_000,
  viewsFormat: 1,
  open: () => new Counter(),
  encode: (record) => record,
  decode: (line) => line,
};

/** A partition over a log whose flush the test holds back. */
function heldBack(options: { answerWaitMs?: number } = {}) {
  const log = { appended: 0, durable: 0, append: () => ++log.appended };
  /** `aheadMs`: of the process's clock, compared with that of its callers. */
  const state = { now: 1_000, aheadMs: 0, isPaused: false, writeFormat: 1 };
  const published: string[] = [];
  const counted: string[] = [];
  const logic = new Counter();
  const partition = new Partition<Command, Query, string>({
    group: { ...group, ...options },
    logic,
    log,
    clock: () => state.now,
    deadlineClock: () => state.now - state.aheadMs,
    lastRecordAt: 0,
    observer: { decided: (_group, type, outcome) => counted.push(`${type}:${outcome}`) },
    writeFormat: () => state.writeFormat,
    isPaused: () => state.isPaused,
    publish: (_first, records) => published.push(...records),
  });
  const replies: string[] = [];
  const send = (type: (Command | Query)['type'], deadline = Infinity): void => {
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
  return { partition, logic, log, state, published, counted, replies, send, flush };
}

void t.test('no reply leaves before the log is durable up to what it tells', (t) => {
  const { partition, replies, published, send, flush } = heldBack();
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
  t.equal(partition.depth, 1);
  flush();
  t.same(replies.slice(4), ['Add:ok']);
  t.same(published, ['added', 'added']);
  t.end();
});

void t.test('an answered call is let go, also while others always wait', async (t) => {
  const { partition, send, flush, log } = heldBack();
  const calls: WeakRef<object>[] = [];
  for (let i = 0; i < 100; i++) {
    const call = { i, answered: false };
    calls.push(new WeakRef(call));
    partition.send({ type: 'Add', deadline: Infinity }, () => {
      call.answered = true;
    });
    send('Add');
    // Of the two, one is answered later: the line of those who wait never ends.
    flush(log.appended - 1);
  }
  await collectGarbage();
  t.same(
    calls.map((call) => call.deref()).filter((call) => call !== undefined),
    [],
  );
  t.equal(partition.depth, 1);
});

void t.test('callers of many batches are each answered once, however far a batch reaches', (t) => {
  const { replies, send, flush } = heldBack();
  for (let i = 0; i < LIMITS.mailboxMax; i++) send('Add');
  for (const to of [5_000, 5_001, LIMITS.mailboxMax - 1, LIMITS.mailboxMax]) {
    flush(to);
    t.equal(replies.length, to);
  }
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

void t.test('an answer that is not durable yet is told to nobody, one that is to whoever asks', (t) => {
  const { partition, replies, send, flush } = heldBack();
  send('Open');
  send('Answer');
  flush(1);
  t.same(replies, [], 'what was opened is durable, its answer is not');
  flush();
  t.same(replies, ['Answer:ok', 'Open:answer']);
  send('Again');
  t.same(replies.slice(2), ['Again:answer'], 'at once');
  t.equal(partition.depth, 0);
  t.end();
});

void t.test('who asks again while there is no answer waits for that, not for the log', (t) => {
  const { partition, replies, send, flush } = heldBack();
  send('Open');
  flush();
  send('Again');
  t.equal(partition.depth, 0);
  send('Answer');
  flush();
  t.same(replies, ['Answer:ok', 'Open:answer', 'Again:answer']);
  t.end();
});

void t.test('the feed gets each record once and in order, wherever batches end', (t) => {
  const { published, send, flush } = heldBack();
  for (const type of ['Open', 'Add', 'Answer', 'Add'] as const) send(type);
  flush(1);
  t.same(published, ['opened']);
  flush(3);
  send('Open');
  flush();
  t.same(published, ['opened', 'added', 'answered', 'added', 'opened']);
  t.end();
});

void t.test('a timer is taken when it is due, and none that would be refused', async (t) => {
  const { partition, logic, log, state, send, flush } = heldBack();
  const many = LIMITS.timersPerTickMax + 2;
  logic.dues = [...Array<number>(many).fill(state.now + 5), state.now + 6];
  partition.tick();
  t.equal(log.appended, 0, 'not early');
  state.now += 5;
  state.isPaused = true;
  partition.tick();
  t.equal(logic.dues.length, many + 1, 'nothing may be written: it waits');
  state.isPaused = false;
  for (let i = 0; i < LIMITS.mailboxMax - 1; i++) send('Add');
  partition.tick();
  t.equal(logic.dues.length, many, 'there was room for one');
  partition.tick();
  t.equal(logic.dues.length, many);
  flush();
  partition.tick();
  t.equal(logic.dues.length, many - LIMITS.timersPerTickMax, 'so many in a tick');
  partition.tick();
  t.same(logic.dues, [state.now + 1]);
  const drained = partition.drain();
  state.now += 1;
  partition.tick();
  t.equal(logic.dues.length, 1, 'none any more while it stops');
  flush();
  await drained;
  t.equal(log.appended, LIMITS.mailboxMax - 1 + many, 'what was taken was decided');
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

void t.test('who was let in before nothing may be written any more is answered all the same', (t) => {
  for (const answerWaitMs of [0, group.answerWaitMs]) {
    const { partition, log, state, replies, send, flush } = heldBack({ answerWaitMs });
    send('Open');
    state.isPaused = true;
    flush();
    send('Answer');
    t.same(replies, ['Answer:unavailable'], 'the rail cannot tell what it answered');
    state.now += answerWaitMs;
    partition.tick();
    partition.tick();
    flush();
    t.same(replies.slice(1), ['Open:answer']);
    t.equal(partition.waiting, 0);
    t.equal(log.appended, 2, 'one record for each who waited');
  }
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

void t.test('every command is counted, by what became of it', (t) => {
  const { state, counted, send } = heldBack();
  send('Add', 999);
  for (const type of ['Add', 'Refuse', 'Open'] as const) send(type);
  state.isPaused = true;
  send('Add');
  t.same(counted, ['Add:unavailable', 'Add:reply', 'Refuse:rejected', 'Open:wait', 'Add:unavailable']);
  t.end();
});

void t.test('a deadline passes by the clock of its caller, also where that of the process is ahead', (t) => {
  const { state, replies, send, flush } = heldBack();
  state.now += 60_000;
  state.aheadMs = 60_000;
  send('Add', 1_000);
  send('Add', 999);
  flush();
  t.same(replies, ['Add:unavailable', 'Add:ok']);
  t.end();
});

void t.test('nor is a wait ended while the mailbox is full; it is as soon as there is room', (t) => {
  const { partition, log, state, replies, send, flush } = heldBack();
  send('Open');
  flush();
  for (let i = 0; i < LIMITS.mailboxMax; i++) send('Add');
  state.now += group.answerWaitMs;
  const before = log.appended;
  partition.tick();
  t.equal(log.appended, before);
  flush();
  t.equal(replies.includes('Open:answer'), false);
  partition.tick();
  flush();
  t.equal(replies.at(-1), 'Open:answer', 'not after a second wait');
  t.end();
});

void t.test('how far the views lag is what was written since the last checkpoint', (t) => {
  const { partition, logic, send, flush } = heldBack();
  t.equal(partition.checkpointLag, 0);
  for (let i = 0; i < 3; i++) send('Add');
  flush();
  t.equal(partition.checkpointLag, 3);
  partition.checkpointed(2);
  t.equal(partition.checkpointLag, 1);
  partition.abandon();
  t.equal(
    partition.checkpointLag,
    0,
    'nobody waits for views of what is not served: the others would be refused for ever',
  );
  t.equal(logic.evicted, 2, 'and what the views have may leave memory');
  t.end();
});

void t.test('while the views lag too far behind, commands are refused and reads are not', (t) => {
  const { log, state, replies, send } = heldBack();
  state.isPaused = true;
  send('Add');
  send('Read');
  t.same(replies, ['Add:unavailable', 'Read:0']);
  t.equal(log.appended, 0);
  state.isPaused = false;
  send('Refuse');
  t.same(replies.slice(2), ['Refuse:rejected']);
  t.end();
});

void t.test('draining answers everything decided and takes nothing more', async (t) => {
  const { partition, replies, send, flush } = heldBack();
  send('Open');
  flush();
  send('Add');
  const drained = partition.drain();
  send('Add');
  send('Read');
  t.same(replies, ['Add:unavailable', 'Read:unavailable']);
  flush();
  await drained;
  t.same(
    replies.slice(2),
    ['Add:ok', 'Open:unknown'],
    'what was opened exists: whoever waits is told nothing',
  );
});

void t.test(
  'where nobody is to wait, whoever was let in before it is drained is answered, too',
  async (t) => {
    const { partition, log, replies, send, flush } = heldBack({ answerWaitMs: 0 });
    send('Open');
    const drained = partition.drain();
    flush();
    t.equal(log.appended, 2, 'what it is told is fixed');
    flush();
    await drained;
    t.same(replies, ['Open:answer']);
  },
);

void t.test('whoever drains it while another does waits for the same end', async (t) => {
  for (const end of ['flush', 'abandon'] as const) {
    const { partition, send, flush } = heldBack();
    send('Open');
    send('Add');
    let ended = 0;
    const draining = [1, 2].map(() => partition.drain().then(() => ended++));
    // The second record is in a later batch.
    flush(1);
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(ended, 0);
    if (end === 'flush') flush();
    else partition.abandon();
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(ended, draining.length, end);
  }
});

void t.test('with nothing to answer it is drained at once', async (t) => {
  const { partition, replies } = heldBack();
  await partition.drain();
  t.same(replies, []);
});

void t.test('a log that fails while it drains ends that, and nobody is told twice', async (t) => {
  const { partition, replies, send, flush } = heldBack();
  send('Open');
  flush();
  send('Add');
  const drained = partition.drain();
  partition.abandon();
  await drained;
  partition.abandon();
  t.same(replies, ['Add:unknown', 'Open:unknown']);
});

void t.test('after a failure of the log its callers are told nothing', (t) => {
  const { partition, replies, send, flush } = heldBack();
  send('Open');
  flush();
  send('Add');
  partition.abandon();
  send('Add');
  send('Read');
  t.same(replies, ['Add:unknown', 'Open:unknown', 'Add:unavailable', 'Read:unavailable']);
  t.end();
});
