// The follower of the log that keeps the views: what they reach is said when it is on disk, in bounded portions, and they are
// a function of the log, whatever they were before.

import t, { type Test } from 'tap';
import { Checkpointer, type Pace, type CheckpointStore } from '../../actors/runtime/checkpointer.ts';
import type { Group, PartitionLogic } from '../../actors/runtime/group.ts';
import { DaysMade, type Retention } from '../../actors/runtime/retention.ts';
import { LIMITS } from '../../src/limits.ts';
import { WAL_LIMITS } from '../../wal/limits.ts';
import { commitDurably, openViewsDatabase } from '../../wal/lmdb.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import type { Row } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const BATCH_RECORDS = 500;

/** Keeps each record under its sequence. */
class Keeper implements Pick<PartitionLogic<never, never, unknown>, 'evolve' | 'takeRows' | 'evict'> {
  #rows: Row[] = [];
  readonly evicted: number[] = [];

  evolve(record: unknown, sequence: number): void {
    this.#rows.push({ table: 'line', key: String(sequence).padStart(8, '0'), value: record as string });
  }
  takeRows(): Row[] {
    const rows = this.#rows;
    this.#rows = [];
    return rows;
  }
  evict(sequence: number): void {
    this.evicted.push(sequence);
  }
}

/** A log of so many records, real views, and a checkpointer between them. */
async function following(t: Test, records: number, line = (n: number) => `record ${n}`, keptMs = 0) {
  const directory = temporaryDirectory(t);
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure, batchRecordsMax: BATCH_RECORDS });
  const views = ViewStore.open({ directory });
  t.teardown(async () => {
    await log.close();
    await views.close();
  });
  const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable: () => {} });
  for (let n = 1; n <= records; n++) partition.append(line(n));
  await partition.drained();
  const opened: Keeper[] = [];
  const open = (
    viewsFormat = 1,
    commit: CheckpointStore['commit'] = (...given) => views.commit(...given),
    drop: CheckpointStore['drop'] = (...place) => views.drop(...place),
    pace?: Pace,
  ) => {
    const group = {
      name: 'accounts',
      viewsFormat,
      retention: [
        { table: 'line', keptMs, madeAt: ({ value }) => Number(value.slice(7)), isNeeded: () => false },
      ] satisfies Retention[],
      open: () => {
        const keeper = new Keeper();
        opened.push(keeper);
        return keeper;
      },
      decode: (line: string) => line,
    } as unknown as Group<never, never, unknown>;
    const store: CheckpointStore = {
      position: (...place) => views.position(...place),
      reader: (...place) => views.reader(...place),
      drop,
      commit,
    };
    const read = (name: string, number: number, { batch }: { readonly batch: number }) =>
      log.read(name, number, { afterBatch: batch });
    return new Checkpointer([group], { read }, store, pace);
  };
  const lines = (): string[] => {
    views.refresh();
    const range = views.reader('accounts', 0).range('line', { start: '', end: '~' });
    return Array.from(range, ({ value }) => value);
  };
  /** An empty batch behind the records. */
  const openEpoch = async (): Promise<void> => {
    await log.closePartition(partition);
    await log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} }).drained();
  };
  return { directory, open, opened, openEpoch, views, lines };
}

const noRest = async (): Promise<void> => {};

const upTo = (count: number, from = 1): string[] =>
  Array.from({ length: count - from + 1 }, (_, n) => `record ${n + from}`);

t.test('work may stand still after each batch, and after each commit is handed over', async (t) => {
  const batches = LIMITS.checkpointRecordsPerCommitMax / BATCH_RECORDS + 1;
  const { open } = await following(t, batches * BATCH_RECORDS);
  const told: string[] = [];
  const pace: Pace = { begin: () => told.push('begin'), rest: () => told.push('rest') };
  const checkpointer = open(undefined, undefined, undefined, pace);
  await checkpointer.advance('accounts', 0, batches * BATCH_RECORDS, () => told.push('reached'));
  const rests = (count: number): string[] => Array.from({ length: count }, () => 'rest');
  const first = ['begin', ...rests(batches - 1), 'rest', 'reached'];
  t.strictSame(told, [...first, 'begin', 'rest', 'rest', 'reached']);
});

