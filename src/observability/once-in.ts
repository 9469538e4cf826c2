// Of what may happen thousands of times a second one line now and then says enough, and how often it happened besides.

/** Of refusals. */
export const REFUSALS_EVERY_MS = 1_000;

/** Null, but once in `intervalMs` the number of calls that got null since. */
export function onceIn(intervalMs: number): () => number | null {
  let nextAt = 0;
  let unseen = 0;
  return () => {
    const now = performance.now();
    if (now < nextAt) {
      unseen++;
      return null;
    }
    nextAt = now + intervalMs;
    const count = unseen;
    unseen = 0;
    return count;
  };
}
