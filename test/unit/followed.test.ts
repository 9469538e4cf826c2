// What a partition of the pollers follows: found by id and by number against a Map, and the same after it was parked.

import fc from 'fast-check';
import t from 'tap';
import { Followed } from '../../actors/pollers/followed.ts';
import { NONE } from '../../actors/pollers/id-index.ts';
import type { Port } from '../../actors/pollers/rail-lane.ts';
import { PHASES, SUBMISSIONS, Watched } from '../../actors/pollers/watched.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { TRANSACTION_TYPES } from '../../src/domain/transaction.ts';
import { collectGarbage } from '../garbage.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

const PORTS = ['mtn-ug', 'airtel-ke', 'loopback'].map((id): Port => {
  return { lane: { rail: { id } }, caller: null, calling: 0, followed: 0 } as unknown as Port;
});

const anyTime = fc.integer({ min: 1_600_000_000_000, max: 4_000_000_000_000 });
const anyText = (maxLength: number) => fc.string({ maxLength, unit: 'grapheme' });
const anyAscii = (maxLength: number) => fc.stringMatching(/^[A-Za-z0-9._:-]*$/, { maxLength });

const anyPending = fc.record({
  accountId: anyAscii(30),
  type: fc.constantFrom(...TRANSACTION_TYPES),
  amount: fc.maxSafeNat(),
  currency: fc.constantFrom(...CURRENCIES),
  country: fc.constantFrom(...COUNTRIES),
  network: fc.constantFrom(...NETWORKS),
  msisdn: anyAscii(16),
  reference: anyAscii(128),
  note: fc.option(fc.oneof(anyText(10), anyText(200), fc.constant(''), fc.constant('a\x01b\x01'))),
  createdAt: anyTime,
  expiresAt: fc.option(anyTime),
  submitted: fc.boolean(),
  unsent: fc.boolean(),
});

/** Of what changes, as far as what waits can have it. */
const anyState = fc.record({
  phase: fc.constantFrom(...PHASES),
  next: fc.constantFrom('submit' as const, 'enquire' as const),
  submission: fc.constantFrom(...SUBMISSIONS),
  acceptanceUntold: fc.boolean(),
  hinted: fc.boolean(),
  alarmed: fc.boolean(),
  refusalsTold: fc.boolean(),
  waitTold: fc.boolean(),
  failing: fc.boolean(),
  submits: fc.nat(),
  enquiries: fc.nat(),
  unanswered: fc.nat(),
  lastUntil: fc.oneof(fc.constant(0), anyTime),
  enquiredAt: fc.oneof(fc.constant(0), anyTime),
  graceUntil: fc.oneof(fc.constant(0), anyTime),
  tells: fc.nat(),
});

const anyWatched = fc
  .record({ pending: anyPending, state: anyState, port: fc.constantFrom(...PORTS) })
  .map(({ pending, state, port }) => {
    const provider = port.lane.rail.id;
    return (id: string) => Object.assign(new Watched({ id, provider, ...pending }, port), state);
  });

function newWatched(id: string): Watched {
  return fc.sample(anyWatched, { seed: SEED, numRuns: 1 })[0]!(id);
}

function parkNew(followed: Followed, id: string): WeakRef<Watched> {
  const watched = newWatched(id);
  followed.add(watched);
  followed.park(watched);
  return new WeakRef(watched);
}

// First in this file: nothing else has made garbage outside of the heap.
t.test('what is parked is no object, and its room is given back', async (t) => {
  const followed = new Followed(PORTS);
  const count = 5_000;
  const outside = () => process.memoryUsage().arrayBuffers;
  const before = outside();
  const objects = Array.from({ length: count }, (_, i) => parkNew(followed, `chg_${i}`));
  const parked = outside() - before;
  t.ok(parked / count > 100 && parked / count < 400, `${parked / count} bytes each`);
  await collectGarbage();
  t.equal(objects.filter((object) => object.deref() !== undefined).length, 0);
  for (let i = 0; i < count; i++) followed.remove(followed.get(`chg_${i}`)!);
  t.equal(followed.size, 0);
  // V8 frees what was outside of its heap in a thread of its own, a while later.
  while (outside() - before > 0.4 * parked) await collectGarbage();
});

function fieldsOf(watched: Watched): Record<string, unknown> {
  return Object.fromEntries(Object.entries(watched));
}

t.test('what is parked comes back as it was, in every field', async () => {
  fc.assert(
    fc.property(fc.array(anyWatched, { maxLength: 5 }), (made) => {
      const followed = new Followed(PORTS);
      const before = made.map((make, index) => {
        const watched = make(`chg_${index}`);
        followed.add(watched);
        const copy = fieldsOf(watched);
        followed.park(watched);
        t.strictSame([watched.state, watched.number], ['parked', NONE], 'the object is not it any more');
        return copy;
      });
      for (const copy of before) {
        t.strictSame(fieldsOf(followed.get(copy['id'] as string)!), copy);
      }
    }),
    { seed: SEED },
  );
});

t.test('by any sequence of steps it finds what a Map would', async () => {
  // Two of each ending: the ending is all that an id is hashed by.
  const anyId = fc
    .nat({ max: 300 })
    .map((n) => `${n % 2 === 0 ? 'chg' : 'pyt'}_${String(n >> 1).padStart(26, '0')}`);
  const anyStep = fc.record({ what: fc.constantFrom('add', 'remove', 'park', 'get'), id: anyId });
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 1_000, size: 'max' }), anyWatched, (steps, make) => {
      const followed = new Followed(PORTS);
      const map = new Map<string, number>();
      for (const { what, id } of steps) {
        if (followed.has(id) !== map.has(id)) return false;
        if (what === 'add' && !map.has(id)) {
          const watched = make(id);
          followed.add(watched);
          map.set(id, watched.number);
        }
        const watched = followed.get(id);
        if (watched?.id !== (map.has(id) ? id : undefined)) return false;
        if (watched === undefined) continue;
        if (watched.number !== map.get(id) || followed.at(watched.number) !== watched) return false;
        if (what === 'remove') {
          followed.remove(watched);
          map.delete(id);
        } else if (what === 'park') followed.park(watched);
        if (followed.size !== map.size) return false;
      }
      return new Set(map.values()).size === map.size;
    }),
    { seed: SEED },
  );
});

t.test('what does anything but wait stays an object', async (t) => {
  const followed = new Followed(PORTS);
  const changes: Partial<Watched>[] = [
    { state: 'queued' },
    { state: 'calling' },
    { state: 'beginning' },
    { state: 'telling' },
    { state: 'untaken' },
    { state: 'taken' },
    { state: 'asking' },
    { state: 'gone' },
  ];
  for (const [index, change] of changes.entries()) {
    const watched = Object.assign(newWatched(`chg_${index}`), change);
    followed.add(watched);
    followed.park(watched);
    t.equal(followed.get(watched.id), watched, JSON.stringify(change));
  }
  t.equal([...followed.awake()].length, changes.length);
});

t.test('an object that has left is not followed again by a later step', async (t) => {
  const followed = new Followed(PORTS);
  const first = newWatched('chg_1');
  followed.add(first);
  followed.remove(first);
  followed.remove(first);
  t.equal(followed.size, 0);
  const second = newWatched('chg_2');
  followed.add(second);
  followed.remove(first);
  followed.park(first);
  t.equal(followed.get('chg_2'), second);
  t.notOk(followed.has('chg_1'));
  t.equal(followed.size, 1);
});
