// A node's feed changes over between its own log and the stream: each record once, in order, whichever it comes from.
import t from 'tap';
import { LocalFeed, type LoggedBatch } from '../../actors/runtime/local-feed.ts';
import type { Feed, FeedBatch } from '../../src/bus/feed.ts';
import { NodeFeed, type OwnLog } from '../../src/cluster/node-feed.ts';
import { LogCorruption } from '../../wal/batch.ts';

const BATCH = 3;

/** One log, and two feeds of it: the stream hears of a batch a little later than the log's own process. */
class TwoSources {
  #length = 0;
  /** The own log lacks what is before. */
  ownBeginsAfter = 0;
  readonly ownFeed = new LocalFeed((_group, _partition, after) => {
    if (after < this.ownBeginsAfter) throw new Error(`sequence ${after + 1} was trimmed`);
    return this.#read(after);
  });
  readonly own: OwnLog = { feed: this.ownFeed, beginsAfter: () => this.ownBeginsAfter };
  readonly stream = new LocalFeed((_group, _partition, after) => this.#read(after));

  *#read(after: number): Generator<LoggedBatch, void> {
    for (let sequence = after + 1; sequence <= this.#length; sequence++) {
      yield { firstSequence: sequence, lines: [String(sequence)], decode: Number };
    }
  }

