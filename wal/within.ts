// A wait with an end, for what may never answer.

/** As `done`; rejects with `problem` when that takes longer than `ms`. */
export async function within<T>(ms: number, done: Promise<T>, problem: string): Promise<T> {
  const { promise: overdue, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(problem)), ms);
  try {
    return await Promise.race([done, overdue]);
  } finally {
    clearTimeout(timer);
  }
}
