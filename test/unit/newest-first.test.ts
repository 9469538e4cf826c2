// A list of what is in memory and in views: newest first, each once, memory before views.

import fc from 'fast-check';
import t from 'tap';
import { newestFirst } from '../../actors/runtime/newest-first.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

interface Row {
  readonly key: string;
  readonly from: number;
}

const rows = (keys: readonly string[], from: number): Row[] => {
  return [...new Set(keys)].toSorted((a, b) => (a < b ? 1 : -1)).map((key) => ({ key, from }));
};

t.test('each key comes once, the highest first, from the first source that has it', async () => {
  const anyKey = fc.stringMatching(/^[abc]{1,2}$/);
  fc.assert(
    fc.property(fc.array(fc.array(anyKey), { maxLength: 4 }), (keysOf) => {
      const sources = keysOf.map(rows);
      const firstFrom = new Map<string, number>();
      for (const { key, from } of sources.flat()) if (!firstFrom.has(key)) firstFrom.set(key, from);
      const expected = [...firstFrom].toSorted(([a], [b]) => (a < b ? 1 : -1));
      const given = Array.from(
        newestFirst(sources, ({ key }) => key),
        ({ key, from }) => [key, from],
      );
      t.strictSame(given, expected);
    }),
    { seed: SEED },
  );
});

t.test('who stops early ends every source, of which one item is read ahead', async (t) => {
  const read: string[] = [];
  const ended: string[] = [];
  function* source(name: string, keys: readonly string[]): Generator<string, void> {
    try {
      for (const key of keys) {
        read.push(name + key);
        yield key;
      }
    } finally {
      ended.push(name);
    }
  }
  const sources = [source('memory ', ['9', '7', '5']), source('views ', ['8', '6', '4'])];
  for (const key of newestFirst(sources, (key) => key)) if (key === '8') break;
  t.strictSame(read, ['memory 9', 'views 8', 'memory 7']);
  t.strictSame(ended, ['memory ', 'views ']);
});
