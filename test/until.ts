// How a test waits where nothing tells it: it asks for the condition again and again.

const LOOK_EVERY_MS = 5;

/** Asks until `isSo` (without it: until it is true); fails when it takes longer. */
export async function until<T>(
  ask: () => Promise<T> | T,
  isSo: (value: T) => boolean = (value) => value === true,
  atMostMs = 40_000,
): Promise<T> {
  const deadline = performance.now() + atMostMs;
  for (;;) {
    const value = await ask();
    if (isSo(value)) return value;
    if (performance.now() > deadline) throw new Error(`still not so: ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