t.test('it says what is reached, portion by portion, and lets go of that', async (t) => {
  const count = LIMITS.checkpointRecordsPerCommitMax * 2 + BATCH_RECORDS;
  const { open, opened, views, lines } = await following(t, count);
  const reached: number[] = [];
  const checkpointer = open();
  await checkpointer.advance('accounts', 0, count, (sequence) => {
    views.refresh();
    t.equal(views.position('accounts', 0)?.sequence, sequence, 'when it is so');
    reached.push(sequence);
  });
  const portion = LIMITS.checkpointRecordsPerCommitMax;
  t.same(reached, [portion, portion * 2, count]);
  t.same(opened[0]!.evicted, reached);
  t.same(lines(), upTo(count));
  await checkpointer.advance('accounts', 0, count, () => t.fail('nothing is left to reach'));
  await t.rejects(
    checkpointer.advance('accounts', 0, count + 1, () => {}),
    /ends at 6500, before its durable/,
  );
});

t.test('nor does it go round for ever where what a log ends with has no record', async (t) => {
  const { open, openEpoch } = await following(t, 3);
  const checkpointer = open();
  await checkpointer.advance('accounts', 0, 3, () => {});
  await openEpoch();
  await t.rejects(
    checkpointer.advance('accounts', 0, 4, () => t.fail('nothing was reached')),
    /ends at 3, before its durable end 4/,
  );
});

t.test('a portion is bounded in bytes, too: large records make smaller ones', async (t) => {
  const [count, bytesMax] = [400, LIMITS.checkpointBytesPerCommitMax];
  const recordBytes = (4 * bytesMax) / count;
  const { open, opened } = await following(t, count, (n) => String(n).padStart(recordBytes));
  await open().advance('accounts', 0, count, () => {});
  const portions = opened[0]!.evicted.map((sequence, n, all) => sequence - (all[n - 1] ?? 0));
  const most = (bytesMax + WAL_LIMITS.batchBytesMax) / recordBytes;
  t.same(
    portions.filter((records) => records > most),
    [],
  );
  t.ok(portions.length > 2);
});

t.test('it reads no further than it is asked to, and goes on where it was', async (t) => {
  const { open, lines } = await following(t, BATCH_RECORDS * 3);
  const reached: number[] = [];
  const advance = (checkpointer: Checkpointer, sequence: number): Promise<boolean> =>
    checkpointer.advance('accounts', 0, sequence, (at) => reached.push(at));
  const first = open();
  t.notOk(first.follows('accounts', 0));
  await advance(first, BATCH_RECORDS);
  t.ok(first.follows('accounts', 0));
  t.same(lines(), upTo(BATCH_RECORDS));
  await advance(first, BATCH_RECORDS * 2);
  await advance(open(), BATCH_RECORDS * 3);
  t.same(reached, [BATCH_RECORDS, BATCH_RECORDS * 2, BATCH_RECORDS * 3]);
  t.same(lines(), upTo(BATCH_RECORDS * 3));
});

t.test('what others wait for goes first, and the rest is said to be left until it is there', async (t) => {
  const count = LIMITS.checkpointRecordsPerCommitMax * 2;
  const { open, lines } = await following(t, count);
  const checkpointer = open();
  const advance = (mustWait: boolean): Promise<boolean> =>
    checkpointer.advance(
      'accounts',
      0,
      count,
      () => {},
      () => mustWait,
    );
  t.equal(await advance(true), false);
  t.same(lines(), upTo(count / 2));
  t.equal(await advance(true), true);
  t.same(lines(), upTo(count));
  t.equal(await advance(false), true);
});

