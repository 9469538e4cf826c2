// Who fails to take a partition over, again and again, and leaves it to another; and who does not.

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
