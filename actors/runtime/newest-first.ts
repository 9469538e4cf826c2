// What is in memory and what is in views, as one sequence from the highest key down: keys begin with a time, so what was made last comes
// first. Lazily: a page costs what it shows.
//
// Invariants: each key comes once; of a source one item is read ahead, and the next when that was taken and more is asked for; whoever
// stops early ends them all, for ranges of views hold a read transaction.

/** `sources`: each from its highest key down. Of a key that several have, the first one's item comes: memory, which knows better, before
 *  views. */
export function* newestFirst<Item>(
  sources: readonly Iterable<Item>[],
  keyOf: (item: Item) => string,
): Generator<Item, void> {
  const iterators = sources.map((source) => source[Symbol.iterator]());
  const heads: (Head<Item> | null)[] = [];
  const read = (i: number): void => {
    const next = iterators[i]!.next();
    heads[i] = next.done === true ? null : { item: next.value, key: keyOf(next.value) };
  };
  try {
    for (let i = 0; i < iterators.length; i++) read(i);
    for (let first = highest(heads); first !== null; first = highest(heads)) {
      yield first.item;
      for (let i = 0; i < heads.length; i++) if (heads[i]?.key === first.key) read(i);
    }
  } finally {
    for (const iterator of iterators) iterator.return?.();
  }
}

interface Head<Item> {
  readonly item: Item;
  readonly key: string;
}

function highest<Item>(heads: readonly (Head<Item> | null)[]): Head<Item> | null {
  let best: Head<Item> | null = null;
  for (const head of heads) if (head !== null && (best === null || head.key > best.key)) best = head;
  return best;
}
