// The queue of dispatcher and lanes against a plain list.

import fc from 'fast-check';
import t from 'tap';
import { Fifo } from '../../actors/runtime/fifo.ts';

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
t.comment(`SEED=${SEED}`);

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
