// That no service runs on a data directory whose log is to be written. `WriterLock` knows its holder by a process number, and
// that means nothing in another container on the same volume; its socket is known there too.
import { existsSync } from 'node:fs';
import { isListenedOn, serviceSocket } from '../service-socket.ts';
import { messageOf } from '../thrown.ts';

export async function assertStopped(directory: string): Promise<void> {
  const { path, tooLongBy } = serviceSocket(directory);
  if (tooLongBy > 0 && existsSync(path)) {
    throw new Error(
      `${directory} is too long to tell whether a service uses it: give a shorter path with --data, a symbolic link's`,
    );
  }
  const isInUse = await isListenedOn(path).catch((error: unknown) => {
    throw new Error(`${directory} may be in use by a service: ${messageOf(error)}`, { cause: error });
  });
  if (isInUse) throw new Error(`${directory} is in use by a service: stop it first`);
}
