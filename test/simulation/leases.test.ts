// Random weather over the leases of three nodes: whatever stands still, is cut off, dies, leaves or comes back, and however late
// a write is answered, no two nodes say at one moment that they hold a partition, no epoch is given twice, and when the
// weather is over each partition is held by the node that should have it.

import t, { type Test } from 'tap';
import { NotSoon } from '../../src/bus/ownership.ts';
import { LIMITS } from '../../src/limits.ts';
import { rankNodes } from '../../src/nats/leases/rendezvous.ts';
import { PARTITIONS, World } from './leases-world.ts';
import type { Node } from './leases-world.ts';
import { randomFrom, seedOf } from '../seed.ts';

const SEED = seedOf(t);

const RUNS = 40;
/** With a second holder once: an answer came late, the end of a lease was not heard of. */
const FOUND = [700_002, 801_868];
/** The same: a living session was ended, or its lease claimed, by a node that had not heard of it since the bucket was purged before; or the
 *  node itself had not. */
const FOUND_AGAIN = [8, 163, 1_613, 90_040, 90_114, 90_427];
/** With a lease that was free before its node had said why it gives it back. */
const FOUND_UNSAID = [1_385, 1_392];
const NAMES = ['a', 'b', 'c'];
const STORMY_MS = 60_000;
/** Longer than a node waits that leaves in vain, and then comes back. */
const FAIR_MS = 50_000;
/** Longer than the last two answers that were lost in a row cost a node its session, and it is itself again. */
const CALM_MS = 15_000;

t.test('one holder at any time, and in the end the one that should be', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const seed = SEED + run;
    const world = new World(randomFrom(seed));
    for (const name of NAMES) world.at(world.between(0, 3_000), null, () => world.join(name));
    storm(world);
    await world.until(STORMY_MS + FAIR_MS);
    await settle(world);
    const held = everywhere((partition) => world.holders(partition));
    const due = everywhere((partition) => rankNodes(NAMES, 'accounts', partition).slice(0, 1));
    const moves = world.moves;
    await world.until(world.now + 10_000);
    t.strictSame(
      [world.wrong.slice(0, 3), held, world.moves - moves],
      [[], due, 0],
      `and then nothing moves, SEED=${seed}`,
    );
    const kept = NAMES.map((name) => {
      const { followed } = world.nodes.findLast((node) => node.name === name)!;
      return everywhere((partition) => followed.has(partition));
    });
    const next = NAMES.map((name) => {
      return everywhere((partition) => rankNodes(NAMES, 'accounts', partition)[1] === name);
    });
    t.strictSame(kept, next, `copies are kept by who is next in line, SEED=${seed}`);
    const rivals = world.nodes.flatMap(({ problems }) =>
      problems.filter((each) => each.includes('another process')),
    );
    t.strictSame(rivals, [], `nobody takes itself for another, SEED=${seed}`);
  }
});

t.test(
  'what all nodes were cut off from moves nothing: their own silence proves none of the others',
  async (t) => {
    for (let run = 0; run < RUNS; run++) {
      const seed = SEED + run;
      const world = new World(randomFrom(seed));
      for (const name of NAMES) world.join(name);
      await world.until(19_000);
      // Whoever waits for a lost answer, or a slow one, is silent for longer than the cut, and that does prove something.
      world.isCalm = true;
      await world.until(world.now + CALM_MS);
      const epochs = (): number[][] =>
        world.nodes.map(({ ownership }) => everywhere((p) => ownership.epoch('accounts', p)));
      const before = epochs();
      const back = world.now + 2_500 + world.random() * 6_000;
      for (const node of world.nodes) node.isCutUntil = back + world.between(0, 300);
      await world.until(world.now + 20_000);
      t.strictSame(epochs(), before, `SEED=${seed}`);
    }
  },
);

