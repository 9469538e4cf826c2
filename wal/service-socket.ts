// The socket in a data directory on which its service listens. Who runs there is told by it also to another container, where
// process numbers mean nothing: the system closes it when its process ends, however it ends.
import { connect } from 'node:net';
import { join, relative } from 'node:path';
import { WAL_LIMITS } from './limits.ts';

const socketFile = 'lock';

export interface ServiceSocket {
  readonly path: string;
  /** Bytes; 0: the system takes its path as it is. One that is longer would be cut off, and be nobody's. */
  readonly tooLongBy: number;
}

/** By the shorter of the two ways to write its path, which the system bounds. */
export function serviceSocket(directory: string): ServiceSocket {
  const absolute = join(directory, socketFile);
  const fromHere = relative(process.cwd(), absolute);
  const path = fromHere.length < absolute.length ? fromHere : absolute;
  return { path, tooLongBy: Math.max(0, Buffer.byteLength(path) - WAL_LIMITS.socketPathBytesMax) };
}

/** Only a socket that refuses, or is gone, is nobody's. Rejects where it cannot be told. */
export function isListenedOn(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const connection = connect(path);
    connection.once('connect', () => {
      connection.destroy();
      resolve(true);
    });
    connection.once('error', (error: NodeJS.ErrnoException) => {
      const { code = '' } = error;
      if (['ECONNREFUSED', 'ENOENT', 'ENOTDIR'].includes(code)) resolve(false);
      // As many wait for its holder already as may.
      else if (code === 'EAGAIN') resolve(true);
      else reject(error);
    });
  });
}
