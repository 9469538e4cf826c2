// One server's copy of a partition's stream is not what the others have, for good: what nats-server 2.9 can be left with that led the
// stream, was frozen until others had elected another leader, and then stored what a replaced writer had sent it meanwhile. Whoever reads
// at that server has the log all the same, and nothing that is not in it.
import t from 'tap';
import type { Test } from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { streamTools } from '../../deploy/stream-tools.ts';
import type { FeedBatch } from '../../src/bus/feed.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { LIMITS } from '../../src/limits.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { batchesAfter } from '../../src/nats/log/stream-batches.ts';
import { StreamFeed } from '../../src/nats/log/stream-feed.ts';
import { StreamReader } from '../../src/nats/stream-reader.ts';
import { logStream } from '../../src/nats/subjects.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import { SegmentDirectory } from '../../wal/tools/segment.ts';
import type { Batch } from '../../wal/types.ts';
import { batchAfter, link, longer, temporaryLog } from './adapters.ts';
import { publish, putCopies, startThree } from './copy-of-one.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const EPOCH = 2;
/** Readers of which one has been at the server with the wrong copy, but for one time in 10,000. */
const READERS_MAX = 24;

/** Of a log, with what its replaced writer sent last and nobody was told of. */
interface Fork {
  readonly partition: number;
  readonly log: readonly Batch[];
  /** Other batches from some place on, as many. */
  readonly wrong: readonly Batch[];
}

function batches(partition: number, epochs: readonly number[], what: string): Batch[] {
  const made: Batch[] = [];
  for (const [n, epoch] of epochs.entries()) {
    const previous = made.at(-1);
    const tip = previous === undefined ? emptyTip : tipAt(previous);
    const record = epoch === EPOCH ? `record ${n + 1}` : `${n < 3 ? 'record' : what} ${n + 1}`;
    made.push(batchAfter(tip, partition, epoch, record, 1_764_000_000_000 + n));
  }
  return made;
}

/** What is wrong stands at the end. */
const atEnd: Fork = {
  partition: 0,
  log: batches(0, [1, 1, 1, EPOCH], 'record'),
  wrong: batches(0, [1, 1, 1, 1], 'wrong'),
};
/** The server has what came after it, too, of which more does not follow than a writer may leave. */
const followed: Fork = (() => {
  const log = batches(1, [1, 1, 1, ...Array<number>(LIMITS.streamWarmUpMessages + 2).fill(EPOCH)], 'record');
  return { partition: 1, log, wrong: [...batches(1, [1, 1, 1, 1], 'wrong'), ...log.slice(4)] };
})();
/** More than one: as a writer with REPLICATION=async leaves them. */
const several: Fork = {
  partition: 2,
  log: batches(2, [1, 1, 1, EPOCH, EPOCH, EPOCH], 'record'),
  wrong: batches(2, [1, 1, 1, 1, 1, 1], 'wrong'),
};
const FORKS = [atEnd, followed, several];
/** Of which a feed has handed over what is before it: a later writer's. */
const settled: Fork = {
  partition: 3,
  log: batches(3, [1, 1, 1, EPOCH + 1], 'record'),
  wrong: batches(3, [1, 1, 1, EPOCH], 'wrong'),
};

const three = await startThree(t, [...FORKS, settled]);
const { servers, nats, problems } = three;
await putCopies(
  t,
  three,
  [...FORKS, settled].map(({ partition, wrong }) => ({ partition, batches: wrong })),
);

/** With one more reader after the other. Resolves with whether one has been at that server. */
async function untilThere(wasThere: () => Promise<boolean>): Promise<boolean> {
  for (let count = 0; count < READERS_MAX; count++) if (await wasThere()) return true;
  return false;
}

async function untilFound(what: RegExp, begin: () => Promise<void>): Promise<void> {
  problems.length = 0;
  await untilThere(async () => {
    await begin();
    return problems.some((each) => what.test(each));
  });
}

