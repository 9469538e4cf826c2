// That no service runs on a data directory whose log is to be written. `WriterLock` knows its holder by a process number, and
// that means nothing in another container on the same volume. A service also holds its directory by a socket that it listens
// on (src/wiring/data-directory.ts), and who listens is answered there too.
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { join, relative } from 'node:path';
import { WAL_LIMITS } from '../limits.ts';

/** Of the data directory. */
const socketFile = 'lock';

export async function assertStopped(directory: string): Promise<void> {
  const absolute = join(directory, socketFile);
  const fromHere = relative(process.cwd(), absolute);
  // The system bounds a socket's path: one that is cut off is nobody's.
  const socket = fromHere.length < absolute.length ? fromHere : absolute;
  if (Buffer.byteLength(socket) > WAL_LIMITS.socketPathBytesMax && existsSync(absolute)) {
    throw new Error(
      `${directory} is too long to tell whether a service uses it: give a shorter path with --data, a symbolic link's`,
    );
  }
  const problem = await new Promise<string | null>((resolve) => {
    const connection = connect(socket);
    connection.once('connect', () => {
      connection.destroy();
      resolve('is in use by a service: stop it first');
    });
    connection.once('error', ({ code = '', message }: NodeJS.ErrnoException) => {
      const isNobodys = ['ECONNREFUSED', 'ENOENT', 'ENOTDIR'].includes(code);
      resolve(isNobodys ? null : `may be in use by a service: ${message}`);
    });
  });
  if (problem !== null) throw new Error(`${directory} ${problem}`);
}
