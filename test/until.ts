// How a test waits where nothing tells it: it asks for the condition again and again.

import { nextLook } from '../deploy/wait-for.ts';

/** Asks until `isSo` (without it: until it is true); fails when it takes longer. */
export async function until<T>(
  ask: () => Promise<T> | T,
  isSo: (value: T) => boolean = (value) => value === true,
  atMostMs = 40_000,
): Promise<T> {
  const since = performance.now();
  for (;;) {
    const value = await ask();
    if (isSo(value)) return value;
    if (performance.now() > since + atMostMs) throw new Error(`still not so: ${JSON.stringify(value)}`);
    await nextLook(since);
  }
}
