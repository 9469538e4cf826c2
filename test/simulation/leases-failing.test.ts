// Who fails to take a partition over, again and again, and leaves it to another; and who does not. And who leaves while nobody can be told
// of it.

import { NatsError } from 'nats';
import t from 'tap';
import { NotSoon } from '../../src/bus/ownership.ts';
import { LIMITS } from '../../src/limits.ts';
import { ReplicaUnavailable } from '../../src/nats/log/stream-replica.ts';
import { PARTITIONS, World } from './leases-world.ts';
import { randomFrom, seedOf } from '../seed.ts';

const SEED = seedOf(t);

t.test('who fails for long to open a log lets another have it, and tries again much later', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const [a, b] = [world.join('a'), world.join('b')];
  await world.until(10_000);
  const ofA = [...a.serving];
  t.ok(ofA.length > 0 && ofA.length < PARTITIONS);
  a.isGone = true;
  const again = world.join('a');
  again.isBroken = true;
  await world.until(20_000 + LIMITS.leaseLeftMs + LIMITS.leaseMs);
  t.equal(b.ownership.heldCount, PARTITIONS);
  const { moves } = world;
  await world.until(LIMITS.takeOverFailingMs * 0.9);
  t.equal(world.moves, moves, 'and nothing moves');
  // It asks for them once more.
  await world.until(LIMITS.takeOverFailingMs + 60_000);
  t.ok(world.moves > moves);
  t.equal(b.ownership.heldCount, PARTITIONS, 'that it fails again is found out at once');
  again.isBroken = false;
  await world.until(LIMITS.takeOverFailingMs * 2 + 90_000);
  t.strictSame([world.wrong, again.serving], [[], new Set(ofA)]);
});

t.test('what failed before another had the partition is no part of a row that begins later', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const a = world.join('a');
  a.isBroken = true;
  world.join('b');
  await world.until(LIMITS.leaseLeftMs / 2);
  const d = world.join('d');
  await world.until(LIMITS.leaseLeftMs);
  a.isBroken = false;
  await world.until(120_000);
  const ofA = [...a.serving];
  t.ok(d.serving.size > 0);
  // Once.
  a.brokenBy = class extends Error {
    constructor(what: string) {
      super(what);
      a.isBroken = false;
    }
  };
  a.isBroken = true;
  d.isGone = true;
  await world.until(120_000 + LIMITS.leaseLeftMs);
  t.notOk(a.isBroken);
  t.ok(a.serving.size > ofA.length);
  t.strictSame([world.wrong, world.nodes[1]!.nodes.get('a')?.value.failing], [[], undefined]);
});

t.test('nobody is passed over for what others would meet too, or would write in the place of', async (t) => {
  for (const brokenBy of [NotSoon, NatsError, ReplicaUnavailable]) {
    const world = new World(randomFrom(SEED));
    world.isCalm = true;
    const [a, b] = [world.join('a'), world.join('b')];
    await world.until(10_000);
    const ofB = b.ownership.heldCount;
    t.ok(ofB < PARTITIONS);
    a.isGone = true;
    const again = world.join('a');
    again.isBroken = true;
    again.brokenBy = brokenBy as typeof Error;
    await world.until(120_000);
    t.equal(b.ownership.heldCount, ofB);
    again.isBroken = false;
    await world.until(150_000);
    t.strictSame([world.wrong, again.ownership.heldCount], [[], PARTITIONS - ofB]);
  }
});

t.test('a node that leaves while NATS is away waits no longer than an election takes', async (t) => {
  for (const awayMs of [0, 60_000]) {
    const world = new World(randomFrom(SEED));
    world.isCalm = true;
    const [a, b] = [world.join('a'), world.join('b')];
    await world.until(10_000);
    t.ok(a.serving.size > 0 && b.serving.size > 0);
    for (const node of [a, b]) node.isCutUntil = Infinity;
    await world.until(10_000 + awayMs);
    const begunAt = world.now;
    let leftAt = Infinity;
    world.at(begunAt, a, () => void a.ownership.drain().then(() => (leftAt = world.now)));
    await world.until(begunAt + LIMITS.drainMs * 3);
    t.equal(a.openCount, 0);
    const most = (awayMs === 0 ? LIMITS.leaseMs + LIMITS.leaseLeftMs : 0) + LIMITS.streamAckMs * 4;
    t.ok(leftAt - begunAt < most, `after ${leftAt - begunAt} ms, away for ${awayMs} ms before`);
  }
});

t.test('a node that leaves waits no longer for what it cannot hand over than it is given', async (t) => {
  const world = new World(randomFrom(SEED));
  world.isCalm = true;
  const [a, b] = [world.join('a'), world.join('b')];
  await world.until(10_000);
  t.ok(a.serving.size > 0);
  // Nobody can take what it has, nor does its log let go of that.
  b.preparesUntil = a.releasesUntil = Infinity;
  const begunAt = world.now;
  let leftAt = Infinity;
  world.at(begunAt, a, () => void a.ownership.drain().then(() => (leftAt = world.now)));
  const most = (LIMITS.drainMs + LIMITS.handOverMs + LIMITS.streamAckMs * 2) / a.rate;
  await world.until(begunAt + most);
  t.ok(leftAt - begunAt <= most, `after ${leftAt - begunAt} ms`);
  t.ok(leftAt - begunAt >= LIMITS.drainMs, 'and no shorter than others may need');
  t.ok(a.problems.some((each) => /^accounts\/\d could not be handed over in time$/.test(each)));
});

t.test(
  'nor does one that leaves during an election: others have what it had as soon as that is over',
  async (t) => {
    const world = new World(randomFrom(SEED));
    world.isCalm = true;
    const [a, b] = [world.join('a'), world.join('b')];
    await world.until(10_000);
    const unprepared = b.unprepared.length;
    for (const node of [a, b]) node.isCutUntil = 18_000;
    let leftAt = Infinity;
    world.at(world.now, a, () => void a.ownership.drain().then(() => (leftAt = world.now)));
    await world.until(17_000);
    t.equal(leftAt, Infinity);
    await world.until(25_000);
    t.ok(leftAt < Infinity);
    t.equal(b.ownership.heldCount, PARTITIONS);
    t.strictSame([world.wrong, b.unprepared.length], [[], unprepared]);
  },
);
