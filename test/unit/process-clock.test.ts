// Time in the process: whatever happens to the machine's clock, nothing that is due is lost, and nothing waits much longer
// than it should.

import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { encodeOpen, openKey } from '../../actors/accounts/rows.ts';
import { Timers } from '../../actors/accounts/timers.ts';
import { PartitionClock } from '../../actors/runtime/fresh-id.ts';
import { LIMITS } from '../../src/limits.ts';
import { createProcessClock } from '../../src/process-clock.ts';
import { Jobs } from '../../src/jobs.ts';
import type { Views } from '../../wal/types.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

const START = 1_772_357_400_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const { clockPaceMax, clockPaceMin, clockStepMsMax } = LIMITS;

/** A machine whose clocks the test moves. */
function machine() {
  const state = { wall: START, monotonic: 0 };
  const clock = createProcessClock({ wall: () => state.wall, monotonic: () => state.monotonic });
  const pass = (elapsedMs: number): number => {
    state.wall += elapsedMs;
    state.monotonic += elapsedMs;
    return clock();
  };
  /** A tick's length at a time, as the service reads it. */
  const passSlowly = (elapsedMs: number, stepMs = 1_000): number => {
    for (let left = elapsedMs; left > 0; left -= stepMs) pass(Math.min(left, stepMs));
    return clock();
  };
  return { state, clock, pass, passSlowly };
}

const steps = fc.array(
  fc.record({
    elapsedMs: fc.oneof(fc.double({ min: 0, max: 100, noNaN: true }), fc.integer({ min: 0, max: 3 * HOUR })),
    jumpMs: fc.oneof(
      { weight: 4, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: -30 * HOUR, max: 30 * HOUR }) },
    ),
  }),
  { maxLength: 200 },
);

void t.test('it never falls, never stands still, and never leaves its pace for the wall clock', (t) => {
  fc.assert(
    fc.property(steps, (taken) => {
      const { state, clock, pass } = machine();
      let last = clock();
      return taken.every(({ elapsedMs, jumpMs }) => {
        state.wall += jumpMs;
        const wasAt = last;
        last = pass(elapsedMs);
        // A reading is in whole milliseconds: one may be lost to each end.
        const least = wasAt + Math.min(elapsedMs * clockPaceMin, clockStepMsMax) - 1;
        const most = wasAt + Math.min(elapsedMs * clockPaceMax, clockStepMsMax) + 1;
        const isInReach = state.wall > least + 1 && state.wall < most - 1;
        return (
          last >= wasAt && last >= least && last <= most && (!isInReach || last === Math.floor(state.wall))
        );
      });
    }),
    { seed: SEED, numRuns: 500 },
  );
  t.end();
});

void t.test('while nothing happens to it, it is the wall clock', (t) => {
  const { state, pass } = machine();
  for (let i = 0; i < 1_000; i++) t.equal(pass(0.37), Math.floor(state.wall));
  t.end();
});

void t.test('set back an hour: a wait of half an hour is as good as that, and in a day it is right', (t) => {
  const { state, clock, passSlowly } = machine();
  const due = clock() + 30 * MINUTE;
  state.wall -= HOUR;
  t.ok(passSlowly(29 * MINUTE) < due);
  t.ok(passSlowly(3 * MINUTE) >= due);
  t.equal(passSlowly(20 * HOUR), state.wall);
  t.end();
});

void t.test(
  'set forward a day and set right within ten minutes: half an hour is all that is booked ahead',
  (t) => {
    const { state, clock, passSlowly } = machine();
    state.wall += 24 * HOUR;
    passSlowly(10 * MINUTE);
    state.wall -= 24 * HOUR;
    t.equal(clock() - state.wall, 30 * MINUTE);
    t.end();
  },
);

void t.test('a process that did not run goes on where it was, and catches up', (t) => {
  const { state, clock, pass, passSlowly } = machine();
  t.equal(pass(3 * HOUR), START + clockStepMsMax);
  t.equal(clock(), START + clockStepMsMax, 'time moves with time, not with readings');
  t.equal(passSlowly(HOUR), state.wall);
  t.end();
});

// --- Timers ------------------------------------------------------------------------------------------------------------

const ACCOUNT = `acc_${'0'.repeat(26)}`;
/** From a record to its row in the views: far more than it takes. */
const CHECKPOINT_MS = 60_000;