t.test('a bucket that is purged in any weather makes no second holder, and is filled again', async (t) => {
  for (const seed of [...FOUND, ...Array.from({ length: RUNS / 2 }, (_, run) => SEED + run)]) {
    const world = new World(randomFrom(seed));
    for (const name of NAMES) world.join(name);
    clouds(world, [0.4, 0.8]);
    // By hand: longer apart than anybody hears nothing of what was said since.
    const purge = (): void => {
      if (world.nodes.some((node) => node.hasYetToHear)) world.at(world.now + 100, null, purge);
      else world.purge();
    };
    for (let at = 12_000; at < STORMY_MS; at += 9_000 + world.random() * 4_000) world.at(at, null, purge);
    await clears(t, world, seed);
  }
});

t.test('nor does one that is purged again while nobody hears what was said since', async (t) => {
  for (const seed of [...FOUND_AGAIN, ...Array.from({ length: RUNS / 2 }, (_, run) => SEED + run)]) {
    const world = new World(randomFrom(seed));
    for (const name of NAMES) world.join(name);
    clouds(world, [0.15, 0.3]);
    for (let at = 12_000; at < STORMY_MS; at += 1_500 + world.random() * 9_000) {
      world.at(at, null, () => world.purge());
    }
    await clears(t, world, seed);
  }
});

/** In the way of some node every few seconds: it stands still, is cut off, or else hears nothing. Nobody begins: who does so before a
 *  purged bucket is filled again takes partitions from their owners. */
function clouds(world: World, [still, cut]: readonly [number, number]): void {
  for (let at = 10_000; at < STORMY_MS; at += world.between(100, 8_000)) {
    world.at(at, null, () => {
      const node = world.nodes[Math.floor(world.random() * world.nodes.length)]!;
      const until = world.now + world.between(100, 8_000);
      const kind = world.random();
      if (kind < still) node.standsStillUntil = until;
      else if (kind < cut) node.isCutUntil = until;
      else node.isDeafUntil = until;
    });
  }
}

/** Who could not open a log time and again, by chance, comes last for a while. */
async function settle(world: World): Promise<void> {
  world.isCalm = true;
  await world.until(world.now + CALM_MS);
  const isFailing = world.nodes.some(({ name, nodes }) => nodes.get(name)?.value.failing !== undefined);
  if (isFailing) await world.until(world.now + LIMITS.takeOverFailingMs);
}

async function clears(t: Test, world: World, seed: number): Promise<void> {
  await world.until(STORMY_MS + FAIR_MS);
  await settle(world);
  const held = everywhere((partition) => world.holders(partition));
  const due = everywhere((partition) => rankNodes(NAMES, 'accounts', partition).slice(0, 1));
  const wrong = world.wrong.filter((each) => !each.includes('second time'));
  t.strictSame([wrong.slice(0, 3), held], [[], due], `SEED=${seed}`);
}

t.test('what was claimed when its holder did not say it again is not freed by that one later', async (t) => {
  for (let afterMs = 0; afterMs < LIMITS.leaseRenewMs; afterMs += 50) {
    const world = new World(randomFrom(SEED));
    world.isCalm = true;
    const [a, b] = [world.join('a'), world.join('b')];
    await world.until(10_000);
    const ofA = [...a.serving];
    t.ok(ofA.length > 0);
    a.isGone = true;
    await world.until(20_000);
    const again = world.join('a');
    again.preparesUntil = 30_500;
    await world.until(30_000);
    t.equal(b.ownership.heldCount, PARTITIONS);
    world.purge();
    b.losesLeasesUntil = 33_000;
    await world.until(30_600);
    b.isDeafUntil = 40_000;
    await world.until(34_500 + afterMs);
    t.strictSame(again.serving, new Set(ofA), 'they were free');
    world.purge();
    await world.until(50_000);
    t.strictSame([world.wrong, again.serving], [[], new Set(ofA)]);
  }
});

