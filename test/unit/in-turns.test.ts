// What is done for every partition lets others come between.
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { InTurns } from '../../src/storage/in-turns.ts';

/** Takes longer than a turn may. */
function work(): void {
  const until = performance.now() + LIMITS.turnMs;
  while (performance.now() < until);
}

t.test('what takes long is done one in a turn, in its order', async (t) => {
  const order: string[] = [];
  const inTurns = new InTurns<string>((each) => {
    order.push(each);
    work();
  });
  inTurns.begin(['a', 'b', 'c']);
  t.strictSame(order, ['a'], 'the first at once');
  inTurns.begin(['d']);
  for (let turn = 1; turn <= 4; turn++) {
    await setImmediate();
    order.push(`turn ${turn}`);
  }
  t.strictSame(
    order,
    ['a', 'b', 'turn 1', 'c', 'turn 2', 'turn 3', 'turn 4'],
    'none begins while others are left',
  );
  inTurns.begin(['e']);
  t.equal(order.at(-1), 'e', 'it begins anew when all are through');
  inTurns.begin([]);
  await setImmediate();
  t.equal(order.at(-1), 'e', 'of none nothing is done');
});
