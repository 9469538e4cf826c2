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
  try {
    const heads = iterators.map(nextOf);
    for (let first = highest(heads, keyOf); first !== null; first = highest(heads, keyOf)) {
      yield first;
      const key = keyOf(first);
      for (const [i, head] of heads.entries()) {
        if (head !== null && keyOf(head) === key) heads[i] = nextOf(iterators[i]!);
      }
    }
  } finally {
    for (const iterator of iterators) iterator.return?.();
  }
}

function nextOf<Item>(iterator: Iterator<Item>): Item | null {
  const next = iterator.next();
  return next.done === true ? null : next.value;
}

function highest<Item>(heads: readonly (Item | null)[], keyOf: (item: Item) => string): Item | null {
  let best: Item | null = null;
  for (const head of heads) {
    if (head !== null && (best === null || keyOf(head) > keyOf(best))) best = head;
  }
  return best;
}