t.test('nothing is said to be reached while the disk has it not', async (t) => {
  const { open, opened, views } = await following(t, BATCH_RECORDS);
  const { promise, resolve } = Promise.withResolvers<void>();
  const checkpointer = open(1, async (...given) => {
    if (given[2].sequence > 0) await promise;
    await views.commit(...given);
  });
  let reached = 0;
  const advancing = checkpointer.advance('accounts', 0, BATCH_RECORDS, (sequence) => {
    reached = sequence;
  });
  while (opened.length === 0) await new Promise((next) => setImmediate(next));
  for (let n = 0; n < 20; n++) await new Promise((next) => setImmediate(next));
  t.equal(reached, 0);
  t.same(opened[0]!.evicted, [BATCH_RECORDS], 'and nothing of it is held on to meanwhile');
  resolve();
  await advancing;
  t.equal(reached, BATCH_RECORDS);
});

t.test('after a commit that failed, it is followed anew from what the views have', async (t) => {
  const { open, opened, views, lines } = await following(t, BATCH_RECORDS * 2);
  let fails = false;
  const checkpointer = open(1, (...given) => {
    return fails ? Promise.reject(new Error('the disk is full')) : views.commit(...given);
  });
  await checkpointer.advance('accounts', 0, BATCH_RECORDS, () => {});
  fails = true;
  const onReached = (): void => void t.fail('nothing was reached');
  await t.rejects(checkpointer.advance('accounts', 0, BATCH_RECORDS * 2, onReached), /the disk is full/);
  t.notOk(checkpointer.follows('accounts', 0));
  fails = false;
  await checkpointer.advance('accounts', 0, BATCH_RECORDS * 2, () => {});
  t.equal(opened.length, 2);
  t.same(lines(), upTo(BATCH_RECORDS * 2));
});

t.test('a partition that is let go of is followed no further', async (t) => {
  const count = LIMITS.checkpointRecordsPerCommitMax * 3;
  const { open, lines } = await following(t, count);
  const checkpointer = open();
  const release = (): void => checkpointer.release('accounts', 0);
  t.equal(await checkpointer.advance('accounts', 0, count, release), true, 'no rest is left to come back to');
  t.equal(lines().length, LIMITS.checkpointRecordsPerCommitMax);
  t.notOk(checkpointer.follows('accounts', 0));
});

t.test('views of another format are made anew from the log', async (t) => {
  const { open, views, lines } = await following(t, BATCH_RECORDS);
  await open(1).advance('accounts', 0, BATCH_RECORDS, () => {});
  const stale = { table: 'line', key: 'stale', value: 'of format 1' };
  await views.commit('accounts', 0, views.position('accounts', 0)!, [stale]);
  await open(1).advance('accounts', 0, BATCH_RECORDS, () => t.fail('the same format is kept'));
  t.equal(lines().at(-1), 'of format 1');
  await open(2).advance('accounts', 0, BATCH_RECORDS, () => {});
  t.same(lines(), upTo(BATCH_RECORDS));
});

t.test(
  'views whose removal a crash cut short are made anew: nothing of what was removed stays',
  async (t) => {
    const { directory, open, views, lines } = await following(t, BATCH_RECORDS);
    await open().advance('accounts', 0, BATCH_RECORDS, () => {});
    const gone = { table: 'line', key: 'stale', value: 'of a batch that was cut off the log' };
    await views.commit('accounts', 0, views.position('accounts', 0)!, [gone]);
    // The first step of a removal, and no more of it.
    const database = openViewsDatabase({ directory });
    await commitDurably(database, [{ key: 'accounts/0', value: null }]);
    await database.close();
    views.refresh();
    await open().advance('accounts', 0, BATCH_RECORDS, () => {});
    t.same(lines(), upTo(BATCH_RECORDS));
  },
);

