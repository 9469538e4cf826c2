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

const ANSWER_MS_MAX = 5_000;

/** What is said there, whole; null: nothing, or not soon. Who has stopped still takes connections. */
export async function answerAt(
  url: string,
): Promise<{ readonly status: number; readonly text: string } | null> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return { status: answer.status, text: await answer.text() };
  } catch {
    return null;
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
