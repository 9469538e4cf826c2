// What was thrown or rejected with, which may be anything, as an error and as text, and with the file that it is about.

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Of a file that is open the system names none in its errors: they are thrown with this one. */
export async function naming<T>(file: string, use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    throw named(file, error);
  }
}

export function namingNow<T>(file: string, use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw named(file, error);
  }
}

function named(file: string, thrown: unknown): unknown {
  const { message, code, errno, path } = Object(thrown) as NodeJS.ErrnoException;
  if (errno === undefined || path !== undefined) return thrown;
  return Object.assign(new Error(`${message} '${file}'`, { cause: thrown }), { code, path: file });
}