t.test('a session is said to be ended by the node that ended it, and once', async (t) => {
  const world = new World(randomFrom(SEED));
  const [a, b] = [world.join('a'), world.join('b')];
  const endings = (): string[] => {
    return world.nodes.flatMap(({ problems }) => problems.filter((problem) => problem.includes('is ended')));
  };
  world.isCalm = true;
  await world.until(20_000);
  a.isDeafUntil = 30_000;
  await world.until(40_000);
  t.strictSame(endings(), [], 'not of one that renews it, by one that hears late');
  b.isGone = true;
  await world.until(50_000);
  t.strictSame(endings(), [`node b was silent for ${LIMITS.leaseMs} ms: its session is ended`]);
});

t.test(
  'a node that joins has a warm copy of what is handed over to it, and one that leaves waits for that',
  async (t) => {
    const world = new World(randomFrom(SEED));
    const a = world.join('a');
    await world.until(10_000);
    const b = world.join('b');
    await world.until(20_000);
    t.ok(a.ownership.heldCount > 0);
    t.ok(b.ownership.heldCount > 0);
    t.equal(a.ownership.heldCount + b.ownership.heldCount, PARTITIONS);
    world.at(world.now, a, () => void a.ownership.drain());
    // Also what could not be opened at first.
    await world.until(45_000);
    t.equal(b.ownership.heldCount, PARTITIONS);
    t.strictSame(b.unprepared, []);
  },
);

t.test('a node that leaves alone has let go of what it was just taking over', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const seed = SEED + run;
    const world = new World(randomFrom(seed));
    const a = world.join('a');
    // Somewhere in its first take-overs, or before them.
    await world.until(world.between(0, 1_000));
    let left: { readonly at: number; readonly open: number; readonly acquired: number } | null = null;
    const { now } = world;
    world.at(now, a, () => {
      void a.ownership.drain().then(() => {
        left = { at: world.now, open: a.openCount, acquired: a.acquisitions.length };
      });
    });
    await world.until(now + LIMITS.drainMs * 2);
    t.hasStrict(left, { open: 0, acquired: a.acquisitions.length }, `SEED=${seed}`);
    t.ok(left!.at - now < LIMITS.drainMs / 2, `after ${left!.at - now} ms, SEED=${seed}`);
  }
});

t.test('a node that leaves waits for nothing that it is only preparing', async (t) => {
  const world = new World(randomFrom(SEED));
  world.join('a');
  await world.until(10_000);
  const b = world.join('b');
  b.preparesUntil = 200_000;
  await world.until(20_000);
  t.ok(b.followed.size > 0, 'it is at it');
  let leftAt = Infinity;
  world.at(world.now, b, () => void b.ownership.drain().then(() => (leftAt = world.now)));
  await world.until(20_000 + LIMITS.drainMs / 2);
  t.ok(leftAt < Infinity);
});

t.test('what was asked for in a life before is not handed to a node that has begun anew', async (t) => {
  const world = new World(randomFrom(SEED));
  world.join('a');
  await world.until(10_000);
  const b = world.join('b');
  await world.until(20_000);
  const due = b.ownership.heldCount;
  t.ok(due > 0);
  b.isGone = true;
  await world.until(30_000);
  t.equal(world.nodes[0]!.ownership.heldCount, PARTITIONS);
  const again = world.join('b');
  await world.until(45_000);
  t.equal(again.ownership.heldCount, due);
  t.strictSame(again.unprepared, [], 'its own copy is warm first');
});

t.test('a node that begins anew while it asks for what it should have asks again', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const seed = SEED + run;
    const world = new World(randomFrom(seed));
    world.isCalm = true;
    world.join('a');
    await world.until(10_000);
    const b = world.join('b');
    // While it prepares what it should have it is cut off for as long as its session lives. It has its copies when it is back, and
    // all is slow for a while: what it asks for then, too.
    const cutAt = world.now + LIMITS.leaseRenewMs * 3;
    const backAt = cutAt + LIMITS.leaseMs + LIMITS.leaseRenewMs * 2;
    b.preparesUntil = backAt + 100;
    await world.until(cutAt);
    b.isCutUntil = backAt;
    b.isSlowUntil = backAt + 3_000;
    await world.until(40_000);
    const isSettled = world.as(b, () => b.ownership.isSettled);
    t.strictSame([world.wrong, isSettled], [[], true], `SEED=${seed}`);
  }
});