interface Life {
  /** The wall clock is set forward by this, at this real time. */
  readonly jumpMs: number;
  readonly jumpAt: number;
  readonly releases: readonly { readonly createdAt: number; readonly afterMs: number }[];
}

/** Real times and durations; ends when everything would have been released twice over. The ids that were never raised. */
function lostOf({ jumpMs, jumpAt, releases }: Life, isProcessClock: boolean): string[] {
  const state = { wall: START, monotonic: 0 };
  const sources = { wall: () => state.wall, monotonic: () => state.monotonic };
  const clock = isProcessClock ? createProcessClock(sources) : sources.wall;
  const partition = new PartitionClock(clock, 0);
  const rows: { readonly key: string; readonly value: string; readonly from: number }[] = [];
  const views: Views = {
    get: () => undefined,
    range: (table, { start, limit = Infinity }) => {
      if (table !== 'timer') return [];
      return rows
        .filter(({ key, from }) => from <= state.monotonic && key >= start)
        .toSorted((a, b) => (a.key < b.key ? -1 : 1))
        .slice(0, limit);
    },
  };
  const timers = new Timers(views);
  const open = new Set<string>();
  const toCreate = releases.toSorted((a, b) => b.createdAt - a.createdAt);
  const stepMs = 5_000;
  let latestDue = 0;
  while (toCreate.length > 0 || partition.now() <= latestDue + 2 * LIMITS.timerScanEveryMs.timer) {
    state.wall += stepMs;
    state.monotonic += stepMs;
    if (state.monotonic - stepMs < jumpAt && state.monotonic >= jumpAt) state.wall += jumpMs;
    while (toCreate.length > 0 && toCreate.at(-1)!.createdAt <= state.monotonic) {
      const { afterMs } = toCreate.pop()!;
      const { now, freshBody } = partition.tick(1);
      const id = `chg_${freshBody}`;
      const dueAt = now + afterMs;
      latestDue = Math.max(latestDue, dueAt);
      open.add(id);
      rows.push({
        key: openKey(ACCOUNT, id),
        value: encodeOpen({ accountId: ACCOUNT, id, kind: 'release', bucket: '------', dueAt }),
        from: state.monotonic + CHECKPOINT_MS,
      });
      const succeeded = { providerStatus: null, providerTransactionId: null, releaseAt: dueAt } as const;
      timers.follow({
        accountId: ACCOUNT,
        at: now,
        events: [{ type: 'TransactionSucceeded', id, source: 'PROVIDER_POLL', ...succeeded }],
      });
    }
    const now = partition.now();
    for (const command of timers.takeDue(now, LIMITS.timersPerTickMax, (_kind, _account, id) =>
      open.has(id),
    )) {
      if (command.type === 'ReleaseCharge') open.delete(command.transactionId);
    }
  }
  return [...open];
}

void t.test('a jump forward passes no timer over, wherever the jump and the timer are', (t) => {
  const life = fc.record({
    jumpMs: fc.integer({ min: 0, max: 50 * HOUR }),
    jumpAt: fc.integer({ min: 0, max: 2 * HOUR }),
    releases: fc.array(
      fc.record({
        createdAt: fc.integer({ min: 0, max: 2 * HOUR }),
        afterMs: fc.integer({ min: 0, max: 26 * HOUR }),
      }),
      { minLength: 1, maxLength: 20 },
    ),
  });
  fc.assert(
    fc.property(life, (one) => lostOf(one, true).length === 0),
    { seed: SEED, numRuns: 25 },
  );
  t.end();
});

void t.test(
  'the wall clock itself would: its row comes into the views when its window has been read',
  (t) => {
    const life = {
      jumpMs: 3 * HOUR,
      jumpAt: HOUR,
      releases: [{ createdAt: HOUR - 10_000, afterMs: 150 * MINUTE }],
    };
    t.equal(lostOf(life, false).length, 1, 'which is what this clock is for');
    t.same(lostOf(life, true), []);
    t.end();
  },
);

// --- A partition whose log is ahead ---------------------------------------------------------------------------------------

