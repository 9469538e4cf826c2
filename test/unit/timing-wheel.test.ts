// The pollers' timing wheel against a plain list of due times.

import fc from 'fast-check';
import t from 'tap';
import { TimingWheel } from '../../actors/pollers/timing-wheel.ts';
import { Watched } from '../../actors/pollers/watched.ts';

const START = 1_700_000_000_000;
/** As far as the wheel reaches, and a little. */
const BEYOND_MS = 16_500;

function newWatched(id: string): Watched {
  return new Watched({ id } as never, null as never);
}

/** Everything that is due, in the order in which it is given. */
function takeAll(wheel: TimingWheel, now: number): string[] {
  const taken: string[] = [];
  for (;;) {
    const watched = wheel.takeDue(now);
    if (watched === undefined) return taken;
    taken.push(watched.id);
  }
}

t.test('any sequence of steps takes what a list would take, and not a millisecond early', (t) => {
  const count = 12;
  const anyId = fc.nat({ max: count - 1 });
  const anyDelayMs = fc.oneof(
    fc.integer({ min: -50, max: 50 }),
    fc.integer({ min: -5, max: 3 * BEYOND_MS }),
    fc.integer({ min: 0, max: 300_000_000 }),
  );
  const anyStep = fc.oneof(
    fc.record({ what: fc.constantFrom('set' as const, 'setBy' as const), id: anyId, delayMs: anyDelayMs }),
    fc.record({ what: fc.constant('remove' as const), id: anyId }),
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
        const all = Array.from({ length: count }, (_, index) => newWatched(String(index)));
        const dues = new Map<string, number>();
        for (const step of steps) {
          if (step.what === 'pass') {
            now += step.ms;
            const expected = [...dues].filter(([, due]) => due <= now).map(([id]) => id);
            for (const id of expected) dues.delete(id);
            if (takeAll(wheel, now).toSorted().join(' ') !== expected.toSorted().join(' ')) return false;
            continue;
          }
          const watched = all[step.id]!;
          if (step.what === 'remove') {
            wheel.remove(watched);
            dues.delete(watched.id);
            continue;
          }
          const dueAt = now + step.delayMs;
          wheel[step.what](watched, dueAt);
          const before = step.what === 'setBy' ? (dues.get(watched.id) ?? Infinity) : Infinity;
          dues.set(watched.id, Math.min(before, dueAt));
        }
        return true;
      }),
      { numRuns: 2_000 },
    );
  });
  t.end();
});

t.test('within its reach the earliest is taken first', (t) => {
  const wheel = new TimingWheel(START);
  for (const delayMs of [300, 12_000, 7, 301, 11_999, 0]) {
    wheel.set(newWatched(String(delayMs)), START + delayMs);
  }
  t.strictSame(takeAll(wheel, START + 13_000), ['0', '7', '300', '301', '11999', '12000']);
  t.end();
});

t.test('what falls due while others are taken is taken as well, and what never does stays', (t) => {
  const wheel = new TimingWheel(START);
  const again = newWatched('again');
  wheel.set(newWatched('never'), Infinity);
  wheel.set(again, START + 5);
  t.equal(wheel.takeDue(START + 10)?.id, 'again');
  wheel.set(again, START + 10);
  t.equal(wheel.takeDue(START + 10)?.id, 'again');
  wheel.set(again, START);
  t.equal(wheel.takeDue(START + 10)?.id, 'again', 'also when that time is past');
  t.strictSame(takeAll(wheel, START + 40 * 86_400_000), [], 'after more than 24 days too');
  t.end();
});

t.test('a time between milliseconds is not taken before it', (t) => {
  const wheel = new TimingWheel(START);
  wheel.set(newWatched('half'), START + 5.5);
  t.strictSame(takeAll(wheel, START + 5.4), []);
  t.strictSame(takeAll(wheel, START + 6), ['half']);
  t.end();
});