t.test('a partition that is let go of while its views are removed is not followed', async (t) => {
  const { open, opened, views } = await following(t, BATCH_RECORDS);
  const { promise, resolve } = Promise.withResolvers<void>();
  const checkpointer = open(1, undefined, async (...place) => {
    await promise;
    await views.drop(...place);
  });
  const advancing = checkpointer.advance('accounts', 0, BATCH_RECORDS, () => t.fail('nothing is reached'));
  checkpointer.release('accounts', 0);
  resolve();
  await advancing;
  t.notOk(checkpointer.follows('accounts', 0));
  const reached: number[] = [];
  await checkpointer.advance('accounts', 0, BATCH_RECORDS, (sequence) => reached.push(sequence));
  t.same(reached, [BATCH_RECORDS]);
  t.equal(opened.at(-1)?.evicted.length, 1, 'followed anew afterwards');
});

t.test('rows whose time is over go, all of them, and no others', async (t) => {
  const count = LIMITS.retentionRowsPerCommitMax * 2 + 10;
  const { open, lines, views } = await following(t, count);
  let commits = 0;
  const checkpointer = open(1, (...given) => {
    commits++;
    return views.commit(...given);
  });
  await checkpointer.sweep('accounts', 0, count, noRest);
  await checkpointer.advance('accounts', 0, count, () => {});
  const position = views.position('accounts', 0);
  commits = 0;
  await checkpointer.sweep('accounts', 0, 1, noRest);
  t.equal(commits, 0, 'nothing is written for none');
  await checkpointer.sweep('accounts', 0, 2, noRest);
  t.same(lines(), upTo(count, 2), 'nor does one stay for being alone');
  t.equal(commits, 1);
  await checkpointer.sweep('accounts', 0, 6, noRest);
  t.same(lines(), upTo(count, 6));
  const rest = async (): Promise<void> => checkpointer.release('accounts', 1);
  await checkpointer.sweep('accounts', 0, count - 4, rest);
  t.same(lines(), upTo(count, count - 4), 'whichever others are let go of meanwhile');
  t.same(views.position('accounts', 0), position);
});

t.test(
  'a partition that is let go of while rows whose time is over go is not written any more',
  async (t) => {
    const portion = LIMITS.retentionRowsPerCommitMax;
    const { open, lines, views } = await following(t, 2 * portion);
    await open().advance('accounts', 0, 2 * portion, () => {});
    const checkpointer = open(1, (...given) => {
      checkpointer.release('accounts', 0);
      return views.commit(...given);
    });
    await checkpointer.sweep('accounts', 0, 2 * portion + 1, noRest);
    t.same(lines(), upTo(2 * portion, portion + 1));
  },
);

t.test('nor is it read any more while the days are found on which its rows were made', async (t) => {
  const DAY = 86_400_000;
  const count = 2 * LIMITS.retentionRowsPerCommitMax;
  const { open, lines } = await following(t, count, undefined, DAY);
  const checkpointer = open();
  await checkpointer.advance('accounts', 0, count, () => {});
  let rests = 0;
  await checkpointer.sweep('accounts', 0, 9 * DAY, async () => {
    rests++;
    checkpointer.release('accounts', 0);
  });
  t.equal(rests, 1);
  t.equal(lines().length, count);
});

t.test('the clock is believed where rows were made on as many days, however many on one of them', (t) => {
  const DAY = 86_400_000;
  const now = 100 * DAY + 1;
  const retention: Retention = { table: 'line', keptMs: 3 * DAY, madeAt: () => 0, isNeeded: () => false };
  for (const [made, areEnough, keptFrom] of [
    [[], false, -Infinity],
    [[100, 100, 100, 100], false, -Infinity],
    [[100, 100, 99, 99], false, -Infinity],
    [[100, 98, 99], true, now - 3 * DAY],
    // The oldest of these is over in part.
    [[97, 98, 99], false, 97 * DAY],
    [[50, 50, 51, 52], false, 50 * DAY],
    [[49, 40, 100, 50, 50], false, 49 * DAY],
  ] as const) {
    const days = new DaysMade(retention, now);
    for (const day of made) days.add(day * DAY);
    t.strictSame([days.areEnough, days.keptFrom], [areEnough, keptFrom], made.join());
  }
  t.end();
});
