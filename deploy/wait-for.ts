// Waits for a condition, never for a time: of what is in another process, nothing tells.

/** Asks until it is so. */
export async function waitFor(
  what: string,
  timeoutMs: number,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  await waitForValue(what, timeoutMs, async () => ((await condition()) ? true : undefined));
}

/** Asks until there is one, and resolves with it. */
export async function waitForValue<Value>(
  what: string,
  timeoutMs: number,
  find: () => Value | undefined | Promise<Value | undefined>,
): Promise<Value> {
  const since = performance.now();
  for (;;) {
    const found = await find();
    if (found !== undefined) return found;
    if (performance.now() > since + timeoutMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await nextLook(since);
  }
}

const LOOK_MS_MIN = 5;
const LOOK_MS_MAX = 100;

/** Resolves when it is time to ask again: after a tenth of the time waited so far. Who asks takes of the processor what the awaited
 *  needs, and what is waited for long takes seconds. `since`: by `performance.now()`. */
export function nextLook(since: number): Promise<void> {
  const waitedMs = performance.now() - since;
  return new Promise((resolve) => {
    setTimeout(resolve, Math.min(Math.max(waitedMs / 10, LOOK_MS_MIN), LOOK_MS_MAX));
  });
}
