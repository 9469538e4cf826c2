// Counters for the hot path: plain numbers, no labels to hash, no validation; tens of nanoseconds each. metrics.ts turns
// them into Prometheus text when it is asked to.

/** Counts of observations by upper bound, as a Prometheus histogram has them, not yet cumulative. */
export class BucketCounts {
  /** Ascending. */
  readonly bounds: readonly number[];
  /** One more than there are bounds: the last is for what is above all of them. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let i = 0;
    while (i < bounds.length && value > (bounds[i] as number)) i++;
    counts[i] = (counts[i] as number) + 1;
    this.sum += value;
  }

  get total(): number {
    let total = 0;
    for (const count of this.counts) total += count;
    return total;
  }
}

/** Values made on first use and kept under a path of strings: no string is joined on the hot path. */
export class CountTree {
  readonly #root = new Map<string, unknown>();

  add(amount: number, ...path: readonly string[]): void {
    let level = this.#root;
    const last = path.length - 1;
    for (let i = 0; i < last; i++) {
      let next = level.get(path[i] as string) as Map<string, unknown> | undefined;
      if (next === undefined) level.set(path[i] as string, (next = new Map<string, unknown>()));
      level = next;
    }
    const name = path[last] as string;
    const count = level.get(name) as { value: number } | undefined;
    if (count === undefined) level.set(name, { value: amount });
    else count.value += amount;
  }

  *entries(): Generator<readonly [path: readonly string[], value: number]> {
    yield* leaves(this.#root, []);
  }
}

function* leaves(
  level: ReadonlyMap<string, unknown>,
  path: readonly string[],
): Generator<readonly [readonly string[], number]> {
  for (const [name, below] of level) {
    if (below instanceof Map) yield* leaves(below as Map<string, unknown>, [...path, name]);
    else yield [[...path, name], (below as { value: number }).value];
  }
}