t.test(
  'a lease that stands on a node that serves nothing under it goes to the one that should',
  async (t) => {
    const world = new World(randomFrom(SEED));
    // Otherwise a session may be in doubt for the moment in which is asked who holds it.
    world.isCalm = true;
    const [a, b] = [world.join('a'), world.join('b')];
    await world.until(20_000);
    const partition = everywhere((each) => each).find((each) => world.holders(each)[0] === 'b')!;
    const key = `accounts.${partition}`;
    // As if an old claim of it were written after all, and its answer lost.
    const { session } = a.nodes.get('a')!.value;
    const { value, revision } = a.leases.get(key)!;
    t.ok(world.put(`lease.${key}`, { node: 'a', session, epoch: value.epoch + 1 }, revision));
    await world.until(30_000);
    t.strictSame([world.wrong, world.holders(partition)], [[], ['b']]);
    b.isGone = true;
    await world.until(45_000);
    t.equal(a.ownership.heldCount, PARTITIONS, 'and comes back where that one dies');
  },
);

t.test('what is open only when the session that claimed it has ended is not served', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const a = world.join('a');
  a.acquiresUntil = 12_000;
  await world.until(2_000);
  t.equal(a.acquisitions.length, PARTITIONS);
  const b = world.join('b');
  // Nor has the next owner opened it by then, whose epoch the log would refuse this one for.
  b.acquiresUntil = 15_000;
  a.isCutUntil = 10_000;
  await world.until(11_900);
  t.equal(b.acquisitions.length, PARTITIONS);
  t.ok(
    world.as(a, () => a.ownership.isSessionValid()),
    'it has begun anew',
  );
  await world.until(40_000);
  t.strictSame(world.wrong, []);
  t.equal(a.ownership.heldCount + b.ownership.heldCount, PARTITIONS);
});

t.test('a copy that is found to be damaged while it is taken over is not served', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const a = world.join('a');
  a.acquiresUntil = 5_000;
  await world.until(3_000);
  a.damaged.add(0);
  world.at(world.now, a, () => void a.ownership.refuse('accounts', 0));
  await world.until(10_000);
  t.strictSame(a.serving, new Set([1, 2, 3]));
  t.equal(a.lease('accounts', 0)?.value.node, null, 'another may have it at once');
});

t.test('nor is one that is found to be damaged while it is served: another has it at once', async (t) => {
  for (const seed of [SEED, ...FOUND_UNSAID]) {
    const world = new World(randomFrom(seed));
    world.isCalm = true;
    const [a, b] = [world.join('a'), world.join('b')];
    await world.until(20_000);
    const [damaged = -1, ...whole] = a.serving;
    t.ok(damaged >= 0);
    a.damaged.add(damaged);
    world.at(world.now, a, () => void a.ownership.refuse('accounts', damaged));
    // Not the time of a lease, nor a hand-over of what nobody should read.
    await world.until(world.now + LIMITS.leaseMs / 2);
    t.strictSame([a.serving, world.holders(damaged)], [new Set(whole), ['b']]);
    await world.until(60_000);
    t.strictSame(
      [world.wrong, a.serving, b.ownership.heldCount],
      [[], new Set(whole), PARTITIONS - whole.length],
    );
  }
});

t.test(
  'of a lease that was removed the claim after a refused one is above the log, and leaves its owner the time of a lease',
  async (t) => {
    const world = new World(randomFrom(SEED));
    world.isCalm = true;
    world.epochs.set(0, 7);
    const a = world.join('a');
    await world.until(LIMITS.leaseMs * 3);
    const of0 = a.acquisitions.filter(({ partition }) => partition === 0);
    t.strictSame([of0[0]?.epoch, of0[1]?.epoch], [1, 8]);
    t.ok(of0[1]!.at - of0[0]!.at >= LIMITS.leaseMs, 'which this node may never have heard of');
    t.equal(a.ownership.heldCount, PARTITIONS);
  },
);