for (const { partition, log } of FORKS) {
  const records = log.flatMap((batch) => batch.records);
  const told = new RegExp(
    `^${logStream('accounts', partition)} has another batch at \\d on its leader, .* n3: `,
  );

  t.test(`the feed hands over what all others have, of ${records.length} records`, async (t) => {
    const feed = new StreamFeed({
      link: nats,
      decode: (_, line) => line,
      epochOf: () => EPOCH,
      onError: (error) => t.fail(error.message),
    });
    await untilFound(told, async () => {
      const lines: string[] = [];
      const subscription = feed.subscribe('accounts', partition, 0, (batch: FeedBatch<string>) => {
        lines.push(...batch.records);
      });
      await waitFor('all records came', 60_000, () => lines.length >= records.length);
      await subscription.close();
      t.strictSame(lines, records);
    });
    t.match(problems.join('\n'), told);
  });

  for (const [who, has] of [
    ['an empty machine', []],
    ['a machine that has them', log],
    ['the machine of the replaced writer', FORKS[partition]!.wrong.slice(0, 4)],
  ] as const) {
    // It reads from behind that place.
    if (has.length > LIMITS.streamWarmUpMessages) continue;
    t.test(`${who} ends with what all others have, of ${records.length} records`, async (t) => {
      await untilFound(told, () => assertFollowed(t, partition, has, log));
      t.match(problems.join('\n'), told);
    });
  }
}

for (const { partition, log, wrong } of FORKS) {
  t.test(
    `who is given that server each time ends with what the leader has, too, of ${log.length}`,
    async (t) => {
      const { consumers } = nats.manager;
      const add = consumers.add.bind(consumers);
      t.teardown(() => void (consumers.add = add));
      // As where two of three servers have the same wrong copy.
      consumers.add = async (stream, config) => {
        for (;;) {
          const info = await add(stream, config);
          if (info.cluster?.leader === 'n3') return info;
        }
      };
      for (const has of [[], log.slice(0, LIMITS.streamWarmUpMessages), wrong.slice(0, 4)]) {
        await assertFollowed(t, partition, has, log);
      }
    },
  );
}

t.test('a feed that is begun at another server takes for its end what it had read before', async (t) => {
  const { partition, log } = settled;
  const feed = new StreamFeed({
    link: nats,
    decode: (_, line) => line,
    epochOf: () => EPOCH + 1,
    onError: (error) => t.fail(error.message),
  });
  const { streams } = nats.manager;
  const getMessage = streams.getMessage.bind(streams);
  const asked: (number | undefined)[] = [];
  let turns: (() => void)[] = [];
  // When it has asked for what it has read there, it reads on only after it has looked whether it has read what the stream has.
  streams.getMessage = async (stream, query) => {
    asked.push(typeof query === 'object' && 'seq' in query ? query.seq : undefined);
    const takeTurn = (): (() => void) => nats.catchUps.take(() => {});
    if (asked.length === 1) turns = Array.from({ length: LIMITS.streamReadsAtOnce }, takeTurn);
    const message = await getMessage(stream, query);
    if (asked.length === 2) setImmediate(() => turns.forEach((end) => end()));
    return message;
  };
  t.teardown(() => void (streams.getMessage = getMessage));
  await untilFound(/ another batch at 4 on its leader, .* n3: /, async () => {
    asked.length = 0;
    const lines: string[] = [];
    const subscription = feed.subscribe('accounts', partition, 0, (batch: FeedBatch<string>) => {
      lines.push(...batch.records);
    });
    await waitFor('all records came', 20_000, () => lines.length >= log.length);
    await subscription.close();
    t.strictSame(
      lines,
      log.flatMap(({ records }) => records),
    );
  });
  t.strictSame(asked.slice(0, 2), [4, 3], 'more where it was begun there once more');
});

