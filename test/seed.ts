// What is random in tests is the same again with the same seed: another one in each run, said in its output, or `SEED`.

interface Says {
  comment(text: string): void;
}

/** Said in the output of `t`. */
export function seedOf(t: Says): number {
  const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
  t.comment(`SEED=${seed}`);
  return seed;
}

/** One of `EVERY` of them, others with another seed: of what would take too long whole each time. EVERY=1: all. */
export function someOf<Item>(t: Says, all: readonly Item[], otherwise: number): Item[] {
  const every = lengthOf(t, 'EVERY', otherwise);
  const first = seedOf(t) % every;
  return all.filter((_, index) => index % every === first);
}

/** How long a test is, by a variable of the environment: said, so that one command makes it as long again. */
export function lengthOf(t: Says, name: 'RUNS' | 'STEPS' | 'EVERY', otherwise: number): number {
  const length = Number(process.env[name] ?? otherwise);
  t.comment(`${name}=${length}`);
  return length;
}

/** Numbers from 0 to below 1. Mulberry32: small, and the same everywhere. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