t.test('a log that cannot be opened is tried again, not without end in one breath', async (t) => {
  for (const [brokenBy, retryMs] of [
    [Error, LIMITS.takeOverRetryMs],
    [NotSoon, LIMITS.unprovenRetryMs],
  ] as const) {
    const world = new World(randomFrom(SEED));
    const a = world.join('a');
    a.isBroken = true;
    a.brokenBy = brokenBy;
    await world.until(retryMs * 8);
    t.equal(a.ownership.heldCount, 0);
    const times = a.acquisitions.filter(({ partition }) => partition === 0).map(({ at }) => at);
    t.ok(times.length > 2);
    const pauses = times.slice(1).map((at, index) => at - times[index]!);
    t.ok(Math.min(...pauses) >= retryMs, `after ${pauses.map(Math.round).join(', ')} ms`);
    a.isBroken = false;
    await world.until(retryMs * 8 + 20_000);
    t.strictSame([world.wrong, a.ownership.heldCount], [[], PARTITIONS]);
  }
});

t.test('what a lease says of its log outlasts each claim, in vain or not, and each return', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const entry = { node: null, session: null, epoch: 4 };
  world.put('lease.accounts.0', { ...entry, hasBegun: true }, 0);
  // Such a log the real host does not open: what was read of a lease would be gone with the claim that finds it out.
  world.put('lease.accounts.1', { ...entry, puttingBack: 'end' }, 0);
  const a = world.join('a');
  const said = (): unknown[] =>
    [0, 1].map((partition) => {
      const { hasBegun = false, puttingBack } = a.lease('accounts', partition)!.value;
      return [hasBegun, puttingBack];
    });
  a.isBroken = true;
  await world.until(20_000);
  t.ok(a.acquisitions.length > PARTITIONS);
  t.strictSame(said(), [
    [true, undefined],
    [false, 'end'],
  ]);
  a.isBroken = false;
  await world.until(40_000);
  t.strictSame(said(), [
    [true, undefined],
    [true, 'end'],
  ]);
  t.strictSame(a.servedUnsaid, [], 'that a log has begun stands there before anything is decided in it');
  world.at(world.now, a, () => void a.ownership.drain());
  await world.until(60_000);
  t.strictSame(said(), [
    [true, undefined],
    [true, 'end'],
  ]);
});

t.test('who cannot prove its logs lets others have them, and has them back when it can', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const a = world.join('a');
  const b = world.join('b');
  await world.until(10_000);
  const ofA = [...a.serving];
  t.ok(ofA.length > 0 && b.serving.size === PARTITIONS - ofA.length);
  a.provesNothing = true;
  a.isGone = true;
  await world.until(20_000);
  t.equal(b.ownership.heldCount, PARTITIONS);

  // As a machine without a log and a snapshot: first in line, and the one that has all of it goes and comes back.
  const again = world.join('a');
  again.provesNothing = true;
  await world.until(30_000);
  t.equal(b.ownership.heldCount, PARTITIONS, 'nothing is handed to who cannot have it');
  b.isGone = true;
  await world.until(50_000);
  t.equal(again.ownership.heldCount, 0);
  const backAgain = world.join('b');
  await world.until(60_000);
  t.equal(backAgain.ownership.heldCount, PARTITIONS, 'who can have it is not kept out');
  const { moves } = world;
  await world.until(120_000);
  t.equal(world.moves, moves, 'and nothing moves for as long as that is so');

  again.provesNothing = false;
  await world.until(140_000);
  t.strictSame(again.serving, new Set(ofA), 'its share comes back to it');
  again.provesNothing = true;
  backAgain.provesNothing = true;
  backAgain.isGone = true;
  await world.until(160_000);
  t.equal(again.ownership.heldCount, ofA.length, 'what it serves it keeps');
  t.strictSame(world.wrong, []);
});