for (const { partition, log } of FORKS) {
  const place = { link: nats, group: 'accounts', partition } as const;
  const wrong =
    /(has another batch \d on its leader than where it was read: try again|does not continue batch 4)/;

  t.test(`whoever reads all ${log.length} batches once has what all others have, or is told`, async (t) => {
    const isTold = await untilThere(async () => {
      const read: Batch[] = [];
      try {
        for await (const batch of batchesAfter(place, emptyTip)) read.push(batch);
        t.strictSame(read, log);
        return false;
      } catch (error) {
        t.match(error, { message: wrong });
        return true;
      }
    });
    t.ok(isTold);
  });

  t.test(`an archive has what all others have of ${log.length} batches, or nothing`, async (t) => {
    const operator = () => link(servers.url, 'operator');
    // The second is not read to its end.
    for (const last of [log.at(-1)!, log[3]!]) {
      const asked = ['--group', 'accounts', '--partition', `${partition}`, '--before', `${last.timeMs + 1}`];
      const isTold = await untilThere(async () => {
        const to = temporaryDirectory(t);
        const { status, out } = await runTool(streamTools(operator), 'archive', '--to', to, ...asked);
        if (status === 0) {
          const end = SegmentDirectory.open(to).endOf(place);
          t.ok(
            log.some(({ hash }) => end?.hash.equals(hash)),
            'it ends with a batch of the log',
          );
        } else t.match(out, wrong);
        return status !== 0;
      });
      t.ok(isTold);
    }
  });
}

async function assertFollowed(
  t: Test,
  partition: number,
  has: readonly Batch[],
  log: readonly Batch[],
): Promise<void> {
  const temporary = temporaryLog();
  const bytes = has.map((batch) => batch.bytes);
  if (bytes.length > 0) await temporary.log.appendForeign('accounts', partition, bytes);
  const cuts: number[] = [];
  const follower = new LogFollower({
    link: nats,
    log: temporary.log,
    group: 'accounts',
    partition,
    beforeCut: async (batch) => void cuts.push(batch),
  });
  try {
    const { tip } = await follower.reachEnd();
    t.strictSame(tip, tipAt(log.at(-1)!));
    t.strictSame(temporary.log.tip('accounts', partition), tip);
    if (has === log) t.strictSame(cuts, [], 'nothing was cut off');
  } finally {
    await follower.close();
    await temporary.remove();
  }
}

/** As the leader would say where a server that is read at has stopped. */
async function linkToLongerStreams(t: Test): Promise<NatsLink> {
  const liar = await link(servers.url, 'liar', { onProblem: (problem) => problems.push(problem) });
  t.teardown(() => liar.close());
  const { streams } = liar.manager;
  const info = streams.info.bind(streams);
  streams.info = async (name, query) => longer(await info(name, query), 1);
  problems.length = 0;
  return liar;
}

function untilLeft(last: number): Promise<void> {
  const left = new RegExp(
    `has ${last + 1} to ${last + 1} on its leader, and not on n\\d: it is read at another`,
  );
  return waitFor('it is told', 60_000, () => problems.some((each) => left.test(each)));
}

t.test('a server that has less than the leader for good is left for another', async (t) => {
  const { partition, log } = atEnd;
  const sequences: number[] = [];
  const reader = new StreamReader({
    link: await linkToLongerStreams(t),
    stream: logStream('accounts', partition),
    from: 1,
    heartbeatMs: 500,
    onMessage: ({ sequence }) => void sequences.push(sequence),
    onError: (error) => t.fail(error.message),
  });
  t.teardown(() => reader.close());
  await untilLeft(log.length);
  await publish(nats, [batchAfter(tipAt(log.at(-1)!), partition, EPOCH, 'one more')]);
  const all = Array.from({ length: log.length + 1 }, (_, n) => n + 1);
  await waitFor('it reads on', 60_000, () => sequences.length >= all.length);
  t.strictSame(sequences, all, 'each once');
});

t.test('so it is by whoever takes the partition over, sooner', async (t) => {
  const { partition, log } = followed;
  const temporary = temporaryLog();
  t.teardown(() => temporary.remove());
  const liar = await linkToLongerStreams(t);
  const follower = new LogFollower({ link: liar, log: temporary.log, group: 'accounts', partition });
  t.teardown(() => follower.close());
  const reached = follower.reachEnd();
  await untilLeft(log.length);
  const more = batchAfter(tipAt(log.at(-1)!), partition, EPOCH, 'one more');
  await publish(nats, [more]);
  t.strictSame((await reached).tip, tipAt(more));
});
