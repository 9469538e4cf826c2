// A data directory whose log is to be written: no service runs on it, and none starts meanwhile. `WriterLock` knows its holder by
// a process number, and that means nothing in another container on the same volume; the socket is known there too.
import { holdDirectory } from '../directory-socket.ts';
import { makeWithoutParents } from '../make-with-parents.ts';
import { messageOf } from '../thrown.ts';
import { letServicesGoFirst } from './priority.ts';

export async function whileStopped<T>(directory: string, use: () => Promise<T>): Promise<T> {
  makeWithoutParents(directory);
  const held = await holdDirectory(directory).catch((error: unknown) => {
    throw new Error(`${directory} may be in use by a service: ${messageOf(error)}`, { cause: error });
  });
  if (held === null) throw new Error(`${directory} is in use by a service: stop it first`);
  letServicesGoFirst();
  try {
    return await use();
  } finally {
    await held.release();
  }
}