  append(): void {
    const records = Array.from({ length: BATCH }, (_, n) => this.#length + 1 + n);
    const batch: FeedBatch<number> = { firstSequence: this.#length + 1, records };
    this.#length += BATCH;
    this.ownFeed.publish('accounts', 0, batch);
    setImmediate(() => this.stream.publish('accounts', 0, batch));
  }
}

/** The feed, noting in `asked` what is subscribed to. */
function noting(asked: string[], name: string, feed: Feed): Feed {
  return {
    subscribe: (group, partition, after, handler) => {
      asked.push(`${name} ${group}/${partition} after ${after}`);
      return feed.subscribe(group, partition, after, handler);
    },
  };
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise((resolve) => setImmediate(resolve));
}

t.test('with changes of owner at every moment', async (t) => {
  const sources = new TwoSources();
  const feed = new NodeFeed(sources);
  const heard: number[] = [];
  let atWork = 0;
  const subscription = feed.subscribe<number>('accounts', 0, 0, async ({ records }) => {
    t.equal(++atWork, 1, 'one batch at a time');
    heard.push(...records);
    await turns(records.length % 2);
    atWork--;
  });
  for (let round = 0; round < 300; round++) {
    sources.append();
    if (round % 3 === 0) feed.written('accounts', 0);
    await turns(round % 5);
    if (round % 7 === 0) feed.left('accounts', 0);
    await turns(round % 2);
  }
  while (heard.length < 300 * BATCH) await turns(1);
  t.strictSame(
    heard,
    Array.from({ length: 300 * BATCH }, (_, n) => n + 1),
  );
  await subscription.close();
  sources.append();
  await turns(10);
  t.equal(heard.length, 300 * BATCH, 'nothing after it was closed');
});

t.test('a partition that is written here is read from its own log, another from its stream', async (t) => {
  const sources = new TwoSources();
  const asked: string[] = [];
  const telling = (name: string, feed: Feed): Feed => noting(asked, name, feed);
  const feed = new NodeFeed({
    stream: telling('stream', sources.stream),
    own: { ...sources.own, feed: telling('own', sources.ownFeed) },
  });
  let last = 0;
  const subscribe = (): ReturnType<Feed['subscribe']> =>
    feed.subscribe<number>('accounts', 0, last, ({ records }) => {
      last = records.at(-1) ?? last;
    });
  const subscription = subscribe();
  sources.append();
  while (last < 3) await turns(1);
  feed.written('accounts', 1);
  feed.written('accounts', 0);
  await turns(4);
  feed.left('accounts', 0);
  await turns(4);
  await subscription.close();
  t.strictSame(asked, ['stream accounts/0 after 0', 'own accounts/0 after 3', 'stream accounts/0 after 3']);

  const behind = new NodeFeed({ stream: telling('stream', sources.stream), own: null });
  behind.written('accounts', 0);
  asked.length = 0;
  await behind.subscribe('accounts', 0, 0, () => {}).close();
  t.strictSame(asked, ['stream accounts/0 after 0'], 'where the stream may lag it alone is read');
});

t.test('what an own log that begins late lacks comes from the stream, then it takes over', async (t) => {
  const sources = new TwoSources();
  for (let n = 0; n < 4; n++) sources.append();
  await turns(2);
  sources.ownBeginsAfter = 2 * BATCH;
  const asked: string[] = [];
  const feed = new NodeFeed({
    stream: noting(asked, 'stream', sources.stream),
    own: { ...sources.own, feed: noting(asked, 'own', sources.ownFeed) },
  });
  feed.written('accounts', 0);
  const heard: number[] = [];
  const subscription = feed.subscribe<number>('accounts', 0, 2, ({ records }) => {
    heard.push(...records);
  });
  while (heard.length < 4 * BATCH - 2) await turns(1);
  t.strictSame(asked, ['stream accounts/0 after 2', `own accounts/0 after ${2 * BATCH}`]);
  t.strictSame(
    heard,
    Array.from({ length: 4 * BATCH - 2 }, (_, n) => n + 3),
  );
  await subscription.close();
});

t.test('a change that is asked for while another ends is made, whatever the moment', async (t) => {
  for (let steps = 0; steps < 12; steps++) {
    const sources = new TwoSources();
    const asked: string[] = [];
    let onClose = (): void => {};
    const telling = (name: string, feed: Feed): Feed => ({
      subscribe: (...place) => {
        asked.push(name);
        const subscription = feed.subscribe(...place);
        return {
          close: () => {
            onClose();
            return subscription.close();
          },
        };
      },
    });
    const feed = new NodeFeed({
      stream: telling('stream', sources.stream),
      own: { ...sources.own, feed: telling('own', sources.ownFeed) },
    });
    const subscription = feed.subscribe('accounts', 0, 0, () => {});
    await turns(2);
    onClose = () => {
      onClose = () => {};
      let passed = Promise.resolve();
      for (let step = 0; step < steps; step++) passed = passed.then(() => {});
      void passed.then(() => feed.left('accounts', 0));
    };
    feed.written('accounts', 0);
    await turns(4);
    t.equal(asked.at(-1), 'stream', `left ${steps} steps after written`);
    await subscription.close();
  }
});

t.test('however often the owner changes while a batch is handled, one source is listened to', async (t) => {
  const often = ['written', 'left', 'written'] as const;
  for (const [changes, isClosed] of [
    [often, false],
    [often, true],
    [[], true],
  ] as const) {
    const sources = new TwoSources();
    let listening = 0;
    const counted = (feed: Feed): Feed => ({
      subscribe: (...place) => {
        listening++;
        const subscription = feed.subscribe(...place);
        let isOpen = true;
        return {
          close: async () => {
            if (isOpen) listening--;
            isOpen = false;
            await subscription.close();
          },
        };
      },
    });
    const feed = new NodeFeed({
      stream: counted(sources.stream),
      own: { ...sources.own, feed: counted(sources.ownFeed) },
    });
    const { promise: handled, resolve: goOn } = Promise.withResolvers<void>();
    const heard: number[] = [];
    let isAtWork = false;
    const subscription = feed.subscribe<number>('accounts', 0, 0, async ({ records }) => {
      heard.push(...records);
      isAtWork = true;
      await handled;
      isAtWork = false;
    });
    sources.append();
    while (!isAtWork) await turns(1);
    for (const change of changes) {
      feed[change]('accounts', 0);
      t.equal(feed.isOwn('accounts', 0, BATCH), change === 'written');
      await turns(1);
    }
    const closing = isClosed
      ? subscription.close().then(() => t.notOk(isAtWork, 'a handler at work has finished'))
      : null;
    await turns(2);
    t.ok(isAtWork);
    goOn();
    if (closing === null) {
      sources.append();
      while (heard.length < 2 * BATCH) await turns(1);
      await turns(4);
      t.equal(listening, 1);
      await subscription.close();
    }
    await closing;
    t.equal(listening, 0);
    feed.left('accounts', 0);
    await turns(4);
    t.equal(listening, 0, 'nor is it begun anew when it was closed');
    t.strictSame(
      heard,
      Array.from({ length: isClosed ? 1 : 2 * BATCH }, (_, n) => n + 1),
    );
  }
});

t.test('where it cannot be read what the own log begins after, the stream goes on', async (t) => {
  const sources = new TwoSources();
  let isDamaged = false;
  const own: OwnLog = {
    feed: sources.ownFeed,
    beginsAfter: () => {
      if (!isDamaged) return 0;
      throw new LogCorruption({ group: 'accounts', partition: 0, batch: 0, sequence: 0 }, 'rotten');
    },
  };
  const feed = new NodeFeed({ stream: sources.stream, own });
  feed.written('accounts', 0);
  const heard: number[] = [];
  const listen = (): ReturnType<Feed['subscribe']> =>
    feed.subscribe<number>('accounts', 0, heard.length, ({ records }) => void heard.push(...records));
  const before = listen();
  sources.append();
  while (heard.length < BATCH) await turns(1);
  isDamaged = true;
  for (const subscription of [before, null]) {
    const listening = subscription ?? listen();
    const count = heard.length + 2 * BATCH;
    sources.append();
    sources.append();
    while (heard.length < count) await turns(1);
    t.notOk(feed.isOwn('accounts', 0, heard.length));
    await listening.close();
  }
  t.strictSame(
    heard,
    Array.from({ length: 5 * BATCH }, (_, n) => n + 1),
  );
});
