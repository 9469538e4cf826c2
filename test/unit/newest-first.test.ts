// A list of what is in memory and in views: newest first, of one key memory before views.

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

t.test('the highest key comes first, and of one that several have the first source’s', async () => {
  const anyKey = fc.stringMatching(/^[abc]{1,2}$/);
  fc.assert(
    fc.property(fc.array(fc.array(anyKey), { maxLength: 4 }), (keysOf) => {
      const sources = keysOf.map(rows);
      const expected = sources.flat().toSorted((a, b) => b.key.localeCompare(a.key));
      t.strictSame([...newestFirst(sources, ({ key }) => key)], expected);
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
