// The queue of partitions, dispatcher and lanes against a plain list, and what it holds on to.

import fc from 'fast-check';
import t from 'tap';
import { Fifo } from '../../actors/runtime/fifo.ts';
import { collectGarbage } from '../garbage.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

t.test('whatever is put in comes out in its order, once', async () => {
  const anyStep = fc.record({ push: fc.nat({ max: 12 }), shift: fc.nat({ max: 12 }) });
  fc.assert(
    fc.property(fc.array(anyStep), (steps) => {
      const fifo = new Fifo<number>();
      const list: number[] = [];
      let next = 0;
      for (const { push, shift } of steps) {
        for (let i = 0; i < push; i++) {
          fifo.push(next);
          list.push(next++);
        }
        for (let i = 0; i < shift; i++) {
          if (fifo.peek() !== list[0] || fifo.shift() !== list.shift()) return false;
        }
        if (fifo.size !== list.length) return false;
      }
      return true;
    }),
    { seed: SEED },
  );
});

t.test('what has left is not held on to, however many are still in it', async (t) => {
  const fifo = new Fifo<object>();
  const refs: WeakRef<object>[] = [];
  for (let i = 0; i < 2_000; i++) {
    const item = { i };
    refs.push(new WeakRef(item));
    fifo.push(item);
    if (i % 20 === 0) fifo.shift();
  }
  await collectGarbage();
  t.equal(refs.filter((ref) => ref.deref() !== undefined).length, 1_900);
  t.equal(fifo.size, 1_900);
});

t.test('a long queue that has run empty gives its room back, and goes on', async (t) => {
  const fifo = new Fifo<number>();
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 5_000; i++) fifo.push(i);
    for (let i = 0; i < 5_000; i++) if (fifo.shift() !== i) t.fail('out of order');
    t.equal(fifo.size, 0);
    t.equal(fifo.shift(), undefined);
    t.equal(fifo.peek(), undefined);
  }
});
