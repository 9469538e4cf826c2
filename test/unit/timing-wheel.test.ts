// The pollers' timing wheel against a plain list of due times.

import fc from 'fast-check';
import t from 'tap';
import { NONE } from '../../actors/pollers/id-index.ts';
import { TimingWheel } from '../../actors/pollers/timing-wheel.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

const START = 1_700_000_000_000;
/** As far as the wheel reaches, and a little. */
const BEYOND_MS = 16_500;

/** Everything that is due, in the order in which it is given. */
function takeAll(wheel: TimingWheel, now: number): number[] {
  const taken: number[] = [];
  for (;;) {
    const number = wheel.takeDue(now);
    if (number === NONE) return taken;
    taken.push(number);
  }
}

function sorted(numbers: readonly number[]): string {
  return numbers.toSorted((a, b) => a - b).join(' ');
}

t.test('any sequence of steps takes what a list would take, and not a millisecond early', (t) => {
  // Beyond what the wheel has room for at first, too.
  const anyNumber = fc.oneof(fc.nat({ max: 8 }), fc.constantFrom(63, 64, 200, 1_000));
  const anyDelayMs = fc.oneof(
    fc.integer({ min: -50, max: 50 }),
    fc.integer({ min: -5, max: 3 * BEYOND_MS }),
    fc.integer({ min: 0, max: 300_000_000 }),
  );
  const anyStep = fc.oneof(
    fc.record({
      what: fc.constantFrom('set' as const, 'setBy' as const),
      number: anyNumber,
      delayMs: anyDelayMs,
    }),
    fc.record({ what: fc.constant('remove' as const), number: anyNumber }),
    fc.record({
      what: fc.constant('pass' as const),
      ms: fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 2 * BEYOND_MS }), fc.nat({ max: 100_000_000 })),
    }),
  );
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), (steps) => {
        let now = START;
        const wheel = new TimingWheel(now);
        const dues = new Map<number, number>();
        for (const step of steps) {
          if (step.what === 'pass') {
            now += step.ms;
            const expected = [...dues].filter(([, due]) => due <= now).map(([number]) => number);
            for (const number of expected) dues.delete(number);
            if (sorted(takeAll(wheel, now)) !== sorted(expected)) return false;
            continue;
          }
          const { number } = step;
          if (step.what === 'remove') {
            wheel.remove(number);
            dues.delete(number);
            continue;
          }
          const dueAt = now + step.delayMs;
          wheel[step.what](number, dueAt);
          const before = step.what === 'setBy' ? (dues.get(number) ?? Infinity) : Infinity;
          dues.set(number, Math.min(before, dueAt));
        }
        return true;
      }),
      { seed: SEED, numRuns: 2_000 },
    );
  });
  t.end();
});

t.test('within its reach the earliest is taken first', (t) => {
  const wheel = new TimingWheel(START);
  for (const delayMs of [300, 12_000, 7, 301, 11_999, 0]) wheel.set(delayMs, START + delayMs);
  t.strictSame(takeAll(wheel, START + 13_000), [0, 7, 300, 301, 11_999, 12_000]);
  t.end();
});

t.test('what falls due while others are taken is taken as well, and what never does stays', (t) => {
  const wheel = new TimingWheel(START);
  const [never, again] = [1, 2];
  wheel.set(never, Infinity);
  wheel.set(again, START + 5);
  t.equal(wheel.takeDue(START + 10), again);
  wheel.set(again, START + 10);
  t.equal(wheel.takeDue(START + 10), again);
  wheel.set(again, START);
  t.equal(wheel.takeDue(START + 10), again, 'also when that time is past');
  t.strictSame(takeAll(wheel, START + 40 * 86_400_000), [], 'after more than 24 days too');
  t.end();
});

t.test('a time between milliseconds is not taken before it', (t) => {
  const wheel = new TimingWheel(START);
  wheel.set(7, START + 5.5);
  t.strictSame(takeAll(wheel, START + 5.4), []);
  t.strictSame(takeAll(wheel, START + 6), [7]);
  t.end();
});

t.test('what has no number is in no slot: to take it out does nothing', (t) => {
  const wheel = new TimingWheel(START);
  wheel.set(0, START + 1);
  wheel.remove(NONE);
  t.strictSame(takeAll(wheel, START + 1), [0]);
  t.end();
});
