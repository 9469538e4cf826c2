// Random weather over the leases of three nodes: whatever stands still, is cut off, dies, leaves or comes back, and however late
// a write is answered, no two nodes say at one moment that they hold a partition, no epoch is given twice, and when the
// weather is over each partition is held by the node that should have it.

import t from 'tap';
import { rankNodes } from '../../src/nats/rendezvous.ts';
import { PARTITIONS, World } from './leases-world.ts';
import type { Node } from './leases-world.ts';

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
t.comment(`SEED=${SEED}`);

const RUNS = 60;
const NAMES = ['a', 'b', 'c'];
const STORMY_MS = 60_000;
/** Longer than a node waits that leaves in vain, and then comes back. */
const CALM_MS = 50_000;

function seeded(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

t.test('one holder at any time, and in the end the one that should be', async (t) => {
  for (let run = 0; run < RUNS; run++) {
    const seed = SEED + run;
    const world = new World(seeded(seed));
    for (const name of NAMES) world.at(world.between(0, 3_000), null, () => world.join(name));
    storm(world);
    await world.until(STORMY_MS + CALM_MS);
    const held = everywhere((partition) => world.holders(partition));
    const due = everywhere((partition) => rankNodes(NAMES, 'accounts', partition).slice(0, 1));
    t.strictSame([world.wrong.slice(0, 3), held], [[], due], `SEED=${seed}`);
  }
});

t.test(
  'what all nodes were cut off from moves nothing: their own silence proves none of the others',
  async (t) => {
    for (let run = 0; run < RUNS; run++) {
      const seed = SEED + run;
      const world = new World(seeded(seed));
      for (const name of NAMES) world.join(name);
      await world.until(20_000);
      const epochs = (): number[][] =>
        world.nodes.map(({ ownership }) => everywhere((p) => ownership.epoch('accounts', p)));
      const before = epochs();
      const back = world.now + 2_500 + world.random() * 6_000;
      for (const node of world.nodes) node.isCutUntil = back + world.between(0, 300);
      await world.until(40_000);
      t.strictSame(epochs(), before, `SEED=${seed}`);
    }
  },
);

t.test(
  'a node that joins has a warm copy of what is handed over to it, and one that leaves waits for that',
  async (t) => {
    const world = new World(seeded(SEED));
    const a = world.join('a');
    await world.until(10_000);
    const b = world.join('b');
    await world.until(20_000);
    t.ok(a.ownership.heldCount > 0);
    t.ok(b.ownership.heldCount > 0);
    t.equal(a.ownership.heldCount + b.ownership.heldCount, PARTITIONS);
    world.at(world.now, a, () => void a.ownership.drain());
    await world.until(25_000);
    t.equal(b.ownership.heldCount, PARTITIONS);
    t.strictSame(b.unprepared, []);
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
  } else if (kind < 0.85) comeBack();
  else {
    world.at(world.now, node, () => {
      void node.ownership
        .drain()
        .then(() => node.ownership.close())
        .then(comeBack);
    });
  }
}