t.test('who is next in line and cannot prove its copy goes on trying to', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  for (const name of NAMES) world.join(name);
  await world.until(20_000);
  const [, next = ''] = rankNodes(NAMES, 'accounts', 0);
  world.nodes.find(({ name }) => name === next)!.isGone = true;
  await world.until(30_000);
  const again = world.join(next);
  again.provesNothing = true;
  await world.until(50_000);
  t.notOk(again.followed.has(0));
  again.provesNothing = false;
  await world.until(70_000);
  t.strictSame([again.isUnproven('accounts', 0), again.followed.has(0)], [false, true]);
});

t.test(
  'nor does it say for ever what it could not prove once, when it is not next in line any more',
  async (t) => {
    const world = new World(randomFrom(SEED));
    world.isCalm = true;
    const [first = '', second = '', last = ''] = rankNodes(NAMES, 'accounts', 0);
    world.join(first);
    const doubting = world.join(last);
    doubting.provesNothing = true;
    await world.until(20_000);
    t.ok(doubting.isUnproven('accounts', 0));
    world.join(second);
    await world.until(30_000);
    doubting.provesNothing = false;
    await world.until(50_000);
    t.strictSame([doubting.isUnproven('accounts', 0), doubting.followed.has(0)], [false, false]);
  },
);

t.test(
  'what no node can begin, since one could not prove it, is begun when that one can, or is gone',
  async (t) => {
    for (const isGone of [false, true]) {
      const world = new World(randomFrom(SEED));
      world.isCalm = true;
      const [first = '', second = '', third = ''] = rankNodes(NAMES, 'accounts', 0);
      const doubting = world.join(first);
      doubting.provesNothing = true;
      await world.until(10_000);
      const others = [world.join(second), world.join(third)];
      await world.until(40_000);
      t.notOk(world.epochs.has(0), 'nobody begins it');
      t.ok(others.every((node) => node.isUnproven('accounts', 0)));
      doubting.provesNothing = false;
      doubting.isGone = isGone;
      await world.until(80_000);
      const due = isGone ? second : first;
      t.strictSame(world.holders(0), [due]);
      const unproven = world.nodes.filter((node) => !node.isGone && node.isUnproven('accounts', 0));
      t.strictSame(unproven, []);
      t.strictSame(world.wrong, []);
    }
  },
);

function everywhere<Result>(look: (partition: number) => Result): Result[] {
  return Array.from({ length: PARTITIONS }, (_, partition) => look(partition));
}

function storm(world: World): void {
  for (let at = 4_000; at < STORMY_MS; at += world.between(100, 8_000)) {
    world.at(at, null, () => {
      const living = world.nodes.filter(({ isGone }) => !isGone);
      const node = living[Math.floor(world.random() * living.length)];
      if (node !== undefined) trouble(world, node);
    });
  }
}

function trouble(world: World, node: Node): void {
  const until = world.now + world.between(100, 8_000);
  const comeBack = (): void => {
    // A node that was told twice to leave comes back once: two of it would be rivals, and rightly say so.
    if (node.isGone) return;
    node.isGone = true;
    world.at(Math.max(until, world.now), null, () => world.join(node.name));
  };
  const kind = world.random();
  if (kind < 0.35) node.standsStillUntil = until;
  else if (kind < 0.7) {
    node.isSlowUntil = world.now + world.between(0, 3_000);
    world.at(node.isSlowUntil, null, () => {
      node.isCutUntil = until;
    });
  } else if (kind < 0.82) comeBack();
  else if (kind < 0.92) {
    node.provesNothing = true;
    world.at(until, null, () => {
      node.provesNothing = false;
    });
  } else {
    world.at(world.now, node, () => {
      void node.ownership
        .drain()
        .then(() => node.ownership.close())
        .then(comeBack);
    });
  }
}
