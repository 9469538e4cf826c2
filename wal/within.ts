// A wait with an end, for what may never answer.

/** Of the wait. It begins when the rest is over: what came while this process was stopped itself is heard in it. */
const LAST_PART = 0.1;

/** As `done`; rejects with `problem` when that takes longer than `ms`. */
export async function within<T>(ms: number, done: Promise<T>, problem: string): Promise<T> {
  const { promise: overdue, reject } = Promise.withResolvers<never>();
  const end = (): void => reject(new Error(problem));
  let timer = setTimeout(
    () => {
      timer = setTimeout(end, ms * LAST_PART);
    },
    ms * (1 - LAST_PART),
  );
  try {
    return await Promise.race([done, overdue]);
  } finally {
    clearTimeout(timer);
  }
}