void t.test(
  'a partition whose log is an hour ahead runs on from there, until the clock is there too',
  (t) => {
    const { state, clock, passSlowly } = machine();
    const partition = new PartitionClock(clock, START + HOUR);
    t.equal(partition.now(), START + HOUR);
    const due = START + HOUR + 30 * MINUTE;
    const read = (elapsedMs: number): number => {
      for (let left = elapsedMs; left > 0; left -= 1_000) {
        passSlowly(Math.min(left, 1_000));
        partition.now();
      }
      return partition.now();
    };
    t.ok(read(29 * MINUTE) < due);
    t.ok(read(3 * MINUTE) >= due);
    t.equal(read(20 * HOUR), state.wall);
    t.end();
  },
);

void t.test('it runs on by parts of a millisecond, too: however often it is read', (t) => {
  let wall = START;
  const partition = new PartitionClock(() => wall, START + HOUR);
  for (let i = 0; i < 10_000; i++) {
    wall++;
    partition.tick(1);
  }
  const ranMs = partition.now() - START - HOUR;
  t.ok(Math.abs(ranMs - 10_000 * clockPaceMin) <= 1, `${ranMs} ms`);
  t.end();
});

const RealDate = globalThis.Date;

/** What the machine's clock says when it was set by so much. */
function dateSet(byMs: number): DateConstructor {
  return class extends RealDate {
    constructor(time?: number) {
      super(time ?? RealDate.now() + byMs);
    }
    static override now(): number {
      return RealDate.now() + byMs;
    }
  } as DateConstructor;
}

/** Whose time passes by `mock.timers` alone, until the test ends. */
function jobsByHand(t: Test): Jobs {
  mock.timers.enable({ apis: ['setInterval'] });
  const jobs = new Jobs();
  t.teardown(() => {
    jobs.stop();
    globalThis.Date = RealDate;
    mock.timers.reset();
  });
  return jobs;
}

void t.test('what runs every second runs on when the clock is set back', async (t) => {
  const jobs = new Jobs();
  let runs = 0;
  let awaited = { count: 1, resolve: (): void => {} };
  jobs.everySecond(() => {
    if (++runs >= awaited.count) awaited.resolve();
  });
  t.teardown(() => {
    globalThis.Date = RealDate;
    jobs.stop();
  });
  const reach = (count: number): Promise<void> =>
    new Promise((resolve) => {
      awaited = { count, resolve };
    });
  await reach(1);
  globalThis.Date = dateSet(-HOUR);
  await reach(3);
  t.pass('it ran twice more');
});

void t.test('a clock that is set forward by weeks is not gone through minute by minute', async (t) => {
  const jobs = jobsByHand(t);
  const { promise, resolve: end } = Promise.withResolvers<void>();
  let minutes = 0;
  jobs.everyMinute(() => {
    minutes++;
    return promise;
  });
  globalThis.Date = dateSet(21 * 24 * HOUR);
  mock.timers.tick(MINUTE);
  await setImmediate();
  mock.timers.tick(MINUTE);
  t.equal(minutes, 1, 'not again while the last run goes on');
  end();
  await setImmediate();
  mock.timers.tick(MINUTE);
  t.equal(minutes, 2);
});

void t.test('what runs once a day runs at night, once, wherever the clock is set', async (t) => {
  const jobs = jobsByHand(t);
  const today = new RealDate();
  const on = (day: number, ...time: number[]): number => {
    return new RealDate(today.getFullYear(), today.getMonth(), today.getDate() + day, ...time).getTime();
  };
  let runs = 0;
  const minuteAt = async (time: number): Promise<number> => {
    globalThis.Date = dateSet(time - RealDate.now());
    mock.timers.tick(MINUTE);
    await setImmediate();
    return runs;
  };
  globalThis.Date = dateSet(on(0, 12) - RealDate.now());
  jobs.everyDay(async () => {
    runs++;
  });
  t.equal(await minuteAt(on(1, 3, 16, 50)), 0, 'not before');
  t.equal(await minuteAt(on(1, 3, 17, 5)), 1);
  t.equal(await minuteAt(on(1, 3, 18, 5)), 1, 'once');
  t.equal(await minuteAt(on(2, 4, 10)), 2, 'late, where the clock was set forward');
  t.equal(await minuteAt(on(3, 9)), 2, 'not a night that nobody saw');
  t.equal(await minuteAt(on(30, 9)), 2, 'nor all those of weeks');
  t.equal(await minuteAt(on(1, 2)), 2, 'nor when it is set back');
  t.equal(await minuteAt(on(1, 3, 17)), 3, 'the next one counts again');
});
