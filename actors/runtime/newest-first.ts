// What is in memory and what is in views, as one sequence from the highest key down: keys begin with a time, so what was made last comes
// first. Lazily: a page costs what it shows.
//
// Invariants: of a source one item is read ahead, and the next when that was taken and more is asked for; whoever stops early ends them
// all, for ranges of views hold a read transaction.

/** `sources`: each from its highest key down. Of a key that several have, the first source's item comes first. What memory knows better
 *  its views' source leaves out. */
export function* newestFirst<Item>(
  sources: readonly Iterable<Item>[],
  keyOf: (item: Item) => string,
): Generator<Item, void> {
  const iterators = sources.map((source) => source[Symbol.iterator]());
  try {
    const heads = iterators.map((iterator) => nextOf(iterator, keyOf));
    for (let first = highest(heads); first !== -1; first = highest(heads)) {
      yield heads[first]!.item;
      heads[first] = nextOf(iterators[first]!, keyOf);
    }
  } finally {
    for (const iterator of iterators) iterator.return?.();
  }
}

interface Head<Item> {
  readonly item: Item;
  readonly key: string;
}

function nextOf<Item>(iterator: Iterator<Item>, keyOf: (item: Item) => string): Head<Item> | null {
  const next = iterator.next();
  return next.done === true ? null : { item: next.value, key: keyOf(next.value) };
}

/** Which; -1: there is none any more. */
function highest(heads: readonly (Head<unknown> | null)[]): number {
  let best = -1;
  for (let i = 0; i < heads.length; i++) {
    const head = heads[i];
    if (head && (best === -1 || head.key > heads[best]!.key)) best = i;
  }
  return best;
}
